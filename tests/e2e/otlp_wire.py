"""OTLP messages built by hand, for tests: no generated code, so nothing agrees by sharing it."""

import struct
import time

from protobuf import field, fields, varint  # noqa: F401 (fields: for those who read answers)

message = number = field


def fixed64(place, n):
    return varint(place << 3 | 1) + struct.pack("<Q", n)


def attribute(key, value):
    return message(1, key) + message(2, message(1, value))


def resource(attributes):
    return b"".join(message(1, attribute(k, v)) for k, v in attributes.items())


TRACE = bytes(range(1, 17))
SPAN = bytes(range(1, 9))


def profiles(resources, samples=3, start=None, kind=("samples", "count"), values=None):
    """A request with one profile for each resource, as the eBPF profiler writes them: times only, 20
    a second, or with values where they are given. One stack, main;work; a link to a span."""
    start = start or time.time_ns() - 10**10
    strings = ["", *kind, "cpu", "nanoseconds", "main", "work", "/home/bob/app.c"]
    frames = [message(2, b""), message(2, message(3, number(1, 1) + number(2, 3))),
              message(2, message(3, number(1, 2) + number(2, 7)))]
    functions = [message(3, b""), message(3, number(1, 5) + number(3, 7)),
                 message(3, number(1, 6) + number(3, 7))]
    dictionary = (message(1, b"") + b"".join(frames) + b"".join(functions) + message(4, b"")
                  + message(4, message(1, TRACE) + message(2, SPAN))
                  + b"".join(message(5, s) for s in strings) + message(6, b"")
                  + message(7, b"") + message(7, message(1, varint(2) + varint(1))))
    times = struct.pack(f"<{samples}Q", *(start + i * 50000000 for i in range(samples)))
    sample = number(1, 1) + number(3, 1) + message(5, times)
    if values:
        sample += message(4, b"".join(map(varint, values)))
    profile = (message(1, number(1, 1) + number(2, 2)) + message(2, sample) + fixed64(3, start)
               + number(4, 5 * 10**9) + message(5, number(1, 3) + number(2, 4)) + number(6, 50000000))
    return message(2, dictionary) + b"".join(
        message(1, message(1, resource(r)) + message(2, message(2, profile))) for r in resources)


def profiles_json(service, start=None, samples=3):
    start = start or time.time_ns() - 10**10
    return {
        "resourceProfiles": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
            "scopeProfiles": [{"profiles": [{
                "sampleType": {"typeStrindex": 1, "unitStrindex": 2},
                "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": "50000000",
                "timeUnixNano": str(start), "durationNano": "5000000000",
                "samples": [{"stackIndex": 1,
                             "timestampsUnixNano": [str(start + i) for i in range(samples)]}]}]}]}],
        "dictionary": {
            "stringTable": ["", "samples", "count", "cpu", "nanoseconds", "main"],
            "functionTable": [{}, {"nameStrindex": 5}],
            "locationTable": [{}, {"lines": [{"functionIndex": 1, "line": "3"}]}],
            "mappingTable": [{}], "linkTable": [{}], "attributeTable": [{}],
            "stackTable": [{}, {"locationIndices": [1]}]}}


def traces(service, names, start=None, trace=TRACE, span=SPAN):
    start = start or time.time_ns() - 10**9
    spans = b"".join(
        message(2, message(1, trace) + message(2, span) + message(5, name) + number(6, 2)
                + fixed64(7, start + i) + fixed64(8, start + i + 5000)
                + message(9, attribute("http.route", "/" + name)) + message(15, number(3, 2)))
        for i, name in enumerate(names))
    return message(1, message(1, resource({"service.name": service})) + message(2, spans))
