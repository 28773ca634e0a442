"""Profiles as plain sums per stack, and what go tool pprof makes of many of them.

A test that says "the merged result equals the sum of the inputs" compares read_pprof() of both.
This reader is small and knows nothing of Vesta, so that both do not share a mistake.
"""

import collections
import gzip
import pathlib
import subprocess

from protobuf import fields, numbers

Profile = collections.namedtuple("Profile", "types sums")

# go tool pprof keeps all inputs in memory, and a command line has an end.
FILES_AT_ONCE = 300


def signed(n):
    return n - (1 << 64) if n >= 1 << 63 else n


def table(messages):
    """By id, the fields of each message, the last of each number."""
    return {m.get(1, 0): m for m in (dict(fields(message)) for message in messages)}


def read_pprof(path):
    """The types, and the values per stack and labels, added up."""
    parts = collections.defaultdict(list)
    for number, value in fields(gzip.decompress(pathlib.Path(path).read_bytes())):
        parts[number].append(value)
    strings = [s.decode() for s in parts[6]]
    mappings, functions = table(parts[3]), table(parts[5])

    def frame(message):
        m = dict(fields(message))
        mapping = mappings.get(m.get(2, 0), {})
        lines = []
        for number, value in fields(message):
            if number == 4:
                line = dict(fields(value))
                f = functions[line.get(1, 0)]
                names = tuple(strings[f.get(i, 0)] for i in (2, 3, 4))
                lines.append((names, signed(f.get(5, 0)), signed(line.get(2, 0))))
        where = (strings[mapping.get(5, 0)], strings[mapping.get(6, 0)])
        return (m.get(3, 0), where, tuple(lines))

    places = {dict(fields(m))[1]: frame(m) for m in parts[4]}
    types = []
    for message in parts[1]:
        t = dict(fields(message))
        types.append((strings[t.get(1, 0)], strings[t.get(2, 0)]))

    sums = {}
    for message in parts[2]:
        stack, values, labels = [], [], []
        for number, value in fields(message):
            if number == 1:
                stack += [places[i] for i in numbers(value)]
            elif number == 2:
                values += [signed(v) for v in numbers(value)]
            else:
                label = dict(fields(value))
                labels.append((strings[label[1]], strings[label.get(2, 0)], label.get(3, 0)))
        key = (tuple(stack), tuple(sorted(labels)))
        before = sums.get(key, [0] * len(types))
        sums[key] = [a + b for a, b in zip(before, values)]
    return Profile(types, sums)


def sum_with_go(paths, work):
    """One pprof file with the sum of all, made by go tool pprof in the folder `work`."""
    paths, work, rounds = list(map(str, paths)), pathlib.Path(work), 0
    while len(paths) > 1 or rounds == 0:
        sums = []
        for i in range(0, len(paths), FILES_AT_ONCE):
            sums.append(str(work / f"sum-{rounds}-{i}.pb.gz"))
            command = ["go", "tool", "pprof", "-symbolize=none", "-proto", f"-output={sums[-1]}"]
            done = subprocess.run([*command, *paths[i : i + FILES_AT_ONCE]], capture_output=True)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.decode(errors="replace"))
        paths, rounds = sums, rounds + 1
    return paths[0]


def differences(a, b):
    """What two profiles disagree in, a sentence each; an empty list when they are equal."""
    found = []
    if a.types != b.types:
        found.append(f"types {a.types} and {b.types}")
    for key in a.sums.keys() | b.sums.keys():
        if a.sums.get(key) != b.sums.get(key):
            leaf = key[0][0] if key[0] else "no frame"
            found.append(f"{leaf}: {a.sums.get(key)} and {b.sums.get(key)}")
    return found
