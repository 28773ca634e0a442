#!/usr/bin/env python3
"""Coverage by unit and end-to-end tests: lines of the profile and formats rooms (at least 90 %),
branches of the store (at least 95 %)."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build-coverage"


def run(*command, **kwargs):
    return subprocess.run([str(c) for c in command], cwd=ROOT, **kwargs).returncode


def main():
    if not (FOLDER / "build.ninja").exists():
        run("meson", "setup", FOLDER, "-Db_coverage=true", "-Doptimization=0", "-Dweb=disabled",
            stdout=subprocess.DEVNULL)
    if run("ninja", "-C", FOLDER, "--quiet") != 0:
        return 1
    for old in FOLDER.rglob("*.gcda"):
        old.unlink()
    run("meson", "test", "-C", FOLDER, "--no-rebuild", stdout=subprocess.DEVNULL)
    run(sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "tests/e2e",
        env=dict(os.environ, VESTA_BUILD=str(FOLDER)))
    report = ("gcovr", "--root", ROOT, "--object-directory", FOLDER, "--print-summary",
              "--sort-percentage")
    lines = run(*report, "--filter", "src/(profile|formats)/", "--fail-under-line", "90")
    branches = run(*report, "--branches", "--filter", "src/(store|store_local|segment)/",
                   "--fail-under-branch", "95")
    return lines or branches


if __name__ == "__main__":
    sys.exit(main())
