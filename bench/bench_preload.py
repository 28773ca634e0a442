"""What the preloaded library costs the programs that it is in.

    make bench-preload          ONLY=loops or ONLY=programs: a part of it

Loops are timed from inside, programs by the CPU time of everything they start. Every round runs all
variants, in an order that changes; differences are taken within a round, and the median of the
rounds is printed. Programs go on until their difference is known well enough, or the time is over
(steady.py: BENCH_HALF, BENCH_SECONDS), on a CPU of their own. A/A controls are the same thing twice.
The reader (`vesta run`) runs beside, as it does in use. Prints "metric: value unit".

  alloc_ns_over_forwarder    a malloc/free pair, above a library whose wrappers only pass calls on
  live_ns_over_forwarder     the same with live memory followed
  lock_ns_over_forwarder     a lock that nobody else wants (lock and unlock)
  aa_forwarder_ns            the forwarder against itself
  real_program_slowdown_pct  CPU time against no preload: the worse of the two
  redis_slowdown_pct         redis-server, GET and SET by redis-benchmark, CPU time of the server
  compile_slowdown_pct       gcc -O2 of a C file, with all the processes it starts, and with what
                             `vesta run` takes itself
  compile_run_cpu_ms         that alone: starting, reading, naming and writing
  compile_library_slowdown_pct   the same with the library alone, as the agent reads it
  aa_redis_pct, aa_compile_pct
  ..._half, ..._rounds       half of the 95 % interval, and what it was taken from
  jemalloc_*, gperftools_*   the allocators' own sampling heap profilers at the same 512 KiB, against
                             the same allocator without
  heaptrack_*                every call is recorded; the loop above the forwarder
"""

import contextlib
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from steady import HALF, SECONDS, estimate, on_cpu, percent_more, rounds, say, say_estimate

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
ROUNDS = int(os.environ.get("ROUNDS", "25"))
REQUESTS = 100_000
PROGRAM_CPU, CLIENT_CPU = 0, 1
HEAPTRACK = pathlib.Path("/usr/lib/heaptrack/libheaptrack_preload.so")


def library(name):
    """Of an allocator, where it is installed."""
    found = sorted(pathlib.Path("/usr/lib").glob(f"*/{name}"))
    return found[0] if found else None


class Variant:
    """How a command is run: what stands before it, and its environment."""

    def __init__(self, name, before=(), **env):
        self.name = name
        self.before = [str(word) for word in before]
        self.env = {**os.environ, **{key: str(value) for key, value in env.items()}}

    def command(self, *words):
        return [*self.before, *map(str, words)]


def vesta(name, types, out):
    return Variant(name, [BUILD / "vesta", "run", "--quiet", "-o", out, "--types", types, "--"])


def variants(folder):
    forward = BUILD / "bench" / "libforwarder.so"
    found = [Variant("none"), Variant("forwarder", LD_PRELOAD=forward),
             Variant("forwarder_again", LD_PRELOAD=forward),
             vesta("alloc", "alloc", folder / "out"), vesta("live", "alloc,live", folder / "out")]
    jemalloc, tcmalloc = library("libjemalloc.so.2"), library("libtcmalloc.so.4")
    if jemalloc:
        found += [Variant("jemalloc", LD_PRELOAD=jemalloc),
                  Variant("jemalloc_prof", LD_PRELOAD=jemalloc,
                          MALLOC_CONF=f"prof:true,lg_prof_sample:19,prof_prefix:{folder}/je")]
    if tcmalloc:
        found += [Variant("gperftools", LD_PRELOAD=tcmalloc),
                  Variant("gperftools_prof", LD_PRELOAD=tcmalloc,
                          TCMALLOC_SAMPLE_PARAMETER=524288)]
    if HEAPTRACK.exists():
        found.append(Variant("heaptrack", LD_PRELOAD=HEAPTRACK, DUMP_HEAPTRACK_OUTPUT="/dev/null"))
    return found


def loop(variant, what, rounds):
    done = subprocess.run(variant.command(BUILD / "bench" / "loop", what, rounds), env=variant.env,
                          capture_output=True, text=True, check=True)
    return float(done.stdout)


def loops(all_variants, what, rounds):
    """Variant -> ns of each round."""
    times = {variant.name: [] for variant in all_variants}
    for _ in range(ROUNDS):
        for variant in random.sample(all_variants, len(all_variants)):
            # A recorder of every call takes a microsecond for each.
            n = 1 if variant.name == "heaptrack" else rounds
            times[variant.name].append(loop(variant, what, n))
    return times


def over(times, name, base):
    return statistics.median(a - b for a, b in zip(times[name], times[base]))


def bench_loops(folder):
    every = variants(folder)
    times = loops(every, "alloc", 30)
    say("alloc_ns", statistics.median(times["none"]), "ns")
    say("alloc_ns_over_forwarder", over(times, "alloc", "forwarder"), "ns")
    say("live_ns_over_forwarder", over(times, "live", "forwarder"), "ns")
    say("aa_forwarder_ns", over(times, "forwarder_again", "forwarder"), "ns")
    for rival in ("jemalloc", "gperftools"):
        if rival in times:
            say(f"{rival}_alloc_ns_over_plain", over(times, f"{rival}_prof", rival), "ns")
    if "heaptrack" in times:
        say("heaptrack_alloc_ns_over_forwarder", over(times, "heaptrack", "forwarder"), "ns")

    by_name = {variant.name: variant for variant in every}
    locks = [by_name[name] for name in ("none", "forwarder", "forwarder_again")]
    locks.append(vesta("lock", "lock", folder / "out"))
    times = loops(locks, "lock", 30)
    say("lock_ns", statistics.median(times["none"]), "ns")
    say("lock_ns_over_forwarder", over(times, "lock", "forwarder"), "ns")
    say("aa_forwarder_lock_ns", over(times, "forwarder_again", "forwarder"), "ns")


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_of(pid):
    """Of all its threads, in ns; ticks are too coarse for a percent."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def server_pid(starter):
    """The server itself, which `vesta run` has started, or which was started at once."""
    children = pathlib.Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()
    return int(children[0]) if children else starter.pid


def ask_redis(port, requests):
    subprocess.run(["redis-benchmark", "-p", str(port), "-q", "-P", "16", "-c", "16", "-r", "100000",
                    "-d", "200", "-t", "set,get", "-n", str(requests)], stdout=subprocess.DEVNULL,
                   check=True, preexec_fn=on_cpu(CLIENT_CPU))


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as s:
        s.sendall(b"PING\r\n")
        return s.recv(7) == b"+PONG\r\n"
    return False


def redis(variant, folder):
    """CPU seconds of a server for a number of requests. It has a CPU for itself."""
    port = free_port()
    with open(folder / "redis.log", "ab") as log:
        server = subprocess.Popen(
            variant.command("redis-server", "--port", port, "--save", "", "--appendonly", "no",
                            "--bind", "127.0.0.1"), env=variant.env, stdout=log, stderr=log,
            cwd=folder, preexec_fn=on_cpu(PROGRAM_CPU))
    while not answers(port):
        if server.poll() is not None:
            raise RuntimeError(f"redis-server ended: {(folder / 'redis.log').read_text()[-300:]}")
        time.sleep(0.01)
    pid = server_pid(server)
    if pid != server.pid:
        on_cpu(CLIENT_CPU, server.pid)()
    ask_redis(port, REQUESTS // 2)
    before = cpu_of(pid)
    ask_redis(port, REQUESTS)
    took = cpu_of(pid) - before
    os.kill(pid, signal.SIGTERM)
    server.wait()
    return took


own_cpu = {}  # variant -> what stood before the compiler took, in seconds


def compile_file(variant, folder):
    """CPU seconds of the compiler and what it starts. What `vesta run` itself takes counts, too."""
    before = children_cpu()
    done = subprocess.run(
        variant.command(BUILD / "bench" / "run_measured", shutil.which("gcc"), "-O2", "-c",
                        folder / "source.c", "-o", folder / "x.o"), env=variant.env, check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=on_cpu(PROGRAM_CPU))
    took = children_cpu() - before
    own_cpu.setdefault(variant.name, []).append(took - float(done.stdout.split()[2]))
    return took


def source(folder):
    """A file that takes the compiler a second or two."""
    text = ["#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"]
    for i in range(400):
        text.append(f"""
struct s{i} {{ int a[{i % 7 + 3}]; double b; char *name; struct s{i} *next; }};
static int compare{i}(const void *x, const void *y) {{
    const struct s{i} *l = x, *r = y;
    for (int k = 0; k < {i % 7 + 3}; k++)
        if (l->a[k] != r->a[k]) return l->a[k] < r->a[k] ? -1 : 1;
    return strcmp(l->name, r->name);
}}
double work{i}(struct s{i} *list, size_t n, const char *word) {{
    double sum = {i};
    qsort(list, n, sizeof(*list), compare{i});
    for (size_t k = 0; k < n; k++) {{
        sum += list[k].b * list[k].a[k % {i % 7 + 3}];
        if (strstr(list[k].name, word)) sum *= 1.0 / (double)(k + 1);
    }}
    return sum;
}}
""")
    (folder / "source.c").write_text("".join(text))


def compare(measure, folder, these, half=HALF, seconds=SECONDS):
    """The first of these variants against the others, which are one thing. Times, and an estimate."""
    by_name = {variant.name: variant for variant in these}
    first, *bases = by_name
    for variant in these:
        measure(variant, folder)
    times = rounds(list(by_name), lambda name: measure(by_name[name], folder),
                   lambda got: percent_more(got, first, *bases), half, seconds)
    return times, estimate(percent_more(times, first, *bases))


def bench_program(name, measure, folder):
    """Against no preload, which runs twice: that is the control, too."""
    these = [vesta("vesta", "alloc,live,lock,threads", folder / "out"), Variant("none"),
             Variant("none_again")]
    times, slowdown = compare(measure, folder, these)
    say(f"{name}_cpu_s", statistics.median(times["none"]), "s")
    say_estimate(f"{name}_slowdown_pct", slowdown)
    say_estimate(f"aa_{name}_pct", estimate(percent_more(times, "none_again", "none")))
    return slowdown.value


def bench_rivals(name, measure, folder, rivals):
    """Less well: they may cost what they like."""
    by_name = {variant.name: variant for variant in [Variant("none"), *rivals]}
    for rival, base in (("jemalloc_prof", "jemalloc"), ("gperftools_prof", "gperftools"),
                        ("heaptrack", "none")):
        if rival in by_name:
            _, slow = compare(measure, folder, [by_name[rival], by_name[base]], 3 * HALF,
                              SECONDS / 6)
            say_estimate(f"{rival.removesuffix('_prof')}_{name}_slowdown_pct", slow)


def bench_redis(folder, rivals):
    slowdown = bench_program("redis", redis, folder)
    # Only those that can stand before redis, which brings jemalloc of its own.
    bench_rivals("redis", redis, folder, [v for v in rivals if v.name.startswith("jemalloc")])
    return slowdown


def bench_compile(folder, rivals):
    source(folder)
    slowdown = bench_program("compile", compile_file, folder)
    say("compile_run_cpu_ms", statistics.median(own_cpu["vesta"]) * 1e3, "ms")
    library = Variant("library", LD_PRELOAD=BUILD / "libvesta-preload.so")
    _, slow = compare(compile_file, folder, [library, Variant("none")], seconds=SECONDS / 2)
    say_estimate("compile_library_slowdown_pct", slow)
    bench_rivals("compile", compile_file, folder, rivals)
    return slowdown


def bench_programs(folder):
    rivals = [variant for variant in variants(folder)
              if variant.name.startswith(("jemalloc", "gperftools", "heaptrack"))]
    worst = []
    if shutil.which("redis-server") and shutil.which("redis-benchmark"):
        worst.append(bench_redis(folder, rivals))
    else:
        print("# no redis-server: apt-get install redis-server")
    worst.append(bench_compile(folder, rivals))
    say("real_program_slowdown_pct", max(worst), "%")


def main():
    subprocess.run(["ninja", "-C", str(BUILD), "--quiet", "bench/loop", "bench/libforwarder.so",
                    "bench/run_measured"], check=True)
    only = os.environ.get("ONLY", "")  # loops or programs
    with tempfile.TemporaryDirectory(prefix="vesta-bench-") as name:
        folder = pathlib.Path(name)
        if only in ("", "loops"):
            bench_loops(folder)
        if only in ("", "programs"):
            bench_programs(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
