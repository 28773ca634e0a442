"""What goes in comes out: every file of the corpus, pushed to a server and gotten from it again."""

import collections
import os.path

import pytest

from conftest import CORPUS, Server, corpus_files, run_vesta
from pprof_sum import read_pprof

FILES = corpus_files("")
FOLDERS = sorted({name.split("/")[0] for name in FILES})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Keeps old files, too: the corpus has recordings of twenty years."""
    data = tmp_path_factory.mktemp("round") / "data"
    server = Server(data, "--retention-profiles", "100y").start()
    yield server
    server.stop()


def stacks(path):
    """{(type, unit, stack): value}. A frame is its names, or its binary: addresses are made equal
    for programs that are loaded anywhere. Labels of samples are not in sums."""
    profile = read_pprof(path)
    found = collections.Counter()
    for (stack, _), values in profile.sums.items():
        frames = []
        for _, where, lines in stack:
            frames.append(tuple(names[0] for names, _, _ in lines) or os.path.basename(where[0]))
        for kind, value in zip(profile.types, values):
            found[(*kind, tuple(frames))] += value
    return {key: value for key, value in found.items() if value != 0}


def difference(name, number, server, folder):
    """What is wrong with a file, or None."""
    here, there = folder / "here.pb.gz", folder / "there.pb.gz"
    merged = run_vesta("merge", "-symbolize=none", CORPUS / name, "-o", here)
    if merged.code != 0:
        return None  # other tests are about what cannot be read, or merged
    label = f"file-{number}"
    pushed = run_vesta("push", "--url", server.url, "--service", "corpus", "--label",
                       f"file={label}", "--retry-for", "0", CORPUS / name)
    if pushed.code != 0:
        return pushed.err.decode(errors="replace")
    gotten = run_vesta("get", f'{{file="{label}"}}', "--url", server.url, "--from", "0", "--until",
                       "now+1d", "--instant", "sum", "-symbolize=none", "-o", there)
    wanted = stacks(here)
    if not wanted:
        return None if gotten.code == 3 or not stacks(there) else "something came of nothing"
    if gotten.code != 0:
        return gotten.err.decode(errors="replace")
    # Samples that only count say what that is in time, too: count times period.
    types = {key[:2] for key in wanted}
    got = {key: value for key, value in stacks(there).items() if key[:2] in types}
    if got == wanted:
        return None
    wrong = [key for key in wanted.keys() | got.keys() if wanted.get(key) != got.get(key)]
    return f"{len(wrong)} of {len(wanted)} stacks, as {wrong[0]}: " \
           f"{wanted.get(wrong[0])} became {got.get(wrong[0])}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_stack_of_the_corpus_comes_back(server, folder, tmp_path):
    if not FILES:
        pytest.skip(f"no corpus at {CORPUS}")
    wrong = {}
    for number, name in enumerate(FILES):
        if name.split("/")[0] == folder:
            trouble = difference(name, number, server, tmp_path)
            if trouble:
                wrong[name] = trouble
    assert wrong == {}
