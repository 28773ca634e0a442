// What is written is read back: by the schemas of OTLP and pprof, written down once more here.
import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeOtlp } from "../dist/esm/encode_otlp.js";
import { encodeOtlpJson } from "../dist/esm/encode_otlp_json.js";
import { encodePprof } from "../dist/esm/encode_pprof.js";
import { createProtobufWriter } from "../dist/esm/protobuf.js";
import { cpuProfile, heapProfile, link, makeBatch, startNanos } from "./lib/batch.mjs";
import { decodeOtlp, decodePprof, resolveOtlp } from "./lib/otlp.mjs";
import { decode } from "./lib/protobuf.mjs";

const start = startNanos(1_770_000_000_000);
const at = (millis) => start + BigInt(millis) * 1_000_000n;

test("numbers and lengths of every size", () => {
    for (const n of [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 70_000_000]) {
        const w = createProtobufWriter();
        w.message(1, () => w.bytes(2, Buffer.alloc(n)));
        w.number(3, n);
        w.number(4, Number.MAX_SAFE_INTEGER - n);
        w.signed(5, -BigInt(n));
        w.packed(6, [n, 0, 1]);
        const read = decode(w.finish(), {
            inner: [1, "message", { bytes: [2, "bytes"] }],
            n: [3, "number"],
            large: [4, "big"],
            negative: [5, "big"],
            list: [6, "packed"],
        });
        assert.equal(read.inner.bytes.length, n);
        assert.equal(read.n ?? 0, n);
        assert.equal(read.large, BigInt(Number.MAX_SAFE_INTEGER - n));
        assert.equal(read.negative, -BigInt(n));
        assert.deepEqual(read.list, [n, 0, 1]);
    }
});

function checkCpu(scope) {
    assert.equal(scope.name, "@vesta/node");
    assert.deepEqual(scope.attributes, {
        "pprof.scope.sample_type_order": [1, 0],
        "pprof.scope.default_sample_type": "cpu",
    });
    const [cpu, samples] = scope.profiles;
    assert.equal(cpu.type, "cpu/nanoseconds", "the default is the first");
    assert.equal(samples.type, "samples/count");
    assert.match(cpu.id, /^[0-9a-f]{32}$/);
    assert.equal(samples.id, undefined);
    for (const profile of scope.profiles) {
        assert.equal(profile.time, start);
        assert.equal(profile.duration, 10_000_000_000n);
        assert.equal(profile.periodType, "cpu/nanoseconds");
        assert.equal(profile.period, 10_000_000);
        assert.deepEqual(profile.attributes, {
            "window.reason": "full",
            "loop.utilization": 0.25,
            "is.short": false,
        });
        assert.equal(profile.samples.length, 4, "those that are alike are one");
    }
    const [linked, anonymous, gc, plain] = cpu.samples;
    assert.deepEqual(linked.link, [link.traceId, link.spanId]);
    assert.deepEqual(linked.attributes, { "http.route": "/cart", "thread.id": 0 });
    assert.deepEqual(linked.values, [10_000_000, 11_000_000]);
    assert.deepEqual(linked.times, [at(10), at(30)]);
    assert.deepEqual(
        linked.stack.map((f) => f.name),
        ["parse", "main"],
        "leaf first",
    );
    assert.deepEqual(anonymous.stack[0], {
        name: "(anonymous)",
        file: "/app/parse.js",
        startLine: 28,
        line: 30,
        column: 5,
        "profile.frame.type": "v8js",
    });
    assert.deepEqual(anonymous.values, [9_000_000]);
    assert.equal(gc.stack[0]["profile.frame.type"], "native");
    assert.equal(gc.stack[0].line, 0);
    assert.equal(plain.link, undefined);
    assert.deepEqual(plain.stack, linked.stack);
    assert.deepEqual(samples.samples[0].values, [], "times alone count");
    assert.deepEqual(samples.samples[0].times, [at(10), at(30)]);
}

function checkHeap(scope) {
    const [space, objects] = scope.profiles;
    assert.equal(space.type, "inuse_space/bytes");
    assert.equal(objects.type, "inuse_objects/count");
    assert.deepEqual(
        space.samples.map((s) => s.values),
        [[2_097_152], [0]],
    );
    assert.deepEqual(
        objects.samples.map((s) => s.values),
        [[4], [0]],
    );
    assert.deepEqual(space.samples[0].times, []);
}

test("OTLP as protobuf", () => {
    const message = decodeOtlp(encodeOtlp(makeBatch("shop", start)));
    const d = message.dictionary;
    assert.deepEqual(d.mappingTable, [{}]);
    assert.deepEqual(d.locationTable[0], { lines: [], attributeIndices: [] });
    assert.deepEqual(d.functionTable[0], {});
    assert.deepEqual(d.attributeTable[0], {});
    assert.deepEqual(d.stackTable[0], { locationIndices: [] });
    assert.equal(d.stringTable[0], "");
    assert.equal(d.linkTable[0].traceId.toString("hex"), "0".repeat(32));
    assert.equal(new Set(d.stringTable).size, d.stringTable.length, "no text twice");
    assert.ok(!d.stringTable.includes("never used"), "nothing that nobody refers to");
    assert.equal(d.functionTable.filter((f) => d.stringTable[f.nameStrindex] === "main").length, 1);
    const read = resolveOtlp(message);
    assert.deepEqual(read.resource, makeBatch("shop").resource);
    checkCpu(read.scopes[0]);
    checkHeap(read.scopes[1]);
});

test("OTLP as JSON", () => {
    const message = JSON.parse(encodeOtlpJson(makeBatch("shop", start)).toString());
    const [cpu] = message.resourceProfiles[0].scopeProfiles[0].profiles;
    assert.equal(cpu.timeUnixNano, String(start));
    assert.equal(cpu.samples[0].values[0], "10000000");
    assert.equal(cpu.samples[0].timestampsUnixNano[0], String(at(10)));
    assert.equal(typeof cpu.samples[0].stackIndex, "number");
    assert.equal(message.dictionary.linkTable[1].traceId, link.traceId);
    const read = resolveOtlp(message);
    assert.deepEqual(read.resource, makeBatch("shop").resource);
    checkCpu(read.scopes[0]);
    checkHeap(read.scopes[1]);
});

test("times outside of the window make it wider", () => {
    const profile = cpuProfile(start);
    profile.samples[0].timeUnixNanos = start - 5n;
    profile.samples[3].timeUnixNanos = start + profile.durationNanos;
    const batch = { resource: {}, profiles: [profile] };
    const [cpu] = resolveOtlp(decodeOtlp(encodeOtlp(batch))).scopes[0].profiles;
    assert.equal(cpu.time, start - 5n);
    assert.equal(cpu.duration, profile.durationNanos + 6n);
});

test("one sample without a time: totals, and no times at all", () => {
    const profile = cpuProfile(start);
    delete profile.samples[4].timeUnixNanos;
    const batch = { resource: {}, profiles: [profile] };
    const [cpu, samples] = resolveOtlp(decodeOtlp(encodeOtlp(batch))).scopes[0].profiles;
    assert.deepEqual(cpu.samples[0].values, [21_000_000]);
    assert.deepEqual(samples.samples[0].values, [2]);
    assert.ok(cpu.samples.every((s) => s.times.length === 0));
});

test("what makes no sense does no harm", () => {
    const profile = heapProfile(start);
    profile.samples = [
        { stack: 2, values: [Number.NaN, -5], link: { traceId: "zz", spanId: "1" } },
        { stack: 0, values: [Number.POSITIVE_INFINITY, 1e300] },
        { stack: 1, values: [] },
    ];
    profile.stacks.parent[2] = 2; // its own parent
    profile.frames[1].name = "\ud800 half a character";
    profile.attributes = { nan: Number.NaN, list: [] };
    const batch = { resource: { "service.name": "" }, profiles: [profile] };
    const read = resolveOtlp(decodeOtlp(encodeOtlp(batch))).scopes[0].profiles[0];
    assert.deepEqual(
        read.samples.map((s) => s.values),
        [[0], [Number.MAX_SAFE_INTEGER], [0]],
    );
    assert.equal(read.samples[0].link, undefined);
    assert.doesNotThrow(() => JSON.parse(encodeOtlpJson(batch).toString()));
    assert.equal(decodePprof(encodePprof(profile, {})).samples.length, 3);
});

test("pprof", () => {
    const read = decodePprof(encodePprof(cpuProfile(start), { "service.name": "shop" }));
    assert.deepEqual(read.types, ["samples/count", "cpu/nanoseconds"]);
    assert.equal(read.defaultType, "cpu");
    assert.equal(read.time, start);
    assert.equal(read.duration, 10_000_000_000n);
    assert.equal(read.period, 10_000_000);
    assert.ok(read.comments.includes("service.name=shop"));
    assert.ok(read.comments.includes("window.reason=full"));
    assert.equal(read.samples.length, 4);
    const [linked, anonymous] = read.samples;
    assert.deepEqual(linked.stack, ["parse /app/parse.js:22", "main /app/main.js:10"]);
    assert.deepEqual(linked.values, [2, 21_000_000]);
    assert.deepEqual(linked.labels, {
        trace_id: link.traceId,
        span_id: link.spanId,
        "http.route": "/cart",
        "thread.id": "0",
    });
    assert.equal(anonymous.stack[0], "(anonymous) /app/parse.js:30");
});
