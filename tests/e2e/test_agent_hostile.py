"""An agent among processes that mean it harm: it goes on, at a bounded cost, and what it tells of an
honest process beside them stays right."""

import os
import pathlib
import platform
import random
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

import agent
import pytest
from agent import Agent
from conftest import run_vesta, wait_for

pytestmark = [agent.needs_bpf,
              pytest.mark.skipif(platform.machine() != "x86_64", reason="workloads of x86-64")]

PLAIN = {"main", "run", "stage_one", "stage_two", "hot_sixty", "hot_thirty", "hot_ten", "_start",
         "seconds_now", "clock_gettime"}
MEMORY_MAX = 128 << 20
STALL_MAX = 1.0


def workload(name):
    agent.BUILDS.setdefault(name, ["gcc", "-O2", "-fomit-frame-pointer", f"{name}.c", "-pthread"])
    return agent.workload(name)


def cpu_seconds(pid):
    """Of all threads of a process."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Crowd:
    """The honest process, and others."""

    def __init__(self):
        self.others = []
        env = {**os.environ, "OTEL_SERVICE_NAME": "honest"}
        self.honest = subprocess.Popen([agent.workload("plain"), "300"], env=env)

    def add(self, name, *args, env=None, program=None):
        """Starts a hostile workload; waits until it is what it wants to be. The lines it said."""
        # It is what they do that is tested, and not what is left when they take every CPU.
        p = subprocess.Popen(["nice", "-n", "12", program or workload(name), *map(str, args)],
                             stdout=subprocess.PIPE,
                             env=env if env is not None else {**os.environ,
                                                              "OTEL_SERVICE_NAME": f"its-{name}"})
        self.others.append(p)
        said = []
        while not said or not said[-1].startswith("ready"):
            line = p.stdout.readline().decode()
            if not line and p.wait() == 77:
                pytest.skip(f"this kernel cannot do what {name} does")
            assert line, f"{name} {args} ended: {p.wait()}"
            said.append(line.strip())
        p.said = said
        return p

    def are_alive(self):
        return all(p.poll() is None for p in [*self.others, self.honest])

    def end(self):
        for p in [*self.others, self.honest]:
            p.kill()
            p.wait()
            if p.stdout:
                p.stdout.close()


@pytest.fixture
def crowd():
    c = Crowd()
    yield c
    c.end()


class Watch(threading.Thread):
    """How an agent fares: its longest pause between two turns of its loop, its memory, its life."""

    def __init__(self, watched):
        super().__init__(daemon=True)
        self.agent = watched
        self.pid = watched.process.pid
        self.is_over = threading.Event()
        self.stall = 0.0
        self.memory = 0
        self.trouble = ""

    def pids(self):
        return [self.pid, *self.agent.children()]

    def turns(self):
        """How often it waited for something to do, and when that would be if it had a CPU at once."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        waited = int(pathlib.Path(f"/proc/{self.pid}/schedstat").read_text().split()[1])
        return (int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1]),
                time.monotonic() - waited / 1e9)

    def pss(self):
        total = 0
        for pid in self.pids():
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue
            found = re.search(r"^Pss:\s+(\d+) kB", text, re.M)
            total += int(found[1]) * 1024 if found else 0
        return total

    def run(self):
        (last, since), looks = self.turns(), 0
        while not self.is_over.wait(0.05):
            if self.agent.process.poll() is not None:
                self.trouble = f"it ended with {self.agent.process.returncode}"
                return
            turns, now = self.turns()
            if turns != last:
                last, since = turns, now
            self.stall = max(self.stall, now - since)
            looks += 1
            if looks % 10 == 0:
                self.memory = max(self.memory, self.pss())

    def finish(self):
        self.is_over.set()
        self.join()
        return self


def service(server, name, kind="cpu"):
    """{stack: value} of what the server has of a service."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    done = run_vesta("convert", f'{kind}{{service.name="{quoted}"}}', "--from", "now-10m", "--to",
                     "collapsed", "--url", server.url)
    found = {}
    for line in done.text.splitlines():
        stack, value = line.rsplit(" ", 1)
        found[tuple(stack.split(";"))] = int(value)
    return found


class Attack:
    """An agent that is watched while it looks at a crowd; at the end, the honest one is judged."""

    def __init__(self, tmp_path, server, crowd, *args):
        self.server, self.crowd = server, crowd
        folder = tmp_path / "agent"
        folder.mkdir()
        self.earliest = cpu_seconds(crowd.honest.pid)
        self.agent = Agent(folder, "--rate", "199", "--limits-cpu", "1000", *args, server=server)
        try:
            wait_for(lambda: (self.agent.status()["agent"] or {}).get("samples"), 60)
        except BaseException:
            self.agent.process.kill()
            raise
        self.latest = cpu_seconds(crowd.honest.pid)
        self.watch = Watch(self.agent)
        self.watch.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *what):
        self.watch.finish()
        if kind is None:
            self.last = self.status()
            self.least = cpu_seconds(self.crowd.honest.pid) - self.latest
        code = self.agent.stop()
        if kind is None:
            self.most = cpu_seconds(self.crowd.honest.pid) - self.earliest
            assert code == 0, self.agent.log
            self.judge()

    def status(self):
        return self.agent.status()["agent"]

    def fresh_status(self):
        """One that was told from now on."""
        wait_for(lambda: self.agent.status()["age_s"] > 1, 10)
        wait_for(lambda: self.agent.status()["age_s"] < 0.5, 10)
        return self.status()

    def judge(self):
        w, s = self.watch, self.last
        assert self.crowd.are_alive()
        assert not w.trouble, (w.trouble, self.agent.log)
        assert w.stall <= STALL_MAX, w.stall
        assert w.memory <= MEMORY_MAX, w.memory
        assert s["lost"] + s["left_out"] <= 0.01 * s["samples"], s
        honest = service(self.server, "honest")
        seen = sum(honest.values()) / 1e9
        print(f"stall {w.stall:.2f} s, memory {w.memory >> 20} MiB, honest {seen:.2f} of "
              f"{self.least:.2f} to {self.most:.2f} s, {s['samples']} samples, {s['lost']} lost, {s['workers']}")
        assert 0.9 * self.least - 0.2 < seen < 1.1 * self.most + 0.2
        named = {f for stack in honest for f in stack}
        strange = {f for f in named if "hostile" in f or "storm" in f}
        assert not strange, strange
        # Those of the first moments have no names yet.
        whole = {stack: value for stack, value in honest.items() if "run" in stack}
        assert sum(whole.values()) > 0.5 * sum(honest.values()), honest
        assert agent.share_of(whole, "hot_sixty") == pytest.approx(0.6, abs=0.12)
        assert PLAIN & named >= {"main", "run", "hot_sixty", "hot_thirty", "hot_ten"}


# ---- Files

def sections(elf):
    """{name: (index of its header, offset, size)}"""
    shoff, = struct.unpack_from("<Q", elf, 40)
    n, names = struct.unpack_from("<HH", elf, 60)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, shoff + 64 * i) for i in range(n)]
    texts = heads[names][4]
    return {elf[texts + h[0]:elf.index(b"\0", texts + h[0])].decode(): (shoff + 64 * i, h[4], h[5])
            for i, h in enumerate(heads)}


def patched(elf, at, fmt, *values):
    copy = bytearray(elf)
    struct.pack_into(fmt, copy, at, *values)
    return bytes(copy)


def damaged(elf, keep):
    """(name, bytes) of programs that are none; bytes of `keep` stay, for they are run."""
    has = sections(elf)
    chance = random.Random(1)

    def noise(n):
        return chance.randbytes(n)

    def in_section(name, data):
        _, at, size = has[name]
        return elf[:at] + data[:size] + elf[at + min(size, len(data)):]

    yield "truncated", elf[:keep.stop]
    yield "sections-outside", patched(elf, 40, "<Q", 1 << 63)
    yield "sections-past-end", patched(elf, 40, "<Q", len(elf) - 10)
    yield "many-sections", patched(elf, 60, "<HH", 0xffff, 0xfffe)
    yield "many-segments", patched(elf, 56, "<H", 0xffff)
    yield "segments-outside", patched(elf, 32, "<Q", (1 << 64) - 64)
    yield "other-machine", patched(elf, 18, "<H", 8)
    for name in (".eh_frame", ".symtab", ".dynsym", ".strtab", ".debug_info", ".debug_line",
                 ".debug_abbrev", ".gopclntab", ".note.gnu.build-id"):
        head, at, size = has[name]
        yield f"noise-in{name}", in_section(name, noise(size))
        yield f"ones-in{name}", in_section(name, b"\xff" * size)
        yield f"huge{name}", patched(elf, head + 32, "<Q", (1 << 64) - 1 - at)
        yield f"wrapping{name}", patched(elf, head + 24, "<QQ", (1 << 64) - 4096, 8192)
        yield f"no-entries{name}", patched(elf, head + 56, "<Q", 0)
        yield f"linked-to-itself{name}", patched(elf, head + 40, "<I", 0xffff)
        # It says that it is compressed, and would be a terabyte.
        yield f"packed{name}", patched(in_section(name, struct.pack("<IIQQ", 1, 0, 1 << 40, 1)),
                                       head + 8, "<Q", 0x800)
    cie = struct.pack("<II", 0xfffffff0, 0)
    yield "endless-cie", in_section(".eh_frame", cie)
    # Entries of which each says that another, which does not end, is its CIE.
    yield "cyclic-cie", in_section(".eh_frame", struct.pack("<II", 12, 4) + b"\1" * 8 +
                                   struct.pack("<II", 12, 20) + b"\1" * 8)
    # A million functions of which each is everywhere.
    one = struct.pack("<IIIIB", 16, 0, 0, 0x7fffffff, 0) + b"\0" * 3
    big = b"".join(struct.pack("<II", 16, 24 + 20 * i) + one[8:20] for i in range(1000000))
    start = struct.pack("<II", 16, 0) + b"\1zR\0\1\x78\x10\1\0\x0c\7\x08\0\0\0\0"
    yield "million-functions", patched(elf, has[".eh_frame"][0] + 24, "<QQ", len(elf),
                                       len(start) + len(big)) + start + big
    for i in range(12):
        copy = bytearray(elf)
        for _ in range(200):
            at = chance.randrange(len(copy))
            if at not in keep and at >= 24:
                copy[at] = chance.randrange(256)
        yield f"flipped-{i}", bytes(copy)


@pytest.fixture(scope="module")
def library():
    """(bytes, offset of hostile_spin)"""
    agent.BUILDS["hostile_lib.so"] = ["gcc", "-O1", "-g", "-gno-variable-location-views", "-shared",
                                      "-fPIC", "hostile_lib.c"]
    path = agent.workload("hostile_lib.so")
    text = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return path.read_bytes(), int(re.search(r"^(\w+) T hostile_spin$", text, re.M)[1], 16)


def test_files_that_are_not_what_they_seem(server, crowd, library, tmp_path):
    elf, at = library
    folder = tmp_path / "files"
    folder.mkdir()
    made = []
    for name, data in damaged(elf, range(at & ~4095, (at & ~4095) + 4096)):
        (folder / name).write_bytes(data)
        made.append(f"{folder / name}@{at}")
    sparse = folder / "sparse"
    sparse.write_bytes(elf)
    os.truncate(sparse, 2 << 30)
    odd = folder / "a\n7f0000000000-7f0000001000 r-xp 00000000 00:00 1 \\012 (deleted)"
    odd.write_bytes(elf)
    crowd.add("hostile_code", *made)
    crowd.add("hostile_code", f"{sparse}@{at}", f"{odd}@{at}",
              env={"OTEL_SERVICE_NAME": "its-sparse"})

    # What was a library when it was mapped is something else by now.
    replaced = {n: folder / f"{n}.so" for n in ("fifo", "socket", "device", "folder", "gone", "other")}
    for path in replaced.values():
        path.write_bytes(elf)
    crowd.add("hostile_code", *(f"{p}@{at}" for p in replaced.values()),
              env={"OTEL_SERVICE_NAME": "its-replaced"})
    for path in replaced.values():
        path.unlink()
    os.mkfifo(replaced["fifo"])
    os.mknod(replaced["socket"], 0o140777)
    os.mknod(replaced["device"], 0o020666, os.makedev(1, 5))
    replaced["folder"].mkdir()
    replaced["other"].write_bytes(agent.workload("plugin.so").read_bytes())

    with Attack(tmp_path, server, crowd, "--symbols", "lines") as attack:
        time.sleep(9)
    # Files are read through what is mapped, so they have their names still.
    replaced = service(server, "its-replaced")
    assert agent.share_of(replaced, "hostile_spin") > 0.3, replaced
    assert agent.share_of(replaced, "hot_in_plugin") == 0
    assert agent.share_of(service(server, "its-sparse"), "hostile_spin") > 0.3
    assert attack.last["workers"]["parser"]["died"] == 0, attack.last["workers"]
    assert "restart" not in attack.agent.log


# ---- Memory

def test_memory_that_nobody_gets_hangs_only_workers(server, crowd, library, tmp_path):
    elf, at = library
    big = {**os.environ, "OTEL_SERVICE_NAME": "its-pages", "FILL": "x" * 30000}
    crowd.add("hostile_pages", "environ", env=big)
    crowd.add("hostile_pages", "context", env=big)
    crowd.add("hostile_pages", "stack", env=big)
    (tmp_path / "lib").write_bytes(elf)
    mount = tmp_path / "mount"
    mount.mkdir()
    for _ in range(3):
        crowd.add("hostile_fuse", mount, tmp_path / "lib", at)
    with Attack(tmp_path, server, crowd, "--types", "cpu,wall", "--include", "*/plain", "--include",
                "*/hostile_*") as attack:
        wait_for(lambda: attack.status()["workers"]["inspector"]["killed"] >= 2, 30)
        # They are given up, and others that come are looked at at once.
        wait_for(lambda: attack.fresh_status()["workers"]["inspector"]["killed"] ==
                 attack.fresh_status()["workers"]["inspector"]["killed"], 40)
        late = subprocess.Popen([agent.workload("plain"), "300"],
                                env={"OTEL_SERVICE_NAME": "late"})
        crowd.others.append(late)
        wait_for(lambda: "late" in attack.status()["services"], 10)
    assert service(server, "honest", "wall")


# ---- Too much

def test_more_of_everything_than_anybody_needs(server, crowd, tmp_path):
    same = tmp_path / "same"
    same.write_bytes(agent.workload("plugin.so").read_bytes())
    os.truncate(same, 16 << 20)
    files = tmp_path / "files"
    files.mkdir()
    crowd.add("hostile_maps", "same", same)
    crowd.add("hostile_maps", "many")
    crowd.add("hostile_stack")
    crowd.add("hostile_storm")
    with Attack(tmp_path, server, crowd) as attack:
        time.sleep(3)
        crowd.add("hostile_maps", "files", files)
        time.sleep(7)
        late = subprocess.Popen([agent.workload("plain"), "300"], env={"OTEL_SERVICE_NAME": "late"})
        crowd.others.append(late)
        wait_for(lambda: any(p["service"] == "late" and p["complete"] > 20
                             for p in attack.status()["processes"]), 20)
    assert agent.share_of(service(server, "late"), "hot_sixty") > 0.4
    assert attack.last["workers"]["inspector"]["died"] == 0, attack.last["workers"]


# ---- Names

def test_names_that_want_to_be_more(server, crowd, tmp_path):
    copy = tmp_path / "\x1b[31mred\n name (deleted)"
    shutil.copy(workload("hostile_code"), copy)
    for variables in (
            {"OTEL_SERVICE_NAME": "x" * 120000},
            {"OTEL_RESOURCE_ATTRIBUTES": "service.name=honest%00,=,,%zz=%0,a" + ",k=v" * 25000},
            {"OTEL_SERVICE_NAME": "hon\nest"}, {"OTEL_SERVICE_NAME": "\x1b]0;honest\7"},
            {"OTEL_SERVICE_NAME": "", "OTEL_RESOURCE_ATTRIBUTES": "service.name=hon%0aest"}):
        crowd.add("hostile_code", "-", "=\x1b[2J\nhonest) R", env=variables, program=copy)

    # Perf maps: of another owner, behind a link, with names that are no names, and too large.
    maps = []

    def with_map(service):
        p = crowd.add("hostile_code", "-", env={"OTEL_SERVICE_NAME": service})
        path = pathlib.Path(f"/tmp/perf-{p.pid}.map")
        maps.append(path)
        return path, int(p.said[0], 16)

    try:
        path, code = with_map("its-link")
        secret = tmp_path / "secret"
        secret.write_text(f"{code:x} 1000 leaked_secret\n")
        path.symlink_to(secret)
        path, code = with_map("its-owner")
        path.write_text(f"{code:x} 1000 leaked_secret\n")
        os.chown(path, 12345, 12345)
        path, code = with_map("its-fifo")
        os.mkfifo(path)
        path, code = with_map("its-names")
        path.write_bytes(f"{code:x} 4 ".encode() + b"a;b\x1b[31m\xff\xfe\r" + b"n" * 65536 +
                         f"\n{code + 4:x} ffffffffffffff02 second\0name\n\n\n0 0\nzz\n".encode() +
                         f"{code + 4:x} fc third".encode())
        path, code = with_map("its-junk")
        line = f"{code:x} 1000 " + "j" * 40 + "\n"
        path.write_text("".join(f"{code + (i % 4096):x} 1 j{i}\n" for i in range(1500000)))
        path, code = with_map("its-huge")
        path.write_text(line)
        os.truncate(path, 100 << 20)
        with Attack(tmp_path, server, crowd) as attack:
            time.sleep(9)
    finally:
        for path in maps:
            path.unlink(missing_ok=True)
    for name in ("its-link", "its-owner", "its-fifo", "its-names", "its-junk", "its-huge"):
        found = service(server, name)
        assert found, name
        assert not any("leaked_secret" in f for stack in found for f in stack), name
    assert not any("\x1b" in s for s in attack.last["services"] if s), attack.last["services"]
    assert all(len(s) < 1000 for s in attack.last["services"])
    assert "\x1b" not in attack.agent.log


# ---- One pid, several processes

def test_a_pid_that_is_used_again_means_another_process(server, crowd, tmp_path):
    other = agent.workload("deep")
    crowd.add("hostile_pids", "OTEL_SERVICE_NAME=odd", agent.workload("plain"),
              "OTEL_SERVICE_NAME=even", other)
    with Attack(tmp_path, server, crowd):
        time.sleep(9)
    odd, even = service(server, "odd"), service(server, "even")
    assert odd and even
    assert not {"hot_sixty", "hot_thirty", "stage_one", "stage_two"} & {f for s in even for f in s}
    text = subprocess.run(["nm", other], capture_output=True, text=True, check=True).stdout
    only_even = set(re.findall(r" T (\w+)$", text, re.M)) - PLAIN
    assert not only_even & {f for stack in odd for f in stack}
    assert only_even & {f for stack in even for f in stack}


# ---- Its own processes

def test_workers_that_stand_still_are_replaced(server, crowd, tmp_path):
    def child(attack, name):
        for pid in attack.agent.children():
            if pathlib.Path(f"/proc/{pid}/comm").read_text().startswith(name[:15]):
                return pid
        return None

    with Attack(tmp_path, server, crowd) as attack:
        wait_for(lambda: "honest" in attack.status()["services"])
        for name in ("vesta-inspector", "vesta-parser"):
            os.kill(wait_for(lambda: child(attack, name)), signal.SIGSTOP)
        fresh = tmp_path / "fresh"  # a file that is not known yet
        shutil.copy(agent.workload("plain"), fresh)
        crowd.others.append(subprocess.Popen([fresh, "300"], env={"OTEL_SERVICE_NAME": "late"}))

        def both_killed():
            w = attack.status()["workers"]
            return w["inspector"]["killed"] >= 1 and w["parser"]["killed"] >= 1
        wait_for(both_killed, 30)
        wait_for(lambda: "late" in attack.status()["services"], 20)
        at = attack.agent.address
        os.kill(child(attack, "vesta-relay"), signal.SIGKILL)
        wait_for(lambda: attack.agent.address != at and attack.status(), 20)


# ---- No disk, no server

def test_a_full_disk_and_a_dead_server_are_lived_with(crowd, tmp_path):
    folder = tmp_path / "agent"
    folder.mkdir()
    mounted = []
    try:
        for name in ("cache", "spool", "state"):
            (folder / name).mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder / name],
                           check=True)
            mounted.append(folder / name)
            with open(folder / name / "fill", "wb", buffering=0) as f:
                with pytest.raises(OSError):
                    while True:
                        f.write(b"x" * 4096)
        crowd.add("hostile_storm")
        with Agent(folder, "--rate", "199", "--limits-cpu", "1000", "--exporters",
                   "http://127.0.0.1:9") as a:
            wait_for(lambda: a.status()["agent"])
            watch = Watch(a)
            watch.start()

            def refused():
                return re.search(r"vesta_agent_export_spool_failures_total\S* [1-9]",
                                 a.get("/metrics"))
            wait_for(refused, 30)
            time.sleep(3)
            watch.finish()
            assert not watch.trouble and watch.stall <= STALL_MAX and watch.memory <= MEMORY_MAX
            wait_for(lambda: any(p["service"] == "honest" and p["complete"] > 100
                                 for p in a.status()["agent"]["processes"]))
    finally:
        for path in mounted:
            subprocess.run(["umount", "-l", path])
