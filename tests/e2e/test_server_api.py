"""The API of a running server: the numbers of the command line, in every shape it answers in."""

import gzip
import json
import math
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.parse

import pytest

from conftest import BUILD, ROOT, Server, run_vesta
from test_store import with_time

NS = 10**9


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A server over the example profile, kept twice under two services, and its range."""
    folder = tmp_path_factory.mktemp("api")
    content = gzip.decompress((ROOT / "examples" / "shop.pb.gz").read_bytes())
    now = time.time_ns()
    for service, ago in (("shop", 1800), ("shop", 1200), ("till", 600)):
        file = folder / f"{service}-{ago}.pb.gz"
        file.write_bytes(gzip.compress(with_time(content, now - ago * NS)))
        run_vesta("store", "import", "--data", folder / "data", "--quiet", "--label",
                  f"service.name={service}", file, check=0)
    server = Server(folder / "data").start()
    server.range = {"from": str(now - 3600 * NS), "until": str(now)}
    yield server
    server.stop()


def ask(server, route, params=None, status=200, method="GET", headers=None, body=None, **more):
    given = {**(params or {}), **more}
    target = f"/api/v1/{route}?" + urllib.parse.urlencode(given, doseq=True)
    got, answer_headers, content = server.request(method, target, body=body, headers=headers)
    assert got == status, (target, got, content[:500])
    return answer_headers, content


def answer(server, route, **params):
    return json.loads(ask(server, route, {**server.range, **params})[1])


def cli(server, verb, *args, selector="cpu"):
    return run_vesta("query", verb, *args, selector, "--data", server.data, "--from",
                     server.range["from"], "--until", server.range["until"], "--json",
                     "--quiet", check=0).json


def test_go_tool_pprof_opens_the_url_and_agrees(world, pprof, tmp_path):
    url = f"{world.url}/api/v1/profile.pb.gz?" + urllib.parse.urlencode(
        {**world.range, "query": 'cpu{service.name="shop"}'})
    file = tmp_path / "got.pb.gz"
    file.write_bytes(ask(world, "profile.pb.gz", {**world.range,
                                                  "query": 'cpu{service.name="shop"}'})[1])
    options = ["-top", "-nodecount=20", "-symbolize=none"]
    env = {"PPROF_TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    theirs = subprocess.run([pprof, *options, url], capture_output=True, text=True, env=env,
                            timeout=60)
    assert theirs.returncode == 0, theirs.stderr
    of_store = run_vesta("query", "top", 'cpu{service.name="shop"}', "-nodecount=20",
                         "--data", world.data, "--from", world.range["from"], "--until",
                         world.range["until"], "--quiet", check=0).text
    rows = [line.split() for line in theirs.stdout.splitlines() if re.search(r"%\s+\S", line)]
    ours = [line.split() for line in of_store.splitlines() if re.search(r"%\s+\S", line)]
    assert len(rows) > 5
    assert [r for r in rows if r[0] != "Showing"] == [r for r in ours if r[0] != "Showing"]
    assert run_vesta("top", file, "--json", check=0).json["total"] == answer(
        world, "top", query='cpu{service.name="shop"}')["total"]


def test_tables_and_trees_have_the_numbers_of_the_command_line(world):
    top = answer(world, "top", query="cpu", limit=1000)
    theirs = cli(world, "top", "-nodecount=0", "-nodefraction=0")
    assert top["total"] == theirs["total"]
    shown = {re.sub(r"\[.*\]", "[...]", r["name"]): (r["flat"], r["cum"]) for r in top["rows"]}
    assert shown == {
        r["name"]: (r["flat"], r["cum"]) for r in theirs["entries"]}

    flame = answer(world, "flame", query="cpu", max_nodes=50)
    cut = cli(world, "cut", "--limit", "50")
    nodes, names = flame["nodes"], flame["frames"]["name"]
    assert [names[f] for f in nodes["frame"]] == [n["name"] for n in cut["nodes"]]
    assert nodes["total"] == [n["total"] for n in cut["nodes"]]
    assert nodes["self"] == [n["self"] for n in cut["nodes"]]
    assert nodes["parent"][1:] == [n["parent"] for n in cut["nodes"]][1:]
    assert flame["cut_nodes"] == cut["cut_nodes"] > 0

    heaviest = max(top["rows"][1:], key=lambda r: r["cum"])["name"]
    callers = answer(world, "callers", query="cpu", function=heaviest)
    theirs = cli(world, "callers", heaviest)
    assert callers["function"]["cum"] == theirs["function"]["cum"]
    for side in ("callers", "callees"):
        assert [(c["name"], c["cum"]) for c in callers[side]] == [
            (c["name"], c["cum"]) for c in theirs[side]]

    file = next(f for f in flame["frames"]["file"] if f)
    lines = answer(world, "lines", query="cpu", file=file)
    assert [(r["line"], r["flat"], r["cum"]) for r in lines["rows"]] == [
        (r["line"], r["flat"], r["cum"]) for r in cli(world, "lines", file)]

    stacks = answer(world, "stacks", query="cpu", limit=100000)
    assert sum(stacks["stacks"]["value"]) == top["total"]
    assert stacks["stacks"]["end"][-1] == len(stacks["stack_frames"]["frame"])


def test_lists_are_those_of_the_command_line(world):
    types = answer(world, "types")["types"]
    assert [f"{t['type']}:{t['unit']}" for t in types] == cli(world, "types", selector="")
    assert answer(world, "labels")["labels"] == cli(world, "labels", selector="")
    assert answer(world, "label_values", label="service.name")["values"] == ["shop", "till"]
    series = answer(world, "series")["series"]
    assert sorted(s["labels"]["service.name"] for s in series) == ["shop", "till"]
    services = answer(world, "services")["services"]
    assert [(s["service"], s["profiles"]) for s in services] == [("shop", 2), ("till", 1)]
    assert services[0]["types"] == types
    profiles = answer(world, "profiles")["profiles"]
    starts = [int(p["start_ns"]) for p in profiles]
    assert starts == sorted(starts, reverse=True) and len(starts) == 3
    listed = cli(world, "profiles", selector="")
    assert sorted(starts) == sorted(int(p["start_ns"]) for p in listed)
    stat = json.loads(ask(world, "stat")[1])
    assert stat["store"]["profiles"] == 3
    assert stat["roles"] == ["ingest", "read", "admin", "operator"]
    assert int(stat["retention"]["profiles_ns"]) == 30 * 86400 * 10**9
    assert stat["limits"]["body_bytes"] == 64 << 20


def test_values_over_time_are_those_of_the_command_line(world):
    timeline = answer(world, "timeline", query="cpu", by="service.name", step="5m")
    theirs = cli(world, "timeline", "--by", "service.name", "--step", "5m")
    assert timeline["step_ns"] == theirs["step_ns"]
    assert [g["total"] for g in timeline["groups"]] == [s["total"] for s in theirs["series"]]
    points = timeline["points"]
    assert list(zip(points["start_ns"], points["value"])) == [
        (p["start_ns"], p["value"]) for s in theirs["series"] for p in s["points"]]

    name = answer(world, "top", query="cpu", order="cum")["rows"][0]["name"]
    function = answer(world, "function", query="cpu", function=name, step="5m")
    theirs = cli(world, "function", name, "--step", "5m")
    assert function["points"]["flat"] == [p["flat"] for s in theirs["series"]
                                          for p in s["points"]]

    heat = answer(world, "heatmap", query="cpu", step="1m")
    theirs = cli(world, "heatmap", "--step", "1m")
    assert heat["max"] == theirs["max"]
    assert sum(heat["cells"]["value"]) == sum(map(sum, theirs["columns"]))


def test_sides_are_compared(world):
    sides = {"before_query": 'cpu{service.name="shop"}', "after_query": 'cpu{service.name="till"}'}
    table = answer(world, "diff/table", **sides, limit=5)
    assert table["before"]["total"] == 2 * table["after"]["total"]
    row = table["rows"][0]
    assert row["flat_change"] == row["after_flat"] - row["before_flat"] < 0
    assert row["flat_ratio"] == 0.5 and abs(row["flat_share_change"]) < 1e-9
    tree = answer(world, "diff", **sides)
    assert tree["nodes"]["before_total"][0] == table["before"]["total"]
    assert [2 * v for v in tree["nodes"]["after_total"]] == tree["nodes"]["before_total"]


def decode(content):
    """A sheet's header and {column: values}, read with nothing but struct."""
    magic, version, size = struct.unpack_from("<8sII", content)
    assert (magic, version, size % 8) == (b"VESTACOL", 1, 0)
    header = json.loads(content[16:16 + size])
    data, columns = content[16 + size:], {}
    for c in header["columns"]:
        assert c["offset"] % 8 == 0
        if c["type"] == "text":
            ends = struct.unpack_from(f"<{c['length']}I", data, c["offset"])
            text = data[c["text"]:]
            columns[c["name"]] = [text[a:b].decode() for a, b in zip((0, *ends), ends)]
        else:
            code = {"u32": "I", "i64": "q", "f64": "d"}[c["type"]]
            columns[c["name"]] = list(struct.unpack_from(f"<{c['length']}{code}", data,
                                                         c["offset"]))
    return header, columns


@pytest.mark.parametrize("route,more", [
    ("flame", {}), ("top", {}), ("diff", {}), ("diff/table", {}), ("timeline", {"step": "5m"}),
    ("graph", {}), ("stacks", {}), ("heatmap", {"step": "1m"})])
def test_columns_hold_what_json_says(world, route, more):
    params = {**world.range, "query": "cpu", **more}
    as_json = json.loads(ask(world, route, params)[1])
    headers, content = ask(world, route, params,
                           headers={"accept": "application/vnd.vesta.columns"})
    assert headers["content-type"] == "application/vnd.vesta.columns"
    header, columns = decode(content)
    assert ask(world, route, params, format="columns")[1] == content
    for name, values in columns.items():
        table, column = name.split(".")
        of_json = as_json[table]
        wanted = ([row[column] for row in of_json] if isinstance(of_json, list)
                  else of_json[column])
        if values and isinstance(values[0], float):
            values = [v if math.isfinite(v) else None for v in values]
            assert values == wanted, name
        else:
            assert [str(v) for v in values] == [str(v) for v in wanted], name
    for key, value in header.items():
        assert key == "columns" or as_json[key] == value


def test_a_repeated_question_is_answered_with_304(world):
    params = {**world.range, "query": "cpu"}
    headers, content = ask(world, "flame", params)
    again, nothing = ask(world, "flame", params, status=304,
                         headers={"if-none-match": headers["etag"]})
    assert nothing == b"" and again["etag"] == headers["etag"]
    ask(world, "flame", params, query="cpu{}", headers={"if-none-match": headers["etag"]})
    # The order of parameters does not matter, nor how the time is written.
    shuffled = dict(reversed(list(params.items())))
    assert ask(world, "flame", shuffled)[0]["etag"] == headers["etag"]
    # A range that ends now moves on.
    assert ask(world, "flame", query="cpu")[0]["etag"] != ask(world, "flame", query="cpu")[0]["etag"]


def test_questions_may_be_posted(world):
    params = {**world.range, "query": "cpu", "limit": 3}
    plain = ask(world, "top", params)[1]
    form = ask(world, "top", method="POST", body=urllib.parse.urlencode(params),
               headers={"content-type": "application/x-www-form-urlencoded"})[1]
    as_json = ask(world, "top", method="POST", body=json.dumps(params),
                  headers={"content-type": "application/json"})[1]
    by_curl = ask(world, "top", method="POST", body=json.dumps(params),
                  headers={"content-type": "application/x-www-form-urlencoded"})[1]
    assert plain == form == as_json == by_curl


@pytest.mark.parametrize("route,params,why", [
    ("top", {"form": "now-1h"}, 'there is no parameter "form": did you mean "from"?'),
    ("top", {"from": "later"}, "from: "),
    ("top", {"query": "cpu{a"}, "query: "),
    ("top", {"limit": "many"}, "limit takes a number from 1 to 1000000, not \"many\""),
    ("top", {"focus": "("}, "focus"),
    ("lines", {}, 'the parameter "file" is missing'),
    ("timeline", {"query": "{}"}, "the selection has several sample types: type is one of "),
    ("heatmap", {"query": "cpu", "step": "1ns"}, "a heat map"),
    ("spans", {"trace": "xyz"}, "trace takes 32 hex digits"),
])
def test_what_is_wrong_is_named(world, route, params, why):
    error = json.loads(ask(world, route, {**world.range, **params}, status=400)[1])
    assert why in error["error"] and error["code"] == "bad_parameter"


def test_a_cause_without_data_says_what_was_looked_for(world):
    error = json.loads(ask(world, "top", query='cpu{service.name="nobody"}', status=404)[1])
    assert error["error"].startswith('nothing is stored for "cpu{service.name="nobody"}" from ')
    assert error["code"] == "no_data"


def test_profiles_stream_with_their_samples(world):
    headers, content = ask(world, "profiles", world.range, format="ndjson", samples=1)
    assert headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in content.splitlines()]
    assert len(lines) == 3
    for profile in lines:
        for i, total in enumerate(profile["totals"]):
            assert sum(s["values"][i] for s in profile["samples"]) == total["total"]


def test_other_tools_formats_have_the_same_total(world, tmp_path):
    total = answer(world, "top", query="cpu")["total"]
    for route, name in (("profile.otlp", "p.otlp"), ("profile.json", "p.otlp.json"),
                        ("profile.speedscope.json", "p.speedscope.json"),
                        ("profile.folded", "p.folded")):
        headers, content = ask(world, route, world.range, query="cpu")
        assert headers["content-disposition"] == f'attachment; filename="{route}"'
        (tmp_path / name).write_bytes(content)
        assert run_vesta("top", tmp_path / name, "--json", check=0).json["total"] == total, route
    headers, content = ask(world, "flame.svg", world.range, query="cpu", title="<shop>")
    assert headers["content-type"] == "image/svg+xml" and b"&lt;shop&gt;" in content
    assert "sandbox" in headers["content-security-policy"]


def metric(server, name):
    text = server.request("GET", "/metrics")[2].decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith(name))


@pytest.fixture(scope="module")
def spec_validator():
    """openapi-spec-validator in a venv of the build; skipped where it cannot be had."""
    venv = BUILD / "e2e-venv-openapi"
    python = venv / "bin" / "python"
    if not (venv / "ready").exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True)
        got = made.returncode == 0 and subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "openapi-spec-validator==0.7.1"],
            capture_output=True, timeout=300)
        if not got or got.returncode != 0:
            pytest.skip("openapi-spec-validator could not be fetched")
        (venv / "ready").touch()
    return python


def test_the_description_is_valid_openapi(world, spec_validator, tmp_path):
    file = tmp_path / "openapi.json"
    file.write_bytes(ask(world, "openapi.json")[1])
    done = subprocess.run([str(spec_validator), "-m", "openapi_spec_validator", str(file)],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    paths = json.loads(file.read_text())["paths"]
    for route in ("flame", "top", "timeline", "diff", "profile.pb.gz"):
        assert {"get", "post"} <= paths[f"/api/v1/{route}"].keys()


def test_every_answer_has_the_members_that_are_described(world):
    description = json.loads(ask(world, "openapi.json")[1])
    schemas = description["components"]["schemas"]
    more = {"label_values": {"label": "service.name"}, "callers": {"function": "main.main"},
            "function": {"function": "main.main"}, "timeline": {"step": "5m"}}
    top = answer(world, "top", query="cpu", order="cum")["rows"][0]
    more["callers"] = more["function"] = {"function": top["name"]}
    more["lines"] = more["source"] = {"file": top["file"]}
    more["search"] = {"match": "main"}
    for path, operations in description["paths"].items():
        content = operations.get("get", {}).get("responses", {}).get("200", {}).get("content")
        if not content or not path.startswith("/api/v1/") or path.endswith("/profile"):
            continue
        name = content["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
        route = path.removeprefix("/api/v1/")
        takes = {p["name"] for p in operations["get"]["parameters"]}
        params = {k: v for k, v in {**world.range, "query": "cpu", **more.get(route, {})}.items()
                  if k in takes}
        got = json.loads(ask(world, route, params)[1])
        assert got.keys() <= schemas[name]["properties"].keys(), path


def test_the_server_stops_working_for_a_client_that_left(new_server, tmp_path):
    """A stream of some 10 MB to a client that leaves: the server gives up rather than read on."""
    content = gzip.decompress((ROOT / "examples" / "shop.pb.gz").read_bytes())
    files = [tmp_path / f"{i}.pb.gz" for i in range(300)]
    for i, file in enumerate(files):
        file.write_bytes(gzip.compress(with_time(content, time.time_ns() - (i + 1) * NS), 1))
    run_vesta("store", "import", "--data", tmp_path / "data", "--quiet", "--label",
              "service.name=shop", *files, check=0)
    server = new_server()
    target = "/api/v1/profiles?format=ndjson&samples=1"
    assert len(server.request("GET", target)[2]) > 8 << 20
    cancelled = 'vesta_rejects_total{reason="cancelled"}'
    assert metric(server, cancelled) == 0
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(server.address)
    connection.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    assert connection.recv(10)
    connection.close()
    deadline = time.time() + 10
    while metric(server, cancelled) == 0 and time.time() < deadline:
        time.sleep(0.05)
    assert metric(server, cancelled) == 1
