"""A data directory from the command line: imported, asked, looked after."""

import collections
import gzip
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from conftest import ROOT, run_vesta
from protobuf import field, take_varint, varint

ALWAYS = ["--from", "2000-01-01"]


Run = collections.namedtuple("Run", "stdout stderr returncode")


@pytest.fixture(scope="session")
def vesta():
    """Runs the program and returns text; fails unless it exits with `code` (None: any)."""
    def run(*args, code=0):
        done = run_vesta(*args, check=code)
        return Run(done.text, done.err.decode(errors="replace"), done.code)
    return run


def with_time(content, time_ns):
    """A pprof message with another time, which is its field 9."""
    out, at = bytearray(), 0
    while at < len(content):
        start = at
        key, at = take_varint(content, at)
        value, at = take_varint(content, at)
        if key & 7 == 2:
            at += value
        out += varint(9 << 3) + varint(time_ns) if key >> 3 == 9 else content[start:at]
    return bytes(out)


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """The example profile as if it had been taken an hour ago: a store refuses what is too old."""
    path = tmp_path_factory.mktemp("shop") / "shop.pb.gz"
    content = gzip.decompress((ROOT / "examples" / "shop.pb.gz").read_bytes())
    path.write_bytes(gzip.compress(with_time(content, time.time_ns() - 3600 * 10**9)))
    return path


@pytest.fixture
def data(vesta, shop, tmp_path):
    """A store that holds the example profile."""
    path = tmp_path / "data"
    vesta("store", "import", "--data", path, "--quiet", "--label", "service.name=shop",
          "--label", "pod=a", shop)
    return path


def total(vesta, data, selector="", *options):
    out = vesta("query", "top", selector, "--data", data, "--json", *ALWAYS, *options).stdout
    return json.loads(out)["total"]


def test_a_stored_profile_answers_like_its_file(vesta, data, shop):
    options = ["--compact_labels", "-nodecount=15"]
    of_file = vesta("top", shop, *options).stdout
    of_store = vesta("query", "top", "", "--data", data, *ALWAYS, *options).stdout
    assert of_store == of_file
    assert "flat%" in of_store


def test_the_same_profile_twice_is_stored_once(vesta, data, shop):
    before = total(vesta, data)
    again = vesta("store", "import", "--data", data, "--label", "service.name=shop",
                  "--label", "pod=a", shop)
    assert "0 stored, 1 there already, 0 rejected" in again.stderr
    assert total(vesta, data) == before


def test_another_pod_with_equal_content_counts(vesta, data, shop):
    before = total(vesta, data)
    vesta("store", "import", "--data", data, "--label", "service.name=shop", "--label", "pod=b", shop)
    assert total(vesta, data) == 2 * before
    assert total(vesta, data, '{pod="b"}') == before
    names = vesta("query", "labels", "--data", data, *ALWAYS).stdout.split()
    assert names == ["pod", "service.name"]
    values = vesta("query", "values", "pod", "--data", data, *ALWAYS).stdout.split()
    assert values == ["a", "b"]


def test_compaction_changes_no_answer(vesta, data, shop):
    vesta("store", "import", "--data", data, "--label", "service.name=shop", "--label", "pod=b", shop)
    before = vesta("query", "traces", "", "--data", data, *ALWAYS).stdout
    vesta("store", "compact", "--data", data, "--quiet")
    assert vesta("query", "traces", "", "--data", data, *ALWAYS).stdout == before
    assert "sound" in vesta("store", "verify", "--data", data).stdout


def test_a_merged_selection_exports_as_pprof(vesta, data, tmp_path, shop):
    out = tmp_path / "merged.pb.gz"
    vesta("query", "merge", "", "--data", data, *ALWAYS, "-o", out)
    a = vesta("top", shop, "--compact_labels").stdout
    assert vesta("top", out, "--compact_labels").stdout == a


def test_profiles_are_listed_and_exported_and_come_back(vesta, data, tmp_path):
    listed = json.loads(vesta("query", "profiles", "--data", data, "--json", *ALWAYS).stdout)
    assert len(listed) == 1
    assert listed[0]["labels"] == {"pod": "a", "service.name": "shop"}
    out = tmp_path / "files"
    vesta("store", "export", "--data", data, "-o", out, *ALWAYS)
    again = tmp_path / "again"
    vesta("store", "import", "--data", again, *sorted(out.iterdir()))
    assert total(vesta, again) == total(vesta, data)
    back = json.loads(vesta("query", "profiles", "--data", again, "--json", *ALWAYS).stdout)
    assert back == listed


def test_a_timeline_adds_up(vesta, data):
    types = vesta("query", "types", "--data", data, *ALWAYS).stdout.split()
    name = types[0].split(":")[0]
    line = json.loads(vesta("query", "timeline", name, "--data", data, "--json", "--step", "30d",
                            *ALWAYS).stdout)
    assert sum(s["total"] for s in line["series"]) == total(vesta, data, name)


def test_a_function_has_a_history(vesta, data):
    top = json.loads(vesta("query", "top", "", "--data", data, "--json", *ALWAYS).stdout)
    entry = top["entries"][0]
    kind = top["type"] if isinstance(top.get("type"), str) else top["type"]["type"]
    series = json.loads(vesta("query", "function", entry["name"], kind, "--data", data, "--json",
                              "--step", "30d", *ALWAYS).stdout)
    points = [p for s in series["series"] for p in s["points"]]
    assert sum(p["flat"] for p in points) == entry["flat"]
    assert sum(p["value"] for p in points) == entry["cum"]


def test_erased_data_is_gone_and_may_come_again(vesta, data, shop):
    before = total(vesta, data)
    vesta("store", "erase", '{service.name="shop"}', "--data", data, *ALWAYS, "--until", "now+1d")
    gone = vesta("query", "top", "", "--data", data, *ALWAYS, code=3)
    assert "nothing is stored" in gone.stderr
    vesta("store", "import", "--data", data, "--quiet", "--label", "service.name=shop", "--label",
          "pod=a", shop)
    assert total(vesta, data) == before


def test_a_backup_restores(vesta, data, tmp_path):
    vesta("store", "backup", tmp_path / "copy", "--data", data)
    shutil.rmtree(data)
    vesta("store", "restore", tmp_path / "copy", "--data", data)
    assert total(vesta, data) > 0
    assert "sound" in vesta("store", "verify", "--data", data).stdout


def test_every_flipped_byte_is_found_or_harmless(vesta, data, tmp_path):
    vesta("store", "compact", "--data", data, "--quiet")
    files = [p for p in data.rglob("*") if p.is_file() and p.name not in ("LOCK", "MANIFEST.old")
             and not p.name.startswith("catalog")]
    for path in files:
        content = path.read_bytes()
        for at in sorted({0, len(content) // 3, len(content) // 2, len(content) - 1}):
            bad = bytearray(content)
            if not bad:
                continue
            bad[at] ^= 0x41
            path.write_bytes(bad)
            found = vesta("store", "verify", "--data", data, "--quiet", code=None)
            assert found.returncode == 1, f"{path.name} at {at}: {found.stdout}{found.stderr}"
            asked = vesta("query", "top", "", "--data", data, "--quiet", *ALWAYS, code=None)
            assert asked.returncode in (0, 1, 3), f"{path.name} at {at}"
        path.write_bytes(content)
    assert "sound" in vesta("store", "verify", "--data", data).stdout


@pytest.mark.parametrize("verb", [["top"], ["tree"], ["timeline"], ["function", "main.main"]])
def test_an_answer_without_a_damaged_file_says_so(vesta, data, shop, verb):
    vesta("store", "import", "--data", data, "--label", "service.name=other", shop)
    victim = sorted((data / "seg").iterdir())[0]
    victim.write_bytes(b"")
    got = vesta("query", *verb, "cpu", "--data", data, *ALWAYS)
    assert f'vesta: the answer is incomplete: "seg/{victim.name}" is damaged' in got.stderr
    assert got.stdout


def test_repair_keeps_what_is_sound(vesta, data, shop):
    vesta("store", "import", "--data", data, "--label", "service.name=other", shop)
    vesta("store", "compact", "--data", data, "--quiet")
    victim = sorted((data / "seg").iterdir())[0]
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    assert vesta("store", "verify", "--data", data, code=None).returncode == 1
    vesta("store", "repair", "--data", data)
    assert "sound" in vesta("store", "verify", "--data", data).stdout


def test_errors_say_what_to_do(vesta, data, tmp_path, shop):
    cases = [
        (["query", "top", "cpu{"], 2, "expected a label name"),
        (["query", "top", "", "--from", "noon"], 2, "is no time"),
        (["query", "nonsense", ""], 2, 'there is no question "nonsense"'),
        (["store", "nonsense"], 2, 'there is no "store nonsense"'),
        (["query", "top", 'cpu{a="b"}'], 3, "nothing is stored"),
        (["store", "import", "--label", "novalue", shop], 2, "--label takes NAME=VALUE"),
    ]
    for words, code, text in cases:
        got = vesta(*words, "--data", data, code=code)
        assert text in got.stderr, words
    missing = vesta("query", "top", "", "--data", tmp_path / "nowhere", code=1)
    assert "nowhere" in missing.stderr
    none = vesta("query", "top", "", code=2)
    assert "--data DIR" in none.stderr


def test_help_names_the_verbs(vesta):
    assert "timeline" in vesta("help", "query").stdout
    assert "backup" in vesta("help", "store").stdout


def test_a_policy_ends_what_is_too_old(vesta, data, shop):
    vesta("store", "policy", "--data", data, "--max-age", "1m", "--max-size", "1GiB")
    gone = vesta("query", "top", "", "--data", data, *ALWAYS, code=3)
    assert "nothing is stored" in gone.stderr
    vesta("store", "gc", "--data", data, "--quiet")
    assert json.loads(vesta("store", "stat", "--data", data, "--json").stdout)["profiles"] == 0
    late = vesta("store", "import", "--data", data, "--label", "service.name=shop", shop, code=1)
    assert "profiles are kept for 1m" in late.stderr
    bad = vesta("store", "policy", "--data", data, "--tenant", "nobody", "--max-age", "1d", code=1)
    assert 'there is no tenant "nobody" yet' in bad.stderr


def test_upgrading_a_store_of_this_format_does_nothing(vesta, data):
    vesta("store", "upgrade", "--data", data)
    assert total(vesta, data) > 0


def old_folded(tmp_path, age_days):
    """Stacks without a time of their own, in a file of that age."""
    path = tmp_path / "old.folded"
    path.write_text("main;work 3\nmain;rest 1\n")
    then = time.time() - age_days * 86400
    os.utime(path, (then, then))
    return path


def test_a_file_without_a_time_is_as_old_as_the_file(vesta, tmp_path):
    data, path = tmp_path / "data", old_folded(tmp_path, 2)
    vesta("store", "import", "--data", data, path)
    again = vesta("store", "import", "--data", data, path)
    assert "0 stored, 1 there already" in again.stderr
    assert total(vesta, data, "samples") == 4
    none = vesta("query", "top", "samples", "--data", data, code=3)  # not of the last hour
    assert 'nothing is stored for "samples" from 20' in none.stderr


def test_import_takes_last_years_file_when_told(vesta, tmp_path):
    data, path = tmp_path / "data", old_folded(tmp_path, 300)
    refused = vesta("store", "import", "--data", data, path, code=1)
    assert "profiles are kept for 30d" in refused.stderr
    assert "--max-age 302d would keep what is that old" in refused.stderr
    vesta("store", "import", "--data", data, "--max-age", "1y", path)
    assert total(vesta, data, "samples") == 4
    assert "max-age          365d\n" in vesta("store", "policy", "--data", data).stdout
    vesta("store", "import", "--data", data, "--max-age", "60d", path)  # shortens nothing
    vesta("store", "gc", "--data", data, "--quiet")
    assert total(vesta, data, "samples") == 4


def test_a_bad_file_does_not_keep_the_others_out(vesta, tmp_path, shop):
    data, bad = tmp_path / "data", tmp_path / "bad.pb.gz"
    bad.write_bytes(shop.read_bytes()[:200])
    got = vesta("store", "import", "--data", data, bad, shop, code=1)
    assert "bad.pb.gz" in got.stderr
    assert "1 stored, 0 there already, 0 rejected, 1 file not read" in got.stderr


def test_a_policy_is_shown_and_changed_in_part(vesta, data):
    assert "max-age          30d (default)" in vesta("store", "policy", "--data", data).stdout
    vesta("store", "policy", "--data", data, "--max-age", "90d")
    vesta("store", "policy", "--data", data, "--max-size", "1GiB")
    shown = vesta("store", "policy", "--data", data).stdout
    assert "max-age          90d\n" in shown and "max-size         1.0 GiB\n" in shown


def test_erasing_needs_a_selection_and_a_range(vesta, data):
    assert "{} is everything" in vesta("store", "erase", "", "--data", data, code=2).stderr
    assert "needs a range" in vesta("store", "erase", "{}", "--data", data, code=2).stderr
    vesta("store", "erase", "{}@0..now", "--data", data)
    assert vesta("query", "types", "--data", data, *ALWAYS, "--json", code=3).stdout == "[]\n"


def test_exporting_without_a_range_means_all(vesta, tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    vesta("store", "import", "--data", data, old_folded(tmp_path, 2))
    assert "1 profiles written" in vesta("store", "export", "--data", data, "-o", out).stderr


def test_tables_over_time_name_their_columns(vesta, data):
    def ask(*words):
        return vesta("query", *words, "--data", data, "--from", "now-1d").stdout
    assert ask("function", "main.discount", "cpu").split()[:3] == ["time", "cum", "flat"]
    assert ask("lines", "main.go", "cpu").split()[:2] == ["flat", "cum"]
    assert "a line" in ask("heatmap", "cpu", "--step", "1h").splitlines()[0]
    assert ask("heatmap", "cpu", "--step", "1h", "--csv").startswith("time,0,")
    called = json.loads(ask("callers", "main.discount", "cpu", "--json"))
    assert {"name": "main.total", "cum": called["function"]["cum"]} in called["callers"]
    two = vesta("query", "timeline", "cpu", "cpu", "--data", data, code=2)
    assert "takes one selection" in two.stderr


# ---- Programs that are loaded somewhere else every time

def unnamed_profile(mapping, program, addresses):
    """A pprof message with one stack of addresses, the innermost first."""
    start, limit, offset = mapping
    out = field(1, field(1, 1) + field(2, 2))
    stack = b"".join(varint(i + 1) for i in range(len(addresses)))
    out += field(2, field(1, stack) + field(2, varint(10)))
    out += field(3, field(1, 1) + field(2, start) + field(3, limit) + field(4, offset) + field(5, 3))
    for i, address in enumerate(addresses):
        out += field(4, field(1, i + 1) + field(2, 1) + field(3, address))
    for text in ("", "cpu", "nanoseconds", str(program)):
        out += field(6, text.encode())
    return out + field(9, time.time_ns() - 10**9)


@pytest.mark.parametrize("linker", ["-Wl,-z,separate-code", "-Wl,-z,noseparate-code",
                                    "-fuse-ld=lld"])
def test_programs_loaded_anywhere_share_stacks_and_keep_their_names(vesta, tmp_path, linker):
    source, program = tmp_path / "p.c", tmp_path / "program"
    source.write_text("int leaf(int x) { return x * 3; }\n"
                      "int main(int n, char **v) { (void)v; return leaf(n); }\n")
    built = subprocess.run(["cc", "-g", "-O0", "-fPIE", "-pie", linker, "-o", program, source],
                           capture_output=True, text=True)
    if built.returncode:
        pytest.skip(f"cc {linker} does not work here")
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    code = [int(re.search(rf"^(\w+) T {name}$", symbols, re.M)[1], 16) + 4
            for name in ("leaf", "main")]
    segments = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True,
                              check=True).stdout
    offset, va, size = (int(x, 16) for x in re.search(
        r"LOAD +(\w+) (\w+) \w+ \w+ (\w+) R E", segments).groups())
    data, page = tmp_path / "data", ~0xfff
    for pod, base in (("a", 0x55d000000000), ("b", 0x7f1200000000)):
        start = base + (va & page)
        mapping = start, start + (size + 0x1fff & page), offset & page
        file = tmp_path / f"{pod}.pb"
        file.write_bytes(unnamed_profile(mapping, program, [base + x for x in code]))
        vesta("store", "import", "--data", data, "--quiet", "--symbolize=none", "--label",
              "service.name=s", "--label", f"pod={pod}", file)
    vesta("store", "export", "--data", data, "-o", tmp_path / "out", "--to", "pprof")
    exported = sorted((tmp_path / "out").rglob("*.pb.gz"))
    assert len(exported) == 2
    places = [re.findall(r"0x\w+", vesta("raw", "--symbolize=none", file).stdout)
              for file in exported]
    assert places[0] == places[1] and len(places[0]) == 2 + 3
    for files in (exported, [tmp_path / "a.pb", exported[1]]):
        top = vesta("top", *files).stdout
        assert re.search(r"20ns +100% +100% +20ns +100% +leaf", top), top
        assert re.search(r"20ns +100% +main", top), top
    assert re.search(r"20ns +20ns +1:int leaf", vesta("list", "leaf", *exported).stdout)
    assert re.search(r"20ns +20ns +[0-9a-f]+: ", vesta("disasm", "leaf", *exported).stdout)


# ---- Labels of samples

def labelled_profile(seconds_ago, values=(30, 12)):
    """Two samples of one stack, told apart by their label alone."""
    out = field(1, field(1, 1) + field(2, 2))
    for value, handler in zip(values, (4, 5)):
        out += field(2, field(1, varint(1)) + field(2, varint(value)) +
                     field(3, field(1, 3) + field(2, handler)))
    out += field(4, field(1, 1) + field(4, field(1, 1))) + field(5, field(1, 1) + field(2, 6))
    for text in ("", "cpu", "nanoseconds", "handler", "/a", "/b", "work"):
        out += field(6, text.encode())
    return out + field(9, time.time_ns() - seconds_ago * 10**9)


def test_reports_know_the_labels_of_samples(vesta, tmp_path):
    data = tmp_path / "data"
    for i in range(20):
        path = tmp_path / f"{i}.pb"
        path.write_bytes(labelled_profile(100 + i))
        vesta("store", "import", "--data", data, "--quiet", "--label", "service.name=s", path)
    vesta("store", "compact", "--data", data, "--quiet")
    tags = vesta("query", "tags", "cpu", "--data", data).stdout
    assert re.search(r"handler: Total 840ns of 840ns", tags), tags
    assert re.search(r"600ns \(71.43%\): /a\n +240ns \(28.57%\): /b", tags), tags
    for option, value in (("-tagfocus=handler=/b", 240), ("-tagignore=handler=/b", 600)):
        top = json.loads(vesta("query", "top", "cpu", option, "--json", "--data", data).stdout)
        assert [e["flat"] for e in top["entries"]] == [value]
    assert "/a" in vesta("query", "flame", "cpu", "-tagroot=handler", "--data", data).stdout
    refused = vesta("query", "cut", "cpu", "-tagfocus=/b", "--data", data, code=2)
    assert "known to reports only" in refused.stderr
