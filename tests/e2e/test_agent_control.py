"""Who tells the agent what to do, what it may do, and what it says of itself: the real agent, the
real server."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from agent import AGENT, Agent, needs_bpf
from conftest import wait_for

KEPT = {"CAP_DAC_READ_SEARCH": 2, "CAP_SYS_PTRACE": 19, "CAP_PERFMON": 38, "CAP_BPF": 39,
        "CAP_CHECKPOINT_RESTORE": 40}
KEPT_MASK = sum(1 << n for n in KEPT.values())


@pytest.fixture
def new_agent(tmp_path):
    started = []

    def new(*args, **kw):
        folder = tmp_path / f"agent{len(started)}"
        folder.mkdir()
        started.append(Agent(folder, *args, **kw))
        return started[-1]

    yield new
    for agent in started:
        agent.stop()


def rights_of(pid):
    fields = dict(line.split(":\t", 1) for line in
                  pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return {"name": fields["Name"], "uid": int(fields["Uid"].split()[1]),
            **{k: int(fields[f"Cap{k}"], 16) for k in ("Prm", "Eff", "Inh", "Bnd", "Amb")},
            "nnp": int(fields["NoNewPrivs"]), "seccomp": int(fields["Seccomp"])}


def direct(server, **what):
    status, _, body = server.post("/api/v1/agents/directive", json.dumps(what).encode())
    assert status == 200, body


def agents(server):
    return json.loads(server.get("/api/v1/agents")[2])["agents"]


@needs_bpf
def test_a_directive_makes_a_burst_and_it_ends_by_itself(server, new_agent):
    agent = new_agent(server=server)
    wait_for(lambda: agents(server))
    agent.wait_for_mode("normal")
    direct(server, mode="burst", rate=149, duration="6s", reason="because of a test")
    agent.wait_for_mode("burst")
    assert agent.status()["agent"]["rate"] == 149
    assert agent.status()["agent"]["why"] == "burst asked for by the server"
    wait_for(lambda: agents(server)[0]["mode"] == "burst")  # the server is told
    agent.wait_for_mode("normal")
    assert "the server asks for burst: because of a test" in agent.log
    wait_for(lambda: agents(server)[0]["mode"] == "normal")
    assert agents(server)[0]["rate"] == 19


@needs_bpf
def test_a_server_that_was_restarted_finds_the_same_agent(new_server, new_agent):
    server = new_server()
    agent = new_agent(server=server)
    first = wait_for(lambda: agents(server))[0]["id"]
    assert (agent.folder / "state" / "agent-id").read_text().strip() == first

    host, port = server.address
    server.stop()
    again = new_server("--listen", f"{host}:{port}")  # and on another one
    assert [a["id"] for a in wait_for(lambda: agents(again))] == [first]
    direct(again, mode="low", agent=first)
    agent.wait_for_mode("low")


@needs_bpf
def test_the_gate_file_and_signals_are_obeyed(new_agent, tmp_path):
    gate = tmp_path / "gate"
    agent = new_agent("--gate-file", gate)
    agent.wait_for_mode("normal")
    gate.write_text("off\n")
    agent.wait_for_mode("off")
    assert agent.status()["agent"]["rate"] == 0
    taken = agent.status()["agent"]["samples"]
    time.sleep(1.5)
    assert agent.status()["agent"]["samples"] == taken
    gate.write_text("nonsense\n")
    agent.wait_for_mode("normal")
    assert 'its first word is off, low, normal or burst, not "nonsense"' in agent.log
    gate.write_text("low\n")
    agent.wait_for_mode("low")
    gate.unlink()
    agent.wait_for_mode("normal")
    agent.process.send_signal(signal.SIGUSR1)
    agent.wait_for_mode("off")
    agent.process.send_signal(signal.SIGUSR1)
    agent.wait_for_mode("normal")
    agent.process.send_signal(signal.SIGUSR2)
    agent.wait_for_mode("burst")
    assert agent.status()["agent"]["rate"] == 199


@needs_bpf
def test_a_mode_of_the_environment_holds_from_the_start(new_agent):
    agent = new_agent("--mode", "low")
    agent.wait_for_mode("low")
    assert agent.status()["agent"]["rate"] == 4


@needs_bpf
def test_only_five_capabilities_are_left_and_children_have_fewer(new_agent):
    agent = new_agent()
    agent.wait_for_mode("normal")
    own = rights_of(agent.process.pid)
    assert own["uid"] != 0
    assert own["Prm"] == own["Eff"] == own["Bnd"] == KEPT_MASK
    assert own["Inh"] == own["Amb"] == 0
    assert own["nnp"] == 1 and own["seccomp"] == 2

    names = wait_for(lambda: {rights_of(p)["name"]: rights_of(p) for p in agent.children()})
    assert {n[:11] for n in names} >= {"vesta-relay", "vesta-inspe"}, names
    for name, rights in names.items():
        assert rights["uid"] != 0, name
        assert rights["nnp"] == 1 and rights["seccomp"] == 2, name
        assert rights["Eff"] & ~KEPT_MASK == 0, name
        assert rights["Eff"].bit_count() <= (3 if name.startswith("vesta-inspe") else 0), name


@needs_bpf
def test_metrics_status_and_health_are_served_to_this_host(new_agent):
    agent = new_agent()
    agent.wait_for_mode("normal")
    assert agent.get("/healthz") == "ok\n"
    seen = {}
    for line in agent.get("/metrics").splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name not in seen, name
            seen[name] = float(value)
    assert seen["vesta_agent_rate_hertz"] == 19
    assert 0 < seen["vesta_agent_memory_bytes"] < 200e6
    assert seen["vesta_agent_cpu_seconds_total"] > 0
    with pytest.raises(urllib.error.HTTPError) as refused:
        agent.get("/status", host="rebound.example")
    assert refused.value.code == 403
    shown = subprocess.run([AGENT, "status", "--listen", agent.address], capture_output=True,
                           text=True, check=True).stdout
    assert re.match(r"vesta-agent \S+  normal at 19 Hz, cpu: as configured\n", shown), shown
    assert "of a core" in shown and "\033" not in shown
    wait_for(lambda: "PID  SERVICE" in subprocess.run(
        [AGENT, "status", "--listen", agent.address], capture_output=True, text=True).stdout)


def doctor(*args):
    done = subprocess.run([AGENT, "doctor", *args], capture_output=True, text=True,
                          timeout=60)
    return done.returncode, done.stdout


@needs_bpf
def test_the_doctor_finds_everything_essential_here(server):
    code, text = doctor("--json", "--exporters", server.url)
    said = json.loads(text)
    assert code == 0 and said["works"], text
    state = {c["name"]: c["state"] for c in said["checks"]}
    for name in ("on-CPU sampling", "unwinding by tables", "wall clock", "off-CPU time",
                 "page faults", "exec and exit", "BTF", "exporter", *KEPT):
        assert state[name] == "works", (name, text)
    for check in said["checks"]:
        assert check["state"] != "lost" or (check["lost"] and check["fix"]), check
    code, text = doctor("--exporters", server.url)
    assert code == 0 and "takes profiles" in text
    assert re.search(r"\n(Everything works|Everything essential works; \d+ things? (is|are) lost)\.\n$",
                     text), text


@needs_bpf
def test_the_doctor_tells_a_wrong_token_from_a_wrong_address(new_server):
    server = new_server("--auth", "on")
    _, text = doctor("--exporters", server.url)
    assert "a token that may ingest" in text, text
    _, text = doctor("--exporters", f"{server.url}/nowhere")
    assert "answered 40" in text, text


def test_the_doctor_says_what_an_ordinary_user_lacks(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    copy = tmp_path / "vesta-agent"  # where anybody can run it
    copy.write_bytes(AGENT.read_bytes())
    copy.chmod(0o755)
    for parent in [tmp_path, *tmp_path.parents]:
        if parent != pathlib.Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", copy,
                           "doctor", "--json", "--exporters", "file:/tmp"], capture_output=True,
                          text=True, cwd="/")
    said = json.loads(done.stdout)
    assert done.returncode == 1 and not said["works"]
    state = {c["name"]: c for c in said["checks"]}
    assert state["CAP_BPF"]["state"] == "missing"
    assert "AmbientCapabilities" in state["CAP_BPF"]["fix"]
    assert state["on-CPU sampling"]["state"] == "missing"
