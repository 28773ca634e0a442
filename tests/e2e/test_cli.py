"""The command line itself: verbs, options, exit codes, errors, outputs."""

import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess

import pytest

STACKS = b"""main;serve;parse 30
main;serve;render;json 50
main;serve;render;sort 10
main;idle 10
"""


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "p.collapsed"
    path.write_bytes(STACKS)
    return path


def rows(result):
    """{name: (flat, cum)} of a top table."""
    found = {}
    for line in result.text.splitlines():
        cells = line.split(None, 5)
        if len(cells) == 6 and cells[1].endswith("%"):
            found[cells[5]] = (cells[0], cells[3])
    return found


def test_top_counts_flat_and_cum(vesta, profile):
    found = rows(vesta("top", profile, check=0))
    assert found["json"] == ("50", "50")
    assert found["serve"] == ("0", "90")
    assert list(found)[0] == "json"


def test_one_dash_or_two_and_values_either_way(vesta, profile):
    want = vesta("top", "-focus=render", "-cum", profile, check=0).text
    for args in (["--focus", "render", "--cum"], ["-focus", "render", "--cum=true"],
                 ["--focus=render", "-cum"]):
        assert vesta("top", *args, profile, check=0).text == want


def test_pprof_style_verbs_work(vesta, profile):
    assert vesta("-top", profile, check=0).text == vesta("top", profile, check=0).text


def test_pprof_style_verbs_may_stand_behind_options_and_hold_their_regex(vesta, profile):
    want = vesta("top", "-focus=render", profile, check=0).text
    assert vesta("-focus=render", "-top", profile, check=0).text == want
    assert vesta("--focus", "render", "--top", profile, check=0).text == want
    want = vesta("peek", "render", "-cum", profile, check=0).text
    assert vesta("-peek=render", "-cum", profile, check=0).text == want
    assert vesta("-cum", "-peek=render", profile, check=0).text == want


def test_a_leading_number_limits_entries(vesta, profile):
    assert len(rows(vesta("top", "2", profile, check=0))) == 2


def test_several_sources_are_merged(vesta, profile):
    assert rows(vesta("top", profile, profile, check=0))["json"] == ("100", "100")


def test_standard_input_and_gzip_are_read(vesta):
    assert rows(vesta("top", "-", stdin=gzip.compress(STACKS), check=0))["json"] == ("50", "50")


def test_json_and_csv_hold_the_same_numbers(vesta, profile):
    table = vesta("top", "--json", profile, check=0).json
    text = vesta("top", "--csv", profile, check=0).text
    by_csv = list(csv.DictReader(io.StringIO(text)))
    assert {row["name"]: row["flat"] for row in by_csv}["json"] == "50"
    assert json.dumps(table).count('"json"') == 1


@pytest.mark.parametrize("args, code, text", [
    ([], 2, "usage: vesta"),
    (["nonsense"], 2, 'there is no command or file "nonsense"'),
    (["top"], 2, "top needs a profile"),
    (["top", "-focsu=x", "p"], 2, 'there is no option "-focsu"; did you mean "-focus"?'),
    (["top", "-focus"], 2, "-focus needs a value"),
    (["top", "-nodecount=many", "p"], 2, '"many" is not a value that nodecount can have'),
    (["top", "--json", "--csv", "p"], 2, "exclude each other"),
    (["top", "/does/not/exist"], 1, 'could not open "/does/not/exist": No such file'),
    (["top", 'cpu{service.name="x"}'], 2, 'is a selection: say which server to ask with --url'),
    (["top", "/"], 1, '"/" is a directory, not a profile'),
    (["peek", "x"], 2, "peek needs a regular expression and a profile"),
    (["convert", "x", "-o", "y.unknown"], 2, "does not say which format to write"),
    (["info", "--input-format=nope", "x"], 2, 'no format "nope" can be read'),
    (["help", "nope"], 2, 'there is no command "nope"'),
])
def test_errors_say_what_is_wrong_and_the_code_says_whose_fault(vesta, args, code, text):
    result = vesta(*args)
    assert result.code == code
    assert text in result.err.decode()
    assert not args or len(result.err.decode().splitlines()) == 1
    assert result.out == b""


@pytest.mark.parametrize("args, text", [
    (["-lines=7"], '"7" is not a value that lines can have: it takes true or false'),
    (["-granularity=rows"], "it takes functions, filefunctions, files, lines, addresses"),
    (["-color=red"], "it takes auto, always or never"),
    (["-max-memory=lots"], "it takes a size such as 512MiB"),
    (["-nodefraction=x"], "it takes a number"),
    (["-nodefraction=nan"], "it takes a number"),
    (["-divide_by=inf"], "it takes a number"),
    (["-divide_by=-2"], "divide_by must be more than 0"),
    (["-zzz"], 'there is no option "-zzz" ('),
])
def test_a_value_that_makes_no_sense_is_told_what_makes_sense(vesta, profile, args, text):
    assert text in vesta("top", *args, profile, check=2).err.decode()


def test_a_limit_may_be_as_large_as_one_likes(vesta, profile):
    everything = rows(vesta("top", profile, check=0))
    for limit in (["99999999999"], ["4294967298"], ["-nodecount=99999999999999999999"]):
        assert rows(vesta("top", *limit, profile, check=0)) == everything


@pytest.mark.parametrize("verb", ["flame", "dot", "raw", "convert", "merge", "web"])
def test_options_that_would_do_nothing_are_refused(vesta, profile, verb):
    result = vesta(verb, "--json", profile, check=2)
    assert b'this command has no option "-json"' in result.err


@pytest.mark.parametrize("args, text", [
    (["top", "-focus=nowhere"], "no sample passes the filters"),
    (["traces", "-ignore=."], "no sample passes the filters"),
    (["flame", "-focus=nowhere"], "no sample passes the filters"),
    (["tags"], "no sample has a label"),
    (["comments"], "the profile has no comments"),
])
def test_nothing_to_show_is_no_data(vesta, profile, args, text):
    result = vesta(*args, profile, check=3)
    assert result.err.decode().splitlines()[-1] == "vesta: no data: " + text


def test_no_data_still_has_the_form_that_scripts_read(vesta, profile):
    result = vesta("top", "--json", "-focus=nowhere", profile, check=3)
    assert result.json["entries"] == []


def test_a_profile_without_samples_is_no_data(vesta, tmp_path):
    empty = tmp_path / "empty.speedscope.json"
    empty.write_text(
        '{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[]},'
        '"profiles":[{"type":"sampled","name":"x","unit":"none","startValue":0,"endValue":0,'
        '"samples":[],"weights":[]}]}'
    )
    assert b"the profile has no samples" in vesta("top", empty, check=3).err
    assert b"the profile has no samples" in vesta("flame", empty, check=3).err
    vesta("info", empty, check=0)


def test_two_equal_profiles_differ_in_nothing_and_that_is_an_answer(vesta, profile):
    vesta("top", "-diff_base", profile, profile, check=0)
    vesta("diff", profile, profile, check=0)


def test_a_flame_graph_is_not_put_on_a_terminal(profile):
    assert "not for a terminal; give it a file with -o FILE" in on_a_terminal("flame", profile)


def on_a_terminal(*args, env=None):
    """What vesta prints when its output is a terminal."""
    import conftest
    import pty
    master, slave = pty.openpty()
    full = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **(env or {})}
    process = subprocess.Popen([str(conftest.BUILD / "vesta"), *map(str, args)], stdin=slave,
                               stdout=slave, stderr=slave, env=full)
    process.wait(timeout=30)
    os.close(slave)
    seen = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:
            break
        if not more:
            break
        seen += more
    os.close(master)
    return seen.decode()


def test_colour_is_for_terminals_only(vesta, tmp_path, profile):
    plain = vesta("top", profile, check=0).text
    shown = on_a_terminal("top", profile)
    assert "\x1b[31m        50 50.00%\x1b[0m" in shown
    assert re.sub("\x1b\\[[0-9;]*m", "", shown).replace("\r\n", "\n") == plain
    assert "\x1b" not in plain
    assert "\x1b" not in on_a_terminal("top", profile, env={"NO_COLOR": "1"})
    assert "\x1b" not in on_a_terminal("top", profile, env={"TERM": "dumb"})
    assert "\x1b" not in on_a_terminal("top", "--color=never", profile)
    assert "\x1b[31m" in vesta("top", "--color=always", profile, check=0).text
    assert "\x1b" in on_a_terminal("top", tmp_path / "missing")
    out = tmp_path / "out.txt"
    on_a_terminal("top", profile, "-o", out)
    assert out.read_text() == plain


def test_diff_colours_what_grew_and_what_shrank(vesta, tmp_path, profile):
    after = tmp_path / "after.collapsed"
    after.write_bytes(STACKS.replace(b"parse 30", b"parse 60").replace(b"idle 10", b"idle 5"))
    shown = vesta("diff", "--color=always", profile, after, check=0).text
    assert "\x1b[31m         +30   +100.00%\x1b[0m  parse" in shown
    assert "\x1b[32m          -5    -50.00%\x1b[0m  idle" in shown


def test_bad_input_is_one_line_on_stderr(vesta, tmp_path):
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x00\x01\x02 not a profile")
    result = vesta("top", bad)
    assert result.code == 1
    assert len(result.err.decode().splitlines()) == 1
    assert str(bad) in result.err.decode()


def test_a_bad_regex_names_the_place(vesta, profile):
    result = vesta("top", "-focus=a(b", profile)
    assert result.code == 2
    assert 'bad regular expression "a(b"' in result.err.decode()


def test_the_memory_limit_stops_a_bomb_and_names_itself(vesta, tmp_path):
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb") as f:
        for _ in range(200):
            f.write(b"\0" * (1 << 20))
    result = vesta("top", "--max-memory=64MiB", bomb)
    assert result.code == 1


def test_the_memory_limit_holds_for_real_content(vesta, tmp_path):
    big = tmp_path / "big.collapsed"
    with open(big, "w") as f:
        for i in range(200000):
            f.write(f"main;f{i};g{i * 7} 1\n")
    result = vesta("top", "--max-memory=8MiB", big)
    assert result.code == 1
    assert "memory limit of 8.0 MiB reached" in result.err.decode()
    assert vesta("top", big).code == 0


def test_convert_says_what_is_lost(vesta, tmp_path):
    source = tmp_path / "a.pb.gz"
    vesta("convert", "-", "-o", source, stdin=STACKS, check=0)
    result = vesta("convert", source, tmp_path / "b.speedscope.json", check=0)
    assert json.loads((tmp_path / "b.speedscope.json").read_text())["profiles"]
    result = vesta("convert", source, "--to=collapsed", check=0)
    assert sorted(result.out.splitlines()) == sorted(STACKS.splitlines())


def test_times_that_are_added_up_are_said_to_be_lost(vesta, tmp_path):
    source = tmp_path / "p.cpuprofile"
    source.write_text(json.dumps({
        "nodes": [{"id": 1, "callFrame": {"functionName": "f", "scriptId": "0", "url": "",
                                          "lineNumber": 0, "columnNumber": 0}}],
        "startTime": 1, "endTime": 100, "samples": [1, 1], "timeDeltas": [10, 20]}))
    result = vesta("convert", source, tmp_path / "p.pb.gz", check=0)
    assert b"lost: the times of samples" in result.err


def test_a_call_graph_is_a_format_to_convert_to(vesta, tmp_path, profile):
    out = tmp_path / "p.dot"
    result = vesta("convert", profile, out, check=0)
    assert out.read_text() == vesta("dot", profile, check=0).text
    assert b"lost: everything but" in result.err
    assert vesta("convert", profile, "--to=dot", check=0).text == out.read_text()
    assert "dot " in vesta("help", "formats", check=0).text


@pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed to build a program")
def test_what_is_converted_has_names_unless_the_format_holds_addresses(vesta, tmp_path):
    (tmp_path / "w.c").write_text("int spin(int n) { return n * n; } int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-no-pie", "w.c", "-o", "w"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "w"], cwd=tmp_path, check=True, capture_output=True, text=True)
    address = next(int(l.split()[0], 16) for l in symbols.stdout.splitlines() if l.endswith(" spin"))
    legacy = tmp_path / "heap.txt"
    legacy.write_text(
        "heap profile: 1: 8 [1: 8] @ heapprofile\n"
        f"1: 8 [1: 8] @ {address + 4:#x}\n\nMAPPED_LIBRARIES:\n"
        f"{address & ~0xfff:08x}-{(address & ~0xfff) + 0x1000:08x} r-xp 00001000 00:00 0 {tmp_path}/w\n"
    )
    for name in ("p.speedscope.json", "p.collapsed", "p.otlp", "p.pb.gz"):
        vesta("convert", legacy, tmp_path / name, check=0)
        assert "spin" in vesta("top", "-symbolize=none", tmp_path / name, check=0).text, name
    vesta("convert", "-symbolize=none", legacy, tmp_path / "bare.pb.gz", check=0)
    vesta("convert", tmp_path / "bare.pb.gz", tmp_path / "bare.otlp", check=0)
    assert "spin" not in vesta("top", "-symbolize=none", tmp_path / "bare.otlp", check=0).text
    vesta("convert", tmp_path / "bare.pb.gz", tmp_path / "p2.collapsed", check=0)
    assert "spin" in (tmp_path / "p2.collapsed").read_text()


def test_info_counts_stacks_and_reads_well(vesta, tmp_path, profile):
    text = vesta("info", profile, check=0).text
    assert "Samples:      4 in 4 stacks, at most 4 frames deep" in text
    assert vesta("info", "--json", profile, check=0).json["stacks"] == 4
    one = tmp_path / "one.collapsed"
    one.write_text("main 1\n")
    assert "1 in 1 stack, at most 1 frame deep" in vesta("info", one, check=0).text


def test_info_of_the_example_has_values_that_people_read(vesta):
    import conftest
    text = vesta("info", conftest.ROOT / "examples" / "shop.pb.gz", check=0).text
    assert "cpu/nanoseconds, total 2320000000 (2.32s), shown by default" in text
    assert "Period:       10ms of cpu" in text


def test_binary_output_is_not_put_on_a_terminal(vesta, profile):
    pty = pytest.importorskip("pty")
    import subprocess
    import conftest
    master, slave = pty.openpty()
    done = subprocess.run([str(conftest.BUILD / "vesta"), "merge", str(profile)], stdout=slave,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    os.close(slave)
    os.close(master)
    assert done.returncode == 2
    assert b"not for a terminal" in done.stderr


def test_diff_shows_changes_and_fails_on_rules(vesta, tmp_path, profile):
    after = tmp_path / "after.collapsed"
    after.write_bytes(STACKS.replace(b"json 50", b"json 80").replace(b"idle 10", b"idle 5"))
    result = vesta("diff", profile, after, check=0)
    assert "+30" in result.text and "json" in result.text
    assert vesta("diff", profile, after, "--fail-if", "total>+50%").code == 0
    result = vesta("diff", profile, after, "--fail-if", "total>+5%, flat(json)>10, flat(idle)<-4")
    assert result.code == 4
    assert result.err.decode().count("breached:") == 3
    assert vesta("diff", profile, after, "--fail-if", "flat(json)>+70%").code == 0
    assert vesta("diff", profile, after, "--fail-if", "nonsense").code == 2
    assert vesta("diff", profile).code == 2


def test_a_bad_rule_is_told_before_anything_is_shown(vesta, profile):
    result = vesta("diff", profile, profile, "--fail-if=totl>5%", check=2)
    assert result.out == b"" and b"it must begin with total" in result.err


def test_a_diff_of_nothing_is_no_data(vesta, profile):
    result = vesta("diff", "-focus=nowhere", profile, profile, check=3)
    assert b"no sample of either side passes the filters" in result.err


def test_profiles_that_count_different_things_are_not_added_up(vesta, tmp_path, profile):
    other = tmp_path / "other.speedscope.json"
    other.write_text(
        '{"$schema":"https://www.speedscope.app/file-format-schema.json",'
        '"shared":{"frames":[{"name":"f"}]},"profiles":[{"type":"sampled","name":"x",'
        '"unit":"bytes","startValue":0,"endValue":5,"samples":[[0]],"weights":[5]}]}'
    )
    result = vesta("top", profile, other, check=2)
    assert f"could not merge: {other} has no sample type in common" in result.err.decode()
    vesta("info", profile, other, check=0)


def test_a_program_alone_is_not_a_profile(vesta):
    import conftest
    result = vesta("top", conftest.BUILD / "vesta", check=2)
    assert b"is a program; the profile to look at comes behind it" in result.err


def test_diff_as_json(vesta, tmp_path, profile):
    after = tmp_path / "after.collapsed"
    after.write_bytes(STACKS.replace(b"json 50", b"json 150"))
    answer = vesta("diff", "--json", profile, after, check=0).json
    assert (answer["total_before"], answer["total_after"]) == (100, 200)
    first = answer["functions"][0]
    assert (first["name"], first["flat_before"], first["flat_after"]) == ("json", 50, 150)
    normalized = vesta("diff", "--json", "-normalize", profile, after, check=0).json
    assert normalized["total_before"] == 200


def test_help_is_there_for_every_verb(vesta):
    text = vesta("help", check=0).text
    for line in text.split("commands:")[1].splitlines():
        word = line.split()[0] if line.startswith("  ") and line.split() else None
        if word and word != "help":
            assert f"usage: vesta {word}" in vesta(word, "--help", check=0).text
            assert vesta("help", word, check=0).text == vesta(word, "--help", check=0).text
    assert "pprof" in vesta("help", "formats", check=0).text
    assert vesta("--version", check=0).text.startswith("vesta ")


def test_help_and_version_take_one_dash_or_two(vesta):
    want = vesta("help", check=0).text
    assert [vesta(w, check=0).text for w in ("-h", "-help", "--help")] == [want] * 3
    assert vesta("-version", check=0).text == vesta("--version", check=0).text


def test_output_goes_to_a_file(vesta, tmp_path, profile):
    out = tmp_path / "top.txt"
    assert vesta("top", profile, "-o", out, check=0).out == b""
    assert "json" in out.read_text()
    assert vesta("top", profile, "-o", tmp_path / "no" / "such").code == 1


def test_a_full_disk_is_an_error(vesta, profile):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    result = vesta("top", profile, "-o", "/dev/full")
    assert result.code == 1
    assert "No space left" in result.err.decode()


def test_what_cannot_be_written_leaves_the_old_file_whole(tmp_path, profile):
    import resource
    import signal
    import subprocess
    import conftest

    out = tmp_path / "kept.svg"
    out.write_text("what was there")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as a full disk: an error, not a signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = subprocess.run([str(conftest.BUILD / "vesta"), "flame", str(profile), "-o", str(out)],
                          preexec_fn=limit, restore_signals=False, capture_output=True)
    assert done.returncode == 1
    assert b"File too large" in done.stderr
    assert out.read_text() == "what was there"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept.svg", "p.collapsed"]


def test_an_overwritten_file_keeps_its_mode(vesta, tmp_path, profile):
    out = tmp_path / "x.svg"
    out.write_text("old")
    out.chmod(0o640)
    vesta("flame", profile, "-o", out, check=0)
    assert "<svg" in out.read_text()
    assert out.stat().st_mode & 0o777 == 0o640


def test_the_example_of_the_readme_is_true(vesta):
    import conftest
    readme = (conftest.ROOT / "README.md").read_text()
    start = readme.index("$ build/vesta top 8 examples/shop.pb.gz\n")
    block = readme[start:readme.index("```", start)].splitlines()[1:]
    got = vesta("top", "8", conftest.ROOT / "examples" / "shop.pb.gz", env={"TZ": "UTC"}, check=0)
    assert [line.rstrip() for line in got.text.splitlines()] == [line.rstrip() for line in block]
