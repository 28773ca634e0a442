"""The data that the store is measured with, and that adding it up agrees with go tool pprof."""

import os
import shutil
import subprocess

import pytest

import pprof_sum
from conftest import BUILD, CORPUS

PODS, WINDOWS = 10, 6


@pytest.fixture(scope="module")
def set_r(tmp_path_factory):
    """The first minute of set R, a file per profile."""
    if not (BUILD / "build.ninja").exists():
        pytest.skip(f"no build folder at {BUILD} to make set R with")
    subprocess.run(["ninja", "-C", BUILD, "--quiet", "bench/measure_ingest"], check=True)
    kept, files = tmp_path_factory.mktemp("kept"), tmp_path_factory.mktemp("files")
    tool = BUILD / "bench" / "measure_ingest"
    env = {**os.environ, "VESTA_CORPUS": str(CORPUS)}  # without one the stacks are made up
    subprocess.run([tool, "files", kept, str(PODS), str(WINDOWS), files], check=True, env=env)
    return sorted(files.iterdir())


def test_set_r_has_a_profile_for_each_pod_and_window(set_r):
    assert len(set_r) == PODS * WINDOWS
    for path in set_r[:3]:
        profile = pprof_sum.read_pprof(path)
        assert profile.types == [("samples", "count"), ("cpu", "nanoseconds")]
        assert 250 < len(profile.sums) < 400
        assert all(cpu == count * 10_000_000 for count, cpu in profile.sums.values())


def test_profiles_of_set_r_differ(set_r):
    assert len({path.read_bytes() for path in set_r}) == len(set_r)


def test_merging_set_r_equals_the_sum_by_go_tool_pprof(set_r, vesta, tmp_path):
    if not shutil.which("go"):
        pytest.skip("no go here")
    theirs = pprof_sum.read_pprof(pprof_sum.sum_with_go(set_r, tmp_path))
    vesta("convert", *set_r, "-symbolize=none", "-o", tmp_path / "ours.pb.gz", check=0)
    assert pprof_sum.differences(pprof_sum.read_pprof(tmp_path / "ours.pb.gz"), theirs) == []


def test_a_profile_too_many_is_a_difference(set_r, vesta, tmp_path):
    for n in (3, 4):
        vesta("convert", *set_r[:n], "-symbolize=none", "-o", tmp_path / f"{n}.pb.gz", check=0)
    three, four = (pprof_sum.read_pprof(tmp_path / f"{n}.pb.gz") for n in (3, 4))
    assert pprof_sum.differences(three, four)
