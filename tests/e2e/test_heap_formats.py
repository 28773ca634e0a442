"""Facts of the corpus for callgrind, Firefox and stackprof files, by `vesta info` and `convert`."""

import json
import re
import shutil
import subprocess

import pytest

from conftest import CORPUS, collapsed, corpus_files, totals

CALLGRIND = corpus_files("callgrind/")
FIREFOX = corpus_files("firefox/")
STACKPROF = corpus_files("stackprof/")


def info(vesta, corpus, name):
    return vesta("info", "--json", corpus / name, check=0).json


def expected(corpus, name):
    """What speedscope's importer saw in a file."""
    folder, file = name.split("/")
    path = corpus / folder / "expected" / f"{file}.speedscope-import.json"
    return json.loads(path.read_text())["profiles"][0] if path.exists() else None


# ---- callgrind ----

def annotated(text):
    """{(file:function without object): cost of the first event} of callgrind_annotate's list."""
    costs = {}
    lines = text[text.index("file:function") :].splitlines()[2:]
    for line in lines:
        if not line.strip() or line.startswith("----"):
            break
        head = re.match(r"\s*(-?[\d,]+|\.)\s", line)
        place = re.sub(r"^\s*(?:(?:-?[\d,]+|\.)\s*(?:\([^)]*%\))?\s+)+", "", line)
        place = re.sub(r" \[.*\]$", "", place)
        cost = head.group(1).replace(",", "")
        costs[place] = costs.get(place, 0) + (0 if cost == "." else int(cost))
    return costs


@pytest.mark.parametrize("name", CALLGRIND)
def test_callgrind_totals_are_those_of_callgrind_annotate(vesta, corpus, facts, name):
    got = info(vesta, corpus, name)
    assert got["format"] == "callgrind"
    found = totals(got)
    for event, total in facts[name]["program_totals"].items():
        if event == "Time_(10ns)":
            assert found["Time"] == 10 * int(total)
        else:
            assert found[re.sub(r"_\(.*", "", event)] == int(total)


@pytest.mark.parametrize("name", CALLGRIND)
def test_callgrind_self_costs_per_function_are_those_of_callgrind_annotate(
    vesta, corpus, facts, name
):
    golden = corpus / "callgrind" / "expected" / (name.split("/")[1] + ".annotate.txt")
    if not golden.exists():
        pytest.skip("no golden output")
    want = {}
    for place, cost in annotated(golden.read_text()).items():
        function = place.split(":", 1)[1]
        want[function] = want.get(function, 0) + cost
    event = next(iter(info(vesta, corpus, name)["sample_types"]))
    scale = 10 if event["unit"] == "nanoseconds" else 1
    got = {}
    for stack, cost in collapsed(corpus / name).items():
        leaf = stack.split(";")[-1]
        got[leaf] = got.get(leaf, 0) + cost
    for function, cost in want.items():
        # Golden lists may leave out the smallest; what they list must be exact.
        assert got.get(function.replace(";", ":"), 0) == cost * scale, function


@pytest.mark.parametrize("name", [n for n in CALLGRIND if "own-" in n or "gprof2dot" in n])
def test_callgrind_annotate_reads_what_we_write(vesta, corpus, name, tmp_path):
    tool = shutil.which("callgrind_annotate")
    if not tool:
        pytest.skip("callgrind_annotate (valgrind) is not installed")
    out = tmp_path / "out.callgrind"
    vesta("convert", corpus / name, "-o", out, check=0)

    def run(path):
        done = subprocess.run([tool, "--threshold=100", "--auto=no", str(path)], capture_output=True,
                              timeout=60)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.decode(errors="replace")

    ours, original = run(out), run(corpus / name)
    total = r"([\d,]+) \(100\.0%\).*PROGRAM TOTALS"
    assert re.search(total, ours).group(1) == re.search(total, original).group(1)
    # Functions of one name in several files of one object are one in what we write.
    def by_name(text):
        costs = {}
        for place, cost in annotated(text).items():
            function = place.split(":", 1)[1]
            costs[function] = costs.get(function, 0) + cost
        return costs

    assert by_name(ours) == by_name(original)


# ---- Firefox ----

def count_samples(document):
    """Samples of all threads, those of other processes too."""
    document = document.get("profile", document)
    n = 0
    for thread in document.get("threads", []):
        if isinstance(thread, str):
            n += count_samples(json.loads(thread))
        else:
            samples = thread["samples"]
            n += len(samples["data"] if "data" in samples else samples["stack"])
    return n + sum(count_samples(p) for p in document.get("processes", []))


@pytest.mark.parametrize("name", FIREFOX)
def test_firefox_files_have_their_samples(vesta, corpus, facts, name):
    got = info(vesta, corpus, name)
    want = facts[name]
    assert got["format"] == "firefox"
    assert got["samples"] == count_samples(json.loads((corpus / name).read_text()))
    if want["samples"] and want["processes"] == 0 and "gecko" not in name:
        assert got["samples"] == want["samples"]
    if "interval" in want:
        assert got["period"] == want["interval"] * 1e6


@pytest.mark.parametrize("name", [n for n in FIREFOX if "simple" in n])
def test_firefox_times_are_those_of_speedscope(corpus, name):
    """Speedscope keeps the page's own scripts only, so stacks are compared by their inner part."""
    want = expected(corpus, name)
    stacks = collapsed(corpus / name)
    for stack, milliseconds in want["collapsed"]:
        if stack:
            got = sum(v for s, v in stacks.items() if s.endswith(stack))
            assert abs(got - milliseconds * 1e6) <= 20, stack


# ---- stackprof ----

@pytest.mark.parametrize("name", STACKPROF)
def test_stackprof_totals_and_stacks_are_those_of_speedscope(vesta, corpus, name):
    got = info(vesta, corpus, name)
    raw = json.loads((corpus / name).read_text())
    want = expected(corpus, name)
    mode, scale = raw["mode"], {"object": 1}.get(raw["mode"], 1000)
    kind = {"object": "alloc_objects"}.get(mode, mode)
    assert got["format"] == "stackprof"
    assert totals(got)["samples"] == raw["samples"]
    assert totals(got)[kind] == want["totalWeight"] * scale
    stacks = collapsed(corpus / name)
    for stack, value in want["collapsed"]:
        # Speedscope puts the collector's frames on top of the stack before.
        if "garbage" not in stack:
            assert stacks[stack] == value * scale, stack


def test_the_corpus_has_all_of_these_formats(corpus):
    assert CALLGRIND and FIREFOX and STACKPROF, CORPUS
