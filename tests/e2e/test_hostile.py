"""Small inputs made to hurt: outputs far larger than them, and text that drives terminals."""

import json
import os
import pty
import subprocess

import pytest
from conftest import BUILD

MEMORY = 32 << 20


def chain(path, depth):
    """A stack `depth` deep with a sample at every frame: written out, depth * depth / 2 frames."""
    nodes = [
        {
            "id": i + 1,
            "callFrame": {"functionName": f"f{i % 9}", "scriptId": "0", "url": "", "lineNumber": 1},
            "children": [i + 2] if i + 1 < depth else [],
        }
        for i in range(depth)
    ]
    ids = list(range(1, depth + 1))
    content = {"nodes": nodes, "startTime": 0, "endTime": depth, "samples": ids}
    path.write_text(json.dumps({**content, "timeDeltas": [1] * depth}))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["traces"],
        ["traces", "-csv"],
        ["traces", "-json"],
        ["raw"],
        *(
            ["convert", "--to", to]
            for to in ("pprof", "otlp", "otlp-json", "collapsed", "speedscope")
        ),
    ],
    ids=" ".join,
)
def test_output_that_repeats_its_input_stops_at_the_memory_limit(command, tmp_path):
    source = chain(tmp_path / "chain.cpuprofile", 10000)
    args = [BUILD / "vesta", *command, "-max-memory=32MiB", source, "-o", tmp_path / "out"]

    pid = os.posix_spawn(
        args[0],
        list(map(str, args)),
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 2, str(tmp_path / "err"), os.O_WRONLY | os.O_CREAT, 0o600)
        ],
    )
    _, status, usage = os.wait4(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert "memory limit of 32 MiB reached: " in (tmp_path / "err").read_text()
    if not os.environ.get("ASAN_OPTIONS"):  # it has its own ideas of memory
        assert usage.ru_maxrss * 1024 < MEMORY + (64 << 20)
    assert not (tmp_path / "out").exists()


def on_terminal(*args):
    """What a terminal would be sent."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [str(BUILD / "vesta"), *map(str, args)], stdin=slave, stdout=slave, stderr=slave
    ) as child:
        os.close(slave)
        seen = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        child.wait()
    os.close(master)
    return seen


HOSTILE = "\x1b]2 owned\x07evil\x1b[2J\u202ertl\x9b31m"


def test_control_characters_of_names_do_not_reach_a_terminal(tmp_path, vesta):
    source = tmp_path / "p.collapsed"
    source.write_text(f"main;{HOSTILE} 5\n")
    for command in (["top"], ["traces"], ["peek", "."], ["convert", "--to", "collapsed"]):
        seen = on_terminal(*command, source, "-input-format=collapsed")
        assert b"\\x1b]2 owned\\x07evil\\x1b[2J\\u202ertl\\x9b31m" in seen, command
        assert b"\x1b]" not in seen and b"\x07" not in seen and b"\x1b[2J" not in seen
        assert "\u202e".encode() not in seen and b"\xc2\x9b" not in seen
    # A pipe gets what the file says.
    assert HOSTILE.encode() in vesta("traces", source, "-input-format=collapsed", check=0).out


def test_control_characters_of_inputs_do_not_reach_messages(tmp_path, vesta):
    source = tmp_path / "bad\x1b[2J.collapsed"
    source.write_text("main 5\nno count\x1b[31m\n")
    done = vesta("top", source, check=1)
    assert b"\x1b" not in done.err and b"bad\\x1b[2J.collapsed" in done.err


def test_long_names_do_not_fill_a_flame_graph(tmp_path, vesta):
    source = tmp_path / "p.collapsed"
    source.write_text(";".join(["n" * 20000] * 200) + " 1\n")
    vesta("flame", source, "-o", tmp_path / "f.svg", check=0)
    assert (tmp_path / "f.svg").stat().st_size < 1 << 20


def test_a_trace_of_very_many_threads_stops_at_the_memory_limit(tmp_path, vesta):
    event = '{{"ph":"X","name":"f","ts":{0},"dur":1,"pid":{0},"tid":{0}}}'
    source = tmp_path / "threads.json"
    source.write_text('{"traceEvents":[' + ",".join(map(event.format, range(20000))) + "]}")
    vesta("top", source, check=0)
    done = vesta("top", "-max-memory=24MiB", source, check=1)
    assert b"memory limit of 24 MiB reached: " in done.err


def test_sums_past_64_bits_are_drawn_as_wide_as_can_be(tmp_path, vesta):
    source = tmp_path / "p.collapsed"
    source.write_text("a;b 9223372036854775807\na;c 9223372036854775807\n")
    done = vesta("flame", source, "-o", tmp_path / "f.svg", check=0)
    assert done.err == b""
    picture = (tmp_path / "f.svg").read_text()
    assert ">b</text>" in picture and ">c</text>" in picture
