"""The Pyroscope query API: Grafana's requests byte for byte, its own client in three protocols,
Profiles Drilldown's JSON, and numbers that agree with `vesta query`."""

import gzip
import json
import pathlib
import shutil
import subprocess
import time
import urllib.parse

import pytest

from conftest import BUILD, run_vesta
from protobuf import every, field, fields, numbers

HERE = pathlib.Path(__file__).resolve().parent
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
QUERIER = "/querier.v1.QuerierService/"

# What connect-go sends with every request of Grafana's data source.
GRAFANA = {
    "Content-Type": "application/proto",
    "Connect-Protocol-Version": "1",
    "Accept-Encoding": "gzip",
    "User-Agent": "connect-go/1.19.1 (go1.25.3)",
}

GO_MOD = """module example.com/client

go 1.25.0

require (
	connectrpc.com/connect v1.19.2
	github.com/grafana/pyroscope/api v1.6.0
)
"""


# ---- A server with something in it

STACKS = {
    ("checkout", "prod"): {"main;serve;parse": 30, "main;serve;render": 70, "main;gc": 9},
    ("checkout", "stage"): {"main;serve;parse": 5},
    ("cart", "prod"): {"main;add": 12},
}
TICK = 10_000_000  # nanoseconds at 100 samples a second


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A server with three profiles of the last minutes; .start_ms and .end_ms enclose them."""
    from conftest import Server

    server = Server(tmp_path_factory.mktemp("pyroscope") / "data").start()
    now = int(time.time())
    server.start_ms, server.end_ms = (now - 600) * 1000, now * 1000
    for i, ((service, env), stacks) in enumerate(STACKS.items()):
        params = urllib.parse.urlencode({
            "name": f"{service}.cpu{{env={env},pod=p{i}}}", "format": "folded",
            "sampleRate": 100, "spyName": "test", "from": now - 300 + 60 * i,
            "until": now - 290 + 60 * i})
        body = "".join(f"{stack} {n}\n" for stack, n in stacks.items())
        status, _, answer = server.post("/ingest?" + params, body.encode())
        assert status == 200, answer
    yield server
    server.stop()


def ask(server, method, message, headers=GRAFANA):
    """Asks as Grafana does; the message of the answer."""
    status, head, body = server.post(QUERIER + method, message, headers=headers)
    assert status == 200, body
    assert head["content-type"] == "application/proto"
    return gzip.decompress(body) if head.get("content-encoding") == "gzip" else body


def ask_json(server, method, question, status=200):
    """Asks as Profiles Drilldown does."""
    got, _, body = server.post(QUERIER + method, json.dumps(question).encode(),
                               headers={"Content-Type": "application/json"})
    assert got == status, body
    return json.loads(body)


def ranged(server, start, end):
    return field(start, server.start_ms) + field(end, server.end_ms)


def of_cpu(server, selector="{}"):
    return field(1, CPU) + field(2, selector) + ranged(server, 3, 4)


def stored(server, selection):
    """Total of a selection, as `vesta query` says it."""
    done = run_vesta("query", "--url", server.url, "top", selection, "--from",
                     str(server.start_ms), "--until", str(server.end_ms), "--json", check=0)
    return done.json["total"]


def walk(names, levels, width=4):
    """{stack: (total, self)} of a flame graph, following offsets as Grafana does."""
    stacks, above = {}, []
    for depth, level in enumerate(levels):
        at, here = 0, []
        for i in range(0, len(level), width):
            offset, total, own, name = level[i], level[i + 1], level[i + 2], level[i + width - 1]
            start = at + offset
            at = start + total
            path = ()
            if depth > 0:
                path = next(p for s, e, p in above if s <= start and start + total <= e)
                path = path + (names[name],)
            here.append((start, at, path))
            stacks[";".join(path)] = (total, own)
        above = here
    return stacks


# ---- Grafana's data source


def test_save_and_test_asks_for_profile_types(filled):
    types = every(ask(filled, "ProfileTypes", ranged(filled, 1, 2)), 1)
    ids = [every(t, 1)[0].decode() for t in types]
    assert CPU in ids
    cpu = dict(fields(types[ids.index(CPU)]))
    assert cpu == {1: CPU.encode(), 2: b"process_cpu", 4: b"cpu", 5: b"nanoseconds", 6: b"cpu",
                   7: b"nanoseconds"}


def test_labels_have_underscores_and_are_found_by_them(filled):
    names = every(ask(filled, "LabelNames", field(1, "{}") + ranged(filled, 2, 3)), 1)
    assert {b"service_name", b"pod", b"deployment_environment_name"} <= set(names)
    assert not any(b"." in name for name in names)

    def values(name, selector):
        message = field(1, name) + field(2, selector) + ranged(filled, 3, 4)
        return [v.decode() for v in every(ask(filled, "LabelValues", message), 1)]

    assert values("service_name", "{}") == ["cart", "checkout"]
    assert values("deployment_environment_name", '{service_name="checkout"}') == ["prod", "stage"]
    assert values("service_name", '{deployment_environment_name="stage"}') == ["checkout"]
    assert values("service_name", '{env="stage"}') == ["checkout"]
    assert values("service.name", '{deployment.environment.name=~"st.*"}') == ["checkout"]
    assert values("pod", '{service_name!="checkout"}') == ["p2"]


def test_the_flame_graph_holds_what_was_sent(filled):
    answer = ask(filled, "SelectMergeStacktraces",
                 of_cpu(filled, '{service_name="checkout"}') + field(5, 16384))
    graph = every(answer, 1)[0]
    names = [n.decode() for n in every(graph, 1)]
    levels = [numbers(every(level, 1)[0]) for level in every(graph, 2)]
    assert names[0] == "total"
    stacks = walk(names, levels)
    assert stacks == {
        "": (114 * TICK, 0), "main": (114 * TICK, 0), "main;serve": (105 * TICK, 0),
        "main;serve;parse": (35 * TICK, 35 * TICK), "main;serve;render": (70 * TICK, 70 * TICK),
        "main;gc": (9 * TICK, 9 * TICK)}
    assert every(graph, 3) == [114 * TICK]
    assert every(graph, 4) == [70 * TICK]
    assert every(graph, 3)[0] == stored(filled, 'cpu{service.name="checkout"}')


def test_what_is_cut_becomes_other(filled):
    answer = ask(filled, "SelectMergeStacktraces",
                 of_cpu(filled, '{service_name="checkout"}') + field(5, 4))
    graph = every(answer, 1)[0]
    names = [n.decode() for n in every(graph, 1)]
    levels = [numbers(every(level, 1)[0]) for level in every(graph, 2)]
    assert walk(names, levels) == {
        "": (114 * TICK, 0), "main": (114 * TICK, 0), "main;serve": (105 * TICK, 0),
        "main;serve;render": (70 * TICK, 70 * TICK), "main;serve;other": (35 * TICK, 35 * TICK),
        "main;other": (9 * TICK, 9 * TICK)}


def test_series_add_up_to_the_flame_graph(filled):
    message = of_cpu(filled) + field(5, "service_name") + field(6, 15.0) + field(9, 1)
    series = every(ask(filled, "SelectSeries", message), 1)
    assert len(series) == 1
    assert [dict(fields(label)) for label in every(series[0], 1)] == [
        {1: b"service_name", 2: b"checkout"}]
    points = [dict(fields(p, "<d")) for p in every(series[0], 2)]
    assert sum(p[1] for p in points) == 114 * TICK
    assert all(filled.start_ms < p[2] <= filled.end_ms for p in points)
    assert len(points) == 2

    everything = every(ask(filled, "SelectSeries", of_cpu(filled) + field(6, 3600.0)), 1)
    total = sum(dict(fields(p, "<d"))[1] for p in every(everything[0], 2))
    assert total == 126 * TICK == stored(filled, "cpu")


def test_data_out_of_range_is_no_error(filled):
    early = field(1, CPU) + field(2, "{}") + field(3, 1) + field(4, 2)
    assert ask(filled, "SelectMergeStacktraces", early) == b""
    assert ask(filled, "SelectSeries", early + field(6, 15.0)) == b""
    assert ask(filled, "SelectMergeSpanProfile",
               field(1, CPU) + field(3, "9a517183f26a089d") + ranged(filled, 4, 5)) == b""


def test_the_profile_is_pprof_that_go_reads(filled, pprof, tmp_path):
    answer = ask(filled, "SelectMergeProfile", of_cpu(filled, '{service_name="checkout"}'))
    path = tmp_path / "merged.pb.gz"
    path.write_bytes(gzip.compress(answer))
    top = subprocess.run([pprof, "-top", "-unit=ns", str(path)], capture_output=True, text=True)
    assert top.returncode == 0, top.stderr
    lines = {line.split()[-1]: line.split()[0] for line in top.stdout.splitlines()[5:]}
    assert lines["render"] == "700000000ns"
    assert lines["parse"] == "350000000ns"


def test_errors_are_those_of_connect(filled):
    status, head, body = filled.post(QUERIER + "SelectMergeProfile", field(1, "nonsense"),
                                     headers=GRAFANA)
    assert status == 400
    assert head["content-type"].startswith("application/json")
    answer = json.loads(body)
    assert answer["code"] == "invalid_argument"
    assert "is not a profile type" in answer["message"]
    status, _, body = filled.post(QUERIER + "LabelNames", b"\x0a\x7f", headers=GRAFANA)
    assert status == 400 and json.loads(body)["code"] == "invalid_argument"
    for path in ("/adhocprofiles.v1.AdHocProfileService/List", "/vcs.v1.VCSService/GithubApp",
                 "/settings.v1.RecordingRulesService/ListRecordingRules", QUERIER + "Tomorrow"):
        status, _, body = filled.post(path, b"", headers=GRAFANA)
        assert (status, json.loads(body)["code"]) == (501, "unimplemented")


# ---- Profiles Drilldown


def test_drilldown_lists_services_with_their_types(filled):
    answer = ask_json(filled, "Series", {
        "start": filled.start_ms, "end": filled.end_ms,
        "labelNames": ["service_name", "__profile_type__"], "matchers": []})
    sets = {tuple((l["name"], l["value"]) for l in s["labels"]) for s in answer["labelsSet"]}
    assert sets == {(("service_name", s), ("__profile_type__", CPU)) for s in ("cart", "checkout")}


def test_drilldown_asks_with_matchers_of_its_own_making(filled):
    answer = ask_json(filled, "LabelValues", {
        "name": "pod", "matchers": ['{__profile_type__="%s", service_name="checkout"}' % CPU],
        "start": filled.start_ms, "end": filled.end_ms})
    assert answer == {"names": ["p0", "p1"]}
    answer = ask_json(filled, "LabelNames", {
        "matchers": ['{__profile_type__="%s", }' % CPU],
        "start": filled.start_ms, "end": filled.end_ms})
    assert "pod" in answer["names"]


def test_drilldown_gets_function_details(filled):
    answer = ask_json(filled, "SelectMergeProfile", {
        "profile_typeID": CPU, "label_selector": '{service_name="checkout"}',
        "start": filled.start_ms, "end": filled.end_ms,
        "stackTraceSelector": {"call_site": [{"name": n} for n in ("main", "serve", "parse")]},
        "maxNodes": 500})
    strings = answer["stringTable"]
    named = {f["id"]: strings[int(f["name"])] for f in answer["function"]}
    places = {l["id"]: named[l["line"][0]["functionId"]] for l in answer["location"]}
    assert sum(int(s["value"][0]) for s in answer["sample"]) == 35 * TICK
    assert {tuple(places[i] for i in s["locationId"]) for s in answer["sample"]} == {
        ("parse", "serve", "main")}


def test_drilldown_is_told_that_there_is_data(filled):
    stats = ask_json(filled, "GetProfileStats", {})
    assert stats["dataIngested"] is True
    now_ms = time.time() * 1000
    assert now_ms - 900_000 < int(stats["oldestProfileTime"]) <= int(stats["newestProfileTime"])
    cost = ask_json(filled, "AnalyzeQuery", {
        "start": filled.start_ms, "end": filled.end_ms,
        "query": CPU + '{service_name="checkout"}'})
    assert cost["queryImpact"]["totalQueriedSeries"] == "2"


def test_render_draws_and_compares(filled):
    def get(path, **params):
        status, _, body = filled.get(path + "?" + urllib.parse.urlencode(params))
        assert status == 200, body
        return body

    query = CPU + '{service_name="checkout"}'
    answer = json.loads(get("/pyroscope/render", query=query, format="json", **{
        "from": filled.start_ms, "until": filled.end_ms, "max-nodes": 1024}))
    assert answer["version"] == 1
    assert answer["metadata"] == {"format": "single", "spyName": "", "sampleRate": 10**9,
                                  "units": "samples", "name": "cpu"}
    bearer = answer["flamebearer"]
    assert bearer["numTicks"] == 114 * TICK
    assert walk(bearer["names"], bearer["levels"])["main;gc"] == (9 * TICK, 9 * TICK)
    assert sum(answer["timeline"]["samples"]) == 114 * TICK
    assert answer["timeline"]["durationDelta"] == 15
    assert get("/pyroscope/render", query=query, format="dot", **{
        "from": filled.start_ms, "until": filled.end_ms}).startswith(b"digraph")

    answer = json.loads(get(
        "/pyroscope/render-diff", leftQuery=CPU + '{env="prod",service_name="checkout"}',
        rightQuery=CPU + '{env="stage"}', leftFrom="now-1h", leftUntil="now", rightFrom="now-1h",
        rightUntil="now"))
    assert (answer["leftTicks"], answer["rightTicks"]) == (109 * TICK, 5 * TICK)
    assert answer["metadata"]["format"] == "double"
    names, levels = answer["flamebearer"]["names"], answer["flamebearer"]["levels"]
    assert levels[0] == [0, 109 * TICK, 0, 0, 5 * TICK, 0, 0]
    left = walk(names, levels, width=7)
    assert left["main;serve;parse"] == (30 * TICK, 30 * TICK)
    assert json.loads(get("/pyroscope/label-values", label="service_name")) == ["cart", "checkout"]
    assert CPU in json.loads(get("/pyroscope/label-values", label="__name__"))


def test_settings_are_kept(filled):
    json_type = {"Content-Type": "application/json"}
    value = {"setting": {"name": "pluginSettings", "value": '{"maxNodes":16384}'}}
    status, _, body = filled.post("/settings.v1.SettingsService/Set", json.dumps(value).encode(),
                                  headers=json_type)
    assert status == 200, body
    _, _, body = filled.post("/settings.v1.SettingsService/Get", b"{}", headers=json_type)
    settings = json.loads(body)["settings"]
    assert [(s["name"], s["value"]) for s in settings] == [
        ("pluginSettings", '{"maxNodes":16384}')]


def test_tenants_see_their_own_only(new_server):
    server = new_server("--tenant-trust-header")
    status, _, _ = server.post("/ingest?name=shop.cpu", b"main 1\n",
                               headers={"X-Scope-OrgID": "one"})
    assert status == 200
    for tenant, expected in (("one", ["shop"]), ("two", [])):
        _, _, body = server.post(QUERIER + "LabelValues", b'{"name":"service_name"}', headers={
            "Content-Type": "application/json", "X-Scope-OrgID": tenant})
        assert json.loads(body).get("names", []) == expected
        _, _, body = server.post(QUERIER + "GetProfileStats", b"{}", headers={
            "Content-Type": "application/json", "X-Scope-OrgID": tenant})
        assert json.loads(body).get("dataIngested", False) == bool(expected)


# ---- Grafana's own client


@pytest.fixture(scope="session")
def client():
    """A program around Pyroscope's generated client, built once into the build folder."""
    if not shutil.which("go"):
        pytest.skip("go is not installed, so Grafana's client cannot be built")
    folder = BUILD / "e2e-pyroscope-client"
    program = folder / "client"
    source = (HERE / "pyroscope_client.go").read_bytes()
    if program.exists() and (folder / "main.go").read_bytes() == source:
        return program
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text(GO_MOD)
    (folder / "main.go").write_bytes(source)
    for step in (["go", "mod", "tidy"], ["go", "build", "-o", "client", "."]):
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            pytest.skip("Grafana's client cannot be built: " + done.stderr.strip()[-300:])
    return program


@pytest.mark.parametrize("protocol", ["connect", "json", "grpc"])
def test_grafanas_client_is_answered_in_every_protocol(filled, client, protocol):
    done = subprocess.run(
        [client, filled.url, protocol, str(filled.start_ms), str(filled.end_ms), CPU,
         '{service_name="checkout"}', "9a517183f26a089d"],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert CPU in [t["ID"] for t in answers["ProfileTypes"]["profileTypes"]]
    assert "deployment_environment_name" in answers["LabelNames"]["names"]
    assert answers["LabelValues"]["names"] == ["cart", "checkout"]
    assert len(answers["Series"]["labelsSet"]) == 2
    series = {s["labels"][0]["value"]: sum(p["value"] for p in s["points"])
              for s in answers["SelectSeries"]["series"]}
    assert series == {"prod": 109 * TICK, "stage": 5 * TICK}
    graph = answers["SelectMergeStacktraces"]["flamegraph"]
    levels = [[int(v) for v in level["values"]] for level in graph["levels"]]
    assert walk(graph["names"], levels)["main;serve"] == (105 * TICK, 0)
    assert answers["SelectMergeSpanProfile"] == {}
    profile = answers["SelectMergeProfile"]
    assert sum(int(s["value"][0]) for s in profile["sample"]) == 114 * TICK
    slots = answers["SelectHeatmap"]["series"][0]["slots"]
    assert sum(sum(slot["counts"]) for slot in slots) == 2
    assert answers["Diff"]["flamegraph"]["leftTicks"] == str(114 * TICK)
    assert answers["GetProfileStats"]["dataIngested"] is True
    assert answers["AnalyzeQuery"]["queryScopes"][0]["componentType"] == "Store"
    assert answers["Mistake"]["code"] == "invalid_argument"
    assert answers["Nothing"] == {}
    assert answers["Version"] == {"QuerierAPI": "1"}
    assert answers["Flags"] == {}
    assert answers["Rules"]["code"] == "unimplemented"
