"""The whole way: real programs, the agent, a server, and questions that name the hot function of each
with its share, and say who it is."""

import json
import os
import subprocess
import time

import agent
import pytest
from agent import Agent
from conftest import run_vesta, wait_for

pytestmark = agent.needs_bpf


def start(name, *args, env=None, **kw):
    return subprocess.Popen([agent.workload(name), "300", *args],
                            env={**os.environ, **(env or {})}, **kw)


@pytest.fixture
def running():
    """running(name, ...) starts a workload; all are ended afterwards."""
    started = []

    def run(*args, **kw):
        started.append(start(*args, **kw))
        return started[-1]

    yield run
    for p in started:
        p.kill()
        p.wait()


def profile_of(server, service, kind="cpu"):
    """{stack: value} of what the server has of a service; {} when there is nothing yet."""
    done = run_vesta("convert", f'{kind}{{service.name="{service}"}}', "--from", "now-10m", "--to",
                     "collapsed", "--url", server.url)
    found = {}
    for line in done.text.splitlines():
        stack, value = line.rsplit(" ", 1)
        found[tuple(stack.split(";"))] = int(value)
    return found


def enough(server, service, kind="cpu", ns=2e9):
    def look():
        found = profile_of(server, service, kind)
        return sum(found.values()) > ns and found
    return wait_for(look, 90)


def labels_of(server, service):
    status, _, body = server.get(f"/api/v1/series?query=%7Bservice.name%3D%22{service}%22%7D"
                                 "&from=now-10m")
    assert status == 200, body
    return json.loads(body)


def test_each_program_is_named_with_its_share_and_its_attributes(server, running, tmp_path):
    running("plain", env={"OTEL_SERVICE_NAME": "plain-one",
                          "OTEL_RESOURCE_ATTRIBUTES": "service.version=1.2.3,"
                          "deployment.environment.name=test%20bed"})
    running("rust", env={"OTEL_SERVICE_NAME": "rusty"})
    running("go")
    # Often enough that three points are more than three standard deviations.
    with Agent(tmp_path, "--rate", "499", "--limits-cpu", "1000", "--include", "*/plain", "--include",
               "*/rust", "--include", "*/gowork", server=server):
        plain = enough(server, "plain-one", ns=9e9)
        rusty = enough(server, "rusty", ns=9e9)
        gowork = enough(server, "gowork", ns=9e9)
    assert agent.share_of(plain, "hot_sixty") == pytest.approx(0.6, abs=0.03)
    assert agent.share_of(plain, "hot_thirty") == pytest.approx(0.3, abs=0.03)
    assert agent.share_of(plain, "hot_ten") == pytest.approx(0.1, abs=0.03)
    assert agent.share_of(rusty, "work::hot_sixty") == pytest.approx(0.6, abs=0.03)
    sixty, forty = (agent.share_of(gowork, f"main.hot{n}") for n in ("Sixty", "Forty"))
    assert sixty + forty > 0.94  # the rest is Go's runtime
    assert sixty / (sixty + forty) == pytest.approx(0.6, abs=0.03)
    text = json.dumps(labels_of(server, "plain-one"))
    assert "1.2.3" in text and "test bed" in text, text
    assert "go" in json.dumps(labels_of(server, "gowork"))


def test_waiting_is_seen_by_wall_clock_off_cpu_and_locks(server, running, tmp_path):
    running("threads", "40")
    with Agent(tmp_path, "--types", "cpu,wall,offcpu,lock,threads", "--include", "*/threads",
               "--wall-rate", "10", server=server):
        wall = enough(server, "threads", "wall", 40e9)
        waits = enough(server, "threads", "off_cpu", 40e9)
        locks = enough(server, "threads", "lock", 1e9)
        enough(server, "threads", "threads", 10)
    # 18 threads wait for work and 18 sleep, for ever; 4 fight for one lock.
    for found in (wall, waits):
        total = sum(found.values())
        idle = sum(v for s, v in found.items() if "wait_for_work" in s)
        asleep = sum(v for s, v in found.items() if "sleep_long" in s)
        assert 0.3 < asleep / total < 0.55, found
        assert idle / total < 0.55
    assert agent.share_of(locks, "take_lock") > 0.9, locks
    assert agent.share_of(locks, "wait_for_work") == 0
    assert agent.share_of(waits, "[waiting: sleep]") > 0.3


def test_only_what_is_included_is_seen(server, running, tmp_path):
    running("plain")
    running("rust")
    with Agent(tmp_path, "--include", "*/rust", "--rate", "99", server=server):
        enough(server, "rust", ns=1e9)
        assert profile_of(server, "plain") == {}


def test_a_killed_agent_leaves_nothing_behind(running, tmp_path):
    running("plain")
    with Agent(tmp_path) as a:
        wait_for(lambda: len(a.children()) >= 3)
        children = a.children()
        a.process.kill()
        a.process.wait()
        wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in children), 10)


def test_the_profile_says_what_the_agent_did(server, running, tmp_path):
    running("plain")
    with Agent(tmp_path, "--rate", "49", "--include", "*/plain", server=server):
        enough(server, "plain", ns=1e9)
    done = run_vesta("get", 'cpu{service.name="plain"}', "--from", "now-10m", "-o",
                     tmp_path / "x.pb.gz", "--url", server.url, check=0)
    assert done.code == 0
    info = run_vesta("info", "--json", tmp_path / "x.pb.gz", check=0).json
    assert info["period"] == pytest.approx(1e9 / 49, rel=0.01) if "period" in info else True
