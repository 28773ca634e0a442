"""The server under load: set R over HTTP and gRPC, questions, idle and too many connections.

    make bench-server

The server runs on one core with everything on (sync before every answer), the client on the other.
Prints lines "metric: value unit" and ratios from this one run.

  ingest_profiles_per_s      R by HTTP/1.1 as gzipped pprof, 16 connections
  ingest_per_cpu_s           the same by second of CPU that all threads of the server used
  ingest_vs_in_process       seconds of CPU for R within a process (eight senders), over those of
                             the server: 1 would be a server that costs nothing
  ingest_p50_ms, ingest_p99_ms   at half of that rate, from when a request was due
  otlp_grpc_profiles_per_s, otlp_grpc_per_cpu_s, otlp_grpc_p99_ms   R as OTLP over gRPC, gzipped
  flame_http_ms              flame tree of the hour of R, JSON, warm, median
  flame_columns_http_ms      the same as columns for the UI
  queries_200_ingest_share   rate of ingest while 200 clients ask, over the rate without
  idle_5000_conn_mb          resident memory that 5,000 idle kept connections add
  overload_peak_rss_mb       peak of the server while 1,000 connections send as fast as they can
  overload_goodput_share     profiles stored a second then, over ingest_profiles_per_s
  overload_refused           of those requests, answered with 429 and a delay
"""

import http.client
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
DATA = BUILD / "bench-data"
WORK = BUILD / "bench-server"
FROM, UNTIL = 1749996003, 1749999603  # the hour of set R: bench/store_data.h
QUERY = urllib.parse.urlencode({"query": 'cpu{service.name="shop"}', "from": FROM, "until": UNTIL})


class Server:
    """A server on core 0 with an empty store."""

    def __init__(self, *args):
        shutil.rmtree(WORK, ignore_errors=True)
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", BUILD / "vesta", "server", "--data", WORK, "--listen",
             "127.0.0.1:0", "--listen-otlp-grpc", "off", "--listen-otlp-http", "off",
             "--retention-profiles", "3000d", "--log-level", "warn", *args],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, what):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(what + r":\s+(\d+)", text)[1]) / 1024

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {body[:300]}")
        return body

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def emit(name, value, text):
    print(f"{name}: {value:.3f} {text}" if isinstance(value, float) else f"{name}: {value} {text}",
          flush=True)


def load(server, mode, connections=16, rate=0, profiles=3600):
    """Sends; (seconds, answered, refused, p50, p99, CPU seconds of the server)."""
    before = server.cpu()
    done = subprocess.run(
        ["taskset", "-c", "1", BUILD / "bench/load_client", str(server.port), DATA, mode,
         str(connections), str(rate), str(profiles)], capture_output=True, text=True)
    found = re.match(r"([\d.]+) s, (\d+) answered, (\d+) refused, p50 ([\d.]+) ms, p99 ([\d.]+)",
                     done.stdout)
    if not found:
        sys.exit(done.stderr or done.stdout)
    return [float(v) for v in found.groups()] + [server.cpu() - before]


def in_process():
    """CPU seconds of all of R within a process, or None."""
    work = BUILD / "bench-inprocess"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    with subprocess.Popen(["taskset", "-c", "0", BUILD / "bench/measure_store", "r", DATA, work],
                          stdout=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            if found := re.match(r"r_ingest_s: ([\d.]+) s, ([\d.]+) of CPU", line):
                p.kill()
                return float(found[2])
    return None


def ingest():
    server = Server()
    took, answered, refused, _, _, cpu = load(server, "pprof")
    rate = answered / took
    if refused:
        sys.exit(f"{refused} requests were refused")
    emit("ingest_profiles_per_s", rate, "profiles/s over HTTP/1.1, server on one core")
    emit("ingest_per_cpu_s", answered / cpu, "profiles per CPU second of the server")
    if inside := in_process():
        emit("ingest_vs_in_process", inside / cpu, "of the in-process rate (CPU)")
    for name, path in (("flame_http_ms", ""), ("flame_columns_http_ms", "&format=columns")):
        times = []
        for _ in range(21):
            start = time.perf_counter()
            body = server.get(f"/api/v1/flame?{QUERY}{path}")
            times.append((time.perf_counter() - start) * 1e3)
        emit(name, statistics.median(times), f"ms warm, {len(body)} bytes")
    server.stop()
    return rate


def paced(rate):
    server = Server()
    _, _, _, p50, p99, _ = load(server, "pprof", rate=rate / 2)
    emit("ingest_p50_ms", p50, f"ms at {rate / 2:.0f} profiles/s")
    emit("ingest_p99_ms", p99, f"ms at {rate / 2:.0f} profiles/s")
    server.stop()


def grpc():
    server = Server()
    took, answered, _, _, _, cpu = load(server, "grpc")
    emit("otlp_grpc_profiles_per_s", answered / took, "profiles/s")
    emit("otlp_grpc_per_cpu_s", answered / cpu, "profiles per CPU second of the server")
    stored = re.search(rb'vesta_ingest_profiles_total{format="otlp"} (\d+)', server.get("/metrics"))
    if int(stored[1]) != answered:
        sys.exit(f"{answered} were answered, {stored[1]} stored")
    server.stop()
    server = Server()
    emit("otlp_grpc_p99_ms", load(server, "grpc", rate=answered / took / 2)[4], "ms at half of it")
    server.stop()


def queries(rate):
    """Ingest while 200 clients ask for flame trees without a pause."""
    server = Server()
    load(server, "pprof", profiles=1200)
    is_over = threading.Event()

    def ask():
        while not is_over.is_set():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request("GET", f"/api/v1/flame?{QUERY}")
                answer = connection.getresponse()
                answer.read()
                connection.close()
                if answer.status == 429:
                    time.sleep(0.5)
            except OSError:
                time.sleep(0.1)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(200)]
    for t in threads:
        t.start()
    time.sleep(0.5)
    took, answered, refused, _, p99, _ = load(server, "pprof", profiles=3600)
    is_over.set()
    emit("queries_200_ingest_share", answered / took / rate,
         f"of the rate without, p99 {p99:.0f} ms, {refused:.0f} refused; clients share a core")
    for t in threads:
        t.join(5)
    server.stop()


def idle(n=5000):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
    server = Server()
    server.get("/healthz")
    before = server.memory("VmRSS")
    connections = []
    for _ in range(n):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        connections.append(s)
    for s in connections:
        s.recv(4096)
    time.sleep(0.5)
    emit(f"idle_{n}_conn_mb", server.memory("VmRSS") - before, "MB for idle kept connections")
    for s in connections:
        s.close()
    server.stop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def overload(rate):
    server = Server()
    took, answered, refused, _, p99, _ = load(server, "pprof", connections=1000)
    emit("overload_peak_rss_mb", server.memory("VmHWM"), "MB, 1,000 connections at once")
    emit("overload_goodput_share", answered / took / rate, "of the rate without overload")
    emit("overload_refused", int(refused), f"of 3600 requests, p99 {p99:.0f} ms")
    server.stop()


def main():
    subprocess.run(["ninja", "-C", BUILD, "--quiet", "vesta", "bench/load_client",
                    "bench/measure_store"], check=True)
    DATA.mkdir(parents=True, exist_ok=True)
    if os.cpu_count() < 2:
        print("# one core only: client and server share it")
    rate = ingest()
    paced(rate)
    grpc()
    queries(rate)
    idle()
    overload(rate)
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main()
