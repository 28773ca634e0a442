"""Samples know the span that their thread was in: trace id, span id and attributes.

Programs that cost 70 of 100 in one span and 30 in another, and say so in every way there is."""

import collections
import os
import shutil
import subprocess

import pytest

import agent
from protobuf import every, fields, numbers

pytestmark = agent.needs_bpf

SPAN_A = ("a0" * 16, "a1" * 8)
SPAN_B = ("b0" * 16, "b1" * 8)
SECONDS = "3"
RATE = 499
# The share that has spans at least. Before a process and its files are known, samples of it have
# none, and on a busy machine that takes a second or two of the three.
KNOWN = 0.2

LIBRARIES = {"descriptor": ["-mtls-dialect=gnu2"], "general": ["-mtls-dialect=gnu"],
             "initial": ["-ftls-model=initial-exec"]}


def made(name, command, sources):
    """A program in the build folder, made unless that was done."""
    path = agent.MADE / name
    sources = [agent.WORKLOADS / s for s in sources]
    newest = max(s.stat().st_mtime for s in [*sources, agent.WORKLOADS / "work.h",
                                             agent.WORKLOADS / "spans.h"])
    if path.exists() and path.stat().st_mtime > newest:
        return path
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    agent.MADE.mkdir(exist_ok=True)
    fresh = path.with_name(f"{name}.{os.getpid()}")
    done = subprocess.run([command[0], "-O2", *sources, "-o", fresh, *command[1:], "-pthread"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} cannot make it here: {done.stderr[-300:]}")
    fresh.rename(path)
    return path


def library(model, compiler="gcc"):
    return made(f"libspans-{compiler}-{model}.so",
                [compiler, "-shared", "-fPIC", *LIBRARIES[model]], ["spans_variable.c"])


def program(how):
    """A program whose variable lies `how`."""
    both = ["spans.c", "spans_variable.c"]
    if how == "own":
        return made("spans-own", ["gcc", "-rdynamic"], both)
    if how == "static":
        return made("spans-static", ["gcc", "-static"], both)
    if how == "header": # what vesta.h makes of it
        where = agent.BUILD / "src" / "preload"
        return made("spans-header", ["gcc", f"-I{agent.ROOT / 'include'}", f"-L{where}",
                                     f"-Wl,-rpath,{where}", "-lvesta-context"], ["spans_header.c"])
    if how == "static musl":
        return made("spans-musl", ["musl-gcc", "-static"], both)
    compiler, model = ("musl-gcc", how[5:]) if how.startswith("musl ") else ("gcc", how)
    where = library(model, compiler)
    return made(f"spans-{compiler}-{model}", [compiler, where, f"-Wl,-rpath,{where.parent}"],
                ["spans.c"])


def rows(path):
    """[(type, resource, link, attributes, value)] of a file of OTLP profiles."""
    data = path.read_bytes()
    dictionary = every(data, 2)[0]
    strings = [s.decode() for s in every(dictionary, 5)]
    links = [tuple((dict(fields(m)).get(n, b"")).hex() for n in (1, 2))
             for m in every(dictionary, 4)]
    attributes = []
    for m in every(dictionary, 6):
        one = dict(fields(m))
        value = dict(fields(one.get(2, b"")))
        attributes.append((strings[one.get(1, 0)], value.get(1, b"")))
    found = []
    for resource in every(data, 1):
        about = {}
        for pair in every(every(resource, 1)[0], 1):
            key, value = every(pair, 1)[0], dict(fields(every(pair, 2)[0]))
            about[key.decode()] = value.get(1, b"")
        for scope in every(resource, 2):
            for profile in every(scope, 2):
                kind = strings[dict(fields(every(profile, 1)[0])).get(1, 0)]
                for sample in every(profile, 2):
                    ids = [n for v in every(sample, 2) for n in numbers(v)]
                    link = links[dict(fields(sample)).get(3, 0)]
                    value = sum(n for v in every(sample, 4) for n in numbers(v))
                    found.append((kind, about, link, dict(attributes[i] for i in ids), value))
    return found


def record(tmp_path, *command, options=()):
    return rows(agent.record(command[0], tmp_path / "x.otlp", SECONDS, *command[1:],
                             rate=RATE, options=options))


def shares(found, kind="cpu"):
    """{(trace, span): share of all}, {route: share}, and the share of both in one sample."""
    links, routes, both = (collections.Counter() for _ in range(3))
    total = sum(value for k, _, _, _, value in found if k == kind)
    assert total > 5e8, "there is something to judge"
    for k, _, link, attributes, value in found:
        route = attributes.get("http.route")
        if k == kind:
            links[link] += value / total
            routes[route] += value / total
            both[link, route] += value / total
    return links, routes, both


def check_shares(found):
    links, routes, both = shares(found)
    a, b = links[SPAN_A], links[SPAN_B]
    assert a + b > KNOWN, links
    assert a / (a + b) == pytest.approx(0.7, abs=0.1), links
    assert set(links) <= {SPAN_A, SPAN_B, ("", "")}, "no span that is not one"
    # Keys have names once the context of the process has been read.
    assert routes[b"/cart"] + routes[b"/pay"] > KNOWN, routes
    assert both[SPAN_A, b"/pay"] == both[SPAN_B, b"/cart"] == 0


@pytest.mark.parametrize("how", ["own", "header", "static", "static musl", "descriptor", "general",
                                 "initial", "musl general"])
def test_spans_and_attributes_of_a_record_arrive(how, tmp_path):
    found = record(tmp_path, program(how))
    check_shares(found)
    services = collections.Counter()
    for _, about, _, _, value in found:
        services[about.get("service.name")] += value
    assert services[b"spans-service"] > KNOWN * sum(services.values()), services
    for _, about, _, attributes, _ in found:
        assert set(attributes) <= {"http.route"}, "a key that has no name is left out"
        assert not any(key.startswith("threadlocal.") for key in about)


@pytest.mark.parametrize("model", LIBRARIES)
def test_a_variable_of_a_library_that_is_loaded_late_is_found(model, tmp_path):
    loads = made("spans-loads", ["gcc", "-DLOADED", "-ldl"], ["spans.c"])
    links, _, _ = shares(record(tmp_path, loads, str(library(model))))
    assert links[SPAN_A] > 0.05, links
    assert set(links) <= {SPAN_A, SPAN_B, ("", "")}


@pytest.mark.parametrize("how", ["unmapped", "kernel", "invalid", "zero"])
def test_a_record_that_is_wrong_makes_no_span(how, tmp_path):
    links, routes, _ = shares(record(tmp_path, program("own"), how))
    assert set(links) == {("", "")}, links
    if how != "zero": # no span, but attributes
        assert set(routes) == {None}, routes


@pytest.mark.parametrize("how", ["huge", "edge"])
def test_attributes_that_are_wrong_are_left_out(how, tmp_path):
    links, routes, _ = shares(record(tmp_path, program("own"), how))
    assert links[SPAN_A] > 0.7 * KNOWN, links
    assert set(routes) == {None}, routes


def test_waits_know_their_span(tmp_path):
    found = record(tmp_path, program("own"), "sleeps", options=["--type", "wall,offcpu"])
    for kind in ("wall", "off_cpu"):
        links, routes, _ = shares(found, kind)
        a, b = links[SPAN_A], links[SPAN_B]
        # The other half is main(), which waits for its thread.
        assert a + b > KNOWN / 2, (kind, links)
        assert a / (a + b) == pytest.approx(0.7, abs=0.2), (kind, links)
        assert routes[b"/cart"] > KNOWN / 4, (kind, routes)


def go_program(version):
    if not shutil.which("go"):
        pytest.skip("go is not installed")
    agent.MADE.mkdir(exist_ok=True)
    path = agent.MADE / f"golabels-{version}"
    done = subprocess.run(["go", "build", "-o", path, "."], cwd=agent.WORKLOADS / "golabels",
                          env={**os.environ, "GOTOOLCHAIN": version, "GOFLAGS": "-mod=mod"},
                          capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"{version} cannot be had: {done.stderr[-300:]}")
    return path


@pytest.mark.parametrize("version", ["local", "go1.18.10", "go1.22.12", "go1.25.7"])
def test_labels_of_goroutines_are_spans_and_attributes(version, tmp_path):
    found = record(tmp_path, go_program(version))
    check_shares(found)
    for _, _, link, attributes, _ in found:
        assert "trace_id" not in attributes and "span_id" not in attributes
        if link == SPAN_B:
            assert attributes["tenant"] == b"blue"
