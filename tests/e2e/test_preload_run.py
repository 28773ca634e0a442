"""vesta run: programs with the library inside. What they really did is counted by themselves; profiles
must name the right function and line with the right weights."""

import json
import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import agent
import pytest
from conftest import BUILD, ROOT, run_vesta, wait_for
from test_push import Receiver

WORKLOADS = ROOT / "tests" / "workloads"
WHERE = BUILD / "src" / "preload"
agent.BUILDS |= {
    "inside": ["gcc", "-O2", "-g", "-pthread", f"-I{ROOT / 'include'}", "inside.c", f"-L{WHERE}",
               f"-Wl,-rpath,{WHERE}", "-lvesta-context"],
    "chain_glibc": ["gcc", "-O2", "-g", "inside_chain.c"],
    "chain_musl": ["musl-gcc", "-O2", "-g", "inside_chain.c"],
    "inside_leak": ["gcc", "-O2", "-g", "inside_leak.c"],
    "inside_many": ["gcc", "-O2", "-g", "-D_GNU_SOURCE", f"-I{ROOT / 'src'}", f"-I{ROOT / 'tests'}",
                    "inside_many.c"],
    "inside_made": ["gcc", "-O2", "-g", "inside_made.c"],
    "inside_musl": ["musl-gcc", "-O2", "-g", "inside_leak.c"],
    "inside_objects": ["g++", "-O2", "-g", "inside_objects.cpp"],
    "inside_threads": ["rustc", "-g", "-O", "inside_threads.rs"],
}
# Samples are drawn the same each time, so nothing here depends on luck.
ENV = {"VESTA_PRELOAD_SEED": "7", "VESTA_URL": "", "OTEL_SERVICE_NAME": ""}


def line_of(source, site):
    """The number of the line that is marked "site: NAME"."""
    for number, line in enumerate((WORKLOADS / source).read_text().splitlines(), 1):
        if f"site: {site}" in line:
            return number
    raise KeyError(site)


def run(*args, env=None, **kw):
    return run_vesta("run", *args, env={**ENV, **(env or {})}, **kw)


def files(folder, kind):
    return sorted(folder.glob(f"{kind}-*.pb.gz"))


def by_name(*sources, lines=False, url=None):
    """{name: cum} of what `vesta top` says of files, or of a selection of a server."""
    verb = ["query", "top", "--url", url, "--from", "now-10m"] if url else ["top"]
    if lines:
        verb.append("-lines")
    top = run_vesta(*verb, "--json", "-nodefraction=0", "-nodecount=1000000", *sources, check=0).json
    return {entry["name"]: entry["cum"] for entry in top["entries"]}


def test_a_c_programs_sites_locks_threads_and_spans_reach_a_server(server):
    done = run("--url", server.url, "--interval", "4KiB", "--lock-interval", "1us", "--label",
               "env=test", "--", agent.workload("inside"), check=0)
    true = done.json
    alloc = 'alloc_space{service.name="inside", deployment.environment.name="test"}'
    lines = by_name(alloc, lines=True, url=server.url)
    for site in ("small", "blocks", "zeroed", "mapped", "span"):
        name = next(n for n in lines if n.endswith(f"inside.c:{line_of('inside.c', site)}"))
        assert lines[name] == pytest.approx(true[site], rel=0.05), (site, lines)
    functions = by_name(alloc, url=server.url)
    assert functions["make_small"] == pytest.approx(true["small"], rel=0.05)
    objects = by_name('alloc_objects{service.name="inside"}', url=server.url)
    assert objects["make_small"] == pytest.approx(400000, rel=0.05)

    heap = by_name('inuse_space{service.name="inside"}', lines=True, url=server.url)
    # glibc keeps what it made for threads.
    kept = {n: v for n, v in heap.items()
            if "inside.c" in n and not n.startswith(("main", "contend"))}
    assert kept.popitem() == (f"keep_some {WORKLOADS / 'inside.c'}:{line_of('inside.c', 'kept')}",
                              pytest.approx(true["kept"], rel=0.05))
    assert not kept, heap

    locks = by_name('delay{service.name="inside"}', url=server.url)
    assert locks["wait_for_it"] == pytest.approx(true["lock"], rel=0.05)
    waits = by_name('contentions{service.name="inside"}', url=server.url)
    assert waits["wait_for_it"] == pytest.approx(true["waits"], abs=2)
    threads = by_name('threads_created{service.name="inside"}', url=server.url)
    assert threads["contend"] == true["threads"]

    traces = run_vesta("traces", "--json", alloc, "--from", "now-10m", "--url", server.url,
                       check=0).json
    spans = [t for t in traces if "make_in_span" in t["stack"]]
    labels = {(label["key"], label["value"]) for t in spans for label in t["labels"]}
    assert ("http.route", "/cart") in labels and ("memory.kind", "malloc") in labels
    query = urllib.parse.urlencode({"query": alloc, "trace": "ab" * 16, "from": "now-10m"})
    linked = json.loads(server.get(f"/api/v1/stacks?{query}")[2])
    assert linked["total"] == pytest.approx(true["span"], rel=0.05)
    assert "make_in_span" in linked["frames"]["name"] and "make_small" not in linked["frames"]["name"]
    assert "lost" not in done.err.decode()


def test_a_leak_is_named_and_only_it(server):
    """A machine that leaves the program without CPU for a part of its life makes it one that
    allocates in bursts: such a run says little, and there may be two of them."""
    where = f"forget_one  {WORKLOADS / 'inside_leak.c'}:{line_of('inside_leak.c', 'leak')}"
    for attempt in range(3):
        done = run("--url", server.url, "--service", f"leak{attempt}", "--interval", "2KiB",
                   "--window", "1s", "--types", "alloc,live", "--", agent.workload("inside_leak"),
                   check=0)
        told = done.err.decode().partition("leak suspects:")[2].split("leak suspects before")[0].splitlines()
        told = [line for line in told if "/s, " in line]
        if len(told) == 1:
            break
    assert len(told) == 1 and told[0].endswith(where), done.err.decode()
    heap = f'inuse_space{{service.name="leak{attempt}"}}'
    rows = run_vesta("traces", "--json", heap, "-tagfocus=leak.suspect=true", "--from", "now-10m",
                     "--instant", "sum", "--url", server.url, check=0).json
    assert rows and {row["stack"][0] for row in rows} == {"forget_one"}
    query = urllib.parse.urlencode({"query": heap, "from": "now-10m", "name": "leak.suspect"})
    tags = json.loads(server.get(f"/api/v1/tags?{query}")[2])
    (suspect,) = tags["tags"]
    assert suspect["values"] == [{"value": "true", "total": suspect["total"],
                                  "filter": "leak.suspect=^true$"}]
    assert 0 < suspect["total"] < tags["total"] and suspect["not_set"] > 0
    # Others are in the profile, unmarked.
    names = set(by_name(heap, "--instant", "last", url=server.url))
    assert {"forget_one", "fill_cache", "replace_in_pool"} <= names


def test_objects_of_cpp(tmp_path):
    done = run("-o", tmp_path, "--interval", "2KiB", "--", agent.workload("inside_objects"),
               env={"VESTA_PRELOAD_RING_MAX": "262144"}, check=0)
    true = done.json
    (alloc,), (heap,) = files(tmp_path, "alloc"), files(tmp_path, "heap")
    functions = by_name(alloc)
    for name, what in (("orders", "make_orders"), ("columns", "make_columns"), ("array", "keep_array")):
        found = next(v for n, v in functions.items() if n.startswith(what))
        assert found == pytest.approx(true[name], rel=0.05), functions
    line = line_of("inside_objects.cpp", "array")
    kept = {n: v for n, v in by_name(heap, lines=True).items() if n.endswith(f"objects.cpp:{line}")}
    assert list(kept.values()) == [pytest.approx(true["array"], rel=0.05)]


def test_threads_of_rust(tmp_path):
    true = run("-o", tmp_path, "--interval", "8KiB", "--", agent.workload("inside_threads"),
               check=0).json
    functions = by_name(*files(tmp_path, "alloc"))
    assert functions["inside_threads::fill_buffers"] == pytest.approx(true["filled"], rel=0.05)
    heap = by_name(*files(tmp_path, "heap"))
    assert heap["inside_threads::keep_boxes"] == pytest.approx(true["kept"], rel=0.05)
    assert "inside_threads::fill_buffers" not in heap
    assert max(by_name(*files(tmp_path, "threads")).values()) == true["threads"]


def test_threads_of_python(tmp_path):
    done = run("-o", tmp_path, "--interval", "16KiB", "--quiet", "--", sys.executable,
               WORKLOADS / "inside_threads.py", check=0)
    functions = by_name(*files(tmp_path, "alloc"))
    made = [v for n, v in functions.items() if "bytearray" in n.lower()]
    assert any(v == pytest.approx(done.json["made"], rel=0.05) for v in made), functions
    assert max(by_name(*files(tmp_path, "threads")).values()) == done.json["threads"]
    assert done.err == b""


def test_stacks_make_room_for_others_and_live_memory_keeps_its_own(tmp_path):
    room = 256 << 10
    done = run("-o", tmp_path, "--interval", "1", "--types", "alloc,live", "--",
               agent.workload("inside_many"), env={"VESTA_PRELOAD_TEXTS_MAX": str(room)}, check=0)
    assert done.json["texts"] > 4 * room and b"lost" not in done.err, done.err
    assert by_name(*files(tmp_path, "alloc"))["make_one"] == done.json["made"]
    assert by_name(*files(tmp_path, "heap"))["keep_one"] == done.json["kept"]


def test_a_program_of_musl_gets_its_own_library(tmp_path):
    if not (BUILD / "libvesta-preload-musl.so").exists():
        pytest.skip("there is no library for musl")
    run("-o", tmp_path, "--interval", "64KiB", "--types", "alloc,live", "--",
        agent.workload("inside_musl"), check=0)
    assert by_name(*files(tmp_path, "alloc"))["live_shortly"] > 50 << 20


def chain(*names):
    """A command of programs that become one another, and the bytes that each libc allocates."""
    if not (BUILD / "libvesta-preload-musl.so").exists():
        pytest.skip("there is no library for musl")
    count = {libc: 16 << 20 for libc in {"glibc", "musl"} & set(names)}
    words = [agent.workload(f"chain_{n}") if n in ("glibc", "musl") else n for n in names]
    return words, {f"work_of_{libc}": n * names.count(libc) for libc, n in count.items()}


@pytest.mark.parametrize("names", [
    ("glibc", "musl", "glibc"),
    ("musl", "glibc", "musl"),
    ("sh", "-c", '"$0" && exec "$1"', "musl", "glibc"),
    # Somewhere the text is evaluated once more: then it is glibc's library.
    ("sh", "-c", 'eval "export LD_PRELOAD=$LD_PRELOAD"; exec "$0"', "glibc"),
], ids=lambda names: "-".join(n for n in names if n.isalpha()))
def test_programs_of_both_libcs_start_each_other(tmp_path, names):
    words, wanted = chain(*names)
    done = run("-o", tmp_path, "--interval", "16KiB", "--types", "alloc", "--", *words, check=0)
    assert set(done.text.split()) == {"done"} and b"ld.so" not in done.err, done.err
    functions = by_name(*files(tmp_path, "alloc"))
    assert {name: functions.get(name) for name in wanted} == pytest.approx(wanted, rel=0.15)


def test_all_that_is_started_is_followed_and_nothing_is_left(tmp_path):
    before = set(os.listdir("/dev/shm"))
    inside = agent.workload("inside_objects")
    script = f"for i in 1 2 3; do {inside} & done; wait; {inside}; (exec {inside}); exit 7"
    done = run("-o", tmp_path, "--interval", "64KiB", "--types", "alloc,live", "--", "sh", "-c",
               script, check=7)
    assert done.text.count("orders") == 5
    functions = by_name(*files(tmp_path, "alloc"))
    made = next(v for n, v in functions.items() if n.startswith("make_orders"))
    assert made == pytest.approx(5 * 60000 * 1000, rel=0.1)
    traces = run_vesta("tags", "--json", *files(tmp_path, "alloc"), check=0).text
    assert "process.pid" in traces
    assert not [n for n in set(os.listdir("/dev/shm")) - before if n.startswith("vesta-run")]


def test_files_that_nobody_reads_go_with_the_folder(tmp_path):
    done = run("-o", tmp_path, "--quiet", "--", "sh", "-c",
               "cd $VESTA_PRELOAD_DIR; mkdir -p a/b/c; ln -s / a/b/root; touch 1-1.ring x a/x a/b/x;"
               "pwd", check=0)
    assert "vesta-run" in done.text and not os.path.exists(done.text.strip())


def test_what_a_killed_run_left_goes_with_the_next(tmp_path):
    script = "echo $VESTA_PRELOAD_DIR $$; exec sleep 60"
    killed = start(tmp_path, command=("sh", "-c", script))
    other = start(tmp_path, command=("sh", "-c", script))
    folder, pid = killed.stdout.readline().decode().split()
    kept, other_pid = other.stdout.readline().decode().split()
    try:
        killed.kill()
        killed.wait()
        run("-o", tmp_path, "--quiet", "--", "true", check=0)
        assert not os.path.exists(folder)
        assert os.path.exists(kept)
    finally:
        os.kill(int(pid), signal.SIGKILL)
        os.kill(int(other_pid), signal.SIGKILL)
        other.communicate(timeout=30)


# Workers that leave the rights, or the files, of their parent behind.
LEAVERS = """
import os, sys
def worker(leave):
    pid = os.fork()
    if pid == 0:
        leave()
        kept = [bytearray(1 << 20) for _ in range(64)]
        os._exit(0)
    return pid
pids = [worker(lambda: os.setuid(65534)), worker(lambda: os.chroot(sys.argv[1]))]
print([os.waitpid(pid, 0)[1] for pid in pids], pids[0])
"""


def test_who_becomes_another_user_counts_and_who_cannot_be_read_is_told(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can become others")
    done = run("-o", tmp_path, "--interval", "256KiB", "--types", "alloc", "--", sys.executable, "-c",
               LEAVERS, tmp_path, check=0)
    status, _, pid = done.text.rpartition(" ")
    assert status == "[0, 0]"
    made = by_name("-tagfocus", f"process.pid={pid.strip()}", *files(tmp_path, "alloc"))
    assert max(made.values()) == pytest.approx(64 << 20, rel=0.3), made
    assert b"vesta: 1 processes were not recorded: they did not reach /dev/shm/vesta-run-" in done.err


# Another user's file says to be this process, made later; and a second one is huge.
FORGER = """
import os, struct, time
folder = os.environ["VESTA_PRELOAD_DIR"]
kept = [bytearray(1 << 20) for _ in range(8)]
(own,) = [n for n in os.listdir(folder) if n.startswith(f"{os.getpid()}-")]
forged = bytearray(open(f"{folder}/{own}", "rb").read())
assert struct.unpack_from("<I", forged, 24)[0] == os.getpid()
struct.pack_into("<Q", forged, 32, 1 << 62)
for name, size in ("forged", len(forged)), ("huge", 1 << 30):
    with open(f"{folder}/{name}", "wb") as f:
        f.write(forged)
        f.truncate(size)
    os.chown(f"{folder}/{name}", 65534, 65534)
    os.rename(f"{folder}/{name}", f"{folder}/{name}.ring")
    until = time.monotonic() + 20
    while os.path.exists(f"{folder}/{name}.ring") and time.monotonic() < until:
        time.sleep(0.02)
print(sorted(n for n in os.listdir(folder) if n in (own, "forged.ring", "huge.ring")) == [own])
def later():
    return [bytearray(1 << 20) for _ in range(64)]
later()
"""


def test_files_of_other_users_do_not_end_what_is_read_of_a_process(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root lets others make files in the folder")
    done = run("-o", tmp_path, "--interval", "256KiB", "--types", "alloc", "--", sys.executable, "-c",
               FORGER, check=0)
    assert done.text == "True\n"
    assert max(by_name(*files(tmp_path, "alloc")).values()) > 60 << 20
    assert b"2 processes could not be read: " in done.err, done.err


def test_where_a_segment_lies_others_see_nothing(tmp_path):
    done = run("-o", tmp_path, "--quiet", "--", "sh", "-c", "stat -c %a $VESTA_PRELOAD_DIR", check=0)
    assert done.text.strip() == ("1733" if os.geteuid() == 0 else "700")


def test_files_that_are_no_segments_are_told_and_go(tmp_path):
    script = """cd $VESTA_PRELOAD_DIR; ln -s /etc/passwd 1-1.ring; mkfifo 2-2.ring
                head -c 9999 /dev/zero | tr '\\0' x > 3-3.ring
                while [ -e 3-3.ring ]; do sleep 0.05; done; ls"""
    done = run("-o", tmp_path, "--", "sh", "-c", script, check=0)
    left = [name for name in done.text.split() if len(name) < 12]
    assert not left and b"3 processes could not be read: " in done.err, (done.text, done.err)


def apart(*flags, script):
    """Runs a script in namespaces of its own."""
    flags = list(flags) if os.geteuid() == 0 else ["-r", *flags]
    if subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode != 0:
        pytest.skip("namespaces cannot be made here")
    return subprocess.run(["unshare", *flags, "sh", "-c", script], env={**os.environ, **ENV},
                          capture_output=True, timeout=60)


VESTA = shlex.quote(str(BUILD / "vesta"))
# Workers that take many samples, and leave together.
WORKERS = """
import os
told, go = os.pipe(), os.pipe()
pids = []
for _ in range(12):
    pids.append(os.fork())
    if pids[-1] == 0:
        os.close(go[1])
        kept = [bytearray(600) for _ in range(20000)]
        os.write(told[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
for pid in pids:
    os.read(told[0], 1)
os.close(go[1])
print([os.waitpid(pid, 0)[1] for pid in pids])
"""


def test_a_full_folder_does_not_kill(tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS)
    done = apart("-m", script=f"""
        cd {tmp_path}
        mount -t tmpfs -o size=8m small /dev/shm && mount -t tmpfs -o size=1m smaller /tmp || exit 9
        export VESTA_PRELOAD_TEXTS_MAX=64K VESTA_PRELOAD_LIVE_MAX=1024 VESTA_PRELOAD_MODULES_MAX=64K
        {VESTA} run -o . --interval 512 --types alloc -- {sys.executable} - < workers.py""")
    assert done.returncode == 0, done
    assert json.loads(done.stdout) == [0] * 12
    assert b"lost: " in done.stderr or b"not recorded" in done.stderr
    assert files(tmp_path, "alloc")


def test_where_there_is_room_is_found_and_lack_of_it_told(tmp_path):
    done = apart("-m", script=f"""
        cd {tmp_path}
        mount -t tmpfs -o size=1m small /dev/shm || exit 9
        {VESTA} run -o . --quiet -- sh -c 'echo $VESTA_PRELOAD_DIR'
        mount -o remount,size=64m /dev/shm
        {VESTA} run -o . --quiet -- sh -c 'echo $VESTA_PRELOAD_DIR'
        mount -o remount,size=1m /dev/shm
        mount -t tmpfs -o size=4k smaller /tmp
        head -c 1m /dev/zero > /dev/shm/full; head -c 4k /dev/zero > /tmp/full
        {VESTA} run -o . -- sh -c 'echo ran'; ls /dev/shm /tmp""")
    folder, of_container, *rest = done.stdout.decode().split()
    assert folder.startswith("/tmp/vesta-run"), done
    assert of_container.startswith("/dev/shm/vesta-run"), done
    assert rest == ["ran", "/dev/shm:", "full", "/tmp:", "full"]
    assert b"1 processes were not recorded: no room in /dev/shm/vesta-run" in done.stderr


def test_files_that_could_not_be_written_are_told(tmp_path):
    done = apart("-m", script=f"""
        mount -t tmpfs -o size=4k small {tmp_path} && head -c 4k /dev/zero > {tmp_path}/full || exit 9
        {VESTA} run -o {tmp_path} --interval 1KiB -- sh -c 'exit 4'; echo $?; ls {tmp_path}""")
    assert done.stdout.split() == [b"4", b"full"], done
    assert b"files of profiles were not written: could not write" in done.stderr


def test_processes_of_another_pid_namespace_count(tmp_path):
    free = next(n for n in range(20000, 30000) if not os.path.exists(f"/proc/{n}"))
    inside = agent.workload("inside_objects")
    apart("-p", "-f", script="true")
    done = run("-o", tmp_path, "--interval", "64KiB", "--types", "alloc", "--", "unshare", "-p", "-f",
               "sh", "-c", f"echo {free - 1} > /proc/sys/kernel/ns_last_pid; {inside}; true", check=0)
    functions = by_name(*files(tmp_path, "alloc"))
    made = next(v for n, v in functions.items() if n.startswith("make_orders"))
    assert made == pytest.approx(60000 * 1000, rel=0.1), done.err


def test_names_of_code_made_as_it_runs_are_those_of_its_own_pid(tmp_path):
    made = agent.workload("inside_made")
    if os.uname().machine != "x86_64":
        pytest.skip("it makes code of x86-64")
    apart("-p", "-f", script="true")
    # Its pid in there is another process's out here, and so is what /tmp/perf-PID.map says.
    for name, command, is_named in (("own", [made], True),
                                    ("other", ["unshare", "-p", "-f", made], False)):
        done = run("-o", tmp_path / name, "--interval", "64KiB", "--types", "alloc", "--", *command,
                   check=0)
        os.unlink(done.text.strip())
        functions = by_name(*files(tmp_path / name, "alloc"))
        assert functions["allocate"] == pytest.approx(400 << 16, rel=0.3)
        assert ("made_as_it_runs" in functions) == is_named, functions


def test_as_the_first_process_it_takes_care_of_orphans(tmp_path):
    zombies = "grep -l State:.*Z /proc/[0-9]*/status"
    script = f"sh -c 'sleep 0.1 &'; sleep 0.4; for i in 1 2 3 4 5; do {zombies} || exit 3; sleep 0.2; done"
    done = apart("-p", "-f", "--mount-proc",
                 script=f"exec {VESTA} run -o {tmp_path} --quiet -- sh -c {shlex.quote(script)}")
    assert (done.returncode, done.stdout) == (3, b""), done


def inherited(tmp_path, prepare, *command):
    """What a command prints that has what prepare() did to the process."""
    return subprocess.run([BUILD / "vesta", "run", "-o", tmp_path, "--quiet", "--", *command],
                          stdout=subprocess.PIPE, env={**os.environ, **ENV}, timeout=30, check=True,
                          preexec_fn=prepare).stdout.decode()


def test_what_the_command_inherits_is_what_vesta_run_inherited(tmp_path):
    def prepare():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGRTMIN])
        signal.alarm(1000)
        resource.setrlimit(resource.RLIMIT_NOFILE, (345, 5678))
    show = ["grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"]
    told = {line.split()[0]: int(line.split()[1], 16)
            for line in inherited(tmp_path, prepare, *show).splitlines()}

    def bits(*numbers):
        return sum(1 << n - 1 for n in numbers)
    assert told["SigBlk:"] == bits(signal.SIGUSR1, signal.SIGRTMIN)
    assert told["SigIgn:"] & bits(signal.SIGCHLD, signal.SIGPIPE) == bits(signal.SIGCHLD,
                                                                         signal.SIGPIPE)
    plain = {line.split()[0]: int(line.split()[1], 16)
             for line in inherited(tmp_path, None, *show).splitlines()}
    assert plain["SigBlk:"] == 0 and plain["SigIgn:"] & bits(signal.SIGCHLD, signal.SIGPIPE) == 0
    left = inherited(tmp_path, prepare, sys.executable, "-c",
                     "import signal; print(signal.getitimer(signal.ITIMER_REAL)[0])")
    assert 0 < float(left) <= 1000
    files_max = inherited(tmp_path, prepare, "sh", "-c", "ulimit -Sn; ulimit -Hn")
    assert files_max.split() == ["345", "5678"]


@pytest.mark.parametrize("character", [" ", ":", "$", "\n"])
def test_a_path_that_loaders_would_split_is_refused_and_a_link_to_it_serves(tmp_path, character):
    """LD_PRELOAD stays with processes that outlive the run: it never names a thing that goes."""
    place = tmp_path / f"a{character}place"
    place.mkdir()
    library = shutil.copy(BUILD / "libvesta-preload.so", place)
    words = ["-o", tmp_path, "--interval", "1KiB", "--", "sh", "-c", "echo $LD_PRELOAD"]
    done = run(*words, env={"VESTA_PRELOAD_LIBRARY": str(library)}, check=1)
    assert done.text == "" and b"name a link to it by VESTA_PRELOAD_LIBRARY" in done.err, done.err
    link = tmp_path / "library.so"
    link.symlink_to(library)
    done = run(*words, env={"VESTA_PRELOAD_LIBRARY": str(link)}, check=0)
    assert done.text.strip() == str(link)
    assert files(tmp_path, "alloc") and b"ld.so" not in done.err, done.err


def test_what_was_preloaded_stays_and_the_terminal_is_the_commands(tmp_path):
    done = run("-o", tmp_path, "--", "sh", "-c", "echo $LD_PRELOAD; cat", stdin=b"words\n",
               env={"LD_PRELOAD": "libm.so.6"}, check=0)
    first, second = done.text.splitlines()
    assert first.split(":")[0].endswith("/libvesta-preload.so")
    assert first.split(":")[1:] == ["libm.so.6"] and second == "words"


def test_exit_codes_and_usage(tmp_path):
    assert run("-o", tmp_path, "--quiet", "--", "sh", "-c", "kill -KILL $$").code == -signal.SIGKILL
    assert run("-o", tmp_path, "--", "no-such-command").code == 127
    assert run("-o", tmp_path, "--", tmp_path).code == 126
    assert run().code == 2
    for wrong in (["--types", "cpu"], ["--window", "1"], ["--label", "x"]):
        done = run("-o", tmp_path, *wrong, "--", "true")
        assert done.code in (1, 2) and wrong[0].encode() in done.err
    # What is missing beside the command is no missing command, and is told before it runs.
    plain = tmp_path / "plain"
    plain.write_text("")
    for where, env in ((plain, {}), (tmp_path / "no" / "where", {}),
                       (tmp_path, {"VESTA_PRELOAD_LIBRARY": "/no/such.so"})):
        done = run("-o", where, "--", "echo", "ran", env=env)
        assert (done.code, done.text) == (1, ""), (where, done.code)
    static = tmp_path / "static"
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", static], input=b"int main(){return 5;}",
                   check=True)
    done = run("-o", tmp_path, "--", static, check=5)
    assert b"linked statically" in done.err


def start(tmp_path, *args, command=("sleep", "60")):
    return subprocess.Popen([BUILD / "vesta", "run", "-o", tmp_path, *args, "--", *command],
                            env={**os.environ, **ENV}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


@pytest.mark.parametrize("name", ["TERM", "WINCH", "ALRM", "HUP"])
def test_signals_are_passed_on(tmp_path, name):
    script = f"trap 'echo got it; exit 3' {name}; echo ready; while :; do sleep 0.05; done"
    process = start(tmp_path, command=("sh", "-c", script))
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(getattr(signal, f"SIG{name}"))
    out, _ = process.communicate(timeout=30)
    assert out == b"got it\n" and process.returncode == 3


def test_a_signal_that_ends_the_command_ends_vesta_run_after_all_is_written(tmp_path):
    done = run("-o", tmp_path, "--interval", "1KiB", "--", "sh", "-c", "kill -TERM $$")
    assert done.code == -signal.SIGTERM and b"allocated:" in done.err
    assert files(tmp_path, "alloc")
    # The first process of a container is not ended by a signal.
    done = apart("-p", "-f", script=f"exec {VESTA} run -o {tmp_path} -- sh -c 'kill -TERM $$'")
    assert done.returncode == 128 + signal.SIGTERM


def test_what_a_command_sends_to_its_group_comes_once(tmp_path):
    script = """trap 'n=$((n + 1))' TERM; kill -TERM 0
                for i in 1 2 3 4 5 6; do sleep 0.05; done; echo $n"""
    done = subprocess.run([BUILD / "vesta", "run", "-o", tmp_path, "--", "sh", "-c", script],
                          env={**os.environ, **ENV}, capture_output=True, timeout=30,
                          start_new_session=True)
    assert (done.returncode, done.stdout) == (0, b"1\n"), done


# The first process of a session with a terminal: what follows it runs in front of that.
IN_FRONT = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    os.execv(sys.argv[1], sys.argv[1:])
_, status = os.waitpid(pid, os.WUNTRACED)
assert os.WIFSTOPPED(status), status
os.kill(pid, signal.SIGCONT)
_, status = os.waitpid(pid, os.WUNTRACED)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def on_terminal(*command):
    """Starts a command as the first of a terminal of its own: its pid, and the other side."""
    pid, terminal = os.forkpty()
    if pid == 0:
        os.execve(command[0], [str(c) for c in command], {**os.environ, **ENV})
    return pid, terminal


def ended(pid):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("it did not end")


def test_a_terminal_that_goes_takes_the_command_along(tmp_path):
    said = tmp_path / "said"
    script = f"trap 'echo bye > {said}; exit 3' HUP; echo ready; while :; do sleep 0.05; done"
    pid, terminal = on_terminal(BUILD / "vesta", "run", "-o", tmp_path, "--", "sh", "-c", script)
    assert b"ready" in os.read(terminal, 100)
    os.close(terminal)
    assert ended(pid) == 3 and said.read_text() == "bye\n"


def test_a_command_that_stops_gives_the_terminal_back(tmp_path):
    pid, terminal = on_terminal(sys.executable, "-c", IN_FRONT, BUILD / "vesta", "run", "-o", tmp_path,
                                "--quiet", "--", "sh", "-c", "kill -STOP $$; exit 5")
    try:
        assert ended(pid) == 5
    finally:
        os.close(terminal)


def test_sampling_is_switched_on_and_off(tmp_path):
    carrier = agent.BUILDS.setdefault("carrier", ["gcc", "-O2", "-g", "carrier.c"]) and \
        agent.workload("carrier")
    process = subprocess.Popen([BUILD / "vesta", "run", "-o", tmp_path, "--off", "--window",
                                "200ms", "--interval", "64KiB", "--types", "alloc", "--", carrier],
                               env={**os.environ, **ENV}, stdin=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    time.sleep(0.7)
    assert not files(tmp_path, "alloc")
    process.send_signal(signal.SIGUSR2)
    wait_for(lambda: files(tmp_path, "alloc"))
    process.send_signal(signal.SIGUSR2)

    def is_quiet():
        before = files(tmp_path, "alloc")
        time.sleep(0.7)
        return files(tmp_path, "alloc") == before
    wait_for(is_quiet)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"sampling is on" in err and b"sampling is off" in err


def takes_signal(pid, number):
    """Whether its first thread does not block it."""
    with open(f"/proc/{pid}/status") as f:
        (blocked,) = [line.split()[1] for line in f if line.startswith("SigBlk:")]
    return not int(blocked, 16) >> (number - 1) & 1


def test_a_server_that_is_busy_is_tried_again(tmp_path):
    receiver = Receiver()
    receiver.script = [(503, {"Retry-After": "0"}, {}), (429, {}, {})]
    try:
        done = run("--", agent.workload("inside_threads"),
                   env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
                        "OTEL_EXPORTER_OTLP_HEADERS": "x-who=me%20too",
                        "OTEL_SERVICE_NAME": "rusty"}, check=0)
    finally:
        receiver.close()
    assert [g["path"] for g in receiver.got] == ["/v1development/profiles"] * 3
    assert len({g["body"] for g in receiver.got}) == 1
    assert receiver.got[0]["headers"]["x-who"] == "me too"
    assert receiver.got[0]["headers"]["content-type"] == "application/x-protobuf"
    assert b"rusty" in receiver.got[0]["body"]
    assert b"dropped" not in done.err


# Something that takes some samples and is soon done.
SOON_DONE = ["--interval", "64KiB", "--types", "alloc", "--", sys.executable, "-S", "-c", ""]


@pytest.mark.parametrize("said,service", [("a=b", os.path.basename(sys.executable)),
                                          ("a=b,service.name=shop", "shop")])
def test_whose_profiles_they_are(tmp_path, said, service):
    receiver = Receiver()
    try:
        for name in ("", "cart"):
            run("--url", receiver.url, *SOON_DONE, check=0,
                env={"OTEL_RESOURCE_ATTRIBUTES": said, "OTEL_SERVICE_NAME": name})
        run("--url", receiver.url, "--service", "mine", *SOON_DONE, check=0,
            env={"OTEL_RESOURCE_ATTRIBUTES": said, "OTEL_SERVICE_NAME": "cart"})
    finally:
        receiver.close()
    for i, name in enumerate((service, "cart", "mine")):
        (tmp_path / str(i)).write_bytes(receiver.got[i]["body"])
        (told,) = run_vesta("info", "--json", tmp_path / str(i), check=0).json["resources"]
        assert told["service.name"] == name


def test_what_a_server_rejects_is_told():
    why = b"too old"
    part = b"\x08\x63\x12" + bytes([len(why)]) + why
    answer = b"\x0a" + bytes([len(part)]) + part
    receiver = Receiver()
    receiver.script = [(200, {"Content-Type": "application/x-protobuf"}, answer)]
    try:
        done = run("--url", receiver.url, *SOON_DONE, check=0)
    finally:
        receiver.close()
    assert f"vesta: {receiver.url} rejected 1 profiles: too old" in done.err.decode()
    assert b"sent to" not in done.err


def test_at_the_end_all_is_tried_once_more():
    """However long the server asked to be left alone before."""
    receiver = Receiver()
    receiver.script = [(503, {"Retry-After": "60"}, {})]
    script = "kept = [bytearray(1 << 20) for _ in range(8)]; input()"
    process = subprocess.Popen(
        [BUILD / "vesta", "run", "--url", receiver.url, "--retry-for", "0", "--window", "100ms",
         "--interval", "64KiB", "--types", "alloc", "--", sys.executable, "-c", script],
        env={**os.environ, **ENV}, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: receiver.got)
        _, err = process.communicate(b"\n", timeout=60)
    finally:
        process.kill()
        receiver.close()
    bodies = [g["body"] for g in receiver.got]
    assert len(bodies) > 1 and bodies[1] == bodies[0]
    assert b"dropped" not in err and b"sent to" in err, err


@pytest.mark.parametrize("names", [("QUIT",), ("INT", "TERM")])
def test_after_the_command_people_need_not_wait(names):
    """Both signals of two come before anything was done about the first."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        process = subprocess.Popen(
            [BUILD / "vesta", "run", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}",
             "--retry-for", "10m", *SOON_DONE], env={**os.environ, **ENV},
            stderr=subprocess.DEVNULL)
        try:
            silent.accept()[0].recv(1)
            wait_for(lambda: takes_signal(process.pid, signal.SIGQUIT))
            process.send_signal(signal.SIGSTOP)
            for name in names:
                process.send_signal(getattr(signal, f"SIG{name}"))
            process.send_signal(signal.SIGCONT)
            assert -process.wait(timeout=30) in {getattr(signal, f"SIG{name}") for name in names}
        finally:
            process.kill()


def test_a_server_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = run("--url", f"http://127.0.0.1:{silent.getsockname()[1]}", "--retry-for", "300ms",
                   *SOON_DONE, check=0)
    assert b"did not answer within --retry-for" in done.err and b"dropped" in done.err


def test_without_a_server_the_command_runs_all_the_same():
    done = run("--url", "http://127.0.0.1:1", "--retry-for", "0", "--", agent.workload("inside_threads"),
               check=0)
    assert done.json["threads"] == 4
    assert b"dropped" in done.err and b"127.0.0.1:1" in done.err
