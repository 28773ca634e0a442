"""OTLP profiles: the corpus's facts, both encodings, and the way from pprof to OTLP and back."""

import collections
import gzip
import re

import pytest

from conftest import CORPUS, collapsed, corpus_files

MESSAGES = [f for f in corpus_files("otlp/", (".pb",)) if "/mutants/" not in f]
PPROF_MAX_BYTES = 600_000


def pprof_files():
    """pprof files that are small enough to be read six times over."""
    return [
        f for f in corpus_files("pprof/")
        if "/mutants/" not in f and (CORPUS / f).stat().st_size < PPROF_MAX_BYTES
    ]


def unmarked(stack):
    """Without the "_[k]" of kernel frames and the like, which only some writers add."""
    return re.sub(r"_\[[a-z0-9]\](?=;|$)", "", stack)


def unmarked_stacks(path):
    """{stack: value} of the profiles in a file."""
    stacks = collections.Counter()
    for stack, value in collapsed(path).items():
        stacks[unmarked(stack)] += value
    return stacks


def canonical(raw):
    """What `vesta raw` prints, free of ids and order: header, types and samples added up."""
    header, _, rest = raw.partition("\nSamples:\n")
    samples, _, rest = rest.partition("\nLocations\n")
    locations, _, mappings = ("\n" + rest).partition("\nMappings\n")
    mapping = dict(re.findall(r"^(\d+): (.*)$", mappings, re.M))
    location = {}
    for line in locations.split("\n"):
        start = re.match(r"\s*(\d+): (.*)$", line)
        if start:
            current, text = start.groups()
            of = re.match(r"(0x[0-9a-f]+) (?:M=(\d+) )?(.*)$", text)
            location[current] = (of[1], mapping.get(of[2], ""), of[3])
        elif line.strip():
            location[current] += (line.strip(),)
    types, *lines = samples.split("\n")
    totals = {}
    sample = None
    entries = []
    for line in lines:
        start = re.match(r"\s*([-\d ]+): ([\d ]*)$", line)
        if start:
            sample = [tuple(map(int, start[1].split())),
                      tuple(location[i] for i in start[2].split()), []]
            entries.append(sample)
        elif line.strip():
            for key, values in re.findall(r"(\S+?):\[(.*?)\]", line):
                sample[2].append((key, tuple(sorted(values.split()))))
    for values, stack, labels in entries:
        key = (stack, tuple(sorted(labels)))
        old = totals.get(key, (0,) * len(values))
        totals[key] = tuple(a + b for a, b in zip(old, values))
    return header, types, totals


@pytest.mark.parametrize("name", MESSAGES)
def test_the_facts_of_a_message_hold(vesta, corpus, facts, name):
    want = facts[name]
    info = vesta("info", "--json", corpus / name, check=0).json
    rows = total = 0
    for key, text in want["by_sample_type"].items():
        numbers = {k: int(v) for k, v in (pair.split("=") for pair in text.split())}
        rows += numbers["values"] or numbers["timestamps"]
        total += numbers["value_sum"] or numbers["timestamps"]
        assert key in [f"{t['type']}/{t['unit']}" for t in info["sample_types"]]
    assert info["format"] == "otlp"
    assert info["profiles"] == want["profiles"]
    assert info["samples"] == rows
    assert sum(t["total"] for t in info["sample_types"]) == total
    assert info["max_depth"] == want["max_depth"]
    # Every table but that of strings begins with an empty element, which is nothing to us.
    assert info["functions"] == want["dictionary"]["function"] - 1
    assert info["mappings"] == want["dictionary"]["mapping"] - 1
    assert info["locations"] == want["dictionary"]["location"] - 1
    keys = {key for resource in info["resources"] for key in resource}
    assert sorted(keys) == sorted(want["resource_attribute_keys"])
    if want["resource_attribute_keys"]:
        assert len(info["resources"]) == want["resource_profiles"]


@pytest.mark.parametrize("name", MESSAGES)
def test_stacks_equal_those_another_reader_found(corpus, name):
    path = corpus / name
    golden = path.parent / "expected" / (path.name + ".stacks.txt.gz")
    want = collections.Counter()
    for line in gzip.open(golden, "rt").read().splitlines():
        if not line.startswith("# "):
            stack, _, value = line.rpartition(" ")
            # A frame of which nothing is known is "+0x0" there.
            want[unmarked(re.sub(r"(^|;)\+0x0(?=;|$)", r"\1[unknown]", stack))] += int(value)
    assert unmarked_stacks(path) == want


@pytest.mark.parametrize("name", [f for f in MESSAGES if (CORPUS / (f[:-3] + ".json")).exists()])
def test_json_says_the_same_as_protobuf(vesta, corpus, name):
    one = vesta("info", "--json", corpus / name, check=0).json
    two = vesta("info", "--json", corpus / (name[:-3] + ".json"), check=0).json
    assert two.pop("format") == "otlp-json"
    del one["format"]
    assert one == two


@pytest.mark.parametrize("extension", [".otlp", ".otlp.json"])
@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_back_as_it_was(vesta, corpus, tmp_path, name, extension):
    out = tmp_path / ("out" + extension)
    vesta("convert", corpus / name, "-o", out, check=0)
    before = vesta("info", "--json", corpus / name, check=0).json
    after = vesta("info", "--json", out, check=0).json
    # Samples that differ in nothing become one, and the window must hold the times.
    for key in ["profiles", "sample_types", "functions", "mappings", "max_depth",
                "time_unix_ns", "period", "period_type", "label_keys", "resources"]:
        if key == "label_keys":
            assert sorted(before[key]) == sorted(after[key])
        else:
            assert before[key] == after[key], key
    assert unmarked_stacks(corpus / name) == unmarked_stacks(out)
    if extension == ".otlp":
        assert vesta("info", "--check", out).text == ""


@pytest.mark.parametrize("name", pprof_files())
def test_pprof_survives_the_way_through_otlp(vesta, corpus, tmp_path, name):
    source = corpus / name
    before = vesta("raw", "-symbolize=none", source)
    if before.code != 0:
        pytest.skip("not a profile that can be read")
    want = canonical(before.text)
    for extension in [".otlp", ".otlp.json"]:
        out = tmp_path / ("out" + extension)
        done = vesta("convert", source, "-o", out, check=0)
        lost = [line for line in done.err.decode().splitlines() if line.startswith("lost: ")]
        assert set(lost) <= {"lost: mappings that no location refers to were left out"}
        if extension == ".otlp":
            assert vesta("info", "--check", out).text == ""
        got = canonical(vesta("raw", "-symbolize=none", out, check=0).text)
        assert got[0] == want[0]
        assert got[1] == want[1]
        assert got[2] == want[2]


@pytest.mark.parametrize("name", corpus_files("jfr/")[:8] + corpus_files("perf-script/")[:8])
def test_other_formats_become_messages_that_keep_the_rules(vesta, corpus, tmp_path, name):
    out = tmp_path / "out.otlp"
    done = vesta("convert", corpus / name, "-o", out)
    if done.code != 0:
        pytest.skip("not a profile that can be read")
    assert vesta("info", "--check", out).text == ""
    before = vesta("info", "--json", corpus / name, check=0).json
    after = vesta("info", "--json", out, check=0).json
    assert before["sample_types"] == after["sample_types"]
    assert before["max_depth"] == after["max_depth"]


def test_the_checker_names_the_file_and_the_place(vesta, corpus):
    name = corpus / "otlp" / "ebpf-profile.v1_11.pb"
    done = vesta("info", "--check", name, check=1)
    first = done.text.splitlines()[0]
    assert first.startswith(f"{name}: resource_profiles[0].scope_profiles[0].profiles[0].samples[10]:")
    assert "outside of" in first
    assert "OTLP protobuf only" in vesta(
        "info", "--check", corpus / "otlp" / "ebpf-profile.v1_11.json", check=1).err.decode()


def test_frames_of_the_file_exporter_are_read_as_one_file(vesta, corpus, tmp_path):
    framed = b""
    names = ["otlp/k8s.frame0.v1_8.pb", "otlp/ebpf-profile.v1_11.pb"]
    for name in names:
        message = (corpus / name).read_bytes()
        framed += len(message).to_bytes(4, "big") + message
    path = tmp_path / "profiles"
    path.write_bytes(gzip.compress(framed))
    info = vesta("info", "--json", path, check=0).json
    assert info["profiles"] == 10
    assert info["samples"] == 58 + 189


@pytest.mark.parametrize("name", corpus_files("otlp/mutants/"))
def test_damaged_messages_are_refused_with_a_reason(vesta, corpus, name):
    done = vesta("info", corpus / name, check=1)
    text = done.err.decode()
    assert text.count("\n") == 1
    assert "the file is empty" in text or re.search(r"otlp at byte \d+: .", text)


def test_info_tells_whose_profiles_they_are(vesta, corpus):
    text = vesta("info", corpus / "otlp/ebpf-profile.v1_11.pb", check=0).text
    resources = vesta("info", "--json", corpus / "otlp/ebpf-profile.v1_11.pb", check=0).json["resources"]
    assert text.count('"container.id":') == len(resources) > 0
    assert "(of the longest profile)" in text
