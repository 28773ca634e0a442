#!/usr/bin/env python3
"""Builds and runs every test, and ends with `N passed, N failed`.

  1. the build, by gcc with warnings as errors
  2. unit tests, layer and header checks
  3. end-to-end tests of the real program
  4. unit tests again, and a server under load, with AddressSanitizer and UndefinedBehaviorSanitizer
  5. the store's and the server's threads, and that server, with ThreadSanitizer
  6. the corpus replayed through every fuzz target, then a few seconds of fuzzing each
"""

import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
FUZZ_SECONDS = 3
SERVER_LOAD = "tests/e2e/test_server_load.py"
AGENT_E2E = sorted(str(path.relative_to(ROOT)) for name in ("test_agent*.py", "test_scrape.py")
                   for path in (ROOT / "tests" / "e2e").glob(name))
TSAN_TESTS = ["store_local/upkeep_threads", "store_local/append", "store_local/exact",
              "net/http_protocols", "net/http_server"]


# Folder, options, targets.
# Instrumented builds go without the web UI: it is the same there, and takes time.
ASAN = "build-asan", ["-Db_sanitize=address,undefined", "-Dweb=disabled"], []
TSAN = ("build-tsan", ["-Db_sanitize=thread", "-Db_lundef=false", "-Dweb=disabled"],
        ["vesta", *(f"tests/test_{name.split('/')[1]}" for name in TSAN_TESTS)])
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Count:
    passed = failed = skipped = 0


def say(text):
    print(f"\n== {text}", flush=True)


def run(*command, **kwargs):
    return subprocess.run([str(c) for c in command], cwd=ROOT, **kwargs).returncode


def build(folder, options, targets=()):
    """A failed build is one failed test."""
    ready = (ROOT / folder / "build.ninja").exists() or run(
        "meson", "setup", folder, *options, stdout=subprocess.DEVNULL) == 0
    if ready and run("ninja", "-C", folder, "--quiet", *targets) == 0:
        Count.passed += 1
        return True
    print(f"FAILED: the build in {folder}")
    Count.failed += 1
    return False


def build_ahead():
    """Builds what the later steps need while end-to-end tests mostly wait; a failure shows later."""
    def work():
        for folder, options, targets in (ASAN, TSAN):
            if not (ROOT / folder / "build.ninja").exists():
                run("meson", "setup", folder, *options, **SILENT)
            run("nice", "-n", "19", "ninja", "-C", folder, "--quiet", *targets, **SILENT)
        if shutil.which("clang"):
            run("nice", "-n", "19", sys.executable, "tools/fuzz.py", "--only-build", **SILENT)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def add_junit(path, code):
    """Counts test cases; a runner that died without saying why is one failure."""
    failed = 0
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else []:
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            print(f"FAILED {case.get('classname', '')} {case.get('name')}")
        elif case.find("skipped") is not None:
            Count.skipped += 1
        else:
            Count.passed += 1
    if code != 0 and failed == 0:
        failed = 1
        print("FAILED: the test runner itself")
    Count.failed += failed


def unit_tests(folder, *names):
    log = ROOT / folder / "meson-logs" / "testlog.junit.xml"
    log.unlink(missing_ok=True)
    add_junit(log, run("meson", "test", "-C", folder, "--print-errorlogs", "--no-rebuild", *names))


def pytest(folder, log, *what, **kwargs):
    log.unlink(missing_ok=True)
    env = {**os.environ, "VESTA_BUILD": str(ROOT / folder)}
    return run(sys.executable, "-m", "pytest", "-q", "--no-header", "-rs", "-p",
               "no:cacheprovider", f"--junitxml={log}", *what, env=env, **kwargs)


def e2e_tests(folder, *what):
    log = ROOT / folder / "e2e.junit.xml"
    add_junit(log, pytest(folder, log, *what))


def all_e2e_tests():
    """Tests of the agent mostly wait for its windows: they run beside the others."""
    log, text = ROOT / "build" / "e2e-agent.junit.xml", ROOT / "build" / "e2e-agent.log"
    code = []

    def work():
        with open(text, "w") as out:
            code.append(pytest("build", log, *AGENT_E2E, stdout=out, stderr=subprocess.STDOUT))

    thread = threading.Thread(target=work)
    thread.start()
    e2e_tests("build", "tests/e2e", *(f"--ignore={path}" for path in AGENT_E2E))
    thread.join()
    print(text.read_text(), flush=True)
    add_junit(log, code[0])


def fuzz():
    if not shutil.which("clang"):
        print("SKIP: fuzzing needs clang")
        Count.skipped += 1
        return
    log = ROOT / "build" / "fuzz.junit.xml"
    log.unlink(missing_ok=True)
    add_junit(log, run(sys.executable, "tools/fuzz.py", "--seconds", FUZZ_SECONDS, "--report", log))


def main():
    started = time.monotonic()
    say("build")
    if build("build", ["--werror"]):
        say("unit tests, layers, headers")
        unit_tests("build")
        say("end to end")
        ahead = build_ahead()
        all_e2e_tests()
        ahead.join()
        say("unit tests under ASan and UBSan")
        if build(*ASAN):
            unit_tests("build-asan", "--no-suite", "live")
            e2e_tests("build-asan", SERVER_LOAD)
        say("threads under TSan")
        if build(*TSAN):
            unit_tests("build-tsan", *TSAN_TESTS)
            e2e_tests("build-tsan", SERVER_LOAD)
        say("fuzz targets: the corpus, then a little fuzzing")
        fuzz()
    say(f"done in {time.monotonic() - started:.0f} s, {Count.skipped} skipped")
    print(f"{Count.passed} passed, {Count.failed} failed", flush=True)
    return Count.failed > 0


if __name__ == "__main__":
    sys.exit(main())
