#!/usr/bin/env python3
"""Checks that every header under src/ compiles alone. Prints TAP.

Those for BPF (*.bpf.h) are left out: they are for another machine.

usage: check_headers.py COMPILER..."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    compiler = sys.argv[1:] or ["cc"]
    headers = sorted(h for h in (ROOT / "src").rglob("*.h") if not h.name.endswith(".bpf.h"))
    print(f"1..{len(headers)}")
    failed = False
    for number, header in enumerate(headers, 1):
        name = header.relative_to(ROOT / "src")
        done = subprocess.run(
            [*compiler, "-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
             "-Wno-unused-function", "-I", str(ROOT / "src"), "-x", "c", "-"],
            input=f'#include "{name}"\n', text=True, capture_output=True)
        for line in done.stderr.splitlines()[:5]:
            print("# " + line)
        print(f"{'ok' if done.returncode == 0 else 'not ok'} {number} - {name} compiles alone")
        failed |= done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
