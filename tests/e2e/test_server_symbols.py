"""Frames that arrive as addresses: shown as such, never hidden, and named once a debug file of the
very build is there, also in what was stored before."""

import http.server
import json
import re
import subprocess
import threading
import time
import urllib.parse

import pytest

import otlp_wire as pb

PROGRAM = """
__attribute__((noinline)) int price(int n) { return n * 3 % 7; }
__attribute__((noinline)) int checkout(int n) { return price(n) + 1; }
int main(int argc, char **argv) { (void)argv; return checkout(argc); }
"""


class Binary:
    """A program, its debug file, its stripped twin, and where its functions are."""

    def __init__(self, folder, *flags):
        source, self.path = folder / "shop.c", folder / "shop"
        self.stripped = folder / "shop.stripped"
        source.write_text(PROGRAM)
        subprocess.run(["cc", "-g", "-O1", "-no-pie", "-Wl,--build-id=sha1", *flags, source, "-o",
                        self.path], check=True)
        subprocess.run(["strip", "-s", self.path, "-o", self.stripped], check=True)
        notes = subprocess.run(["readelf", "-n", self.path], capture_output=True, text=True)
        self.build_id = re.search(r"Build ID: ([0-9a-f]+)", notes.stdout)[1]
        self.at = {}
        for line in subprocess.run(["nm", self.path], capture_output=True,
                                   text=True).stdout.splitlines():
            parts = line.split()
            if len(parts) == 3 and parts[1] == "T":
                self.at[parts[2]] = int(parts[0], 16)


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    return Binary(tmp_path_factory.mktemp("binary"))


def profile(binary, build_id=None):
    """pprof: main > checkout > price by address only, in a mapping with a build id."""
    addresses = [binary.at[name] + 4 for name in ("price", "checkout", "main")]
    strings = ["", "cpu", "nanoseconds", "/srv/app/shop", build_id or binary.build_id]
    out = pb.message(1, pb.number(1, 1) + pb.number(2, 2))
    out += pb.message(2, b"".join(pb.number(1, i + 1) for i in range(3)) + pb.number(2, 5000))
    out += pb.message(3, pb.number(1, 1) + pb.number(2, 0x400000) + pb.number(3, 0x500000)
                      + pb.number(5, 3) + pb.number(6, 4))
    for i, address in enumerate(addresses):
        out += pb.message(4, pb.number(1, i + 1) + pb.number(2, 1) + pb.number(3, address))
    out += b"".join(pb.message(6, s) for s in strings)
    return out + pb.number(9, time.time_ns()) + pb.number(10, 10**9)


def folded(server):
    status, _, body = server.get("/api/v1/profile.folded?query=cpu&from=now-1h&until=now%2B1m")
    assert status == 200, body
    return body.decode()


def push(server, content):
    status, _, body = server.post("/v1/pprof?service.name=shop", content)
    assert status == 200, body


def test_a_debug_file_names_what_was_stored_before(server, binary):
    push(server, profile(binary))
    before = folded(server)
    assert "shop+0x" in before and "checkout" not in before
    assert len(before.split(" ")[0].split(";")) == 3, "a frame without a name is never hidden"

    # What has neither names nor lines is kept, and beaten by what has.
    status, _, body = server.post(f"/api/v1/debuginfo/{binary.build_id}",
                                  binary.stripped.read_bytes())
    assert (status, body) == (200, b'{"stored":true}\n')
    assert "checkout" not in folded(server)
    status, _, body = server.post(f"/api/v1/debuginfo/{binary.build_id}", binary.path.read_bytes())
    assert (status, body) == (200, b'{"stored":true}\n')
    assert folded(server).split(" ")[0] == "main;checkout;price"
    status, _, body = server.post(f"/api/v1/debuginfo/{binary.build_id}",
                                  binary.stripped.read_bytes())
    assert (status, body) == (200, b'{"stored":false}\n'), "a worse one does not replace it"
    assert folded(server).split(" ")[0] == "main;checkout;price"

    # Filters and tables see the names; so does what Grafana asks.
    status, _, body = server.get("/api/v1/top?query=cpu&from=now-1h&until=now%2B1m&focus=checkout")
    assert status == 200 and b"price" in body
    types = server.post("/querier.v1.QuerierService/ProfileTypes", b"{}",
                        headers={"content-type": "application/json"})[2]
    query = urllib.parse.quote(json.loads(types)["profileTypes"][0]["ID"] + "{}")
    status, _, body = server.get(f"/pyroscope/render?query={query}&from=now-1h&until=now")
    assert status == 200 and b"checkout" in body, body
    assert server.metric('vesta_symbols_total{outcome="named"}') >= 3


def test_a_file_of_another_build_is_refused(server, binary, tmp_path):
    other = Binary(tmp_path, "-O2", "-DOTHER")
    status, _, body = server.post(f"/api/v1/debuginfo/{binary.build_id}", b"not an ELF file")
    assert status == 400 and b"no ELF file" in body
    if other.build_id != binary.build_id:
        status, _, body = server.post(f"/api/v1/debuginfo/{binary.build_id}",
                                      other.path.read_bytes())
        assert status == 400 and other.build_id.encode() in body


def test_files_of_the_servers_machine_are_not_followed_by_name(server, binary):
    """The mapping names a file that is here, with a build id that is not its own."""
    push(server, profile(binary, build_id="ab" * 20).replace(
        b"/srv/app/shop", str(binary.path).encode()[:13].ljust(13, b"_")))
    assert "checkout" not in folded(server)


def test_pyroscopes_way_of_uploading(server, binary):
    push(server, profile(binary))
    base = "/debuginfo.v1alpha1.DebuginfoService/"
    asked = pb.message(1, pb.message(1, binary.build_id))
    headers = {"content-type": "application/proto"}
    status, _, body = server.post(base + "ShouldInitiateUpload", asked, headers=headers)
    assert status == 200 and (1, 1) in pb.fields(body)
    status, _, body = server.post(base + f"Upload/{binary.build_id}", binary.path.read_bytes())
    assert status == 200, body
    status, _, body = server.post(base + "UploadFinished", asked, headers=headers)
    assert status == 200
    status, _, body = server.post(base + "ShouldInitiateUpload", asked, headers=headers)
    assert status == 200 and (1, 1) not in pb.fields(body)
    assert folded(server).split(" ")[0] == "main;checkout;price"
    status, _, body = server.get("/api/v1/debuginfo")
    assert binary.build_id.encode() in body and b'"holds":"lines"' in body


def test_debuginfod_is_asked_and_answers_from_then_on(new_server, binary):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802 the name is the library's
            asked.append(self.path)
            found = self.path == f"/buildid/{binary.build_id}/debuginfo"
            self.send_response(200 if found else 404)
            self.end_headers()
            if found:
                self.wfile.write(binary.path.read_bytes())

        def log_message(self, *args):
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    server = new_server("--debuginfo-urls", f"http://127.0.0.1:{listener.server_port}",
                        "--debuginfo-allow-private-urls")
    push(server, profile(binary))
    assert "shop+0x" in folded(server)
    end = time.monotonic() + 20
    while "checkout" not in folded(server) and time.monotonic() < end:
        time.sleep(0.1)
    listener.shutdown()
    assert folded(server).split(" ")[0] == "main;checkout;price"
    assert asked.count(f"/buildid/{binary.build_id}/debuginfo") == 1
