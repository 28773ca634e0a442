"""Pyroscope's ways in, with the agents people run, unmodified; and files in every format: what goes
in comes out."""

import collections
import gzip
import json
import pathlib
import shutil
import subprocess
import urllib.parse

import pytest

from conftest import BUILD, CORPUS, corpus_files, npm_install, run_vesta, wait_for
from pprof_sum import read_pprof

HERE = pathlib.Path(__file__).resolve().parent
NODE_SDK = "@pyroscope/nodejs@0.6.4"
GO_SDK = "github.com/grafana/pyroscope-go@v1.4.3"

# What may be large is left to the tests of formats: here each file is read three times.
FILE_MAX = 3 << 20


def query(**params):
    return urllib.parse.urlencode(params)


def export(server, selector, tmp_path, **params):
    """A selection as a pprof file, and what it holds."""
    params = {"query": selector, "from": "0", "until": "now+1d", **params}
    status, _, body = server.get("/api/v1/profile.pb.gz?" + query(**params), timeout=120)
    assert status == 200, body
    path = tmp_path / "out.pb.gz"
    path.write_bytes(body)
    return path, read_pprof(path)


def series(server, selector=""):
    status, _, body = server.get("/api/v1/series?" + query(query=selector, **{"from": "0",
                                                                             "until": "now+1d"}))
    assert status == 200, body
    return json.loads(body)["series"]


def names(profile):
    """The functions of all stacks."""
    return {line[0][0] for stack, _ in profile.sums for frame in stack for line in frame[2]}


# ---- Agents

NODE_PROGRAM = """
const Pyroscope = require('@pyroscope/nodejs');
Pyroscope.init({
  serverAddress: process.argv[2], appName: 'node-shop', flushIntervalMs: 1000,
  tags: {region: 'eu'}, wall: {collectCpuTime: true},
});
Pyroscope.start();
const kept = [];
function burnSomeCpu() {
  const end = Date.now() + 50;
  while (Date.now() < end) kept[kept.length % 1000] = Math.sqrt(kept.length);
}
function keepSomeMemory() { for (let i = 0; i < 2000; i++) kept.push({text: 'x'.repeat(i % 100)}); }
setInterval(() => { burnSomeCpu(); keepSomeMemory(); }, 60);
setTimeout(() => process.exit(0), 30000);
"""


@pytest.fixture(scope="session")
def node_sdk():
    """The folder that holds Pyroscope's agent for Node; installed once, into the build folder."""
    return npm_install("npm-pyroscope", NODE_SDK)


def test_the_node_agent_unmodified(server, node_sdk, tmp_path):
    program = node_sdk / "shop.js"
    program.write_text(NODE_PROGRAM)
    agent = subprocess.Popen(["node", str(program), server.url], cwd=node_sdk,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        def types():
            assert agent.poll() is None, agent.stdout.read().decode(errors="replace")
            found = series(server, '{service.name="node-shop"}')
            kinds = {t["type"] for s in found for t in s["types"]}
            return found if len(kinds) >= 4 else None
        found = wait_for(types)
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close()
    labels = found[0]["labels"]
    assert labels["telemetry.sdk.language"] == "nodejs"
    assert labels["pyroscope_spy"] == "nodespy"
    _, cpu = export(server, 'cpu{service.name="node-shop"}', tmp_path)
    assert any("burnSomeCpu" in name for name in names(cpu)), names(cpu)
    assert sum(values[0] for values in cpu.sums.values()) > 0
    heap = [t for s in found for t in s["types"] if t["unit"] == "bytes"]
    assert heap, found


GO_PROGRAM = """
package main

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/grafana/pyroscope-go"
)

var kept [][]byte

func burnSomeCpu() {
	x := 1
	for end := time.Now().Add(40 * time.Millisecond); time.Now().Before(end); {
		x = x*31 + 7
	}
	runtime.KeepAlive(x)
}

func keepSomeMemory() { kept = append(kept, make([]byte, 600000)) }

func fightForALock() {
	var lock sync.Mutex
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() { defer all.Done(); lock.Lock(); time.Sleep(time.Millisecond); lock.Unlock() }()
	}
	all.Wait()
}

func main() {
	runtime.SetMutexProfileFraction(1)
	runtime.SetBlockProfileRate(1)
	_, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: "go-shop", ServerAddress: os.Args[1], UploadRate: 2 * time.Second,
		Tags: map[string]string{"region": "eu", "env": "prod"},
		ProfileTypes: []pyroscope.ProfileType{
			pyroscope.ProfileCPU, pyroscope.ProfileInuseObjects, pyroscope.ProfileAllocObjects,
			pyroscope.ProfileInuseSpace, pyroscope.ProfileAllocSpace, pyroscope.ProfileGoroutines,
			pyroscope.ProfileMutexCount, pyroscope.ProfileMutexDuration,
			pyroscope.ProfileBlockCount, pyroscope.ProfileBlockDuration,
		},
	})
	if err != nil {
		panic(err)
	}
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); {
		pyroscope.TagWrapper(context.Background(), pyroscope.Labels("handler", "burn"),
			func(context.Context) { burnSomeCpu() })
		keepSomeMemory()
		fightForALock()
	}
}
"""


@pytest.fixture(scope="session")
def go_agent():
    """A program with Pyroscope's agent for Go, built once, in the build folder."""
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    folder = BUILD / "go-pyroscope"
    program = folder / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "main.go"
    if program.exists() and source.exists() and source.read_text() == GO_PROGRAM:
        return program
    source.write_text(GO_PROGRAM)
    if not (folder / "go.mod").exists():
        subprocess.run(["go", "mod", "init", "example.com/shop"], cwd=folder, capture_output=True)
    for command in (["go", "get", GO_SDK], ["go", "build", "-o", str(program), "."]):
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, timeout=240)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{' '.join(command[:2])} of {GO_SDK} took longer than 240 s")
        if done.returncode != 0:
            pytest.skip(f"{GO_SDK} cannot be had: {done.stderr.decode()[-300:]}")
    return program


def test_the_go_agent_unmodified(server, go_agent, tmp_path):
    agent = subprocess.Popen([str(go_agent), server.url], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    wanted = {"cpu", "samples", "alloc_objects", "alloc_space", "inuse_objects", "inuse_space",
              "goroutine", "contentions", "delay"}
    try:
        def all_types():
            assert agent.poll() is None, agent.stdout.read().decode(errors="replace")
            found = series(server, '{service.name="go-shop"}')
            kinds = {t["type"] for s in found for t in s["types"]}
            blocks = any(s["labels"].get("profile.kind") == "block" for s in found)
            return found if wanted <= kinds and blocks else None
        found = wait_for(all_types)
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close()
    for s in found:
        assert s["labels"]["deployment.environment.name"] == "prod"
        assert s["labels"]["region"] == "eu"
        kinds = {t["type"] for t in s["types"]}
        # What is allocated is counted, what lives is found: never in one series.
        assert s["instant"] == bool(kinds & {"inuse_space", "goroutine"}), s
        assert not {"alloc_space", "inuse_space"} <= kinds
    _, cpu = export(server, 'cpu{service.name="go-shop"}', tmp_path, labels=1)
    assert any("main.burnSomeCpu" in name for name in names(cpu)), names(cpu)
    tagged = [labels for _, labels in cpu.sums if ("handler", "burn", 0) in labels]
    assert tagged, "labels of samples are kept"
    _, block = export(server, 'delay{service.name="go-shop",profile.kind="block"}', tmp_path)
    assert any("fightForALock" in name for name in names(block))


GO_PROFILES = """
package main

import (
	"os"
	"runtime/pprof"
	"time"
)

func spin() (x int) {
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		x = x*31 + 7
	}
	return x
}

func main() {
	cpu, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(cpu)
	x := spin()
	pprof.StopCPUProfile()
	cpu.Close()
	heap, _ := os.Create(os.Args[2])
	pprof.WriteHeapProfile(heap)
	heap.Close()
	os.Exit(x & 0)
}
"""


def test_what_go_writes_goes_in_with_curl(server, tmp_path):
    if not shutil.which("go") or not shutil.which("curl"):
        pytest.skip("go and curl are not installed")
    (tmp_path / "main.go").write_text(GO_PROFILES)
    cpu, heap = tmp_path / "cpu.pb.gz", tmp_path / "heap.pb.gz"
    subprocess.run(["go", "run", str(tmp_path / "main.go"), str(cpu), str(heap)], check=True,
                   timeout=120, env={**__import__("os").environ, "GO111MODULE": "off"})
    for path, target in ((cpu, "/v1/pprof?service.name=a"), (heap, "/api/v1/profiles?service.name=b"),
                         (cpu, "/ingest?format=pprof&name=c&spyName=gospy")):
        done = subprocess.run(["curl", "-sS", "-w", "%{http_code}", "--data-binary", f"@{path}",
                               server.url + target], capture_output=True, text=True)
        assert done.stdout.endswith("200"), done.stdout + done.stderr
    for service, path in (("a", cpu), ("b", heap), ("c", cpu)):
        _, out = export(server, f'{{service.name="{service}"}}', tmp_path)
        assert stacks(out) == stacks(read_pprof(path)), service


# ---- Recordings of Java

def form(parts):
    boundary = "vesta-e2e"
    body = b""
    for name, content in parts:
        body += (f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"'
                 "\r\nContent-Type: application/octet-stream\r\n\r\n").encode() + content + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


RECORDINGS = [name for name in corpus_files("jfr/")
              if name.endswith((".jfr", ".jfr.gz")) and "mutants" not in name and
              (CORPUS / name).stat().st_size <= FILE_MAX]


def test_recordings_go_through_ingest_with_their_labels(new_server, corpus, tmp_path):
    server = new_server("--retention-profiles", "100y", "--mask-defaults=false")
    assert RECORDINGS
    n_labelled = 0
    for i, name in enumerate(RECORDINGS):
        path = corpus / name
        labels = path.parent / (path.name.split(".")[0] + ".labels.pb.gz")
        parts = [("jfr", path.read_bytes())]
        if labels.exists():
            parts.append(("labels", labels.read_bytes()))
        body, kind = form(parts)
        status, _, answer = server.post(f"/ingest?name=app{i}%7Bk=v%7D&format=jfr&spyName=javaspy",
                                        body=body, headers={"content-type": kind})
        if run_vesta("info", path).code != 0:
            assert status == 400, (name, answer)
            continue
        assert (status, answer) == (200, b""), name
        if labels.exists():
            n_labelled += 1
            _, out = export(server, f'{{service.name="app{i}"}}', tmp_path, labels=1)
            keys = {label[0] for _, all_labels in out.sums for label in all_labels}
            assert "thread_name" in keys and "jfr.context_id" not in keys, (name, keys)
        found = series(server, f'{{service.name="app{i}"}}')
        reference = json.loads(run_vesta("info", "--json", path, check=0).text)
        assert {t["type"] for s in found for t in s["types"]} == {
            t["type"] for t in reference["sample_types"]} or not found, name
    assert n_labelled > 0


# ---- Every format of /ingest

def pprof_of(text, tmp_path):
    """Collapsed stacks as pprof."""
    out = tmp_path / "made.pb.gz"
    run_vesta("convert", "-o", out, "-", stdin=text, check=0)
    return out.read_bytes()


SPEEDSCOPE = {
    "$schema": "https://www.speedscope.app/file-format-schema.json",
    "shared": {"frames": [{"name": "main"}, {"name": "a"}, {"name": "b"}]},
    "profiles": [{"type": "sampled", "name": "x", "unit": "none", "startValue": 0, "endValue": 3,
                  "samples": [[0, 1], [0, 2]], "weights": [2, 1]}],
}
BODIES = {
    "groups": b"main;a 2\nmain;b 1\n",
    "lines": b"main;a\nmain;b\nmain;a\n",
    "tree": b"\0\0\1\4main\0\2\1a\2\0\1b\1\0",
    "trie": b"\0\0\1\5main;\0\2\1a\2\0\1b\1\0",
    "speedscope": json.dumps(SPEEDSCOPE).encode(),
}


def test_every_format_says_the_same(server, tmp_path):
    bodies = {**BODIES, "pprof": pprof_of(BODIES["groups"], tmp_path)}
    for kind, body in bodies.items():
        for packed in (False, True):
            name = f"{kind}{'-packed' if packed else ''}"
            status, _, answer = server.post(
                f"/ingest?name={name}&format={kind}&sampleRate=1000000000&from=now-10s&until=now",
                body=gzip.compress(body) if packed else body,
                headers={"content-encoding": "gzip"} if packed else {})
            assert (status, answer) == (200, b""), (name, answer)
            _, out = export(server, f'{{service.name="{name}"}}', tmp_path)
            found = {tuple(frame[0] for frame in stack): value
                     for (_, stack), value in stacks(out).items()}
            assert found == {("main", "a"): 2, ("main", "b"): 1}, name


def test_counters_have_the_profile_before_taken_off(server, tmp_path):
    body, kind = form([
        ("profile", pprof_of(b"main;a 100\nmain;b 7\nmain;c 5\n", tmp_path)),
        ("prev_profile", pprof_of(b"main;a 60\nmain;b 7\n", tmp_path)),
        ("sample_type_config", b'{"samples":{"units":"samples","cumulative":true}}'),
    ])
    status, _, answer = server.post("/ingest?name=counted&from=now-10s&until=now", body=body,
                                    headers={"content-type": kind})
    assert (status, answer) == (200, b"")
    _, out = export(server, '{service.name="counted"}', tmp_path)
    assert {tuple(f[0] for f in stack): value for (_, stack), value in stacks(out).items()} == {
        ("main", "a"): 40, ("main", "c"): 5}


# ---- What goes in comes out

def stacks(profile):
    """{(type, stack by names): value}, without what is 0. A frame without a name is its binary."""
    sums = collections.Counter()
    for (stack, _), values in profile.sums.items():
        path = []
        for address, where, lines in reversed(stack):
            if not lines:
                path.append(("", where[0], where[1]))
            path += [(line[0][0], line[0][2], line[2]) for line in reversed(lines)]
        for kind, value in zip(profile.types, values):
            sums[(kind, tuple(path))] += value
    return {key: value for key, value in sums.items() if value != 0 and key[0]}


def total(profile):
    sums = collections.Counter()
    for values in profile.sums.values():
        for kind, value in zip(profile.types, values):
            sums[kind] += value
    return {kind: value for kind, value in sums.items() if value != 0 and kind}


FOLDERS = sorted({name.split("/")[0] for name in corpus_files("")} - {"elf", "flamebearer"})


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_goes_in_comes_out(new_server, corpus, tmp_path, folder):
    server = new_server("--retention-profiles", "100y", "--mask-defaults=false")
    n = 0
    for i, name in enumerate(corpus_files(folder + "/")):
        path = corpus / name
        if path.stat().st_size > FILE_MAX or "mutants" in name:
            continue
        reference = tmp_path / "in.pb.gz"
        done = run_vesta("convert", "-symbolize=none", "--to=pprof", "-o", reference, path)
        status, _, body = server.post(f"/api/v1/profiles?service.name=s{i}",
                                      body=path.read_bytes(), timeout=120)
        if status != 200:
            # What cannot be read is refused by both, and what is refused is not stored.
            assert done.code != 0 or status == 422, (name, status, body)
            assert series(server, f'{{service.name="s{i}"}}') == [], name
            continue
        answer = json.loads(body)
        assert answer["stored"] + answer["duplicates"] == answer["profiles"], (name, answer)
        if done.code != 0 or not series(server, f'{{service.name="s{i}"}}'):
            continue  # no samples
        is_pprof = folder == "pprof" and path.read_bytes()[:2] == b"\x1f\x8b"
        wanted = read_pprof(path if is_pprof else reference)
        _, out = export(server, f'{{service.name="s{i}"}}', tmp_path, instant="sum")
        if folder == "otlp":  # samples of a known CPU time also count as that time
            out = out._replace(types=[t if t in wanted.types else None for t in out.types])
        assert total(out) == total(wanted), name
        assert stacks(out) == stacks(wanted), name
        n += 1
    if n == 0:
        pytest.skip(f"no file of {folder} is a profile of at most {FILE_MAX} bytes")


# ---- Heap snapshots

HEAP_PROGRAM = """
class Session { constructor(i) { this.secret = 'hunter2-' + i; } }
globalThis.kept = Array.from({length: 60000}, (_, i) => new Session(i));
require('v8').writeHeapSnapshot(process.argv[1]);
"""


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_large_heap_snapshot_becomes_a_summary(new_server, tmp_path, packed):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    path = tmp_path / "x.heapsnapshot"
    subprocess.run(["node", "-e", HEAP_PROGRAM, str(path)], check=True, timeout=60)
    content = path.read_bytes()
    assert len(content) > 5 << 20  # larger than what is held in memory
    server = new_server("--ingest-keep-heap-snapshots=true", "--limits-body", "4MiB")
    status, _, body = server.post("/api/v1/profiles?service.name=shop", timeout=120,
                                  body=gzip.compress(content, 1) if packed else content,
                                  headers={"content-encoding": "gzip"} if packed else {})
    assert status == 200, body
    answer = json.loads(body)
    assert (answer["format"], answer["stored"]) == ("heapsnapshot", 1)
    _, out = export(server, 'inuse_objects{service.name="shop"}', tmp_path)
    sessions = sum(values[0] for (stack, _), values in out.sums.items()
                   if stack and stack[0][2] and stack[0][2][0][0][0] == "Session")
    assert sessions >= 60000
    kept = server.data / "heap" / answer["kept"]
    assert kept.read_bytes() == content
    assert json.loads((server.data / "heap" / (answer["kept"] + ".json")).read_text())[
        "labels"] == {"service.name": "shop"}
    assert kept.stat().st_mode & 0o777 == 0o600
    # Nothing that a string held is in what is stored.
    stored = [p for p in server.data.rglob("*") if p.is_file() and p.parent.name != "heap"]
    assert stored and not any(b"hunter2" in p.read_bytes() for p in stored)


def test_a_bomb_is_no_heap_snapshot(new_server):
    server = new_server("--limits-upload", "8MiB")
    bomb = gzip.compress(b'{"x":[' + b"1," * (32 << 20), 9)
    status, _, body = server.post("/api/v1/profiles?service.name=a&format=heapsnapshot", body=bomb)
    assert (status, b"larger than 8388608 bytes" in body) == (413, True), body
