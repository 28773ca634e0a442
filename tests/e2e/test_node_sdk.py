"""The Node package in examples/node, under real traffic: what reaches the server is what happened."""

import concurrent.futures
import hashlib
import json
import os
import shutil
import signal
import subprocess
import urllib.parse
import urllib.request

import pytest

from conftest import ROOT, Server, npm_install

SOURCE = "example/src/work.ts"
COMMIT = "9f3c2d1e0b4a59687766554433221100ffeeddcc"
OTEL = ["@opentelemetry/api@1.9.0", "@opentelemetry/exporter-trace-otlp-http@0.203.0",
        "@opentelemetry/resources@2.0.1", "typescript@5.9.3", "@types/node@20.19.43"]


def tsc(folder, *options):
    done = subprocess.run(["node", folder.parent / "node_modules/typescript/bin/tsc", "-p", folder,
                           *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def example():
    """The package and the example, compiled beside what npm gives; again when a source changes."""
    folder = npm_install("node-sdk", "@opentelemetry/sdk-trace-node@2.0.1", *OTEL)
    parts = {"sdk": ROOT / "sdk" / "node", "example": ROOT / "examples" / "node"}
    sources = [path for part in parts.values() for name in ("src", "package.json", "tsconfig.json")
               for path in ([part / name] if "." in name else sorted((part / name).rglob("*.ts")))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    mark = folder / "compiled"
    if mark.exists() and mark.read_text() == digest:
        return folder / "example"
    for name, part in parts.items():
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(part, folder / name,
                        ignore=shutil.ignore_patterns("node_modules", "dist", "test"))
    scope = folder / "node_modules" / "@vesta"
    scope.mkdir(exist_ok=True)
    if not (scope / "node").is_symlink():
        (scope / "node").symlink_to(folder / "sdk")
    tsc(folder / "sdk")
    tsc(folder / "example")
    mark.write_text(digest)
    return folder / "example"


class Life:
    """The running example, and what it said that its work took."""

    def __init__(self, example, server, service, **env):
        self.service = service
        self.server = server
        self.process = subprocess.Popen(
            ["node", "--import", "./dist/tracing.js", "dist/server.js"], cwd=example,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PORT": "0", "OTEL_SERVICE_NAME": service, "GIT_COMMIT": COMMIT,
                 "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
                 "OTEL_EXPORTER_OTLP_ENDPOINT": server.url, **env})
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.stderr.read()
        self.sums = {}

    def visit(self, path, times=1):
        """Adds up what the answers say."""
        for _ in range(times):
            with urllib.request.urlopen(self.url + path, timeout=60) as answer:
                for key, value in json.load(answer).items():
                    if isinstance(value, (int, float)):
                        self.sums[key] = self.sums.get(key, 0) + value

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=20)
        assert (self.process.returncode, errors) == (0, "")

    def ask(self, route, status=200, **params):
        got, _, content = self.server.get(f"/api/v1/{route}?" + urllib.parse.urlencode(params))
        assert got == status, content
        return json.loads(content)

    def selection(self, kind):
        return f'{kind}{{service.name="{self.service}"}}'

    def functions(self, kind, **params):
        """{name: row of the table} of what is in work.ts."""
        found = self.ask("top", query=self.selection(kind), order="cum", limit=1000, **params)
        return {row["name"]: row for row in found["rows"] if row["file"].endswith(SOURCE)}

    def lines(self, kind):
        """{line of work.ts: cum}."""
        found = self.ask("lines", query=self.selection(kind), file=SOURCE)
        return {row["line"]: row["cum"] for row in found["rows"]}


def windows(*kinds):
    """One long window, which the end cuts."""
    return {f"VESTA_{kind}_{key}_MILLIS": "60000" for kind in kinds
            for key in ("INTERVAL", "DURATION")}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("node") / "data").start()
    yield started
    started.stop()


@pytest.fixture
def new_life(example, server):
    """new_life(service, **env) starts the example; all are ended afterwards."""
    started = []

    def new(service, **env):
        started.append(Life(example, server, service, **env))
        return started[-1]

    yield new
    for life in started:
        if life.process.poll() is None:
            life.process.kill()


@pytest.fixture(scope="module")
def till(example, server):
    """A life with hot and blocking code and spans, sampled often, so that a short one is enough."""
    life = Life(example, server, "till", VESTA_CPU_SAMPLING_INTERVAL_MICROS="500", VESTA_WALL="1",
                **windows("CPU", "WALL", "EVENT_LOOP", "ALLOCATIONS"))
    try:
        life.visit("/cart?rounds=800", 5)
        life.visit("/block?ms=150", 6)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(life.visit, ["/report"] * 100))
        life.stop()
        yield life
    finally:
        if life.process.poll() is None:
            life.process.kill()


def line_of(text):
    source = (ROOT / "examples" / "node" / "src" / "work.ts").read_text().splitlines()
    return next(number for number, line in enumerate(source, 1) if text in line)


def is_near(value, wanted, share=0.05):
    return abs(value / wanted - 1) < share


def test_hot_code_has_its_weight_and_its_line(till):
    """Against the service's own clocks: time that passed is known, however busy the machine is.
    What the functions had of a core is not: one waits longer than the other, and samples see a part
    of that. So their ratio is between those of CPU time and of time that passed, within what chance
    makes of so many samples (three standard deviations)."""
    def ratio_of(kind):
        found = till.functions(kind)
        return found["discount"]["cum"] / found["tax"]["cum"]

    clocks = [till.sums[f"discount{clock}"] / till.sums[f"tax{clock}"]
              for clock in ("Millis", "CpuMillis")]
    assert is_near(ratio_of("wall"), clocks[0])
    found = till.functions("cpu")
    counts = till.functions("samples")  # each of them twice: in CPU and in wall
    share = max(0.05, 3 * sum(2 / counts[name]["cum"] for name in ("discount", "tax")) ** 0.5)
    assert min(clocks) * (1 - share) < ratio_of("cpu") < max(clocks) * (1 + share)
    lines = till.lines("cpu")
    for name, text in (("discount", "off +="), ("tax", "due +=")):
        body = line_of(text)  # and the head of the loop above it
        assert lines[body] > 0
        assert is_near(lines[body - 1] + lines[body], found[name]["cum"])


def test_blocking_code_has_the_time_it_blocked(till):
    blocked = till.functions("event_loop_delay")["blockFor"]["cum"]
    assert is_near(blocked, till.sums["blockedMillis"] * 1e6)
    start, end = line_of("function blockFor"), line_of("return rounds")
    assert is_near(sum(cum for line, cum in till.lines("event_loop_delay").items()
                       if start <= line <= end), blocked)
    blocks = till.functions("event_loop_blocks")["blockFor"]["cum"]
    assert blocks == 6


def test_allocations_name_the_json_work(till):
    assert till.functions("alloc_space")["report"]["cum"] > 0


def test_spans_link_to_their_samples(till):
    def groups_of(kind):
        found = till.ask("span_groups", service=till.service, query=till.selection(kind))
        return {group["name"]: group for group in found["groups"]}

    groups = groups_of("event_loop_delay")
    assert {name: group["count"] for name, group in groups.items()} == {
        "GET /cart": 5, "GET /block": 6, "GET /report": 100}
    in_cart = till.sums["discountMillis"] + till.sums["taxMillis"]
    assert is_near(groups["GET /cart"]["value"], in_cart * 1e6)
    assert is_near(groups["GET /block"]["value"], till.sums["blockedMillis"] * 1e6)

    spans = {span["span"]: span for span in
             till.ask("spans", service=till.service, limit=1000)["spans"]}
    exemplars = till.ask("exemplars", query=till.selection("cpu"), limit=10)["exemplars"]
    assert len(exemplars) == 10
    for exemplar in exemplars:
        span = spans[exemplar["span"]]
        assert span["trace"] == exemplar["trace"]
        inside = till.functions("cpu", trace=exemplar["trace"], span=exemplar["span"])
        wanted = {"GET /cart": "discount", "GET /block": "blockFor"}[span["name"]]
        other = {"discount": "blockFor", "blockFor": "discount"}[wanted]
        assert wanted in inside and other not in inside
        assert exemplar["value"] <= int(span["duration_ns"]) * 1.05


def test_samples_carry_their_route(till):
    at_block = till.functions("cpu", tagfocus="http.route=/block")
    assert "blockFor" in at_block and "discount" not in at_block


def test_metadata_arrive(till):
    series = till.ask("series", query=till.selection("cpu"))["series"]
    assert len(series) == 1
    labels = series[0]["labels"]
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    wanted = {"service.version": "1.4.2", "vcs.ref.head.revision": COMMIT,
              "deployment.environment.name": "test", "process.runtime.name": "nodejs",
              "process.runtime.version": version.removeprefix("v")}
    assert {key: labels[key] for key in wanted} == wanted


LEAKS, LEAK_KB = 32, 1024


def test_a_leak_has_its_bytes_and_its_function(new_life):
    """Pieces far larger than the sampling interval: every one is sampled."""
    life = new_life("leaky", VESTA_HEAP="1", VESTA_HEAP_SAMPLING_INTERVAL_BYTES="65536",
                    VESTA_CPU="0", VESTA_EVENT_LOOP="0", VESTA_ALLOCATIONS="0", **windows("HEAP"))
    life.visit(f"/leak?kb={LEAK_KB}", LEAKS)
    life.visit("/report", 20)
    life.stop()
    found = life.functions("inuse_space")
    assert is_near(found["remember"]["flat"], LEAKS * LEAK_KB * 1024)
    assert line_of("function remember") in life.lines("inuse_space")
