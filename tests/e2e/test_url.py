"""Profiles from URLs: a real Go program's endpoints, and servers that misbehave."""

import http.server
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

STACKS = b"main;serve;parse 30\nmain;serve;render 70\n"

GO_SERVER = """package main

import (
	"fmt"
	"net"
	"net/http"
	_ "net/http/pprof"
)

//go:noinline
func burnCPU() (sum int) {
	for i := 0; i < 50000000; i++ {
		sum += i % 7
	}
	return
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().String())
	go func() {
		for {
			burnCPU()
		}
	}()
	http.Serve(l, nil)
}
"""


@pytest.fixture(scope="module")
def go_server(tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("no go here")
    folder = tmp_path_factory.mktemp("server")
    (folder / "main.go").write_text(GO_SERVER)
    (folder / "go.mod").write_text("module example.com/server\n\ngo 1.19\n")
    subprocess.run(["go", "build", "-o", "server", "."], cwd=folder, check=True)
    process = subprocess.Popen([str(folder / "server")], stdout=subprocess.PIPE, text=True)
    yield "http://" + process.stdout.readline().strip()
    process.kill()
    process.wait()


def test_a_running_go_program_is_profiled(vesta, go_server):
    result = vesta("top", f"{go_server}/debug/pprof/profile?seconds=1", check=0)
    assert "main.burnCPU" in result.text.splitlines()[7] + result.text.splitlines()[6]
    assert "(1 s)" in result.err.decode()


def test_a_bare_host_means_its_cpu_profile(vesta, go_server):
    assert "main.burnCPU" in vesta("top", "-seconds=1", go_server, check=0).text


def test_other_endpoints_and_text_forms_are_read(vesta, go_server):
    assert vesta("info", "--json", f"{go_server}/debug/pprof/heap", check=0).json[
        "sample_types"][0]["type"] == "alloc_objects"
    assert vesta("info", "--json", f"{go_server}/debug/pprof/goroutine?debug=1", check=0).json[
        "format"] == "pprof-legacy"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/ok")
            self.end_headers()
        elif self.path == "/loop":
            self.send_response(302)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif self.path == "/missing":
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"no such profile here\n")
        elif self.path == "/chunked":
            self.protocol_version = "HTTP/1.1"
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (STACKS[:10], STACKS[10:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        elif self.path == "/auth":
            ok = self.headers.get("Authorization") == "Basic bWU6c2VjcmV0"
            self.send_response(200 if ok else 401)
            self.end_headers()
            self.wfile.write(STACKS)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(STACKS)))
            self.end_headers()
            self.wfile.write(STACKS)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("path", ["ok", "redirect", "chunked"])
def test_ordinary_answers_are_read(vesta, server, path):
    assert "render" in vesta("top", f"http://{server}/{path}", check=0).text


def test_a_password_in_the_url_is_sent(vesta, server):
    assert "render" in vesta("top", f"http://me:secret@{server}/auth", check=0).text
    assert vesta("top", f"http://{server}/auth").code == 1


@pytest.mark.parametrize("path, text", [
    ("missing", "answered 404 Not Found: no such profile here"),
    ("loop", "redirects more than 5 times"),
])
def test_errors_are_told(vesta, server, path, text):
    result = vesta("top", f"http://{server}/{path}")
    assert result.code == 1
    assert text in result.err.decode()


def answer_once(raw):
    """A server that sends these bytes to the first who asks, then hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        connection.recv(65536)
        connection.sendall(raw)
        connection.close()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/x"


@pytest.mark.parametrize("raw, text", [
    (b"", "the connection ended before an answer"),
    (b"SSH-2.0-OpenSSH_9\r\n", "the answer is not HTTP/1.1"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", "contradicts itself"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nabcde", "both"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nmain 1\n", "ended before the body"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "unreadable size"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n", "longer than its size"),
    (b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "CR LF"),
    (b"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "folded"),
    (b"HTTP/1.1 200 OK\r\n" + b"A: " + b"x" * 9000 + b"\r\n\r\n", "too long"),
])
def test_answers_that_two_readers_could_see_differently_are_refused(vesta, raw, text):
    result = vesta("top", answer_once(raw))
    assert result.code == 1
    assert text in result.err.decode()


def test_nobody_listening_is_told(vesta):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    result = vesta("top", f"http://127.0.0.1:{port}/")
    assert result.code == 1
    assert f"could not connect to 127.0.0.1:{port}: Connection refused" in result.err.decode()


def test_a_silent_server_times_out(vesta):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = vesta("top", "-timeout=1", f"http://127.0.0.1:{port}/x")
    assert result.code == 1
    assert "said nothing for 1 seconds" in result.err.decode()


@pytest.mark.parametrize("url, text", [
    ("http://", "has no host"),
    ("http://[::1/x", 'has a "[" without its "]"'),
    ("http://host:99999/", "has a bad port"),
    ("http://ho st/", "space or control character"),
])
def test_bad_urls_are_refused(vesta, url, text):
    result = vesta("top", url)
    assert result.code == 2
    assert text in result.err.decode()


def test_a_certificate_nobody_vouches_for_is_refused(vesta, tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("no openssl here")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", tmp_path / "key", "-out", tmp_path / "cert"],
                   check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://localhost:{server.server_port}/ok"
    result = vesta("top", url)
    assert result.code == 1
    assert "self-signed certificate" in result.err.decode()
    trusted = vesta("top", url, env={"SSL_CERT_FILE": str(tmp_path / "cert")}, check=0)
    assert "render" in trusted.text
    server.shutdown()
