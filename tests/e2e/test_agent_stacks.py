"""Stacks of real programs, of each kind, held against what the programs are known to do.

Walks must reach the outermost frame in 99 of 100 samples, and functions must have their shares."""

import shutil
import subprocess

import pytest

import agent

pytestmark = agent.needs_bpf

# workload, arguments, function: its share, functions that every stack of it goes through
CASES = {
    "plain": ([], {"hot_sixty": 0.60, "hot_thirty": 0.30, "hot_ten": 0.10}, ["main", "run"]),
    "static": ([], {"hot_sixty": 0.60, "hot_thirty": 0.30, "hot_ten": 0.10}, ["main", "run"]),
    "static-pie": ([], {"hot_sixty": 0.60, "hot_thirty": 0.30, "hot_ten": 0.10}, ["main", "run"]),
    "musl": ([], {"hot_sixty": 0.60, "hot_thirty": 0.30, "hot_ten": 0.10}, ["main", "run"]),
    "rust": ([], {"work::hot_sixty": 0.60, "work::hot_forty": 0.40}, ["main", "work::run"]),
    "go": ([], {"main.hotSixty": 0.60, "main.hotForty": 0.40}, ["main.stage"]),
    "deep": ([], {"hot_leaf": 0.90}, ["main", "descend"]),
    "sorted": ([], {"hot_compare": 0.95}, ["main", "sort_some"]),
    "signals": ([], {"hot_in_handler": 0.78}, ["main", "interrupted"]),
    "shapes": ([], {"shop::Basket": 0.63, "shop::Circle::draw": 0.31}, ["main"]),
}


@pytest.mark.parametrize("name", CASES)
def test_walks_reach_the_outermost_frame_and_shares_are_right(name, tmp_path):
    args, shares, path = CASES[name]
    wanted = {function: pytest.approx(share, abs=0.06) for function, share in shares.items()}
    # Where other tests keep all cores busy, tables of a program just begun come late, and its parts
    # do not get the CPU that their clocks say: then again.
    for _ in range(3):
        found = agent.stacks(agent.record(agent.workload(name), tmp_path / "x.pb.gz", "3", *args))
        seen = {function: agent.share_of(found, function) for function in shares}
        if agent.complete_share(found) >= 0.98 and seen == wanted:
            break
    assert sum(found.values()) > 1e9, "more than a second of CPU"
    assert agent.complete_share(found) >= 0.98, found.most_common(20)
    assert seen == wanted
    hot = next(iter(shares))
    whole = {s: v for s, v in found.items()
             if any(f.startswith(hot) for f in s) and not any(f.startswith("[cut") for f in s)}
    for frame in path:
        without = sum(v for s, v in whole.items() if not any(f.startswith(frame) for f in s))
        # Seen once, and not explained: a sample that was its innermost frame alone, and not marked.
        assert without <= 0.01 * sum(whole.values()), f"{frame} is missing in {without} of {whole}"


def test_a_deep_stack_has_every_frame(tmp_path):
    found = agent.stacks(agent.record(agent.workload("deep"), tmp_path / "x.pb.gz", "2"))
    deepest = max(found, key=lambda s: sum(f == "descend" for f in s))
    assert sum(f == "descend" for f in deepest) == 301


def test_a_library_that_is_loaded_late_is_followed(tmp_path):
    found = agent.stacks(agent.record(agent.workload("loads"), tmp_path / "x.pb.gz", "4",
                                      str(agent.workload("plugin.so"))))
    assert agent.share_of(found, "hot_in_plugin") > 0.3
    whole = [s for s in found if "hot_in_plugin" in s and "main" in s]
    assert whole, found.most_common(5)


def test_forked_children_have_whole_stacks(tmp_path):
    found = agent.stacks(agent.record(agent.workload("forks"), tmp_path / "x.pb.gz", "3"))
    stays = {s: v for s, v in found.items() if "hot_in_child" in s}
    assert sum(v for s, v in stays.items() if "main" in s) >= 0.97 * sum(stays.values())


def test_a_stripped_program_gets_names_from_its_debug_file(tmp_path):
    program = tmp_path / "stripped"
    shutil.copy(agent.workload("shapes"), program)
    debug = tmp_path / "stripped.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    found = agent.stacks(agent.record(program, tmp_path / "x.pb.gz", "2"))
    assert agent.share_of(found, "shop::Basket") > 0.5
    assert agent.share_of(found, "main") > 0.9


def test_lines_and_inlined_calls_are_there_when_asked_for(tmp_path):
    out = agent.record(agent.workload("shapes"), tmp_path / "x.pb.gz", "2",
                       options=["--symbols", "lines"])
    found = agent.stacks(out)
    middle = sum(v for s, v in found.items() if any(f.endswith("inlined_middle") for f in s))
    assert middle > 0.2 * sum(found.values()), found.most_common(5)


def test_without_names_there_are_addresses(tmp_path):
    out = agent.record(agent.workload("plain"), tmp_path / "x.otlp", "1",
                       options=["--symbols", "none"])
    text = out.read_bytes()
    assert b"hot_sixty" not in text and b"/plain" in text


def test_what_may_not_be_sent_is_masked(tmp_path):
    out = agent.record(agent.workload("plain"), tmp_path / "x.otlp", "1",
                       options=["--privacy-mask", r"functions: /^hot_(.)\w+/secret_$1/",
                                "--privacy-mask", r"paths: #.*/##"])
    text = out.read_bytes()
    assert b"secret_s" in text and b"hot_sixty" not in text
    assert b"/plain" not in text and b"plain" in text


def test_what_is_written_keeps_the_rules_of_the_protocol(tmp_path):
    out = agent.record(agent.workload("threads"), tmp_path / "x.otlp", "2", "20",
                       options=["--types", "cpu,wall,offcpu,lock,threads,faults",
                                "--sample-attributes", "thread.name,thread.id,cpu.id,time"])
    lint = subprocess.run([agent.BUILD / "tests" / "otlp_lint", out], capture_output=True, text=True)
    assert lint.returncode == 0, lint.stdout
