"""Reads the compact trees of the API (format=tree): docs/api.md, "Trees"."""

import json
import struct


def numbers(data):
    """The varints of a section."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
    assert shift == 0, "a varint is cut short"


def strings(data):
    at, out = 0, []
    while at < len(data):
        length = shift = 0
        while True:
            length |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        assert at + length <= len(data)
        out.append(data[at:at + length].decode())
        at += length
    return out


class Tree:
    """Nodes in the order sent; self, total... are lists over them."""

    def __init__(self, body):
        magic, version, length = struct.unpack_from("<8sII", body)
        assert (magic, version, length % 8) == (b"VESTATRE", 1, 0)
        self.head = head = json.loads(body[16:16 + length])
        data = body[16 + length:]
        self.sections = {s["name"]: data[s["offset"]:s["offset"] + s["bytes"]]
                         for s in head["sections"]}
        assert sum(s["bytes"] for s in head["sections"]) == len(data)
        texts = strings(self.sections["strings"])
        self.frames = {
            name: [texts[i] for i in numbers(self.sections[f"frame_{name}"])]
            for name in ("name", "file", "type", "binary", "build")}
        self.frames["line"] = list(numbers(self.sections["frame_line"]))
        assert all(len(column) == head["frames"] for column in self.frames.values())
        self._read_nodes()

    def _value(self, v):
        if self.head["is_signed"]:
            v = -(v + 1) // 2 if v % 2 else v // 2
        return v * self.head["scale"]

    def _read_nodes(self):
        n = self.head["nodes"]
        children = list(numbers(self.sections["children"]))
        self.frame = list(numbers(self.sections["frame"]))
        self.self = [self._value(v) for v in numbers(self.sections["self"])]
        assert len(children) == len(self.frame) == len(self.self) == n
        assert sum(children) == n - 1
        self.parent = [0] + [i for i, count in enumerate(children) for _ in range(count)]
        self.depth = [0] * n
        for i in range(1, n):
            assert self.parent[i] < i
            self.depth[i] = self.depth[self.parent[i]] + 1
        compares = "before" in self.sections
        self.hidden = {}
        self.hidden_children = {}
        hidden_before = {}
        rest = numbers(self.sections["hidden"])
        at = 0
        for delta in rest:
            at += delta
            self.hidden_children[at] = next(rest)
            self.hidden[at] = self._value(next(rest))
            if compares:
                hidden_before[at] = self._value(next(rest))
        self.total = self._totals(self.self, self.hidden)
        if compares:
            self.before = [self._value(v) for v in numbers(self.sections["before"])]
            self.before_total = self._totals(self.before, hidden_before)
        if "sure" in self.sections:
            bits = self.sections["sure"]
            assert len(bits) == (n + 7) // 8
            self.sure = [bits[i // 8] >> i % 8 & 1 for i in range(n)]

    def _totals(self, own, hidden):
        total = [v + hidden.get(i, 0) for i, v in enumerate(own)]
        for i in range(len(total) - 1, 0, -1):
            total[self.parent[i]] += total[i]
        return total

    def name(self, i):
        return self.frames["name"][self.frame[i]]

    def path(self, i):
        out = []
        while i > 0:
            out.append(self.name(i))
            i = self.parent[i]
        return tuple(reversed(out))
