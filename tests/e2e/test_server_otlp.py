"""OTLP into a running server: curl in all encodings, gRPC by grpc-js, the SDK's own exporters; what
is refused, and how."""

import base64
import gzip
import json
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.parse

import pytest

import otlp_wire as wire
from conftest import npm_install, run_vesta

HERE = pathlib.Path(__file__).resolve().parent
PROTO = "application/x-protobuf"
JSON = "application/json"
PROFILES = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"

PACKAGES = ["@grpc/grpc-js@1.14.0", "@opentelemetry/sdk-trace-base@2.2.0", "@opentelemetry/resources@2.2.0",
            "@opentelemetry/exporter-trace-otlp-http@0.207.0", "@opentelemetry/exporter-trace-otlp-proto@0.207.0",
            "@opentelemetry/exporter-trace-otlp-grpc@0.207.0"]


@pytest.fixture(scope="session")
def npm():
    """The folder with the clients; installed once, into the build folder."""
    return npm_install("npm-otlp", *PACKAGES)


def client(npm, *args):
    done = subprocess.run(["node", str(HERE / "otlp_clients.js"), str(npm), *map(str, args)],
                          capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stdout, done.stderr.decode(errors="replace")
    return json.loads(done.stdout)


def curl(*args):
    """(status, headers, body) of what curl got."""
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    done = subprocess.run(["curl", "-sS", "-i", "--max-time", "20", "-H", "expect:", *map(str, args)],
                          capture_output=True)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers, body


def api(server, path, **params):
    status, _, body = server.get(f"/api/v1/{path}?" + urllib.parse.urlencode(params))
    assert status == 200, body
    return json.loads(body)


def cpu_of(server, service):
    return api(server, "top", query='cpu{service.name="%s"}' % service)


def zstd(data):
    if not shutil.which("zstd"):
        pytest.skip("zstd is not installed")
    return subprocess.run(["zstd", "-q", "-c"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("http", ["--http1.1", "--http2-prior-knowledge"])
@pytest.mark.parametrize("packing", ["identity", "gzip", "zstd"])
@pytest.mark.parametrize("kind", ["protobuf", "json"])
def test_profiles_by_curl_in_every_encoding(new_server, tmp_path, kind, packing, http):
    server = new_server(otlp=True)
    body = wire.profiles([{"service.name": "shop"}]) if kind == "protobuf" \
        else json.dumps(wire.profiles_json("shop")).encode()
    pack = {"identity": bytes, "gzip": gzip.compress, "zstd": zstd}[packing]
    (tmp_path / "body").write_bytes(pack(body))
    kinds = {"protobuf": PROTO, "json": JSON}
    coding = [] if packing == "identity" else ["-H", f"content-encoding: {packing}"]
    status, headers, reply = curl(http, "-H", f"content-type: {kinds[kind]}", *coding, "--data-binary",
                                  f"@{tmp_path}/body", server.urls[2] + "/v1development/profiles")
    assert (status, headers["content-type"]) == (200, kinds[kind])
    assert reply == (b"" if kind == "protobuf" else b"{}")
    assert cpu_of(server, "shop")["total"] == 3 * 50_000_000
    name = "otlp" if kind == "protobuf" else "otlp-json"
    assert server.metric('vesta_ingest_profiles_total{format="%s"}' % name) == 1
    assert server.metric('vesta_ingest_seconds_count{format="%s"}' % name) == 1


@pytest.mark.parametrize("path", ["/v1development/profiles", "/v1/profiles"])
def test_both_paths_and_all_ports_take_profiles(new_server, tmp_path, path):
    server = new_server(otlp=True)
    for i, url in enumerate(server.urls):
        (tmp_path / "body").write_bytes(wire.profiles([{"service.name": f"s{i}"}]))
        status, _, _ = curl("-H", f"content-type: {PROTO}", "--data-binary", f"@{tmp_path}/body", url + path)
        assert status == 200
        assert cpu_of(server, f"s{i}")["total"] == 150_000_000


def test_counts_are_kept_beside_the_time_they_stand_for(server):
    server.post("/v1/profiles", wire.profiles([{"service.name": "shop"}], samples=7), headers={"content-type": PROTO})
    assert cpu_of(server, "shop")["total"] == 7 * 50_000_000
    assert api(server, "top", query='samples{service.name="shop"}')["total"] == 7


def test_off_cpu_keeps_values_times_and_links(server):
    body = wire.profiles([{"service.name": "shop"}], kind=("off_cpu", "nanoseconds"), values=[5, 7, 11])
    assert server.post("/v1/profiles", body, headers={"content-type": PROTO})[0] == 200
    assert api(server, "top", query="off_cpu")["total"] == 23
    found = api(server, "stacks", query="off_cpu", trace=wire.TRACE.hex())
    assert (found["total"], found["frames"]["name"]) == (23, ["work", "main"])


def test_a_resource_for_each_process_and_a_retry_changes_nothing(server):
    resources = [{"container.id": "c1", "process.pid": str(pid), "service.name": "web"} for pid in range(5)]
    body = wire.profiles(resources)
    for _ in range(2):
        assert server.post("/v1/profiles", body, headers={"content-type": PROTO})[0] == 200
        assert cpu_of(server, "web")["total"] == 5 * 150_000_000
    assert server.metric('vesta_ingest_duplicates_total{format="otlp"}') == 5


@pytest.mark.parametrize("file", ["ebpf-profile.v1_11.pb", "ebpf-profile.v1_8.pb", "k8s.frame0.v1_8.pb"])
def test_what_real_profilers_sent_comes_out_again(new_server, corpus, tmp_path, file):
    """Totals of every sample type of a file that a profiler wrote are those of the file."""
    server = new_server("--retention-profiles", "20y")
    body = (corpus / "otlp" / file).read_bytes()
    status, _, reply = server.post("/v1development/profiles", body, headers={"content-type": PROTO})
    assert (status, reply) == (200, b"")
    info = run_vesta("info", "--json", corpus / "otlp" / file, check=0).json
    for kind in info["sample_types"]:
        got = api(server, "top", query=kind["type"], **{"from": "0", "until": "now"})
        assert got["total"] == kind["total"], kind


def test_rejected_profiles_are_counted_and_told(server):
    young, old = {"service.name": "young"}, {"service.name": "old"}
    good = wire.profiles([young])
    assert server.post("/v1/profiles", good, headers={"content-type": PROTO})[2] == b""
    body = wire.profiles([old, old], start=10**18)
    status, _, reply = server.post("/v1/profiles", body, headers={"content-type": PROTO})
    ((number, partial),) = wire.fields(reply)
    assert (status, number) == (200, 1)
    said = dict(wire.fields(partial))
    assert said[1] == 2 and b"old: profiles are kept for 30d" in said[2]
    status, _, reply = server.post("/v1/profiles", json.dumps(wire.profiles_json("old", start=10**18)),
                                   headers={"content-type": JSON})
    partial = json.loads(reply)["partialSuccess"]
    assert (status, partial["rejectedProfiles"]) == (200, "1") and "kept for 30d" in partial["errorMessage"]
    assert server.metric('vesta_rejects_total{reason="time"}') == 3


def test_errors_are_status_messages_in_the_clients_encoding(new_server):
    server = new_server("--limits-body", "64KiB")
    status, headers, body = server.post("/v1/profiles", b"\x0a\x7f", headers={"content-type": PROTO})
    said = dict(wire.fields(body))
    assert (status, headers["content-type"], said[1]) == (400, PROTO, 3) and b"otlp at byte" in said[2]
    status, headers, body = server.post("/v1/profiles", b"{", headers={"content-type": JSON})
    assert (status, headers["content-type"], json.loads(body)["code"]) == (400, JSON, 3)
    assert "byte" in json.loads(body)["message"]
    status, _, body = server.post("/v1/traces", b"hello", headers={"content-type": "text/plain"})
    assert status == 415 and b"is not application/x-protobuf or application/json" in body
    status, _, body = server.post("/v1/traces", b"x", headers={"content-type": PROTO, "content-encoding": "br"})
    assert status == 415 and b"is not gzip or zstd" in body
    status, _, body = server.post("/v1/traces", b"\x1f\x8bxx", headers={"content-type": PROTO, "content-encoding": "gzip"})
    assert status == 400
    bomb = gzip.compress(bytes(1 << 20))
    status, _, body = server.post("/v1/profiles", bomb, headers={"content-type": PROTO, "content-encoding": "gzip"})
    assert status == 413 and b"65536" in body
    assert server.get("/v1/profiles")[0] == 405
    assert api(server, "series")["series"] == []


def test_logs_and_metrics_are_refused_unless_they_may_be_dropped(new_server, npm, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    server = new_server(otlp=True)
    for path in ["/v1/logs", "/v1/metrics"]:
        status, _, body = server.post(path, b"{}", headers={"content-type": JSON})
        assert status == 501 and "are not kept here" in json.loads(body)["message"]
    answer = client(npm, "grpc", server.urls[1], LOGS, "identity", tmp_path / "empty")
    assert answer["code"] == 12 and "logs are not kept here" in answer["details"]
    server = new_server("--ingest-accept-logs-and-metrics", data="dropping", otlp=True)
    assert server.post("/v1/logs", b"{}", headers={"content-type": JSON})[::2] == (200, b"{}")
    assert client(npm, "grpc", server.urls[1], LOGS, "identity", tmp_path / "empty")["code"] == 0


@pytest.mark.parametrize("packing", ["identity", "gzip"])
def test_grpc_js_exports_profiles_and_traces(new_server, npm, tmp_path, packing):
    server = new_server(otlp=True)
    (tmp_path / "profiles").write_bytes(wire.profiles([{"service.name": "shop"}]))
    (tmp_path / "traces").write_bytes(wire.traces("shop", ["one", "two"]))
    for path, file in [(PROFILES, "profiles"), (TRACES, "traces")]:
        answer = client(npm, "grpc", server.urls[1], path, packing, tmp_path / file)
        assert (answer["code"], answer["reply"]) == (0, "")
    assert cpu_of(server, "shop")["total"] == 150_000_000
    assert [s["name"] for s in api(server, "spans", service="shop")["spans"]] == ["one", "two"]


def test_grpc_errors_have_codes_and_reasons(new_server, npm, tmp_path):
    server = new_server(otlp=True)
    (tmp_path / "bad").write_bytes(b"\x0a\x7f")
    answer = client(npm, "grpc", server.urls[1], PROFILES, "identity", tmp_path / "bad")
    assert answer["code"] == 3 and "otlp at byte" in answer["details"]
    (tmp_path / "old").write_bytes(wire.profiles([{"service.name": "old"}], start=10**18))
    answer = client(npm, "grpc", server.urls[1], PROFILES, "identity", tmp_path / "old")
    partial = dict(wire.fields(dict(wire.fields(base64.b64decode(answer["reply"])))[1]))
    assert (answer["code"], partial[1]) == (0, 1) and b"kept for 30d" in partial[2]


def test_connect_takes_the_same_messages(server):
    status, headers, body = server.post(PROFILES, wire.profiles([{"service.name": "shop"}]),
                                        headers={"content-type": "application/proto"})
    assert (status, headers["content-type"], body) == (200, "application/proto", b"")
    status, _, body = server.post(PROFILES, json.dumps(wire.profiles_json("js")), headers={"content-type": JSON})
    assert (status, body) == (200, b"{}")
    status, _, body = server.post(PROFILES, b"{", headers={"content-type": JSON})
    assert (status, json.loads(body)["code"]) == (400, "invalid_argument")
    assert cpu_of(server, "shop")["total"] == cpu_of(server, "js")["total"]


@pytest.mark.parametrize("kind", ["http", "proto", "grpc"])
def test_the_sdks_trace_exporters(new_server, npm, kind):
    server = new_server(otlp=True)
    answer = client(npm, "sdk-" + kind, server.urls[1 if kind == "grpc" else 2], "GET /cart/:id")
    assert answer["results"] == [{"code": 0, "error": ""}]
    (span,) = api(server, "spans", service="sdk-" + kind)["spans"]
    assert (span["trace"], span["span"]) == (answer["traceId"], answer["spanId"])
    assert (span["name"], span["kind"], span["status"]) == ("GET /cart/:id", 3, 2)  # OTLP's numbers
    assert span["attributes"] == {"http.route": "/cart/:id", "http.response.status_code": "200",
                                  "service.version": "1.2.3"}


def test_spans_with_bad_ids_are_a_partial_success(server):
    body = wire.traces("shop", ["good"]) + wire.traces("shop", ["bad", "worse"], span=b"short")
    status, _, reply = server.post("/v1/traces", body, headers={"content-type": PROTO})
    partial = dict(wire.fields(dict(wire.fields(reply))[1]))
    assert (status, partial[1]) == (200, 2)
    assert partial[2] == b'span "bad": its span id is not 8 bytes, or all zero'
    assert [s["name"] for s in api(server, "spans")["spans"]] == ["good"]


def test_secrets_are_masked_before_they_are_stored(new_server):
    server = new_server("--mask-rules", "functions: /^work$/task/")
    body = wire.profiles([{"service.name": "shop", "deployment.environment.name": "Bearer abcdef0123456789"}])
    server.post("/v1/profiles", body, headers={"content-type": PROTO})
    server.post("/v1/traces", wire.traces("shop", ["x?token=hunter2"]), headers={"content-type": PROTO})
    assert [row["name"] for row in cpu_of(server, "shop")["rows"]] == ["task", "main"]
    (series,) = api(server, "series")["series"]
    assert series["labels"]["deployment.environment.name"] == "Bearer ***"
    assert api(server, "spans")["spans"][0]["name"] == "x?token=***"
    server.stop()
    kept = b"".join(f.read_bytes() for f in server.data.rglob("*") if f.is_file())
    for secret in [b"abcdef0123456789", b"/home/bob", b"hunter2"]:
        assert secret not in kept


def test_a_rule_that_is_wrong_is_named(tmp_path):
    done = run_vesta("server", "--data", tmp_path / "d", "--listen", "127.0.0.1:0", "--mask-rules", "labels: /(/x/")
    assert done.code != 0 and b'mask rule "labels: /(/x/"' in done.err


def test_new_versions_become_deployments(server):
    for version in ["1.0", "1.0", "1.1"]:
        server.post("/v1/profiles", wire.profiles([{"service.name": "shop", "service.version": version,
                                                    "git.commit": "c" + version}]), headers={"content-type": PROTO})
    status, _, body = server.post("/api/v1/deployments", json.dumps(
        {"service": "shop", "version": "0.9", "id": "d-1", "time": int(time.time()) - 3600}))
    assert (status, json.loads(body)) == (200, {"id": "d-1"})
    found = api(server, "deployments", service="shop")["deployments"]
    assert [(d["version"], d.get("commit")) for d in found] == [("0.9", None), ("1.0", "c1.0"), ("1.1", "c1.1")]


def test_new_rules_hold_for_names_that_were_seen_before(new_server, tmp_path):
    config = tmp_path / "vesta.yaml"
    config.write_text("limits: {ingest_workers: 1}\n")
    server = new_server("--config", config)
    server.post("/v1/profiles", wire.profiles([{"service.name": "before"}]), headers={"content-type": PROTO})
    for rules, said in [("['labels: /(/x/']", "mask rule"), ("['functions: /^work$/task/']", "was read again")]:
        config.write_text("limits: {ingest_workers: 1}\nmask: {rules: %s}\n" % rules)
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 10
        while said not in server.log_text():
            assert time.monotonic() < end, server.log_text()
            time.sleep(0.02)
    server.post("/v1/profiles", wire.profiles([{"service.name": "after"}]), headers={"content-type": PROTO})
    assert [row["name"] for row in cpu_of(server, "after")["rows"]] == ["task", "main"]


def test_a_tenant_over_its_rate_is_told_to_wait(new_server, npm, tmp_path):
    server = new_server("--tenant-profiles-per-second", "1", otlp=True)
    (tmp_path / "profiles").write_bytes(wire.profiles([{"service.name": f"s{i}"} for i in range(11)]))
    answers = []
    for i in range(4):
        body = wire.profiles([{"service.name": f"s{i}"} for i in range(6)])
        answers.append(server.post("/v1/profiles", body, headers={"content-type": PROTO}))
    refused = [a for a in answers if a[0] == 429]
    assert refused and answers[0][0] == 200
    assert int(refused[0][1]["retry-after"]) >= 1
    assert dict(wire.fields(refused[0][2]))[1] == 8
    answer = client(npm, "grpc", server.urls[1], PROFILES, "identity", tmp_path / "profiles")
    assert answer["code"] == 8
    status = wire.fields(base64.b64decode(answer["status"]))
    detail = dict(wire.fields(dict(status)[3]))
    assert detail[1] == b"type.googleapis.com/google.rpc.RetryInfo"
