"""HTTP/2 over sockets: h2spec, nghttp2's tools and curl are served as they expect, and attacks end
the attacker's connection while others are served on."""

import contextlib
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import time

import pytest

from conftest import BUILD

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    0, 1, 2, 3, 4, 6, 7, 8, 9)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
NO_ERROR, ENHANCE_YOUR_CALM = 0, 11
# :method, :scheme http, :path, :authority as HPACK writes them without Huffman codes.
GET_HEALTH = b"\x82\x86\x04\x08/healthz\x41\x01a"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


class Peer:
    """One raw connection: frames out, frames in."""

    def __init__(self, server, settings=b""):
        self.socket = socket.create_connection(server.address, timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.frames = []
        self.is_over = False
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def send(self, data):
        """False once the server has hung up."""
        self.socket.settimeout(10)
        with contextlib.suppress(OSError):
            self.socket.sendall(data)
            return True
        self.is_over = True
        return False

    def read(self, seconds):
        """Collects frames for this long, or until the connection ends."""
        end = time.monotonic() + seconds
        while not self.is_over:
            self.socket.settimeout(max(0, end - time.monotonic()))
            try:
                data = self.socket.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                break
            except OSError:
                data = b""
            self.is_over = not data
            self.rest += data
            self.take_frames()
        return self.frames

    def take_frames(self):
        while len(self.rest) >= 9:
            length = int.from_bytes(self.rest[:3], "big")
            if len(self.rest) < 9 + length:
                break
            kind, flags, stream = struct.unpack(">BBI", self.rest[3:9])
            self.frames.append((kind, flags, stream, self.rest[9:9 + length]))
            self.rest = self.rest[9 + length:]

    def goaway_code(self):
        codes = [struct.unpack(">I", f[3][4:8])[0] for f in self.frames if f[0] == GOAWAY]
        return codes[-1] if codes else None

    def close(self):
        self.socket.close()


@pytest.fixture
def peer():
    """peer(server) connects; all are closed afterwards."""
    open_ones = []

    def connect(server, **kw):
        open_ones.append(Peer(server, **kw))
        return open_ones[-1]

    yield connect
    for one in open_ones:
        one.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(certificate, key) for 127.0.0.1."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed, so there is no certificate to serve with")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True,
        capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def tls_server(new_server, certificate):
    return new_server("--tls-cert-file", certificate[0], "--tls-key-file", certificate[1],
                      data="tls")


def tool(name):
    path = shutil.which(name)
    if not path:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.fixture(scope="module")
def h2spec():
    """h2spec, fetched and built by go into the build folder. It does not say which versions it is made
    of, and the newest want a newer go than Debian has."""
    path = BUILD / "e2e-go" / "h2spec"
    folder = BUILD / "e2e-go" / "h2spec-module"
    name = "github.com/summerwind/h2spec"
    parts = [f"{name}@v2.2.1+incompatible", "golang.org/x/net@v0.17.0",
             "github.com/spf13/cobra@v1.8.0", "github.com/fatih/color@v1.16.0"]
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "go.mod").write_text("module h2spec\n\ngo 1.17\n\nrequire (\n" + "".join(
            f"\t{part.replace('@', ' ')}\n" for part in parts) + ")\n")
        done = subprocess.run(
            [tool("go"), "build", "-o", path, f"{name}/cmd/h2spec"], cwd=folder,
            env={**os.environ, "GOFLAGS": "-mod=mod"}, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            pytest.skip("h2spec cannot be had: " + done.stderr.strip().splitlines()[-1])
    return path


def run_h2spec(h2spec, server, *args):
    """(summary, names of the tests that failed). The path must take bodies: a refusal that comes
    before the body would be right, too, but is not what these tests wait for."""
    host, port = server.address
    done = subprocess.run(
        [h2spec, "-h", host, "-p", str(port), "-P", "/api/v1/labels", "-S", "-o", "5", *args],
        capture_output=True, text=True, timeout=120)
    text = done.stdout.partition("Failures:")
    failed = re.findall(r"× \d+: (.*)", text[2])
    return re.search(r"\d+ tests, .*", done.stdout).group(), failed


def curl(*args):
    """(version, status, body)"""
    done = subprocess.run(
        [tool("curl"), "-sS", "--max-time", "20", "-w", "\n%{http_version} %{http_code}", *args],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    body, _, last = done.stdout.rpartition("\n")
    version, status = last.split()
    return version, int(status), body


def resident_mb(server):
    with open(f"/proc/{server.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024


def test_h2spec_finds_nothing_wrong_over_tls(h2spec, tls_server):
    summary, failed = run_h2spec(h2spec, tls_server, "-t", "-k")
    assert failed == []
    assert summary == "146 tests, 146 passed, 0 skipped, 0 failed"


def test_h2spec_finds_nothing_wrong_without_tls(h2spec, server):
    # The port serves HTTP/1.1, too: whoever does not send the preface is answered in that.
    summary, failed = run_h2spec(h2spec, server)
    assert failed == ["Sends invalid connection preface"]
    assert summary == "146 tests, 145 passed, 0 skipped, 1 failed"


@pytest.mark.parametrize("flag", ["--http2-prior-knowledge", "--http2"])
def test_curl_speaks_http2_without_tls(server, flag):
    assert curl(flag, server.url + "/healthz") == ("2", 200, "ok\n")
    version, status, body = curl(flag, server.url + "/api/v1/labels")
    assert (version, status) == ("2", 200), body


def test_curl_speaks_http2_over_tls(tls_server, certificate):
    url = tls_server.url + "/healthz"
    assert curl("--http2", "--cacert", str(certificate[0]), url) == ("2", 200, "ok\n")
    assert curl("--http1.1", "--cacert", str(certificate[0]), url) == ("1.1", 200, "ok\n")


def test_alpn_chooses_http2(tls_server, certificate):
    context = ssl.create_default_context(cafile=certificate[0])
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection(tls_server.address, timeout=10) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            assert tls.selected_alpn_protocol() == "h2"


def test_a_large_body_goes_through_the_windows(server, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(b"x" * (12 << 20))
    started = time.monotonic()
    version, status, text = curl("--http2-prior-knowledge", "--data-binary", f"@{body}",
                                 server.url + "/api/v1/labels")
    assert (version, status) == ("2", 400), text
    assert "takes no parameter" in text
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("size", [1, 100_000, 12 << 20])
def test_a_refusal_before_the_body_is_read_by_curl(server, tmp_path, size):
    body = tmp_path / "body"
    body.write_bytes(b"x" * size)
    for flag in ("--http2-prior-knowledge", "--http1.1"):
        version, status, text = curl(flag, "--data-binary", f"@{body}", server.url + "/nowhere")
        assert status == 404 and "there is nothing at /nowhere" in text, (version, text)


@pytest.mark.parametrize("how", ["prior knowledge", "upgrade", "tls"])
def test_nghttp_is_served(server, tls_server, how):
    url = (tls_server if how == "tls" else server).url + "/healthz"
    flags = ["-u"] if how == "upgrade" else []
    done = subprocess.run([tool("nghttp"), "-ns", *flags, url], capture_output=True, text=True,
                          timeout=20)
    assert re.search(r" 200 +3 /healthz", done.stdout), done.stdout + done.stderr


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_h2load_loses_no_request(server, tls_server, has_tls):
    url = (tls_server if has_tls else server).url + "/healthz"
    done = subprocess.run([tool("h2load"), "-n", "2000", "-c", "10", "-m", "10", url],
                          capture_output=True, text=True, timeout=60)
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout


def test_a_head_over_its_limit_is_answered(server):
    many_fields = [arg for i in range(130) for arg in ("-H", f"x-{i}: y")]
    version, status, body = curl("--http2-prior-knowledge", *many_fields, server.url + "/healthz")
    assert (version, status) == ("2", 431)
    assert "128 fields, 65536 bytes" in body


# ---- attacks ----

def rapid_reset():
    stream = 1
    while True:
        yield b"".join(
            frame(HEADERS, END_HEADERS | END_STREAM, s, GET_HEALTH) +
            frame(RST_STREAM, 0, s, b"\0\0\0\x08") for s in range(stream, stream + 200, 2))
        stream += 200


def made_reset():
    """The server is made to reset: names of headers in upper case."""
    stream = 1
    while True:
        yield b"".join(
            frame(HEADERS, END_HEADERS | END_STREAM, s, GET_HEALTH + b"\0\x01X\x01y")
            for s in range(stream, stream + 20, 2))
        stream += 20


def continuations():
    yield frame(HEADERS, END_STREAM, 1, GET_HEALTH)
    while True:
        yield frame(CONTINUATION, 0, 1, b"\x00\x01x\x01y" * 10)


def many(one, n=100):
    def attack():
        yield frame(HEADERS, END_HEADERS, 1, GET_HEALTH)
        while True:
            yield one * n
    return attack


ATTACKS = {
    "rapid reset": rapid_reset,
    "resets by the server": made_reset,
    "continuation": continuations,
    "settings": many(frame(SETTINGS, payload=b"\0\x04\0\x10\0\0")),
    "ping": many(frame(PING, payload=b"12345678")),
    "priority": many(frame(PRIORITY, 0, 3, b"\0\0\0\x05\x10")),
    "window update": many(frame(WINDOW_UPDATE, payload=b"\0\0\0\x01")),
    "unknown frames": many(frame(0xBB, payload=b"?")),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_flood_ends_its_connection_and_nobody_elses(server, peer, name):
    good = peer(server)
    before = resident_mb(server)
    bad = peer(server)
    sent = 0
    for part in ATTACKS[name]():
        if not bad.send(part) or sent > 16 << 20:
            break
        sent += len(part)
        bad.read(0)
        if bad.goaway_code() is not None:
            break
    bad.read(5)
    assert bad.is_over, f"{sent} bytes were taken"
    assert bad.goaway_code() in (ENHANCE_YOUR_CALM, None) and sent < 4 << 20
    # Who was connected before is served, and quickly.
    started = time.monotonic()
    good.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, GET_HEALTH))
    while not any(f[0] == DATA for f in good.frames) and time.monotonic() < started + 5:
        good.read(0.02)
    assert (DATA, END_STREAM, 1, b"ok\n") in good.frames
    assert time.monotonic() - started < 1
    assert server.get("/healthz")[0] == 200
    assert resident_mb(server) < before + 16


def test_answers_that_nobody_reads_are_bounded(server, peer):
    """Streams whose window stays shut: their answers wait, within a limit, and others are served."""
    before = resident_mb(server)
    shut = struct.pack(">HI", 4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE 0
    ask = b"\x82\x86\x04\x14/api/v1/openapi.json\x41\x01a"
    for _ in range(10):
        bad = peer(server, settings=shut)
        bad.send(b"".join(frame(HEADERS, END_HEADERS | END_STREAM, s, ask)
                          for s in range(1, 255, 2)))
    time.sleep(0.5)
    assert server.get("/healthz")[0] == 200
    assert resident_mb(server) < before + 10 * 12 + 40


def test_draining_tells_clients_and_answers_what_was_begun(server, peer):
    one = peer(server)
    one.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, GET_HEALTH))
    one.read(0.3)
    server.process.terminate()
    one.read(0.5)
    goaways = [f for f in one.frames if f[0] == GOAWAY]
    assert goaways and goaways[0][3][:8] == b"\x7f\xff\xff\xff" + struct.pack(">I", NO_ERROR)
    # The answer to the server's PING lets it name the last stream, and end.
    pings = [f for f in one.frames if f[0] == PING and not f[1] & ACK]
    one.send(b"".join(frame(PING, ACK, 0, f[3]) for f in pings))
    one.read(3)
    assert one.is_over
    assert server.wait() == 0
