"""Reading and summing up profiles, as ratios to the least work possible and to go tool pprof.

    make bench-formats

Prints what was measured per file and lines "metric: value unit":

  pprof_decode_vs_floor, otlp_decode_vs_floor, merge_vs_floor
      speed as a fraction of the floor's (1 is as fast): the same bytes inflated and walked field
      by field into plain arrays; the same columns summed by a bare loop
  top_speedup_vs_pprof      how many times faster `vesta top` is than `pprof -top`
  top_memory_vs_pprof       its peak memory as a fraction of pprof's

over the largest pprof files of the corpus and a synthetic one of a million samples. What is not
there (the corpus, go) is skipped, and said.
"""

import argparse
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
CORPUS = pathlib.Path(os.environ.get("VESTA_CORPUS", ROOT.parent / "shared" / "corpus"))
MEASURE = BUILD / "bench" / "measure_formats"

LARGEST = 10
SYNTHETIC_SAMPLES = 1_000_000
RUNS = 5
LONG_RUN_SECONDS = 5  # a program that takes longer is run once


def largest_files():
    """The largest pprof files of the corpus that hold a profile."""
    if not (CORPUS / "MANIFEST.tsv").exists():
        print(f"no corpus at {CORPUS}: only the synthetic profile is measured")
        return []
    files = []
    for path in (CORPUS / "pprof").rglob("*"):
        if not path.is_file() or "expected" in path.parts or path.suffix == ".json":
            continue
        files.append((path.stat().st_size, path))
    return [path for _, path in sorted(files, reverse=True)[:LARGEST]]


def find_pprof():
    """pprof as a program of its own, so that `go tool` is not measured."""
    if not shutil.which("go"):
        return None
    done = subprocess.run(["go", "tool", "-n", "pprof"], capture_output=True, text=True)
    path = done.stdout.strip()
    if done.returncode != 0 or not path:
        return None
    if not os.path.exists(path):  # newer Go builds it on first use
        subprocess.run(["go", "tool", "pprof", "-h"], capture_output=True)
    return path if os.path.exists(path) else None


def run_once(command):
    """Seconds and peak bytes of one run."""
    done = subprocess.run([BUILD / "bench" / "run_measured", *command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[-1]}: {done.stderr.strip()}")
    seconds, peak, _ = done.stdout.split()
    return float(seconds), int(peak)


def measure(command):
    """The best time and the least peak of a few runs."""
    seconds, peak = run_once(command)
    for _ in range(RUNS - 1 if seconds < LONG_RUN_SECONDS else 0):
        s, p = run_once(command)
        seconds, peak = min(seconds, s), min(peak, p)
    return seconds, peak


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def compare_top(files):
    pprof = find_pprof()
    if not pprof:
        print("no go tool pprof here: top_speedup_vs_pprof and top_memory_vs_pprof are skipped")
        return
    speedups, memories = [], []
    for path in files:
        theirs = measure([pprof, "-symbolize=none", "-top", str(path)])
        ours = measure([str(BUILD / "vesta"), "top", "-symbolize=none", str(path)])
        speedups.append(theirs[0] / ours[0])
        memories.append(ours[1] / theirs[1])
        print(
            f"{path.name:<32} pprof {theirs[0] * 1e3:9.1f} ms {theirs[1] / 1e6:7.1f} MB  "
            f"vesta {ours[0] * 1e3:9.1f} ms {ours[1] / 1e6:7.1f} MB  "
            f"{speedups[-1]:6.1f} times  {memories[-1]:.2f}",
            flush=True,
        )
    print(f"top_speedup_vs_pprof: {geometric_mean(speedups):.1f} times")
    print(f"top_memory_vs_pprof: {geometric_mean(memories):.3f} ratio", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=SYNTHETIC_SAMPLES, help="of the synthetic")
    options = parser.parse_args()

    programs = ["vesta", "bench/measure_formats", "bench/run_measured"]
    subprocess.run(["ninja", "-C", str(BUILD), "--quiet", *programs], check=True)
    with tempfile.TemporaryDirectory() as folder:
        synthetic = pathlib.Path(folder) / "synthetic.pb.gz"
        subprocess.run([MEASURE, "synth", str(options.samples), synthetic], check=True)
        files = [*largest_files(), synthetic]
        subprocess.run([MEASURE, "decode", *files], check=True)
        subprocess.run([MEASURE, "decode-otlp", *files], check=True)
        subprocess.run([MEASURE, "merge", files[0]], check=True)
        compare_top(files)


if __name__ == "__main__":
    main()
