"""Questions to a server: each is answered as it is by the server's own data directory."""

import gzip
import json
import time
import urllib.parse

import pytest

from conftest import ROOT, Server, run_vesta
from test_push import certificates  # noqa: F401 a fixture
from test_store import labelled_profile, with_time

START = time.time_ns() // 10**9 - 1200  # seconds
TRACE = "0102030405060708090a0b0c0d0e0f10"
# Long enough for profiles that are made when this module's turn has come.
RANGE = ["--from", str(START - 60), "--until", str(START + 7200)]
SHOP = 'cpu{service.name="shop"}'


def spans_request():
    span = {"traceId": TRACE, "spanId": "0102030405060708", "name": "GET /cart", "kind": 2,
            "startTimeUnixNano": str((START + 5) * 10**9),
            "endTimeUnixNano": str((START + 6) * 10**9)}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource,
                                          "scopeSpans": [{"spans": [span]}]}]}).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server over a store of two services, three pods, labelled samples and a span."""
    folder = tmp_path_factory.mktemp("served")
    data = folder / "data"
    content = gzip.decompress((ROOT / "examples" / "shop.pb.gz").read_bytes())
    for i, pod in enumerate(["a", "b", "c"]):
        path = folder / f"{pod}.pb.gz"
        path.write_bytes(gzip.compress(with_time(content, (START + 200 * i) * 10**9)))
        run_vesta("store", "import", "--data", data, "--quiet", "--label", "service.name=shop",
                  "--label", f"pod={pod}", path, check=0)
    for i in range(3):
        path = folder / f"labelled{i}.pb"
        path.write_bytes(labelled_profile(300 + i))
        run_vesta("store", "import", "--data", data, "--quiet", "--label", "service.name=web",
                  path, check=0)
    run_vesta("store", "compact", "--data", data, "--quiet", check=0)
    for i in range(4):
        path = folder / f"moment{i}.pb"
        path.write_bytes(labelled_profile(100 + i, (100 + 100 * i, 8)))
        run_vesta("store", "import", "--data", data, "--quiet", "--label", "service.name=live",
                  "--moment", path, check=0)
    server = Server(data).start()
    try:
        status, _, said = server.post("/v1/traces", spans_request(),
                                      headers={"content-type": "application/json"})
        assert status == 200, said
        yield server
    finally:
        server.stop()


def ask_both(served, *args, check=0):
    here = run_vesta("query", *args, *RANGE, "--data", served.data)
    there = run_vesta("query", *args, *RANGE, "--url", served.url)
    assert there.code == here.code == check, (here.err, there.err)
    return here, there


REPORTS = [
    ["top"], ["top", "5"], ["top", "-cum", "--json"], ["top", "--csv"], ["top", "-lines"],
    ["tree", "3"], ["peek", "main.serve"], ["list", "main.discount"], ["traces"], ["raw"],
    ["comments"], ["dot"], ["flame"], ["top", "-focus=json"], ["top", "-ignore=json"],
    ["top", "-hide=json"], ["top", "-sample_index=samples"], ["convert", "--to=collapsed"],
    ["convert", "--to=speedscope"], ["merge", "--to=collapsed"],
]


@pytest.mark.parametrize("report", REPORTS, ids=" ".join)
def test_reports_of_a_server_are_those_of_its_data(served, report):
    selection = '{service.name="shop"}' if "-sample_index=samples" in report else SHOP
    if report[0] == "comments":
        here, there = ask_both(served, *report, selection, check=3)
    else:
        here, there = ask_both(served, *report, selection)
        assert here.out
    assert there.text == here.text


@pytest.mark.parametrize("verb", [
    ["timeline", SHOP], ["timeline", SHOP, "--step", "100s"], ["timeline", SHOP, "--json"],
    ["timeline", SHOP, "--by", "pod", "--csv"], ["timeline", "cpu", "--by", "service.name,pod"],
    ["function", "main.serve", SHOP], ["function", "main.serve", SHOP, "--by", "pod", "--json"],
    ["callers", "main.discount", SHOP], ["callers", "main.discount", SHOP, "--json"],
    ["cut", SHOP], ["cut", SHOP, "--limit", "20"], ["heatmap", SHOP, "--step", "5m"],
    ["heatmap", SHOP, "--step", "5m", "--csv"], ["heatmap", SHOP, "--json"],
    ["types"], ["types", SHOP, "--json"], ["labels"], ["labels", "--json"],
    ["values", "pod"], ["values", "service.name", "--json"], ["profiles", SHOP, "--json"],
    ["profiles"], ["spans"], ["spans", "--json", "--trace", TRACE], ["series", SHOP],
    ["spans", '{service.name="shop"}'],
], ids=" ".join)
def test_verbs_of_a_server_are_those_of_its_data(served, verb):
    here, there = ask_both(served, *verb)
    assert here.out
    assert there.text == here.text


def test_series_of_a_server_are_those_of_its_data(served):
    here, there = ask_both(served, "series", "--json")
    assert sorted(there.json, key=str) == sorted(here.json, key=str)


@pytest.mark.parametrize("report", [
    ["tags"], ["top", "-tagfocus=handler=/b", "--json"], ["top", "-tagignore=handler=/b"],
    ["flame", "-tagroot=handler"], ["traces", "--json"],
], ids=" ".join)
def test_labels_of_samples_come_along(served, report):
    here, there = ask_both(served, *report, 'cpu{service.name="web"}')
    assert there.text == here.text
    if report == ["tags"]:
        assert "/a" in here.text


def api(served, route, **params):
    given = urllib.parse.urlencode({"from": RANGE[1], "until": RANGE[3], **params}, doseq=True)
    status, _, body = served.get(f"/api/v1/{route}?{given}")
    assert status == 200, body
    return json.loads(body)


@pytest.mark.parametrize("service, instant", [
    ("web", "average"), ("live", "average"), ("live", "last"), ("live", "peak"), ("live", "sum"),
])
def test_tags_of_the_api_are_those_of_the_command_line(served, service, instant):
    """Also over what is compacted, and of moments, whatever they make together."""
    selection = f'cpu{{service.name="{service}"}}'
    here, there = ask_both(served, "tags", "--json", selection, "--instant", instant)
    assert there.json == here.json
    plain = run_vesta("tags", "--json", selection, *RANGE, "--instant", instant, "--url",
                      served.url, check=0)
    assert plain.json == here.json
    tags = api(served, "tags", query=selection, instant=instant)
    assert [{"key": t["name"], "value": v["value"], "total": v["total"]}
            for t in tags["tags"] for v in t["values"]] == here.json
    assert tags["total"] == api(served, "top", query=selection, instant=instant)["total"]
    for tag in tags["tags"]:
        assert tag["total"] + tag["not_set"] == tags["total"]
        assert sum(v["total"] for v in tag["values"]) + tag["other"] == tag["total"]
        for value in tag["values"]:
            only = api(served, "top", query=selection, instant=instant, tagfocus=value["filter"])
            assert only["total"] == value["total"]
    a, b = {("web", "average"): (90, 36), ("live", "average"): (250, 8), ("live", "last"): (100, 8),
            ("live", "peak"): (400, 8), ("live", "sum"): (1000, 32)}[service, instant]
    assert {v["value"]: v["total"] for v in tags["tags"][0]["values"]} == {"/a": a, "/b": b}


def test_tags_are_bounded_and_narrowed(served):
    web = 'cpu{service.name="web"}'
    (one,) = api(served, "tags", query=web, limit=1)["tags"]
    assert (one["all_values"], one["other"], len(one["values"])) == (2, 36, 1)
    assert api(served, "tags", query=web, name="handler")["tags"][0]["total"] == 126
    assert api(served, "tags", query=web, name="none")["tags"] == []
    two = api(served, "tags", query=web, tagfocus=["handler=.*", "handler=^/b$"])
    assert two["total"] == 36
    assert api(served, "tags", query=web, tagignore=["handler=/a", "handler=/b"])["total"] == 0
    # The ones of other services have none.
    all_of_them = api(served, "tags", query="cpu", name="handler")
    assert all_of_them["tags"][0]["not_set"] > 0
    assert api(served, "tags", query=SHOP)["tags"] == []
    status, _, body = served.get("/api/v1/tags?" + urllib.parse.urlencode(
        {"query": web, "tagfocus": ["x"] * 9}, doseq=True))
    assert status == 400 and b"tagfocus: more than 8 of them" in body


def test_differences_of_selections_are_the_same(served):
    before, after = ('cpu{service.name="shop", pod="a"}', SHOP)
    here, there = ask_both(served, "diff", before, after)
    assert there.text == here.text
    here, there = ask_both(served, "top", "-base", before, after)
    assert there.text == here.text


@pytest.mark.parametrize("args, code", [
    (["top", 'cpu{service.name="none"}'], 3),
    (["timeline", 'cpu{service.name="none"}'], 3),
    (["values", "none"], 3),
    (["profiles", 'cpu{service.name="none"}'], 3),
    (["timeline", '{service.name="shop"}'], 2),
    (["top", "cpu{"], 2),
    (["callers", "none", SHOP], 3),
])
def test_what_is_not_there_is_told_in_the_same_words(served, args, code):
    here, there = ask_both(served, *args, check=code)
    assert there.err == here.err
    assert there.text == here.text


# ---- Without `query`


def test_plain_verbs_take_selections_when_there_is_a_server(served):
    wanted = run_vesta("query", "top", SHOP, *RANGE, "--data", served.data, check=0).text
    assert run_vesta("top", SHOP, *RANGE, "--url", served.url, check=0).text == wanted
    env = {"VESTA_URL": served.url}
    assert run_vesta("top", SHOP, *RANGE, env=env, check=0).text == wanted
    assert run_vesta("query", "top", SHOP, *RANGE, env=env, check=0).text == wanted
    web = run_vesta("tags", 'cpu{service.name="web"}', *RANGE, env=env, check=0)
    assert "handler: Total" in web.text


def test_files_and_selections_can_be_compared(served, tmp_path):
    file = tmp_path / "a.pb.gz"
    run_vesta("get", 'cpu{service.name="shop", pod="a"}', *RANGE, "--url", served.url, "-o", file,
              check=0)
    mixed = run_vesta("top", "-base", file, 'cpu{service.name="shop", pod="a"}', *RANGE, "--url",
                      served.url, check=0)
    assert "Showing nodes accounting for 0" in mixed.text


def test_files_are_still_files_when_a_server_is_set(served, tmp_path):
    path = tmp_path / "x.folded"
    path.write_bytes(b"a;b 3\n")
    env = {"VESTA_URL": served.url}
    assert "b" in run_vesta("top", path, env=env, check=0).text
    missing = run_vesta("top", tmp_path / "missing.folded", env=env, check=1)
    assert "No such file" in missing.err.decode()


def test_data_that_is_named_counts_more_than_a_server_that_is_set(served):
    env = {"VESTA_URL": "http://127.0.0.1:1"}
    run_vesta("query", "top", SHOP, *RANGE, "--data", served.data, env=env, check=0)
    both = run_vesta("query", "top", SHOP, "--data", served.data, "--url", served.url, check=2)
    assert "--data and --url exclude each other" in both.err.decode()


def test_nobody_there_and_somebody_else_there_are_told(served):
    gone = run_vesta("query", "top", SHOP, "--url", "http://127.0.0.1:1")
    assert gone.code == 75
    assert "no server at http://127.0.0.1:1: could not connect" in gone.err.decode()
    bad = run_vesta("query", "top", SHOP, "--url", "ftp://x")
    assert bad.code == 2


def test_a_long_question_fits(served):
    many = "|".join(f"service-number-{i}" for i in range(180))
    selection = f'cpu{{service.name=~"shop|{many}"}}'
    here, there = ask_both(served, "top", selection)
    assert there.text == here.text


# ---- Files out


@pytest.mark.parametrize("name, magic", [
    ("x.pb.gz", b"\x1f\x8b"), ("x.collapsed", b""), ("x.speedscope.json", b"{"), ("x.svg", b"<"),
    ("x.otlp", b""),
])
def test_a_selection_is_gotten_as_a_file(served, tmp_path, name, magic):
    path = tmp_path / name
    run_vesta("get", SHOP, *RANGE, "--url", served.url, "-o", path, check=0)
    assert path.read_bytes().startswith(magic)
    if name not in ("x.svg",):
        info = run_vesta("info", "--json", path, check=0).json
        wanted = run_vesta("query", "timeline", SHOP, *RANGE, "--json", "--url", served.url).json
        assert info["sample_types"][0]["total"] == wanted["series"][0]["total"]


def test_getting_needs_a_selection_and_tells_what_is_missing(served, tmp_path):
    assert run_vesta("get", "--url", served.url).code == 2
    out = tmp_path / "x.pb.gz"
    none = run_vesta("get", 'cpu{service.name="none"}', "--url", served.url, "-o", out, check=3)
    assert "nothing is stored" in none.err.decode()
    assert not out.exists()


def test_what_is_pushed_can_be_asked_for(new_server, tmp_path):
    server = new_server()
    path = tmp_path / "cpu.folded"
    path.write_bytes(b"main;work 7\nmain;rest 3\n")
    said = run_vesta("push", "--url", server.url, "--service", "pushed", path, check=0).err.decode()
    assert "1 stored, 0 there already" in said
    again = run_vesta("push", "--url", server.url, "--service", "pushed", path, check=0)
    assert "0 stored, 1 there already" in again.err.decode()
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x00\x01 nothing that is known")
    refused = run_vesta("push", "--url", server.url, bad, check=1)
    assert "1 rejected" in refused.err.decode()
    top = run_vesta("top", '{service.name="pushed"}', "--url", server.url, "--json", check=0).json
    assert {e["name"]: e["flat"] for e in top["entries"]} == {"work": 7, "rest": 3, "main": 0}


# ---- Who asks, and over what


@pytest.fixture
def folded(tmp_path):
    path = tmp_path / "cpu.folded"
    path.write_bytes(b"main;work 7\n")
    return path


def push_and_ask(url, folded, *args, env=None):
    """The value of the function that was pushed."""
    run_vesta("push", "--url", url, "--service", "x", *args, folded, env=env, check=0)
    top = run_vesta("top", '{service.name="x"}', "--url", url, "--json", *args, env=env, check=0)
    return {e["name"]: e["flat"] for e in top.json["entries"]}["work"]


def test_a_server_that_asks_for_a_token_is_given_one(new_server, folded):
    server = new_server("--auth", "on", "--admin-token", "a-token-of-thirty-two-characters")
    refused = run_vesta("push", "--url", server.url, folded, check=1)
    assert "say who asks with --token or VESTA_TOKEN" in refused.err.decode()
    refused = run_vesta("query", "top", "{}", "--url", server.url, "--token", "wrong", check=1)
    assert "answered 401" in refused.err.decode()
    env = {"VESTA_TOKEN": "a-token-of-thirty-two-characters"}
    assert push_and_ask(server.url, folded, env=env) == 7
    assert push_and_ask(server.url, folded, "--tenant", "other", env=env) == 7


def test_a_server_on_a_unix_socket_is_asked(new_server, folded, tmp_path):
    path = tmp_path / "vesta.sock"
    new_server("--listen", f"unix:{path}")
    assert push_and_ask(f"unix:{path}", folded) == 7


def test_a_server_with_tls_is_asked(new_server, folded, certificates):
    server = new_server("--tls-cert-file", certificates / "server.pem", "--tls-key-file",
                        certificates / "server.key")
    assert server.url.startswith("https://")
    assert push_and_ask(server.url, folded, "--ca-file", certificates / "ca.pem") == 7
    stranger = run_vesta("query", "top", "{}", "--url", server.url, check=1)
    assert "TLS with 127.0.0.1" in stranger.err.decode()
