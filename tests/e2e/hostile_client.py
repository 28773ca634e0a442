"""What attackers send, and how a server looks to everybody else meanwhile."""

import contextlib
import gzip
import json
import socket
import struct
import time
import urllib.parse
import zlib

import otlp_wire as wire
from conftest import ROOT
from test_store import with_time

MIB = 1 << 20
PROTO = "application/x-protobuf"
JSON = "application/json"
STACKS = b"main;serve;parse 30\nmain;serve;render 70\n"


# ---- How the server is

def stored(server):
    """How many profiles and spans the server keeps."""
    return server.metric("vesta_store_profiles") + server.metric("vesta_store_spans")


def counters(server, family):
    """{label value: count} of a family of /metrics."""
    found = {}
    for line in server.get("/metrics")[2].decode().splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(family + "{"):
            found[name.split('"')[1]] = float(value)
    return found


def peak_mib(server):
    """The most memory that the process had since start_peak()."""
    with open(f"/proc/{server.process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def start_peak(server):
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as f:
        f.write("5")


def send_good(server, service="good", **kw):
    """A well-behaved client's profile, found again at once."""
    params = urllib.parse.urlencode({"service.name": service, "n": time.time_ns()})
    status, _, body = server.post(f"/api/v1/profiles?{params}", STACKS, **kw)
    assert status == 200, body


@contextlib.contextmanager
def unharmed(server, reason=None, peak=320, seconds=20, stores=0):
    """What happens within leaves nothing behind (but `stores` profiles), is counted as refused for
    `reason`, takes no more than `peak` MiB, and leaves good clients served."""
    before, refused = stored(server), counters(server, "vesta_rejects_total")
    start_peak(server)
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds, "it took too long"
    assert server.process.poll() is None, server.log_text()[-2000:]
    assert stored(server) == before + stores
    if reason:
        now = counters(server, "vesta_rejects_total")
        assert now.get(reason, 0) > refused.get(reason, 0), (reason, now)
    assert peak_mib(server) < peak
    send_good(server)
    assert stored(server) == before + stores + 1


# ---- Bytes as no library would send them

def raw(server, data, seconds=10, address=None):
    """What comes back until the server hangs up, or is silent for that long."""
    with socket.create_connection(address or server.address, timeout=seconds) as s:
        out = b""
        with contextlib.suppress(OSError):
            s.sendall(data)
        with contextlib.suppress(OSError):
            while part := s.recv(1 << 16):
                out += part
        return out


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else None


def head(method, path, *more, host="127.0.0.1"):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *more]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


# ---- Good messages, to be spoilt

def pprof(service_time=None):
    """The example profile as pprof, unpacked, that begins ten seconds ago."""
    content = gzip.decompress((ROOT / "examples" / "shop.pb.gz").read_bytes())
    return with_time(content, service_time or time.time_ns() - 10**10)


def push(labels=None, profile=None):
    """A PushRequest of one series with one profile."""
    pairs = b"".join(wire.message(1, wire.message(1, k) + wire.message(2, v))
                     for k, v in (labels or {"service_name": "pushed"}).items())
    sample = wire.message(1, profile or gzip.compress(pprof(), 1))
    return wire.message(1, pairs + wire.message(2, sample))


def push_json():
    import base64
    return json.dumps({"series": [{"labels": [{"name": "service_name", "value": "pushed"}], "samples": [
        {"rawProfile": base64.b64encode(gzip.compress(pprof(), 1)).decode(), "ID": ""}]}]}).encode()


def boundaries(message):
    """Where a message could end and still be one: behind its fields."""
    out, at = {0}, 0
    for number, value in wire.fields(message):
        if isinstance(value, bytes):
            at += len(wire.message(number, value))
        else:
            # The shortest way to write it is how our messages do.
            at += next(len(p) for p in (wire.number(number, value), wire.fixed64(number, value))
                       if message[at:at + len(p)] == p)
        out.add(at)
    return out


# ---- Bombs

def gzip_bomb(gib):
    """About a MiB for each GiB of zeros: one flushed run, repeated; the sum at the end is wrong,
    but nobody should get there."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    run = packer.compress(bytes(16 * MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + run * (64 * gib) + b"\x03\0" + bytes(8)


def zstd_frame(runs, window=0x58):
    """A frame of runs of 128 KiB of one byte; the window byte is 1 MiB unless given."""
    run = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"\0"
    end = struct.pack("<I", 0 << 3 | 1 << 1 | 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd" + bytes([0, window]) + run * runs + end
