"""Trees and tables of the API: compact trees, comparisons, search; numbers are go tool pprof's."""

import json
import time
import urllib.parse

import pytest

from conftest import Server, run_vesta
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


def store(data, service, text, folder):
    file = folder / f"{service}.folded"
    file.write_text(text)
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
