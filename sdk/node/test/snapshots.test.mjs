// Heap snapshots: what is refused, what is kept, and what never leaves.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import test from "node:test";
import { estimateHeapSnapshot, startHeapSnapshots } from "../dist/esm/index.js";
import { isSessionOpen } from "../dist/esm/session.js";
import { createSnapshotParser } from "../dist/esm/snapshot_parser.js";
import { runSnapshots } from "../dist/esm/snapshots.js";
import { createStats } from "../dist/esm/stats.js";
import { collector, eventually, quiet, selfOf } from "./lib/programs.mjs";

class LeakyThing {
    constructor(secret) {
        this.secret = secret;
    }
}

/** V8 calls an object by its own tag. */
const tagged = (secret) => ({ [Symbol.toStringTag]: `account of ${secret}` });

test("intervals that are too short for the pause are refused", async () => {
    const got = collector();
    const handle = startHeapSnapshots({ ...quiet, exporter: got.exporter, intervalMillis: 10_000 });
    const stats = handle.stats();
    assert.deepEqual(stats.skipped, { pause: 1 });
    assert.match(stats.lastError, /expected to stop this thread for \d+ ms.*refused/);
    assert.ok(stats.pauseEstimateMillis > 50);
    assert.equal(isSessionOpen(), false);
    await handle.stop();
    assert.equal(got.batches.length, 0);
    const none = startHeapSnapshots({ ...quiet, exporter: got.exporter });
    assert.match(none.stats().lastError, /intervalMillis/);
    await none.stop();
});

test("the estimate says from which interval on it is allowed", () => {
    const estimate = estimateHeapSnapshot(0.01);
    assert.ok(estimate.heapBytes > 1e6 && estimate.pauseMillis > 50);
    assert.ok(Math.abs(estimate.leastIntervalMillis / estimate.pauseMillis - 100) < 1);
});

test("a share of nothing refuses every interval", async () => {
    const got = collector();
    const options = { ...quiet, exporter: got.exporter, intervalMillis: 0x7fffffff };
    const handle = startHeapSnapshots({ ...options, maxPauseShare: 0 });
    assert.deepEqual(handle.stats().skipped, { pause: 1 });
    assert.match(handle.stats().lastError, /refused, as is any other/);
    await handle.stop();
    assert.equal(estimateHeapSnapshot(0).leastIntervalMillis, Number.POSITIVE_INFINITY);
    assert.equal(got.batches.length, 0);
});

/** Snapshots by the real schedule, with what the app says meanwhile. */
function snapshotsWith(config, context) {
    const lines = [];
    const log = { error: (line) => lines.push(line), info() {}, debug() {} };
    const stats = createStats({ enabled: true, logLevel: "silent", problems: [] }, log);
    const given = { intervalMillis: 3_600_000, maxPauseShare: 0.5, ...config };
    const usual = { stats, gauge: { verdict: () => ({ share: 1 }) }, send: async () => {} };
    return { lines, stats, ...runSnapshots(given, { ...usual, ...context }) };
}

test("the estimate is said before the first snapshot", async () => {
    const run = snapshotsWith({ shouldProfile: () => false }, {});
    assert.equal(run.lines.length, 1);
    assert.match(run.lines[0], /expected to stop this thread for \d+ ms/);
    await eventually(() => run.stats.snapshot().skipped.flag === 1);
    await run.stop();
});

test("flags that came later are asked, and a busy process is left alone", async () => {
    const later = snapshotsWith({}, { flagsOf: () => [() => false] });
    await eventually(() => later.stats.snapshot().skipped.flag === 1);
    await later.stop();
    const flags = [];
    let answer;
    const shouldProfile = () => new Promise((resolve) => (answer = resolve));
    const meanwhile = snapshotsWith({ shouldProfile }, { flagsOf: () => flags });
    flags.push(() => false);
    meanwhile.askAgain(["snapshots"]);
    answer(true);
    await eventually(() => meanwhile.stats.snapshot().skipped.flag === 1);
    assert.equal(meanwhile.stats.snapshot().windows, 0);
    await meanwhile.stop();
    const busy = snapshotsWith({}, { gauge: { verdict: () => ({ skip: "lag", share: 0 }) } });
    await eventually(() => busy.stats.snapshot().skipped.lag === 1);
    await busy.stop();
    assert.equal(isSessionOpen(), false);
});

test("a flag that never answers does not hold the end", async () => {
    const run = snapshotsWith({ shouldProfile: () => new Promise(() => {}) }, {});
    const isLate = Symbol("late");
    const late = new Promise((resolve) => setTimeout(resolve, 3000, isLate).unref());
    assert.notEqual(await Promise.race([run.stop(), late]), isLate);
});

test("objects are counted by constructor, and contents stay", async () => {
    const secret = randomBytes(16).toString("hex");
    const things = Array.from({ length: 5000 }, (_, i) => new LeakyThing(`${secret} ${i}`));
    const tags = Array.from({ length: 5000 }, () => tagged(secret));
    const got = collector();
    const handle = startHeapSnapshots({
        ...quiet,
        exporter: got.exporter,
        intervalMillis: 3_600_000,
        maxPauseShare: 0.5,
    });
    await eventually(() => got.batches.length > 0, 60);
    await handle.stop();
    assert.equal(things.length, tags.length);
    const [profile] = got.profiles;
    assert.equal(profile.kind, "heap_summary");
    assert.equal(selfOf(profile, "LeakyThing"), 5000);
    assert.ok(selfOf(profile, "LeakyThing", 1) >= 5000 * 24);
    assert.ok(selfOf(profile, "(other)") >= 5000);
    assert.ok(selfOf(profile, "(string)", 1) > 5000 * 32);
    const text = JSON.stringify(got.batches, (_, v) => (typeof v === "bigint" ? String(v) : v));
    assert.equal(text.includes(secret), false);
    assert.equal(isSessionOpen(), false);
    assert.equal(handle.stats().errors, 0, handle.stats().lastError);
});

const text = JSON.stringify({
    snapshot: {
        meta: {
            node_fields: ["type", "name", "id", "self_size", "edge_count"],
            node_types: [["hidden", "string", "object"], "string", "number", "number", "number"],
        },
        node_count: 5,
    },
    nodes: [
        ...[2, 1, 1, 40, 0, 2, 1, 3, 24, 0, 1, 2, 5, 100, 1, 2, 3, 7, 8, 0, 0, 2, 9, 16, 0],
        ...[2, 4, 11, 4, 0, 2, 5, 13, 3, 0],
    ],
    edges: [1, 2, 3],
    strings: [
        "",
        "Map",
        'a secret "with [brackets]" \\ and "strings":[',
        'Odd"\\name',
        "Caf\u00e9",
        "Map Iterator",
    ],
});
const wanted = [
    { name: "(string)", objects: 1, bytes: 100 },
    { name: "Map", objects: 2, bytes: 64 },
    { name: "(system)", objects: 1, bytes: 16 },
    { name: "(other)", objects: 1, bytes: 8 },
    { name: "Caf\u00e9", objects: 1, bytes: 4 },
    { name: "Map Iterator", objects: 1, bytes: 3 },
];

test("a snapshot may come in pieces of any size", () => {
    for (let size = 1; size < text.length + 1; size++) {
        const parser = createSnapshotParser();
        for (let i = 0; i < text.length; i += size) parser.write(text.slice(i, i + size));
        assert.deepEqual(parser.end(), wanted, `pieces of ${size}`);
    }
});

test("half a snapshot is none", () => {
    for (const length of [0, 10, 200, text.length - 3]) {
        const parser = createSnapshotParser();
        parser.write(text.slice(0, length));
        assert.throws(() => parser.end(), /not whole/);
    }
});
