"""What tests of the agent share: workloads built once, recordings of them, stacks with their shares."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.request

import pytest
from conftest import wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "tests" / "workloads"
BUILD = pathlib.Path(os.environ.get("VESTA_BUILD", ROOT / "build"))
AGENT = BUILD / "vesta-agent"
MADE = BUILD / "workloads"

BUILDS = {
    "plain": ["gcc", "-O2", "-fomit-frame-pointer", "plain.c"],
    "deep": ["gcc", "-O2", "-fomit-frame-pointer", "deep.c"],
    "sorted": ["gcc", "-O2", "-fomit-frame-pointer", "sorted.c"],
    "signals": ["gcc", "-O2", "-fomit-frame-pointer", "signals.c"],
    "plugin.so": ["gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "plugin.c"],
    "loads": ["gcc", "-O2", "-fomit-frame-pointer", "loads.c", "-ldl"],
    "threads": ["gcc", "-O2", "-fomit-frame-pointer", "threads.c", "-pthread"],
    "forks": ["gcc", "-O2", "-fomit-frame-pointer", "forks.c"],
    "shapes": ["g++", "-O2", "-g", "-fomit-frame-pointer", "shapes.cpp"],
    "static": ["gcc", "-O2", "-static", "-fomit-frame-pointer", "plain.c"],
    "static-pie": ["gcc", "-O2", "-static-pie", "-fomit-frame-pointer", "plain.c"],
    "musl": ["musl-gcc", "-O2", "-static", "-fomit-frame-pointer", "plain.c"],
    "rust": ["rustc", "-O", "work.rs"],
}


def why_not():
    """Why this machine cannot be profiled with BPF, or ''."""
    if os.geteuid() != 0:
        return "needs root"
    out = tempfile.mktemp(suffix=".collapsed")
    tried = subprocess.run([AGENT, "record", "-q", "-o", out, "--cache-dir", "", "--", "sha256sum",
                            AGENT], capture_output=True, text=True)
    pathlib.Path(out).unlink(missing_ok=True)
    return f"this machine cannot: {tried.stderr[-300:]}" if tried.returncode == 1 else ""


WHY_NOT = why_not()
needs_bpf = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def workload(name):
    """The path of a workload, built unless that was done."""
    if name == "go":
        return go_workload()
    path = MADE / name
    command = list(BUILDS[name])
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    sources = [WORKLOADS / word for word in command if re.search(r"\.(c|cpp|rs)$", word)]
    newest = max(s.stat().st_mtime for s in [*sources, WORKLOADS / "work.h"])
    if path.exists() and path.stat().st_mtime > newest:
        return path
    MADE.mkdir(exist_ok=True)
    command = [str(WORKLOADS / w) if re.search(r"\.(c|cpp|rs)$", w) else w for w in command]
    fresh = path.with_suffix(f".{os.getpid()}")
    subprocess.run([*command, "-o", str(fresh)], check=True)
    fresh.rename(path)
    return path


def go_workload():
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    path = MADE / "gowork"
    MADE.mkdir(exist_ok=True)
    subprocess.run(["go", "build", "-o", path, "."], cwd=WORKLOADS / "gowork", check=True,
                   env={**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"})
    return path


def record(path, output, *args, rate=199, options=()):
    """Profiles a command from its start to its end; the collapsed text."""
    done = subprocess.run(
        [AGENT, "record", "-q", "-F", str(rate), "-o", output, "--limits-young", "600ms", *options,
         "--cache-dir",
         MADE / "cache", "--", path, *args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(output)


def stacks(path):
    """{(outermost, ..., innermost): value} of a profile."""
    text = subprocess.run([BUILD / "vesta", "convert", "-symbolize=none", path, "--to", "collapsed"],
                          capture_output=True, text=True, check=True).stdout
    found = collections.Counter()
    for line in text.splitlines():
        stack, value = line.rsplit(" ", 1)
        found[tuple(stack.split(";"))] += int(value)
    return found


def share_of(found, name):
    """Of all, the share of stacks that a function whose name starts so is in."""
    total = sum(found.values())
    part = sum(v for stack, v in found.items() if any(f.startswith(name) for f in stack))
    return part / total if total else 0


def complete_share(found):
    """Of stacks of processes that are not young, the share that reaches the outermost frame."""
    old = {s: v for s, v in found.items() if not any("younger" in f for f in s)}
    total = sum(old.values())
    cut = sum(v for s, v in old.items() if any(f.startswith("[cut") for f in s))
    return 1 - cut / total if total else 0


class Agent:
    """A running agent with folders of its own; it backs off from nothing, as hosts of tests are
    busy."""

    def __init__(self, folder, *args, server=None):
        self.folder = folder
        folder.chmod(0o755)
        for parent in folder.parents:  # `nobody` has to get there
            if parent.owner() == "root" and parent != pathlib.Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        self.log_path = folder / "agent.log"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "VESTA_"))}
        to = ["--exporters", server.url] if server else ["--exporters", f"file:{folder}/out"]
        self.process = subprocess.Popen(
            [AGENT, *to, "--listen", "127.0.0.1:0", "--state-dir", folder / "state", "--spool-dir",
             folder / "spool", "--cache-dir", folder / "cache", "--backoff-host-cpu", "0",
             "--window", "2s", *map(str, args)],
            stdout=subprocess.DEVNULL, stderr=open(self.log_path, "ab"), env=clean)

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def address(self):
        found = wait_for(lambda: self.process.poll() is not None or
                         re.findall(r"/status are at (\S+)", self.log))
        assert found is not True, self.log
        return found[-1]  # another one when the relay was started again

    def get(self, path, host=None):
        request = urllib.request.Request(f"http://{self.address}{path}")
        if host:
            request.add_header("Host", host)
        return urllib.request.urlopen(request, timeout=10).read().decode()

    def status(self):
        return json.loads(self.get("/status"))

    def wait_for_mode(self, mode):
        wait_for(lambda: (self.status()["agent"] or {}).get("mode") == mode)

    def children(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in text.split()]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.stop()
