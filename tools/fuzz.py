#!/usr/bin/env python3
"""Builds the fuzz targets, replays the corpus through them, then fuzzes each for a while.

usage: fuzz.py [--seconds N] [--report JUNIT.xml] [--only-build] [TARGET...]

Seeds are the corpus files of the target's format (when there is a corpus), unpacked first because a
fuzzer cannot see through gzip, and what fuzz/seeds/TARGET holds. New inputs are kept in build-fuzz/found/TARGET, crashes in
build-fuzz/crash-*."""

import argparse
import concurrent.futures
import gzip
import os
import pathlib
import re
import subprocess
import sys
import xml.sax.saxutils as sax

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUZZ = ROOT / "build-fuzz"
CORPUS = pathlib.Path(os.environ.get("VESTA_CORPUS", ROOT.parent / "shared" / "corpus"))
SEED_MAX = 128 << 10

# Where a target's seeds lie in the corpus, when not in the folder of its own name.
FOLDERS = {"otlp_json": "otlp", "otlp_write": "pprof", "pclntab": "elf", "parse": "elf", "unwind_table": "elf", "dhat": "other",
           "massif": "other", "ghc_prof": "other", "pmcstat": "other"}

# Formats whose corpus files are all too large to be seeds.
TINY = {
    "heapsnapshot": """{"snapshot":{"meta":{"node_fields":["type","name","id","self_size","edge_count",
"detachedness"],"node_types":[["hidden","string","object","native","synthetic"],"string"],"edge_fields":
["type","name_or_index","to_node"],"edge_types":[["property","shortcut","weak"],"node"]},"node_count":4,
"edge_count":4},"nodes":[4,0,1,0,2,0,2,1,3,16,2,1,3,2,5,8,0,2,1,0,7,24,0,0],"edges":[0,0,6,1,0,12,0,1,18,
2,1,12],"strings":["","Cart","Detached <div>"]}""",
}


def build():
    if not (FUZZ / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(FUZZ), "-Dfuzz=true", "-Dweb=disabled",
                        "-Doptimization=1", "-Dc_args=-g1", "-Db_sanitize=address,undefined"],
                       cwd=ROOT, check=True,
                       env=dict(os.environ, CC="clang"), stdout=subprocess.DEVNULL)
    known = subprocess.run(["ninja", "-C", str(FUZZ), "-t", "targets", "all"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout
    # Only these: programs of tests would take longer than all of them.
    targets = re.findall(r"^(fuzz/fuzz_\w+): ", known, re.M)
    return subprocess.run(["ninja", "-C", str(FUZZ), "--quiet", *targets], cwd=ROOT).returncode == 0


def plain(path):
    """The content without its gzip layers; a damaged layer stays as it is."""
    data = path.read_bytes()
    while data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, ValueError):
            break
    return data


def make_seeds(target, folder):
    """Copies seeds into a folder and returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    source = CORPUS / FOLDERS.get(target, target.replace("_", "-"))
    n = 0
    for path in [*sorted(source.rglob("*")), *sorted((ROOT / "fuzz/seeds" / target).glob("*"))]:
        if not path.is_file() or "expected" in path.parts or path.stat().st_size > SEED_MAX:
            continue
        data = plain(path)
        if len(data) <= SEED_MAX:
            (folder / f"{n:04d}").write_bytes(data)
            n += 1
    if target in TINY:
        (folder / f"{n:04d}").write_text(TINY[target])
        n += 1
    return n


def run_target(binary, seconds):
    """Returns None, or what went wrong."""
    target = binary.name.removeprefix("fuzz_")
    seeds, found = FUZZ / "seeds" / target, FUZZ / "found" / target
    n = make_seeds(target, seeds)
    found.mkdir(parents=True, exist_ok=True)
    common = [str(binary), "-timeout=10", "-rss_limit_mb=2048", "-max_len=131072",
              f"-artifact_prefix={FUZZ}/crash-{target}-", str(found), str(seeds)]
    env = dict(os.environ, UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    for what, limit in (("replay", "-runs=0"), ("fuzz", f"-max_total_time={seconds}")):
        done = subprocess.run([*common, limit], cwd=FUZZ, env=env, capture_output=True, text=True,
                              errors="replace", timeout=seconds + 600)
        if done.returncode != 0:
            return f"{what}: " + done.stderr[-4000:]
    last = [line for line in done.stderr.splitlines() if "DONE" in line][-1:]
    print(f"  {target:14} {n:4} seeds  {' '.join(' '.join(last).split())[:100]}", flush=True)
    return None


def write_report(path, results):
    cases = "".join(
        f'<testcase classname="fuzz" name={sax.quoteattr(name)}>'
        + (f"<failure>{sax.escape(ascii(why))}</failure>" if why else "") + "</testcase>"
        for name, why in results.items())
    pathlib.Path(path).write_text(f"<testsuite>{cases}</testsuite>")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--report")
    parser.add_argument("--only-build", action="store_true")
    parser.add_argument("targets", nargs="*")
    args = parser.parse_args()
    results = {"build": None if build() else "the fuzz build failed"}
    if args.only_build:
        return any(results.values())
    wanted = [binary for binary in sorted((FUZZ / "fuzz").glob("fuzz_*"))
              if not binary.is_dir() and not results["build"]
              and (not args.targets or binary.name.removeprefix("fuzz_") in args.targets)]
    # Each runs for a given time, so as many at once as there are cores.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for binary, why in zip(wanted, pool.map(lambda b: run_target(b, args.seconds), wanted)):
            name = binary.name.removeprefix("fuzz_")
            results[name] = why
            if why:
                print(f"  {name}: FAILED\n{why}", flush=True)
    if args.report:
        write_report(args.report, results)
    return any(results.values())


if __name__ == "__main__":
    sys.exit(main())
