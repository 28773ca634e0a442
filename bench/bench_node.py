"""What profiling costs a Node service.

    make bench-node

A service that answers with JSON runs under a load that never lets up. In one running process,
profiling is switched on and off in slices, in an order that changes; a slice with it is compared
with the slice without beside it. The service and its load have a CPU each. Pairs of slices go on
until the loss is known well enough, or the time is over (steady.py; BENCH_SECONDS is for each row).
Prints "metric: value unit".

  node_requests_per_s   without profiling
  node_cpu_loss_pct     throughput, CPU profile at 10 ms without pause
  node_heap_loss_pct    live heap, sampled every 512 KiB
  node_alloc_loss_pct   allocations, the same
  node_start_loss_pct   start(): CPU, allocations and event loop together, as it is by default
  node_spans_loss_pct   CPU profile of a service with a span for every request, samples linked to them
  node_no_spans_loss_pct   the same service, samples not linked (spans: false)
  node_aa_pct           off against off: what the machine does itself
  ..._cpu_per_request   the same by CPU time of the whole process for each request
  ..._window_cpu_ms     what a window takes once, to start and to end: not part of the above
  ..._half, ..._pairs   half of the 95 % interval, and what it was taken from
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

from steady import HALF, estimate, on_cpu, percent_more, rounds, say, say_estimate

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
SECONDS = float(os.environ.get("SECONDS_EACH", "2"))
SETTLE = 0.5  # after a change, before it counts
ROW_SECONDS = float(os.environ.get("BENCH_SECONDS", "180"))
NODE = os.environ.get("NODE", "node")
SERVICE_CPU, LOAD_CPU = 0, 1


class Service:
    def __init__(self, **env):
        self.process = subprocess.Popen([NODE, ROOT / "bench" / "node" / "service.mjs"],
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **env}, preexec_fn=on_cpu(SERVICE_CPU))
        port = self.process.stdout.readline().split()[0]
        self.base = f"http://127.0.0.1:{port}"
        self.load = subprocess.Popen(["wrk", "-t1", "-c16", "-d3600s", self.base + "/report"],
                                     stdout=subprocess.DEVNULL, preexec_fn=on_cpu(LOAD_CPU))

    def ask(self, path):
        with urllib.request.urlopen(self.base + path, timeout=30) as answer:
            return json.load(answer)

    def slice(self, mode):
        """Requests a second, and CPU seconds for each, once it has settled; and the CPU seconds that
        getting there took beyond those of its requests."""
        change = self.ask(f"/mode?is={mode}")
        time.sleep(SETTLE)
        first = self.ask("/count")
        time.sleep(SECONDS)
        then = self.ask("/count")
        each = then["cpu"] / then["requests"]
        extra = [part["cpu"] - part["requests"] * each for part in (change, first)]
        return then["requests"] / then["seconds"], each, sum(extra)

    def close(self):
        self.load.kill()
        self.process.kill()
        self.process.wait()


def compare(service, mode):
    """Of slices without profiling and with it: requests a second, CPU seconds for each, and what
    the change took."""
    costs, changes = {"off": [], "on": []}, {"off": [], "on": []}

    def slice_of(which):
        rate, cost, change = service.slice("off" if which == "off" else mode)
        costs[which].append(cost)
        changes[which].append(change)
        return rate

    rates = rounds(["off", "on"], slice_of, loss, HALF, ROW_SECONDS)
    return rates, costs, changes


def loss(rates):
    return [-more for more in percent_more(rates, "on", "off")]


def opentelemetry():
    """A folder with OpenTelemetry's packages."""
    folder = BUILD / "bench-opentelemetry"
    if not (folder / "node_modules" / "@opentelemetry").exists():
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--no-save", "--silent", "@opentelemetry/api@1.9.0",
                        "@opentelemetry/sdk-trace-node@2.0.1"], cwd=folder, check=True)
    return folder


def measure(env, modes):
    """One process for all modes: only what is switched differs."""
    service = Service(**env)
    try:
        for _ in range(4):
            service.slice("off")
        for name, mode in modes:
            rates, costs, changes = compare(service, mode)
            if mode == "off":
                say(f"{name.removesuffix('_aa')}_requests_per_s", statistics.median(rates["off"]),
                    "1/s")
            suffix = "" if mode == "off" else "_loss"
            say_estimate(f"{name}{suffix}_pct", estimate(loss(rates)), rounds="pairs")
            say_estimate(f"{name}{suffix}_cpu_per_request",
                         estimate(percent_more(costs, "on", "off")), rounds="pairs")
            if mode != "off":
                # Each was started once and ended once, whatever came before and behind.
                say(f"{name}_window_cpu_ms", 1e3 * statistics.mean(
                    off + on for off, on in zip(changes["off"], changes["on"])), "ms")
    finally:
        service.close()


def main():
    if not shutil.which("wrk"):
        print("wrk is missing: apt-get install wrk", file=sys.stderr)
        return 1
    folder = ROOT / "sdk" / "node"
    if not (folder / "node_modules").exists():
        subprocess.run(["npm", "install", "--no-save", "--silent"], cwd=folder, check=True)
    subprocess.run(["node", "build.mjs"], cwd=folder, check=True)
    measure({}, (("node_aa", "off"), ("node_cpu", "cpu"), ("node_heap", "heap"),
                 ("node_alloc", "alloc"), ("node_start", "all")))
    measure({"OTEL_FOLDER": str(opentelemetry())},
            (("node_traced_aa", "off"), ("node_spans", "cpu"),
             ("node_no_spans", "cpu_without_spans")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
