"""pprof endpoints, scraped again and again into a real server: a Go service, and targets that lie."""

import base64
import gzip
import http.server
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest

from agent import needs_bpf
from conftest import BUILD, ROOT, run_vesta, totals, wait_for
from protobuf import field

SCRAPER = BUILD / "tests" / "scrape_push"


class Scraper:
    """Scraping with a config, into a server."""

    def __init__(self, folder, config, url):
        self.config = folder / "agent.yaml"
        self.config.write_text(config)
        self.log = folder / "scrape.log"
        self.process = subprocess.Popen(
            [str(SCRAPER), str(self.config), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=open(self.log, "ab"), text=True)

    def status(self):
        self.process.stdin.write("status\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        self.process.stdout.readline()
        return json.loads(answer)["targets"]

    def metrics(self):
        self.process.stdin.write("metrics\n")
        self.process.stdin.flush()
        found = {}
        while (line := self.process.stdout.readline()) != "\n":
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                found[name] = float(value)
        self.process.stdout.readline()
        return found

    def tell_local(self, processes):
        self.process.stdin.write("local " + json.dumps(processes) + "\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        self.process.stdout.readline()

    def profile(self, kind, target=0):
        """What is said of one kind of profile of a target, or None."""
        targets = self.status()
        if target >= len(targets):
            return None
        found = [p for p in targets[target]["profiles"] if p["profile"] == kind]
        return found[0] if found else None

    def labels(self):
        """Those of each target, but for the host's name that all of them have here."""
        targets = [t["labels"] for t in self.status()]
        assert all(labels.pop("host.name") == socket.gethostname() for labels in targets)
        return targets

    def log_text(self):
        return self.log.read_text()

    def stop(self):
        """Ends it; how long that took."""
        began = time.monotonic()
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        self.process.stdout.close()
        return time.monotonic() - began


@pytest.fixture
def scrape(tmp_path):
    """scrape(config, url) begins to; all are ended afterwards."""
    begun = []

    def begin(config, url="http://127.0.0.1:9"):
        begun.append(Scraper(tmp_path, config, url))
        return begun[-1]

    yield begin
    for scraper in begun:
        if scraper.process.poll() is None:
            scraper.process.kill()
            scraper.process.wait()


@pytest.fixture(scope="session")
def shop_program():
    if not shutil.which("go"):
        pytest.skip("go is not installed, so there is no Go service to scrape")
    program = BUILD / "e2e-shop"
    done = subprocess.run(["go", "build", "-o", str(program), "."], cwd=ROOT / "examples" / "go",
                          capture_output=True, text=True, env={**os.environ, "GOFLAGS": "-mod=mod"})
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture
def new_shop(shop_program):
    """new_shop(*flags) starts the example; (process, "host:port")."""
    started = []

    def new(*flags, listen="127.0.0.1:0"):
        process = subprocess.Popen([str(shop_program), "-listen", listen, *flags],
                                   stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process, process.stdout.readline().split()[-1]

    yield new
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


class Target(http.server.ThreadingHTTPServer):
    """A target that answers what a test says: answers[path] is (status, body), or a function of the
    request that makes it."""

    daemon_threads = True

    def __init__(self, context=None, port=0):
        super().__init__(("127.0.0.1", port), TargetHandler)
        self.answers = {}
        self.asked = []  # (path, headers)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.server_address[1]

    def handle_error(self, request, client_address):
        pass  # who goes away goes away


class TargetHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.server.asked.append((self.path, dict(self.headers)))
        answer = self.server.answers.get(url.path, (404, b"404 page not found\n"))
        status, body, *headers = answer(self) if callable(answer) else answer
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def target():
    t = Target()
    yield t
    t.shutdown()
    t.server_close()


def pprof_of(stacks):
    """A pprof profile of {stack: value}."""
    text = "".join(f"{stack} {value}\n" for stack, value in stacks.items()).encode()
    return run_vesta("convert", "--to=pprof", "-", stdin=text, check=0).out


def query(server, *args):
    return run_vesta("query", "--url", server.url, *args, "--from", "now-1h", check=0).text


def total(server, selection):
    """{function: flat value} of a selection."""
    answer = run_vesta("query", "--url", server.url, "convert", "--to=collapsed", selection,
                       "--from", "now-1h")
    if answer.code != 0:
        return {}
    stacks = {}
    for line in answer.text.splitlines():
        stack, value = line.rsplit(" ", 1)
        stacks[stack] = stacks.get(stack, 0) + int(value)
    return stacks


def only(kinds, *lines):
    """A job that reads these kinds alone, every second."""
    everything = ["cpu", "heap", "goroutine", "mutex", "block"]
    off = [f"      {k}: {{enabled: false}}" for k in everything if k not in kinds]
    return "\n".join(["scrape_configs:", "  - job_name: job", "    scrape_interval: 1s",
                      "    scrape_timeout: 2s", *[f"    {line}" for line in lines],
                      "    profiling_config:", "     pprof_config:", *off,
                      *[f"      {k}: {v}" for k, v in kinds.items() if v]]) + "\n"


def statics(address, labels="{}"):
    return f'static_configs: [{{targets: ["{address}"], labels: {labels}}}]'


# ---- A Go service


def test_three_lines_of_config_profile_a_go_service(new_shop, new_server, scrape):
    server = new_server()
    _, address = new_shop("-load")
    scraper = scrape("scrape_configs:\n"
                     "  - job_name: checkout\n"
                     f"    {statics(address, '{env: test}')}\n"
                     "    scrape_interval: 3s\n", server.url)
    wait_for(scraper.status)
    wait_for(lambda: all(p["scrapes"] >= 2 for p in scraper.status()[0]["profiles"]), 30)
    assert [t["health"] for t in scraper.status()] == ["up"]
    hot = query(server, "top", '-cum', 'cpu{service.name="checkout"}')
    row = next(line.split() for line in hot.splitlines() if line.endswith("main.knead"))
    assert float(row[4].rstrip("%")) > 75, hot
    series = query(server, "series")
    for types in ("samples,cpu", "inuse_objects,inuse_space", "alloc_objects,alloc_space", "goroutine"):
        assert f"{types}{{" in series, series
    assert f'service.instance.id="{address}"' in series
    assert 'deployment.environment.name="test"' in series and 'process.runtime.name="go"' in series
    # The load sleeps and locks: block and mutex profiles look alike and are told apart.
    assert 'profile.kind="block"' in series
    assert "main.main" in query(server, "tree", 'goroutine{service.name="checkout"}')
    # CPU of the load: 30 of every 100 ms or a little more, in windows of two of every three seconds.
    cpu = [line for line in query(server, "profiles", 'cpu{service.name="checkout"}').splitlines()]
    assert cpu and all(" 2.0" in line for line in cpu), cpu
    metrics = scraper.metrics()
    assert metrics['vesta_agent_scrape_targets{job="checkout",health="up"}'] == 1
    assert metrics['vesta_agent_scrapes_total{job="checkout",profile="cpu",result="ok"}'] >= 2
    assert scraper.stop() < 2


def test_allocations_are_what_the_program_allocated_in_between(new_shop, new_server, scrape):
    server = new_server()
    process, address = new_shop()

    def order(n):
        for _ in range(n):
            urllib.request.urlopen(f"http://{address}/order?kb=1024", timeout=10).read()
        # Go tells of what was allocated before the last but one collection of garbage.
        for _ in range(3):
            urllib.request.urlopen(f"http://{address}/debug/pprof/heap?gc=1", timeout=10).read()

    order(40)  # before anybody looks: not to be counted
    scraper = scrape(only({"heap": ""}, statics(address)), server.url)
    wait_for(lambda: (scraper.profile("heap") or {}).get("scrapes", 0) >= 1)
    order(300)
    done = scraper.profile("heap")["scrapes"]
    wait_for(lambda: scraper.profile("heap")["scrapes"] >= done + 2)
    added = sum(v for stack, v in total(server, 'alloc_space{service.name="job"}').items()
                if "main.pack" in stack)
    # Go samples one allocation in 512 KiB: 300 boxes of 1 MiB are known to a few percent.
    assert 0.85 * 300 < added / 2**20 < 1.15 * 300, added
    # A new process on the same port: what it counts from 0 is not taken for less than nothing.
    process.kill()
    process.wait()
    new_shop(listen=address)
    order(5)
    wait_for(lambda: any(v >= 1 for k, v in scraper.metrics().items()
                         if k.startswith("vesta_agent_scrape_resets_total")), 30)
    again = sum(v for stack, v in total(server, 'alloc_space{service.name="job"}').items()
                if "main.pack" in stack)
    assert again == added


def test_local_go_programs_are_found_and_asked_once(new_shop, new_server, scrape, target):
    server = new_server()
    process, address = new_shop("-load")
    port = int(address.rsplit(":", 1)[1])
    other = target.server_address[1]
    scraper = scrape("scrape_local_go: true\n", server.url)
    processes = [{"pid": process.pid, "ports": [other, port], "service": "found"},
                 {"pid": os.getpid(), "ports": [other], "service": "no"}]
    scraper.tell_local(processes)
    wait_for(scraper.status)
    assert [(t["url"], t["labels"]["service.name"]) for t in scraper.status()] == [
        (f"http://127.0.0.1:{port}", "found")]
    wait_for(lambda: 'service.name="found"' in run_vesta("query", "--url", server.url, "series").text)
    asked = len(target.asked)
    assert asked == 2  # one for each process that is said to listen there
    scraper.tell_local(processes + [{"pid": 1, "ports": [], "service": "x"}])
    time.sleep(0.5)
    assert len(target.asked) == asked
    scraper.tell_local([])
    wait_for(lambda: not scraper.status())


@needs_bpf
def test_the_agent_scrapes_what_it_is_told_and_what_it_finds(tmp_path, new_shop, new_server):
    server = new_server()
    _, told = new_shop("-load")
    _, found = new_shop("-load")
    config = tmp_path / "agent.yaml"
    config.write_text("scrape_local_go: true\n"
                      f'exporters: ["{server.url}"]\n'
                      "scrape_configs:\n"
                      "  - job_name: told\n"
                      f"    {statics(told)}\n"
                      "    scrape_interval: 2s\n")
    with open(tmp_path / "agent.log", "wb") as log:
        agent = subprocess.Popen([str(BUILD / "vesta-agent"), "--config", str(config), "--state-dir",
                                  str(tmp_path / "state"), "--spool-dir", "", "--cache-dir", ""],
                                 stderr=log, stdout=log)
    try:
        def top():
            return run_vesta("query", "--url", server.url, "top", "-cum", "--from", "now-1h",
                             'cpu{service.name="told",process.runtime.name="go"}').text
        wait_for(lambda: "main.knead" in top(), 30)

        def live():
            return run_vesta("query", "--url", server.url, "series", "--from", "now-1h",
                             f'inuse_space{{service.instance.id="{found}"}}').text
        wait_for(lambda: 'service.name="e2e-shop"' in live(), 60)
        # What is told is not found as well: two would be in each other's way.
        both = run_vesta("query", "--url", server.url, "values", "service.name",
                         f'{{service.instance.id="{told}"}}', "--from", "now-1h").text
        assert both.split() == ["told"], both
    finally:
        agent.terminate()
        agent.wait(30)
    text = (tmp_path / "agent.log").read_text()
    assert " error " not in text, text


@needs_bpf
def test_the_agent_refuses_a_wrong_scrape_config(tmp_path):
    config = tmp_path / "agent.yaml"
    config.write_text("scrape_configs:\n  - job_name: a\n    schema: https\n")
    for verb in ([], ["config", "check"]):
        done = subprocess.run([str(BUILD / "vesta-agent"), *verb, "--config", str(config)],
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 2
        assert f'{config}: line 3: a scrape config has no key "schema"; did you mean "scheme"?' in done.stderr


# ---- Differences


def test_cumulative_profiles_become_exact_differences(new_server, scrape, target):
    server = new_server()
    bodies = [{"main;a": 100, "main;b": 10}, {"main;a": 130, "main;b": 10}, {"main;a": 131, "main;c": 7,
              "main;b": 15}, {"main;a": 3}, {"main;a": 5, "main;d": 1}]
    profiles = [pprof_of(b) for b in bodies]
    at = [0]

    def answer(request):
        body = profiles[min(at[0], len(profiles) - 1)]
        at[0] += 1
        return 200, body

    target.answers["/counts"] = answer
    scraper = scrape(only({"counts": "{path: /counts, delta: true}"}, statics(target.address)), server.url)
    wait_for(lambda: (scraper.profile("counts") or {}).get("scrapes", 0) >= 6)
    # 130-100, 131-130 + 15-10 + 7, began anew with 3, then 5-3 + 1; and nothing where nothing came.
    assert total(server, 'samples{service.name="job"}') == {
        "main;a": 30 + 1 + 2, "main;b": 5, "main;c": 7, "main;d": 1}
    assert 'profile.kind="counts"' in query(server, "series")
    assert scraper.metrics()['vesta_agent_scrape_resets_total{job="job"}'] == 1


@pytest.mark.parametrize("name, kind, column", [
    ("block", "block", "delay"), ("heap", "heap", "alloc_space"),
    ("stress-failure.3", "heap", "alloc_space")])
def test_real_profiles_differ_by_what_their_totals_do(corpus, new_server, scrape, target, name, kind, column):
    pair = [corpus / "pprof" / "delta" / f"{name}.{when}.pprof" for when in ("before", "after")]
    bodies = [path.read_bytes() for path in pair]
    sums = [totals(run_vesta("info", "--json", path, check=0).json)[column] for path in pair]
    seen = []

    def answer(request):
        seen.append(1)
        return 200, bodies[min(len(seen), 2) - 1]

    server = new_server()
    target.answers[f"/debug/pprof/{kind}"] = answer
    scraper = scrape(only({kind: ""}, statics(target.address)), server.url)
    wait_for(lambda: (scraper.profile(kind) or {}).get("scrapes", 0) >= 3)
    assert not any("resets" in name for name in scraper.metrics())
    assert sum(total(server, f'{column}{{service.name="job"}}').values()) == sums[1] - sums[0]


# ---- Targets that fail


def test_a_target_that_is_down_is_tried_less_often_and_comes_back(new_server, scrape):
    free = socket.socket()
    free.bind(("127.0.0.1", 0))
    address = "127.0.0.1:%d" % free.getsockname()[1]
    free.close()
    server = new_server()
    scraper = scrape(only({"goroutine": ""}, statics(address)), server.url)
    wait_for(lambda: (scraper.profile("goroutine") or {}).get("failures", 0) >= 2)
    assert scraper.status()[0]["health"] == "down"
    assert "Connection refused" in scraper.profile("goroutine")["error"]
    assert scraper.log_text().count("Connection refused") == 1  # told once, not each time
    t = Target(port=int(address.split(":")[1]))
    t.answers["/debug/pprof/goroutine"] = (200, pprof_of({"main;x": 1}))
    try:
        wait_for(lambda: scraper.profile("goroutine")["state"] == "up", 20)
        assert "error" not in scraper.profile("goroutine")
    finally:
        t.shutdown()
        t.server_close()


@pytest.mark.parametrize("answer, state, result, text", [
    ((404, b"404 page not found\n"), "down", "down", "answered 404 Not Found: 404 page not found"),
    ((500, b"Could not enable CPU profiling: cpu profiling already in use\n"), "busy", "busy",
     "cpu profiling already in use"),
    ((200, b"<html>log in</html>"), "down", "bad", 'answered no pprof profile but "<html>log in</html>"'),
    ((200, b""), "down", "bad", "answered no pprof profile but nothing"),
    ((200, os.urandom(20000)), "down", "large", "body_size_limit: the answer of 127.0.0.1 is larger than 10240 bytes"),
    ((200, gzip.compress(bytes(100 << 20), 1)[:9000]), "down", "bad", None),
    ((302, b"", ("Location", "/elsewhere")), "up", "ok", None),
    ((302, b"", ("Location", "/debug/pprof/profile")), "down", "down", "redirects"),
], ids=["missing", "busy", "html", "empty", "huge", "cut", "redirect", "loop"])
def test_wrong_answers_are_named_and_counted(scrape, target, answer, state, result, text):
    target.answers = {"/debug/pprof/profile": answer, "/elsewhere": (200, pprof_of({"main;x": 1}))}
    scraper = scrape(only({"cpu": "{seconds: 1}"}, "body_size_limit: 10KiB", statics(target.address)))
    wait_for(lambda: (scraper.profile("cpu") or {"state": "new"})["state"] != "new")
    profile = scraper.profile("cpu")
    assert profile["state"] == state, profile
    if text:
        assert text in profile["error"]
    assert scraper.metrics()[f'vesta_agent_scrapes_total{{job="job",profile="cpu",result="{result}"}}'] >= 1


def test_what_unpacks_without_end_stops_at_the_limit(scrape, target):
    # A name of 200 MB, in 200 KB.
    body = gzip.decompress(pprof_of({"main;x": 1})) + field(6, bytes(200 << 20))
    target.answers["/debug/pprof/heap"] = (200, gzip.compress(body, 1))
    scraper = scrape(only({"heap": ""}, statics(target.address)))
    wait_for(lambda: (scraper.profile("heap") or {"state": "new"})["state"] == "down", 30)
    assert "memory limit of 64 MiB reached" in scraper.profile("heap")["error"], scraper.profile("heap")
    with open(f"/proc/{scraper.process.pid}/status") as f:
        peak = next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))
    assert peak < 150 << 10, peak


def test_a_slow_target_is_given_up_and_holds_nobody_up(new_server, scrape, target):
    stuck = threading.Event()

    def hang(request):
        stuck.wait(30)
        return 200, b""

    other = Target()
    target.answers["/debug/pprof/goroutine"] = hang
    other.answers["/debug/pprof/goroutine"] = (200, pprof_of({"main;x": 1}))
    try:
        scraper = scrape(only({"goroutine": ""}, "static_configs: [{targets: "
                              f'["{target.address}", "{other.address}"]}}]'))
        wait_for(lambda: (scraper.profile("goroutine", 0) or {}).get("failures", 0) >= 1)
        assert scraper.metrics()['vesta_agent_scrapes_total{job="job",profile="goroutine",result="timeout"}'] >= 1
        assert scraper.profile("goroutine", 1)["scrapes"] >= 2
        # And it ends though somebody hangs.
        assert scraper.stop() < 3
    finally:
        stuck.set()
        other.shutdown()
        other.server_close()


def test_many_targets_are_spread_and_read_at_once(scrape, target):
    seen = []

    def take_a_second(request):
        seen.append(time.monotonic())
        time.sleep(1)
        return 200, pprof_of_x

    pprof_of_x = pprof_of({"main;x": 1})
    target.answers["/debug/pprof/profile"] = take_a_second
    port = target.server_address[1]
    targets = ", ".join(f'"127.0.0.{i}:{port}"' for i in range(1, 2))
    labels = "\n".join(f'      - {{targets: [{targets}], labels: {{n: "{i}"}}}}' for i in range(40))
    scraper = scrape("scrape_configs:\n  - job_name: job\n    scrape_interval: 4s\n    static_configs:\n"
                     f"{labels}\n    profiling_config: {{pprof_config: {{heap: {{enabled: false}}, "
                     "goroutine: {enabled: false}, mutex: {enabled: false}, block: {enabled: false}, "
                     "cpu: {seconds: 1}}}\n")
    wait_for(lambda: len(seen) >= 80, 20)
    # 40 targets in 4 seconds: no half second has them all.
    first = sorted(seen)[:40]
    assert first[-1] - first[0] > 2, first
    assert not any("late" in k for k in scraper.metrics())
    assert len(scraper.status()) == 40


# ---- Who asks


def certificate(folder, name):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed, so there are no certificates")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
                    "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.mark.parametrize("tls, error", [
    ("{}", "certificate"),
    ("{ca_file: CA}", "mismatch"),
    ("{ca_file: CA, server_name: shop.example}", None),
    ("{insecure_skip_verify: true}", None),
], ids=["unknown", "other name", "named", "unchecked"])
def test_targets_with_tls(tmp_path, scrape, tls, error):
    t = Target(certificate(tmp_path, "shop.example"))
    t.answers["/debug/pprof/goroutine"] = (200, pprof_of({"main;x": 1}))
    try:
        tls = tls.replace("CA", str(tmp_path / "cert.pem"))
        scraper = scrape(only({"goroutine": ""}, "scheme: https", f"tls_config: {tls}", statics(t.address)))
        wait_for(lambda: (scraper.profile("goroutine") or {"state": "new"})["state"] != "new")
        profile = scraper.profile("goroutine")
        assert profile["state"] == ("down" if error else "up"), profile
        assert not error or error in profile["error"], profile
    finally:
        t.shutdown()
        t.server_close()


@pytest.mark.parametrize("lines, want", [
    (["basic_auth: {username: me, password: pass}"], "Basic " + base64.b64encode(b"me:pass").decode()),
    (["basic_auth: {username: me, password_file: SECRET}"],
     "Basic " + base64.b64encode(b"me:from a file").decode()),
    (["bearer_token: abc"], "Bearer abc"),
    (["bearer_token_file: SECRET"], "Bearer from a file"),
    (["authorization: {type: Token, credentials: xyz}"], "Token xyz"),
], ids=["basic", "basic file", "bearer", "bearer file", "authorization"])
def test_targets_that_ask_who_it_is(tmp_path, scrape, target, lines, want):
    (tmp_path / "secret").write_text("from a file\n")
    lines = [line.replace("SECRET", str(tmp_path / "secret")) for line in lines]

    def answer(request):
        if request.headers.get("Authorization") != want:
            return 401, b"who are you?\n"
        return 200, pprof_of_x

    pprof_of_x = pprof_of({"main;x": 1})
    target.answers["/debug/pprof/goroutine"] = answer
    scraper = scrape(only({"goroutine": ""}, *lines, statics(target.address)))
    wait_for(lambda: (scraper.profile("goroutine") or {"state": "new"})["state"] != "new")
    assert scraper.profile("goroutine")["state"] == "up", scraper.profile("goroutine")


# ---- Where targets are


def test_files_with_targets_are_followed(tmp_path, scrape, target):
    target.answers["/debug/pprof/goroutine"] = (200, pprof_of({"main;x": 1}))
    file = tmp_path / "targets.json"
    file.write_text("[]")
    scraper = scrape(only({"goroutine": ""}, f"file_sd_configs: [{{files: ['{tmp_path}/*.json']}}]"))
    file.write_text(json.dumps([{"targets": [target.address], "labels": {"team": "bread"}}]))
    wait_for(lambda: scraper.status())
    assert scraper.labels() == [{"instance": target.address, "job": "job", "team": "bread"}]
    wait_for(lambda: scraper.profile("goroutine")["state"] == "up")
    scrapes = scraper.profile("goroutine")["scrapes"]
    # A second target; the first goes on as it was.
    more = tmp_path / "more.json"
    more.write_text(json.dumps([{"targets": ["127.0.0.1:1"]}]))
    wait_for(lambda: len(scraper.status()) == 2)
    assert scraper.profile("goroutine")["scrapes"] >= scrapes
    file.write_text("[{")
    wait_for(lambda: "targets.json" in scraper.log_text())
    assert len(scraper.status()) == 2
    more.unlink()
    wait_for(lambda: len(scraper.status()) == 1)
    file.write_text("[]")
    wait_for(lambda: not scraper.status())


def test_targets_are_relabelled(scrape, target):
    target.answers["/v2/debug/pprof/goroutine"] = (200, pprof_of({"main;x": 1}))
    scraper = scrape("resource: [deployment.environment.name=prod, zone=none]\n" + only(
        {"goroutine": ""},
        "params: {tenant: [a]}",
        "static_configs:",
        f'  - {{targets: ["{target.address}"], labels: {{__meta_zone: EU-1, tier: web}}}}',
        '  - {targets: ["127.0.0.1:1"], labels: {tier: db}}',
        "relabel_configs:",
        "  - {source_labels: [tier], regex: web, action: keep}",
        "  - {target_label: __path_prefix__, replacement: /v2}",
        "  - {source_labels: [__meta_zone], target_label: zone, action: lowercase}",
        "  - {source_labels: [tier], regex: '(.*)', target_label: service_name, replacement: 'shop-$1'}",
        "  - {target_label: __param_tenant, replacement: 'b c'}",
        "  - {regex: tier, action: labeldrop}"))
    wait_for(lambda: (scraper.profile("goroutine") or {"state": "new"})["state"] == "up")
    assert scraper.labels() == [
        {"deployment.environment.name": "prod", "instance": target.address, "job": "job",
         "service_name": "shop-web", "zone": "eu-1"}]
    assert target.asked[0][0] == "/v2/debug/pprof/goroutine?tenant=b%20c"


class Dns(threading.Thread):
    """A server of names: SRV and A of what it is told."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = port
        self.start()

    def run(self):
        while True:
            try:
                question, peer = self.socket.recvfrom(4096)
            except OSError:
                return
            end = question.index(b"\0", 12) + 5
            kind = struct.unpack(">H", question[end - 4:end - 2])[0]
            data = {33: struct.pack(">HHH", 1, 1, self.port) + b"\x09127-0-0-1\x04shop\0",
                    1: bytes([127, 0, 0, 1])}.get(kind)
            head = question[:2] + struct.pack(">HHHHH", 0x8180, 1, 1 if data else 0, 0, 0)
            answer = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 5, len(data)) + data if data else b""
            self.socket.sendto(head + question[12:end] + answer, peer)


@pytest.mark.parametrize("kind", ["SRV", "A"])
def test_targets_by_dns(scrape, target, kind):
    target.answers["/debug/pprof/goroutine"] = (200, pprof_of({"main;x": 1}))
    port = target.server_address[1]
    dns = Dns(port)
    try:
        scraper = scrape(only(
            {"goroutine": ""},
            f"dns_sd_configs: [{{names: [_pprof._tcp.shop], type: {kind}, port: {port}, "
            f'server: "127.0.0.1:{dns.socket.getsockname()[1]}"}}]',
            "relabel_configs: [{source_labels: [__address__], regex: '127-0-0-1.shop:(.*)', "
            "target_label: __address__, replacement: '127.0.0.1:$1'}, "
            "{source_labels: [__meta_dns_name], target_label: name}]"))
        wait_for(lambda: (scraper.profile("goroutine") or {"state": "new"})["state"] == "up")
        assert scraper.labels() == [{"instance": target.address, "job": "job", "name": "_pprof._tcp.shop"}]
    finally:
        dns.socket.close()


def test_names_that_nobody_knows_are_told_once(scrape):
    dns = Dns(1)
    try:
        scraper = scrape(only({"goroutine": ""},
                              "dns_sd_configs: [{names: [nowhere.invalid], type: AAAA, port: 1, "
                              f'refresh_interval: 1s, server: "127.0.0.1:{dns.socket.getsockname()[1]}"}}]'))
        wait_for(lambda: "nowhere.invalid" in scraper.log_text())
        time.sleep(1.5)
        assert scraper.log_text().count("nowhere.invalid") == 1
        assert scraper.status() == []
    finally:
        dns.socket.close()


def test_a_wrong_config_is_refused_with_its_line(tmp_path):
    config = tmp_path / "agent.yaml"
    config.write_text("scrape_configs:\n  - job_name: a\n    scrape_intervall: 3s\n")
    done = subprocess.run([str(SCRAPER), str(config), "http://127.0.0.1:9"], capture_output=True, text=True)
    assert done.returncode == 1
    assert 'line 3: a scrape config has no key "scrape_intervall"; did you mean "scrape_interval"?' in done.stderr
