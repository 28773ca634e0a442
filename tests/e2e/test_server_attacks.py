"""Attacks on a running server: each is refused with the right status and a reason that names what
is wrong, is counted, stores nothing, costs little, and leaves everybody else served."""

import concurrent.futures
import contextlib
import gzip
import http.client
import http.server
import json
import re
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
    """Clients that send a byte now and then, from the first test on."""

    def __init__(self, server, n):
        self.sockets = [socket.create_connection(server.address, timeout=5) for _ in range(n)]
        self.begun = time.monotonic()
        for s in self.sockets:
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.trickle)
        self.thread.start()

    def trickle(self):
        while not self.ended.wait(1):
            for s in self.sockets:
                with contextlib.suppress(OSError):
                    s.send(b"x")

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
    slow = server.slow = Slow(server, 200)
    yield server
    if not slow.ended.is_set():
        slow.answers()
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
