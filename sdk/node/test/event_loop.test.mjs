// Who blocks the loop, by real blocking.
import assert from "node:assert/strict";
import test from "node:test";
import { sliceOf } from "../dist/esm/cpu.js";
import { eventLoopProfile } from "../dist/esm/event_loop.js";
import { start, startEventLoopProfiling } from "../dist/esm/index.js";
import { startLoopWatch } from "../dist/esm/loop_watch.js";
import { block, collector, framesOf, quiet, sleep, totalOf } from "./lib/programs.mjs";

function shortWork() {
    block(2);
}

function blockingHandler(millis) {
    block(millis);
}

test("the blocking function is named with its delay", async () => {
    const got = collector();
    const handle = startEventLoopProfiling({ ...quiet, exporter: got.exporter });
    await sleep(50);
    for (const millis of [80, 150, 250]) {
        setTimeout(blockingHandler, 1, millis);
        await sleep(30);
        for (let i = 0; i < 5; i++) {
            shortWork();
            await sleep(2);
        }
    }
    await handle.stop();
    const [profile] = got.profiles;
    assert.equal(profile.kind, "event_loop");
    assert.equal(profile.defaultType, "event_loop_delay");
    const delay = totalOf(profile, "blockingHandler") / 1e6;
    // A busy machine makes blocks longer, and may make some of its own.
    assert.ok(delay > 480 * 0.93 && delay < 480 * 1.5, `${delay} ms`);
    assert.equal(totalOf(profile, "blockingHandler", 1), 3, "three blocks");
    assert.ok(totalOf(profile, "shortWork") < 0.2 * totalOf(profile));
    const worst = profile.samples.reduce((a, b) => (a.values[0] > b.values[0] ? a : b));
    assert.equal(framesOf(profile, worst.stack)[0].name, "block");
    assert.ok(worst.timeUnixNanos >= profile.startUnixNanos);
    const lag = profile.attributes;
    assert.ok(lag["nodejs.eventloop.delay.max"] >= 0.2, JSON.stringify(lag));
    assert.ok(lag["nodejs.eventloop.delay.p50"] < 0.05, JSON.stringify(lag));
    assert.ok(
        lag["nodejs.eventloop.utilization"] > 0.3 && lag["nodejs.eventloop.utilization"] <= 1,
    );
});

async function blockedByShortTurns() {
    const got = collector();
    const handle = startEventLoopProfiling({
        ...quiet,
        exporter: got.exporter,
        thresholdMillis: 60,
    });
    const until = performance.now() + 300;
    while (performance.now() < until) {
        shortWork();
        await new Promise((resolve) => setImmediate(resolve));
    }
    await handle.stop();
    return totalOf(got.profiles[0], "shortWork");
}

test("short turns do not block, however many", async () => {
    // A thread that loses its core in the midst of one is blocked indeed.
    for (let i = 0; i < 3; i++) if ((await blockedByShortTurns()) === 0) return;
    assert.fail("blocked three times");
});

test("time in which the process did not run is not charged to what ran next", () => {
    const node = (id, functionName, url, children = []) => ({
        id,
        callFrame: { functionName, url, scriptId: "1", lineNumber: 0, columnNumber: 0 },
        children,
    });
    const nodes = [
        node(1, "(root)", "", [2, 3]),
        node(2, "(idle)", ""),
        node(3, "innocent", "file:///app.js"),
    ];
    const blocksOf = (samples, timeDeltas) => {
        const v8 = { nodes, startTime: 0, endTime: 3_105_000, samples, timeDeltas };
        const slice = sliceOf(v8, 10_000, Number.POSITIVE_INFINITY, undefined);
        const late = { previousMicros: 5_000, dueMicros: 20_000, cameMicros: 3_100_000 };
        const report = { late: [late], sparse: [], lag: { count: 0 }, looks: 1 };
        const profile = eventLoopProfile(slice, report, 20, true);
        const share = (name) => Math.round(totalOf(profile, name) / 1e6);
        const blocks = totalOf(profile, "(not running)", 1);
        return [share("innocent"), share("(not running)"), share(), blocks];
    };
    // Stopped for 3 s while it slept, then at work for 100 ms.
    const deltas = [0, 10_000, 3_000_000, ...Array(9).fill(10_000)];
    const [innocent, frozen, all, blocks] = blocksOf([1, 2, ...Array(10).fill(3)], deltas);
    assert.ok(innocent < 130 && frozen > 2950, `${innocent}, ${frozen}`);
    assert.deepEqual([innocent + frozen, blocks], [all, 1]);
    // In the midst of its work: it waited that long, but did not work.
    const [inMidst, within, whole] = blocksOf([1, ...Array(11).fill(3)], deltas);
    assert.ok(within > 2950, `${within}`);
    assert.equal(inMidst, whole);
});

test("start() takes CPU, event loop and allocations, and CPU and event loop share windows", async () => {
    const got = collector();
    const handle = start({ ...quiet, exporter: got.exporter });
    blockingHandler(100);
    await sleep(100);
    await handle.stop();
    assert.deepEqual(got.profiles.map(({ kind }) => kind).sort(), ["alloc", "cpu", "event_loop"]);
    const together = got.batches.find(({ profiles }) => profiles.length === 2);
    assert.deepEqual(
        together.profiles.map(({ kind }) => kind),
        ["cpu", "event_loop"],
    );
});

test("the clock comes less often while the loop sleeps, and misses no block", async () => {
    const got = collector();
    const handle = startEventLoopProfiling({ ...quiet, exporter: got.exporter });
    const watch = startLoopWatch(20);
    await sleep(1200);
    setTimeout(blockingHandler, 1, 40);
    await sleep(100);
    const { looks } = watch.end();
    await handle.stop();
    assert.ok(looks < 100, `${looks} looks in 1.3 s`);
    const [profile] = got.profiles;
    const delay = totalOf(profile, "blockingHandler") / 1e6;
    assert.ok(delay >= 20, `${delay} ms`);
    assert.equal(totalOf(profile, "blockingHandler", 1), 1, "counted once");
    const utilization = profile.attributes["nodejs.eventloop.utilization"];
    assert.ok(utilization < 0.25, `${utilization} of the time, though it slept`);
});
