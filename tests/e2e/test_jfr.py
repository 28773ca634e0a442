"""Recordings of the corpus against what other readers made of them.

Four tools read the same files: pyroscope's jfr-parser and server (pprof), async-profiler's jfrconv
(collapsed), and the JDK itself. Vesta keeps what any of them keeps; each golden is compared in the
words of its tool, and the functions below translate. The differences between the tools:

- native frames: jfr-parser writes "library.function", jfrconv only "function"; ours are a function
  in a mapping.
- generated class names: jfr-parser replaces their numbers by "_", the others keep them; ours are
  the function's name and system name.
- the allocated class or the monitor's class: jfrconv makes it the leaf frame; ours is the
  attribute "class".
- events without a stack: jfr-parser and jfrconv leave them out, the JDK does not, nor do we.
- time: jfr-parser multiplies samples by a rate its caller gives (100 Hz in the goldens), jfrconv
  counts samples; ours are worth the period that the recording states.
- delays: jfr-parser prints ticks, jfrconv adds up ticks and converts the sum; ours are converted one
  by one, so a sum may be short by a nanosecond for each event.
"""

import collections
import functools
import gzip
import re
import subprocess

import pytest

from conftest import BUILD, CORPUS, corpus_files
from protobuf import fields, numbers

Location = collections.namedtuple("Location", "type mapping line name system_name")
Sample = collections.namedtuple("Sample", "stack attrs time values")
GOLDEN_PERIOD = 10_000_000


class Profile:
    def __init__(self, period, period_type, time, duration, types):
        self.period, self.period_type, self.time, self.duration = period, period_type, time, duration
        self.types = types
        self.samples = []

    def total(self, i=0):
        return sum(s.values[i] for s in self.samples)


class Recording:
    """All that Vesta reads from a file, as tests/formats/jfr_dump.c prints it."""

    def __init__(self, path, *labels):
        done = subprocess.run([str(BUILD / "tests" / "jfr_dump"), str(path), *map(str, labels)],
                              capture_output=True, timeout=60)
        self.error = done.stderr.decode()
        self.profiles, self.notes = [], []
        locations, nodes, attrs = {}, {0: ()}, {0: {}}
        for record in done.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]:
            kind, *f = record.split("\t")
            if kind == "L":
                locations[f[0]] = Location(f[1], f[2], int(f[3]), f[4], f[5])
            elif kind == "N":
                nodes[int(f[0])] = nodes[int(f[1])] + (locations[f[2]],)
            elif kind == "A":
                attrs[int(f[0])] = dict(a.split("=", 1) for a in f[1:])
            elif kind == "P":
                self.resource = attrs[int(f[5])]
                self.profiles.append(Profile(int(f[0]), f"{f[1]}/{f[2]}", int(f[3]), int(f[4]), f[6:]))
            elif kind == "S":
                self.profiles[-1].samples.append(
                    Sample(nodes[int(f[0])], attrs[int(f[1])], int(f[2]), tuple(map(int, f[3:]))))
            elif kind == "note":
                self.notes.append(f[0])

    def find(self, *types, period_type=None):
        found = [p for p in self.profiles
                 if p.types == list(types) and period_type in (None, p.period_type)]
        return found[0] if found else None


@functools.lru_cache(maxsize=None)
def read(*paths):
    return Recording(*paths)


def gunzip(path):
    data = path.read_bytes()
    while data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return data


def ticks_per_second(path):
    return int.from_bytes(gunzip(path)[56:64], "big")


def collapse(samples, name_of, value_of, leaf_of=None):
    """{stack: value} with the frames named by name_of, root first; stackless samples left out."""
    sums = collections.Counter()
    for s in samples:
        frames = [name_of(l) for l in s.stack]
        if frames and leaf_of and leaf_of(s):
            frames.append(leaf_of(s))
        if frames:
            sums[";".join(frames)] += value_of(s)
    return +sums


def read_collapsed(path):
    sums = collections.Counter()
    for line in gunzip(path).decode("utf-8", "surrogateescape").splitlines():
        stack, value = line.rsplit(" ", 1)
        sums[stack] += int(value)
    return +sums


def same(ours, golden, slack=0):
    """Equal, or each value short by at most what slack says of its stack."""
    if ours == golden:
        return
    assert sorted(ours) == sorted(golden)
    for stack, value in golden.items():
        assert abs(ours[stack] - value) <= (slack and slack[stack]), stack


# jfr-parser ---------------------------------------------------------------------------------------

LIBRARIES = [
    (r"^(\.?/tmp/)?(libzstd-jni-\d+\.\d+\.\d+-)(\d+)(\.so)( \(deleted\))?$", "libzstd-jni-_.so"),
    (r"^(\.?/tmp/)?(lib)?(amazonCorrettoCryptoProvider)(NativeLibraries\.)?([0-9a-f]{16})"
     r"(/libcrypto|/libamazonCorrettoCryptoProvider)?(\.so)( \(deleted\))?$",
     "libamazonCorrettoCryptoProvider_.so"),
    (r"^(\.?/tmp/)?(libasyncProfiler)-(linux-arm64|linux-musl-x64|linux-x64|macos)-"
     r"(17b9a1d8156277a98ccc871afa9a8f69215f92)(\.so)( \(deleted\))?$", "libasyncProfiler-_.so"),
]


def pyroscope_name(location):
    if location.type == "jvm":
        return location.name
    library = location.mapping
    for pattern, stable in LIBRARIES:
        library = re.sub(pattern, stable, library)
    return f"{library}.{location.name}"


def pyroscope_frame(location):
    return f"{pyroscope_name(location)}:{location.line}"


def pyroscope_goldens(suffix):
    folder = CORPUS / "jfr" / "jfr-parser" / "expected"
    return sorted(p.name for p in folder.glob("*" + suffix)) if folder.exists() else []


def open_pyroscope_golden(golden, suffix):
    """The recording, the profile of it that a golden is of, and its values in the golden's units."""
    stem, metric, types = re.fullmatch(r"(.+)_\d+_(process_cpu|wall|memory|mutex|block)_(.+)",
                                       golden[:-len(suffix)]).groups()
    path = CORPUS / "jfr" / "jfr-parser" / (stem + ".jfr.gz")
    labels = CORPUS / "jfr" / "jfr-parser" / (stem + ".labels.pb.gz")
    recording = read(path, *([labels] if labels.exists() else []))
    assert recording.error == ""
    types = [t.replace("__", "/") for t in types.split("+")]
    profile = recording.find(*types, period_type=f"{metric}/count" if "delay/nanoseconds" in types
                             else None)
    assert profile, (types, [p.types for p in recording.profiles])

    def value(sample, i):
        if len(types) == 1:
            assert sample.values[i] % profile.period == 0
            return sample.values[i] // profile.period * GOLDEN_PERIOD
        return sample.values[i]

    ticks = ticks_per_second(path) if "delay/nanoseconds" in types else 10**9
    return profile, value, ticks


@pytest.mark.parametrize("golden", pyroscope_goldens("_expected_collapsed.txt.gz"))
def test_stacks_and_values_are_those_of_jfr_parser(corpus, golden):
    profile, value, ticks = open_pyroscope_golden(golden, "_expected_collapsed.txt.gz")
    want = [collections.Counter() for _ in profile.types]
    text = gunzip(corpus / "jfr" / "jfr-parser" / "expected" / golden).decode()
    for line in text.splitlines():
        stack, values = re.fullmatch(r"(.*) \[([\d -]+)\]", line).groups()
        stack = stack.replace(":4294967295", ":0")  # line -1, not known
        for i, v in enumerate(values.split()):
            want[i][stack] += int(v)
    for i, name in enumerate(profile.types):
        ours = collapse(profile.samples, pyroscope_frame, lambda s: value(s, i))
        slack = 0
        if name.startswith("delay/") and ticks != 10**9:
            slack = collapse(profile.samples, pyroscope_frame, lambda s: 1)
            want[i] = collections.Counter({k: v * 10**9 // ticks for k, v in want[i].items()})
        same(ours, +want[i], slack)


def read_printed_pprof(text):
    """Samples (values, location ids, labels) and locations of a profile printed by Go's pprof."""
    head, rest = text.split("Samples:\n", 1)
    samples, locations = rest.split("\nLocations\n", 1)
    locations = locations.split("\nMappings", 1)[0]
    parsed = []
    for line in samples.split("\n")[1:]:
        if m := re.match(r"^ *((?:-?\d+ *)+): ([\d ]*)$", line):
            parsed.append(([int(v) for v in m[1].split()], m[2].split(), {}))
        elif m := re.match(r"^ +(.+)$", line):
            parsed[-1][2].update(re.findall(r"(\S+?):\[([^\]]*)\]", m[1]))
    table = {}
    for line in locations.split("\n"):
        m = re.match(r"^ *(\d+): 0x0 M=1 (.*) :(\d+):0 s=0\(\)$", line)
        table[m[1]] = f"{m[2]}:{m[3]}".replace(":4294967295", ":0")
    return head, parsed, table


@pytest.mark.parametrize("golden", pyroscope_goldens("_expected.txt.gz"))
def test_labels_and_period_types_are_those_of_jfr_parser(corpus, golden):
    profile, value, ticks = open_pyroscope_golden(golden, "_expected.txt.gz")
    head, samples, table = read_printed_pprof(
        gunzip(corpus / "jfr" / "jfr-parser" / "expected" / golden).decode())
    want = [collections.Counter() for _ in profile.types]
    for values, ids, labels in samples:
        stack = ";".join(table[i] for i in reversed(ids)), labels.get("thread_name")
        for i, v in enumerate(values):
            want[i][stack] += v
    for i, name in enumerate(profile.types):
        if name.startswith("delay/") and ticks != 10**9:
            continue  # the collapsed golden compares these
        ours = collections.Counter()
        for s in profile.samples:
            if s.stack:
                ours[";".join(map(pyroscope_frame, s.stack)),
                     s.attrs.get("thread_name")] += value(s, i)
        assert +ours == +want[i]
    assert f"PeriodType: {profile.period_type.replace('/', ' ')}" in head.split("\n")


def read_pprof(data):
    """[(stack, value)] of an uncompressed pprof protobuf with one sample type."""

    samples, locations, functions, strings = [], {}, {}, []
    for field, v in fields(data):
        if field == 2:
            ids, values = [], []
            for k, x in fields(v):
                (ids if k == 1 else values if k == 2 else []).extend(numbers(x) if k < 3 else [])
            samples.append((ids, values[0]))
        elif field == 4:
            f = dict(fields(v))
            locations[f[1]] = dict(fields(f[4]))
        elif field == 5:
            f = dict(fields(v))
            functions[f[1]] = f[2]
        elif field == 6:
            strings.append(v.decode())

    def name(i):
        line = locations[i]
        number = line.get(2, 0)
        return f"{strings[functions[line[1]]]}:{0 if number == 0xffffffff else number}"

    sums = collections.Counter()
    for ids, value in samples:
        sums[";".join(name(i) for i in reversed(ids))] += value
    return sums


ALL_LABELS = "17241709254077376921"  # the hash of no labels: in the goldens, the whole recording


def test_profiles_are_those_of_the_pyroscope_server(corpus):
    """It splits a recording by sample type and, given labels, by label set: a file for each."""
    goldens = collections.defaultdict(list)
    for path in sorted((corpus / "jfr" / "pyroscope-pprof").glob("*.pb.gz")):
        stem, kind, labels = re.fullmatch(
            r"(.+)\.jfr\.gz\.(?:process_cpu|memory)_(.+)_(?:cpu_nanoseconds|space_bytes)\.(\d+)\.pb\.gz",
            path.name).groups()
        goldens[stem, kind, labels == ALL_LABELS].append(read_pprof(gunzip(path)))
    assert len(goldens) == 14
    for (stem, kind, is_whole), want in goldens.items():
        folder = corpus / "jfr" / "jfr-parser"
        labels = [] if is_whole else [folder / (stem + ".labels.pb.gz")]
        recording = read(folder / (stem + ".jfr.gz"), *labels)
        profile, i = next((p, i) for p in recording.profiles for i, t in enumerate(p.types)
                          if t.replace("/", "_") == kind)
        groups = collections.defaultdict(list)
        for s in profile.samples:
            if is_whole or "thread_name" in s.attrs:
                groups[s.attrs.get("thread_name")].append(s)
        ours = [collapse(g, pyroscope_frame, lambda s: s.values[i]) for g in groups.values()]
        total = lambda sums: sum(sums.values())
        assert sorted(ours, key=total) == sorted(want, key=total), (stem, kind)


@pytest.mark.parametrize("name, kind, types, period", [
    ("cpu", 0, ("cpu/nanoseconds",), True),
    ("wall", 0, ("wall/nanoseconds",), True),
    ("alloc_in_new_tlab_objects", 0, None, False),
    ("alloc_in_new_tlab_bytes", 1, None, False),
    ("alloc_outside_tlab_objects", 0, None, False),
    ("alloc_outside_tlab_bytes", 1, None, False),
    ("lock_count", 0, ("contentions/count", "delay/nanoseconds"), False),
    ("lock_duration", 1, ("contentions/count", "delay/nanoseconds"), False),
])
def test_the_first_pyroscope_goldens_hold(corpus, name, kind, types, period):
    folder = corpus / "jfr" / "pyroscope-2023" / "no_labels"
    if types is None:
        stem = name.rsplit("_", 1)[0]
        types = (f"{stem}_objects/count", f"{stem}_bytes/bytes")
    profile = read(folder / "jfr.bin.gz").find(*types)
    ours = collapse(profile.samples, lambda l: l.name,
                    lambda s: s.values[kind] // (profile.period if period else 1))
    assert ours == read_collapsed(folder / f"jfr-{name}.txt")


# jfrconv ------------------------------------------------------------------------------------------

def jfrconv_name(location):
    if location.type == "jvm" and location.system_name:
        return re.sub(r"^\.", "", location.system_name.split("(", 1)[0])
    return location.name


def jfrconv_samples(recording, kind):
    """What jfrconv takes for a --kind: pairs of a sample and its value. With event=wall we make two
    samples of one event, one of them in the wall profile."""
    if kind in ("default", "cpu", "wall"):
        wall = recording.find("wall/nanoseconds")
        chosen = [wall] if wall else [recording.find("cpu/nanoseconds"),
                                      recording.find("native/nanoseconds")]
        return [(s, s.values[0] // p.period) for p in chosen if p for s in p.samples]
    wanted = {"alloc": "alloc_", "lock": "contentions/", "nativemem": "malloc_"}
    stem, _, total = kind.partition("_")
    return [(s, s.values[1 if total else 0]) for p in recording.profiles
            if p.types[0].startswith(wanted[stem]) for s in p.samples]


def jfrconv_collapse(recording, kind, value_of=lambda pair: pair[1]):
    leaf = (lambda s: s.attrs.get("class")) if kind.startswith(("alloc", "lock")) else None
    pairs = jfrconv_samples(recording, kind)
    values = {id(s): value_of((s, v)) for s, v in pairs}
    return collapse([s for s, v in pairs], jfrconv_name, lambda s: values[id(s)], leaf)


def jfrconv_goldens():
    return sorted(str(p.relative_to(CORPUS)) for p in (CORPUS / "jfr").glob("**/expected/*.collapsed.gz")
                  if ".jfr" in p.name)


@pytest.mark.parametrize("golden", jfrconv_goldens())
def test_stacks_and_values_are_those_of_jfrconv(corpus, golden):
    path = corpus / golden
    file, kind = re.fullmatch(r"(.+?\.jfr(?:\.gz)?)\.(\w+)\.collapsed\.gz", path.name).groups()
    source = path.parent.parent / file
    recording = read(source)
    want, classes = collections.Counter(), 0
    for stack, value in read_collapsed(path).items():
        # "_[j]" and the like tell how a frame was compiled, which is not kept. A class alone is
        # what jfrconv makes of an empty stack: to us that is a sample without a stack.
        frames = [re.sub(r"_\[[0jik1]\]$", "", f) for f in stack.split(";")]
        if kind.startswith(("alloc", "lock")) and len(frames) == 1 and "." in frames[0]:
            classes += value
        else:
            want[";".join(frames)] += value
    ours = jfrconv_collapse(recording, kind)
    assert sum(v for s, v in jfrconv_samples(recording, kind) if not s.stack) >= classes
    slack = 0
    if kind == "lock_ns" and ticks_per_second(source) != 10**9:
        slack = jfrconv_collapse(recording, kind, lambda pair: 1)
    if file == "java17-multichunk.jfr":
        # An event may refer to a stack of the chunk before its own. jfrconv looks there; the JDK
        # does not, since ids need not mean the same there, and nor do we.
        missing = sum(v for s, v in jfrconv_samples(recording, kind) if not s.stack) - classes
        slack = collections.Counter(dict.fromkeys(want, missing))
    same(ours, want, slack)


# The JDK ------------------------------------------------------------------------------------------

JDK_FIELDS = {
    "ExecutionSample.count": ("cpu/nanoseconds", 0),
    "ObjectAllocationSample.weight": ("alloc_sample_objects/count", 1),
    "ObjectAllocationInNewTLAB.tlabSize": ("alloc_in_new_tlab_objects/count", 1),
    "ObjectAllocationOutsideTLAB.allocationSize": ("alloc_outside_tlab_objects/count", 1),
}


def jdk_name(location):
    return jfrconv_name(location).replace("/", ".")


@pytest.mark.parametrize("golden", sorted(
    p.name for p in (CORPUS / "jfr" / "own" / "expected").glob("java17-*.collapsed.gz")
    if ".jfr" not in p.name))
def test_stacks_and_values_are_those_of_the_jdk(corpus, golden):
    stem, event, field = golden.split(".")[:3]
    first, i = JDK_FIELDS[f"{event}.{field}"]
    recording = read(corpus / "jfr" / "own" / (stem + ".jfr"))
    profile = next(p for p in recording.profiles if p.types[0] == first)
    want = collections.Counter()
    for stack, value in read_collapsed(corpus / "jfr" / "own" / "expected" / golden).items():
        want[stack.removeprefix("[truncated];")] += value
    no_stack = want.pop("[no stack]", 0)
    period = profile.period if i == 0 else 1
    assert collapse(profile.samples, jdk_name, lambda s: s.values[i] // period) == want
    assert sum(s.values[i] // period for s in profile.samples if not s.stack) == no_stack


# Facts --------------------------------------------------------------------------------------------

ROWS = {  # event type -> the first sample type of the profile that has a row for each event
    "ExecutionSample": "cpu/nanoseconds",
    "NativeMethodSample": "native/nanoseconds",
    "WallClockSample": "wall/nanoseconds",
    "ObjectAllocationInNewTLAB": "alloc_in_new_tlab_objects/count",
    "ObjectAllocationOutsideTLAB": "alloc_outside_tlab_objects/count",
    "ObjectAllocationSample": "alloc_sample_objects/count",
    "JavaMonitorEnter": "contentions/count",
    "ThreadPark": "contentions/count",
    "Malloc": "malloc_objects/count",
}


@pytest.mark.parametrize("file", [f for f in corpus_files("jfr/", (".jfr", ".jfr.gz", ".bin.gz"))])
def test_facts_hold(corpus, facts, file):
    fact = facts[file]
    recording = read(corpus / file)
    if "jfr_error" in fact:
        assert f"{file}: jfr at byte 0: " in recording.error
        return
    assert recording.error == ""
    rows = collections.Counter()
    for p in recording.profiles:
        rows[p.types[0]] += len(p.samples)
    want = collections.Counter()
    for event, n in fact["events"].items():
        if event.rsplit(".", 1)[1] in ROWS:
            want[ROWS[event.rsplit(".", 1)[1]]] += n
    if "ExecutionSample" in str(fact["events"]) and "wall/nanoseconds" in rows:
        # event=wall: every event is a wall sample, those of running threads also cpu samples
        want["wall/nanoseconds"] = want.pop("cpu/nanoseconds")
    if rows["wall/nanoseconds"]:
        assert rows.pop("cpu/nanoseconds", 0) <= rows["wall/nanoseconds"]
    assert rows == want
    for kind, text in fact.get("jfrconv", {}).items():
        if m := re.fullmatch(r"(\d+) stacks/(\d+)", text):
            samples = jfrconv_samples(recording, kind)
            rounding = len(samples) if kind == "lock_ns" else 0
            # jfrconv leaves out samples whose stack is missing and keeps those whose stack is empty
            assert sum(v for s, v in samples if s.stack) <= int(m[2]), kind
            assert sum(v for s, v in samples) >= int(m[2]) - rounding, kind


@pytest.mark.parametrize("file", ["jfr/own/java17-profile.jfr", "jfr/own/ap-wall.jfr"])
def test_samples_have_times_and_threads(corpus, file):
    recording = read(corpus / file)
    for p in recording.profiles:
        for s in p.samples:
            assert p.time <= s.time <= p.time + p.duration + 10**9
            assert s.attrs["thread.name"] and int(s.attrs["thread.id"]) > 0
    names = {s.attrs["thread.name"] for p in recording.profiles for s in p.samples}
    assert any(n.startswith(("main", "java")) for n in names), names
    assert int(recording.resource["process.pid"]) > 0
    assert "OpenJDK" in recording.resource["process.runtime.name"]


def test_what_is_not_kept_is_said(corpus):
    notes = "\n".join(read(corpus / "jfr/own/java17-profile.jfr").notes)
    assert "417 jdk.ThreadSleep, 295 jdk.JavaMonitorWait" in notes
    assert "the recorder cut off the outer frames of 18 samples" in notes
    assert "CPU load, mean of 14 readings: JVM user 35.3 %" in notes
    assert "11 profiler.WallClockSleeping" in "\n".join(
        read(corpus / "jfr/jfr-parser/FastSlow_2024_01_16_180855.jfr.gz").notes)


@pytest.mark.parametrize("name, reason", [
    ("trunc-half.jfr", "jfr at byte 0: the chunk is said to be 80005 bytes long and 40002 are left"),
    ("trunc-header.jfr",
     "jfr at byte 0: a chunk header of 68 bytes was expected and only 40 are left"),
])
def test_the_program_refuses_damaged_files_and_says_why(vesta, corpus, name, reason):
    result = vesta("info", corpus / "jfr" / "mutants" / name, check=1)
    assert reason in result.err.decode()
    assert len(result.err.splitlines()) == 1


def test_info_adds_up_all_profiles(vesta, corpus):
    info = vesta("info", "--json", corpus / "jfr/own/java17-profile.jfr", check=0).json
    assert info["format"] == "jfr"
    assert info["profiles"] == 4
    assert info["samples"] == 421 + 4222 + 184 + 414
    totals = {f"{t['type']}/{t['unit']}": t["total"] for t in info["sample_types"]}
    assert totals["cpu/nanoseconds"] == 4_210_000_000
    assert totals["alloc_sample_bytes/bytes"] == 17803885408
    assert totals["contentions/count"] == 598
    assert totals["delay/nanoseconds"] == 23991560649


def test_what_is_written_as_pprof_is_what_was_read(vesta, corpus, tmp_path):
    source = corpus / "jfr/jfr-parser/dump1.jfr.gz"
    vesta("convert", source, "-o", tmp_path / "x.pb.gz", check=0)
    ours = collapse(read(source).profiles[0].samples, lambda l: f"{l.name}:{l.line}",
                    lambda s: s.values[0])
    assert read_pprof(gunzip(tmp_path / "x.pb.gz")) == ours


def test_a_recording_without_samples_is_no_error(vesta, corpus):
    info = vesta("info", "--json", corpus / "jfr/jmc/pid1.jfr", check=0).json
    assert (info["format"], info["profiles"], info["samples"]) == ("jfr", 0, 0)
    assert "2 jdk.SystemProcess" in info["notes"][0]
