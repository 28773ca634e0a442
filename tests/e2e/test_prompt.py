"""The prompt, as a script and on a terminal."""

import contextlib
import os
import pty
import select
import shutil
import subprocess
import time

import pytest

import conftest

STACKS = b"""main;serve;parse_request 30
main;serve;render_page;json 50
main;serve;render_page;sort 10
main;idle 10
"""


def run_script(vesta, tmp_path, script):
    path = tmp_path / "p.collapsed"
    path.write_bytes(STACKS)
    return vesta(path, stdin=script.encode())


def test_lines_are_verbs_with_counts_and_regexes(vesta, tmp_path):
    result = run_script(vesta, tmp_path, "top2\n")
    assert result.code == 0
    assert "json" in result.text and "sort" not in result.text
    result = run_script(vesta, tmp_path, "top render -sort\n")
    table = result.text.split("flat%")[1]
    assert "json" in table and "parse_request" not in table and "sort" not in table


def test_options_stay_until_changed(vesta, tmp_path):
    result = run_script(vesta, tmp_path, "focus=parse\ntop\nfocus=\ntop\n")
    first, second = result.text.split("Showing nodes")[1:3]
    assert "json" not in first and "json" in second


def test_output_is_redirected(vesta, tmp_path):
    out = tmp_path / "out.txt"
    assert run_script(vesta, tmp_path, f"top >{out}\npeek json > {out}2\n").text == ""
    assert "json" in out.read_text()
    assert "render_page" in (tmp_path / "out.txt2").read_text()


def test_a_mistake_is_told_and_the_next_line_still_runs(vesta, tmp_path):
    result = run_script(vesta, tmp_path, "tpo\npeek\ntop1\n")
    assert result.code == 2
    errors = result.err.decode()
    assert '"tpo" is neither a verb nor an option' in errors
    assert "peek needs a regular expression" in errors
    assert "json" in result.text


def test_options_that_the_prompt_cannot_follow_are_refused(vesta, tmp_path):
    for line in ("json", "base=x", "seconds=3"):
        result = run_script(vesta, tmp_path, line + "\n")
        assert result.code == 2
        assert b"is neither a verb nor an option" in result.err


def test_no_data_is_told_and_the_report_still_shown(vesta, tmp_path):
    result = run_script(vesta, tmp_path, "top nowhere\n")
    assert result.code == 3
    assert b"no data: no sample passes the filters" in result.err
    assert "flat%" in result.text


@pytest.mark.parametrize("line", ["focus=json", "focus =json", "focus= json", "focus = json",
                                  "focus json", 'focus="json"'])
def test_blanks_may_stand_around_the_equals_sign(vesta, tmp_path, line):
    assert "focus=json\n" in run_script(vesta, tmp_path, line + "\ntop\n").text


def test_a_value_in_two_words_is_not_cut_in_silence(vesta, tmp_path):
    result = run_script(vesta, tmp_path, "focus=json sort\n")
    assert result.code == 2
    assert 'a value with blanks needs quotes: focus="json sort"' in result.err.decode()


def test_the_call_graph_is_written_to_a_file(vesta, tmp_path):
    if not shutil.which("dot"):
        pytest.skip("Graphviz is not installed")
    out = tmp_path / "graph.svg"
    assert run_script(vesta, tmp_path, f"web >{out}\n").code == 0
    assert "<svg" in out.read_text()


def test_quit_ends_it(vesta, tmp_path):
    assert run_script(vesta, tmp_path, "quit\ntop\n").text == ""


def test_help_and_options_show_what_there_is(vesta, tmp_path):
    text = run_script(vesta, tmp_path, "help\ncum\noptions\n").text
    assert "peek" in text and "nodefraction" in text
    assert "cum                      = true" in text


class Terminal:
    """vesta on a pseudo-terminal."""

    def __init__(self, path, home):
        self.master, slave = pty.openpty()
        env = dict(os.environ, TERM="xterm", HOME=str(home), XDG_STATE_HOME=str(home / "state"))
        self.process = subprocess.Popen([str(conftest.BUILD / "vesta"), str(path)], stdin=slave,
                                        stdout=slave, stderr=slave, env=env, start_new_session=True)
        os.close(slave)
        self.unread = b""

    def read_until(self, text, seconds=10):
        """What has come since the last call, up to that text."""
        end = time.monotonic() + seconds
        while text.encode() not in self.unread and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.unread += os.read(self.master, 65536)
                except OSError:
                    break
        seen, found, self.unread = self.unread.partition(text.encode())
        return (seen + found).decode("utf-8", "replace")

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        """Ctrl-D, again and again: one that comes while the prompt is being drawn may be lost."""
        for _ in range(100):
            self.type("\x04")
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.process.wait(timeout=0.2)
                break
        os.close(self.master)
        return code


def test_on_a_terminal_names_complete_and_history_stays(tmp_path):
    path = tmp_path / "p.collapsed"
    path.write_bytes(STACKS)
    terminal = Terminal(path, tmp_path)
    greeting = terminal.read_until("(vesta)")
    assert "Type: samples" in greeting and "(vesta)" in greeting
    # What is typed while the prompt is being drawn may be lost: then again, on an empty line.
    assert any(terminal.type("\x15pe\t") or "ek " in terminal.read_until("ek ", 2) for _ in range(5))
    terminal.type("render_p\t\n")
    assert "render_page" in terminal.read_until("json")
    terminal.read_until("(vesta)")
    assert terminal.close() == 0
    assert "peek render_page" in (tmp_path / "state" / "vesta" / "history").read_text().replace(
        "\\040", " ")
