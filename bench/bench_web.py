"""The web UI in Debian's Chromium with software rendering, beside Speedscope on the same profile.

    make bench-web

Prints lines "metric: value unit" from this one run; bench/web/measure.mjs says how each is taken.

  shell_gzip_kb                   script of the shell and Explore, gzip -9
  beside_gzip_kb                  script that Explore asks for later, by itself (the timeline's)
  load_ms                         warm load of Explore until a graph of 5,000 nodes is drawn, without
                                  the time in which answers were waited for
  tree_bytes_1m                   the tree of a million nodes as the server sends it, uncompressed
  decode_ms_1m                    those bytes to columns
  first_paint_ms_1m               from the last of those bytes to the first picture, in Explore
  frame_median_ms_1m, frame_p95_ms_1m   one step of zooming or panning, drawn and read back
  speedscope_frame_median_ms_1m   the same steps in Speedscope's left-heavy view
  frame_ratio_vs_speedscope       ours over theirs
"""

import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
WORK = BUILD / "bench-web"
SPEEDSCOPE = "speedscope@1.25.0"
N_NODES, N_NAMES, DEPTH = 1_000_000, 5_000, 80


def make_profile(path, n_nodes):
    """Random-walk stacks: each leaves the one before at some depth and goes on on its own."""
    rng = random.Random(6)
    names = [f"p{i % 61}.f{i}" for i in range(N_NAMES)]
    stack, nodes = [], 0
    with open(path, "w") as out:
        while nodes < n_nodes:
            keep = rng.randrange(len(stack) + 1) if stack else 0
            keep = max(keep, len(stack) - 24)
            depth = min(DEPTH, keep + rng.randint(1, 24))
            fresh = [names[min(N_NAMES - 1, int(rng.expovariate(1 / 700)))]
                     for _ in range(keep, depth)]
            stack = stack[:keep] + fresh
            nodes += len(fresh)
            out.write(";".join(stack) + f" {rng.randint(1, 50)}\n")


def npm_install(folder, *packages):
    subprocess.run(["npm", "install", "--no-save", "--silent", "--no-audit", "--no-fund", *packages],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    profile, small = WORK / "million.collapsed", WORK / "small.collapsed"
    for path, n_nodes in ((profile, N_NODES), (small, 5_000)):
        if not path.exists():
            make_profile(path, n_nodes)
    if not (WORK / "node_modules/speedscope/dist/release").exists():
        npm_install(WORK, SPEEDSCOPE)
    if not (ROOT / "tests/web/node_modules/playwright-core").exists():
        npm_install(ROOT / "tests/web")
    env = os.environ | {"VESTA_BUILD": str(BUILD)}
    return subprocess.run(["node", ROOT / "bench/web/measure.mjs", WORK, profile, small],
                          env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
