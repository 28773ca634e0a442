"""Programs that carry libvesta-preload.so, under the agent: what the library samples arrives with the
agent's names and identity, without anything being configured on either side."""

import os
import re
import subprocess
import sys
import time

import agent
import pytest
from agent import Agent
from conftest import run_vesta, wait_for

pytestmark = agent.needs_bpf

LIBRARY = agent.BUILD / "libvesta-preload.so"
INTERVAL = 16384
agent.BUILDS["carrier"] = ["gcc", "-O2", "-fomit-frame-pointer", "carrier.c"]


@pytest.fixture(params=[[]])
def carrier(request):
    """A process with the library in it; nobody but the agent reads what it says."""
    env = {**os.environ, "LD_PRELOAD": str(LIBRARY), "OTEL_SERVICE_NAME": "carrier",
           "VESTA_PRELOAD_INTERVAL": str(INTERVAL), "VESTA_PRELOAD_TYPES": "alloc,live"}
    process = subprocess.Popen([*request.param, agent.workload("carrier")], env=env,
                               stdin=subprocess.PIPE)
    yield process
    process.stdin.close()
    process.wait(timeout=10)


# Memory of that name which can grow: whoever writes to it waits while it is filled.
HOSTILE = """
import mmap, os, time
fd = os.memfd_create("vesta-preload")
os.ftruncate(fd, 2 << 30)
memory = mmap.mmap(fd, 4096)
while True:
    sum(range(100000))
    time.sleep(0.01)
"""


@pytest.fixture
def hostile():
    process = subprocess.Popen([sys.executable, "-c", HOSTILE])
    yield process
    process.kill()
    process.wait()


def profile_of(server, kind, service="carrier"):
    """{function: what it and its callees have} of the program."""
    done = run_vesta("convert", f'{kind}{{service.name="{service}"}}', "--from", "now-10m", "--to",
                     "collapsed", "--url", server.url)
    found = {}
    for line in done.text.splitlines():
        stack, value = line.rsplit(" ", 1)
        for name in set(stack.split(";")):
            found[name] = found.get(name, 0) + int(value)
    return found


def test_what_a_library_samples_arrives_with_the_agents_names(carrier, hostile, server, tmp_path):
    running = Agent(tmp_path, server=server)
    try:
        def both():
            alloc, heap = profile_of(server, "alloc_space"), profile_of(server, "inuse_space")
            return alloc.get("churn", 0) > 100 << 20 and heap.get("keep") and (alloc, heap)
        alloc, heap = wait_for(both, 60)
        refusal = f"process {hostile.pid}: the size of the memory at"
        counted = re.compile(r"^vesta_agent_preload_refused_total [1-9]", re.M)
        wait_for(lambda: refusal in running.log and counted.search(running.get("/metrics")))
        time.sleep(1)  # it is not asked for again
        assert running.log.count(refusal) == 1
    finally:
        running.stop()
    assert alloc["churn"] / alloc["keep"] == pytest.approx(3, rel=0.05), running.log
    # 8192 blocks of 1 KiB, one in 16 sampled: 512 samples, an error of 4 %.
    assert heap["keep"] == pytest.approx(8 << 20, rel=0.2)
    assert heap.get("churn", 0) < 256 << 10
    assert alloc["main"] == pytest.approx(alloc["churn"] + alloc["keep"], rel=0.01)


def test_an_agent_that_is_off_turns_the_library_off(carrier, server, tmp_path):
    running = Agent(tmp_path, "--gate-file", tmp_path / "gate", server=server)
    try:
        wait_for(lambda: profile_of(server, "alloc_space").get("churn"), 60)
        (tmp_path / "gate").write_text("off\n")
        running.wait_for_mode("off")

        def is_quiet():
            """Two looks apart by several windows see the same."""
            before = profile_of(server, "alloc_space").get("churn")
            time.sleep(3)
            return profile_of(server, "alloc_space").get("churn") == before
        wait_for(is_quiet, 60)
    finally:
        running.stop()


@pytest.mark.parametrize("carrier", [["setarch", "-R"]], indirect=True)
def test_a_program_that_calls_exec_is_read_on(carrier, server, tmp_path):
    """Without address space randomization the new memory is where the old one was."""
    running = Agent(tmp_path, server=server)
    try:
        wait_for(lambda: profile_of(server, "alloc_space").get("churn"), 60)
        carrier.stdin.write(b"x")
        carrier.stdin.flush()
        wait_for(lambda: profile_of(server, "alloc_space", "again").get("churn"), 60)
    finally:
        running.stop()
