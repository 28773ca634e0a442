"""The real OpenTelemetry Collector sends profiles and traces: over gRPC, over HTTP as protobuf and as
JSON. It is built once, from its Go modules, into the build folder."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import otlp_wire as wire
from conftest import ROOT, wait_for

HERE = ROOT / "tests" / "e2e" / "collector"
PATIENCE_S = 240

CONFIG = """
receivers:
  otlp:
    protocols:
      http: {{endpoint: "127.0.0.1:{port}"}}
exporters:
  otlp: {{endpoint: "{grpc}", tls: {{insecure: true}}}}
  otlphttp/proto: {{endpoint: "{http}", compression: zstd}}
  otlphttp/json: {{endpoint: "{http}", encoding: json}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    profiles: {{receivers: [otlp], exporters: [otlp, otlphttp/proto, otlphttp/json]}}
    traces: {{receivers: [otlp], exporters: [otlp]}}
"""


@pytest.fixture(scope="session")
def collector():
    """The program; made where it is not there yet, unless that takes too long."""
    folder = ROOT / "build" / "collector"
    program = folder / "collector"
    if program.exists():
        return program
    if not shutil.which("go"):
        pytest.skip("go is not installed, so there is no Collector")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE, folder)
    end = time.monotonic() + PATIENCE_S
    for command in [["go", "mod", "tidy"], ["go", "build", "-trimpath", "-ldflags=-s -w", "-o", "made", "."]]:
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=end - time.monotonic())
        except subprocess.TimeoutExpired:
            pytest.skip(f"the Collector could not be built within {PATIENCE_S} s")
        if done.returncode != 0:
            pytest.skip("the Collector could not be built: " + done.stderr.decode(errors="replace")[-300:])
    (folder / "made").rename(program)
    return program


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body,
                                     headers={"content-type": "application/x-protobuf"})
    return urllib.request.urlopen(request, timeout=10).status


def test_the_collector_sends_profiles_and_traces(new_server, collector, tmp_path):
    server = new_server(otlp=True)
    port = free_port()
    (tmp_path / "config.yaml").write_text(CONFIG.format(
        port=port, grpc=server.urls[1].split("//")[1], http=server.urls[2]))
    log = open(tmp_path / "collector.log", "wb")
    process = subprocess.Popen([str(collector), "--config", str(tmp_path / "config.yaml"), "--feature-gates",
                                "service.profilesSupport"], stdout=log, stderr=log)

    def accepts():
        assert process.poll() is None, (tmp_path / "collector.log").read_text()
        try:
            return post(port, "/v1/traces", b"") == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def cpu():
        return json.loads(server.get("/api/v1/top?query=cpu")[2]).get("total", 0)

    def duplicates():
        return sum(server.metric('vesta_ingest_duplicates_total{format="%s"}' % f) for f in ["otlp", "otlp-json"])

    try:
        wait_for(accepts)
        pods = [{"service.name": "shop", "k8s.pod.name": f"shop-{i}"} for i in range(2)]
        assert post(port, "/v1development/profiles", wire.profiles(pods)) == 200
        assert post(port, "/v1/traces", wire.traces("shop", ["one", "two"])) == 200
        wait_for(lambda: duplicates() == 4)  # three exporters sent each of them
        assert cpu() == 2 * 150_000_000
        spans = wait_for(lambda: json.loads(server.get("/api/v1/spans?service=shop")[2])["spans"])
        assert [s["name"] for s in spans] == ["one", "two"]
        assert server.metric('vesta_ingest_requests_total{format="otlp"}') == 2
        assert server.metric('vesta_ingest_requests_total{format="otlp-json"}') == 1
    finally:
        process.terminate()
        process.wait(20)
        log.close()
