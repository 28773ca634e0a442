"""vesta push: files, a watched folder and buckets to a server that is sometimes away."""

import gzip
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import pytest

from conftest import BUILD, wait_for

STACKS = b"main;serve;parse 30\nmain;serve;render 70\n"
STORED = {"profiles": 1, "stored": 1, "duplicates": 0, "rejected": 0}


class Receiver:
    """A server that takes what is pushed and answers as the script says, then with "stored"."""

    def __init__(self, port=0, context=None):
        self.script = []  # (status, headers, body) of the next answers
        self.got = []  # {"path", "params", "headers", "body"}
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                url = urllib.parse.urlsplit(self.path)
                receiver.got.append({
                    "path": url.path,
                    "params": dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True)),
                    "headers": {k.lower(): v for k, v in self.headers.items()},
                    "body": body,
                    "at": time.monotonic(),
                })
                status, headers, answer = (receiver.script.pop(0) if receiver.script
                                           else (200, {}, STORED))
                answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    r = Receiver()
    yield r
    r.close()


@pytest.fixture
def stacks(tmp_path):
    path = tmp_path / "cpu.folded"
    path.write_bytes(STACKS)
    return path


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


# ---- Files


def test_a_file_arrives_with_its_labels_time_and_token(vesta, receiver, stacks):
    result = vesta("push", "--url", receiver.url, "--service", "shop", "--label", "env=a&b=c",
                   "--token", "t0", "--tenant", "team", "--format", "collapsed", stacks, check=0)
    assert "1 stored, 0 there already, 0 rejected" in result.err.decode()
    (got,) = receiver.got
    assert got["path"] == "/api/v1/profiles"
    assert got["params"] == {"label.service.name": "shop", "label.env": "a&b=c", "format": "collapsed",
                             "from": str(stacks.stat().st_mtime_ns)}
    assert got["headers"]["authorization"] == "Bearer t0"
    assert got["headers"]["x-scope-orgid"] == "team"
    assert got["headers"]["content-encoding"] == "gzip"
    assert got["body"] == STACKS


def test_what_is_compressed_is_sent_as_it_is(vesta, receiver, tmp_path):
    packed = gzip.compress(STACKS)
    (tmp_path / "a.gz").write_bytes(packed)
    vesta("push", "--url", receiver.url, tmp_path / "a.gz", check=0)
    assert "content-encoding" not in receiver.got[0]["headers"]
    assert receiver.got[0]["body"] == packed


def test_standard_input_is_pushed(vesta, receiver):
    vesta("push", "--url", receiver.url, "-", stdin=STACKS, check=0)
    assert receiver.got[0]["body"] == STACKS


def test_the_server_and_token_may_come_from_the_environment(vesta, receiver, stacks):
    vesta("push", stacks, env={"VESTA_URL": f"127.0.0.1:{receiver.port}/", "VESTA_TOKEN": "e0"},
          check=0)
    assert receiver.got[0]["headers"]["authorization"] == "Bearer e0"


def test_the_window_may_be_said(vesta, receiver, stacks):
    vesta("push", "--url", receiver.url, "--from", "2026-03-01T12:00:00Z", "--until", "1772366460",
          "--moment", stacks, check=0)
    assert receiver.got[0]["params"] == {"from": "1772366400000000000",
                                         "until": "1772366460000000000", "instant": "true"}


def test_many_files_share_a_connection_and_one_bad_one_keeps_none_out(vesta, receiver, tmp_path):
    names = []
    for i in range(5):
        names.append(tmp_path / f"{i}.folded")
        names[-1].write_bytes(STACKS)
    receiver.script = [
        (200, {}, STORED),
        (400, {}, {"error": "no known format", "code": "invalid"}),
        (200, {}, {"stored": 0, "duplicates": 1, "rejected": 0}),
        (200, {}, {"stored": 1, "duplicates": 0, "rejected": 1, "why": "older than 30 days"}),
        (422, {}, {"stored": 0, "duplicates": 0, "rejected": 1, "why": "no service"}),
    ]
    result = vesta("push", "--url", receiver.url, *names, tmp_path / "missing", check=1)
    said = result.err.decode()
    assert "2 stored, 1 there already, 4 rejected" in said
    assert "1.folded" in said and "no known format" in said
    assert "3.folded: older than 30 days" in said
    assert "4.folded: no service" in said
    assert "missing: could not open it: No such file or directory" in said
    assert len(receiver.got) == 5


def test_a_file_without_profiles_is_told(vesta, receiver, stacks):
    receiver.script = [(200, {}, {"stored": 0, "duplicates": 0, "rejected": 0})]
    result = vesta("push", "--url", receiver.url, stacks, check=0)
    assert "cpu.folded: holds no profile" in result.err.decode()


def test_a_large_file_is_sent_whole(vesta, receiver, tmp_path):
    big = tmp_path / "big.folded"
    big.write_bytes(b"main;a 1\n" * (70 << 17))
    assert big.stat().st_size > 64 << 20
    vesta("push", "--url", receiver.url, big, check=0)
    assert receiver.got[0]["body"] == big.read_bytes()


@pytest.mark.parametrize("args, text", [
    ([], "push needs files"),
    (["--label", "x", "FILE"], "--label takes NAME=VALUE"),
    (["--from", "yesterday", "FILE"], "--from"),
    (["--retry-for", "soon", "FILE"], "--retry-for"),
    (["--url", "ftp://x", "FILE"], "is not an http:// or https:// address"),
    (["--watch", ".", "FILE"], "not both"),
])
def test_bad_arguments_are_told(vesta, stacks, args, text):
    result = vesta("push", *[stacks if a == "FILE" else a for a in args], check=2)
    assert text in result.err.decode()


def test_a_folder_is_not_a_file(vesta, receiver, tmp_path):
    result = vesta("push", "--url", receiver.url, tmp_path, check=1)
    assert "is a folder; --watch" in result.err.decode()


# ---- Servers that do not take it


def test_busy_answers_are_tried_again(vesta, receiver, stacks):
    receiver.script = [(503, {}, {}), (429, {"Retry-After": "1"}, {}), (502, {}, {}), (504, {}, {})]
    result = vesta("push", "--url", receiver.url, stacks, check=0)
    assert len(receiver.got) == 5
    assert "trying again" in result.err.decode()
    waits = [b["at"] - a["at"] for a, b in zip(receiver.got, receiver.got[1:])]
    assert 0.1 < waits[0] < 0.5
    assert waits[1] >= 1  # as Retry-After says


def test_a_server_that_stays_busy_is_given_up_with_75(vesta, receiver, stacks):
    receiver.script = [(503, {}, {"error": "the store is behind"})] * 100
    start = time.monotonic()
    result = vesta("push", "--url", receiver.url, "--retry-for", "1s", stacks, check=75)
    assert time.monotonic() - start < 3
    assert "answered 503 Service Unavailable: the store is behind" in result.err.decode()
    assert len(receiver.got) > 1


def test_a_retry_after_beyond_patience_is_not_waited_for(vesta, receiver, stacks):
    receiver.script = [(429, {"Retry-After": "3600"}, {})]
    start = time.monotonic()
    vesta("push", "--url", receiver.url, stacks, check=75)
    assert time.monotonic() - start < 3


def test_nobody_there_is_told_with_75(vesta, stacks):
    port = unused_port()
    result = vesta("push", "--url", f"http://127.0.0.1:{port}", "--retry-for", "0", stacks,
                   check=75)
    assert f"no server at http://127.0.0.1:{port}: could not connect" in result.err.decode()


def test_a_server_that_comes_up_later_gets_it(vesta, stacks):
    port = unused_port()
    late = []
    threading.Timer(0.7, lambda: late.append(Receiver(port))).start()
    vesta("push", "--url", f"http://127.0.0.1:{port}", stacks, check=0)
    assert late[0].got[0]["body"] == STACKS
    late[0].close()


@pytest.mark.parametrize("status, text", [
    (401, "say who asks with --token or VESTA_TOKEN"),
    (403, "answered 403"),
    (404, "is this a Vesta server?"),
    (507, "answered 507"),
])
def test_what_concerns_every_file_ends_it(vesta, receiver, stacks, status, text):
    receiver.script = [(status, {}, {"error": "no"})] * 3
    result = vesta("push", "--url", receiver.url, stacks, stacks, check=1)
    assert text in result.err.decode()
    assert len(receiver.got) == 1


# ---- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("no openssl here")
    folder = tmp_path_factory.mktemp("certs")

    def run(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, cwd=folder)

    run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test ca",
        "-keyout", "ca.key", "-out", "ca.pem")
    for name, extension in [("server", "subjectAltName=IP:127.0.0.1"), ("client", "keyUsage=digitalSignature")]:
        run("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout",
            f"{name}.key", "-out", f"{name}.csr")
        (folder / "ext").write_text(extension)
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "1", "-extfile", "ext", "-out", f"{name}.pem")
    return folder


def test_a_private_ca_and_a_client_certificate_are_used(vesta, certificates, stacks):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    context.load_verify_locations(certificates / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    receiver = Receiver(context=context)
    known = ["--ca-file", certificates / "ca.pem"]
    mine = ["--cert", certificates / "client.pem", "--key", certificates / "client.key"]
    try:
        once = ["push", "--url", receiver.url, "--retry-for", "0"]
        vesta(*once, *known, *mine, stacks, stacks, check=0)
        assert len(receiver.got) == 2
        stranger = vesta(*once, *mine, stacks, check=1)
        assert "TLS with 127.0.0.1" in stranger.err.decode()
        assert vesta(*once, *known, stacks).code != 0  # without the client's certificate
        bad = vesta(*once, "--ca-file", stacks, stacks, check=2)
        assert "could not read the trusted certificates" in bad.err.decode()
        assert len(receiver.got) == 2
    finally:
        receiver.close()


def test_a_unix_socket_is_a_server_too(vesta, stacks, tmp_path):
    path = tmp_path / "vesta.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    heads = []

    def serve():
        connection, _ = listener.accept()
        heads.append(connection.recv(65536))
        body = json.dumps(STORED).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    vesta("push", "--url", f"unix:{path}", stacks, check=0)
    assert heads[0].startswith(b"POST /api/v1/profiles?from=")
    listener.close()


# ---- Sidecars and pictures


def test_a_sidecar_says_more_and_the_command_line_most(vesta, receiver, stacks):
    sidecar = pathlib.Path(f"{stacks}.json")
    sidecar.write_text(json.dumps({"service": "shop", "labels": {"env": "prod", "pod": "a"},
                                   "from": "2026-03-01T12:00:00Z", "until": 1772366460,
                                   "format": "collapsed", "moment": True}))
    vesta("push", "--url", receiver.url, "--label", "env=stage", stacks, check=0)
    assert receiver.got[0]["params"] == {
        "label.service.name": "shop", "label.env": "stage", "label.pod": "a",
        "from": "1772366400000000000",
        "until": "1772366460000000000", "format": "collapsed", "instant": "true"}


@pytest.mark.parametrize("text, why", [
    ('{"labels": {"a": 1}}', '"a" is not a string'),
    ('{"lables": {}}', '"lables" is nothing that a sidecar says'),
    ('{"from": "soon"}', '"from"'),
    ('{"labels": {}', "sidecar at byte"),
    ("[]", "sidecar at byte"),
])
def test_a_bad_sidecar_is_told_and_the_file_not_sent(vesta, receiver, stacks, text, why):
    pathlib.Path(f"{stacks}.json").write_text(text)
    result = vesta("push", "--url", receiver.url, stacks, check=1)
    assert why in result.err.decode()
    assert receiver.got == []


def test_pictures_are_written_beside(vesta, receiver, stacks):
    vesta("push", "--url", receiver.url, "--write-svg", "--write-speedscope", stacks, check=0)
    assert b"render" in pathlib.Path(f"{stacks}.svg").read_bytes()
    frames = json.loads(pathlib.Path(f"{stacks}.speedscope.json").read_bytes())["shared"]["frames"]
    assert {"main", "serve", "parse", "render"} <= {f["name"] for f in frames}


# ---- A watched folder


class Watcher:
    def __init__(self, folder, url, *args):
        self.process = subprocess.Popen(
            [str(BUILD / "vesta"), "push", "--watch", str(folder), "--url", url, *map(str, args)],
            stderr=subprocess.PIPE)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        _, err = self.process.communicate(timeout=10)
        return self.process.returncode, err.decode()


@pytest.fixture
def watch(tmp_path):
    folder = tmp_path / "spool"
    folder.mkdir()
    running = []

    def start(url, *args):
        running.append(Watcher(folder, url, *args))
        return running[-1]

    start.folder = folder
    yield start
    for w in running:
        if w.process.poll() is None:
            w.process.kill()
            w.process.communicate()


def bodies(receiver):
    return [g["body"] for g in receiver.got]


def test_files_in_a_folder_are_pushed_once_they_are_complete(watch, receiver):
    (watch.folder / "before.folded").write_bytes(b"before 1\n")
    (watch.folder / ".hidden").write_bytes(b"hidden 1\n")
    (watch.folder / "copy.part").write_bytes(b"part 1\n")
    watcher = watch(receiver.url, "--service", "shop")
    wait_for(lambda: len(receiver.got) == 1)
    with open(watch.folder / "slow.folded", "wb") as slow:
        slow.write(b"first 1\n")
        slow.flush()
        (watch.folder / "quick.folded").write_bytes(b"quick 1\n")
        wait_for(lambda: len(receiver.got) == 2)
        time.sleep(0.5)
        slow.write(b"second 1\n")
    wait_for(lambda: len(receiver.got) == 3)
    (watch.folder / "copy.part").rename(watch.folder / "copy.folded")
    wait_for(lambda: len(receiver.got) == 4)
    assert bodies(receiver) == [b"before 1\n", b"quick 1\n", b"first 1\nsecond 1\n", b"part 1\n"]
    assert {g["params"]["label.service.name"] for g in receiver.got} == {"shop"}
    code, said = watcher.end()
    assert code == 0
    assert "slow.folded: stored" in said and "4 stored" in said


def test_a_restart_sends_nothing_twice_and_what_changed_again(watch, receiver):
    for i in range(3):
        (watch.folder / f"{i}.folded").write_bytes(b"main;f%d 1\n" % i)
    first = watch(receiver.url)
    state = watch.folder / ".vesta-push"
    wait_for(lambda: state.exists() and state.read_text().count("\n") == 3)
    first.end(signal.SIGKILL)
    assert len(receiver.got) == 3
    (watch.folder / "1.folded").write_bytes(b"main;other 1\n")
    (watch.folder / "3.folded").write_bytes(b"main;f3 1\n")
    second = watch(receiver.url)
    wait_for(lambda: len(receiver.got) == 5)
    time.sleep(0.6)
    assert sorted(bodies(receiver)[3:]) == [b"main;f3 1\n", b"main;other 1\n"]
    assert second.end()[0] == 0


def test_an_outage_is_survived(watch):
    port = unused_port()
    watcher = watch(f"http://127.0.0.1:{port}")
    (watch.folder / "a.folded").write_bytes(STACKS)
    time.sleep(1.2)
    (watch.folder / "b.folded").write_bytes(b"b 1\n")
    late = Receiver(port)
    late.script = [(503, {}, {})]
    wait_for(lambda: len(late.got) == 3)
    assert bodies(late) == [STACKS, STACKS, b"b 1\n"]
    code, said = watcher.end()
    late.close()
    assert code == 0
    assert said.count("trying again") == 1


def test_sigterm_ends_it_also_while_nobody_answers(watch):
    watcher = watch(f"http://127.0.0.1:{unused_port()}")
    (watch.folder / "a.folded").write_bytes(STACKS)
    time.sleep(0.8)
    start = time.monotonic()
    assert watcher.end()[0] == 0
    assert time.monotonic() - start < 2


def test_what_is_rejected_is_told_once_and_stays(watch, receiver, tmp_path):
    done = tmp_path / "done"
    done.mkdir()
    receiver.script = [(400, {}, {"error": "no known format"})]
    (watch.folder / "bad.bin").write_bytes(b"nothing")
    watcher = watch(receiver.url, "--done", done)
    wait_for(lambda: len(receiver.got) == 1)
    (watch.folder / "good.folded").write_bytes(STACKS)
    wait_for(lambda: (done / "good.folded").exists())
    code, said = watcher.end()
    assert len(receiver.got) == 2
    assert said.count("no known format") == 1
    assert (watch.folder / "bad.bin").exists() and not (watch.folder / "good.folded").exists()


def test_sidecars_and_pictures_of_a_watched_folder_go_with_their_file(watch, receiver, tmp_path):
    done = tmp_path / "done"
    done.mkdir()
    (done / "cpu.folded").write_bytes(b"older")
    (watch.folder / "cpu.folded.json").write_text('{"service": "side"}')
    watcher = watch(receiver.url, "--done", done, "--write-svg", "--write-speedscope")
    time.sleep(0.5)
    assert receiver.got == []  # a sidecar alone is nothing to push
    (watch.folder / "cpu.folded").write_bytes(STACKS)
    wait_for(lambda: (done / "cpu.folded.speedscope.json").exists())
    time.sleep(0.5)
    assert len(receiver.got) == 1
    assert receiver.got[0]["params"]["label.service.name"] == "side"
    assert sorted(p.name for p in done.iterdir()) == [
        "cpu.folded", "cpu.folded.1", "cpu.folded.json", "cpu.folded.speedscope.json",
        "cpu.folded.svg"]
    assert (done / "cpu.folded").read_bytes() == b"older"
    assert watcher.end()[0] == 0


def test_a_folder_that_is_not_there_is_told(vesta, tmp_path):
    result = vesta("push", "--watch", tmp_path / "none", check=1)
    assert "could not open folder" in result.err.decode()


# ---- Buckets

MOTO = "5.0.28"
S3_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-x-1"}


@pytest.fixture(scope="module")
def moto():
    """moto's S3 server, installed once into the build folder."""
    folder = BUILD / "e2e-moto"
    python = folder / "bin" / "python"
    packages = [f"moto[s3]=={MOTO}", "flask==3.0.3", "flask-cors==5.0.0", "boto3==1.35.99"]
    if not (folder / "done").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True,
                           timeout=60)
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True,
                           capture_output=True, timeout=180)
        except (subprocess.SubprocessError, OSError) as e:
            why = getattr(e, "stderr", None) or b""
            pytest.skip(f"moto could not be installed: {e} {why.decode(errors='replace')[-200:]}")
        (folder / "done").touch()
    port = unused_port()
    process = subprocess.Popen([folder / "bin" / "moto_server", "-H", "127.0.0.1", "-p", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def is_up():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        wait_for(is_up, 30)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(moto):
    """s3(method, path, body) against an empty bucket, with `url`, `name` and `env`."""
    def call(method, path, body=None):
        r = urllib.request.Request(f"{moto}/{call.name}{path}", data=body, method=method,
                                   headers={"Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(r) as answer:
            return answer.read()
    call.name = "b-" + str(time.monotonic_ns())
    call.url = f"s3://{call.name}"
    call.env = {**S3_KEYS, "AWS_ENDPOINT_URL": moto}
    call("PUT", "")
    return call


def with_boto(bucket, key):
    """An object's content, as Amazon's own library gets it."""
    script = ("import boto3, sys\n"
              "o = boto3.client('s3').get_object(Bucket=sys.argv[1], Key=sys.argv[2])\n"
              "sys.stdout.buffer.write(o['Body'].read())")
    return subprocess.run([BUILD / "e2e-moto" / "bin" / "python", "-c", script, bucket.name, key],
                          env={**os.environ, **bucket.env, "AWS_DEFAULT_REGION": "eu-x-1"},
                          check=True, capture_output=True).stdout


def test_profiles_in_a_bucket_are_pushed_with_their_sidecars(vesta, receiver, bucket):
    bucket("PUT", "/spool/a%20%26b.folded", STACKS)
    bucket("PUT", "/spool/a%20%26b.folded.json", b'{"service": "shop"}')
    bucket("PUT", "/spool/c.folded", b"c 1\n")
    bucket("PUT", "/other/d.folded", b"d 1\n")
    vesta("push", "--url", receiver.url, f"{bucket.url}/spool/", env=bucket.env, check=0)
    assert sorted(bodies(receiver)) == [b"c 1\n", STACKS]
    by_body = {g["body"]: g["params"] for g in receiver.got}
    assert by_body[STACKS]["label.service.name"] == "shop"
    assert abs(int(by_body[b"c 1\n"]["from"]) / 1e9 - time.time()) < 60  # as old as the object


def test_a_bucket_of_many_pages_is_pushed_whole(vesta, receiver, bucket):
    for i in range(1005):
        bucket("PUT", f"/many/{i:04}.empty", b"")
    bucket("PUT", "/many/9999.folded", b"last 1\n")
    vesta("push", "--url", receiver.url, f"{bucket.url}/many", env=bucket.env, check=0)
    assert bodies(receiver) == [b"last 1\n"]


def test_a_selection_goes_to_a_bucket_and_comes_back(vesta, new_server, bucket, tmp_path):
    server = new_server()
    path = tmp_path / "cpu.folded"
    path.write_bytes(STACKS)
    vesta("push", "--url", server.url, "--service", "shop", "--label", "pod=a", path, check=0)
    key = f"{bucket.url}/kept/cpu.pb.gz"
    vesta("get", '{service.name="shop", pod="a"}', "--url", server.url, "-o", key, env=bucket.env,
          check=0)
    assert with_boto(bucket, "kept/cpu.pb.gz").startswith(b"\x1f\x8b")
    sidecar = json.loads(with_boto(bucket, "kept/cpu.pb.gz.json"))
    assert sidecar["labels"] == {"service.name": "shop", "pod": "a"}
    other = new_server(data="other")
    vesta("push", "--url", other.url, key, env=bucket.env, check=0)
    top = vesta("top", '{service.name="shop", pod="a"}', "--url", other.url, "--json", check=0).json
    assert {e["name"]: e["flat"] for e in top["entries"]}["render"] == 70
    refused = vesta("get", "{}", "--url", server.url, "-o", "s3://no-such-bucket/x.pb.gz",
                    env=bucket.env, check=1)
    assert "NoSuchBucket" in refused.err.decode()


def test_what_a_bucket_does_not_have_is_told(vesta, receiver, bucket):
    empty = vesta("push", "--url", receiver.url, f"{bucket.url}/none", env=bucket.env)
    assert empty.code == 3
    assert "there is nothing under" in empty.err.decode()
    missing = vesta("push", "--url", receiver.url, "s3://no-such-bucket/x", env=bucket.env, check=1)
    assert "NoSuchBucket" in missing.err.decode()
    keyless = vesta("push", "--url", receiver.url, f"{bucket.url}/x",
                    env={**bucket.env, "AWS_ACCESS_KEY_ID": ""}, check=2)
    assert "AWS_ACCESS_KEY_ID" in keyless.err.decode()
    assert receiver.got == []


def test_signatures_agree_with_those_of_amazons_own_library(vesta, moto, bucket, tmp_path):
    """What is sent is signed again by botocore, from the same request and time."""
    heads = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        heads.append(connection.recv(65536).decode())
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
    vesta("push", "s3://bucket/a b&c/ä+", "--s3-endpoint", endpoint,
          env={**bucket.env, "AWS_SESSION_TOKEN": "tok+en="}, check=1)
    listener.close()
    script = tmp_path / "sign.py"
    script.write_text("""
import json, sys
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
a = json.load(sys.stdin)
r = AWSRequest(a["method"], a["url"], headers=a["headers"])
r.context["timestamp"] = a["time"]
signer = S3SigV4Auth(Credentials("test", "secret", "tok+en="), "s3", "eu-x-1")
print(signer.signature(signer.string_to_sign(r, signer.canonical_request(r)), r))
""")
    lines = heads[0].split("\r\n")
    method, target, _ = lines[0].split(" ")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    signed = {k: v for k, v in headers.items() if k.lower().startswith("x-amz")}
    done = subprocess.run(
        [BUILD / "e2e-moto" / "bin" / "python", script], capture_output=True, check=True,
        input=json.dumps({"method": method, "url": endpoint + target, "headers": signed,
                          "time": headers["x-amz-date"]}).encode())
    assert headers["authorization"].endswith("Signature=" + done.stdout.decode().strip())


def test_a_server_killed_while_files_are_pushed_has_them_all_in_the_end(vesta, new_server, tmp_path):
    address = f"127.0.0.1:{unused_port()}"
    where = ["--listen", address]
    files = []
    for i in range(400):
        files.append(tmp_path / f"{i}.folded")
        files[-1].write_bytes(b"main;f%d %d\n" % (i, i + 1))
    server = new_server(*where)
    pushing = subprocess.Popen([str(BUILD / "vesta"), "push", "--url", address, "--service",
                                "many", *map(str, files)], stderr=subprocess.PIPE)
    wait_for(lambda: server.metric("vesta_ingest_profiles_total{format=\"collapsed\"}") > 20
             or pushing.poll() is not None)
    server.kill()
    assert pushing.poll() is None, "too quick to be disturbed"
    server = new_server(*where)
    _, said = pushing.communicate(timeout=60)
    assert pushing.returncode == 0, said
    assert b"trying again" in said and b" 0 rejected" in said
    top = vesta("top", '{service.name="many"}', "--url", server.url, "-nodecount=1000", "--json",
                "-nodefraction=0", check=0).json
    assert {e["name"]: e["flat"] for e in top["entries"] if e["flat"] > 0} == {
        f"f{i}": i + 1 for i in range(400)}
