"""The agent of a user without rights: own processes by perf events, and a clear word about the rest."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import agent
import pytest
from conftest import wait_for

NOBODY = 65534
REFUSE = r"""
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Runs a command that may not open perf events, as in many containers. */
int main(int argc, char **argv)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = {sizeof(f) / sizeof(f[0]), f};
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &p))
        return 126;
    execvp(argv[1], argv + 1);
    return 127;
}
"""


class Place:
    """A folder that nobody can get to, with the programs in it, and a way to run them as nobody."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        folder.chmod(0o755)
        self.home.mkdir()
        os.chown(self.home, NOBODY, NOBODY)
        for name in ("vesta", "vesta-agent"):
            shutil.copy(agent.BUILD / name, folder / name)
        self.agent = folder / "vesta-agent"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "VESTA_", "XDG_"))}
        self.env = {**clean, "HOME": str(self.home)}

    def workload(self, name):
        path = self.folder / name
        if not path.exists():
            shutil.copy(agent.workload(name), path)
        return path

    def as_nobody(self, *command):
        return ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
                "--inh-caps=-all", "--bounding-set=-all", *map(str, command)]

    def run(self, *command, timeout=60):
        return subprocess.run(self.as_nobody(*command), capture_output=True, text=True, cwd=self.home,
                              env=self.env, timeout=timeout)

    def start(self, *command, **kw):
        return subprocess.Popen(self.as_nobody(*command), cwd=self.home, env=self.env, **kw)


def paranoia():
    return int(pathlib.Path("/proc/sys/kernel/perf_event_paranoid").read_text())


def why_not():
    if os.geteuid() != 0:
        return "needs root, to become nobody"
    if not shutil.which("setpriv"):
        return "setpriv is not installed"
    return f"kernel.perf_event_paranoid is {paranoia()}" if paranoia() > 2 else ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture(scope="module")
def place():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vesta-nobody-", dir="/tmp"))
    yield Place(folder)
    shutil.rmtree(folder)


@pytest.fixture
def threads(place):
    """A process of nobody's with threads, some of which work."""
    p = place.start(place.workload("threads"), "120", "12")
    wait_for(lambda: len(os.listdir(f"/proc/{p.pid}/task")) == 13)
    yield p
    p.kill()
    p.wait()


def test_a_command_is_profiled_with_whole_stacks_and_right_shares(place):
    out = place.home / "plain.collapsed"
    done = place.run(place.agent, "record", "-F", "499", "-o", out, "--", place.workload("plain"), "3")
    assert done.returncode == 0, done.stderr
    assert ("no rights for BPF (CAP_BPF, CAP_PERFMON): sampling own processes by perf events"
            in done.stderr)
    assert done.stderr.count("no rights for BPF") == 1
    found = agent.stacks(out)
    assert sum(found.values()) > 0.1e9, found
    whole = sum(v for s, v in found.items() if "_start" in s[0] and "main" in s)
    assert whole / sum(found.values()) >= 0.95, found
    for name, share in (("hot_sixty", 0.6), ("hot_thirty", 0.3), ("hot_ten", 0.1)):
        assert abs(agent.share_of(found, name) - share) < 0.09, (name, found)
    # A sample may hit the caller itself.
    both = agent.share_of(found, "stage_one") - agent.share_of(found, "hot_sixty")
    assert 0 <= both < 0.02
    # Names are kept at home for the next time.
    assert list((place.home / ".cache" / "vesta-agent").iterdir())


def test_a_process_with_threads_that_runs_already_is_profiled(place, threads):
    out = place.home / "threads.collapsed"
    done = place.run(place.agent, "record", "-F", "199", "-d", "2s", "-p", threads.pid, "-o", out)
    assert done.returncode == 0, done.stderr
    found = agent.stacks(out)
    assert agent.share_of(found, "hot_holder") > 0.8, found
    whole = sum(v for s, v in found.items() if "start_thread" in s and "fight" in s)
    assert whole / sum(found.values()) >= 0.95, found


def test_children_of_a_command_are_profiled_too(place):
    out = place.home / "children.collapsed"
    done = place.run(place.agent, "record", "-F", "199", "-o", out, "--", "/bin/sh", "-c",
                     f"{place.workload('plain')} 2 & {place.workload('plain')} 2; wait")
    assert done.returncode == 0, done.stderr
    found = agent.stacks(out)
    assert agent.share_of(found, "hot_sixty") > 0.5, found


def test_a_process_of_another_user_is_refused_and_why(place):
    done = place.run(place.agent, "record", "-d", "1s", "-p", os.getpid())
    assert done.returncode == 1
    assert f"may not sample process {os.getpid()}: it belongs to user 0" in done.stderr
    assert "CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE" in done.stderr


def test_what_needs_bpf_is_refused_and_why(place):
    for kind, name in (("wall", "wall clock"), ("offcpu", "off-CPU time"), ("faults", "page faults")):
        done = place.run(place.agent, "record", "--type", f"cpu,{kind}", "--", "/bin/true")
        assert done.returncode == 1
        assert f"{name} needs BPF, and CAP_BPF and CAP_PERFMON are missing" in done.stderr


@pytest.fixture(scope="module")
def refuse(place):
    """A program that runs another without perf_event_open."""
    source = place.folder / "refuse.c"
    source.write_text(REFUSE)
    subprocess.run(["gcc", "-O1", source, "-o", place.folder / "refuse"], check=True)
    return place.folder / "refuse"


def test_without_perf_events_it_says_what_is_missing(place, refuse):
    done = place.run(refuse, place.agent, "record", "--", "/bin/true")
    assert done.returncode == 1
    assert "may neither load BPF programs (CAP_BPF, CAP_PERFMON) nor sample own processes" in done.stderr
    assert "perf_event_open is refused (Operation not permitted)" in done.stderr
    assert "a seccomp filter forbids it" in done.stderr
    assert "run as root or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE" in done.stderr
    done = place.run(refuse, place.agent, "--exporters", f"file:{place.home}/out")
    assert done.returncode == 1 and "may neither load BPF programs" in done.stderr


def test_a_paranoid_kernel_is_named_with_the_way_out(place, refuse):
    """The level is shown by a file in its place, in a mount namespace of this test's own."""
    level = place.folder / "level"
    level.write_text("4\n")
    script = (f"mount --bind {level} /proc/sys/kernel/perf_event_paranoid && exec \"$@\"")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh",
                           *place.as_nobody(refuse, place.agent, "record", "--", "/bin/true")],
                          capture_output=True, text=True, cwd=place.home, env=place.env, timeout=60)
    if "mount:" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr}")
    assert done.returncode == 1
    assert "kernel.perf_event_paranoid is 4" in done.stderr
    assert "set sysctl kernel.perf_event_paranoid=2" in done.stderr


def test_doctor_tells_that_own_processes_can_be_profiled(place, refuse):
    done = place.run(place.agent, "doctor")
    assert done.returncode == 1
    assert re.search(r"ok +own processes +works", done.stdout)
    assert "Your own processes can be profiled all the same" in done.stdout
    done = place.run(refuse, place.agent, "doctor")
    assert re.search(r"lost +own processes +could not open a perf event", done.stdout)
    assert "can be profiled all the same" not in done.stdout


def test_folders_are_at_home_unless_told_otherwise(place):
    text = place.run(place.agent, "config", "print").stdout
    assert f"{place.home}/.local/state/vesta-agent" in text
    assert f"{place.home}/.local/state/vesta-agent/spool" in text
    assert f"{place.home}/.cache/vesta-agent" in text
    text = place.run(place.agent, "config", "print", "--state-dir", "/tmp/elsewhere").stdout
    assert "/tmp/elsewhere" in text
    place.env["XDG_STATE_HOME"] = str(place.home / "xdg")
    try:
        assert f"{place.home}/xdg/vesta-agent" in place.run(place.agent, "config", "print").stdout
    finally:
        del place.env["XDG_STATE_HOME"]


def test_vesta_up_profiles_what_belongs_to_the_user(place):
    log = place.folder / "up.log"
    up = place.start(place.folder / "vesta", "up", "--data", place.home / "data", "--listen",
                     "127.0.0.1:0", "--listen-otlp-grpc", "127.0.0.1:0", "--listen-otlp-http",
                     "127.0.0.1:0", "--", "--window", "1s", "--backoff-host-cpu", "0", "--rate", "49",
                     stdout=open(log, "wb"), stderr=subprocess.STDOUT)
    work = None
    try:
        url = wait_for(lambda: re.search(r"Vesta runs at (\S+) and profiles your processes",
                                         log.read_text()))[1]
        work = place.start(place.workload("plain"), "300")  # after it: found by looking

        def look():
            text = place.run(place.folder / "vesta", "convert", "cpu{}", "--from", "now-10m", "--to",
                             "collapsed", "--url", url).stdout
            return "main;run;stage_one;hot_sixty" in text and text
        assert wait_for(look, 60)
        assert "no rights for BPF" in log.read_text()
    finally:
        if work:
            work.kill()
            work.wait()
        up.terminate()
        assert up.wait(20) == 0
