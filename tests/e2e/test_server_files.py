"""Questions about a file in the body: the numbers of the command line, and nothing stored."""

import gzip
import json
import os
import random
import time
import urllib.parse

import pytest

from conftest import ROOT, Server, corpus_files, run_vesta

SHOP = ROOT / "examples" / "shop.pb.gz"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("files") / "data").start()
    yield started
    started.stop()


def ask(server, name, body, status=200, headers=None, **params):
    target = f"/api/v1/file/{name}?" + urllib.parse.urlencode(params, doseq=True)
    got, _, content = server.post(target, body=body, headers=headers)
    assert got == status, (target, got, content[:500])
    return content


def answer(server, name, body, **params):
    return json.loads(ask(server, name, body, **params))


def numbers(rows):
    return sorted((r["name"], r["flat"], r["cum"]) for r in rows)


def cli_top(file, *args):
    return run_vesta("top", file, "--json", "-nodecount=1000000", "-nodefraction=0",
                     "-symbolize=demangle=default", *args, check=0).json


# One of each kind whose frames all have names: what has none is shown otherwise.
FILES = [name for prefix in ("collapsed/", "cpuprofile/", "speedscope/", "jfr/own/", "heapsnapshot/",
                             "pprof/go119/", "pprof/node20/", "chrome-trace/", "stackprof/",
                             "callgrind/own")
         for name in corpus_files(prefix)][:60]


@pytest.mark.parametrize("name", FILES)
def test_top_has_the_numbers_of_the_command_line(server, corpus, name):
    file = corpus / name
    done = run_vesta("top", file, "--json")
    content = file.read_bytes()
    if done.code != 0:
        pytest.skip("nothing that the command line reads")
    ours, theirs = answer(server, "top", content, limit=1000000), cli_top(file)
    if any(r["flat"] < 0 for r in theirs["entries"]):
        pytest.skip("totals of differences are counted otherwise")
    assert ours["total"] == theirs["total"]
    assert sorted((r["flat"], r["cum"]) for r in ours["rows"]) == sorted(
        (r["flat"], r["cum"]) for r in theirs["entries"])
    info = answer(server, "info", content)
    said = run_vesta("info", file, "--json", check=0).json
    assert info["format"] == said["format"] and info["profiles"] == said["profiles"]
    assert info["types"] == said["sample_types"] and info["samples"] == said["samples"]


def test_filters_types_and_files_agree(server, tmp_path):
    content = SHOP.read_bytes()
    kinds = [t["type"] for t in answer(server, "info", content)["types"]]
    for kind in kinds:
        ours = answer(server, "top", content, type=kind, limit=1000000)
        theirs = cli_top(SHOP, f"-sample_index={kind}")
        assert (ours["type"], ours["total"]) == (kind, theirs["total"])
        assert numbers(ours["rows"]) == numbers(theirs["entries"])
    name = answer(server, "top", content)["rows"][0]["name"]
    ours = answer(server, "top", content, focus=name, limit=1000000)
    assert numbers(ours["rows"]) == numbers(cli_top(SHOP, f"-focus={name}")["entries"])
    exported = tmp_path / "out.pb.gz"
    exported.write_bytes(ask(server, "profile.pb.gz", content))
    assert numbers(cli_top(exported)["entries"]) == numbers(cli_top(SHOP)["entries"])
    folded = ask(server, "profile.folded", content).decode()
    assert sorted(folded.splitlines()) == sorted(
        run_vesta("convert", "--to=collapsed", SHOP, check=0).text.splitlines())
    flame = answer(server, "flame", content, max_nodes=100000)
    assert flame["nodes"]["total"][0] == flame["total"]


def test_a_heap_snapshot_is_summed_up_by_constructor(server, corpus):
    file = corpus / "heapsnapshot/node20.heapsnapshot.gz"
    info = answer(server, "info", file.read_bytes())
    said = run_vesta("info", file, "--json", check=0).json
    assert info["constructors"] == said["constructors"][:1000]
    assert info["all_constructors"] == len(said["constructors"])


def test_times_of_samples_make_a_heat_map(server, corpus):
    content = (corpus / "jfr/own/java17-profile.jfr").read_bytes()
    assert answer(server, "info", content)["has_times"]
    heat = answer(server, "heatmap", content, rows=10)
    top = answer(server, "top", content)
    assert sum(heat["cells"]["value"]) == top["total"] and heat["type"] == top["type"]
    assert heat["n_rows"] == 10 and max(heat["cells"]["row"]) < 10
    assert int(heat["from_ns"]) < int(heat["until_ns"])
    one = answer(server, "heatmap", content, rows=1, step="1s", type=top["types"][0]["type"])
    assert one["column_ns"] == str(10**9)
    assert "do not say when" in answer(server, "heatmap", b"main;a 5\n", status=404)["error"]


def test_a_file_is_compared_with_a_file_and_with_the_store(server, corpus):
    before = (corpus / "pprof/series/cpu-00.pb.gz").read_bytes()
    after = (corpus / "pprof/series/cpu-01.pb.gz").read_bytes()
    sizes = {"before_bytes": len(before), "after_bytes": len(after)}
    both = answer(server, "diff/table", before + after, limit=1000000, **sizes)
    assert both["before"]["total"] == answer(server, "top", before)["total"]
    assert both["after"]["total"] == answer(server, "top", after)["total"]
    tree = answer(server, "diff", before + after, **sizes)
    assert tree["nodes"]["after_total"][0] == both["after"]["total"]

    status, _, content = server.post(
        "/api/v1/profiles?service.name=series&vesta.upload=1&retime=1", body=before)
    stored = json.loads(content)
    assert status == 200 and stored["stored"] == 1
    assert stored["labels"] == {"service.name": "series", "vesta.upload": "1"}
    kind = both["type"]
    mixed = answer(server, "diff/table", after, limit=1000000, before_bytes=0,
                   after_bytes=len(after), before_query='%s{vesta.upload="1"}' % kind,
                   before_from=stored["from_ns"], before_until=stored["until_ns"], type=kind)
    assert numbers_of(mixed) == numbers_of(both)


def numbers_of(table):
    return sorted((r["name"], r["before_flat"], r["after_flat"], r["before_cum"], r["after_cum"])
                  for r in table["rows"])


def test_large_bodies_lie_in_a_file_and_are_read_as_well(server):
    """Past 4 MiB a body is not held in memory."""
    large = b"".join(b"main;f%07d;%s %d\n" % (i, b"x" * 40, 1 + i % 7) for i in range(90000))
    assert len(large) > 4 << 20
    total = sum(1 + i % 7 for i in range(90000))
    assert answer(server, "top", large)["total"] == total
    twice = answer(server, "diff/table", b"main;a 5\n" + large, before_bytes=9,
                   after_bytes=len(large))
    assert (twice["before"]["total"], twice["after"]["total"]) == (5, total)


def test_broken_bodies_are_refused_and_the_server_lives(server, corpus):
    rng = random.Random(7)
    names = ["pprof/go119/cpu-997hz.pb.gz", "jfr/own/java17-profile.jfr",
             "cpuprofile/node20.cpuprofile", "heapsnapshot/node20.heapsnapshot.gz",
             "otlp/ebpf-profile.v1_11.pb"]
    for name in names:
        content = (corpus / name).read_bytes()
        for _ in range(12):
            broken = bytearray(content[:rng.randrange(1, len(content))])
            for _ in range(rng.randrange(4)):
                broken[rng.randrange(len(broken))] = rng.randrange(256)
            status, _, reply = server.post("/api/v1/file/top", body=bytes(broken))
            assert status in (200, 400, 413), (name, status, reply[:300])
            assert status == 200 or json.loads(reply)["error"]
    for body in (b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"FLR\0", os.urandom(5000), b"{" * 5000,
                 b"[" * 100000, b"a;" * 500000 + b" 1"):
        status, _, reply = server.post("/api/v1/file/info", body=body)
        assert status in (200, 400, 413), (body[:20], reply[:200])
    assert server.get("/healthz")[0] == 200


def test_patterns_without_end_stop_with_the_question(new_server):
    """The names and the pattern are one's own: the time that a question may take still holds."""
    server = new_server("--limits-query-timeout", "1s")
    names = b"".join(b"%s%d 1\n" % (b"a" * 40, i) for i in range(5000))
    begun = time.monotonic()
    assert "took longer" in answer(server, "top", names, status=504, focus="((a+)+)+[xy]")["error"]
    assert time.monotonic() - begun < 8


def test_a_bomb_is_refused(server):
    bomb = gzip.compress(gzip.compress(b"a;" * (4 << 20)) * 50)
    assert len(bomb) < 1 << 20
    error = answer(server, "top", bomb, status=413)["error"]
    assert "limit" in error


def test_nothing_of_it_is_kept(server):
    marker = b"main;a_name_to_look_for 5\n"
    answer(server, "top", marker)
    answer(server, "info", marker)
    kept = [f for f in server.data.rglob("*") if f.is_file() and b"a_name_to_look_for" in
            f.read_bytes()]
    assert kept == [] and "a_name_to_look_for" not in server.log_text()
