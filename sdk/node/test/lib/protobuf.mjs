// Reads protobuf by the field numbers of a schema, for tests: { name: [number, kind, schema?] }.
// Kinds: number, big, text, bytes, fixed64, double, message; "packed" and "packedFixed64" are lists;
// a kind in an array is repeated.

export function decode(data, schema) {
    const byNumber = new Map(
        Object.entries(schema).map(([name, field]) => [field[0], [name, field]]),
    );
    const result = {};
    for (const [name, [, kind]] of Object.entries(schema)) {
        if (Array.isArray(kind) || kind.startsWith("packed")) {
            result[name] = [];
        }
    }
    let at = 0;
    function varint() {
        let value = 0n;
        for (let shift = 0n; ; shift += 7n) {
            if (at >= data.length) throw new Error("ends within a number");
            const byte = data[at++];
            value |= BigInt(byte & 0x7f) << shift;
            if (byte < 0x80) return BigInt.asUintN(64, value);
        }
    }
    while (at < data.length) {
        const tag = Number(varint());
        const found = byNumber.get(tag >> 3);
        if (!found) throw new Error(`field ${tag >> 3} is not known`);
        const [name, [, kinds, inner]] = found;
        const isList = Array.isArray(kinds);
        const kind = isList ? kinds[0] : kinds;
        let value;
        if ((tag & 7) === 0) {
            value =
                kind === "big" ? BigInt.asIntN(64, varint()) : Number(BigInt.asIntN(64, varint()));
        } else if ((tag & 7) === 1) {
            value = kind === "double" ? data.readDoubleLE(at) : data.readBigUInt64LE(at);
            at += 8;
        } else if ((tag & 7) === 2) {
            const length = Number(varint());
            const bytes = data.subarray(at, at + length);
            if (bytes.length !== length) throw new Error("ends within a message");
            value = content(kind, bytes, inner);
            at += length;
        } else {
            throw new Error(`wire type ${tag & 7}`);
        }
        if (isList) result[name].push(value);
        else result[name] = value;
    }
    return result;
}

function content(kind, bytes, inner) {
    switch (kind) {
        case "text":
            return bytes.toString();
        case "bytes":
            return bytes;
        case "message":
            return decode(bytes, inner);
        case "packed":
            return decodeList(bytes);
        case "packedFixed64":
            return Array.from({ length: bytes.length / 8 }, (_, i) => bytes.readBigUInt64LE(8 * i));
        default:
            throw new Error(`a ${kind} has no length`);
    }
}

function decodeList(bytes) {
    const values = [];
    let value = 0;
    let scale = 1;
    for (const byte of bytes) {
        value += (byte & 0x7f) * scale;
        scale *= 128;
        if (byte < 0x80) {
            values.push(value);
            value = 0;
            scale = 1;
        }
    }
    return values;
}
