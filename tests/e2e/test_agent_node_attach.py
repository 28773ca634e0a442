"""Node processes that run already, profiled from inside: the real agent opens the inspector of real
programs, takes windows of CPU time and memory, and closes it again, whatever happens.

All have one port for it, so the tests have a network of their own.
"""

import ctypes
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
from agent import Agent, needs_bpf, stacks
from conftest import wait_for

pytestmark = [needs_bpf,
              pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")]

PORT = 9229
CLONE_NEWNET = 0x40000000
QUICK = ("--types", "off", "--node-min-age", "1s", "--node-interval", "1s", "--node-duration",
         "500ms", "--limits-cpu", "1000", "--log-level", "debug")

# What V8 has inlined before the window begins counts for its caller: this is too large for that.
BURN_CPU = f"""function burnCpu(n) {{
    let x = 0;
    for (let i = 0; i < n; i++) {{ {"x = (x * 1.1 + i) % 97; " * 60} }}
    return x;
}}
"""
SERVICE = BURN_CPU + """
const http = require("node:http");
const kept = [];
function keepMemory() { kept.push(new Array(20000).fill(1.5)); if (kept.length > 300) kept.shift(); }
const server = http.createServer((q, r) => r.end(String(burnCpu(10))));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
setInterval(() => { burnCpu(5000); keepMemory(); }, 10);
"""


# V8 has one profiler of allocations: this program uses it.
OWN_SAMPLING = """
const session = new (require("node:inspector").Session)();
session.connect();
session.post("HeapProfiler.startSampling");
setInterval(() => session.post("HeapProfiler.getSamplingProfile", (error) =>
    console.log(error ? "lost" : "sampling")), 200);
"""

LIBC = ctypes.CDLL(None, use_errno=True)


def enter_own_network():
    if LIBC.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:  # ip link set lo up
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))


@pytest.fixture(autouse=True)
def own_network():
    with open("/proc/thread-self/ns/net") as before:
        try:
            enter_own_network()
        except OSError:
            pytest.skip("no network of its own can be made here")
        yield
        assert LIBC.setns(before.fileno(), CLONE_NEWNET) == 0


class Program:
    """A Node program, and what it says."""

    def __init__(self, folder, name, source, *options, is_apart=False):
        script = folder / f"{name}.js"
        script.write_text(source)
        self.err, self.out = folder / f"{name}.err", folder / f"{name}.out"
        env = {k: v for k, v in os.environ.items() if k != "NODE_OPTIONS"}
        self.process = subprocess.Popen(["node", *options, script], stdout=open(self.out, "wb"),
                                        stderr=open(self.err, "wb"),
                                        env={**env, "OTEL_SERVICE_NAME": name},
                                        preexec_fn=enter_own_network if is_apart else None)
        self.pid = self.process.pid

    def said(self, text):
        return len(re.findall(text, self.out.read_text() + self.err.read_text()))

    def answers(self):
        port = int(wait_for(self.out.read_text))
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return s.recv(100).startswith(b"HTTP/1.1 200")


@pytest.fixture
def program(tmp_path):
    started = []

    def new(*args, **kw):
        started.append(Program(tmp_path, *args, **kw))
        return started[-1]

    new.started = started
    yield new
    for p in started:
        p.process.kill()
        p.process.wait()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What one agent has read of Node's program, the next one need not."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def new_agent(tmp_path, cache, program):
    started = []

    def new(*args):
        for p in program.started:  # until then its signals may be deadly
            wait_for(p.out.read_text)
        folder = tmp_path / f"agent{len(started)}"
        folder.mkdir()
        started.append(Agent(folder, "--cache-dir", cache, *args))
        return started[-1]

    yield new
    for agent in started:
        agent.stop()


def is_open(where="thread-self"):
    """Whether somebody listens on the port of inspectors, in the network of a process."""
    lines = pathlib.Path(f"/proc/{where}/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{PORT:04X}") and line.split()[3] == "0A"
               for line in lines)


def names_of_children(agent):
    names = [pathlib.Path(f"/proc/{p}/comm").read_text().strip() for p in agent.children()]
    return {n.removeprefix("vesta-")[:8] for n in names}


def written(agent, kind, service="attach-shop"):
    found = sorted((agent.folder / "out").glob(f"{service}-{kind}-*.pb.gz"))
    return [f for f in found if f.with_name(f.name + ".json").exists()]


def of_functions(profile, name):
    return sum(v for stack, v in stacks(profile).items() if any(name in f for f in stack))


def test_profiles_name_what_burns_and_what_keeps(program, new_agent):
    shop = program("attach-shop", SERVICE)
    boxed = program("attach-boxed", SERVICE + OWN_SAMPLING, is_apart=True)
    agent = new_agent("--node-attach", "service:attach-*", "--node-containers", *QUICK)
    wait_for(lambda: len(written(agent, "cpu")) >= 2 and len(written(agent, "inuse_space")) >= 2)
    wait_for(lambda: written(agent, "cpu", "attach-boxed"))
    assert of_functions(written(agent, "cpu", "attach-boxed")[0], "burnCpu") > 0
    assert not written(agent, "inuse_space", "attach-boxed")  # that would end what it does itself
    assert boxed.said("sampling") and not boxed.said("lost")

    cpu, heap = written(agent, "cpu")[0], written(agent, "inuse_space")[0]
    total = sum(stacks(cpu).values())
    assert of_functions(cpu, "burnCpu") > total * 0.5, stacks(cpu)
    kept = of_functions(heap, "keepMemory")
    assert kept > max(sum(stacks(heap).values()) / 2, 160000), stacks(heap)
    assert of_functions(cpu, "(idle)") == 0
    about = json.loads(cpu.with_name(cpu.name + ".json").read_text())
    assert about["service"] == "attach-shop"

    wait_for(lambda: not is_open())
    wait_for(lambda: not is_open(boxed.pid))
    assert shop.answers() and boxed.process.poll() is None
    assert shop.said("Debugger listening on ws://127.0.0.1:9229/") >= 2
    assert "vesta_agent_node_samples_total" in agent.get("/metrics")


def test_the_inspector_is_closed_when_a_window_is_cut_short(program, new_agent):
    shop = program("attach-shop", SERVICE)
    agent = new_agent("--node-attach", f"pid:{shop.pid}", *QUICK, "--node-duration", "60s")
    wait_for(lambda: shop.said("Debugger attached"))
    relay = [p for p in agent.children()
             if pathlib.Path(f"/proc/{p}/comm").read_text() == "vesta-relay\n"]
    os.kill(relay[0], signal.SIGKILL)
    # Closed over a second connection; then there is another window.
    wait_for(lambda: shop.said("Debugger listening") == 2 and shop.said("Debugger attached") == 3)
    time.sleep(0.5)  # something to tell
    assert agent.stop() == 0
    assert not is_open()
    assert of_functions(written(agent, "cpu")[0], "burnCpu") > 0  # what there was of it
    assert shop.answers()


def test_the_inspector_is_closed_when_the_agent_is_killed(program, new_agent):
    shop = program("attach-shop", SERVICE)
    agent = new_agent("--node-attach", f"pid:{shop.pid}", *QUICK, "--node-duration", "60s")
    wait_for(lambda: shop.said("Debugger attached"))
    agent.process.kill()
    wait_for(lambda: not is_open())
    assert shop.answers()


def test_who_cannot_take_the_signal_is_left_alone(program, new_agent):
    wait = "setInterval(() => {}, 1000); console.log('ready');"
    # SIGUSR1 would end the first; the second's inspector is its owner's business.
    deadly = program("left-deadly", "const f = () => {}; process.on('SIGUSR1', f);"
                                    "process.off('SIGUSR1', f);" + wait)
    told = program("left-told", wait, "--inspect-port=9333")
    own = program("left-own", "process.on('SIGUSR1', () => console.log('a signal'));" + wait)
    apart = program("left-apart", wait, is_apart=True)
    # What it was told, nobody can see any more: or never could.
    titled = program("left-titled", "process.title = 'shop';" + wait,
                     "--inspect-port=0.0.0.0:9229")
    wide = program("left-wide", "process.on('SIGUSR1', () => require('node:inspector')"
                                ".open(9229, '0.0.0.0'));" + wait)
    marked = program("left-marked", "globalThis[Symbol.for('vesta.node.x')] = 1;" + wait)
    stopped = program("late-stopped", wait)
    other = program("other", "process.on('SIGUSR1', () => console.log('a signal'));" + wait)
    wait_for(lambda: stopped.said("ready"))
    stopped.process.send_signal(signal.SIGSTOP)
    agent = new_agent("--node-attach", "service:left-*", *QUICK)
    late = new_agent("--node-attach", "service:late-*", *QUICK)
    unasked = new_agent(*QUICK)
    resting = new_agent("--node-attach", "service:other", "--mode", "off", *QUICK)

    for p, why in ((deadly, "it has no handler for SIGUSR1, which would end it"),
                   (told, "its owner has said something about its inspector"),
                   (marked, "the program profiles itself"),
                   (apart, "it is in a network of its own"),
                   (titled, "its command line is not the one that it was started with"),
                   (wide, "its inspector has opened at 0.0.0.0:9229, where others may reach it"),
                   (own, "SIGUSR1 opened no inspector in 3 s")):
        wait_for(lambda: f"process {p.pid} is not attached to: {why}" in agent.log)
    none_yet = f"process {stopped.pid} is not attached to: SIGUSR1 opened no inspector in 3 s"
    wait_for(lambda: none_yet in late.log)
    resting.wait_for_mode("off")
    assert stopped.said("Debugger listening") == 0
    stopped.process.send_signal(signal.SIGCONT)  # now the signal is handled, and it is seen to
    wait_for(lambda: stopped.said("Debugger attached") and not is_open())
    assert own.said("a signal") == 1  # and never again
    assert not is_open()
    for p in (deadly, told, own, apart, titled, wide, marked, other):
        assert p.process.poll() is None
        assert p.said("Debugger listening") == (p in (marked, wide))
    assert other.said("a signal") == 0
    assert "attacher" in names_of_children(agent)
    assert "attacher" not in names_of_children(unasked)  # who has no such option sends nothing


def test_an_inspector_that_opens_late_is_closed_as_well(program, new_agent):
    """Node handles the signal once more when its event loop comes around: here, after the window."""
    busy = program("attach-busy", """
        const { readFileSync } = require("node:fs");
        const burnCpu = (ms) => { const end = Date.now() + ms; while (Date.now() < end); };
        setTimeout(() => {
            while (!readFileSync("/proc/self/fd/2", "utf8").includes("Debugger attached"))
                burnCpu(10);
            while (readFileSync("/proc/self/net/tcp", "utf8").includes(":240D 00000000:0000 0A"))
                burnCpu(10);
            burnCpu(200);
            console.log("done");
        }, 100);
        setInterval(() => {}, 1000);
        console.log("ready");""")
    new_agent("--node-attach", f"pid:{busy.pid}", *QUICK, "--node-interval", "5m")
    wait_for(lambda: busy.said("done"))
    wait_for(lambda: busy.said("Debugger attached") == 2 and not is_open())
    assert busy.process.poll() is None


def test_who_begins_to_listen_elsewhere_is_no_inspector_for_good(program, new_agent):
    web = program("attach-web", """
        const inspector = require("node:inspector");
        process.on("SIGUSR1", () => require("node:http").createServer((request, response) => {
            response.statusCode = 404;
            response.end();
        }).listen(0, "0.0.0.0"));
        process.on("SIGUSR2", () => inspector.open(9229, "127.0.0.1"));
        setInterval(() => {}, 1000);
        console.log("ready");""")
    agent = new_agent("--node-attach", f"pid:{web.pid}", *QUICK)
    wait_for(lambda: f"the inspector of process {web.pid} may be open at 0.0.0.0:" in agent.log)
    assert not web.said("Debugger listening")
    web.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: web.said("Debugger attached") and not is_open())
    assert agent.log.count("may be open at") == 1


def test_a_program_that_ends_does_not_wait_for_the_window(program, new_agent):
    ends = program("attach-ends", """
        function burnCpu(ms) { const end = Date.now() + ms; while (Date.now() < end); }
        setInterval(() => burnCpu(5), 10);
        process.on("SIGTERM", () => { burnCpu(500); process.exit(7); });
        console.log("ready");""")
    agent = new_agent("--node-attach", f"pid:{ends.pid}", *QUICK, "--node-duration", "60s")
    wait_for(lambda: ends.said("Debugger attached"))
    ends.process.terminate()
    assert ends.process.wait(10) == 7
    # What there was of it.
    assert of_functions(wait_for(lambda: written(agent, "cpu", "attach-ends"))[0], "burnCpu") > 0
