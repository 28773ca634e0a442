"""Storing profiles and asking for them, beside SQLite and ClickHouse on the same data.

    make bench-store

Prints lines "metric: value unit" and ratios from this one run. The data are set R (one Go profile
replayed by ten pods for an hour) and set L (a day of 200 services, scaled): see bench/store_data.h.
What is not there (the corpus, SQLite, ClickHouse) is left out or made up, and said.

  r_ingest_s                all of R from packed bytes to disk, eight senders on one core
  r_bytes_per_sample        R settled, everything in the folder
  r_merge_ms, r_merge_one_pod_ms, r_merge_vs_floor
                            an hour from raw rows, unaligned, one thread, to a tree with totals and
                            names of its own; the floor is a bare loop over the same rows as
                            varints in memory, one column, no names, nothing checked
  r_scan_vs_floor           the same for the rows alone: what nine pods more take than one
  r_sum_equals_pprof        1: all of R, exported, is what go tool pprof adds it up to
  append_p50_ms, append_p99_ms   until durable, at 1,000 profiles a second
  l_*                       the same for L; l_merge_* of the service that is whole, all cores
  cold_open_ms, cold_first_query_ms   a new process on L
  open_1000_vs_10           opening a store of 1,000 segments, against one of 10
  peak_rss_mb               of the process that makes, stores and asks L: all of it, that of the
                            generator too; the store's memory limit is 256 MiB
  r_decode_us               unpacking and decoding a profile of R, before anything is stored
  r_store_s                 r_ingest_s less all of that
  sqlite_rows_*             R in SQLite, a row per sample, a transaction per profile
  sqlite_files_*            R in SQLite, a row per profile that holds the file
  chdb_*                    R in ClickHouse, within a process (chDB), inserted at once
  *_bytes_per_sample, *_insert_s, *_merge_ms (an hour, all pods), *_merge_one_pod_ms
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
CORPUS = pathlib.Path(os.environ.get("VESTA_CORPUS", ROOT.parent / "shared" / "corpus"))
DATA = BUILD / "bench-data"

CHDB_PACKAGE = "@chdb/lib-linux-x64-gnu@26.5.3"
PODS, WINDOWS = 10, 360
LARGE_HOURS = 24

# Ours and the rivals' names for one thing. They are given rows, so our decoding does not count.
COMPARED = [
    ("r_bytes_per_sample", "bytes_per_sample"),
    ("r_store_s", "insert_s"),
    ("r_merge_ms", "merge_ms"),
    ("r_merge_one_pod_ms", "merge_one_pod_ms"),
]


def build(target):
    """The program, or None where this build cannot make it."""
    done = subprocess.run(["ninja", "-C", BUILD, "--quiet", f"bench/{target}"], capture_output=True)
    if done.returncode == 0:
        return BUILD / "bench" / target
    text = (done.stdout + done.stderr).decode(errors="replace")
    if "unknown target" not in text:
        sys.exit(text)
    return None


def run(command):
    """Runs a program that prints metrics; returns them."""
    env = {**os.environ, "VESTA_CORPUS": str(CORPUS)}
    metrics = {}
    with subprocess.Popen(list(map(str, command)), env=env, stdout=subprocess.PIPE, text=True) as p:
        for line in p.stdout:
            print(line, end="", flush=True)
            if m := re.match(r"(\w+): ([0-9.]+) ", line):
                metrics[m[1]] = float(m[2])
    if p.returncode != 0:
        sys.exit(f"{command[0]} failed with {p.returncode}")
    return metrics


def find_chdb():
    """libchdb.so, fetched once; None where it cannot be had."""
    library = DATA / "chdb" / "package" / "libchdb.so"
    if library.exists():
        return library
    if not shutil.which("npm"):
        return None
    folder = DATA / "chdb"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"fetching {CHDB_PACKAGE} (170 MB) with npm", flush=True)
    try:
        done = subprocess.run(
            ["npm", "pack", "--silent", CHDB_PACKAGE], cwd=folder, capture_output=True, timeout=300
        )
        if done.returncode == 0:
            name = done.stdout.decode().strip().splitlines()[-1]
            subprocess.run(["tar", "xzf", name], cwd=folder, check=True)
            (folder / name).unlink()
    except (subprocess.SubprocessError, OSError, IndexError) as why:
        print(f"could not fetch it: {why}")
    return library if library.exists() else None


def fresh(name):
    """An empty folder for a rival."""
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run_rival(name, *more):
    """A rival's metrics on set R; none where it cannot be built."""
    program = build(f"rival_{name}")
    if not program:
        print(f"{name} is not installed: nothing is compared with it")
        return {}
    folder = fresh(f"work-{name}")
    try:
        return run([program, DATA, PODS, WINDOWS, folder, *more])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(ours, rivals):
    for our_name, suffix in COMPARED:
        for name, value in rivals.items():
            rival = name.removesuffix("_" + suffix)
            if our_name in ours and name == f"{rival}_{suffix}":
                print(f"{our_name}_vs_{rival}: {value / ours[our_name]:.1f} times better")


def check_sum(measure, merged):
    """Whether our sum of all of R is go tool pprof's."""
    if not shutil.which("go"):
        print("no go here: r_sum_equals_pprof is skipped")
        return
    sys.path.insert(0, str(ROOT / "tests" / "e2e"))
    import pprof_sum

    files, sums = fresh("r-files"), fresh("r-sums")
    try:
        run([measure, "files", DATA, PODS, WINDOWS, files])
        theirs = pprof_sum.read_pprof(pprof_sum.sum_with_go(sorted(files.iterdir()), sums))
        found = pprof_sum.differences(pprof_sum.read_pprof(merged), theirs)
    finally:
        shutil.rmtree(files, ignore_errors=True)
        shutil.rmtree(sums, ignore_errors=True)
    print(f"r_sum_equals_pprof: {0 if found else 1} of {len(theirs.sums)} stacks", flush=True)
    if found:
        sys.exit("the sum of set R differs from go tool pprof's:\n" + "\n".join(found[:5]))


def run_ours(options):
    """Our own store's metrics."""
    measure, program = build("measure_ingest"), build("measure_store")
    decode = run([measure, "decode", DATA, PODS, WINDOWS])
    work = fresh("work-vesta")
    try:
        metrics = run([program, "r", DATA, work])
        metrics["r_store_s"] = metrics["r_ingest_s"] - decode["r_decode_s"]
        print(f"r_store_s: {metrics['r_store_s']:.3f} s, ingest without decoding")
        check_sum(measure, work / "r.pb.gz")
        if not options.no_large:
            metrics |= run([program, "l", work, LARGE_HOURS])
            metrics |= run([program, "segments", work])
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return metrics


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-rivals", action="store_true", help="only our own store")
    parser.add_argument("--no-large", action="store_true", help="without set L, which takes minutes")
    options = parser.parse_args()

    DATA.mkdir(parents=True, exist_ok=True)
    ours = run_ours(options)
    if options.no_rivals:
        return
    rivals = run_rival("sqlite")
    if chdb := find_chdb():
        rivals |= run_rival("chdb", chdb)
    else:
        print("ClickHouse (chDB) cannot be had here: nothing is compared with it")
    compare(ours, rivals)


if __name__ == "__main__":
    main()
