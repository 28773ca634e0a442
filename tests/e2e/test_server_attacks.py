"""Attacks on a running server: each is refused with the right status and a reason that names what
is wrong, is counted, stores nothing, costs little, and leaves everybody else served."""

import concurrent.futures
import contextlib
import gzip
import http.client
import http.server
import json
import os
import re
import resource
import socket
import struct
import subprocess
import threading
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

import pytest

import otlp_wire as wire
from conftest import Server, run_vesta
from hostile_client import (JSON, MIB, PROTO, STACKS, boundaries, counters, gzip_bomb, head, peak_mib, pprof, push,
                            push_json, raw, send_good, start_peak, status_of, stored, unharmed, zstd_frame)

PROFILES = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PUSH = "/push.v1.PusherService/Push"
LIMITS = ["--limits-body", "16MiB", "--limits-body-memory", "64MiB", "--limits-memory", "64MiB",
          "--limits-upload", "32MiB", "--limits-query-timeout", "10s"]


class Slow:
    """Clients that begin like this and then send a byte now and then, from the first test on."""

    def __init__(self, server, n, begin):
        self.sockets = [socket.create_connection(server.address, timeout=5) for _ in range(n)]
        self.begun = time.monotonic()
        for s in self.sockets:
            s.sendall(begin)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.trickle)
        self.thread.start()

    def trickle(self):
        while not self.ended.wait(1):
            for s in self.sockets:
                with contextlib.suppress(OSError):
                    s.send(b"x")

    def close(self):
        self.ended.set()
        self.thread.join()
        for s in self.sockets:
            s.close()

    def answers(self):
        self.ended.set()
        self.thread.join()
        out = []
        for s in self.sockets:
            s.settimeout(0.5)
            got = b""
            with contextlib.suppress(OSError):
                while part := s.recv(4096):
                    got += part
            out.append(got)
            s.close()
        return out


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """One server for all attacks that leave it as it was, with 200 slow clients connected."""
    server = Server(tmp_path_factory.mktemp("attacked") / "data", *LIMITS).start()
    send_good(server)
    server.slow = Slow(server, 200, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    server.slow_bodies = Slow(server, 100, head("POST", "/v1/profiles", "Content-Length: 100000",
                                                f"Content-Type: {PROTO}"))
    yield server
    server.slow.close()
    server.slow_bodies.close()
    assert server.stop() == 0


def reason_in(body):
    """The text of an error, whatever it was encoded as."""
    with contextlib.suppress(ValueError):
        said = json.loads(body)
        return said.get("error") or said.get("message") or ""
    return body.decode("utf-8", "replace")


# ---- Malformed messages

MESSAGES = {
    "/v1development/profiles": (PROTO, lambda: wire.profiles([{"service.name": "cut"}])),
    "/v1/profiles": (PROTO, lambda: wire.profiles([{"service.name": "cut"}])),
    "/v1/traces": (PROTO, lambda: wire.traces("cut", ["one"])),
    PROFILES: ("application/proto", lambda: wire.profiles([{"service.name": "cut"}])),
    TRACES: ("application/proto", lambda: wire.traces("cut", ["one"])),
    PUSH: ("application/proto", push),
    "/v1/pprof?service.name=cut": ("application/octet-stream", pprof),
    "/ingest?name=cut&format=pprof": ("application/octet-stream", pprof),
    "/api/v1/profiles?service.name=cut": ("application/octet-stream", pprof),
}


@pytest.mark.parametrize("path", MESSAGES)
def test_messages_that_end_too_early_are_refused(target, path):
    kind, make = MESSAGES[path]
    message = make()
    ends = boundaries(message)
    with unharmed(target, "malformed"):
        for i in range(1, 33):
            at = len(message) * i // 33
            if at in ends:
                continue
            status, _, body = target.post(path, message[:at], headers={"content-type": kind})
            assert status == 400, (at, status, body[:300])
            assert reason_in(body)


@pytest.mark.parametrize("path, kind, make", [
    ("/v1/profiles", JSON, lambda: json.dumps(wire.profiles_json("cut")).encode()),
    (PROFILES, JSON, lambda: json.dumps(wire.profiles_json("cut")).encode()),
    (PUSH, JSON, push_json),
    ("/api/v1/deployments", JSON, lambda: b'{"service": "shop", "version": "0.9", "id": "d-1"}'),
    ("/api/v1/agents/heartbeat", JSON, lambda: b'{"id": "a-1", "services": ["x"], "rate": 19}'),
    ("/api/v1/agents/directive", JSON, lambda: b'{"mode": "low", "service": "none"}'),
    ("/api/v1/top", JSON, lambda: b'{"query": "cpu", "limit": 5}'),
    ("/querier.v1.QuerierService/LabelNames", JSON, lambda: b'{"matchers": [], "start": 1, "end": 2}'),
])
def test_json_that_ends_too_early_is_refused(target, path, kind, make):
    message = make()
    with unharmed(target):
        for i in range(1, 17):
            part = message[:max(1, len(message) * i // 17)]
            status, _, body = target.post(path, part, headers={"content-type": kind})
            assert status == 400, (part[-40:], status, body[:300])
            assert reason_in(body)


SPOILT = {
    "a wrong wire type": wire.number(1, 5) + wire.number(2, 7),
    "a group": b"\x0b" * 1000,
    "a group's end": b"\x0c",
    "wire type 7": b"\x0f\x01",
    "field number 0": b"\x02\x01x",
    "a varint of 11 bytes": b"\x0a" + b"\xff" * 10 + b"\x01",
    "a length of 2^63": b"\x0a" + b"\xff" * 8 + b"\x7f" + b"x",
    "a length of 2^32": b"\x0a\xff\xff\xff\xff\x0fxxxx",
    "only 0xff": b"\xff" * 4096,
}


@pytest.mark.parametrize("what", SPOILT)
def test_protobuf_that_is_none_is_refused_everywhere(target, what):
    with unharmed(target, "malformed"):
        for path, (kind, _) in MESSAGES.items():
            if kind == "application/octet-stream":
                continue
            status, _, body = target.post(path, SPOILT[what], headers={"content-type": kind})
            assert status == 400, (path, status, body[:300])
            assert reason_in(body)


def test_messages_within_messages_end_at_some_depth(target):
    """AnyValue holds lists of AnyValue: the one place where OTLP nests without end."""
    value = wire.message(1, "x")
    while len(value) < 200000:
        value = wire.message(5, wire.message(1, value))
    attribute = wire.message(1, wire.message(1, "deep") + wire.message(2, value))
    request = wire.message(1, wire.message(1, attribute))
    nested = b"[" * 100000
    with unharmed(target):
        for path in ("/v1/profiles", "/v1/traces"):
            status, _, _ = target.post(path, request, headers={"content-type": PROTO})
            assert status in (200, 400)
            status, _, body = target.post(path, nested, headers={"content-type": JSON})
            assert status == 400, body
        status, _, body = target.post("/v1/profiles", b'{"a":' * 100000, headers={"content-type": JSON})
        assert status == 400 and "deep" in reason_in(body)


def test_packed_bombs_do_not_grow(target):
    """A byte of a packed field, or two of an empty message, must not become kilobytes."""
    million = bytes(4 * MIB)
    packed = wire.message(2, wire.message(7, wire.message(1, million)))  # a stack's locations
    empty = wire.message(2, b"\x1a\x00" * (2 * MIB))  # functions
    with unharmed(target):
        for body in (packed, empty, b"\x0a\x00" * (4 * MIB)):
            status, _, text = target.post("/v1/profiles", body, headers={"content-type": PROTO})
            assert status in (200, 400, 413), text[:300]
    profiles = wire.message(1, wire.message(2, b"\x12\x00" * MIB))
    with unharmed(target, "too_large"):
        status, _, text = target.post("/v1/profiles", profiles, headers={"content-type": PROTO})
        assert status == 413 and b"memory limit of 80 MiB reached" in text and b"limits.body" in text, text


def test_numbers_and_texts_that_json_should_not_have(target):
    bad = [b'{"resourceProfiles": 1e999}', b'{"resourceProfiles": [1' + b"0" * 100000 + b"]}",
           b'{"resourceProfiles": "\\ud800"}', b"\xff\xfe{}", b"[]", b"nul", b"{}x", b'{"a":1,}',
           b'{"dictionary": {"stringTable": [""]}, "resourceProfiles": [{"scopeProfiles": [{"profiles": '
           b'[{"sampleType": {"typeStrindex": 99999999}, "samples": [{"stackIndex": 7}]}]}]}]}']
    with unharmed(target, "malformed"):
        for body in bad:
            status, _, text = target.post("/v1/profiles", body, headers={"content-type": JSON})
            assert status == 400, (body[:60], status, text)
            assert reason_in(text)


def test_references_to_what_is_not_there_are_refused(target):
    body = wire.profiles([{"service.name": "x"}])
    # The stack of the dictionary points at locations 2 and 1: now at 16383.
    spoilt = body.replace(wire.message(7, wire.message(1, b"\x02\x01")),
                          wire.message(7, wire.message(1, wire.varint(16383))))
    assert spoilt != body
    with unharmed(target, "malformed"):
        status, _, text = target.post("/v1/profiles", spoilt, headers={"content-type": PROTO})
        assert status == 400 and b"location" in text


@pytest.mark.parametrize("format", ["pprof", "jfr", "folded", "trie", "tree", "speedscope", "none-that-is"])
def test_rubbish_in_every_format_of_ingest_is_refused(target, format):
    rubbish = [b"\0", bytes(range(256)) * 20, b"{" * 10000, b"FLR\0" + bytes(range(200)), b"\xff" * 100,
               b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01" * 100, b"a;b 999999999999999999999999\n"]
    with unharmed(target):
        for body in rubbish:
            status, _, text = target.post(f"/ingest?name=x&format={format}", body)
            assert status in (400, 415, 422), (body[:20], status, text)
            assert reason_in(text)


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=",
                                  "multipart/form-data; boundary=x", "multipart/form-data; boundary=" + "y" * 5000])
def test_multipart_that_is_none_is_refused(target, kind):
    part = b'--x\r\nContent-Disposition: form-data; name="profile"; filename="../../x"\r\n\r\n'
    with unharmed(target):
        for body in (b"", b"--x\r\n", b"--x--\r\n", part, part * 1000, b"--x\r\n" * 10000,
                     part + b"\x1f\x8b\r\n--x--\r\n", b"--x\r\nA: " + b"b" * 200000 + b"\r\n\r\nx\r\n--x--\r\n"):
            status, _, text = target.post("/ingest?name=x", body, headers={"content-type": kind})
            assert status in (400, 413, 415, 422), (body[:20], status, text)


def grpc(server, body, *headers):
    """{header or trailer: value} of a unary call with these bytes as its body."""
    extra = [x for h in ("content-type: application/grpc", *headers) for x in ("-H", h)]
    done = subprocess.run(["curl", "-s", "-i", "-m", "10", "--http2-prior-knowledge", *extra, "--data-binary", "@-",
                           server.url + PROFILES], input=body, capture_output=True)
    return dict(line.split(": ", 1) for line in done.stdout.decode("latin-1").split("\r\n") if ": " in line)


def test_grpc_frames_that_are_none_are_refused(target):
    bomb = gzip_bomb(1)
    with unharmed(target, "malformed"):
        for body, headers, code, why in [
                (b"", (), "3", "the prefix of a message alone has 5"),
                (b"\0\xff\xff\xff\xffx", (), "3", "4294967295 bytes are announced"),
                (b"\1\0\0\0\1x", (), "3", "no grpc-encoding"),
                (b"\1\0\0\0\1x", ("grpc-encoding: br",), "12", "not supported"),
                (b"\2\0\0\0\0", (), "3", "neither 0 nor 1"),
                (b"\0\0\0\0\0" * 3, (), "3", "a unary call has only one"),
                (b"\0\0\0\0\0", ("grpc-timeout: 1n",), "4", "longer than"),
                (b"\1" + struct.pack(">I", len(bomb)) + bomb, ("grpc-encoding: gzip",), "8", "(limits.body)")]:
            answer = grpc(target, body, *headers)
            assert answer.get("grpc-status") == code and why in answer["grpc-message"], (body[:8], answer)


# ---- Bombs

def test_gzip_bombs_are_cut_off_at_the_limit(target):
    bomb = gzip_bomb(10)
    assert len(bomb) < 11 * MIB
    with unharmed(target, "too_large"):
        # Connect has 429 for whatever is exhausted.
        for path, kind, expected in [("/v1/profiles", PROTO, 413), (PUSH, "application/proto", 429)]:
            status, _, body = target.post(path, bomb, headers={"content-type": kind, "content-encoding": "gzip"})
            assert status == expected and b"16777216 bytes once it is unpacked" in body, body


def test_zstd_bombs_and_huge_windows_are_refused(target):
    bomb = zstd_frame(80 * 1024)  # 10 GiB
    with unharmed(target, "too_large"):
        status, _, body = target.post("/v1/profiles", bomb,
                                      headers={"content-type": PROTO, "content-encoding": "zstd"})
        assert status == 413 and b"16777216 bytes once it is unpacked" in body
    for window in (0x78, 0xA8, 0xF8):  # 32 MiB, 2 GiB, 2 TiB
        with unharmed(target):
            status, _, body = target.post("/v1/profiles", zstd_frame(1, window),
                                          headers={"content-type": PROTO, "content-encoding": "zstd"})
            assert status in (400, 413), (window, status)
            assert b"window of more than 8 MiB" in body, body


def test_a_bomb_within_a_profile_file_is_refused(target):
    """pprof is packed by itself: a sound content-encoding may hold a bomb yet."""
    inner = gzip_bomb(2)
    twice = gzip.compress(gzip.compress(bytes(64 * MIB), 9), 9)
    with unharmed(target, peak=400):
        for path in ("/v1/pprof?service.name=x", "/ingest?name=x&format=pprof", "/api/v1/profiles?service.name=x"):
            status, _, body = target.post(path, inner)
            assert status in (400, 413), body
            status, _, body = target.post(path, gzip.compress(inner, 1), headers={"content-encoding": "gzip"})
            assert status in (400, 413), body
            status, _, body = target.post(path, twice, headers={"content-encoding": "gzip"})
            assert status in (400, 413), body
        status, _, body = target.post(PUSH, push(profile=inner), headers={"content-type": "application/proto"})
        assert status in (400, 429), body


def test_many_bombs_at_once_share_one_bound(target):
    bomb = gzip_bomb(4)
    with unharmed(target, peak=500), concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: target.post("/v1/profiles", bomb, timeout=60, headers={
            "content-type": PROTO, "content-encoding": "gzip"})[0], range(16)))
        assert set(answers) <= {413, 429}


def test_large_bodies_take_turns(new_server):
    """Packed they are small, and 20 MiB each once unpacked: not all workers unpack at once."""
    server = new_server()
    strings = b"".join(wire.message(5, f"{i:08}" * 5) for i in range(450000))
    body = gzip.compress(wire.message(2, strings), 1)
    start_peak(server)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda _: server.post("/v1/profiles", body, timeout=60, headers={
            "content-type": PROTO, "content-encoding": "gzip"})[0], range(16)))
    assert set(statuses) <= {200, 429} and statuses.count(200) >= 1
    assert peak_mib(server) < 550
    # Nor does anyone unpack what is sent to those who want no body.
    bomb = gzip_bomb(1)
    for _ in range(5):
        assert server.request("GET", "/healthz", body=bomb, headers={"content-encoding": "gzip"})[0] in (200, 413)
    send_good(server)


def test_bodies_are_limited_before_they_are_read(target):
    with unharmed(target, "too_large"):
        begun = time.monotonic()
        answer = raw(target, head("POST", "/v1/profiles", "Content-Length: 1000000000000",
                                  f"Content-Type: {PROTO}"))
        assert status_of(answer) == 413 and b"larger than 16777216 bytes" in answer
        assert time.monotonic() - begun < 5
        chunk = b"100000\r\n" + bytes(MIB) + b"\r\n"
        answer = raw(target, head("POST", "/v1/profiles", "Transfer-Encoding: chunked",
                                  f"Content-Type: {PROTO}") + chunk * 20)
        assert status_of(answer) == 413, answer[:300]
        status, _, body = target.post("/api/v1/agents/heartbeat", bytes(65 << 10))
        assert status == 413 and b"larger than 65536 bytes" in body
        status, _, body = target.post("/api/v1/debuginfo/" + "ab" * 20, bytes(33 * MIB))
        assert status == 413, body


def test_promises_of_large_bodies_reserve_nothing(target):
    """Many clients announce as much as they may, and send little."""
    request = head("POST", "/v1/profiles", f"Content-Length: {16 * MIB}", f"Content-Type: {PROTO}") + b"\x0a"
    with unharmed(target, stores=5):
        sockets = [socket.create_connection(target.address) for _ in range(100)]
        for s in sockets:
            s.sendall(request)
        for _ in range(5):
            send_good(target, "between")
        for s in sockets:
            s.close()


# ---- HTTP

@pytest.mark.parametrize("what, data, status", [
    ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", 400),
    ("a version from the future", b"GET / HTTP/3.0\r\n\r\n", 505),
    ("no host", b"GET /healthz HTTP/1.1\r\n\r\n", 400),
    ("two hosts", b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("bare line feeds", b"GET /healthz HTTP/1.1\nHost: a\n\n", 400),
    ("a folded header", head("GET", "/healthz", "X-A: b\r\n c"), 400),
    ("a space before the colon", head("GET", "/healthz", "X-A : b"), 400),
    ("a header without a name", head("GET", "/healthz", ": b"), 400),
    ("a zero byte in a header", head("GET", "/healthz", "X-A: b\0c"), 400),
    ("two lengths", head("POST", "/v1/traces", "Content-Length: 0", "Content-Length: 5"), 400),
    ("a length with a sign", head("POST", "/v1/traces", "Content-Length: +5"), 400),
    ("a length of 2^64", head("POST", "/v1/traces", "Content-Length: 18446744073709551616"), 400),
    ("a length and chunks", head("POST", "/v1/traces", "Content-Length: 5", "Transfer-Encoding: chunked"), 400),
    ("chunks that are not last", head("POST", "/v1/traces", "Transfer-Encoding: chunked, gzip"), 400),
    ("a chunk of 2^64", head("POST", "/v1/traces", f"Content-Type: {PROTO}", "Transfer-Encoding: chunked")
     + b"10000000000000000\r\n", 400),
    ("a chunk that is no number", head("POST", "/v1/traces", f"Content-Type: {PROTO}", "Transfer-Encoding: chunked")
     + b"zz\r\n", 400),
    ("a target with a space", b"GET /health z HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a control character in the target", b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("a header of 1 MiB", head("GET", "/healthz", "X-A: " + "b" * MIB), 431),
    ("100,000 headers", head("GET", "/healthz", *(f"X-{i}: b" for i in range(100000))), 431),
    ("200 short headers", head("GET", "/healthz", *(f"X-{i}: b" for i in range(200))), 431),
    ("a URL of 1 MiB", head("GET", "/" + "a" * MIB), 414),
    ("a method that nobody has", head("BREW", "/healthz"), 405),
    ("a proxy's request", head("CONNECT", "example.com:443"), 501),
], ids=lambda v: v if isinstance(v, str) else None)
def test_what_is_no_sound_http_is_refused(target, what, data, status):
    errors = target.metric("vesta_http_protocol_errors_total")
    with unharmed(target):
        answer = raw(target, data, seconds=5)
        assert status_of(answer) == status, answer[:300]
        # Nothing of it is taken for a second request.
        assert answer.count(b"HTTP/1.1 ") == 1
        if status != 405:
            assert target.metric("vesta_http_protocol_errors_total") > errors


def test_a_request_that_hides_another_is_not_taken_apart(target):
    """Everything that proxies and servers have disagreed about."""
    hidden = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    for line in ("Transfer-Encoding: xchunked", "Transfer-Encoding : chunked", "Transfer-Encoding:\x0bchunked",
                 "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: identity, chunked"):
        answer = raw(target, head("POST", "/v1/traces", f"Content-Length: {len(hidden)}", line) + hidden, seconds=5)
        assert status_of(answer) in (400, 501) and b"vesta_" not in answer, (line, answer[:200])
    send_good(target)


def test_clients_that_dawdle_leave_others_served(target):
    """200 have been sending a header byte by byte since the first test: all were ended by the
    clock of heads, which is 10 s."""
    for _ in range(3):
        begun = time.monotonic()
        send_good(target)
        assert time.monotonic() - begun < 2
    time.sleep(max(0, 12 - (time.monotonic() - target.slow.begun)))
    answers = target.slow.answers()
    assert all(status_of(a) == 408 or a == b"" for a in answers), answers[:3]
    assert target.metric("vesta_http_timeouts_total") >= 200
    assert peak_mib(target) < 600


def test_connections_beyond_the_limit_are_told_so_and_counted(new_server):
    server = new_server("--limits-connections", "50")
    refused = server.metric("vesta_http_refused_total")
    sockets = [socket.create_connection(server.address, timeout=5) for _ in range(80)]
    told = 0
    for s in reversed(sockets):
        s.settimeout(5 if told < 30 else 0.01)
        with contextlib.suppress(TimeoutError):
            told += s.recv(4096).startswith(b"HTTP/1.1 503 ")
    # Connections of requests before these may not have been seen to end yet.
    assert 30 <= told <= 32
    for s in sockets:
        s.close()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            send_good(server)
            break
    assert server.metric("vesta_http_refused_total") >= refused + 30


def test_a_server_without_file_descriptors_comes_back(new_server):
    server = new_server()
    send_good(server)
    used = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used + 10, 4096))
    sockets = [socket.create_connection(server.address, timeout=5) for _ in range(60)]
    begun = cpu_seconds(server)
    time.sleep(1)
    assert cpu_seconds(server) - begun < 0.5, "it spins"
    for s in sockets:
        s.close()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (4096, 4096))
    for _ in range(5):
        send_good(server)


def cpu_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_clients_that_ask_and_do_not_read_cost_little(target):
    """Each asks a thousand times on one connection and takes nothing of the answers."""
    request = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
    with unharmed(target, peak=400):
        sockets = []
        for _ in range(50):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(target.address)
            s.setblocking(False)
            with contextlib.suppress(OSError):
                s.send(request)
            sockets.append(s)
        time.sleep(1)
        for s in sockets:
            s.close()


def test_slow_readers_of_long_answers_leave_workers_to_others(new_server):
    server = new_server("--limits-query-workers", "4")
    for batch in range(2):
        body = wire.profiles([{"service.name": f"s{batch}-{i}", "host.name": "h" * 1000} for i in range(4000)], samples=1)
        assert server.post("/v1/profiles", body, headers={"content-type": PROTO})[2] == b""
    readers = []
    for _ in range(10):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(server.address)
        s.sendall(head("GET", "/api/v1/profiles?format=ndjson&from=now-1h"))
        s.settimeout(0.5)
        readers.append(s)
    told = 0
    for s in readers:
        with contextlib.suppress(TimeoutError):
            told += status_of(s.recv(4096)) == 429
    assert told >= 6
    for _ in range(5):
        begun = time.monotonic()
        assert server.get("/api/v1/types")[0] == 200
        assert server.get("/metrics")[0] == 200
        assert time.monotonic() - begun < 5
    for s in readers:
        s.close()
    # Their places are free again.
    end = time.monotonic() + 10
    while (answer := server.get("/api/v1/profiles?format=ndjson&from=now-1h"))[0] != 200 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(answer[2].splitlines()) == 8000


# ---- Names and labels

def test_a_million_labels_are_refused_with_the_limit(target):
    body = push({f"l{i:06}": "v" for i in range(1000000)})
    with unharmed(target, "bad_parameter"):
        status, _, text = target.post(PUSH, body, headers={"content-type": "application/proto"})
        assert status == 400 and "more than 255 labels" in reason_in(text), text[:300]
    with unharmed(target):
        body = push({f"l{i:06}": "v" for i in range(100)})
        status, _, text = target.post(PUSH, body, headers={"content-type": "application/proto"})
        assert status == 400 and "101 labels are more than the 64 of limits.labels" in reason_in(text), text[:300]


def test_attributes_beyond_number_are_no_labels(target):
    resource = {"service.name": "many", **{f"a{i:06}": "v" for i in range(300000)}}
    with unharmed(target, stores=1, peak=600):
        body = wire.profiles([resource])
        status, _, text = target.post("/v1/profiles", body, headers={"content-type": PROTO})
        assert status == 200, text[:300]
    status, _, body = target.get("/api/v1/labels?query=" + urllib.parse.quote('{service.name="many"}'))
    assert status == 200 and len(json.loads(body)["labels"]) < 10


def test_a_label_of_a_mebibyte_is_refused_with_the_limit(target):
    with unharmed(target, "labels"):
        body = push({"service_name": "long", "pod": "x" * MIB})
        status, _, text = target.post(PUSH, body, headers={"content-type": "application/proto"})
        assert status == 400 and "has 1048576 bytes: limits.label_value is 2048" in reason_in(text)


def test_services_beyond_the_limit_are_refused_one_by_one(new_server):
    server = new_server("--tenant-series-max", "50", *LIMITS)
    for batch in range(10):
        body = wire.profiles([{"service.name": f"s{batch}-{i}"} for i in range(10000)], samples=1)
        status, _, reply = server.post("/v1/profiles", body, headers={"content-type": PROTO}, timeout=60)
        partial = dict(wire.fields(dict(wire.fields(reply))[1]))
        assert status == 200 and partial[1] == 10000 - (50 if batch == 0 else 0)
        assert b"50" in partial[2] and b"series" in partial[2], partial[2]
    assert server.metric("vesta_store_series") == 50
    assert counters(server, "vesta_rejects_total")["series"] == 100000 - 50
    assert peak_mib(server) < 400
    # Series that are known go on.
    assert server.post("/v1/profiles", wire.profiles([{"service.name": "s0-1"}], samples=2),
                       headers={"content-type": PROTO})[2] == b""


# ---- Paths

TRICKS = ["..", "../..", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2f..%2fx", "..%5c..%5cx", "..\\..\\x",
          "%00", "ab%00cd", "/etc/passwd", "%2fetc%2fpasswd", "..;/x", "ab;cd", "%", "%zz", "%c0%ae%c0%ae%c0%af", ".",
          "%0d%0aset-cookie:x", "a" * 5000, "AB" * 20 + "/../x", "~", "*", "-"]


@pytest.mark.parametrize("route", ["/api/v1/debuginfo/", "/debuginfo.v1alpha1.DebuginfoService/Upload/"])
def test_paths_lead_nowhere_else(target, route):
    elf = b"\x7fELF" + bytes(100)
    files = {f for f in target.data.rglob("*")}
    with unharmed(target):
        for trick in TRICKS:
            answer = raw(target, head("POST", route + trick, f"Content-Length: {len(elf)}") + elf)
            assert status_of(answer) in (400, 404), (trick, answer[:300])
            assert b"set-cookie" not in answer.lower().split(b"\r\n\r\n")[0]
            answer = raw(target, head("DELETE", route + trick))
            assert status_of(answer) in (400, 404, 405), (trick, answer[:300])
    fresh = [f for f in target.data.rglob("*") if f not in files and "debuginfo" in f.parts and f.is_file()]
    assert fresh == []
    assert not (target.data.parent / "x").exists()


@pytest.mark.parametrize("path", ["//healthz", "/healthz/", "/./healthz", "/x/../healthz", "/%68ealthz", "/healthz;x",
                                  "/healthz%00", "/HEALTHZ", "/api/v1//top", "/api/v1/../v1/top", "\\healthz",
                                  "/api%2fv1%2ftop", "/api/v1/top%20", "/api/v1/top."])
def test_a_path_has_one_spelling(target, path):
    """What is asked about is what was authenticated: no normalising behind its back."""
    assert status_of(raw(target, head("GET", path), seconds=5)) in (400, 404)


@pytest.mark.parametrize("tenant", ["../../x", "..", ".", "a/b", "a\\b", "%2e%2e", "x" * 65, "a b", "\xe9", "a;b"])
def test_tenants_are_no_paths(new_server, tmp_path, tenant):
    server = new_server("--tenant-trust-header")
    files = set(tmp_path.rglob("*"))
    answer = raw(server, head("POST", "/api/v1/profiles?service.name=x", f"X-Scope-OrgID: {tenant}",
                              f"Content-Length: {len(STACKS)}") + STACKS)
    assert status_of(answer) == 400 and b"is no tenant" in answer, answer
    assert stored(server) == 0
    assert counters(server, "vesta_rejects_total")["bad_parameter"] == 1
    assert set(tmp_path.rglob("*")) == files


# ---- Tokens

def test_wrong_tokens_open_nothing_and_are_counted(new_server, tmp_path):
    made = run_vesta("token", "create", "--data", tmp_path / "data", "--roles=read", check=0).text.strip()
    server = new_server(*LIMITS)
    wrong = ["", "x", made[:-1], made + "x", made.upper(), made[::-1], "x" * 5000, "%00", "' or 1=1 --", "\xff\xfe",
             "null", "undefined", "*", "Bearer " + made]
    for scheme in ("Bearer", "Basic", "Token", ""):
        for token in wrong[:4] if scheme != "Bearer" else wrong:
            answer = raw(server, head("GET", "/api/v1/services", f"Authorization: {scheme} {token}"))
            # Guessing is answered with 429 after some tries.
            assert status_of(answer) in (400, 401, 429), (scheme, token[:40], answer[:200])
            assert made.encode() not in answer
    for path in ("/api/v1/services?token=" + made, "/api/v1/services?access_token=" + made):
        assert server.get(path)[0] in (400, 401, 429)
    assert sum(counters(server, "vesta_auth_failures_total").values()) >= 15
    assert stored(server) == 0
    log = server.log_text() + server.get("/metrics")[2].decode()
    assert made not in log


def test_a_revoked_token_is_refused_on_open_connections_too(new_server, tmp_path):
    create = ["token", "create", "--data", tmp_path / "data", "--tenant=*"]
    root = run_vesta(*create, "--roles=admin", check=0).text.strip()
    token = run_vesta(*create, "--roles=read", "--name=leaked", check=0).text.strip()
    server = new_server()
    with contextlib.closing(http.client.HTTPConnection(*server.address, timeout=10)) as kept:
        def ask():
            kept.request("GET", "/api/v1/services", headers={"Authorization": f"Bearer {token}"})
            answer = kept.getresponse()
            return answer.status, answer.read()
        assert ask()[0] == 200
        status, _, body = server.get("/api/v1/admin/tokens", headers={"Authorization": f"Bearer {root}"})
        name = next(t["id"] for t in json.loads(body)["tokens"] if t["name"] == "leaked")
        status, _, body = server.request("DELETE", f"/api/v1/admin/tokens/{name}",
                                         headers={"Authorization": f"Bearer {root}"})
        assert status == 200, body
        status, body = ask()
        assert status == 401 and b"revoked" in body


def test_secrets_appear_nowhere(new_server, tmp_path):
    secret = "hunter2-hunter2-hunter2-hunter2"
    server = new_server("--log-level", "debug", env={"VESTA_ADMIN_TOKEN": secret})
    bearer = {"Authorization": f"Bearer {secret}"}
    assert server.get("/api/v1/services", headers=bearer)[0] == 200
    seen = [server.get("/metrics")[2], server.get("/api/v1/stat", headers=bearer)[2],
            server.get("/api/v1/top?query=" + secret[:3], headers=bearer)[2],
            server.get("/api/v1/nothing", headers=bearer)[2], server.get("/api/v1/openapi.json", headers=bearer)[2],
            server.post("/v1/profiles", b"\xff", headers={"content-type": PROTO, **bearer})[2],
            server.get("/api/v1/services", headers={"Authorization": f"Bearer {secret}x"})[2]]
    printed = run_vesta("config", "print", env={"VESTA_ADMIN_TOKEN": secret}, check=0)
    wrong = run_vesta("config", "check", "--admin-token", secret, "--limits-body", "x")
    assert b"admin_token" in printed.out
    server.stop()
    seen += [server.log_text().encode(), printed.out, printed.err, wrong.out, wrong.err]
    seen += [f.read_bytes() for f in server.data.rglob("*") if f.is_file()]
    for text in seen:
        assert secret.encode() not in text


# ---- Browsers

def test_pages_of_others_may_not_ask(target):
    evil = {"Origin": "https://evil.example"}
    with unharmed(target, "forbidden"):
        for method, path, body in [("GET", "/api/v1/services", None), ("POST", "/api/v1/top", b"{}"),
                                   ("POST", "/api/v1/profiles?service.name=x", STACKS), ("GET", "/metrics", None)]:
            for origin in (evil, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
                           {"Origin": f"http://127.0.0.1.evil.example:{target.address[1]}"}):
                status, headers, text = target.request(method, path, body=body, headers=origin)
                assert status == 403 and b"cors_origins" in text, (path, origin, text)
                assert "access-control-allow-origin" not in headers
        status, headers, _ = target.request("OPTIONS", "/api/v1/profiles", headers={
            **evil, "Access-Control-Request-Method": "POST"})
        assert status == 403 and not any(h.startswith("access-control") for h in headers)


def test_names_that_were_made_to_point_here_are_not_answered(target):
    """DNS rebinding: to the browser it is the page's own origin."""
    port = target.address[1]
    with unharmed(target, "forbidden"):
        for host in (f"evil.example:{port}", f"localhost.evil.example:{port}", f"127.0.0.1.evil.example:{port}"):
            answer = raw(target, head("GET", "/api/v1/services", f"Origin: http://{host}", host=host))
            assert status_of(answer) == 403 and b"external_url" in answer, answer
            answer = raw(target, head("GET", "/api/v1/services", "Sec-Fetch-Site: same-origin", host=host))
            assert status_of(answer) == 403, answer
    own = f"127.0.0.1:{port}"
    assert status_of(raw(target, head("GET", "/api/v1/services", f"Origin: http://{own}", host=own))) == 200


def test_an_allowed_origin_is_told_so_and_no_other(new_server):
    server = new_server("--cors-origins", "https://grafana.example")
    good = {"Origin": "https://grafana.example", "Access-Control-Request-Method": "POST"}
    status, headers, _ = server.request("OPTIONS", "/api/v1/top", headers=good)
    assert (status, headers["access-control-allow-origin"]) == (204, "https://grafana.example")
    assert "*" not in headers["access-control-allow-origin"] and "access-control-allow-credentials" not in headers
    assert server.get("/api/v1/services", headers=good)[1]["vary"] == "origin"
    for origin in ("https://grafana.example.evil", "http://grafana.example", "https://xgrafana.example"):
        assert server.get("/api/v1/services", headers={"Origin": origin})[0] == 403


def test_every_answer_says_what_browsers_may_do_with_it(target):
    long_ago = urllib.parse.urlencode({"from": "now-1h", "query": "samples"})
    paths = ["/healthz", "/metrics", "/api/v1/services", "/api/v1/openapi.json", "/nothing", "/api/v1/top?limit=x",
             "/api/v1/flame.svg?" + long_ago, "/api/v1/profile.pb.gz?" + long_ago, "/v1/profiles",
             "/pyroscope/render?query=x", "/api/v1/series?format=ndjson", "/%2e%2e/x"]
    for path in paths:
        status, headers, _ = target.get(path)
        assert headers["x-content-type-options"] == "nosniff", path
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "content-type" in headers and "html" not in headers["content-type"], path
        assert "server" not in headers, path
    status, headers, _ = target.get("/api/v1/flame.svg?" + long_ago)
    assert status == 200
    assert headers["content-disposition"].startswith("attachment") and "sandbox" in headers["content-security-policy"]


XSS = ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "javascript:alert(1)", "]]><script>x</script>",
       "&lt;script&gt;", "'-alert(1)-'", "</text><foreignObject>", "${{7*7}}", "\u202egnp.exe", "<!--", "{{constructor}}"]


def test_what_is_stored_comes_back_as_text(target):
    """Names that would be markup: JSON has them as they were, SVG as text only."""
    stacks = "".join(f"main;{x.replace(';', ',')} 1\n" for x in XSS).encode()
    with unharmed(target, stores=1):
        params = urllib.parse.urlencode({"service.name": XSS[0], "pod": XSS[1]})
        status, _, body = target.post(f"/api/v1/profiles?{params}", stacks)
        assert status == 200, body
    query = urllib.parse.quote('{service.name="' + XSS[0] + '"}')
    status, headers, body = target.get(f"/api/v1/top?query={query}")
    assert headers["content-type"] == "application/json"
    names = {row["name"] for row in json.loads(body)["rows"]}
    assert {x.replace(";", ",") for x in XSS} <= names
    title = urllib.parse.quote("</title><script>alert(2)</script>")
    status, headers, svg = target.get(f"/api/v1/flame.svg?query={query}&title={title}")
    assert status == 200 and headers["content-type"] == "image/svg+xml"
    root = ElementTree.fromstring(svg)
    tags = {e.tag.split("}")[1] for e in root.iter()}
    own_scripts = svg.count(b"<script")
    plain = target.get("/api/v1/flame.svg?query=" + urllib.parse.quote('{service.name="good"}'))[2]
    assert own_scripts == plain.count(b"<script") and not tags & {"foreignObject", "img", "iframe"}
    assert not any(k.lower().startswith("on") and "alert" in v for e in root.iter() for k, v in e.attrib.items())
    assert b"<script>alert" not in svg
    # An error repeats what was asked for: as JSON, and not as a page.
    status, headers, body = target.get("/api/v1/top?" + urllib.parse.urlencode({"query": "<script>"}))
    assert status == 400 and headers["content-type"] == "application/json" and json.loads(body)["error"]


def test_line_breaks_make_no_headers(target):
    """Whatever is repeated in an answer, in headers it stays within one."""
    evil = "%0d%0aSet-Cookie:%20a=b%0d%0a%0d%0a<x>"
    paths = [f"/api/v1/top?query={evil}", f"/api/v1/{evil}", f"/api/v1/flame.svg?title={evil}&query=samples",
             f"/api/v1/top?{evil}=1", f"/api/v1/top?format={evil}", f"/pyroscope/render?query={evil}&format={evil}",
             f"/api/v1/agents/directive?id={evil}", f"/api/v1/debuginfo/{evil}", f"/ingest?name={evil}&format={evil}"]
    for path in paths:
        for method in ("GET", "POST"):
            answer = raw(target, head(method, path, "Content-Length: 0"))
            lines = answer.split(b"\r\n\r\n")[0].split(b"\r\n")
            assert status_of(answer) is not None, path
            assert not any(line.lower().startswith(b"set-cookie") for line in lines), path
    # Over gRPC the reason of an error is a header.
    body = b"\0" + struct.pack(">I", 4) + b"\x0a\x7f\r\n"
    done = subprocess.run(["curl", "-s", "-i", "--http2-prior-knowledge", "-H", "content-type: application/grpc",
                           "--data-binary", "@-", target.url + PROFILES], input=body, capture_output=True, timeout=20)
    assert b"grpc-status: 3" in done.stdout


# ---- Questions

REGEXES = ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*a){25}$", "((a*)*)*b", "(?:a?){50}a{50}", "a" * 5000, "(" * 5000,
           "[" * 1000, "(?R)", "(a(?1)?)b", "\\C", "(?C1)a", "(*LIMIT_MATCH=999999999)(a+)+$", "x{1000}{1000}"]


@pytest.fixture(scope="module")
def with_long_names(target):
    name = "a" * 200 + "!"
    params = urllib.parse.urlencode({"service.name": name})
    assert target.post(f"/api/v1/profiles?{params}", f"main;{name} 5\n".encode())[0] == 200
    return target


@pytest.mark.parametrize("regex", REGEXES, ids=lambda r: r[:20])
def test_regexes_end(with_long_names, regex):
    selector = 'samples{service.name=~"%s"}' % regex.replace("\\", "\\\\")
    with unharmed(with_long_names, seconds=15):
        for params in ({"query": selector}, {"query": "samples", "focus": regex}, {"query": "samples", "hide": regex},
                       {"query": "samples", "tagfocus": regex}):
            begun = time.monotonic()
            status, _, body = with_long_names.get("/api/v1/top?" + urllib.parse.urlencode(params))
            assert status in (200, 400, 404), (params, status, body[:300])
            assert time.monotonic() - begun < 5, params
            assert status != 400 or json.loads(body)["error"]


HUGE = str(2**63 - 1)


@pytest.mark.parametrize("path", [
    f"timeline?query=samples&from=0&until={HUGE}&step=1ns", f"timeline?query=samples&from=0&until={HUGE}",
    f"heatmap?query=samples&from=0&until={HUGE}&step=1ns", f"heatmap?query=samples&rows=1000000000",
    f"function?query=samples&function=main&step=1ns", "flame?query=samples&max_nodes=1000000000",
    "flame?query=samples&max_nodes=99999999999999999999", "flame?query=samples&max_nodes=-1",
    f"top?query=samples&limit={HUGE}", "top?query=samples&limit=-1", "stacks?query=samples&limit=4294967296",
    "timeline?query=samples&by=" + ",".join(f"l{i}" for i in range(500)), f"profiles?limit={HUGE}",
    f"top?query=samples&from={HUGE}&until=0", "top?query=samples&from=-1", "top?query=samples&from=1e400",
    "top?query=samples&step=0", "timeline?query=samples&step=0", "timeline?query=samples&step=-5s",
    "graph?query=samples&node_fraction=nan", "graph?query=samples&edge_fraction=inf&limit=-1",
    "flame?query=samples&" + "&".join("under=x" for _ in range(1000)), "top?query=" + "%7B" * 3000,
    "top?query=samples%7B" + ",".join(f"l{i}=%22v%22" for i in range(800)) + "%7D",
    f"diff?before_query=samples&after_query=samples&max_nodes={HUGE}", "profile?id=" + "f" * 5000,
])
def test_questions_without_measure_are_answered_or_refused(target, path):
    with unharmed(target, seconds=15):
        status, headers, body = target.get("/api/v1/" + path)
        assert status in (200, 400, 404, 413, 414), (status, body[:300])
        if status != 200:
            assert json.loads(body)["error"]
        assert len(body) < 8 * MIB


def test_two_hundred_questions_at_once_do_not_stop_ingest(new_server):
    server = new_server(*LIMITS)
    for i in range(20):
        assert server.post(f"/v1/pprof?service.name=s{i}", gzip.compress(pprof(), 1))[0] == 200
    start_peak(server)
    query = "/api/v1/flame?query=cpu&from=now-1h&max_nodes=100000"
    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        asked = [pool.submit(server.get, query, timeout=60) for _ in range(200)]
        sent = 0
        while sent < 5 or not all(f.done() for f in asked):
            begun = time.monotonic()
            send_good(server, timeout=30)
            assert time.monotonic() - begun < 10
            sent += 1
        statuses = [f.result()[0] for f in asked]
    assert set(statuses) <= {200, 429} and statuses.count(200) >= 32
    assert stored(server) == 20 + sent
    assert peak_mib(server) < 700


# ---- Where the server asks

class Listener(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(404)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def listener():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener) as listening:
        listening.asked = []
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def nameless(build_id):
    """A profile whose only frame is an address within a binary of this build id."""
    strings = ["", "samples", "count", "/bin/app", build_id]
    mapping = wire.message(3, wire.number(1, 1) + wire.number(2, 0x400000) + wire.number(3, 0x500000)
                           + wire.number(5, 3) + wire.number(6, 4))
    location = wire.message(4, wire.number(1, 1) + wire.number(2, 1) + wire.number(3, 0x401234))
    return (wire.message(1, wire.number(1, 1) + wire.number(2, 2))
            + wire.message(2, wire.message(1, wire.varint(1)) + wire.message(2, wire.varint(7))) + mapping + location
            + b"".join(wire.message(6, s) for s in strings) + wire.number(9, time.time_ns() - 10**10))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"])
def test_debug_files_are_not_fetched_from_this_machine(new_server, listener, host):
    port = listener.server_address[1]
    server = new_server("--debuginfo-urls", f"http://{host}:{port}/", "--log-level", "debug")
    assert server.post("/v1/pprof?service.name=x", nameless("ab" * 20))[0] == 200
    status, _, body = server.get("/api/v1/top?query=samples&from=now-1h")
    assert status == 200, body
    end = time.monotonic() + 10
    while "debuginfod: " not in server.log_text() and time.monotonic() < end:
        time.sleep(0.05)
    assert f"refused to connect to {host.strip('[]')}" in server.log_text()
    assert listener.asked == []


def test_debug_files_come_from_private_addresses_where_allowed(new_server, listener):
    port = listener.server_address[1]
    server = new_server("--debuginfo-urls", f"http://127.0.0.1:{port}/", "--debuginfo-allow-private-urls")
    for build_id in ("ab" * 20, "../../../etc/passwd", "..%2f..%2fx", "AB/../x", "x" * 3000):
        server.post("/v1/pprof?service.name=x", nameless(build_id))
    assert server.get("/api/v1/top?query=samples&from=now-1h")[0] == 200
    end = time.monotonic() + 10
    while not listener.asked and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    # The sound one is asked for; what is no build id becomes no part of a path.
    assert {re.sub(r"/(debuginfo|executable)$", "", p) for p in listener.asked} == {"/buildid/" + "ab" * 20}


# ---- At last

def test_bodies_that_trickle_are_given_up(target):
    """100 have been sending a body byte by byte since the first test, silent for no longer than a
    second: after 20 s that is too slow."""
    time.sleep(max(0, 23 - (time.monotonic() - target.slow_bodies.begun)))
    answers = target.slow_bodies.answers()
    assert all(status_of(a) == 408 or a == b"" for a in answers), answers[:3]
    assert any(b"too slowly" in a for a in answers)
    assert counters(target, "vesta_rejects_total").get("too_slow", 0) > 0
    assert target.metric("vesta_http_body_bytes") < MIB
    send_good(target)
