"""Fixtures of the end-to-end tests: the built program, and the corpus of real profiles."""

import collections
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("VESTA_BUILD", ROOT / "build"))
CORPUS = pathlib.Path(os.environ.get("VESTA_CORPUS", ROOT.parent / "shared" / "corpus"))


class Result:
    """What one run of the program did."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.out)


def run_vesta(*args, stdin=None, env=None, timeout=60, check=None):
    """Runs vesta; with check=N, fails unless the exit code is N."""
    # What programs remember between runs stays with the build.
    full_env = {**os.environ, "XDG_CACHE_HOME": str(BUILD / "e2e-cache"), **(env or {})}
    done = subprocess.run(
        [str(BUILD / "vesta"), *map(str, args)],
        input=stdin if stdin is not None else b"",
        capture_output=True,
        env=full_env,
        timeout=timeout,
    )
    result = Result(done)
    if check is not None:
        assert result.code == check, (args, result.code, result.err.decode(errors="replace"))
    return result


@pytest.fixture(scope="session")
def vesta():
    return run_vesta


@pytest.fixture(scope="session")
def corpus():
    if not (CORPUS / "MANIFEST.tsv").exists():
        pytest.skip(f"no corpus at {CORPUS}")
    return CORPUS


@pytest.fixture(scope="session")
def facts(corpus):
    """{file: facts} as FACTS.json has them."""
    with open(corpus / "FACTS.json") as f:
        return {name: entry["facts"] for name, entry in json.load(f).items()}


@pytest.fixture(scope="session")
def pprof():
    """pprof's own binary: `go tool` would add its start-up to each run."""
    if not shutil.which("go"):
        pytest.skip("go is not installed, so there is no pprof to compare with")
    found = subprocess.run(["go", "tool", "-n", "pprof"], capture_output=True, text=True)
    path = found.stdout.strip()
    if found.returncode != 0 or not os.access(path, os.X_OK):
        pytest.skip("go has no pprof: " + found.stderr.strip())
    return path


def wait_for(what, seconds=40):
    """The first true answer of what()."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.02)
    return found


def npm_install(name, package, *packages):
    """A folder of that name with packages of npm, made once, in the build folder; skips without.
    `package` is the one that tells whether they are there."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm and node are not installed")
    folder = BUILD / name
    if (folder / "node_modules" / package.rsplit("@", 1)[0]).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            ["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund",
             package, *packages], capture_output=True, timeout=180, cwd=folder)
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm could not install {package} within 180 s")
    if done.returncode != 0:
        shutil.rmtree(folder / "node_modules", ignore_errors=True)
        pytest.skip(f"npm could not install {package}: " + done.stderr.decode(errors="replace")[-300:])
    return folder


def collapsed(path):
    """{stack: value} of the default sample type, as `convert` writes it."""
    text = run_vesta("convert", "-symbolize=none", "--to=collapsed", path, check=0).text
    stacks = collections.Counter()
    for line in text.splitlines():
        stack, value = line.rsplit(" ", 1)
        stacks[stack] += int(value)
    return stacks


def totals(info):
    """{sample type: total} of what `info --json` says."""
    return {kind["type"]: kind["total"] for kind in info["sample_types"]}


def corpus_files(prefix, suffixes=None):
    """Names of corpus inputs under a folder, for parametrize; empty where there is no corpus."""
    manifest = CORPUS / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    names = []
    with open(manifest, newline="") as f:
        header = next(f).rstrip("\n").split("\t")
        for row in f:
            cells = dict(zip(header, row.rstrip("\n").split("\t")))
            if cells["role"] == "input" and cells["file"].startswith(prefix):
                if suffixes is None or cells["file"].endswith(tuple(suffixes)):
                    names.append(cells["file"])
    return names


class Server:
    """A running `vesta server` on ports of its own, with its data in a folder of its own."""

    def __init__(self, data, *args, env=None, otlp=False):
        self.data = data
        self.args = [str(a) for a in args]
        self.env = env or {}
        self.otlp = otlp
        self.process = None
        self.urls = []

    def start(self):
        """Starts it and waits until it says where it listens."""
        off = [] if self.otlp else ["--listen-otlp-grpc", "off", "--listen-otlp-http", "off"]
        ports = ["--listen-otlp-grpc", "127.0.0.1:0", "--listen-otlp-http", "127.0.0.1:0"]
        self.log = open(f"{self.data}.log", "ab")
        self.process = subprocess.Popen(
            [str(BUILD / "vesta"), "server", "--data", str(self.data), "--listen",
             "127.0.0.1:0", *(ports if self.otlp else off), *self.args],
            stdout=subprocess.PIPE, stderr=self.log, env={**os.environ, **self.env})
        wanted = 3 if self.otlp else 1
        self.urls = []
        while len(self.urls) < wanted:
            line = self.process.stdout.readline().decode()
            assert line, "the server did not start: " + self.log_text()
            self.urls.append(line.strip())
        return self

    @property
    def url(self):
        return self.urls[0]

    @property
    def address(self):
        """(host, port) of the first listener."""
        host, port = self.url.split("://")[1].rsplit(":", 1)
        return host, int(port)

    def log_text(self):
        return pathlib.Path(f"{self.data}.log").read_text(errors="replace")

    def stop(self, timeout=30):
        """Asks it to end; its exit code."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
        return self.wait(timeout)

    def kill(self):
        self.process.kill()
        return self.wait()

    def wait(self, timeout=30):
        if not self.process:
            return None
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.process.stdout.close()
        self.log.close()
        return code

    def request(self, method, path, body=None, headers=None, timeout=30):
        """(status, headers, body) of one request; names of headers in lower case."""
        connection = http.client.HTTPConnection(*self.address, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=b"", **kw):
        return self.request("POST", path, body=body, **kw)

    def metric(self, name):
        """The value of one line of /metrics, 0 when it is not there."""
        for line in self.get("/metrics")[2].decode().splitlines():
            if line.rsplit(" ", 1)[0] == name:
                return float(line.rsplit(" ", 1)[1])
        return 0.0


@pytest.fixture
def new_server(tmp_path):
    """new_server(*flags, env={}, otlp=False, data="name") starts one; all are ended afterwards."""
    started = []

    def new(*args, data="data", **kw):
        server = Server(tmp_path / data, *args, **kw).start()
        started.append(server)
        return server

    yield new
    for server in started:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture
def server(new_server):
    return new_server()
