// Makes pprof files: just enough protobuf for profiles whose every number a test knows.

import { gzipSync } from "node:zlib";

function varint(n) {
    const out = [];
    let v = BigInt.asUintN(64, BigInt(n));
    do {
        const low = Number(v & 127n);
        v >>= 7n;
        out.push(v ? low | 128 : low);
    } while (v);
    return out;
}

class Message {
    parts = [];
    number(field, n) {
        if (n) this.parts.push(Buffer.from([...varint((field << 3) | 0), ...varint(n)]));
        return this;
    }
    bytes(field, b) {
        this.parts.push(Buffer.from([...varint((field << 3) | 2), ...varint(b.length)]), b);
        return this;
    }
    message(field, m) {
        return this.bytes(field, m.done());
    }
    packed(field, list) {
        return this.bytes(field, Buffer.from(list.flatMap((n) => varint(n))));
    }
    done() {
        return Buffer.concat(this.parts);
    }
}

/**
 * A pprof file. `stacks`: [{frames: [outermost, ..., leaf], values: [...], labels: {k: v}}], a frame
 * being "name" or {name, file, line, binary, build}.
 */
export function makePprof({ types = [["cpu", "nanoseconds"]], period = 0, startMs, durationMs = 10_000, stacks }) {
    const strings = new Map([["", 0]]);
    const text = (s) => {
        if (!strings.has(s)) strings.set(s, strings.size);
        return strings.get(s);
    };
    const functions = new Map();
    const locations = new Map();
    const mappings = new Map();
    const out = new Message();
    for (const [type, unit] of types)
        out.message(1, new Message().number(1, text(type)).number(2, text(unit)));
    const locationOf = (frame) => {
        const f = typeof frame === "string" ? { name: frame } : frame;
        const key = JSON.stringify([f.name, f.file, f.line, f.binary]);
        if (!locations.has(key)) {
            const fkey = JSON.stringify([f.name, f.file]);
            if (!functions.has(fkey)) functions.set(fkey, { id: functions.size + 1, f });
            let mapping = 0;
            if (f.binary) {
                if (!mappings.has(f.binary)) mappings.set(f.binary, { id: mappings.size + 1, f });
                mapping = mappings.get(f.binary).id;
            }
            locations.set(key, { id: locations.size + 1, mapping, func: functions.get(fkey).id, line: f.line ?? 0 });
        }
        return locations.get(key).id;
    };
    for (const s of stacks) {
        const sample = new Message()
            .packed(1, s.frames.map(locationOf).reverse())
            .packed(2, s.values);
        for (const [k, v] of Object.entries(s.labels ?? {}))
            sample.message(3, new Message().number(1, text(k)).number(2, text(v)));
        out.message(2, sample);
    }
    for (const m of mappings.values())
        out.message(3, new Message().number(1, m.id).number(2, 0x1000 * m.id).number(3, 0x1000 * (m.id + 1)).number(5, text(m.f.binary)).number(6, text(m.f.build ?? "")).number(7, 1));
    for (const l of locations.values())
        out.message(4, new Message().number(1, l.id).number(2, l.mapping).number(3, l.mapping ? l.mapping * 0x1000 + l.id : 0)
            .message(4, new Message().number(1, l.func).number(2, l.line)));
    for (const { id, f } of functions.values())
        out.message(5, new Message().number(1, id).number(2, text(f.name)).number(3, text(f.name)).number(4, text(f.file ?? "")));
    out.number(9, Math.round(startMs * 1e6) ? BigInt(Math.round(startMs)) * 1_000_000n : 0);
    out.number(10, BigInt(Math.round(durationMs)) * 1_000_000n);
    if (period) {
        out.message(11, new Message().number(1, text(types[types.length - 1][0])).number(2, text(types[types.length - 1][1])));
        out.number(12, period);
    }
    for (const s of strings.keys()) out.bytes(6, Buffer.from(s));
    return gzipSync(out.done(), { level: 1 });
}
