"""Reports beyond what pprof prints: JSON and CSV, source listings, warnings, refusals."""

import csv
import io
import json
import shutil
import subprocess

import pytest

from protobuf import field, varint

STACKS = b"""main;parse;read 30
main;parse 10
main;write 55
main;write;flush 5
"""


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "stacks.collapsed"
    path.write_bytes(STACKS)
    return path


def pprof_with_lines(path, file, lines, labels=()):
    """A pprof file of one function in `file`: {line: value}, each sample with the same labels."""
    strings = ["", "cpu", "nanoseconds", "work", str(file)]

    def text(s):
        if s not in strings:
            strings.append(s)
        return strings.index(s)

    body = field(1, field(1, 1) + field(2, 2))
    label_bytes = b""
    for key, value, unit in labels:
        one = field(1, text(key))
        one += field(2, text(value)) if isinstance(value, str) else field(3, value)
        label_bytes += field(3, one + (field(4, text(unit)) if unit else b""))
    for i, (line, value) in enumerate(lines.items(), 1):
        body += field(2, field(1, varint(i)) + field(2, varint(value)) + label_bytes)
        body += field(4, field(1, i) + field(4, field(1, 1) + field(2, line)))
    body += field(5, field(1, 1) + field(2, 3) + field(4, 4) + field(5, 2))
    for s in strings:
        body += field(6, s.encode())
    path.write_bytes(body)
    return path


def test_tree_as_json_names_callers_and_callees(vesta, profile):
    tree = vesta("tree", "--json", profile, check=0).json
    write = next(e for e in tree["entries"] if e["name"] == "write")
    assert (write["flat"], write["cum"], tree["total"]) == (55, 60, 100)
    assert write["callers"] == [{"name": "main", "value": 60, "inline": False}]
    assert [c["name"] for c in write["callees"]] == ["flush"]


def test_tree_as_csv_has_a_row_per_relation(vesta, profile):
    rows = list(csv.DictReader(io.StringIO(vesta("tree", "--csv", profile, check=0).text)))
    assert {"name": "main", "relation": "callee", "value": "60", "cum": "", "other": "write"} in rows
    assert {"name": "read", "relation": "self", "value": "30", "cum": "30", "other": ""} in rows


def test_traces_as_json_and_csv_hold_whole_stacks(vesta, profile):
    traces = vesta("traces", "--json", profile, check=0).json
    assert {"value": 30, "labels": [], "stack": ["read", "parse", "main"]} in traces
    rows = list(csv.DictReader(io.StringIO(vesta("traces", "--csv", profile, check=0).text)))
    assert {"value": "5", "stack": "main;write;flush"} in rows


def test_names_with_commas_and_quotes_survive_csv(vesta, tmp_path):
    path = tmp_path / "odd.collapsed"
    path.write_text('f(int, "x") 3\n')
    rows = list(csv.DictReader(io.StringIO(vesta("top", "--csv", path, check=0).text)))
    assert rows[0]["name"] == 'f(int, "x")'


def test_tags_are_counted_in_every_output(vesta, tmp_path):
    labels = [("thread", "io", None), ("request", 2048, "bytes")]
    path = pprof_with_lines(tmp_path / "p.pb", "w.c", {3: 10, 5: 20}, labels)
    assert vesta("tags", "--json", path, check=0).json == [
        {"key": "request", "value": "2kB", "total": 30},
        {"key": "thread", "value": "io", "total": 30},
    ]
    assert "thread,io,30" in vesta("tags", "--csv", path, check=0).text
    text = vesta("tags", path, check=0).text
    assert "thread: Total 30ns of 30ns (  100%)" in text
    assert vesta("traces", "--json", path, check=0).json[0]["labels"] == [
        {"key": "thread", "value": "io"},
        {"key": "request", "value": 2048, "unit": "bytes"},
    ]


def test_list_shows_source_with_what_each_line_costs(vesta, tmp_path):
    source = tmp_path / "work.c"
    source.write_text("int x;\nint work(void)\n{\n    x++;\n    return x;\n}\n" + "\n" * 20)
    path = pprof_with_lines(tmp_path / "p.pb", source, {4: 10_000_000, 5: 30_000_000})
    lines = vesta("list", "work", path, check=0).text.splitlines()
    assert lines[0] == "Total: 40ms"
    assert lines[1] == f"ROUTINE ======================== work in {source}"
    assert lines[2].split() == ["40ms", "40ms", "(flat,", "cum)", "100%", "of", "Total"]
    assert lines[3].endswith("2:int work(void)")
    assert lines[5] == "      10ms       10ms      4:    x++;"
    listing = vesta("list", "--json", "work", path, check=0).json
    assert listing[0]["lines"][3] == {
        "line": 5, "flat": 30_000_000, "cum": 30_000_000, "source": "    return x;",
    }
    rows = list(csv.DictReader(io.StringIO(vesta("list", "--csv", "work", path, check=0).text)))
    assert [r["source"] for r in rows if r["flat"] != "0"] == ["    x++;", "    return x;"]


def test_list_finds_source_that_is_named_by_a_url(vesta, tmp_path):
    (tmp_path / "app.js").write_text("function f() {\n  spin();\n}\n")
    for start in ("file://", "file:"):
        path = pprof_with_lines(tmp_path / "p.pb", f"{start}{tmp_path}/app.js", {2: 7})
        assert "2:  spin();" in vesta("list", "work", path, check=0).text


def test_list_without_the_source_still_has_the_numbers(vesta, tmp_path):
    path = pprof_with_lines(tmp_path / "p.pb", "/nowhere/work.c", {4: 7})
    text = vesta("list", "work", path, check=0).text
    assert " Error: could not find file /nowhere/work.c" in text
    assert "       7ns        7ns      4:" in text
    without = pprof_with_lines(tmp_path / "q.pb", "", {4: 7})
    assert "No source information for work" in vesta("list", "work", without, check=0).text


def test_list_finds_source_below_the_source_path(vesta, tmp_path):
    (tmp_path / "src/sub").mkdir(parents=True)
    (tmp_path / "src/sub/work.c").write_text("one\ntwo\nthree\n")
    path = pprof_with_lines(tmp_path / "p.pb", "/build/src/sub/work.c", {2: 7})
    options = [f"-source_path={tmp_path / 'src'}", "-trim_path=/build/src"]
    assert "2:two" in vesta("list", *options, "work", path, check=0).text


@pytest.mark.parametrize("verb", ["peek", "list"])
def test_nothing_that_matches_is_no_data(vesta, profile, verb):
    result = vesta(verb, "nowhere", profile, check=3)
    assert b"no matches found for regexp: nowhere" in result.err


def test_disasm_needs_the_binary(vesta, tmp_path):
    path = pprof_with_lines(tmp_path / "p.pb", "w.c", {3: 10})
    result = vesta("disasm", "work", path, check=3)
    assert b"no matches found for regexp work in a binary that is at hand" in result.err
    assert result.out == b""


@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed to build a program")
def test_list_and_disasm_of_a_real_program_agree_with_pprof(vesta, tmp_path):
    (tmp_path / "go.mod").write_text("module x\n")
    (tmp_path / "main.go").write_text(
        'package main\n\nimport (\n\t"os"\n\t"runtime/pprof"\n\t"time"\n)\n\n'
        "//go:noinline\nfunc hot(n int) int {\n\ts := 0\n\tfor i := 0; i < n; i++ {\n"
        "\t\ts += i * i % 7\n\t}\n\treturn s\n}\n\nfunc main() {\n"
        '\tf, _ := os.Create("cpu.pb.gz")\n\tpprof.StartCPUProfile(f)\n\tx := 0\n'
        "\tfor t := time.Now(); time.Since(t) < 300*time.Millisecond; {\n"
        "\t\tx += hot(100000)\n\t}\n\tpprof.StopCPUProfile()\n\tf.Close()\n\tprintln(x)\n}\n"
    )
    for command in (["go", "build", "-o", "program", "."], ["./program"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    cpu = tmp_path / "cpu.pb.gz"

    def pprof(flag):
        done = subprocess.run(
            ["go", "tool", "pprof", flag, str(cpu)], capture_output=True, text=True
        )
        return done.stdout.splitlines()

    assert vesta("list", "main.hot", cpu, check=0).text.splitlines() == pprof("-list=main.hot")
    # Instructions are spelled differently, and pprof leaves out the last one; the costs of each
    # address are the same.
    costs = [line.split()[:3] for line in pprof("-disasm=main.hot")[3:]]
    lines = vesta("disasm", "main.hot", cpu, check=0).text.splitlines()[3:]
    ours = [line.split()[:3] for line in lines if not line.strip().startswith(";")]
    assert len(costs) > 10 and ours[: len(costs)] == costs


def test_filters_that_match_nothing_say_so(vesta, profile):
    result = vesta("top", "-focus=nowhere", "-tagfocus=3kb", "-show_from=x", profile, check=3)
    for text in (
        b"Focus expression matched no samples",
        b"ShowFrom expression matched no samples",
        b"tagfocus:Interpreted '3kb' as range, not regexp",
    ):
        assert text in result.err


@pytest.mark.parametrize(
    "options, text",
    [
        (["-sample_index=9"], "sample_index 9 is outside the range [0..0]"),
        (["-sample_index=wall"], 'sample_index "wall" must be one of: samples'),
        (["-focus=a("], "focus: bad regular expression"),
        (["-tagfocus=a("], "tagfocus: bad regular expression"),
        (["-divide_by=0"], "divide_by"),
    ],
)
def test_options_that_make_no_sense_are_refused(vesta, profile, options, text):
    result = vesta("top", *options, profile)
    assert result.code in (1, 2)
    assert text in result.err.decode()


def test_raw_dumps_everything(vesta, tmp_path):
    labels = [("thread", "io", None), ("request", 2048, "bytes")]
    path = pprof_with_lines(tmp_path / "p.pb", "w.c", {3: 10}, labels)
    text = vesta("raw", path, check=0).text
    assert "cpu/nanoseconds\n" in text
    assert "                thread:[io]\n                request:[2048 bytes]\n" in text
    assert "     1: 0x0 work w.c:3:0 s=2()" in text


def test_comments_are_printed_in_every_output(vesta, tmp_path):
    path = pprof_with_lines(tmp_path / "p.pb", "w.c", {3: 10})
    path.write_bytes(path.read_bytes() + field(6, b"a, comment") + field(13, 5))
    assert vesta("comments", path, check=0).text == "a, comment\n"
    assert json.loads(vesta("comments", "--json", path, check=0).text) == ["a, comment"]
    assert vesta("comments", "--csv", path, check=0).text == '"a, comment"\n'


def test_packages_are_a_granularity(vesta, tmp_path):
    path = tmp_path / "go.collapsed"
    path.write_text("main.main;net/http.(*conn).serve;net/http.f 3\nmain.main;runtime.gc 4\n")
    entries = vesta("top", "--json", "-packages", path, check=0).json["entries"]
    assert {e["name"]: e["flat"] for e in entries} == {"main": 0, "net/http": 3, "runtime": 4}


def test_unnamed_frames_are_shown_by_their_address(vesta, tmp_path):
    strings = ["", "cpu", "nanoseconds", "/bin/app"]
    body = field(1, field(1, 1) + field(2, 2)) + field(2, field(1, varint(1)) + field(2, varint(5)))
    body += field(3, field(1, 1) + field(2, 0x1000) + field(3, 0x9000) + field(5, 3))
    body += field(4, field(1, 1) + field(2, 1) + field(3, 0x1234))
    path = tmp_path / "p.pb"
    path.write_bytes(body + b"".join(field(6, s.encode()) for s in strings))
    assert "[app]" in vesta("top", "-symbolize=none", path, check=0).text
    text = vesta("top", "-symbolize=none", "-addresses", path, check=0).text
    assert "0000000000001234 [app]" in text
