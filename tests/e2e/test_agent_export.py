"""What the agent sends: exporters, retries, the spool, files. build/tests/relay_push stands for the
agent; the relay, the servers and the disk are real."""

import gzip
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

import otlp_wire
import pytest
from conftest import BUILD, run_vesta, wait_for
from protobuf import field
from test_collector import collector  # noqa: F401 (a fixture)


class Relay:
    """A relay, driven by commands; remembers what it said."""

    def __init__(self, folder, *args, env=None, spool=None, user=""):
        self.log_path = folder / "relay.log"
        self.spool = spool or folder / "spool"
        self.lines = []
        self.n_files = 0
        self.folder = folder
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "VESTA_"))}
        self.process = subprocess.Popen(
            [str(BUILD / "tests" / "relay_push"), f"--user={user}", f"--spool-dir={self.spool}",
             f"--state-dir={folder}/state", "--server=off", *map(str, args)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.log_path, "ab"), text=True,
            env={**clean, **(env or {})})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def answer(self, kind, seconds=15):
        """The rest of the next line of this kind, which is then forgotten."""
        def look():
            for i, line in enumerate(self.lines):
                if line.split(" ", 1)[0] == kind:
                    return [(line + " ").split(" ", 1)[1].strip(), self.lines.pop(i)]
        return wait_for(look, seconds)[0]

    def send(self, *services, **kw):
        """One request for each service."""
        for service in services:
            self.send_bytes(otlp_wire.profiles([{"service.name": service}], **kw))

    def send_bytes(self, request):
        self.n_files += 1
        path = self.folder / f"request-{self.n_files}.pb"
        path.write_bytes(request)
        self.say(f"send {path}")
        self.pid()  # so it has been read

    def flush(self, ms=5000):
        """The counts afterwards, by exporter's scheme and then name."""
        self.lines = [line for line in self.lines if not line.startswith("counts ")]
        self.say(f"flush {ms}")
        self.answer("flushed", ms / 1000 + 10)
        return self.counts()

    def counts(self, n=0):
        """Those of the n-th exporter, as last told."""
        told = [line for line in self.lines if line.startswith("counts ")]
        self.last = json.loads(told[-1].split(" ", 1)[1]) if told else self.last
        return self.last["exporters"][n]

    def stat(self):
        self.say("stat")
        return list(map(int, self.answer("stat").split()))

    def pid(self):
        return self.stat()[0]

    def log(self):
        return self.log_path.read_text()

    def files(self):
        return sorted(self.spool.glob("*/*.otlp"))

    def quit(self):
        self.process.stdin.close()
        code = self.process.wait(20)
        self.reader.join()
        return code

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def new_relay(tmp_path):
    started = []

    def new(*args, **kw):
        relay = Relay(tmp_path, *args, **kw)
        started.append(relay)
        return relay

    yield new
    for relay in started:
        relay.end()


class Receiver:
    """A server that answers POSTs with what a list says, (status, headers, body), then with 200."""

    def __init__(self, answers=(), port=0):
        outer = self
        self.answers = list(answers)
        self.got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append((time.monotonic(), self.path,
                                  {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, answer = outer.answers.pop(0) if outer.answers else (200, {}, b"")
                self.send_response(status)
                for name, value in {"content-type": "application/x-protobuf", **headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def new_receiver():
    started = []

    def new(*args, **kw):
        receiver = Receiver(*args, **kw)
        started.append(receiver)
        return receiver

    yield new
    for receiver in started:
        receiver.stop()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def services(server, headers=None):
    status, _, body = server.get("/api/v1/services?from=now-1h", headers=headers)
    assert status == 200, body
    return {s["service"] for s in json.loads(body)["services"]}


# ---- Arriving

@pytest.mark.parametrize("scheme", ["http", "grpc"])
@pytest.mark.parametrize("compression", ["zstd", "gzip", "none"])
def test_profiles_reach_a_server(server, new_relay, scheme, compression):
    relay = new_relay(f"--exporters={scheme}://127.0.0.1:{server.address[1]}",
                      f"--export-compression={compression}")
    relay.send("checkout", "cart")
    counts = relay.flush()
    assert counts["sent_requests"] == 2 and counts["answers"]
    assert services(server) == {"checkout", "cart"}
    assert relay.quit() == 0


def test_a_large_request_arrives(server, new_relay):
    relay = new_relay(f"--exporters=grpc://127.0.0.1:{server.address[1]}",
                      f"--exporters=http://127.0.0.1:{server.address[1]}", "--export-compression=none")
    many = [{"service.name": f"service-{i}", "host.name": "h" * 100} for i in range(8000)]
    relay.send_bytes(otlp_wire.profiles(many))
    relay.flush(10000)
    assert relay.counts(0)["sent_requests"] == 1 and relay.counts(1)["sent_requests"] == 1
    assert len(services(server)) == 8000


def test_several_exporters_get_everything_and_a_dead_one_delays_none(server, new_receiver, new_relay,
                                                                     tmp_path):
    receiver = new_receiver()
    relay = new_relay("--exporters=http://127.0.0.1:9", f"--exporters={receiver.url}/mine",
                      f"--exporters=grpc://127.0.0.1:{server.address[1]}",
                      f"--exporters=file:{tmp_path}/files")
    began = time.monotonic()
    relay.send("shop")
    relay.flush()
    assert time.monotonic() - began < 3
    assert [relay.counts(i)["sent_requests"] for i in range(4)] == [0, 1, 1, 1]
    assert not relay.counts(0)["answers"] and relay.counts(0)["spool_files"] == 1
    assert receiver.got[0][1] == "/mine"
    assert services(server) == {"shop"}
    assert len(list((tmp_path / "files").glob("shop-samples-*.pb.gz"))) == 1


def test_what_is_sent_is_what_the_agent_made_with_its_headers(new_receiver, new_relay, tmp_path):
    receiver = new_receiver()
    (tmp_path / "token").write_text("first\n")
    relay = new_relay(f"--exporters={receiver.url}", "--export-compression=gzip",
                      "--export-headers=x-team=a b", f"--export-token-file={tmp_path}/token")
    request = otlp_wire.profiles([{"service.name": "a"}])
    relay.send_bytes(request)
    relay.flush()
    (tmp_path / "token").write_text("second\n")
    relay.send_bytes(request)
    relay.flush()
    _, path, headers, body = receiver.got[0]
    assert path == "/v1development/profiles" and gzip.decompress(body) == request
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "gzip" and headers["x-team"] == "a b"
    assert [got[2]["authorization"] for got in receiver.got] == ["Bearer first", "Bearer second"]


def test_the_environment_of_opentelemetry_is_honoured(new_receiver, new_relay):
    receiver = new_receiver()
    relay = new_relay(env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url + "/base/",
                           "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b,x-other=1",
                           "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"})
    relay.send("a")
    assert relay.flush()["sent_requests"] == 1
    _, path, headers, _ = receiver.got[0]
    assert path == "/base/v1development/profiles"
    assert headers["x-key"] == "a b" and headers["x-other"] == "1"
    assert headers["content-encoding"] == "gzip"


COLLECTOR = """
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{grpc}"}}
      http: {{endpoint: "127.0.0.1:{http}"}}
exporters:
  otlphttp: {{endpoint: "{server}"}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    profiles: {{receivers: [otlp], exporters: [otlphttp]}}
"""


@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_the_collector_takes_what_is_sent(server, new_relay, collector, tmp_path, compression):
    grpc, web = free_port(), free_port()
    (tmp_path / "config.yaml").write_text(
        COLLECTOR.format(grpc=grpc, http=web, server=server.url))
    with open(tmp_path / "collector.log", "wb") as log:
        process = subprocess.Popen(
            [str(collector), "--config", str(tmp_path / "config.yaml"), "--feature-gates",
             "service.profilesSupport"], stdout=log, stderr=log)
    try:
        relay = new_relay(f"--exporters=grpc://127.0.0.1:{grpc}", f"--exporters=http://127.0.0.1:{web}",
                          f"--export-compression={compression}")
        relay.send("early")  # it is still starting, perhaps
        wait_for(lambda: relay.flush(1000) and not relay.files() and
                 all(relay.counts(i)["answers"] for i in (0, 1)), 60)
        relay.send("late")
        relay.flush()
        assert [relay.counts(i)["sent_requests"] for i in (0, 1)] == [2, 2], relay.log()
        wait_for(lambda: services(server) == {"early", "late"}, 20)
    finally:
        process.kill()
        process.wait()


# ---- Who may

def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, and what it has signed for a server and for a client."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed, so there are no certificates to show")
    here = tmp_path_factory.mktemp("certificates")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *new, "-keyout", here / "ca.key", "-out", here / "ca.pem",
            "-subj", "/CN=test CA", "-days", 2)
    (here / "extensions").write_text("subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        openssl("req", *new, "-keyout", here / f"{name}.key", "-out", here / f"{name}.csr",
                "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", here / f"{name}.csr", "-CA", here / "ca.pem", "-CAkey",
                here / "ca.key", "-CAcreateserial", "-out", here / f"{name}.pem", "-days", 2,
                "-extfile", here / "extensions")
    return here


def test_tls_with_certificates_of_both_sides_and_a_token(new_server, new_relay, certificates, tmp_path):
    made = run_vesta("token", "create", "--data", tmp_path / "data", "--roles=ingest", check=0)
    (tmp_path / "token").write_bytes(made.out)
    server = new_server(f"--tls-cert-file={certificates}/server.pem",
                        f"--tls-key-file={certificates}/server.key",
                        f"--tls-client-ca-file={certificates}/ca.pem", "--auth=on")
    port = server.address[1]
    flags = [f"--exporters=https://127.0.0.1:{port}", f"--exporters=grpcs://127.0.0.1:{port}",
             f"--tls-cert-file={certificates}/client.pem", f"--tls-key-file={certificates}/client.key",
             f"--export-token-file={tmp_path}/token"]
    relay = new_relay(*flags, f"--tls-ca-file={certificates}/ca.pem")
    for _ in range(2):
        relay.send("shop")
        relay.flush()
    assert [relay.counts(i)["sent_requests"] for i in (0, 1)] == [2, 2], relay.log()
    relay.quit()
    stranger = new_relay(*flags)  # who does not know that CA tells its token to nobody
    stranger.send("shop")
    stranger.flush(2000)
    assert [stranger.counts(i)["sent_requests"] for i in (0, 1)] == [0, 0]
    assert "certificate" in stranger.log()


def test_nothing_is_sent_while_the_token_cannot_be_read(new_receiver, new_relay, tmp_path):
    receiver = new_receiver()
    relay = new_relay(f"--exporters={receiver.url}", f"--export-token-file={tmp_path}/token")
    relay.send("a")
    wait_for(lambda: len(relay.files()) == 1)
    assert "could not read the token in" in relay.log() and not receiver.got
    (tmp_path / "token").write_text("secret\nanother line\n")
    wait_for(lambda: receiver.got, 10)
    assert receiver.got[0][2]["authorization"] == "Bearer secret"


def test_a_wrong_token_is_refused_for_good_and_said(new_server, new_relay, tmp_path):
    server = new_server("--auth=on", env={"VESTA_ADMIN_TOKEN": "correct-horse-battery"})
    relay = new_relay(f"--exporters=http://127.0.0.1:{server.address[1]}",
                      f"--exporters=grpc://127.0.0.1:{server.address[1]}",
                      "--export-headers=authorization=Bearer wrong")
    relay.send("shop")
    relay.flush()
    for i in (0, 1):
        assert relay.counts(i)["refused_requests"] == 1 and relay.counts(i)["spool_files"] == 0
    assert "refused a request, which is lost: answered 401" in relay.log()
    assert "answered unauthenticated" in relay.log()


# ---- Trying again

def test_busy_servers_are_tried_again_when_they_say(new_receiver, new_relay):
    receiver = new_receiver([(503, {"retry-after": "1"}, b""), (429, {"retry-after": "1"}, b""),
                             (502, {}, b"")])
    relay = new_relay(f"--exporters={receiver.url}", "--export-compression=gzip")
    relay.send("a")
    wait_for(lambda: len(receiver.got) == 4, 20)
    times = [got[0] for got in receiver.got]
    assert times[1] - times[0] >= 1 and times[2] - times[1] >= 1
    assert len({got[3] for got in receiver.got}) == 1
    counts = relay.flush()
    assert counts["sent_requests"] == 1 and counts["retries"] == 3 and counts["refused_requests"] == 0
    assert counts["spool_files"] == 0 and not relay.files()
    assert "answers again" in relay.log()


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 501])
def test_other_refusals_are_not_tried_again(new_receiver, new_relay, status):
    receiver = new_receiver([(status, {}, field(1, 3) + field(2, "no such thing"))])
    relay = new_relay(f"--exporters={receiver.url}")
    relay.send("a")
    counts = relay.flush()
    assert counts["refused_requests"] == 1 and counts["retries"] == 0 and counts["spool_files"] == 0
    relay.send("b")
    assert relay.flush()["sent_requests"] == 1
    assert len(receiver.got) == 2
    assert f"answered {status}" in relay.log() and "no such thing" in relay.log()


def test_a_partial_success_is_counted_and_not_sent_again(new_receiver, new_relay):
    partial = field(1, field(1, 7) + field(2, "labels are too long"))
    receiver = new_receiver([(200, {}, partial)])
    relay = new_relay(f"--exporters={receiver.url}")
    relay.send("a")
    counts = relay.flush()
    assert counts["sent_requests"] == 1 and counts["rejected_profiles"] == 7
    assert "without 7 profiles: labels are too long" in relay.log()
    time.sleep(1.2)
    assert len(receiver.got) == 1


def test_a_server_that_cannot_unpack_zstd_is_sent_gzip(new_receiver, new_relay):
    receiver = new_receiver([(415, {}, b"")])
    relay = new_relay(f"--exporters={receiver.url}")
    relay.send("a", "b")
    assert relay.flush()["sent_requests"] == 2
    assert [got[2]["content-encoding"] for got in receiver.got] == ["zstd", "gzip", "gzip"]


def test_a_server_that_never_answers_is_given_up_at_the_timeout(new_relay):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        port = deaf.getsockname()[1]
        relay = new_relay(f"--exporters=http://127.0.0.1:{port}",
                          f"--exporters=grpc://127.0.0.1:{port}", "--export-timeout=1s")
        relay.send("a")
        wait_for(lambda: len(relay.files()) == 2, 10)
        assert relay.quit() == 0


# ---- The spool

@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_what_a_server_misses_while_it_is_down_arrives_later(new_server, new_relay, scheme):
    port = free_port()
    relay = new_relay(f"--exporters={scheme}://127.0.0.1:{port}")
    names = [f"s{i}" for i in range(6)]
    relay.send(*names[:3])
    wait_for(lambda: len(relay.files()) == 3)
    relay.send(*names[3:])
    wait_for(lambda: len(relay.files()) == 6)
    server = new_server(f"--listen=127.0.0.1:{port}")
    server.urls = [f"http://127.0.0.1:{port}"]
    wait_for(lambda: not relay.files(), 30)
    assert services(server) == set(names)
    counts = relay.flush()
    assert counts["sent_requests"] == 6 and counts["spooled_requests"] == 6


def test_the_spool_outlives_the_relay_and_drains_in_order_and_once(new_receiver, new_relay):
    port = free_port()
    flags = [f"--exporters=http://127.0.0.1:{port}", "--export-compression=gzip"]
    relay = new_relay(*flags)
    requests = [otlp_wire.profiles([{"service.name": f"s{i}"}]) for i in range(5)]
    for request in requests:
        relay.send_bytes(request)
    assert relay.quit() == 0
    assert len(relay.files()) == 5
    receiver = new_receiver(port=port)
    relay = new_relay(*flags)
    wait_for(lambda: not relay.files(), 20)
    time.sleep(0.3)
    assert [gzip.decompress(got[3]) for got in receiver.got] == requests
    assert "5 requests of earlier are to be sent" in relay.log()


def test_a_killed_relay_is_started_again_and_loses_nothing_of_the_spool(new_receiver, new_relay):
    port = free_port()
    relay = new_relay(f"--exporters=http://127.0.0.1:{port}", "--export-compression=gzip")
    relay.send("a", "b", "c")
    wait_for(lambda: len(relay.files()) == 3)
    first = relay.pid()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: relay.stat()[1] == 1)
    relay.send("d")  # while there is none: queued by the agent
    wait_for(lambda: relay.pid() not in (0, first), 10)
    wait_for(lambda: len(relay.files()) == 4)
    receiver = new_receiver(port=port)
    wait_for(lambda: len(receiver.got) == 4, 20)
    wait_for(lambda: not relay.files())


def test_damaged_files_are_skipped_and_counted(new_receiver, new_relay):
    port = free_port()
    flags = [f"--exporters=http://127.0.0.1:{port}"]
    relay = new_relay(*flags)
    relay.send("a", "b", "c")
    relay.quit()
    files = relay.files()
    data = bytearray(files[1].read_bytes())
    data[60] ^= 1
    files[1].write_bytes(data)
    files[2].write_bytes(files[2].read_bytes()[:50])
    receiver = new_receiver(port=port)
    relay = new_relay(*flags)
    wait_for(lambda: not relay.files(), 20)
    counts = relay.flush()
    assert counts["sent_requests"] == 1 and counts["spool_damaged_files"] == 2
    assert len(receiver.got) == 1


def test_the_oldest_go_first_when_the_spool_is_full(new_relay):
    relay = new_relay("--exporters=http://127.0.0.1:9", "--spool-max=1MiB")
    for _ in range(6):
        noise = os.urandom(250_000).hex()
        relay.send_bytes(otlp_wire.profiles([{"service.name": noise}]))
    counts = relay.flush()
    assert counts["spool_bytes"] <= 1 << 20
    assert counts["spool_files"] + counts["spool_dropped_requests"] == 6


def test_a_full_disk_leaves_memory_and_is_counted(new_receiver, new_relay, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)],
                      capture_output=True).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        port = free_port()
        relay = new_relay(f"--exporters=http://127.0.0.1:{port}", spool=disk / "spool")
        for i in range(5):
            noise = os.urandom(60_000).hex()
            relay.send_bytes(otlp_wire.profiles([{"service.name": f"{i}-{noise}"}]))
        wait_for(lambda: (relay.flush(1) or 1) and relay.counts()["spool_failures"] > 0, 20)
        assert relay.counts()["queue_bytes"] > 0
        assert "the spool takes nothing, so memory has to" in relay.log()
        receiver = new_receiver(port=port)
        wait_for(lambda: len(receiver.got) == 5, 40)
        assert relay.flush()["dropped_requests"] == 0
        relay.quit()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_spool_that_cannot_be_used_leaves_memory(new_receiver, new_relay, tmp_path):
    (tmp_path / "file").write_text("in the way")
    receiver = new_receiver([(503, {}, b"")])
    relay = new_relay(f"--exporters={receiver.url}", spool=tmp_path / "file" / "spool")
    relay.send("a")
    wait_for(lambda: len(receiver.got) == 2, 10)
    assert "going on without a spool" in relay.log()
    assert relay.flush()["sent_requests"] == 1


# ---- Files

def test_profiles_become_files_that_say_whose_they_are(new_relay, new_server, tmp_path):
    relay = new_relay(f"--exporters=file:{tmp_path}/out")
    start = time.time_ns() - 10**10
    relay.send_bytes(otlp_wire.profiles(
        [{"service.name": "shop/web", "service.version": "1.2"}, {"service.name": "cart"}], start=start))
    assert relay.flush()["sent_requests"] == 1
    files = sorted((tmp_path / "out").iterdir())
    assert [f.name.split("-2")[0] for f in files] == ["cart-samples", "cart-samples",
                                                     "shop_web-samples", "shop_web-samples"]
    info = run_vesta("info", "--json", files[2], check=0).json
    assert info["sample_types"][0]["type"] == "samples"
    said = json.loads(files[3].read_text())
    assert said["service"] == "shop/web" and said["labels"] == {"service.version": "1.2"}
    assert said["period"] == {"type": "cpu", "unit": "nanoseconds", "value": 50000000}
    assert said["types"] == [{"type": "samples", "unit": "count"}]
    assert said["from"][:19] == time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(start // 10**9))
    server = new_server()
    run_vesta("push", f"--url={server.url}", files[0], files[2], check=0)
    assert services(server) == {"cart", "shop/web"}


def test_requests_become_files_as_they_are(new_relay, tmp_path):
    relay = new_relay(f"--exporters=file:{tmp_path}/out", "--file-format=otlp")
    request = otlp_wire.profiles([{"service.name": "shop"}])
    relay.send_bytes(request)
    relay.send_bytes(request)
    assert relay.flush()["sent_requests"] == 2
    files = list((tmp_path / "out").glob("profiles-*.otlp.gz"))
    assert [gzip.decompress(f.read_bytes()) for f in files] == [request, request]


def test_what_is_no_profile_is_refused_by_the_file_exporter(new_relay, tmp_path):
    relay = new_relay(f"--exporters=file:{tmp_path}/out")
    relay.send_bytes(b"\xff\xff\xff")
    counts = relay.flush()
    assert counts["refused_requests"] == 1 and not list((tmp_path / "out").glob("*"))


# ---- Debug files

@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """(path, build id) of a program with debug information."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    here = tmp_path_factory.mktemp("program")
    (here / "a.c").write_text("int main(void) { return 0; }\n")
    build_id = "0123456789abcdef0123456789abcdef01234567"
    subprocess.run(["gcc", "-g", f"-Wl,--build-id=0x{build_id}", "-o", here / "a", here / "a.c"],
                   check=True)
    return here / "a", build_id


def test_debug_files_are_sent_once_where_the_server_lacks_them(server, new_relay, program):
    path, build_id = program
    flags = [f"--exporters=http://127.0.0.1:{server.address[1]}", f"--server={server.url}",
             "--debug-upload"]

    def files():
        return json.loads(server.get("/api/v1/debuginfo")[2])["files"]

    def told(relay):
        relay.flush()
        return relay.last["debug_files"]

    relay = new_relay(*flags)
    relay.say(f"debug {path} {build_id}")
    relay.say(f"debug {path} {build_id}")
    wait_for(lambda: told(relay)["sent"] == 1)
    assert [f["build_id"] for f in files()] == [build_id]
    assert told(relay) == {"sent": 1, "sent_bytes": path.stat().st_size, "known": 0, "failed": 0,
                           "dropped": 0, "waiting": 0}
    relay.quit()
    relay = new_relay(*flags)
    relay.say(f"debug {path} {build_id}")
    relay.say(f"debug {path} ../../etc")
    wait_for(lambda: told(relay)["known"] == 1)
    assert told(relay)["sent"] == 0


# ---- The process

def test_the_relay_has_no_rights(new_relay):
    relay = new_relay("--exporters=http://127.0.0.1:9")
    pid = relay.pid()
    wait_for(lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() == "vesta-relay\n")
    def status():
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return {line.split(":")[0]: line.split(":")[1].strip() for line in lines}
    wait_for(lambda: status()["Seccomp"] == "2")
    said = status()
    assert int(said["CapEff"], 16) == int(said["CapPrm"], 16) == int(said["CapAmb"], 16) == 0
    assert said["NoNewPrivs"] == "1"


def test_the_relay_runs_as_another_user_and_can_use_its_folders(new_relay, server, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o711)
    relay = new_relay("--exporters=http://127.0.0.1:9", f"--exporters={server.url}",
                      f"--exporters=file:{tmp_path}/out", user="nobody")
    relay.send("a")
    relay.flush()
    nobody = pathlib.Path(f"/proc/{relay.pid()}/status").read_text().split("Uid:")[1].split()[0]
    assert nobody != "0" and len(relay.files()) == 1
    assert [relay.counts(i)["sent_requests"] for i in range(3)] == [0, 1, 1]
    assert {str(f.stat().st_uid) for f in (tmp_path / "out").iterdir()} == {nobody}
    pid = relay.pid()
    relay.process.kill()  # the change of user has not undone this
    relay.process.wait()
    wait_for(lambda: not pathlib.Path(f"/proc/{pid}/fd/0").exists(), 10)


def test_the_relay_ends_with_the_agent_and_keeps_what_it_has(new_relay):
    relay = new_relay("--exporters=http://127.0.0.1:9", "--export-timeout=1s")
    relay.send("a", "b")
    pid = relay.pid()
    relay.process.kill()
    relay.process.wait()
    wait_for(lambda: not pathlib.Path(f"/proc/{pid}").exists() or
             "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2], 10)
    assert len(relay.files()) == 2


def test_a_configuration_that_is_wrong_is_said_at_the_start(tmp_path):
    done = subprocess.run(
        [str(BUILD / "tests" / "relay_push"), "--exporters=http://127.0.0.1:4318"],
        input=b"", capture_output=True, env={**os.environ, "OTEL_EXPORTER_OTLP_COMPRESSION": "lzma"})
    assert done.returncode == 1
    assert b'OTEL_EXPORTER_OTLP_COMPRESSION is "lzma", not zstd, gzip or none' in done.stderr
