#!/usr/bin/env python3
"""Builds and runs every test, and ends with `N passed, N failed`.

Many tests watch a machine at work, and may fail where something else takes it. So what fails is run
once more, alone: it is told, and fails the whole only if it fails again. Where more than a few
fail, that is no accident, and nothing is run again.

  1. the build, by gcc with warnings as errors
  2. unit tests, layer and header checks; types, lint and unit tests of the pages
  3. end-to-end tests of the real program, of its pages in a real browser, and of the Node package
  4. unit tests again, and a server under load, with AddressSanitizer and UndefinedBehaviorSanitizer
  5. threads of the store, the server and the preloaded library, and that server, with
     ThreadSanitizer
  6. the corpus replayed through every fuzz target, then a few seconds of fuzzing each
"""

import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
STARTED = time.monotonic()
FUZZ_SECONDS = 1
AGAIN_MAX = 5
SERVER_LOAD = "tests/e2e/test_server_load.py"
# Also what agents would read themselves where they run beside it.
AGENT_E2E = sorted(str(path.relative_to(ROOT)) for name in ("test_agent*.py", "test_scrape.py",
                                                            "test_preload_library.py")
                   for path in (ROOT / "tests" / "e2e").glob(name))
TSAN_TESTS = ["store_local/upkeep_threads", "store_local/append", "store_local/exact",
              "net/http_protocols", "net/http_server", "preload/chance", "preload/handover",
              "preload/holders", "preload/live_table"]


# Folder, options, targets.
# Instrumented builds go without the web UI: it is the same there, and takes time, as do
# optimisation and what a debugger wants to know.
QUICK = ["-Dweb=disabled", "-Doptimization=1", "-Dc_args=-g1"]
ASAN = "build-asan", ["-Db_sanitize=address,undefined", *QUICK], []
TSAN = ("build-tsan", ["-Db_sanitize=thread", "-Db_lundef=false", *QUICK],
        ["vesta", *(f"tests/test_{name.split('/')[1]}" for name in TSAN_TESTS)])
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Count:
    passed = failed = skipped = second = 0
    lock = threading.Lock()

    @classmethod
    def add(cls, passed=0, failed=0, skipped=0, second=0):
        with cls.lock:
            cls.passed += passed
            cls.failed += failed
            cls.skipped += skipped
            cls.second += second


def say(text):
    print(f"\n== {text} ({time.monotonic() - STARTED:.0f} s)", flush=True)


def run(*command, **kwargs):
    return subprocess.run([str(c) for c in command], cwd=ROOT, **kwargs).returncode


def set_up(folder, options):
    """Also again, where `make build` came first: tests bring a second C library to build for."""
    plan = ROOT / folder / "build.ninja"
    if not plan.exists():
        return run("meson", "setup", folder, *options, stdout=subprocess.DEVNULL) == 0
    if shutil.which("musl-gcc") and "musl" not in plan.read_text():
        return run("meson", "setup", "--reconfigure", folder, stdout=subprocess.DEVNULL) == 0
    return True


def build(folder, options, targets=()):
    """A failed build is one failed test."""
    if set_up(folder, options) and run("ninja", "-C", folder, "--quiet", *targets) == 0:
        Count.add(passed=1)
        return True
    print(f"FAILED: the build in {folder}")
    Count.add(failed=1)
    return False


def build_ahead():
    """Builds what later steps need with what other tests leave of the machine; a failure shows
    later."""
    left = ["chrt", "--idle", "0"]

    def work():
        for folder, options, targets in (ASAN, TSAN):
            if not (ROOT / folder / "build.ninja").exists():
                run("meson", "setup", folder, *options, **SILENT)
            run(*left, "ninja", "-C", folder, "--quiet", *targets, **SILENT)
        if shutil.which("clang"):
            run(*left, sys.executable, "tools/fuzz.py", "--only-build", **SILENT)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def try_again(name, runs):
    """A failed test, once more; runs() says whether it succeeds."""
    good = runs()
    print(f"{'PASSED at the second try' if good else 'FAILED twice'}: {name}", flush=True)
    Count.add(passed=good, failed=not good, second=good)


# Failed tests that others ran beside: (name, runs).
LATER = []


def add_junit(path, code, out=sys.stdout, again=None):
    """Counts test cases; a runner that died without saying why is one failure. again(case) makes
    what runs a failed one once more."""
    failed = []
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else []:
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(case)
            print(f"FAILED {case.get('classname', '')} {case.get('name')}", file=out)
        elif case.find("skipped") is not None:
            Count.add(skipped=1)
        else:
            Count.add(passed=1)
    if code != 0 and not failed:
        print("FAILED: the test runner itself", file=out)
        Count.add(failed=1)
    elif again and len(failed) <= AGAIN_MAX:
        LATER.extend((f"{case.get('classname', '')} {case.get('name')}", again(case))
                     for case in failed)
    else:
        Count.add(failed=len(failed))


def try_failed_again():
    while LATER:
        try_again(*LATER.pop(0))


def unit_tests(folder, *names):
    log = ROOT / folder / "meson-logs" / "testlog.junit.xml"
    log.unlink(missing_ok=True)
    test = ["meson", "test", "-C", folder, "--print-errorlogs", "--no-rebuild"]

    def again(case):
        # "vesta.vesta:room / room/name": a program with several cases.
        return lambda: run(*test, case.get("classname").split(" / ")[1]) == 0

    add_junit(log, run(*test, *names), again=again)
    try_failed_again()


def pytest(folder, log, *what, **kwargs):
    log.unlink(missing_ok=True)
    env = {**os.environ, "VESTA_BUILD": str(ROOT / folder)}
    return run(sys.executable, "-m", "pytest", "-q", "--no-header", "-rs", "-p",
               "no:cacheprovider", f"--junitxml={log}", *what, env=env, **kwargs)


def e2e_tests(folder, *what):
    log = ROOT / folder / "e2e.junit.xml"
    add_junit(log, pytest(folder, log, *what))


def e2e_again(case):
    """A case of pytest, by the name that pytest has for it."""
    log = ROOT / "build" / "e2e-again.junit.xml"
    path = case.get("classname").replace(".", "/") + ".py"
    return lambda: pytest("build", log, f"{path}::{case.get('name')}") == 0


def check(name, *command):
    """A command that must succeed, as one test."""
    done = subprocess.run(command, cwd=ROOT / "web", capture_output=True, text=True)
    if done.returncode == 0:
        Count.add(passed=1)
        return
    print(f"FAILED: {name}\n{done.stdout}{done.stderr}")
    Count.add(failed=1)


def web_checks():
    """The build has installed what this needs."""
    check("types of the pages", "npx", "tsc", "--noEmit")
    check("lint of the pages", "npx", "biome", "lint", "--error-on-warnings", ".")
    log = ROOT / "build" / "web-unit.junit.xml"
    log.unlink(missing_ok=True)
    add_junit(log, subprocess.run(["npx", "vitest", "run", "--reporter=junit", f"--outputFile={log}"],
                                  cwd=ROOT / "web", **SILENT).returncode)


def browser_tests(log, *names, **kwargs):
    """Pages in Chromium. Playwright needs Node 20, which Debian 12 does not have by itself."""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    if int(version.strip("v\n").split(".")[0] or 0) < 20 or not shutil.which("chromium"):
        print(f"SKIP: tests of the pages need Node 20 and Chromium; here is Node {version.strip()}",
              file=kwargs.get("stdout"))
        Count.add(skipped=1)
        return None
    folder = ROOT / "tests" / "web"
    log.unlink(missing_ok=True)
    if not (folder / "node_modules").exists():
        run("npm", "install", "--no-save", "--silent", "--prefix", folder, **kwargs)
    return run("node", folder / "run.mjs", "--junit", log, *names,
               env={**os.environ, "VESTA_BUILD": str(ROOT / "build")}, **kwargs)


def sdk_tests(out):
    """The Node package: types, lint, its own tests."""
    folder = ROOT / "sdk" / "node"
    how = {"cwd": folder, "stdout": out, "stderr": subprocess.STDOUT}
    if not (folder / "node_modules").exists():
        subprocess.run(["npm", "install", "--no-save", "--silent"], **how)
    for command in (["npx", "tsc", "--noEmit"], ["npx", "biome", "lint", "--error-on-warnings", "."],
                    ["node", "build.mjs"]):
        done = subprocess.run(command, **how).returncode == 0
        Count.add(passed=done, failed=not done)
    files = sorted(path.relative_to(folder) for path in folder.glob("test/*.test.mjs"))

    def test():
        return subprocess.run(["node", "--test", "--test-reporter=tap", *files], cwd=folder, text=True,
                              env={**os.environ, "VESTA_BUILD": str(ROOT / "build")},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    done = test()
    counts = {name: int(n) for name, n in re.findall(r"^# (pass|fail|skipped) (\d+)$", done.stdout,
                                                     re.MULTILINE)}
    failed = counts.get("fail", 0) or int(done.returncode != 0)
    Count.add(counts.get("pass", 0), skipped=counts.get("skipped", 0))
    if 0 < failed <= AGAIN_MAX:
        LATER.append((f"Node package, {failed} tests", lambda: test().returncode == 0))
    else:
        Count.add(failed=failed)
    for line in re.findall(r"^ *ok .* # SKIP.*$", done.stdout, re.MULTILINE):
        print(line.strip(), file=out)
    print(done.stdout if failed else f"sdk/node: {counts.get('pass', 0)} passed", file=out)


def e2e_job(name, *what):
    log = ROOT / "build" / f"{name}.junit.xml"

    def work(out):
        code = pytest("build", log, *what, stdout=out, stderr=subprocess.STDOUT)
        add_junit(log, code, out, e2e_again)
    return work


def browser_job(out):
    log = ROOT / "build" / "web.junit.xml"
    code = browser_tests(log, stdout=out, stderr=subprocess.STDOUT)
    if code is not None:
        add_junit(log, code, out, lambda case: lambda: browser_tests(log, case.get("name")) == 0)


def all_e2e_tests():
    """Most of these tests wait: two jobs run at a time, the longest first."""
    jobs = queue.SimpleQueue()
    for name, work in (("agent", e2e_job("e2e-agent", *AGENT_E2E)),
                       ("the rest", e2e_job("e2e", "tests/e2e",
                                            *(f"--ignore={path}" for path in AGENT_E2E))),
                       ("pages", browser_job), ("Node package", sdk_tests)):
        jobs.put((name, work))
    printing = threading.Lock()

    def take():
        while not jobs.empty():
            try:
                name, work = jobs.get_nowait()
            except queue.Empty:
                return
            path = ROOT / "build" / f"e2e-{name.replace(' ', '-').lower()}.log"
            with open(path, "w") as out:
                try:
                    work(out)
                except Exception as trouble:
                    print(f"FAILED: {name}: {trouble!r}", file=out)
                    Count.add(failed=1)
            with printing:
                print(f"-- {name}\n{path.read_text()}", flush=True)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fuzz():
    if not shutil.which("clang"):
        print("SKIP: fuzzing needs clang")
        Count.add(skipped=1)
        return
    log = ROOT / "build" / "fuzz.junit.xml"
    log.unlink(missing_ok=True)
    add_junit(log, run(sys.executable, "tools/fuzz.py", "--seconds", FUZZ_SECONDS, "--report", log))


def main():
    say("build")
    if build("build", ["--werror"]):
        say("unit tests, layers, headers")
        unit_tests("build", "--no-suite", "live")
        web_checks()
        say("unit tests that watch this machine")
        ahead = build_ahead()
        unit_tests("build", "--suite", "live")
        say("end to end")
        all_e2e_tests()
        ahead.join()
        try_failed_again()
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
    say(f"done, {Count.skipped} skipped, {Count.second} passed at the second try")
    print(f"{Count.passed} passed, {Count.failed} failed", flush=True)
    return Count.failed > 0


if __name__ == "__main__":
    sys.exit(main())
