"""Spans by service and name, with what was sampled in them."""

import json
import time
import urllib.parse

import pytest

from conftest import Server
from protobuf import field, varint

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOW = time.time_ns()


def traces(service, spans):
    """spans: (id, name, duration in ms, has failed)."""
    rows = [{"traceId": TRACE, "spanId": "%016x" % number, "name": name, "kind": 2,
             "startTimeUnixNano": str(NOW - 60 * 10**9 + number),
             "endTimeUnixNano": str(NOW - 60 * 10**9 + number + ms * 10**6),
             "status": {"code": 2 if failed else 1}} for number, name, ms, failed in spans]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource,
                                          "scopeSpans": [{"spans": rows}]}]}).encode()


def profile(samples):
    """pprof of one function: (span, nanoseconds) each."""
    texts = ["", "cpu", "nanoseconds", "span_id", "work"]
    out = field(1, field(1, 1) + field(2, 2))
    for span, value in samples:
        texts.append("%016x" % span)
        out += field(2, field(1, varint(1)) + field(2, varint(value)) +
                     field(3, field(1, 3) + field(2, len(texts) - 1)))
    out += field(4, field(1, 1) + field(4, field(1, 1))) + field(5, field(1, 1) + field(2, 4))
    for text in texts:
        out += field(6, text.encode())
    return out + field(9, NOW - 50 * 10**9)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Server(tmp_path_factory.mktemp("spans") / "data").start()
    json_type = {"content-type": "application/json"}
    shop = [(i, "GET /cart", i, i % 10 == 0) for i in range(1, 101)] + [(500, "pay", 2000, False)]
    for service, spans in (("shop", shop), ("till", [(900, "GET /cart", 7, False)])):
        assert started.post("/v1/traces", traces(service, spans), headers=json_type)[0] == 200
    status, _, said = started.post("/api/v1/profiles?service.name=shop",
                                   profile([(1, 30), (2, 12), (500, 5)]))
    assert status == 200, said
    yield started
    started.stop()


def groups(server, status=200, **params):
    got, _, content = server.get("/api/v1/span_groups?" + urllib.parse.urlencode(params))
    assert got == status, content
    return json.loads(content)


def test_groups_have_counts_durations_and_values(server):
    answer = groups(server, type="cpu")
    assert (answer["spans"], answer["all_groups"], answer["has_values"]) == (102, 3, True)
    first = answer["groups"][0]
    assert (first["service"], first["name"]) == ("shop", "GET /cart")
    assert (first["count"], first["errors"], first["value"]) == (100, 10, 42)
    assert abs(int(first["p50_ns"]) / 50e6 - 1) < 0.07
    assert abs(int(first["p99_ns"]) / 99e6 - 1) < 0.07
    assert first["max_ns"] == "100000000" and first["total_ns"] == str(5050 * 10**6)
    assert first["slowest"]["trace"] == TRACE and first["slowest"]["span"] == "%016x" % 100
    assert [g["value"] for g in answer["groups"]] == [42, 5, 0]


def test_orders_limits_and_filters(server):
    assert groups(server, order="p99")["groups"][0]["name"] == "pay"
    assert groups(server, order="value", type="cpu", limit=1)["groups"][0]["value"] == 42
    assert len(groups(server, limit=2)["groups"]) == 2
    only = groups(server, service="till")
    assert [g["service"] for g in only["groups"]] == ["till"] and not only["has_values"]
    assert "value" not in only["groups"][0]
    assert groups(server, name="pay")["groups"][0]["count"] == 1
    assert groups(server, until="now-10m", **{"from": "now-1h"})["groups"] == []
    assert "needs a type" in groups(server, 400, order="value")["error"]
    assert "order" in groups(server, 400, order="x")["error"]
