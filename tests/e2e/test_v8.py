"""V8 profiles, Chrome traces and speedscope files: the corpus facts hold, and every stack or function
costs what speedscope's own importer says. How the two see a profile differently is written down at
the helpers below."""

import collections
import gzip
import json
import re

import pytest
from conftest import collapsed, corpus_files

# Frames that V8 invents. speedscope shows no time for these two...
NO_FRAMES = {"(root)", "(idle)"}
# ...and puts these on top of whatever ran before, where V8 has them at the bottom of the stack.
ON_TOP = {"(program)", "(garbage collector)"}


def details(facts, name):
    """The per-profile facts: [{"unit", "total", "frames", "stacks", "maxdepth"}]."""
    parsed = []
    for line in facts[name]["detail"]:
        fields = dict(re.findall(r"(\w+)=(\S+)", line))
        parsed.append({k: v if k == "unit" else int(v) for k, v in fields.items()})
    return parsed


def golden(corpus, name):
    path = corpus / name
    with open(path.parent / "expected" / (path.name + ".speedscope-import.json")) as f:
        return json.load(f)["profiles"]


def self_by_function(stacks):
    totals = collections.Counter()
    for stack, value in stacks.items():
        name = stack.rsplit(";", 1)[-1]
        if name not in NO_FRAMES and value:
            totals[name] += value
    return totals


def golden_self(profiles, scale):
    """The same from the golden file, which has all stacks unless there are many; then the first ten
    functions."""
    totals, is_all = collections.Counter(), True
    for p in profiles:
        if "collapsed" in p:
            for stack, value in p["collapsed"]:
                if stack and value:
                    totals[stack.rsplit(";", 1)[-1]] += round(value * scale)
        else:
            is_all = False
            for f in p["top"]:
                if f["self"]:
                    totals[f["name"]] += round(f["self"] * scale)
    return totals, is_all


def check_self(ours, theirs, is_all):
    for name, value in theirs.items():
        assert ours[name] == value, name
    if is_all:
        assert ours == theirs


CPUPROFILES = [n for n in corpus_files("cpuprofile/") if "/mutants/" not in n]


@pytest.mark.parametrize("name", CPUPROFILES)
def test_cpuprofile_facts_hold(vesta, corpus, facts, name):
    info = vesta("info", "--json", corpus / name, check=0).json
    want, detail = facts[name], details(facts, name)[0]
    assert info["format"] == "cpuprofile"
    assert info["profiles"] == 1
    assert info["samples"] == want["samples"]
    assert info["sample_types"][0] == {"type": "samples", "unit": "count", "total": want["samples"]}
    assert info["sample_types"][1]["type"] == "cpu"
    # speedscope's total is from the start to the end, whether or not something was seen running.
    assert info["duration_ns"] == detail["total"] * 1000
    deep = info["max_depth"] - detail["maxdepth"]
    assert deep == 0 or (deep == -1 and ON_TOP), "the garbage collector may stand on the deepest"
    # (root) and (idle) are functions here.
    assert 0 <= info["functions"] - detail["frames"] <= 2
    if "timeDeltas_sum_us" in want:
        open_any = gzip.open if name.endswith(".gz") else open
        with open_any(corpus / name, "rt") as f:
            first = json.load(f)["timeDeltas"][0]
        assert info["sample_types"][1]["total"] == (want["timeDeltas_sum_us"] - first) * 1000


@pytest.mark.parametrize("name", CPUPROFILES)
def test_cpuprofile_functions_cost_what_speedscope_says(corpus, name):
    ours = self_by_function(collapsed(corpus / name))
    profiles = golden(corpus, name)
    check_self(ours, *golden_self(profiles, 1000))
    assert sum(ours.values()) == profiles[0]["totalNonIdleWeight"] * 1000


def test_a_truncated_cpuprofile_is_refused_with_the_place(vesta, corpus):
    path = corpus / "cpuprofile/mutants/trunc.cpuprofile"
    run = vesta("info", path, check=1)
    assert b"cpuprofile at byte 32391: " in run.err


@pytest.mark.parametrize("name", corpus_files("heapprofile/"))
def test_heapprofile_facts_hold(vesta, corpus, facts, name):
    info = vesta("info", "--json", corpus / name, check=0).json
    want, detail = facts[name], details(facts, name)[0]
    assert info["format"] == "heapprofile"
    assert info["sample_types"][-1] == {
        "type": "inuse_space", "unit": "bytes", "total": want["selfSize_sum"]}
    assert info["max_depth"] == detail["maxdepth"]
    assert info["locations"] == detail["frames"]
    stacks = collapsed(corpus / name)
    assert sum(stacks.values()) == detail["total"]
    # speedscope counts the lines of these names from 0.
    strip = lambda totals: {re.sub(r":\d+\)$", ")", n): v for n, v in totals.items()}
    ours, (theirs, is_all) = self_by_function(stacks), golden_self(golden(corpus, name), 1)
    assert is_all and sum(ours.values()) == sum(theirs.values())
    assert strip(ours).keys() == strip(theirs).keys()


def test_heapprofile_samples_outside_the_tree_are_named_in_a_note(vesta, corpus, facts):
    name = "heapprofile/node20.heapprofile"
    info = vesta("info", "--json", corpus / name, check=0).json
    lost = int(re.match(r"(\d+) samples of", info["notes"][0]).group(1))
    assert info["sample_types"][0]["type"] == "samples"
    assert info["sample_types"][0]["total"] + lost == facts[name]["samples"]


TRACES = corpus_files("chrome-trace/")


@pytest.mark.parametrize("name", TRACES)
def test_trace_facts_hold(vesta, corpus, facts, name):
    info = vesta("info", "--json", corpus / name, check=0).json
    assert info["format"] == "chrome-trace"
    assert info["profiles"] == facts[name]["profiles"]
    is_cpu = info["sample_types"] and info["sample_types"][0]["type"] == "samples"
    for ours, theirs in zip(info["by_profile"], golden(corpus, name)):
        # A trace does not say when its CPU profiles end: speedscope ends them with the last frame
        # that is not idle, Vesta with the last sample.
        if is_cpu:
            assert ours["duration_ns"] >= theirs["totalWeight"] * 1000
        else:
            assert ours["duration_ns"] == theirs["totalWeight"] * 1000
        attributes = ours["attributes"]
        if "pid" in theirs["name"]:
            pid, tid = re.search(r"pid (\d+).*tid (\d+)", theirs["name"]).groups()
            assert attributes["process.pid"] == int(pid)
            assert attributes["thread.id"] == int(tid)


def without_args(stack):
    """speedscope appends the arguments of an event to its name; here they are an attribute."""
    return ";".join(re.sub(r" \{.*$", "", frame) for frame in re.split(r";(?![^{]*\})", stack))


@pytest.mark.parametrize("name", TRACES)
def test_trace_stacks_cost_what_speedscope_says(vesta, corpus, name):
    profiles = golden(corpus, name)
    if not profiles:
        pytest.skip("the trace holds nothing to compare")
    ours = collapsed(corpus / name)
    info = vesta("info", "--json", corpus / name, check=0).json
    if any(n.endswith("the trace holds samples") for n in info["notes"]):
        functions = self_by_function(ours)
        # speedscope takes this for a trick of V8's and gives it no time.
        functions.pop("(anonymous native dummy.js:1)", None)
        check_self(functions, *golden_self(profiles, 1000))
        return
    theirs = collections.Counter()
    for p in profiles:
        for stack, value in p["collapsed"]:
            if stack and value:
                theirs[without_args(stack)] += value * 1000
    assert +ours == +theirs


SPEEDSCOPES = corpus_files("speedscope/")
NANOSECONDS = {"none": 1, "bytes": 1, "nanoseconds": 1, "microseconds": 1000, "seconds": 10**9}


@pytest.mark.parametrize("name", SPEEDSCOPES)
def test_speedscope_facts_hold(vesta, corpus, facts, name):
    info = vesta("info", "--json", corpus / name, check=0).json
    detail, profiles = details(facts, name), golden(corpus, name)
    assert info["format"] == "speedscope"
    assert info["profiles"] == facts[name]["profiles"]
    for ours, want, theirs in zip(info["by_profile"], detail, profiles):
        assert ours["sample_types"][0]["total"] == want["total"] * NANOSECONDS[want["unit"]]
        assert ours["attributes"]["profile.name"] == theirs["name"]
    assert info["max_depth"] == detail[0]["maxdepth"]
    assert info["locations"] == detail[0]["frames"]
    stacks = collections.Counter()
    for p in profiles:
        for stack, value in p["collapsed"]:
            stacks[stack] += value * NANOSECONDS[p["unit"]]
    assert collapsed(corpus / name) == stacks


@pytest.mark.parametrize("name", CPUPROFILES + SPEEDSCOPES + corpus_files("heapprofile/"))
def test_speedscope_output_is_valid_and_reads_back_the_same(vesta, corpus, name, tmp_path):
    out = tmp_path / "out.speedscope.json"
    vesta("convert", corpus / name, "-o", out, check=0)
    written = json.loads(out.read_text())
    assert written["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(written) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    frames = written["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file", "line", "col"} and frame["name"]
    for p in written["profiles"]:
        assert p["type"] == "sampled" and p["unit"] in {*NANOSECONDS, "milliseconds"}
        assert len(p["samples"]) == len(p["weights"])
        assert p["endValue"] - p["startValue"] == sum(p["weights"])
        assert all(0 <= f < len(frames) for s in p["samples"] for f in s)
    # Through the first sample type of another name the values come back unchanged.
    before = collapsed(corpus / name)
    active = written["profiles"][written["activeProfileIndex"]]
    if len(written["profiles"]) > 1 and "samples" in (p["name"] for p in written["profiles"]):
        written["profiles"] = [active]
        del written["activeProfileIndex"]
        out.write_text(json.dumps(written))
    assert collapsed(out) == before
