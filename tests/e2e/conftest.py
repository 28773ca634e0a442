"""Fixtures of the end-to-end tests: the built program, and the corpus of real profiles."""

import collections
import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("VESTA_BUILD", ROOT / "build"))
CORPUS = pathlib.Path(os.environ.get("VESTA_CORPUS", ROOT.parent / "shared" / "corpus"))


class Result:
    """What one run of the program did."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    @property
    def text(self):
        return self.out.decode("utf-8", "replace")

    @property
    def json(self):
        return json.loads(self.out)


def run_vesta(*args, stdin=None, env=None, timeout=60, check=None):
    """Runs vesta; with check=N, fails unless the exit code is N."""
    # What programs remember between runs stays with the build.
    full_env = {**os.environ, "XDG_CACHE_HOME": str(BUILD / "e2e-cache"), **(env or {})}
    done = subprocess.run(
        [str(BUILD / "vesta"), *map(str, args)],
        input=stdin if stdin is not None else b"",
        capture_output=True,
        env=full_env,
        timeout=timeout,
    )
    result = Result(done)
    if check is not None:
        assert result.code == check, (args, result.code, result.err.decode(errors="replace"))
    return result


@pytest.fixture(scope="session")
def vesta():
    return run_vesta


@pytest.fixture(scope="session")
def corpus():
    if not (CORPUS / "MANIFEST.tsv").exists():
        pytest.skip(f"no corpus at {CORPUS}")
    return CORPUS


@pytest.fixture(scope="session")
def facts(corpus):
    """{file: facts} as FACTS.json has them."""
    with open(corpus / "FACTS.json") as f:
        return {name: entry["facts"] for name, entry in json.load(f).items()}


@pytest.fixture(scope="session")
def pprof():
    """pprof's own binary: `go tool` would add its start-up to each run."""
    if not shutil.which("go"):
        pytest.skip("go is not installed, so there is no pprof to compare with")
    found = subprocess.run(["go", "tool", "-n", "pprof"], capture_output=True, text=True)
    path = found.stdout.strip()
    if found.returncode != 0 or not os.access(path, os.X_OK):
        pytest.skip("go has no pprof: " + found.stderr.strip())
    return path


def collapsed(path):
    """{stack: value} of the default sample type, as `convert` writes it."""
    text = run_vesta("convert", "-symbolize=none", "--to=collapsed", path, check=0).text
    stacks = collections.Counter()
    for line in text.splitlines():
        stack, value = line.rsplit(" ", 1)
        stacks[stack] += int(value)
    return stacks


def totals(info):
    """{sample type: total} of what `info --json` says."""
    return {kind["type"]: kind["total"] for kind in info["sample_types"]}


def corpus_files(prefix, suffixes=None):
    """Names of corpus inputs under a folder, for parametrize; empty where there is no corpus."""
    manifest = CORPUS / "MANIFEST.tsv"
    if not manifest.exists():
        return []
    names = []
    with open(manifest, newline="") as f:
        header = next(f).rstrip("\n").split("\t")
        for row in f:
            cells = dict(zip(header, row.rstrip("\n").split("\t")))
            if cells["role"] == "input" and cells["file"].startswith(prefix):
                if suffixes is None or cells["file"].endswith(tuple(suffixes)):
                    names.append(cells["file"])
    return names
