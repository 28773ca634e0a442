"""Protobuf messages by hand, for tests: no generated code, so nothing agrees by sharing it."""

import struct


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """One field: bytes and text as they are, whole numbers as varints, others as doubles."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, (bytes, bytearray)):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return varint(number << 3) + varint(value)


def take_varint(data, at):
    """The number at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data, fixed64="<Q"):
    """[(number, value)] of a message; fixed64="<d" where fields of 8 bytes are doubles."""
    at, found = 0, []
    while at < len(data):
        tag, at = take_varint(data, at)
        if tag & 7 == 0:
            value, at = take_varint(data, at)
        elif tag & 7 == 1:
            value, at = struct.unpack_from(fixed64, data, at)[0], at + 8
        elif tag & 7 == 5:
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            n, at = take_varint(data, at)
            value, at = data[at:at + n], at + n
            assert len(value) == n, "the message is cut off"
        found.append((tag >> 3, value))
    return found


def every(data, number):
    """The values of all fields of that number."""
    return [value for n, value in fields(data) if n == number]


def numbers(value):
    """A repeated number, packed or not."""
    if isinstance(value, int):
        return [value]
    at, found = 0, []
    while at < len(value):
        n, at = take_varint(value, at)
        found.append(n)
    return found
