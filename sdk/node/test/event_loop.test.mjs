// Who blocks the loop, by real blocking.
import assert from "node:assert/strict";
import test from "node:test";
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
