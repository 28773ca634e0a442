"""The model of the store's exactly-once logic (tests/model): the design holds under random
schedules, faults and crashes, and every deliberate mistake is noticed."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "model"))

import run_model  # noqa: E402
import store_model  # noqa: E402


def test_no_schedule_breaks_the_design():
    broken = {seed: seen for seed in range(150) if (seen := run_model.fails(seed))}
    assert not broken, "python3 tests/model/run_model.py --trace --seed N shows the run"


def test_the_written_schedules_do_not_break_the_design():
    assert run_model.scripted() is None


def test_a_seed_decides_the_whole_run(capsys):
    traces = []
    for _ in range(2):
        run_model.fails(7, trace=True)
        traces.append(capsys.readouterr().out)
    assert traces[0] == traces[1]
    assert "--- power cut" in traces[0] and "-> stored" in traces[0]


@pytest.mark.parametrize("bug", store_model.BUGS)
def test_the_model_notices(bug):
    seed, seen = run_model.hunt(bug, 600)
    assert seen, f"{bug} ({store_model.BUGS[bug]}) went unnoticed"
