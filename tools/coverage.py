#!/usr/bin/env python3
"""Line coverage of the profile and formats rooms by unit and end-to-end tests; fails below 90 %."""

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
        run("meson", "setup", FOLDER, "-Db_coverage=true", "-Doptimization=0",
            stdout=subprocess.DEVNULL)
    if run("ninja", "-C", FOLDER, "--quiet") != 0:
        return 1
    for old in FOLDER.rglob("*.gcda"):
        old.unlink()
    run("meson", "test", "-C", FOLDER, "--no-rebuild", stdout=subprocess.DEVNULL)
    run(sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "tests/e2e",
        env=dict(os.environ, VESTA_BUILD=str(FOLDER)))
    return run("gcovr", "--root", ROOT, "--object-directory", FOLDER,
               "--filter", "src/(profile|formats)/", "--print-summary", "--fail-under-line", "90",
               "--sort-percentage")


if __name__ == "__main__":
    sys.exit(main())
