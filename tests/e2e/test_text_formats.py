"""Collapsed stacks, perf's text and binary files, and the small text formats: corpus facts."""

import collections
import re

import pytest

from conftest import collapsed, corpus_files, totals


def info(vesta, path):
    return vesta("info", "--json", path, check=0).json


# Collapsed stacks


@pytest.mark.parametrize("name", corpus_files("collapsed/"))
def test_collapsed_facts(vesta, corpus, facts, name):
    data, fact = info(vesta, corpus / name), facts[name]
    assert data["format"] == "collapsed"
    kind = data["sample_types"][0]
    if "detail" in fact:
        want = int(re.search(r"total=(\d+)", fact["detail"][0])[1])
        assert kind["total"] == want
        assert data["max_depth"] == int(re.search(r"maxdepth=(\d+)", fact["detail"][0])[1])
        return
    assert data["samples"] == fact["parsed"]
    assert data["max_depth"] == fact["max_depth"]
    if kind["unit"] == "microcount":
        # Fractions are kept in millionths, so each line is right to half of one.
        assert abs(kind["total"] / 1e6 - fact["total"]) <= 0.5e-6 * fact["lines"] + 1e-9
    else:
        assert kind["total"] == fact["total"]


@pytest.mark.parametrize("name", corpus_files("collapsed/"))
def test_collapsed_is_written_as_it_was_read(vesta, corpus, facts, name, tmp_path):
    out = tmp_path / "out.collapsed"
    done = vesta("convert", corpus / name, "-o", out, check=0)
    want = collections.Counter()
    fractions = False
    for line in (corpus / name).read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        frames = [f or "[unknown]" for f in stack.rstrip().split(";")]
        want[";".join(frames)] += float(count)
        fractions = fractions or float(count) != int(float(count))
    got = {}
    for line in out.read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        assert stack not in got, "one line per stack"
        got[stack] = float(count)
    assert set(got) == set(want)
    for stack, count in want.items():
        assert got[stack] == pytest.approx(count, abs=2e-6 if fractions else 0)
    assert b"lost:" not in done.err
    if "distinct_stacks" in facts[name]:
        assert len(got) == facts[name]["distinct_stacks"]


def test_differential_stacks_have_two_counts(vesta, corpus):
    data = info(vesta, corpus / "collapsed/diff/expected/default.txt")
    before, after = info(vesta, corpus / "collapsed/diff/before.txt"), info(
        vesta, corpus / "collapsed/diff/after.txt")
    assert totals(data) == {
        "before": before["sample_types"][0]["total"],
        "after": after["sample_types"][0]["total"],
    }


# perf script


def event_total(data, events):
    """The stackcollapse total: the first event's periods, or its samples when it has none."""
    got = totals(data)
    first = data["sample_types"][0]["type"]
    name = "samples" if first == "samples" else first.removesuffix("_samples")
    for event in events:
        if event in got and (first == "samples" or event == name):
            return got[event]
    return got.get(name, got.get("samples"))


def stackcollapse_fact(fact):
    """(stacks, total) with the last sample, which stackcollapse-perf.pl may lose."""
    note = re.search(r"with one added: (\d+) stacks total (\d+)", fact.get("note", ""))
    if note:
        return int(note[1]), int(note[2])
    return fact["stackcollapse_stacks"], fact["stackcollapse_total"]


@pytest.mark.parametrize("name", corpus_files("perf-script/"))
def test_perf_script_facts(vesta, corpus, facts, name):
    data, fact = info(vesta, corpus / name), facts[name]
    assert data["format"] == "perf-script"
    events = fact.get("event_lines", {})
    got = totals(data)
    if len(events) == 1:
        assert got["samples"] == list(events.values())[0]
    for event, n in events.items():
        if len(events) > 1:
            assert got[event + "_samples"] == n
    total = stackcollapse_fact(fact)[1]
    if total != event_total(data, events):
        # perf-numa-stacks-01 has no empty line at its end either, but no note says so.
        assert name.endswith("perf-numa-stacks-01.txt")
        assert event_total(data, events) == total + 1


def tidy(frame):
    """A frame name as stackcollapse-perf.pl writes it."""
    if frame.endswith("_[k]"):
        frame = frame[:-4]
    if frame.startswith("("):
        return ""  # left out there
    frame = re.sub(r"^0x[0-9a-f]+$", "[unknown]", frame)
    unknown = re.fullmatch(r"(.+)\+0x[0-9a-f]+", frame)
    if unknown:
        return f"[{unknown[1]}]"
    if not re.search(r"\.\(.*\)\.", frame):
        frame = re.sub(r"\((?!anonymous namespace\)).*", "", frame)
    frame = re.sub(r"[\"']", "", frame)
    return re.sub(r"^L(?=.*/)", "", frame)


GOLDENS = {
    "perf-script/flamegraph/": "expected/{stem}-collapsed-jit.txt",
    "perf-script/inferno/": "expected/{stem}-collapsed.txt",
    "perf-script/own/": "expected/{name}.collapsed.txt",
    "perf-script/firefox/": "expected/{name}.collapsed.txt",
}


def golden_cases():
    cases = []
    for folder, pattern in GOLDENS.items():
        for name in corpus_files(folder):
            base = name.rsplit("/", 1)[1]
            golden = folder + pattern.format(stem=base.removesuffix(".txt"), name=base)
            cases.append((name, golden))
    return cases


@pytest.mark.parametrize("name,golden", golden_cases())
def test_perf_script_stacks_are_those_of_stackcollapse(corpus, facts, name, golden):
    if "ipsym" in name:
        pytest.skip("stackcollapse-perf.pl cannot read frames without a file")
    if "single-event" in name:
        pytest.skip("inferno has demangled a Rust name in it")
    got, want = collections.Counter(), collections.Counter()
    for stack, count in collapsed(corpus / name).items():
        frames = [tidy(f) for f in stack.split(";")]
        got[";".join(f for f in frames if f)] += count
    for line in (corpus / golden).read_text(errors="replace").splitlines():
        stack, count = line.rsplit(" ", 1)
        frames = [re.sub(r"_\[[jki]\]$", "", f) for f in stack.split(";")[1:]]  # the first is the comm
        want[";".join(tidy(f) for f in frames)] += int(count)
    missing = want - got
    assert not missing
    # What stackcollapse-perf.pl lost: the last sample of a file without an empty line at its end.
    extra = got - want
    assert len(extra) <= 1


def test_perf_script_labels_and_host(vesta, corpus):
    data = info(vesta, corpus / "perf-script/own/perf.cpu.pidtid.script.txt")
    assert set(data["label_keys"]) == {"thread.name", "process.pid", "thread.id",
                                       "cpu.logical_number"}
    assert data["resources"][0]["host.name"] == "vm"
    assert any("perf's clock" in note for note in data["notes"])


# perf.data


def record_counts(data):
    for note in data["notes"]:
        if note.startswith("records: "):
            pairs = [part.rsplit(" ", 1) for part in note[len("records: "):].split(", ")]
            return {kind: int(n) for kind, n in pairs}
    return {}


@pytest.mark.parametrize("name", [n for n in corpus_files("perf-data/") if "/fuzz/" not in n])
def test_perf_data_facts(vesta, corpus, facts, name):
    data, fact = info(vesta, corpus / name), facts[name]
    assert data["format"] == "perf-data"
    want = dict(fact["records"])
    assert data["samples"] == want["SAMPLE"]
    assert sum(record_counts(data).values()) == want.pop("TOTAL")
    assert record_counts(data) == want
    events, got = fact["samples_per_event"], totals(data)
    if len(events) == 1:
        assert got["samples"] == list(events.values())[0]
        return
    for event, n in events.items():
        # perf of this version does not use the names that a newer pipe sends: "cycles:u" there.
        assert got.get(event + "_samples", got.get(event.removesuffix("H") + "_samples")) == n


@pytest.mark.parametrize("name", corpus_files("perf-data/fuzz/"))
def test_damaged_perf_data_is_refused_with_a_place(vesta, corpus, name):
    done = vesta("info", "--json", corpus / name, timeout=20)
    assert done.code == 1
    assert re.search(rb"perf\.data at byte \d+: ", done.err)
    assert done.err.count(b"\n") == 1


def test_perf_data_and_its_text_agree(vesta, corpus):
    """The same recordings as perf.data and as `perf script` printed them."""
    for data_name, text_name in (("perf.fp.data", "perf.fp.script.txt"),
                                 ("perf.multi.data", "perf.multi.script.txt"),
                                 ("perf.dwarf.data.gz", "perf.dwarf.script.txt")):
        binary = totals(info(vesta, corpus / "perf-data/own" / data_name))
        text = totals(info(vesta, corpus / "perf-script/own" / text_name))
        assert binary == text


# Small formats


def detail(fact, i=0):
    return {key: int(value) for key, value in re.findall(r"(total|maxdepth)=(\d+)", fact["detail"][i])}


def test_pmcstat_facts(vesta, corpus, facts):
    data = info(vesta, corpus / "other/pmcstat-simple.txt")
    want = detail(facts["other/pmcstat-simple.txt"])
    assert data["sample_types"] == [
        {"type": "inst_retired.any", "unit": "count", "total": want["total"]}]
    assert data["max_depth"] == want["maxdepth"]
    assert any("3666 samples have callers" in note for note in data["notes"])


def test_ghc_facts(vesta, corpus, facts):
    data, fact = info(vesta, corpus / "other/haskell-simple.prof"), facts["other/haskell-simple.prof"]
    assert totals(data)["cpu"] == detail(fact, 0)["total"] * 1000000
    assert totals(data)["alloc_space"] == detail(fact, 1)["total"]
    assert data["max_depth"] == detail(fact, 0)["maxdepth"]


def test_dhat_facts(vesta, corpus, facts):
    data, fact = info(vesta, corpus / "other/dhat.json"), facts["other/dhat.json"]
    assert data["samples"] == fact["pps"]
    assert totals(data)["alloc_space"] == fact["total_bytes"]
    assert totals(data)["alloc_objects"] == fact["total_blocks"]


def test_massif_facts(vesta, corpus, facts):
    data, fact = info(vesta, corpus / "other/massif.out"), facts["other/massif.out"]
    assert any(note.startswith(f"{fact['snapshots']} snapshots") for note in data["notes"])
    assert totals(data) == {"inuse_space": 1255272}  # mem_heap_B of the peak snapshot


@pytest.mark.parametrize("name", corpus_files("instruments/"))
def test_instruments_facts(vesta, corpus, facts, name):
    data, want = info(vesta, corpus / name), detail(facts[name])
    assert data["max_depth"] == want["maxdepth"]
    total = totals(data)["cpu"] / 1000000
    if "16.0" in name:
        # The first line, the root of all, weighs 4.93 s, and so do all own weights together;
        # the 4479 ms of the fact follow from neither.
        assert total == 4930
    else:
        assert total == want["total"]


def test_stacks_of_other_tools_have_the_totals_of_inferno(vesta, corpus):
    def golden(name):
        lines = (corpus / "other/inferno/expected" / name).read_text().splitlines()
        return collections.Counter({s: int(n) for s, n in (x.rsplit(" ", 1) for x in lines)})

    folder = corpus / "other/inferno"
    data = info(vesta, folder / "collapse-dtrace-stack-ustack.txt")
    want = golden("collapse-dtrace-results-stack-ustack.txt")
    assert (totals(data)["samples"], data["samples"]) == (sum(want.values()), len(want))

    # Milliseconds there, each rounded down.
    data = info(vesta, folder / "collapse-vtune-vtune.csv")
    want = golden("collapse-vtune-results-vtune-default.txt")
    assert data["samples"] == len(want)
    assert 0 <= totals(data)["cpu"] / 1e6 - sum(want.values()) < len(want)

    # Threads that wait are left out there; here all 825 moments of the three threads count.
    data = info(vesta, folder / "collapse-sample-sample.txt")
    assert totals(data)["samples"] == 3 * 825
