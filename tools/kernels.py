#!/usr/bin/env python3
"""Runs the agent on other kernels: boots each in a virtual machine, with nothing but the agent and a
few workloads in it, has it tell what works, record them, and holds that against what is known.

usage: kernels.py [--agent FILE] [VERSION...]        of 5.10 5.15 5.19 6.1 6.8 6.12; without, all

Kernels are Debian's and Ubuntu's own, fetched and unpacked below build/kernels, not installed. Debian's
mirror is the one apt is set up with; Ubuntu's is what UBUNTU_MIRROR says, without it their kernels are
left out. Needs qemu-system-x86. A kernel takes half a minute with KVM, and some minutes without."""

import argparse
import collections
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("VESTA_BUILD", ROOT / "build"))
HOME = BUILD / "kernels"
WORKLOADS = ROOT / "tests" / "workloads"

# Where KVM itself is a guest (PVM), it runs kernels that know about that, and no others.
HAS_KVM = os.access("/dev/kvm", os.R_OK | os.W_OK) and not pathlib.Path("/sys/module/kvm_pvm").exists()

# A machine that is emulated takes seconds to look into a program: so long its stacks are cut, and a
# wait that began then keeps the stack that it has.
LEAST_WHOLE, LEAST_WHOLE_WAITS = (0.97, 0.97) if HAS_KVM else (0.80, 0.40)

Kernel = collections.namedtuple("Kernel", "origin suite package lacks")

# What each must have is all that it is not said to lack: features as `doctor` names them.
NO_WALL, NO_TABLES = "wall clock", "unwinding by tables"
KERNELS = {
    "5.10": Kernel("debian", "bullseye", r"linux-image-5\.10\.0-\d+-cloud-amd64", {"version"}),
    "5.15": Kernel("ubuntu", "jammy", r"linux-image-unsigned-5\.15\.0-\d+-generic",
                   {"version", NO_TABLES, NO_WALL}),
    "5.19": Kernel("ubuntu", "jammy-updates", r"linux-image-unsigned-5\.19\.0-\d+-generic",
                   {"version", NO_WALL}),
    "6.1": Kernel("debian", "bookworm", r"linux-image-6\.1\.0-\d+-cloud-amd64", set()),
    "6.8": Kernel("ubuntu", "noble", r"linux-image-unsigned-6\.8\.0-\d+-generic", set()),
    "6.12": Kernel("debian", "trixie", r"linux-image-6\.12\.[\w+.]+-cloud-amd64", set()),
}

# Workload: how it is built.
PROGRAMS = {
    "plain": ["-O2", "-fomit-frame-pointer", "plain.c"],
    "static": ["-O2", "-static", "-fomit-frame-pointer", "plain.c"],
    "framed": ["-O2", "-static", "-fno-omit-frame-pointer", "plain.c"],
    "threads": ["-O2", "-fno-omit-frame-pointer", "-pthread", "threads.c"],
}
SHARES = {"hot_sixty": 0.60, "hot_thirty": 0.30, "hot_ten": 0.10}
# Workload, type, seconds.
RECORDINGS = ["plain cpu 10", "static cpu 6", "framed cpu 6", "threads wall 6", "threads offcpu 6",
              "threads lock 6"]

INIT = """#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup; ip link set lo up
exec >/dev/ttyS1 2>&1
stty -F /dev/ttyS1 raw
say() { echo "@@ $1"; shift; "$@"; echo "@= $?"; }
record() {
    vesta-agent record -q --symbols names --type $2 -o /tmp/x.collapsed -- $1 $3 20; r=$?
    cat /tmp/x.collapsed; rm -f /tmp/x.collapsed
    return $r
}
say release uname -r
say doctor vesta-agent doctor --json
"""


def fail(text):
    sys.exit(f"kernels: {text}")


# ---- packages


def debian_mirror():
    found = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian"],
                           capture_output=True, text=True).stdout.split()
    return found[0] if found else fail("apt knows no mirror of Debian: run apt-get update")


def keyring(origin):
    if origin == "debian":
        return "/usr/share/keyrings/debian-archive-keyring.gpg"
    return fetch("debian", "trixie", "ubuntu-keyring",
                 "./usr/share/keyrings/ubuntu-archive-keyring.gpg")


def apt(folder, *words):
    """A call of apt for one suite only, with lists of its own: nothing of this machine is changed."""
    done = subprocess.run([words[0], "-o", f"Dir::State::Lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache",
                           "-o", f"Dir::Etc::SourceList={folder}/sources", "-o", "Dir::Etc::SourceParts=/dev/null",
                           "-o", "Dir::State::status=/dev/null", "-o", "APT::Sandbox::User=root",
                           "-o", "Acquire::Languages=none", *words[1:]],
                          cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(words)}: {done.stderr.strip()[-500:]}")
    return done.stdout


def suite(origin, name):
    folder = HOME / "apt" / name
    if not (folder / "ready").exists():
        mirror = debian_mirror() if origin == "debian" else os.environ["UBUNTU_MIRROR"]
        for part in ["lists/partial", "cache/archives/partial"]:
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "sources").write_text(f"deb [arch=amd64 signed-by={keyring(origin)}] {mirror} {name} main\n")
        apt(folder, "apt-get", "update")
        (folder / "ready").touch()
    return folder


def fetch(origin, suite_name, package, pattern):
    """The newest file that matches a pattern, of the newest package whose name matches."""
    folder = suite(origin, suite_name)

    def number(name):
        return [int(n) for n in re.findall(r"\d+", name)]

    names = sorted((n for n in apt(folder, "apt-cache", "pkgnames").split() if re.fullmatch(package, n)), key=number)
    if not names:
        fail(f"{suite_name} has no package {package}")
    out = folder / names[-1]
    if not out.exists():
        print(f"kernels: fetching {names[-1]}", file=sys.stderr)
        apt(folder, "apt-get", "download", names[-1])
        deb = next(folder.glob(f"{names[-1]}_*.deb"))
        fresh = folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        unpack = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", fresh, "--wildcards", pattern], stdin=unpack.stdout, check=True)
        unpack.wait()
        deb.unlink()
        fresh.rename(out)
    return next(out.glob(pattern))


# ---- the guest


def newc(entries):
    """An archive as the kernel unpacks it: (path, mode, bytes) each."""
    out = bytearray()
    for number, (path, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        name = path.encode() + b"\0"
        words = [number + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        out += b"070701" + b"".join(b"%08x" % w for w in words) + name
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def libraries(program):
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return set(re.findall(r"(/\S+) \(0x", listed))


def build_workload(name, folder):
    flags = [str(WORKLOADS / w) if w.endswith(".c") else w for w in PROGRAMS[name]]
    subprocess.run(["gcc", *flags, "-o", folder / name], check=True)
    return folder / name


def initramfs(agent):
    made = HOME / "workloads"
    made.mkdir(parents=True, exist_ok=True)
    busybox = fetch("debian", "bookworm", "busybox-static", "./bin/busybox")
    programs = {"bin/vesta-agent": agent, "bin/busybox": busybox}
    programs |= {f"bin/{name}": build_workload(name, made) for name in PROGRAMS}
    files = {to: pathlib.Path(at).read_bytes() for to, at in programs.items()}
    for program in programs.values():
        files |= {lib.lstrip("/"): pathlib.Path(lib).read_bytes() for lib in libraries(program)}
    jobs = "".join(f'say "{r}" record {r}\n' for r in RECORDINGS)
    files["init"] = (INIT + jobs + "echo '@@ end'; poweroff -f\n").encode()
    files["etc/passwd"] = b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
    files["etc/group"] = b"root:x:0:\nnogroup:x:65534:\n"
    folders = {"proc", "sys", "dev", "tmp", "var", "var/cache", "var/lib", "run"}
    folders |= {str(p) for f in files for p in pathlib.Path(f).parents if str(p) != "."}
    entries = [(f, 0o040755, b"") for f in sorted(folders)]
    entries += [(f, 0o100755, data) for f, data in sorted(files.items())]
    applets = "sh mount ip stty echo cat rm uname poweroff".split()
    entries += [(f"bin/{a}", 0o120777, b"busybox") for a in applets]
    out = HOME / "initramfs.gz"
    out.write_bytes(gzip.compress(newc(entries), 1))
    return out


def boot(kernel, initrd, log):
    """What the guest said, by job: (status, text)."""
    said = log.with_suffix(".said")
    said.unlink(missing_ok=True)
    machine = ["-accel", "kvm", "-cpu", "host"] if HAS_KVM else ["-accel", "tcg,thread=multi", "-cpu", "max"]
    try:
        subprocess.run(["qemu-system-x86_64", *machine, "-smp", "2", "-m", "768", "-nographic", "-nodefaults",
                        "-no-reboot", "-kernel", kernel, "-initrd", initrd, "-serial", f"file:{log}",
                        "-serial", f"file:{said}",
                        "-append", "console=ttyS0 rdinit=/init panic=-1 loglevel=4 mitigations=off no_timer_check"],
                       timeout=500, check=True)
    except subprocess.TimeoutExpired:
        print(f"{log.stem}: not done after 500 s; what it said is in {said}")
    jobs = {}
    for name, text, status in re.findall(r"^@@ (.+?)\r?\n(.*?)^@= (\d+)", said.read_text(errors="replace"),
                                         re.S | re.M):
        jobs[name] = (int(status), text)
    return jobs


# ---- what is expected


def stacks(text):
    found = collections.Counter()
    for line in text.splitlines():
        stack, _, value = line.rpartition(" ")
        if value.isdigit() and stack:
            found[tuple(stack.split(";"))] += int(value)
    return found


def share(found, wanted):
    total = sum(found.values())
    return sum(v for s, v in found.items() if wanted(s)) / total if total else 0


def is_whole(stack):
    return not any(f.startswith("[cut") for f in stack)


def check_doctor(jobs, lacks, wrong):
    status, text = jobs.get("doctor", (None, ""))
    try:
        told = json.loads(text)
    except ValueError:
        wrong.append(f"doctor said no JSON: {text[:200]!r}")
        return
    kernel = [c for c in told["checks"] if c["area"] in ("Kernel", "Sampling") and c["name"] != "hardware cycles"]
    lost = {c["name"] for c in kernel if c["state"] != "works"}
    if lost != lacks:
        wrong.append(f"doctor misses {sorted(lost) or 'nothing'}, not {sorted(lacks) or 'nothing'}: "
                     + "; ".join(c["found"] for c in kernel if c["name"] in lost))
    if told["works"] != (status == 0):
        wrong.append(f"doctor ended with {status}")


def check_cpu(name, job, by_frame_pointers, wrong):
    status, text = job
    found = stacks(text)
    if status != 0 or not found:
        wrong.append(f"{name}: ended with {status}: {text[:300]!r}")
        return "failed"
    whole = share(found, is_whole)
    for function, expected in SHARES.items():
        got = share(found, lambda s: function in s)
        if abs(got - expected) > 0.08:
            wrong.append(f"{name}: {function} has {got:.2f}, not {expected:.2f}")
    reached = share(found, lambda s: "main" in s and (is_whole(s) or by_frame_pointers))
    if reached < LEAST_WHOLE:
        wrong.append(f"{name}: {reached:.2f} of the samples are whole: {found.most_common(3)}")
    return f"{whole:.1%}"


def check_waits(name, job, function, wrong):
    status, text = job
    found = stacks(text)
    if status != 0 or not found:
        wrong.append(f"{name}: ended with {status}: {text[:300]!r}")
        return "failed"
    if share(found, lambda s: function in s) < 0.05:
        wrong.append(f"{name}: {function} is hardly there: {found.most_common(3)}")
    whole = share(found, is_whole)
    if whole < LEAST_WHOLE_WAITS:
        wrong.append(f"{name}: {whole:.2f} of the time has whole stacks: {found.most_common(3)}")
    return f"{whole:.1%}"


def check(kernel, jobs):
    """Cells of the table, and what is wrong."""
    wrong, cells = [], {}
    check_doctor(jobs, kernel.lacks, wrong)
    for name in RECORDINGS:
        workload, kind, _ = name.split()
        job = jobs.get(name, (None, ""))
        if kernel.lacks == {"version"} or (kind == "wall" and NO_WALL in kernel.lacks):
            cells[name] = "refused" if job[0] else "RAN"
            if not job[0]:
                wrong.append(f"{name} was not refused but ended with {job[0]}")
            continue
        if kind == "cpu" and workload != "framed" and NO_TABLES in kernel.lacks:
            cells[name] = "cut"
            if job[0] != 0 or share(stacks(job[1]), lambda s: "hot_sixty" in s) < 0.5:
                wrong.append(f"{name}: ended with {job[0]}: {job[1][:300]!r}")
            continue
        if kind == "cpu":
            cells[name] = check_cpu(name, job, NO_TABLES in kernel.lacks, wrong)
        else:
            function = {"wall": "sleep_long", "offcpu": "sleep_long", "lock": "fight"}[kind]
            cells[name] = check_waits(name, job, function, wrong)
    return cells, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", default=BUILD / "vesta-agent", type=pathlib.Path)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    args = parser.parse_args()
    if not shutil.which("qemu-system-x86_64"):
        fail("qemu-system-x86_64 is missing: apt-get install --no-install-recommends qemu-system-x86")
    unknown = [v for v in args.versions if v not in KERNELS]
    if unknown:
        fail(f"no such kernel: {unknown[0]} (known are {', '.join(KERNELS)})")
    initrd = initramfs(args.agent)
    bad = 0
    for version in args.versions or KERNELS:
        kernel = KERNELS[version]
        if kernel.origin == "ubuntu" and not os.environ.get("UBUNTU_MIRROR"):
            print(f"{version}: left out, UBUNTU_MIRROR is not set")
            continue
        image = fetch(kernel.origin, kernel.suite, kernel.package, "./boot/vmlinuz-*")
        start = time.monotonic()
        jobs = boot(image, initrd, HOME / f"{version}.log")
        cells, wrong = check(kernel, jobs)
        release = jobs.get("release", (None, "?"))[1].strip()
        print(f"{version} ({release}, {time.monotonic() - start:.0f} s): {'FAILED' if wrong else 'ok'}  "
              + "  ".join(f"{name}: {cell}" for name, cell in cells.items()))
        for text in wrong:
            print(f"    {text}")
        bad += bool(wrong)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
