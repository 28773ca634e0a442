"""What the agent costs on a machine whose cores are all busy.

    make bench-agent

The mix is a Node program, a Python program, a compiler and (where it is installed) a database under
pgbench. The agent's cost is the CPU time of all its processes, as the scheduler counts it, and the
run time of its programs in the kernel. Prints lines "metric: value unit".

  agent_cpu_pct_19hz, agent_cpu_pct_99hz   of one core, on the mix, after a first minute
  agent_rss_mb               peak of the sum of PSS of its processes, without the tables it shares
                             with the kernel
  tables_mb                  unwind tables of the mix, in the kernel
  wire_bytes_per_s           sent at 19 Hz, compressed
  throughput_loss_pct_99hz   upper end of the 95 % interval of the loss of work per CPU second while
                             sampled at 99 Hz, against pairs of slices without
  throughput_loss_mean_pct_99hz   and its middle
  aa_control_pct             the same (upper end) with nobody signalled: what the machine does itself
  perf_fp_cpu_pct, perf_dwarf_cpu_pct   perf record -g and --call-graph dwarf at 99 Hz, CPU of perf
  cpu_vs_perf_fp, cpu_vs_perf_dwarf     agent at 99 Hz over those: less is better
  bytes_vs_perf_dwarf        bytes sent a second at 99 Hz over bytes written by perf a second
  wall_500_threads_pct       of one core: wall clock of 500 threads at 10 Hz
  off_cpu_ns_per_switch      added to a context switch of a profiled process
  off_cpu_others_ns_per_switch   and of others
  tables_known_mb            tables of node, libjvm, libstdc++ and libc, where they are installed
"""

import contextlib
import http.server
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
SECONDS = int(os.environ.get("SECONDS_EACH", "40"))
WARM = int(os.environ.get("SECONDS_WARM", "60"))
PAIRS = int(os.environ.get("PAIRS", "150"))

NODE = """
const f = n => { let o = {}; for (let i = 0; i < n; i++) o['k' + i] = [i, 'v' + i];
  return JSON.stringify(JSON.parse(JSON.stringify(o))).length };
for (;;) f(500);
"""
PYTHON = """
import json
def work(n):
    return sum(len(json.dumps({str(i): [i] * 3})) for i in range(n))
while True:
    work(2000)
"""
COMPILE = "while :; do gcc -O2 -c {source} -o /dev/null; done"


def say(metric, value, unit):
    print(f"{metric}: {value:.4g} {unit}", flush=True)


class Sink(http.server.ThreadingHTTPServer):
    """Takes what an agent sends, and counts it."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.bytes = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        n = int(self.headers.get("content-length", 0))
        self.rfile.read(n)
        if "profiles" in self.path:
            self.server.bytes += n + 300  # and the head
        status = 200 if "profiles" in self.path else 404
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *args):
        pass


def database(folder):
    """pgbench against a server of its own; () where there is none."""
    if not shutil.which("initdb") or not shutil.which("pgbench") or os.geteuid() != 0:
        return ()
    data = folder / "pg"
    data.mkdir()
    shutil.chown(folder, "nobody")
    shutil.chown(data, "nobody")
    as_nobody = ["setpriv", "--reuid", "nobody", "--clear-groups", "--"]
    try:
        subprocess.run([*as_nobody, "initdb", "-D", data, "-A", "trust", "-U", "nobody"],
                       check=True, capture_output=True, cwd="/")
        server = subprocess.Popen([*as_nobody, "postgres", "-D", data, "-k", data, "-h", "",
                                   "-c", "fsync=off"], stderr=subprocess.DEVNULL, cwd="/")
        time.sleep(3)
        url = f"postgres://nobody@/postgres?host={data}"
        subprocess.run(["pgbench", "-i", "-q", url], check=True, capture_output=True, timeout=60)
        load = subprocess.Popen(["pgbench", "-c", "2", "-T", "100000", url],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return server, load
    except (subprocess.SubprocessError, OSError) as e:
        print(f"# no database in the mix: {e}", file=sys.stderr)
        return ()


@contextlib.contextmanager
def mix(folder):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = [
        subprocess.Popen(["node", "-e", NODE], **quiet),
        subprocess.Popen(["python3", "-c", PYTHON], **quiet),
        subprocess.Popen(["sh", "-c", COMPILE.format(source=shutil.copy(
            ROOT / "bench" / "toggled_load.c", folder / "x.c"))], **quiet, start_new_session=True),
        *database(folder),
    ]
    try:
        yield
    finally:
        for p in reversed(running):
            with contextlib.suppress(ProcessLookupError):
                p.send_signal(signal.SIGINT if "postgres" in str(p.args) else signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running[2].pid, signal.SIGKILL)
        for p in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(10)


class Agent:
    def __init__(self, *args):
        self.sink = Sink()
        self.folder = tempfile.TemporaryDirectory()
        self.port = 20000 + random.randrange(20000)
        url = f"http://127.0.0.1:{self.sink.server_address[1]}"
        self.process = subprocess.Popen(
            [BUILD / "vesta-agent", "--exporters", url, "--server", "off", "--spool-dir", "",
             "--state-dir", self.folder.name, "--cache-dir", "", "--backoff-host-cpu", "0",
             "--listen", f"127.0.0.1:{self.port}", "--log-level", "warn", *args])
        self.peak = 0
        self.ended = False
        threading.Thread(target=self.watch, daemon=True).start()

    def pids(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text().split())]

    def watch(self):
        while not self.ended:
            with contextlib.suppress(OSError):
                self.peak = max(self.peak, sum(private_bytes(p) for p in self.pids()))
            time.sleep(1)

    def metric(self, name):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics").read().decode()
        return float(re.search(rf"^vesta_agent_{name} (\S+)$", text, re.M).group(1))

    def cpu(self):
        """Seconds so far: processes, as the scheduler counts, and programs in the kernel."""
        ns = sum(int(pathlib.Path(f"/proc/{p}/schedstat").read_text().split()[0])
                 for p in self.pids())
        return ns / 1e9 + self.metric("bpf_seconds_total")

    def cost(self, seconds, warm):
        time.sleep(warm)
        before, sent, start = self.cpu(), self.sink.bytes, time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - start
        return (self.cpu() - before) / took * 100, (self.sink.bytes - sent) / took

    def stop(self):
        self.ended = True
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.sink.shutdown()
        self.folder.cleanup()


def private_bytes(pid):
    """PSS without the maps that are shared with the kernel: those are the tables."""
    total, is_map = 0, False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            is_map = "anon_inode:bpf-map" in line or "bpf" in line.rsplit(" ", 1)[-1]
        elif line.startswith("Pss:") and not is_map:
            total += int(line.split()[1]) * 1024
    return total


def perf_cost(seconds, *how):
    """CPU of perf in percent of one core, and bytes a second."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "perf.data"
        before = os.times()
        subprocess.run(["perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "99", *how, "-o",
                        out, "--", "sleep", str(seconds)], check=True, capture_output=True)
        after = os.times()
        used = after.children_user + after.children_system - (before.children_user +
                                                              before.children_system)
        return used / seconds * 100, out.stat().st_size / seconds


def loss(pid, pairs):
    """Loss of work in percent, with the upper end of its 95 % interval, by bootstrap."""
    text = subprocess.run([BUILD / "bench" / "toggled_load", str(pid), str(pairs), "200"],
                          check=True, capture_output=True, text=True).stdout
    losses = []
    for line in text.splitlines():
        on, off = map(float, line.split())
        losses.append((1 - on / off) * 100)

    def trimmed(values):
        values = sorted(values)
        cut = len(values) // 5
        return statistics.fmean(values[cut:len(values) - cut])

    means = sorted(trimmed(random.choices(losses, k=len(losses))) for _ in range(1000))
    return trimmed(losses), means[974]


def measure_mix():
    with tempfile.TemporaryDirectory() as folder, mix(pathlib.Path(folder)):
        agent = Agent("--rate", "19")
        cpu, wire = agent.cost(SECONDS, WARM)
        say("agent_cpu_pct_19hz", cpu, "% of one core")
        say("wire_bytes_per_s", wire, "B/s")
        say("agent_rss_mb", agent.peak / 1e6, "MB")
        say("tables_mb", agent.metric("table_bytes") / 1e6, "MB")
        agent.stop()
        agent = Agent("--rate", "99")
        cpu, wire = agent.cost(SECONDS, WARM)
        say("agent_cpu_pct_99hz", cpu, "% of one core")
        say("agent_rss_mb_99hz", agent.peak / 1e6, "MB")
        say("wire_bytes_per_s_99hz", wire, "B/s")
        agent.stop()
        if not shutil.which("perf"):
            print("# perf is not installed", file=sys.stderr)
            return
        fp, _ = perf_cost(SECONDS, "-g")
        dwarf, dwarf_bytes = perf_cost(SECONDS, "--call-graph", "dwarf")
        say("perf_fp_cpu_pct", fp, "% of one core")
        say("perf_dwarf_cpu_pct", dwarf, "% of one core")
        say("cpu_vs_perf_fp", cpu / fp, "ratio")
        say("cpu_vs_perf_dwarf", cpu / dwarf, "ratio")
        say("bytes_vs_perf_dwarf", wire / dwarf_bytes, "ratio")


def measure_loss():
    control, control_upper = loss(0, PAIRS)
    agent = Agent("--rate", "99")
    time.sleep(10)
    middle, upper = loss(agent.process.pid, PAIRS)
    agent.stop()
    say("throughput_loss_mean_pct_99hz", middle, "%")
    say("throughput_loss_pct_99hz", upper, "%")
    say("aa_control_mean_pct", control, "%")
    say("aa_control_pct", control_upper, "%")
    say("throughput_loss_over_control", upper - control_upper, "points")


def measure_wall():
    threads = BUILD / "bench" / "threads"
    subprocess.run(["gcc", "-O2", ROOT / "tests" / "workloads" / "threads.c", "-o", threads,
                    "-pthread"], check=True)
    load = subprocess.Popen([threads, "600", "500"])
    idle = Agent("--types", "cpu", "--include", "*/threads")
    base, _ = idle.cost(15, 15)
    idle.stop()
    agent = Agent("--types", "cpu,wall", "--include", "*/threads")
    cpu, _ = agent.cost(20, 15)
    agent.stop()
    load.kill()
    load.wait()
    say("wall_500_threads_pct", cpu - base, "% of one core")


def switch_ns():
    return float(subprocess.run([BUILD / "bench" / "switch_load", "2"], check=True,
                                capture_output=True, text=True).stdout)


def measure_switches():
    def with_agent(include):
        agent = Agent("--types", "cpu,offcpu", "--include", include)
        time.sleep(6)
        values = [switch_ns() for _ in range(3)]
        agent.stop()
        return statistics.median(values)

    plain, own, others = [], [], []
    for _ in range(3):
        plain.append(statistics.median(switch_ns() for _ in range(3)))
        own.append(with_agent("*/switch_load"))
        others.append(with_agent("*/nobody-runs-this"))
    say("switch_ns", statistics.median(plain), "ns")
    say("off_cpu_ns_per_switch", statistics.median(own) - statistics.median(plain), "ns")
    say("off_cpu_others_ns_per_switch", statistics.median(others) - statistics.median(plain), "ns")


PARTS = {"mix": measure_mix, "loss": measure_loss, "wall": measure_wall,
         "switches": measure_switches}


def main():
    if os.geteuid() != 0:
        sys.exit("bench-agent needs root: it profiles the machine")
    subprocess.run(["ninja", "-C", BUILD, "--quiet", "bench/toggled_load", "bench/switch_load",
                    "vesta-agent"], check=True)
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
