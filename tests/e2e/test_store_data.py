"""The data that the store is measured with, and that adding it up agrees with go tool pprof."""

import os
import shutil
import subprocess

import pytest

import pprof_sum
from conftest import BUILD, CORPUS

PODS, WINDOWS = 10, 6


def run_bench(program, command, kept, to):
    """Builds and runs a program of bench/ on the first minute of set R, which is in `kept`."""
    if not (BUILD / "build.ninja").exists():
        pytest.skip(f"no build folder at {BUILD} to make set R with")
    subprocess.run(["ninja", "-C", BUILD, "--quiet", f"bench/{program}"], check=True)
    env = {**os.environ, "VESTA_CORPUS": str(CORPUS)}  # without one the stacks are made up
    line = [BUILD / "bench" / program, command, kept, str(PODS), str(WINDOWS), to]
    subprocess.run(line, check=True, env=env)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def set_r(tmp_path_factory, kept):
    """The first minute of set R, a file per profile."""
    files = tmp_path_factory.mktemp("files")
    run_bench("measure_ingest", "files", kept, files)
    return sorted(files.iterdir())


@pytest.fixture(scope="module")
def summed_by_go(tmp_path_factory, set_r):
    if not shutil.which("go"):
        pytest.skip("no go here")
    return pprof_sum.read_pprof(pprof_sum.sum_with_go(set_r, tmp_path_factory.mktemp("sums")))


def test_set_r_has_a_profile_for_each_pod_and_window(set_r):
    assert len(set_r) == PODS * WINDOWS
    for path in set_r[:3]:
        profile = pprof_sum.read_pprof(path)
        assert profile.types == [("samples", "count"), ("cpu", "nanoseconds")]
        assert 250 < len(profile.sums) < 400
        assert all(cpu == count * 10_000_000 for count, cpu in profile.sums.values())


def test_profiles_of_set_r_differ(set_r):
    assert len({path.read_bytes() for path in set_r}) == len(set_r)


def test_merging_set_r_equals_the_sum_by_go_tool_pprof(set_r, summed_by_go, vesta, tmp_path):
    vesta("convert", *set_r, "-symbolize=none", "-o", tmp_path / "ours.pb.gz", check=0)
    ours = pprof_sum.read_pprof(tmp_path / "ours.pb.gz")
    assert pprof_sum.differences(ours, summed_by_go) == []


def test_set_r_stored_and_asked_for_equals_the_sum_by_go_tool_pprof(kept, summed_by_go, tmp_path):
    run_bench("measure_store", "sum", kept, tmp_path)
    ours = pprof_sum.read_pprof(tmp_path / "r.pb.gz")
    assert pprof_sum.differences(ours, summed_by_go) == []


def test_a_profile_too_many_is_a_difference(set_r, vesta, tmp_path):
    for n in (3, 4):
        vesta("convert", *set_r[:n], "-symbolize=none", "-o", tmp_path / f"{n}.pb.gz", check=0)
    three, four = (pprof_sum.read_pprof(tmp_path / f"{n}.pb.gz") for n in (3, 4))
    assert pprof_sum.differences(three, four)
