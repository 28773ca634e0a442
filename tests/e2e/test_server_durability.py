"""A server in operation: what was acknowledged stays, restarts and reloads are clean, and load and
full disks are answered."""

import base64
import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.parse

import pytest

import otlp_wire as wire
from conftest import run_vesta
from hostile_client import JSON, MIB, PROTO, STACKS, head, peak_mib, pprof, push, raw, send_good, status_of, stored
from test_auth import certificates, openssl  # noqa: F401 (a fixture)

PROFILES = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"


def api(server, route, headers=None, **params):
    status, _, body = server.get(f"/api/v1/{route}?" + urllib.parse.urlencode({"from": "now-1h", **params}),
                                 headers=headers)
    assert status == 200, body
    return json.loads(body)


def until(holds, seconds=15):
    """Waits for it."""
    end = time.monotonic() + seconds
    while not (got := holds()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return got


def said(server, text, seconds=10):
    until(lambda: text in server.log_text(), seconds)


# ---- kill -9

class Sender(threading.Thread):
    """Sends profiles one after the other, each of its own moment, each until it is acknowledged."""

    def __init__(self, server, number, ended):
        super().__init__()
        self.server, self.number, self.ended = server, number, ended
        self.acked, self.retries, self.last = [], 0, None
        self.base = time.time_ns() - 600 * 10**9

    def run(self):
        i = 0
        while not self.ended.is_set():
            start = self.base + i * 1000
            body = wire.profiles([{"service.name": f"sender{self.number}"}], start=start, samples=1)
            self.last = start
            while not self.send(body):
                self.retries += 1
                if self.ended.wait(0.02):
                    return
            self.acked.append(start)
            i += 1

    def send(self, body):
        try:
            return self.server.post("/v1/profiles", body, headers={"content-type": PROTO}, timeout=10)[::2] == (200, b"")
        except (OSError, http.client.HTTPException, IndexError):  # no address: it is being started
            return False


def test_kill_9_under_load_loses_and_doubles_nothing(new_server):
    server = new_server("--limits-memory", "32MiB")
    ended = threading.Event()
    senders = [Sender(server, i, ended) for i in range(8)]
    for s in senders:
        s.start()
    for _ in range(5):
        time.sleep(random.uniform(0.3, 0.7))
        server.kill()
        server.start()
    time.sleep(0.3)
    ended.set()
    for s in senders:
        s.join()
    server.kill()
    server.start()
    assert sum(s.retries for s in senders) > 0 and all(len(s.acked) > 10 for s in senders)
    for s in senders:
        found = api(server, "profiles", query='{service.name="sender%d"}' % s.number, limit=10000)["profiles"]
        starts = sorted(int(p["start_ns"]) for p in found)
        assert len(starts) == len(set(starts)), "a profile is there twice"
        assert set(starts) - {s.last} == set(s.acked) - {s.last}
        assert set(s.acked) <= set(starts)
    assert server.metric("vesta_store_lost_records_total") == 0
    server.stop()
    run_vesta("store", "verify", "--data", server.data, check=0)


# ---- SIGTERM

def test_requests_that_were_begun_are_finished_when_the_server_ends(server):
    slow = []
    for i in range(5):
        s = socket.create_connection(server.address, timeout=10)
        s.sendall(head("POST", f"/api/v1/profiles?service.name=late&pod=p{i}", f"Content-Length: {len(STACKS)}")
                  + STACKS[:10])
        slow.append(s)
    # A long poll is answered rather than waited for.
    server.post("/api/v1/agents/heartbeat", b'{"id": "a"}')
    poll = concurrent.futures.ThreadPoolExecutor(1).submit(
        server.get, "/api/v1/agents/directive?id=a&after=0&wait=50s")
    # The five, the poll, and the one that asks. Ended ones may still be among them for a moment.
    until(lambda: all(server.metric("vesta_http_connections") >= 7 for _ in range(3)))
    server.process.terminate()

    def is_refused():
        try:
            with socket.create_connection(server.address, timeout=5):
                return False
        except OSError:
            return True
    until(is_refused, 5)
    for s in slow:
        s.sendall(STACKS[10:])
    for s in slow:
        answer = b""
        while part := s.recv(4096):
            answer += part
        assert status_of(answer) == 200, answer
        s.close()
    assert poll.result(10)[0] in (200, 503)
    assert server.wait() == 0
    server.start()
    found = api(server, "profiles", query='{service.name="late"}')["profiles"]
    assert sorted(p["labels"]["pod"] for p in found) == [f"p{i}" for i in range(5)]


def test_what_takes_longer_than_the_drain_is_broken_off(new_server):
    server = new_server("--drain-timeout", "500ms")
    with socket.create_connection(server.address) as s:
        s.sendall(head("POST", "/v1/profiles", "Content-Length: 100", f"Content-Type: {PROTO}"))
        until(lambda: server.metric("vesta_http_connections") >= 2)
        begun = time.monotonic()
        server.process.terminate()
        assert server.wait() == 0
        assert 0.3 < time.monotonic() - begun < 8
    assert "drain_timeout" in server.log_text()


# ---- SIGHUP

def test_a_reload_takes_limits_masks_and_levels(new_server, tmp_path):
    config = tmp_path / "vesta.yaml"
    config.write_text("limits:\n  labels: 64\n")
    server = new_server("--config", config)
    params = "&".join(f"l{i}=v" for i in range(10))
    assert server.post(f"/api/v1/profiles?service.name=a&{params}", STACKS)[0] == 200
    config.write_text("limits:\n  labels: 5\nlog:\n  level: debug\n"
                      "mask:\n  rules: [\"functions: /^parse$/hidden/\"]\n")
    server.process.send_signal(signal.SIGHUP)
    said(server, "the configuration was read again")
    status, _, body = server.post(f"/api/v1/profiles?service.name=b&{params}", STACKS)
    assert status == 422 and b"limits.labels" in body
    assert server.post("/api/v1/profiles?service.name=c", STACKS)[0] == 200
    names = [r["name"] for r in api(server, "top", query='{service.name="c"}')["rows"]]
    assert "hidden" in names and "parse" not in names
    said(server, " debug ")
    config.write_text("log:\n  level: error\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.post(f"/api/v1/profiles?service.name=b&{params}", STACKS)[0] == 200)


def test_a_config_that_is_wrong_changes_nothing_and_says_so(new_server, tmp_path):
    config, token = tmp_path / "vesta.yaml", tmp_path / "token"
    token.write_text("first-first-first-first\n")
    sound = f"admin_token_file: {token}\nlimits: {{labels: 64}}\n"
    config.write_text(sound)
    server = new_server("--config", config)
    first = {"Authorization": "Bearer first-first-first-first"}
    second = {"Authorization": "Bearer second-second-second"}
    other = tmp_path / "other"
    other.write_text("second-second-second\n")
    for wrong, why in [
            ("limits: {labels: many}\n", "labels"),
            ("nothing: 1\n", "nothing"),
            (f"admin_token_file: {tmp_path}/none\n", "none"),
            (f"admin_token_file: {other}\nmask: {{rules: ['labels: /(/x/']}}\n", "mask rule"),
            (f"admin_token_file: {other}\ntls: {{cert_file: /none, key_file: /none}}\n", "")]:
        before = server.log_text().count("the configuration stays as it is")
        config.write_text(wrong)
        server.process.send_signal(signal.SIGHUP)
        if not why:  # TLS comes and goes with a restart
            time.sleep(0.3)
            continue
        until(lambda: server.log_text().count("the configuration stays as it is") > before)
        assert why in server.log_text().split("stays as it is")[-1]
        assert server.get("/api/v1/services", headers=first)[0] == 200
        assert server.get("/api/v1/services", headers=second)[0] in (401, 429)
    config.write_text(f"admin_token_file: {other}\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.get("/api/v1/services", headers=second)[0] == 200)
    assert server.get("/api/v1/services", headers=first)[0] == 401


def curl(server, *args, path="/healthz", **kw):
    url = f"https://{server.address[0]}:{server.address[1]}{path}"
    return subprocess.run(["curl", "-sS", "-m", "10", *map(str, args), url], capture_output=True, text=True, **kw)


def test_a_new_certificate_is_served_after_a_reload(new_server, certificates, tmp_path):  # noqa: F811
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def make(name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                "-out", cert, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", 2)

    make("first")
    config = tmp_path / "vesta.yaml"
    config.write_text(f"tls: {{cert_file: {cert}, key_file: {key}}}\n")
    server = new_server("--config", config)
    assert curl(server, "--cacert", cert).stdout == "ok\n"
    old = tmp_path / "old.pem"
    old.write_bytes(cert.read_bytes())
    make("second")
    assert curl(server, "--cacert", cert).returncode == 60  # the old one is served yet
    server.process.send_signal(signal.SIGHUP)
    until(lambda: curl(server, "--cacert", cert).stdout == "ok\n")
    assert curl(server, "--cacert", old).returncode == 60
    # A broken one changes nothing.
    good = cert.read_bytes()
    cert.write_text("nonsense")
    server.process.send_signal(signal.SIGHUP)
    said(server, "the configuration stays as it is")
    (tmp_path / "good.pem").write_bytes(good)
    assert curl(server, "--cacert", tmp_path / "good.pem").stdout == "ok\n"
    # Another path is as good as other content.
    config.write_text(f"tls: {{cert_file: {certificates}/server.pem, key_file: {certificates}/server.key}}\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: curl(server, "--cacert", certificates / "ca.pem").stdout == "ok\n")


# ---- Ports and TLS

def test_a_taken_port_names_who_holds_it_and_what_to_do(server, tmp_path):
    port = server.address[1]
    done = run_vesta("server", "--data", tmp_path / "second", "--listen", f"127.0.0.1:{port}", "--listen-otlp-grpc",
                     "off", "--listen-otlp-http", "off")
    said_ = done.err.decode()
    assert done.code != 0 and f"127.0.0.1:{port}" in said_
    assert f"{server.process.pid}" in said_ and "vesta" in said_ and "--listen" in said_, said_
    assert server.get("/healthz")[0] == 200


def test_a_data_directory_has_one_server(server):
    done = run_vesta("server", "--data", server.data, "--listen", "127.0.0.1:0", "--listen-otlp-grpc", "off",
                     "--listen-otlp-http", "off")
    assert done.code != 0 and str(server.data) in done.err.decode()
    send_good(server)


@pytest.fixture
def tls(new_server, certificates):  # noqa: F811
    return new_server(f"--tls-cert-file={certificates}/server.pem", f"--tls-key-file={certificates}/server.key")


def test_tls_serves_http_1_and_2_to_those_who_check(tls, certificates):  # noqa: F811
    ca = certificates / "ca.pem"
    for flag, version in [("--http1.1", "1.1"), ("--http2", "2")]:
        done = curl(tls, flag, "--cacert", ca, "-w", "%{http_version}", path="/healthz")
        assert done.stdout == "ok\n" + version
    assert curl(tls).returncode == 60  # nobody has signed it but our CA
    assert curl(tls, "--cacert", ca, "--tls-max", "1.1").returncode != 0
    done = curl(tls, "--cacert", ca, "--http2", "--data-binary", "@-", path="/api/v1/profiles?service.name=x",
                input=STACKS.decode())
    assert json.loads(done.stdout)["stored"] == 1


def test_plain_http_on_a_tls_port_ends_cleanly(tls, certificates):  # noqa: F811
    begun = time.monotonic()
    answer = raw(tls, head("GET", "/healthz"))
    assert b"ok\n" not in answer and time.monotonic() - begun < 5
    for rubbish in (b"\x16\x03\x01\xff\xff" + bytes(1000), os.urandom(2000), b"\x80\x2e\x01\x03\x01" + bytes(50)):
        raw(tls, rubbish, seconds=2)
    assert curl(tls, "--cacert", certificates / "ca.pem").stdout == "ok\n"


def test_client_certificates_are_required_where_a_ca_is_given(new_server, certificates):  # noqa: F811
    server = new_server(f"--tls-cert-file={certificates}/server.pem", f"--tls-key-file={certificates}/server.key",
                        f"--tls-client-ca-file={certificates}/ca.pem")
    ca = ["--cacert", certificates / "ca.pem"]
    shown = ["--cert", certificates / "client.pem", "--key", certificates / "client.key"]
    assert curl(server, *ca).returncode != 0
    assert curl(server, *ca, *shown).stdout == "ok\n"
    done = curl(server, *ca, *shown, "--http2", "-w", "%{http_version}")
    assert done.stdout == "ok\n2"


# ---- Tenants

def small_elf():
    """A program of this machine and its build id."""
    content = pathlib.Path("/bin/true").read_bytes()
    at = content.find(b"GNU\0", content.find(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"))
    if at < 0:
        pytest.skip("/bin/true has no build id of 20 bytes")
    return content, content[at + 4:at + 24].hex()


def test_tenants_see_nothing_of_each_other(new_server):
    server = new_server("--tenant-trust-header")
    own, other = {"X-Scope-OrgID": "one"}, {"X-Scope-OrgID": "two"}
    now = time.time_ns()
    server.post("/v1/profiles", wire.profiles([{"service.name": "secret-service", "service.version": "1"}]),
                headers={"content-type": PROTO, **own})
    server.post("/v1/traces", wire.traces("secret-service", ["secret-span"]), headers={"content-type": PROTO, **own})
    server.post("/push.v1.PusherService/Push", push({"service_name": "secret-push"}),
                headers={"content-type": "application/proto", **own})
    server.post("/ingest?name=secret-ingest&format=folded", STACKS, headers=own)
    server.post("/api/v1/profiles?service.name=secret-file&pod=secret-pod", STACKS, headers=own)
    server.post("/api/v1/deployments", b'{"service": "secret-service", "version": "2"}', headers=own)
    server.post("/api/v1/agents/heartbeat", b'{"id": "secret-agent", "services": ["secret-service"]}', headers=own)
    server.post("/api/v1/agents/directive", b'{"mode": "low", "service": "secret-service"}', headers=own)
    elf, build_id = small_elf()
    status, _, body = server.post(f"/api/v1/debuginfo/{build_id}", elf, headers=own)
    assert status in (200, 201), body
    range_ms = {"start": str(now // 10**6 - 3600000), "end": str(now // 10**6 + 1000)}
    gets = ["services", "series", "labels", "label_values?label=service.name", "types", "top?query=samples",
            "flame?query=samples", "stacks?query=samples", "profiles", "spans", "exemplars?query=samples", "agents",
            "deployments", "debuginfo", "timeline?query=samples&by=service.name", "profile.pb.gz?query=samples",
            "series?format=ndjson", "diff?query=samples", "stat"]
    asks = [("GET", "/api/v1/" + p, None) for p in gets]
    asks += [("GET", "/pyroscope/render?format=json&from=now-1h&query="
              + urllib.parse.quote("process_cpu:cpu:nanoseconds:cpu:nanoseconds{}"), None)]
    asks += [("GET", "/pyroscope/label-values?label=service_name", None)]
    types = ["process_cpu:cpu:nanoseconds:cpu:nanoseconds"]
    for call, question in [("ProfileTypes", range_ms), ("LabelNames", {"matchers": [], **range_ms}),
                           ("LabelValues", {"name": "service_name", "matchers": [], **range_ms}),
                           ("Series", {"matchers": [], "labelNames": ["service_name"], **range_ms}),
                           ("SelectMergeStacktraces", {"profileTypeID": types[0], "labelSelector": "{}", **range_ms}),
                           ("SelectSeries", {"profileTypeID": types[0], "labelSelector": "{}", "groupBy":
                                             ["service_name"], "step": 15, **range_ms}), ("GetProfileStats", {})]:
        asks.append(("POST", f"/querier.v1.QuerierService/{call}", json.dumps(question).encode()))
    seen = {}
    for method, path, body in asks:
        for who in (own, other):
            headers = {"content-type": JSON, **who} if body else who
            status, _, answer = server.request(method, path, body=body, headers=headers)
            assert status in (200, 404), (path, status, answer[:200])
            seen[path, who["X-Scope-OrgID"]] = answer
            if who is other:
                assert b"secret" not in answer, path
                assert build_id.encode() not in answer, path
    shown = [p for (p, who), answer in seen.items() if who == "one" and b"secret" in answer]
    assert len(shown) >= 12, shown
    assert build_id.encode() in seen["/api/v1/debuginfo", "one"]
    assert server.get("/api/v1/agents/directive?id=secret-agent&after=99&wait=0s", headers=other)[0] == 404
    # The default tenant is a tenant like others.
    assert b"secret" not in server.get("/api/v1/services")[2]


def test_a_tenants_rate_is_told_with_when_to_come_back(new_server):
    server = new_server("--tenant-trust-header", "--tenant-profiles-per-second", "1")

    def send(tenant):
        return server.post("/v1/profiles", wire.profiles([{"service.name": "x"}]),
                           headers={"content-type": PROTO, "X-Scope-OrgID": tenant})
    answers = [send("busy") for _ in range(20)]
    refused = [a for a in answers if a[0] == 429]
    assert len(refused) >= 5 and answers[0][0] == 200
    assert 1 <= int(refused[0][1]["retry-after"]) <= 10
    status = dict(wire.fields(refused[0][2]))
    assert status[1] == 8 and b"tenant.profiles_per_second" in status[2] and b"RetryInfo" in status[3], status
    assert send("calm")[0] == 200
    assert stored(server) == len(answers) - len(refused) + 1
    message = wire.profiles([{"service.name": "x"}])
    done = subprocess.run(
        ["curl", "-s", "-i", "--http2-prior-knowledge", "-H", "content-type: application/grpc", "-H",
         "x-scope-orgid: busy", "--data-binary", "@-", server.url + PROFILES],
        input=b"\0" + struct.pack(">I", len(message)) + message, capture_output=True, timeout=20)
    lines = dict(line.split(": ", 1) for line in done.stdout.decode("latin-1").split("\r\n") if ": " in line)
    assert lines["grpc-status"] == "8"
    details = lines["grpc-status-details-bin"]
    assert b"google.rpc.RetryInfo" in base64.b64decode(details + "=" * (-len(details) % 4))


# ---- Load and full disks

def test_a_full_queue_is_told_and_every_200_is_stored(new_server):
    server = new_server("--limits-queue", "1", "--limits-ingest-workers", "1")
    bodies = [gzip.compress(pprof(time.time_ns() - 10**12 + i * 10**9), 1) for i in range(200)]

    def send(body):
        return server.post("/v1/pprof?service.name=x", body, timeout=60)
    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(send, bodies))
    statuses = [a[0] for a in answers]
    assert set(statuses) == {200, 429}, statuses
    refused = answers[statuses.index(429)]
    assert int(refused[1]["retry-after"]) >= 1 and b"limits.queue" in refused[2]
    assert stored(server) == statuses.count(200)
    assert server.metric('vesta_rejects_total{reason="overload"}') == statuses.count(429)
    assert peak_mib(server) < 400


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", folder], capture_output=True)
    if done.returncode != 0:
        pytest.skip("may not mount a small disk: " + done.stderr.decode().strip())
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_told_and_left_behind(new_server, small_disk):
    server = new_server(data="disk/data")
    send_good(server, "before")
    ballast = small_disk / "ballast"
    with open(ballast, "wb") as f:
        with contextlib.suppress(OSError):
            while True:
                f.write(bytes(MIB))

    def send():
        return server.post(f"/api/v1/profiles?service.name=x&n={time.time_ns()}", STACKS)
    until(lambda: send()[0] != 200)
    status, headers, body = send()
    assert status == 503 and b"disk" in body and int(headers["retry-after"]) >= 1, body
    assert server.get("/healthz")[0] == 200
    assert [s["service"] for s in api(server, "services")["services"]].count("before") == 1
    assert server.metric('vesta_rejects_total{reason="disk_full"}') >= 1
    ballast.unlink()
    until(lambda: send()[0] == 200)
    assert server.get("/readyz")[0] == 200
    assert server.stop() == 0


# ---- The control protocol

def test_an_agent_that_waits_is_told_at_once(server):
    path = "/api/v1/agents/directive"
    status, _, body = server.get(path + "?id=a-1&after=0&wait=1s")
    assert status == 404 and b"heartbeat" in body
    status, _, body = server.post("/api/v1/agents/heartbeat", json.dumps(
        {"id": "a-1", "host": "h", "services": ["checkout"], "rate": 19, "later": {"x": [1]}}).encode())
    assert status == 200 and json.loads(body)["directive"]["number"] == 0
    begun = time.monotonic()
    status, _, body = server.get(path + "?id=a-1&after=0&wait=300ms")
    assert status == 200 and 0.2 < time.monotonic() - begun < 5
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.get, path + "?id=a-1&after=0&wait=30s")
        time.sleep(0.3)
        assert not waiting.done()
        begun = time.monotonic()
        status, _, body = server.post(path, b'{"mode": "burst", "service": "checkout", "rate": 199, "duration": "2s"}')
        assert status == 200, body
        status, _, body = waiting.result(10)
    told = json.loads(body)["directive"]
    assert status == 200 and time.monotonic() - begun < 3
    assert (told["mode"], told["rate"]) == ("burst", 199)
    # When it ends, that is news as well.
    status, _, body = server.get(path + f"?id=a-1&after={told['number']}&wait=20s")
    assert json.loads(body)["directive"]["mode"] == "normal"
    (agent,) = json.loads(server.get("/api/v1/agents")[2])["agents"]
    assert agent["id"] == "a-1" and agent["services"] == ["checkout"]
    for bad in (b'{"mode": "burst"}', b'{"mode": "loud"}', b'{}', b'{"mode": "low", "duration": "-5s"}'):
        status, _, body = server.post(path, bad)
        assert status == 400 and json.loads(body)["error"], bad


def test_roles_of_the_control_protocol(new_server, tmp_path):
    tokens = {role: run_vesta("token", "create", "--data", tmp_path / "data", f"--roles={role}", check=0).text.strip()
              for role in ("ingest", "read", "admin")}
    server = new_server()

    def ask(role, method, path, body=None):
        return server.request(method, "/api/v1/agents" + path, body=body,
                              headers={"Authorization": f"Bearer {tokens[role]}"})[0]
    beat, told = b'{"id": "a"}', b'{"mode": "low"}'
    assert ask("ingest", "POST", "/heartbeat", beat) == 200
    assert ask("read", "POST", "/heartbeat", beat) == 403
    assert ask("ingest", "GET", "/directive?id=a&after=0&wait=0s") == 200
    assert ask("read", "GET", "/directive?id=a&after=0&wait=0s") == 403
    assert ask("ingest", "POST", "/directive", told) == ask("read", "POST", "/directive", told) == 403
    assert ask("admin", "POST", "/directive", told) == 200
    assert ask("read", "GET", "") == 200 and ask("ingest", "GET", "") == 403


# ---- Itself

def test_a_server_that_profiles_itself_has_names_for_what_it_did(new_server):
    server = new_server("--self-profile")
    content = gzip.compress(pprof(), 1)
    query = '{service.name="vesta"}'

    def rows():
        for _ in range(10):
            server.post("/v1/pprof?service.name=x", content)
            server.get("/api/v1/flame?query=cpu&from=now-1h")
        status, _, body = server.get("/api/v1/top?" + urllib.parse.urlencode({"query": query, "from": "now-1h"}))
        return json.loads(body)["rows"] if status == 200 else None
    names = [r["name"] for r in until(rows, 40)]
    assert any(n in names for n in ("work", "job_run", "ingest_set", "store_append", "run_handler")), names[:20]
    # Since Linux 6.4 the thread that used the time gets the signal, so nobody is seen waiting.
    if tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 4):
        assert "sigtimedwait" not in names
