"""pprof files of the corpus: what they hold, what is refused, and what is written again."""

import gzip
import re
import resource
import subprocess

import pytest
from conftest import BUILD, corpus_files

# Refused by pprof too; the rest of the reason is ours.
BROKEN = {
    "pprof/mutants/wire-bad-crc.pb.gz": "gzip member at byte 0 is damaged",
    "pprof/mutants/wire-empty.pb": "the file is empty",
    "pprof/mutants/wire-trunc-gz-half.pb.gz": "gzip member at byte 0 is damaged or cut short",
    "pprof/mutants/wire-trunc-proto.pb": "pprof at byte 624: a length runs past the end",
    "pprof-legacy/go119-threadcreate.debug1.txt": 'pprof-legacy at line 2: not "COUNT @ ADDRESS..."',
}
NOT_PPROF = (".string", ".json")  # texts that pprof prints, and other tools' JSON

MEMORY_LIMIT = 1 << 30


def readable(prefix):
    return [
        name
        for name in corpus_files(prefix)
        if name not in BROKEN and not name.endswith(NOT_PPROF)
    ]


def type_names(info):
    return [f"{t['type']}/{t['unit']}" for t in info["sample_types"]]


@pytest.mark.parametrize("name", readable("pprof/"))
def test_the_facts_of_a_file_hold(vesta, corpus, facts, name):
    want = facts[name]
    info = vesta("info", "--json", corpus / name, check=0).json
    assert info["format"] == "pprof"
    assert info["samples"] == want["samples"]
    assert type_names(info) == want["sample_types"]
    totals = {n: t["total"] for n, t in zip(type_names(info), info["sample_types"])}
    for key, value in want["total"].items():
        assert totals[key] == value
    # Equal elements under different ids are one here, so there may be fewer.
    for key in ("locations", "functions", "mappings", "strings"):
        assert info[key] <= want[key]
    assert info["max_depth"] == want["max_depth"]
    assert info["time_unix_ns"] == want.get("time_nanos", 0)
    assert info["duration_ns"] == want.get("duration_nanos", 0)
    assert info["period"] == want.get("period", 0)
    assert info["comments"] == want.get("comments", [])
    labels = set(want.get("label_keys", {})) | set(want.get("num_label_keys", {}))
    assert set(info["label_keys"]) <= labels


@pytest.mark.parametrize("name", readable("pprof-legacy/"))
def test_the_facts_of_an_older_format_hold(vesta, corpus, facts, name):
    want = facts[name]
    info = vesta("info", "--json", corpus / name, check=0).json
    assert info["format"] == "pprof-legacy"
    totals = [t["total"] for t in info["sample_types"]]
    if "goroutines" in want:
        assert (info["samples"], totals) == (want["goroutines"], [want["goroutines"]])
        assert {"goroutine", "state"} <= set(info["label_keys"])
        return
    if "stacks" in want:  # jemalloc, which pprof does not read
        assert info["samples"] == want["stacks"]
        assert info["period"] == want["sample_period"]
        assert str(totals[-1]) == want["jeprof_total_inuse_unsampled"]
        return
    assert type_names(info) == want["go_sample_types"]
    if name == "pprof-legacy/gobench.heap":
        # One of its lines has numbers and no stack; pprof leaves that out of its totals.
        assert [a - b for a, b in zip(totals, want["go_totals"])] == [7085, 1048724, 1820, 524432]
    else:
        assert totals == want["go_totals"]
    assert info["locations"] >= want["go_locations"]


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_file_is_refused_in_one_line(corpus, name):
    done = subprocess.run(
        [BUILD / "vesta", "info", corpus / name], capture_output=True, timeout=20, preexec_fn=limit_memory
    )
    error = done.stderr.decode()
    assert done.returncode == 1
    assert done.stdout == b""
    assert error.count("\n") == 1
    assert name in error and BROKEN[name] in error


def test_a_bomb_stops_at_the_memory_limit(vesta, tmp_path):
    bomb = tmp_path / "bomb.pb.gz"
    # A string table of zeros without end: 200 MB in 200 KB.
    with gzip.open(bomb, "wb", compresslevel=9) as f:
        f.write(b"\x32\x00")
        block = b"\x32\xff\x7f" + b"\0" * 16383
        for _ in range(200_000_000 // len(block)):
            f.write(block)
    result = vesta("info", "--max-memory", "64M", bomb, check=1)
    assert result.err.count(b"\n") == 1
    assert b"memory limit of 64 MiB reached" in result.err


def raw_profile(pprof, path):
    """What pprof -raw says, with ids replaced by what they stand for and equal samples added up."""
    text = subprocess.run(
        [pprof, "-raw", "-symbolize=none", str(path)], capture_output=True, text=True, check=True
    ).stdout
    head, rest = text.split("Samples:\n", 1)
    samples_text, rest = rest.split("Locations\n", 1)
    locations_text, mappings_text = rest.split("Mappings\n", 1)
    mappings = {}
    for line in mappings_text.splitlines():
        number, _, what = line.partition(": ")
        mappings[number.strip()] = what
    locations, current = {}, None
    for line in locations_text.splitlines():
        found = re.match(r" +(\d+): (0x[0-9a-f]+) ?(?:M=(\d+))? ?(.*)", line)
        if found:
            current = found.group(1)
            mapping = mappings.get(found.group(3), "").replace("[FN]", "")
            locations[current] = [found.group(2), mapping, found.group(4)]
        else:
            locations[current].append(line.strip())
    lines = samples_text.splitlines()
    samples, stack = {}, None
    entries = []
    for line in lines[1:]:
        found = re.match(r"((?: +-?\d+)+): ?([\d ]*)$", line)
        if found:
            values = [int(v) for v in found.group(1).split()]
            stack = tuple(tuple(locations[i]) for i in found.group(2).split())
            entries.append([values, stack, ""])
        else:
            entries[-1][2] += line.strip() + " "
    for values, stack, labels in entries:
        if not any(values):
            continue
        key = (stack, tuple(sorted(re.split(r"[\s\[\]]+", labels))))
        had = samples.get(key, [0] * len(values))
        samples[key] = [a + b for a, b in zip(had, values)]
    return head, lines[0], {k: v for k, v in samples.items() if any(v)}


ROUND_TRIPS = [
    "pprof/go119/cpu.pb.gz",
    "pprof/go119/heap.pb.gz",
    "pprof/c/gperf-cpu.unsymbolized.pb.gz",
    "pprof/node20/heap.pb.gz",
    "pprof/parca/profile-with-labels.pb.gz",
    "pprof/pyroscope/go.cpu.labels.pprof",
    "pprof/pyroscope/profile_rust.pb.gz",
    "pprof/upstream-driver/heap_sizetags.pb.gz",
    "pprof-legacy/cppbench.contention",
    "pprof-legacy/cppbench.cpu",
    "pprof-legacy/cppbench.heap",
    "pprof-legacy/cppbench.thread",
    "pprof-legacy/gobench.cpu",
    "pprof-legacy/gobench.heap",
    "pprof-legacy/gperftools-cpu.prof",
    "pprof-legacy/go119-heap.debug1.txt",
    "pprof-legacy/java.cpu",
    "pprof-legacy/java.heap",
]


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_what_is_written_is_the_same_to_pprof(vesta, corpus, pprof, tmp_path, name):
    written = tmp_path / "out.pb.gz"
    vesta("convert", "-symbolize=none", corpus / name, "-o", written, check=0)
    assert raw_profile(pprof, written) == raw_profile(pprof, corpus / name)


def test_writing_twice_gives_the_same_bytes(vesta, corpus, tmp_path):
    for out in ("a.pb.gz", "b.pb.gz"):
        vesta("convert", corpus / "pprof/go119/cpu.pb.gz", "-o", tmp_path / out, check=0)
    assert (tmp_path / "a.pb.gz").read_bytes() == (tmp_path / "b.pb.gz").read_bytes()
