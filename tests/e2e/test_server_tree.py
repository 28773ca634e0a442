"""Trees and tables of the API: compact trees, comparisons, search; numbers are go tool pprof's."""

import gzip
import json
import math
import re
import subprocess
import time
import urllib.parse

import pytest

from conftest import ROOT, Server, run_vesta
from protobuf import field, varint
from tree_wire import Tree

NS = 10**9

BEFORE = """main;serve;parse 30
main;serve;parse;alloc 10
main;serve;sort;sort;sort 40
main;serve;sort;less 5
main;idle 15
"""
AFTER = """main;serve;parse 60
main;serve;parse;alloc 10
main;serve;sort;sort;sort 42
main;serve;sort;less 6
main;fresh;alloc 80
main;idle 2
"""


def pprof_message(types, period, stacks):
    """A pprof profile: types [(name, unit)], period (name, unit, n), {"a;b": [values]}. Every
    function is of its own binary lib<name>.so with the build id id-<name>, at line 7 of <name>.c."""
    texts = [""]

    def text(s):
        if s not in texts:
            texts.append(s)
        return texts.index(s)

    names = sorted({name for stack in stacks for name in stack.split(";")})
    out = b"".join(field(1, field(1, text(t)) + field(2, text(u))) for t, u in types)
    for stack, values in stacks.items():
        ids = [names.index(n) + 1 for n in reversed(stack.split(";"))]
        out += field(2, field(1, b"".join(map(varint, ids)))
                     + field(2, b"".join(map(varint, values))))
    for i, name in enumerate(names, 1):
        out += field(3, field(1, i) + field(2, i << 20) + field(3, (i + 1) << 20)
                     + field(5, text(f"/opt/lib{name}.so")) + field(6, text(f"id-{name}"))
                     + field(7, 1))
        out += field(4, field(1, i) + field(2, i) + field(3, (i << 20) + 16)
                     + field(4, field(1, i) + field(2, 9)))
        out += field(5, field(1, i) + field(2, text(name)) + field(3, text(name))
                     + field(4, text(f"/src/{name}.c")) + field(5, 7))
    out += field(9, time.time_ns())
    out += field(11, field(1, text(period[0])) + field(2, text(period[1]))) + field(12, period[2])
    return out + b"".join(field(6, t) for t in texts)


def store(data, service, content, folder):
    file = folder / f"{service}.{'folded' if isinstance(content, str) else 'pb'}"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    run_vesta("store", "import", "--data", data, "--quiet", "--label", f"service.name={service}",
              file, check=0)
    return file


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    data = folder / "data"
    files = {"old": store(data, "old", BEFORE, folder), "new": store(data, "new", AFTER, folder)}
    wide = "".join(f"main;leaf{i} {i % 7 + 1}\n" for i in range(20000))
    store(data, "wide", wide, folder)
    store(data, "deep", ";".join(f"f{i}" for i in range(2000)) + " 3\n", folder)
    files["heap"] = store(data, "heap", pprof_message(
        [("inuse_objects", "count"), ("inuse_space", "bytes")], ("space", "bytes", 524288),
        {"main;keep": [3, 52428800], "main;drop": [1, 1048576]}), folder)
    store(data, "waits", pprof_message(
        [("wall", "milliseconds")], ("wall", "milliseconds", 10),
        {"main;net.Read": [400], "main;net.Dial;main.hash": [100]}), folder)
    store(data, "shop", gzip.decompress((ROOT / "examples" / "shop.pb.gz").read_bytes()), folder)
    store(data, "odd", "n" * 65000 + ";<b>x</b>;\u202eright;\U0001f525 7\n", folder)
    server = Server(data).start()
    server.files = files
    server.range = {"from": "0", "until": str(time.time_ns() + 3600 * NS)}
    yield server
    server.stop()


def ask(server, route, status=200, headers=None, **params):
    target = f"/api/v1/{route}?" + urllib.parse.urlencode({**server.range, **params}, doseq=True)
    got, answer_headers, content = server.request("GET", target, headers=headers)
    assert got == status, (target, got, content[:500])
    return answer_headers, content


def answer(server, route, status=200, **params):
    return json.loads(ask(server, route, status, **params)[1])


def tree(server, route, **params):
    headers, content = ask(server, route, format="tree", **params)
    assert headers["content-type"] == "application/vnd.vesta.tree"
    return Tree(content)


def of(service):
    return f'{{service.name="{service}"}}'


BOTH = {"before_query": of("old"), "after_query": of("new")}


def paths(flame, values):
    """The JSON tree's paths with a value of each."""
    nodes, names = flame["nodes"], flame["frames"]["name"]
    found = [()]
    for parent, frame in list(zip(nodes["parent"], nodes["frame"]))[1:]:
        found.append((*found[parent], names[frame]))
    return dict(zip(found, nodes[values]))


@pytest.mark.parametrize("params", [
    {}, {"max_nodes": 3}, {"max_nodes": 5, "invert": 1}, {"under": ["main", "serve"]},
    {"granularity": "lines"}, {"focus": "sort"}], ids=str)
def test_compact_trees_are_the_json_ones(world, params):
    for service in ("old", "wide", "deep", "odd"):
        if "under" in params and service != "old" or "focus" in params and service == "wide":
            continue
        flame = answer(world, "flame", query=of(service), **params)
        small = tree(world, "flame", query=of(service), **params)
        assert {small.path(i): v for i, v in enumerate(small.total)} == paths(flame, "total")
        assert {small.path(i): v for i, v in enumerate(small.self)} == paths(flame, "self")
        hidden = {small.path(i): v for i, v in small.hidden.items()}
        assert hidden == {k: v for k, v in paths(flame, "hidden").items() if k in hidden}
        assert sum(small.hidden_children.values()) == sum(flame["nodes"]["hidden_children"])
        for key in ("cut", "cut_nodes", "max_depth", "total", "type", "unit"):
            assert small.head[key] == flame[key]
        assert max(small.depth) == small.head["max_depth"]


def test_a_tree_is_breadth_first_with_the_heaviest_child_first(world):
    t = tree(world, "flame", query=of("old"))
    assert t.depth == sorted(t.depth)
    assert [t.name(i) for i in range(len(t.self))] == [
        "root", "main", "serve", "idle", "sort", "parse", "sort", "less", "alloc", "sort"]
    assert t.total[0] == 100 and t.head["scale"] == 5
    by_accept = ask(world, "flame", query=of("old"), headers={"accept": "application/vnd.vesta.tree"})
    assert Tree(by_accept[1]).total == t.total
    uses = [t.frame.count(row) for row in range(t.head["frames"])]
    assert uses == sorted(uses, reverse=True)


def test_hostile_shapes_arrive_whole(world):
    assert tree(world, "flame", query=of("deep"), max_nodes=3000).head["max_depth"] == 2000
    path = [f"f{i}" for i in range(1999)]
    status, _, content = world.request(
        "POST", "/api/v1/flame", body=json.dumps({
            **world.range, "query": of("deep"), "under": path, "format": "tree"}))
    assert status == 200 and Tree(content).head["nodes"] == 2, content[:300]
    wide = tree(world, "flame", query=of("wide"), max_nodes=100000)
    assert wide.head["nodes"] == 20002 and wide.self[2:] == sorted(wide.self[2:], reverse=True)
    odd = tree(world, "flame", query=of("odd"))
    assert odd.frames["name"][-3:] == ["<b>x</b>", "\u202eright", "\U0001f525"]
    assert len(odd.frames["name"][1]) == 65000


def test_both_sides_of_a_comparison_are_in_one_tree(world):
    for params in ({}, {"max_nodes": 4}, {"invert": 1}, {"under": ["main", "serve"]},
                   {"under": ["alloc"], "invert": 1}):
        diff = answer(world, "diff", **BOTH, **params)
        t = tree(world, "diff", **BOTH, **params)
        assert {t.path(i): v for i, v in enumerate(t.total)} == paths(diff, "after_total")
        assert {t.path(i): v for i, v in enumerate(t.before_total)} == paths(diff, "before_total")
        assert {t.path(i): v for i, v in enumerate(t.self)} == paths(diff, "after_self")
        assert {t.path(i): v for i, v in enumerate(t.before)} == paths(diff, "before_self")


# ---- How much stands behind a number


def test_answers_say_how_many_samples_and_profiles_they_are_of(world):
    for route in ("flame", "top"):
        got = answer(world, route, query=of("old"))
        assert (got["samples"], got["profiles"]) == (100, 1)
        got = answer(world, route, query=of("old"), focus="parse")
        assert (got["total"], got["samples"], got["profiles"]) == (40, 40, 1)
    diff = answer(world, "diff", **BOTH)
    assert (diff["before"]["samples"], diff["after"]["samples"]) == (100, 200)
    assert diff["before"]["profiles"] == diff["after"]["profiles"] == 1
    nothing = answer(world, "diff", before_query=of("nobody"), after_query=of("new"))
    assert nothing["before"]["samples"] == 0 and not nothing["has_statistics"]


def test_time_is_counted_by_its_period_and_what_cannot_be_is_not(world):
    cpu = answer(world, "top", query=f"cpu{of('shop')}")
    assert cpu["unit"] == "nanoseconds" and cpu["profiles"] == 1
    counted = answer(world, "top", query=f"samples{of('shop')}")
    assert cpu["samples"] == counted["total"] == counted["samples"] > 10
    assert cpu["samples"] == round(cpu["total"] / 10**7)
    heap = answer(world, "top", query=f"inuse_objects{of('heap')}")
    assert heap["total"] > 0 and "samples" not in heap


# ---- Comparisons


def z_says(before, after, n):
    """The test as books have it."""
    if before + after < 10:
        return 0
    pooled = (before + after) / sum(n)
    deviation = math.sqrt(pooled * (1 - pooled) * (1 / n[0] + 1 / n[1]))
    return int(deviation > 0 and abs(after / n[1] - before / n[0]) / deviation >= 1.959964)


def test_changes_are_told_from_chance(world):
    table = answer(world, "diff/table", **BOTH)
    assert table["has_statistics"]
    for row in table["rows"]:
        for kind in ("flat", "cum"):
            assert row[f"{kind}_significant"] == z_says(
                row[f"before_{kind}"], row[f"after_{kind}"], (100, 200)), row
    sure = {r["name"] for r in table["rows"] if r["cum_significant"]}
    assert sure == {"alloc", "fresh", "idle", "sort", "serve", "less"} - {"less"}

    diff = answer(world, "diff", **BOTH)
    t = tree(world, "diff", **BOTH)
    assert {t.path(i): v for i, v in enumerate(t.sure)} == paths(diff, "significant")
    assert t.sure == [z_says(b, a, (100, 200)) for b, a in zip(t.before_total, t.total)]
    assert sum(t.sure) > 0 and not t.sure[0]

    unknown = answer(world, "diff/table", before_query=f"inuse_objects{of('heap')}",
                     after_query=f"inuse_objects{of('heap')}")
    assert unknown["has_statistics"] is False
    assert "flat_significant" not in unknown["rows"][0]
    assert "sure" not in tree(world, "diff", before_query=f"inuse_objects{of('heap')}",
                              after_query=f"inuse_objects{of('heap')}").sections


def pprof_top(pprof, tmp_path, *args):
    """Name -> (flat, cum) as go tool pprof prints them."""
    env = {"PPROF_TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    got = subprocess.run([pprof, "-top", "-nodecount=0", "-nodefraction=0", "-edgefraction=0",
                          "-symbolize=none", *map(str, args)],
                         capture_output=True, text=True, env=env, timeout=60)
    assert got.returncode == 0, got.stderr
    rows = {}
    for line in got.stdout.splitlines():
        found = re.match(r"\s*(-?\d+)\s+\S+%\s+\S+%\s+(-?\d+)\s+\S+%\s+(.*)", line)
        if found:
            rows[found[3].removesuffix(" (inline)")] = (int(found[1]), int(found[2]))
    return rows, got.stdout


def as_pprof(world, tmp_path, service):
    file = tmp_path / f"{service}.pb.gz"
    run_vesta("convert", world.files[service], "-o", file, check=0)
    return file


@pytest.mark.parametrize("params", [{}, {"focus": "serve"}, {"ignore": "alloc"}, {"hide": "sort"}],
                         ids=str)
def test_a_comparison_has_the_numbers_of_pprof(world, pprof, tmp_path, params):
    theirs, _ = pprof_top(pprof, tmp_path, *[f"-{k}={v}" for k, v in params.items()],
                          f"-diff_base={as_pprof(world, tmp_path, 'old')}",
                          as_pprof(world, tmp_path, "new"))
    ours = {r["name"]: (r["flat_change"], r["cum_change"])
            for r in answer(world, "diff/table", **BOTH, **params)["rows"]}
    assert {k: v for k, v in ours.items() if v != (0, 0)} == {
        k: v for k, v in theirs.items() if v != (0, 0)}
    assert len(theirs) > 3


def test_a_table_of_changes_is_ordered_and_chosen_from(world):
    def names(**params):
        return [r["name"] for r in answer(world, "diff/table", **BOTH, **params)["rows"]]

    everything = names()
    assert everything[:2] == ["alloc", "parse"]
    assert names(order="name") == sorted(everything)
    rows = {r["name"]: r for r in answer(world, "diff/table", **BOTH)["rows"]}
    shares = [abs(rows[n]["flat_share_change"]) for n in names(order="share")]
    assert shares == sorted(shares, reverse=True)
    assert names(order="ratio")[0] == "alloc"
    assert names(only="after") == ["fresh"] and names(only="before") == []
    swapped = answer(world, "diff/table", before_query=of("new"), after_query=of("old"),
                     only="before")
    assert [r["name"] for r in swapped["rows"]] == ["fresh"] and swapped["all_rows"] == 1
    ask(world, "diff/table", status=400, **BOTH, order="size")
    ask(world, "diff/table", status=400, **BOTH, only="both")
    lines = names(granularity="lines")
    assert len(lines) == len(everything)


def test_types_of_one_unit_compare(world):
    cpu, wall = f"cpu{of('shop')}", f"wall{of('waits')}"
    diff = answer(world, "diff", before_query=cpu, after_query=wall)
    assert (diff["before"]["type"], diff["after"]["type"]) == ("cpu", "wall")
    assert diff["unit"] == "nanoseconds" == diff["before"]["unit"] == diff["after"]["unit"]
    assert diff["before"]["total"] == answer(world, "top", query=cpu)["total"]
    assert answer(world, "top", query=wall)["total"] == 500
    assert diff["after"]["total"] == 500 * 10**6
    back = answer(world, "diff", before_query=wall, after_query=cpu)
    assert back["unit"] == "nanoseconds" and back["before"]["total"] == 500 * 10**6
    assert diff["before"]["samples"] == 232 and diff["after"]["samples"] == 50
    assert diff["has_statistics"]


def test_frames_say_where_they_are(world):
    for route in ({"query": of("heap")},):
        frames = answer(world, "flame", **route)["frames"]
        t = tree(world, "flame", **route)
        for name, file, line, binary, build in (
                zip(*(frames[k] for k in ("name", "file", "line", "binary", "build_id")))):
            if name != "root":
                assert (file, line) == (f"/src/{name}.c", 7)
                assert (binary, build) == (f"/opt/lib{name}.so", f"id-{name}")
        ours = sorted(zip(*(t.frames[k] for k in ("name", "file", "line", "binary", "build"))))
        assert ours == sorted(zip(*(frames[k] for k in (
            "name", "file", "line", "binary", "build_id"))))
    lines = tree(world, "flame", query=of("heap"), granularity="lines")
    assert set(lines.frames["line"]) == {0, 9}


# ---- Search, recursion, binaries


@pytest.mark.parametrize("pattern", ["sort", "^parse$", "main|idle", "(?i)ALLOC", "less|alloc",
                                     "nothing"])
def test_a_search_finds_what_pprof_would_focus_on(world, pprof, tmp_path, pattern):
    got = answer(world, "search", query=of("old"), match=pattern)
    focused = answer(world, "top", query=of("old"), focus=pattern)
    assert got["matched_cum"] == focused["total"] and got["total"] == 100
    whole = answer(world, "top", query=of("old"))["rows"]
    matching = [r for r in whole if re.search(pattern, r["name"])]
    assert got["matched_flat"] == sum(r["flat"] for r in matching)
    assert got["functions"] == len(matching)
    if matching:
        rows, text = pprof_top(pprof, tmp_path, f"-focus={pattern}",
                               as_pprof(world, tmp_path, "old"))
        assert got["matched_cum"] == sum(flat for flat, _ in rows.values())
        assert got["matched_flat"] == sum(
            flat for name, (flat, _) in rows.items() if re.search(pattern, name))


def test_a_search_takes_filters_and_refuses_what_is_no_pattern(world):
    got = answer(world, "search", query=of("old"), match="sort", ignore="less")
    assert (got["total"], got["matched_cum"], got["matched_flat"]) == (95, 40, 40)
    assert answer(world, "search", query=of("heap"), match="libkeep")["functions"] == 1
    assert answer(world, "search", query=of("heap"), match="/src/.*c$")["functions"] == 3
    assert "match" in answer(world, "search", status=400, query=of("old"), match="(")["error"]
    ask(world, "search", status=400, query=of("old"))


def test_what_calls_itself_is_one_frame_when_asked(world):
    once = tree(world, "flame", query=of("old"), collapse_recursion=1)
    values = {once.path(i): v for i, v in enumerate(once.total)}
    assert values[("main", "serve", "sort")] == 45
    assert ("main", "serve", "sort", "sort") not in values
    assert once.head["max_depth"] == 4
    again = tree(world, "flame", query=of("old"), collapse_recursion=1,
                 under=["main", "serve", "sort"])
    assert again.total[0] == 45 and again.self[0] == 40 and again.head["nodes"] == 2
    both = tree(world, "diff", **BOTH, collapse_recursion=1, under=["main", "serve", "sort"])
    assert (both.before_total[0], both.total[0]) == (45, 48)
    turned = tree(world, "diff", **BOTH, collapse_recursion=1, invert=1, under=["sort", "serve"])
    assert (turned.before_total[0], turned.total[0]) == (40, 42)
    for route, more in (("top", {}), ("callers", {"function": "sort"})):
        plain = answer(world, route, query=of("old"), **more)
        collapsed = answer(world, route, query=of("old"), collapse_recursion=1, **more)
        assert plain == collapsed
    ask(world, "stacks", status=400, query=of("old"), collapse_recursion=1)


def test_trees_may_be_of_binaries(world):
    t = tree(world, "flame", query=of("heap"), granularity="binaries")
    assert {t.path(i): v for i, v in enumerate(t.total)} == {
        (): 53477376, ("libmain.so",): 53477376, ("libmain.so", "libkeep.so"): 52428800,
        ("libmain.so", "libdrop.so"): 1048576}
    below = tree(world, "flame", query=of("heap"), granularity="binaries", under=["libmain.so"])
    assert below.total[0] == 53477376 and below.frames["binary"][0] == "/opt/libmain.so"
    rows = answer(world, "top", query=of("heap"), granularity="binaries")["rows"]
    assert [(r["name"], r["flat"]) for r in rows[:2]] == [
        ("libkeep.so", 52428800), ("libdrop.so", 1048576)]
    theirs = run_vesta("top", "-binaries", world.files["heap"], "--json", check=0).json
    assert [(r["name"], r["flat"]) for r in theirs["entries"][:2]] == [
        (r["name"], r["flat"]) for r in rows[:2]]
    changed = answer(world, "diff/table", before_query=of("heap"), after_query=of("heap"),
                     granularity="binaries")["rows"]
    assert sorted(r["name"] for r in changed) == ["libdrop.so", "libkeep.so", "libmain.so"]
