"""The same question to vesta and to `go tool pprof` must get the same answer.

Every pprof file of the corpus (legacy ones too) is asked with the plain options, and with some of
the option sets below in turn; set VESTA_PARITY=full to ask every file with all of them. All texts
and numbers are compared; spacing is not.

Where pprof itself has no fixed answer, the comparison allows for it:

- Entries of one printed name and equal weight (as -files has them: one per function, all printed
  as their file) come in any order from one run of pprof to the next, since its sort calls them
  equal. They are compared as a set, and without their running sum.
- Callers and callees of the same weight but opposite sign likewise.

Exit codes agree but for 3, "no data", which pprof does not have.
"""

import concurrent.futures
import os
import re
import subprocess

import pytest

from conftest import CORPUS, corpus_files, run_vesta

# What is known to differ, and why.
REFUSED_BY_PPROF_ONLY = {
    # Go's gzip reader insists on nothing behind the last member; zlib's and ours do not.
    "pprof/mutants/wire-trailing-garbage.pb.gz",
    # jemalloc's own dialect, which pprof does not read.
    "pprof-legacy/jemalloc-5.3-final.heap.gz",
    # Stack dumps of goroutines for people, which pprof does not read.
    "pprof-legacy/go119-goroutine.debug2.txt",
}
# A sample's labels are a set here: several values of one key come in the order in which they were
# first seen, not in that of the sample.
LABELS_IN_OTHER_ORDER = {"pprof/upstream-driver/heap_sizetags.pb.gz"}
# Older pprofs (that of Debian 13's go 1.24) do not say of how much: another layout altogether.
OLD_TAGS = re.compile(r": Total \S+$", re.MULTILINE)

PLAIN = [["top"], ["tree"], ["traces"]]
OPTION_SETS = [
    ["top", "-cum"],
    ["tree", "-cum", "-nodecount=30"],
    ["top", "-lines"],
    ["tree", "-lines"],
    ["top", "-files"],
    ["tree", "-filefunctions"],
    ["top", "-addresses"],
    ["tree", "-addresses", "-noinlines"],
    ["traces", "-lines"],
    ["traces", "-addresses"],
    ["top", "-noinlines", "-lines"],
    ["top", "-focus=main|runtime|line[12]"],
    ["tree", "-focus=main|start", "-ignore=gc|malloc"],
    ["top", "-ignore=runtime|gc|line3"],
    ["top", "-hide=runtime|libc|line[X3]0"],
    ["tree", "-hide=runtime|net", "-cum"],
    ["top", "-show=main|net|std|line"],
    ["top", "-show_from=main|start|line2"],
    ["tree", "-show_from=main|run"],
    ["traces", "-focus=main", "-hide=runtime"],
    ["top", "-prune_from=runtime|main"],
    ["top", "-tagfocus=."],
    ["top", "-tagfocus=1b:512kb"],
    ["top", "-tagfocus=bytes=1kb:"],
    ["traces", "-tagignore=thread|a"],
    ["traces", "-taghide=b|thread"],
    ["top", "-tagroot=thread,bytes"],
    ["traces", "-tagleaf=bytes"],
    ["top", "-sample_index=0"],
    ["tree", "-sample_index=0", "-nodefraction=0.02"],
    ["top", "-nodecount=5"],
    ["tree", "-nodecount=12", "-edgefraction=0.05"],
    ["top", "-unit=ms"],
    ["top", "-unit=MB", "-cum"],
    ["top", "-nodefraction=0", "-edgefraction=0"],
    ["tree", "-trim=false", "-noinlines"],
    ["top", "-mean"],
    ["top", "-divide_by=3"],
    ["top", "-relative_percentages", "-focus=main|line1"],
    ["top", "-drop_negative", "-compact_labels"],
    ["tags"],
    ["comments"],
    ["dot"],
    ["dot", "-lines", "-nodecount=25"],
]
SETS_PER_FILE = len(OPTION_SETS) if os.environ.get("VESTA_PARITY") == "full" else 5

SERIES_OPTIONS = [
    [],
    ["-cum"],
    ["-lines"],
    ["-normalize"],
    ["-drop_negative"],
    ["-sample_index=0"],
    ["-nodecount=10"],
    ["-focus=main"],
    ["-nodefraction=0"],
]

ENVIRONMENT = dict(os.environ, PPROF_BINARY_PATH="/nonexistent", HOME="/proc/none", TZ="UTC")


def ask_pprof(binary, verb, options, files, argument=None):
    flag = f"-{verb}={argument}" if argument else f"-{verb}"
    done = subprocess.run(
        [binary, "-symbolize=none", flag, *options, *files],
        capture_output=True,
        env=ENVIRONMENT,
        timeout=120,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


def ask_vesta(verb, options, files, argument=None):
    arguments = [argument] if argument else []
    done = run_vesta(verb, "-symbolize=none", *options, *arguments, *files, env=ENVIRONMENT)
    return done.code, done.text


def words(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def settle_ties(rows, key, strip):
    """Sorts runs of rows that have the same key, and takes off what depends on their order."""
    settled, run = [], []
    for row in rows + [None]:
        if run and (row is None or key(row) != key(run[0])):
            settled += sorted(map(strip, run), key=repr) if len(run) > 1 else run
            run = []
        if row is not None:
            run.append(row)
    return settled


ROW = re.compile(r"^(\S+) (\S+%) (\S+%) (\S+) (\S+%) (\| )?(.*)$")


def plain_name(name):
    return re.sub(r" \((partial-)?inline\)$", "", name)


def settle_top(lines, by_cum):
    start = next((i for i, l in enumerate(lines) if l.startswith("flat flat%")), len(lines)) + 1
    rows = [ROW.match(line).groups() for line in lines[start:]]
    weight = 3 if by_cum else 0
    # The same in absolute value is the same weight.
    rows = settle_ties(
        rows,
        key=lambda r: (r[weight].lstrip("-"), plain_name(r[6])),
        strip=lambda r: r[:2] + r[3:],
    )
    return lines[:start], rows


def settle_tree(lines, by_cum):
    rule = lines.index(next(l for l in lines if l.startswith("-----")))
    head, blocks = lines[: rule + 2], [[]]
    for line in lines[rule + 2 :]:
        if line.startswith("-----"):
            blocks.append([])
        else:
            blocks[-1].append(line)
    entries = []
    for block in filter(None, blocks):
        at = next(i for i, line in enumerate(block) if ROW.match(line))
        near = [
            settle_ties(edges, key=lambda e: e.split()[0].lstrip("-"), strip=lambda e: e)
            for edges in (block[:at], block[at + 1 :])
        ]
        entries.append((ROW.match(block[at]).groups(), *near))
    weight = 3 if by_cum else 0
    entries = settle_ties(
        entries,
        key=lambda e: (e[0][weight].lstrip("-"), e[0][6]),
        strip=lambda e: (e[0][:2] + e[0][3:], e[1], e[2]),
    )
    return head, entries


def settle(verb, options, text, name):
    lines = words(text)
    by_cum = "-cum" in options
    if name in LABELS_IN_OTHER_ORDER:
        lines = [" ".join(sorted(l.split())) if l.startswith("bytes:") else l for l in lines]
    if verb == "top":
        return settle_top(lines, by_cum)
    if verb in ("tree", "peek") and any(l.startswith("-----") for l in lines):
        return settle_tree(lines, by_cum)
    return lines


def first_difference(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        for x, y in zip(a, b):
            if x != y:
                return first_difference(x, y)
        if len(a) != len(b):
            return f"{len(a)} parts from pprof, {len(b)} from vesta"
    return f"pprof: {a!r}\nvesta: {b!r}"


def compare(binary, verb, options, files, argument=None):
    """None, or what differs."""
    paths = [str(CORPUS / f) for f in files]
    code, want = ask_pprof(binary, verb, options, paths, argument)
    our_code, got = ask_vesta(verb, options, paths, argument)
    asked = " ".join([verb, *options, *([argument] if argument else []), *files])
    # "No data" has a code of its own here; pprof says 0 or 1, and what it prints is compared.
    if our_code != 3 and (code != 0) != (our_code != 0):
        if files[0] in REFUSED_BY_PPROF_ONLY and code != 0:
            return None
        return f"{asked}: pprof ends with {code}, vesta with {our_code}"
    if code != 0 or verb == "tags" and OLD_TAGS.search(want):
        return None
    a, b = settle(verb, options, want, files[0]), settle(verb, options, got, files[0])
    return None if a == b else f"{asked}:\n{first_difference(a, b)}"


def compare_all(binary, jobs):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        differences = [d for d in pool.map(lambda j: compare(binary, *j), jobs) if d]
    assert not differences, f"{len(differences)} of {len(jobs)} differ:\n" + "\n".join(
        differences[:10]
    )


def pprof_inputs():
    return corpus_files("pprof/") + corpus_files("pprof-legacy/")


def skips_labels(name, options):
    """Label order shows up as names of frames: nothing to compare."""
    return name in LABELS_IN_OTHER_ORDER and any(o.startswith(("-tagr", "-tagl")) for o in options)


@pytest.mark.parametrize("verb", [p[0] for p in PLAIN])
def test_every_file_reads_the_same_without_options(pprof, corpus, verb):
    compare_all(pprof, [(verb, [], [name]) for name in pprof_inputs()])


def test_every_file_reads_the_same_with_options(pprof, corpus):
    jobs = []
    for i, name in enumerate(pprof_inputs()):
        for k in range(SETS_PER_FILE):
            verb, *options = OPTION_SETS[(i * SETS_PER_FILE + k) % len(OPTION_SETS)]
            if not skips_labels(name, options):
                jobs.append((verb, options, [name]))
    compare_all(pprof, jobs)


def test_every_file_can_be_peeked_into(pprof, corpus):
    """Peeks at the function in the middle of each file's top."""

    def name_of(path):
        code, text = ask_vesta("top", ["-nodecount=9", "-compact_labels"], [str(CORPUS / path)])
        rows = [ROW.match(line) for line in words(text)] if code == 0 else []
        names = [plain_name(m.group(7)) for m in rows if m]
        return re.escape(names[len(names) // 2]) if names else "."

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        names = list(pool.map(name_of, pprof_inputs()))
    compare_all(
        pprof, [("peek", [], [file], name) for file, name in zip(pprof_inputs(), names)]
    )


@pytest.mark.parametrize("base", ["-base", "-diff_base"])
def test_differences_are_the_same(pprof, corpus, base):
    jobs = []
    pairs = [("cpu-03", "cpu-01"), ("cpu-07", "cpu-08"), ("heap-05", "heap-01"), ("heap-02", "heap-11")]
    for new, old in pairs:
        path = str(CORPUS / f"pprof/series/{old}.pb.gz")
        for options in SERIES_OPTIONS:
            for verb in ("top", "tree", "traces"):
                jobs.append((verb, [*options, f"{base}={path}"], [f"pprof/series/{new}.pb.gz"]))
        jobs.append(("peek", [f"{base}={path}"], [f"pprof/series/{new}.pb.gz"], "main"))
        jobs.append(("tags", [f"{base}={path}"], [f"pprof/series/{new}.pb.gz"]))
    compare_all(pprof, jobs)


def test_every_file_minus_another_one(pprof, corpus):
    """-diff_base of each file with the next that measures the same, often of another program.

    Without the lines about the file: when only one of the two has a time or a binary, vesta shows
    it, while pprof shows nothing.
    """
    types = {}
    for name in sorted(set(corpus_files("pprof/")) - REFUSED_BY_PPROF_ONLY):
        code, text = ask_vesta("raw", [], [str(CORPUS / name)])
        if code == 0:
            lines = text.splitlines()
            period = next(line for line in lines if line.startswith("PeriodType:"))
            types.setdefault((period, lines[lines.index("Samples:") + 1]), []).append(name)
    jobs = []
    for names in types.values():
        for new, old in zip(names, names[1:] + names[:1]):
            jobs.append(("top", ["-compact_labels", f"-diff_base={CORPUS / old}"], [new]))
    assert len(jobs) > 80
    compare_all(pprof, jobs)


def test_merged_series_read_the_same(pprof, corpus):
    jobs = []
    for kind in ("cpu", "heap"):
        files = [f"pprof/series/{kind}-{i:02}.pb.gz" for i in range(12)]
        for verb in ("top", "tree", "traces"):
            jobs += [(verb, [], files), (verb, ["-lines"], files[:3])]
    compare_all(pprof, jobs)


def test_the_smallest_sets_are_told_apart(pprof, corpus):
    """The comparison itself can fail: other options give another answer."""
    name = "pprof/series/cpu-03.pb.gz"
    path = str(CORPUS / name)
    a = settle("top", [], ask_pprof(pprof, "top", [], [path])[1], name)
    b = settle("top", [], ask_vesta("top", ["-focus=fib"], [path])[1], name)
    assert a != b


def golden_reports():
    """(file, input, verb, options) of the reports that upstream's own driver test expects."""
    manifest = CORPUS / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    found = []
    for row in manifest.read_text().splitlines()[1:]:
        file, *_ = cells = row.split("\t")
        match = re.match(r'input (\S+), options "([^"]*)" with (.*)', cells[7])
        if not file.startswith("pprof/upstream-driver/expected/") or not match:
            continue
        first, *rest = match.group(2).split(",")
        defaults = ["-" + o for o in match.group(3).split() if o.split("=")[0] not in match.group(2)]
        options = ["-" + o for o in rest] + defaults + ["-compact_labels"]
        found.append((file, match.group(1), first, options))
    return found


# The ids are a list because pytest would ask a function about the empty set without a corpus.
@pytest.mark.parametrize(
    "golden", golden_reports(), ids=[os.path.basename(g[0]) for g in golden_reports()]
)
def test_upstream_reports_are_reproduced(corpus, golden):
    file, source, verb, options = golden
    verb, _, argument = verb.partition("=")
    if verb == "callgrind":
        pytest.skip("callgrind is a format here: see tests/formats/test_callgrind.c")
    verb = "top" if verb == "text" else verb
    options = [f"-sample_index={o[1:]}" if o in SAMPLE_FLAGS else o for o in options]
    path = str(corpus / "pprof/upstream-driver" / source)
    code, got = ask_vesta(verb, options, [path], argument or None)
    assert code == 0
    want = (corpus / file).read_text()
    name = "pprof/upstream-driver/" + source
    assert settle(verb, options, got, name) == settle(verb, options, want, name)


SAMPLE_FLAGS = {"-inuse_space", "-inuse_objects", "-alloc_space", "-alloc_objects"}
