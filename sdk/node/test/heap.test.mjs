// Allocations and live heap of real code by real V8.
import assert from "node:assert/strict";
import test from "node:test";
import { resolveConfig } from "../dist/esm/config.js";
import { createPauseGuard } from "../dist/esm/heap_pause.js";
import { beginLiveHeap, isLiveHeapOn, seesDeadObjects } from "../dist/esm/heap_sampler.js";
import { startAllocationProfiling, startHeapSampling, start } from "../dist/esm/index.js";
import { inspector, isSessionOpen } from "../dist/esm/session.js";
import { block, collector, eventually, quiet, totalOf } from "./lib/programs.mjs";

const sampling = { ...quiet, samplingIntervalBytes: 64 << 10 };
const near = (value, wanted, share) => Math.abs(value - wanted) <= share * wanted;

let sink;

/** An array of 32 numbers: a header of 16 bytes and 256 of elements, an array of 32. */
function allocateGarbage(count) {
    for (let i = 0; i < count; i++) sink = new Array(32).fill(i + 0.5);
}

const kept = [];

function leak(count) {
    for (let i = 0; i < count; i++) kept.push(new Float64Array(0), new Array(120).fill(i));
}

test("allocations that died are counted where they were made", {
    skip: !seesDeadObjects,
}, async () => {
    const got = collector();
    const handle = startAllocationProfiling({ ...sampling, exporter: got.exporter });
    allocateGarbage(200_000);
    await handle.stop();
    const [profile] = got.profiles;
    assert.equal(profile.kind, "alloc");
    assert.deepEqual(profile.sampleTypes, [
        { type: "alloc_objects", unit: "count" },
        { type: "alloc_space", unit: "bytes" },
    ]);
    const bytes = totalOf(profile, "allocateGarbage", 1);
    const wanted = 200_000 * (272 + 32);
    // 60 MB are some 1,000 samples: 3 % of error is usual, 12 % happens once in 10,000 times.
    assert.ok(near(bytes, wanted, 0.13), `${bytes} of ${wanted} bytes`);
    assert.ok(sink);
    assert.equal(isSessionOpen(), false);
});

test("windows of allocations do not count what was before", {
    skip: !seesDeadObjects,
}, async () => {
    const got = collector();
    allocateGarbage(50_000);
    const handle = startAllocationProfiling({
        ...sampling,
        exporter: got.exporter,
        intervalMillis: 500,
        durationMillis: 500,
    });
    allocateGarbage(100_000);
    await eventually(() => got.profiles.length > 0);
    allocateGarbage(100_000);
    await handle.stop();
    const sums = got.profiles.map((profile) => totalOf(profile, "allocateGarbage", 1));
    const wanted = 200_000 * (272 + 32);
    const sum = sums.reduce((a, b) => a + b, 0);
    assert.ok(near(sum, wanted, 0.15), `${sums} of ${wanted} bytes`);
    assert.ok(near(sums[0], wanted / 2, 0.2), `${sums[0]} in the first window`);
    assert.equal(handle.stats().errors, 0, handle.stats().lastError);
});

test("a leak grows in the live heap, and garbage does not", async () => {
    const got = collector();
    const handle = startHeapSampling({
        ...sampling,
        exporter: got.exporter,
        intervalMillis: 150,
        durationMillis: 150,
    });
    leak(20_000);
    allocateGarbage(50_000);
    await eventually(() => got.profiles.length > 0);
    leak(20_000);
    await handle.stop();
    const first = got.profiles[0];
    const last = got.profiles[got.profiles.length - 1];
    assert.equal(first.kind, "heap");
    assert.equal(first.defaultType, "inuse_space");
    const each = 120 * 8 + 16 + 32;
    const bytes = [first, last].map((profile) => totalOf(profile, "leak", 1));
    assert.ok(bytes[0] > 20_000 * each * 0.85, `${bytes} bytes`);
    assert.ok(bytes[1] > 40_000 * each * 0.85, `${bytes} bytes`);
    assert.ok(totalOf(last, "allocateGarbage", 1) < 0.02 * bytes[1]);
    assert.equal(isSessionOpen(), false);
    kept.length = 0;
});

test("allocations and live heap take turns", async () => {
    const got = collector();
    const handle = start({
        ...quiet,
        exporter: got.exporter,
        cpu: false,
        eventLoop: false,
        allocations: { samplingIntervalBytes: 65536, intervalMillis: 300, durationMillis: 100 },
        heap: { samplingIntervalBytes: 65536, intervalMillis: 600, durationMillis: 600 },
    });
    leak(5000);
    await eventually(() => got.profiles.some(({ kind }) => kind === "alloc"));
    leak(20_000);
    await eventually(() => got.profiles.some(({ kind }) => kind === "heap"));
    await handle.stop();
    const heap = got.profiles.find(({ kind }) => kind === "heap");
    assert.ok(
        totalOf(heap, "leak", 1) > 20_000 * 900 * 0.8,
        "what was made between windows is seen",
    );
    assert.equal(handle.stats().errors, 0, handle.stats().lastError);
    assert.equal(isSessionOpen(), false);
    kept.length = 0;
});

test("allocations that nobody asked for leave the live heap alone", async () => {
    const got = collector();
    const handle = start({
        ...quiet,
        exporter: got.exporter,
        cpu: false,
        eventLoop: false,
        heap: { samplingIntervalBytes: 65536, intervalMillis: 100, durationMillis: 100 },
    });
    leak(20_000);
    await eventually(() => got.profiles.length >= 2);
    await handle.stop();
    assert.deepEqual([...new Set(got.profiles.map(({ kind }) => kind))], ["heap"]);
    const times = got.profiles.map(({ startUnixNanos }) => startUnixNanos);
    assert.ok(times[1] - times[0] > 50_000_000n, "each is of the moment when it was read");
    assert.ok(got.profiles.every(({ durationNanos }) => durationNanos === 0n));
    const since = new Set(got.profiles.map((p) => p.attributes["vesta.heap.since"]));
    assert.equal(since.size, 1, "all of them reach back to the start");
    assert.ok(Math.abs(Date.parse([...since][0]) - Number(times[0] / 1_000_000n)) < 10_000);
    assert.ok(totalOf(got.profiles.at(-1), "leak", 1) > 20_000 * 900 * 0.8);
    assert.deepEqual(handle.stats().skipped, { heap: 1 });
    assert.equal(isSessionOpen(), false);
    kept.length = 0;
});

test("a reading that would take too long is left out, and said once", async () => {
    const kept = [];
    while (process.memoryUsage().heapUsed < 40e6) kept.push(new Array(1000).fill(0.5));
    const got = collector();
    const options = { ...quiet, exporter: got.exporter, intervalMillis: 40, durationMillis: 40 };
    for (const begin of [startAllocationProfiling, startHeapSampling]) {
        const handle = begin({ ...options, maxPauseMillis: 1 });
        await eventually(() => handle.stats().skipped.pause >= 2);
        await handle.stop();
        assert.equal(handle.stats().errors, 0, handle.stats().lastError);
    }
    assert.equal(got.profiles.length, 0);
    assert.ok(kept.length > 0);
    const lines = [];
    const guard = createPauseGuard("allocations", 1, {
        log: { error: (line) => lines.push(line) },
    });
    assert.deepEqual([guard.isTooLong(), guard.isTooLong()], [true, true]);
    assert.equal(lines.length, 1);
    assert.match(lines[0], /a heap of \d+ MB is expected to stop this thread for \d+ ms/);
    const large = createPauseGuard("allocations", 10_000, { log: {} });
    assert.equal(large.isTooLong(), false);
});

test("one slow reading does not turn readings off for good", (t) => {
    t.mock.method(process, "memoryUsage", () => ({ heapUsed: 40e6 }));
    const guard = createPauseGuard("heap", 80, { log: { error() {} } });
    guard.read(() => block(200)); // a busy moment
    let left = 0;
    while (left < 100 && guard.isTooLong()) left++;
    assert.ok(left > 3 && left < 100, `after ${left} windows`);
    guard.read(() => {});
});

test("allocations that nobody asked for may stop the app for less", () => {
    const pauseOf = (options) => resolveConfig({ enabled: true, ...options }, {}).allocations;
    assert.equal(pauseOf({}).maxPauseMillis, 100);
    assert.equal(pauseOf({ allocations: true }).maxPauseMillis, 1000);
    assert.equal(pauseOf({ allocations: { maxPauseMillis: 0 } }).maxPauseMillis, 0);
});

test("a start that fails leaves nothing on", async (t) => {
    const { Session } = inspector();
    t.mock.method(Session.prototype, "connect", () => {
        throw new Error("forbidden");
    });
    assert.throws(() => beginLiveHeap(65536), /forbidden/);
    assert.equal(isLiveHeapOn(), false);
    t.mock.restoreAll();
    beginLiveHeap(65536).close();
    assert.equal(isSessionOpen(), false);
});
