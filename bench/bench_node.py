"""What profiling costs a Node service.

    make bench-node

A service that answers with JSON runs under a load that never lets up. In one running process,
profiling is switched on and off in slices, in an order that changes; a slice with it is compared
with the slice without beside it. Prints "metric: value unit": means of the pairs, with half of the
95 % interval.

  node_requests_per_s   without profiling
  node_cpu_loss_pct     throughput, CPU profile at 10 ms without pause
  node_heap_loss_pct    live heap, sampled every 512 KiB
  node_alloc_loss_pct   allocations, the same
  node_start_loss_pct   start(): CPU, allocations and event loop together, as it is by default
  node_spans_loss_pct   CPU profile of a service with a span for every request, samples linked to them
  node_no_spans_loss_pct   the same service, samples not linked (spans: false)
  node_aa_pct           off against off: what the machine does itself
  ..._cpu_per_request   the same by CPU time of the whole process for each request
"""

import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
PAIRS = int(os.environ.get("PAIRS", "24"))
SECONDS = float(os.environ.get("SECONDS_EACH", "2.5"))
NODE = os.environ.get("NODE", "node")


def say(metric, value, unit):
    print(f"{metric}: {value:.4g} {unit}", flush=True)


class Service:
    def __init__(self, **env):
        self.process = subprocess.Popen([NODE, ROOT / "bench" / "node" / "service.mjs"],
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **env})
        port = self.process.stdout.readline().split()[0]
        self.base = f"http://127.0.0.1:{port}"
        self.load = subprocess.Popen(["wrk", "-t1", "-c16", "-d3600s", self.base + "/report"],
                                     stdout=subprocess.DEVNULL)

    def ask(self, path):
        with urllib.request.urlopen(self.base + path, timeout=30) as answer:
            return json.load(answer)

    def slice(self, mode):
        """Requests a second, and CPU seconds for each."""
        self.ask(f"/mode?is={mode}")
        time.sleep(SECONDS)
        got = self.ask("/count")
        return got["requests"] / got["seconds"], got["cpu"] / got["requests"]

    def close(self):
        self.load.kill()
        self.process.kill()
        self.process.wait()


def compare(service, mode):
    """Losses of each pair, in percent: of throughput, and of CPU for each request."""
    losses, costs, rates = [], [], []
    for _ in range(PAIRS):
        order = ["off", mode] if random.random() < 0.5 else [mode, "off"]
        got = [service.slice(which) for which in order]
        on, off = (got[1], got[0]) if order[0] == "off" else (got[0], got[1])
        losses.append((1 - on[0] / off[0]) * 100)
        costs.append((on[1] / off[1] - 1) * 100)
        rates.append(off[0])
    return losses, costs, rates


def half(values):
    return 1.96 * statistics.stdev(values) / len(values) ** 0.5


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
            losses, costs, rates = compare(service, mode)
            if mode == "off":
                say(f"{name.removesuffix('_aa')}_requests_per_s", statistics.median(rates), "1/s")
            suffix = "" if mode == "off" else "_loss"
            say(f"{name}{suffix}_pct", statistics.mean(losses), f"% (+- {half(losses):.2g})")
            say(f"{name}{suffix}_cpu_per_request", statistics.mean(costs),
                f"% (+- {half(costs):.2g})")
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
