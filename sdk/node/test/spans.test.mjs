// Samples get the span that was active at their time, however its context came back.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { syncClock, unixNanosOfMicros } from "../dist/esm/clock.js";
import { createSpanTable } from "../dist/esm/span_table.js";
import { createSpanTracker } from "../dist/esm/span_tracker.js";
import { joinSpans } from "../dist/esm/spans.js";
import { createSwitchRing } from "../dist/esm/switch_ring.js";
import { openTelemetry } from "./lib/packages.mjs";

const CASES = fileURLToPath(new URL("lib/span_cases.mjs", import.meta.url));

test("every way in which a context comes back", async (t) => {
    const folder = openTelemetry();
    if (!folder) return t.skip("npm could not install OpenTelemetry");
    const { stdout } = await promisify(execFile)(process.execPath, [CASES, folder]);
    const { result, stats, leftWrapped, restored } = JSON.parse(stdout);
    assert.equal(Object.keys(result).length, 18);
    for (const [name, row] of Object.entries(result)) {
        assert.ok(row.samples >= 3 && row.right > 0, `${name} was sampled ${row.samples} times`);
        // A sample at the very switch may fall on the other side.
        assert.ok(row.right >= row.samples - 2, `${name}: ${JSON.stringify(row)}`);
    }
    assert.deepEqual(result.inChild.routes, ["/parent"]);
    assert.deepEqual(result.noSpan.routes, []);
    assert.deepEqual([stats.dropped, stats.errors], [0, 0]);
    assert.deepEqual([leftWrapped, restored], ["trackedWith", "with"]);
});

test("without OpenTelemetry nothing is watched", () => {
    const tracker = createSpanTracker();
    const window = tracker.begin();
    assert.equal(tracker.activeAt(Number(process.hrtime.bigint()) / 1000), undefined);
    assert.deepEqual([window.fill(), window.end()], [0, 0]);
    assert.deepEqual(tracker.stats(), { switches: 0, dropped: 0, errors: 0 });
});

test("a ring finds the last switch and keeps the newest", () => {
    const ring = createSwitchRing(8, 4);
    assert.equal(ring.at(100), 0);
    for (let i = 1; i <= 6; i++) ring.push(i * 10, i);
    assert.deepEqual([5, 10, 19, 20, 1000].map(ring.at), [0, 1, 1, 2, 6]);
    for (let i = 7; i <= 11; i++) ring.push(i * 10, i);
    assert.deepEqual([35, 40, 119].map(ring.at), [0, 4, 11]);
    ring.clear();
    assert.equal(ring.at(1000), 0);
});

test("what grows in the midst keeps its order", () => {
    const ring = createSwitchRing(8, 4);
    const table = createSpanTable(8192, 4);
    for (let i = 1; i <= 9; i++) {
        ring.push(i * 10, i);
        ring.forget(i <= 7 ? i - 3 : 4);
        assert.equal(table.numberOf(madeSpan(i)), i);
    }
    assert.deepEqual([45, 50, 69, 90].map(ring.at), [0, 5, 6, 9]);
    assert.equal(table.get(9).link.spanId, "0000000000000009");
    table.forget(4096 + 6); // what was shortly before stays
    const known = [5, 6, 7, 9].map((number) => table.get(number)?.link.spanId.at(-1));
    assert.deepEqual(known, [undefined, "6", "7", "9"]);
    for (let i = 10; i < 40; i++) table.numberOf(madeSpan(i));
    assert.equal(table.get(6).link.spanId, "0000000000000006");
    assert.equal(table.get(39).link.spanId, "0000000000000027");
});

test("spans that nobody ends, and those that take turns for ever, cost little", () => {
    const table = createSpanTable(1 << 15);
    const turns = [madeSpan(1), madeSpan(2)];
    for (let i = 0; i < 40_000; i++) table.numberOf(turns[i % 2]);
    assert.ok(table.openCount() < 20_000, `${table.openCount()} are kept`);
    for (let i = 0; i < 40_000; i++) table.numberOf(madeSpan(i));
    assert.ok(table.openCount() < 20_000, `${table.openCount()} are kept`);
});

/** The least that OpenTelemetry's API has in its place. */
function fakeOpenTelemetry(t) {
    const key = Symbol.for("opentelemetry.js.api.1");
    const none = { getValue: () => undefined };
    globalThis[key] = { context: { active: () => none, with: (_context, fn) => fn() } };
    t.after(() => delete globalThis[key]);
    return (span) => {
        const context = { getValue: () => span };
        globalThis[key].context.with(context, () => {});
    };
}

test("windows back to back do not need more and more memory", (t) => {
    const enter = fakeOpenTelemetry(t);
    const tracker = createSpanTracker();
    let window = tracker.begin();
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 500; i++) {
        for (let j = 0; j < 100; j++) enter(madeSpan(j + 1));
        const next = tracker.begin();
        assert.equal(window.end(), 0);
        window = next;
    }
    const grown = process.memoryUsage().arrayBuffers - before;
    assert.ok(grown < 1 << 20, `${grown} bytes`);
    window.end();
});

test("windows know what they lost", (t) => {
    const enter = fakeOpenTelemetry(t);
    const first = 4;
    const ring = createSwitchRing(64, first);
    const tracker = createSpanTracker(createSpanTable(32, first), ring);
    const now = () => Number(process.hrtime.bigint()) / 1000;
    let window = tracker.begin();
    const lost = [];
    for (const count of [10, 20, 12, 40, 5]) {
        for (let i = 1; i <= count; i++) enter(madeSpan(i)); // each is one number and two switches
        assert.ok(window.fill() >= (2 * count) / 64, `${window.fill()}`);
        assert.equal(tracker.activeAt(now()), undefined);
        const next = tracker.begin();
        lost.push(window.end());
        window = next;
    }
    assert.deepEqual(
        lost.map((number) => number > 0),
        [false, false, false, true, false],
    );
    assert.ok(lost[3] >= 2 * 40 - 64 && lost[3] <= 2 * 40 - 60, `${lost}`);
    assert.equal(tracker.stats().dropped, lost[3]);
    window.end();
    assert.equal(ring.count(), 0);
});

function madeSpan(number, more = {}) {
    const spanId = number.toString(16).padStart(16, "0");
    const span = { attributes: {}, open: true, traceId: "ab".repeat(16), ...more };
    span.spanContext = () => ({ traceId: span.traceId, spanId });
    span.isRecording = () => span.open;
    return span;
}

test("a table lets go of spans that have ended, and of the oldest", () => {
    const table = createSpanTable(4);
    const late = madeSpan(1);
    const number = table.numberOf(late);
    assert.equal(table.numberOf(late), number);
    assert.equal(table.get(number).attributes, undefined);
    late.attributes["http.route"] = "/late"; // instrumentations know it only at the end
    assert.deepEqual(table.get(number).attributes, { "http.route": "/late" });
    late.open = false;
    assert.equal(table.get(number).attributes["http.route"], "/late");
    late.attributes["http.route"] = "/after its end";
    assert.equal(table.get(number).attributes["http.route"], "/late");

    const named = table.numberOf(madeSpan(2, { kind: 1, name: "GET /cart" }));
    assert.deepEqual(table.get(named).attributes, { "http.route": "/cart" });
    const queried = table.numberOf(madeSpan(6, { kind: 1, name: "GET /cart?key=1" }));
    assert.deepEqual(table.get(queried).attributes, { "http.route": "/cart" });
    const attributes = { "http.route": "/cart?key=1" };
    const target = table.numberOf(madeSpan(7, { attributes }));
    assert.deepEqual(table.get(target).attributes, { "http.route": "/cart" });
    const client = table.numberOf(madeSpan(3, { kind: 2, name: "GET /other" }));
    assert.equal(table.get(client).attributes, undefined);
    const loop = { spanId: "0000000000000004" };
    const looped = table.numberOf(madeSpan(4, { parentSpanContext: loop }));
    assert.equal(table.get(looped).attributes, undefined);
    table.numberOf(madeSpan(5));
    assert.equal(table.get(number), undefined);
    assert.equal(table.get(table.numberOf(madeSpan(0))), undefined, "no valid context");
});

test("only samples of code get a span", () => {
    syncClock();
    const link = { traceId: "ab".repeat(16), spanId: "cd".repeat(8) };
    const tracker = { reader: () => (time) => (time < 1000 ? { link } : undefined) };
    const frame = (name, file) => ({ name, file, line: 1, column: 0, startLine: 1, kind: "v8js" });
    const at = (stack, micros) => ({
        stack,
        values: [1],
        timeUnixNanos: unixNanosOfMicros(micros),
    });
    const profile = {
        frames: [frame("work", "/app.js"), frame("(program)", ""), frame("(idle)", "/app.js")],
        stacks: { parent: [0, 0, 0, 0], frame: [-1, 0, 1, 2] },
        samples: [at(1, 500), at(2, 500), at(3, 500), at(1, 2000), { stack: 1, values: [1] }],
    };
    assert.equal(joinSpans(profile, tracker), 2);
    const linked = profile.samples.map((sample) => sample.link?.spanId === link.spanId);
    assert.deepEqual(linked, [true, false, true, false, false]);
});

test("a route comes from above, within the process and the trace", () => {
    const table = createSpanTable();
    const routed = { attributes: { "http.route": "/above" }, traceId: "ab".repeat(16) };
    const above = madeSpan(1, routed).spanContext();
    table.numberOf(madeSpan(1, routed));
    const routeOf = (more) =>
        table.reader()(table.numberOf(madeSpan(2, more)))?.attributes?.["http.route"];
    assert.equal(routeOf({ parentSpanContext: above }), "/above");
    assert.equal(routeOf({ parentSpanId: above.spanId }), "/above");
    assert.equal(routeOf({ parentSpanContext: { ...above, isRemote: true } }), undefined);
    assert.equal(routeOf({ parentSpanContext: above, traceId: "cd".repeat(16) }), undefined);
});

test("callers that are elsewhere are not looked for again and again", () => {
    const table = createSpanTable();
    const count = 20_000;
    for (let i = 1; i <= count; i++) {
        const parentSpanId = (0xabcd_0000 + i).toString(16).padStart(16, "0");
        table.numberOf(madeSpan(i, { open: false, parentSpanId }));
    }
    const takes = Array.from({ length: 5 }, () => {
        const from = performance.now();
        const read = table.reader();
        for (let i = 0; i < 6000; i++) assert.equal(read(count - i).attributes, undefined);
        return performance.now() - from;
    });
    // To look through the 4,096 before each takes 100 ms and more.
    assert.ok(Math.min(...takes) < 50, `${takes} ms`);
});

test("contexts that somebody else keeps from now on are watched, too", (t) => {
    const enter = fakeOpenTelemetry(t);
    const tracker = createSpanTracker();
    const first = tracker.begin();
    enter(madeSpan(1));
    const enterOther = fakeOpenTelemetry(t);
    const second = tracker.begin();
    const before = tracker.stats().switches;
    enterOther(madeSpan(2));
    assert.ok(tracker.stats().switches > before);
    first.end();
    second.end();
});
