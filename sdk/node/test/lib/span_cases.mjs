// Runs busy functions in spans, in every way in which a context comes back, under V8's profiler.
// Prints {case: {samples, right, none, other}}: what the tracker says of the samples in each.
// Arguments: the folder whose node_modules have OpenTelemetry.
import { AsyncResource } from "node:async_hooks";
import { EventEmitter } from "node:events";
import { readFile } from "node:fs";
import { Session } from "node:inspector";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { runInThisContext } from "node:vm";
import { createSpanTracker } from "../../dist/esm/span_tracker.js";

const require = createRequire(`${process.argv[2]}/package.json`);
const { context, trace } = require("@opentelemetry/api");
const { NodeTracerProvider } = require("@opentelemetry/sdk-trace-node");
new NodeTracerProvider().register();
const tracer = trace.getTracer("cases");
const MILLIS = Number(process.env.CASE_MILLIS ?? 25);

/** A function of that name, with code of its own, that keeps the thread busy: for a time, and until it
 * really had a core for so long. */
function busy(name) {
    return runInThisContext(`(function ${name}() {
        const end = performance.now() + ${MILLIS};
        const from = process.cpuUsage();
        const had = () => process.cpuUsage(from).user >= ${MILLIS * 1000};
        let sum = 0;
        while (performance.now() < end || (!had() && performance.now() < end + 2000)) {
            for (let i = 0; i < 1000; i++) sum += i;
        }
        return sum;
    })`);
}

const cases = Object.create(null);
const expected = Object.create(null); // case: span id, or undefined for none

function span(name, attributes, kind) {
    return tracer.startSpan(name, { attributes, kind });
}

function within(made, fn) {
    return context.with(trace.setSpan(context.active(), made), fn);
}

async function inSpan(name, fn) {
    const made = span(name, { "http.route": `/${name}` });
    expected[name] = made.spanContext().spanId;
    cases[name] = busy(name);
    await within(made, () => fn(cases[name]));
    made.end();
}

const rejected = () => Promise.reject(new Error("no"));
const emitter = new EventEmitter();
const ways = {
    inSync: (work) => work(),
    afterAwait: async (work) => {
        await null;
        work();
    },
    afterTimer: async (work) => {
        await sleep(2);
        work();
    },
    afterReject: async (work) => rejected().catch(() => work()),
    inImmediate: (work) => new Promise((done) => setImmediate(() => done(work()))),
    inTick: (work) => new Promise((done) => process.nextTick(() => done(work()))),
    inMicrotask: (work) => new Promise((done) => queueMicrotask(() => done(work()))),
    inFile: (work) =>
        new Promise((done) =>
            readFile(import.meta.filename ?? process.argv[1], () => done(work())),
        ),
    inEmitter: async (work) => emitter.once("go", context.bind(context.active(), work)),
    inThenable: async (work) => {
        // biome-ignore lint/suspicious/noThenProperty: this is the case
        const thenable = { then: (resolve) => resolve(work()) };
        await thenable;
    },
};

/** Inner resource with another context, called within the outer one, which goes on afterwards. */
async function nested() {
    let inner;
    await inSpan("nestedInner", (work) => {
        inner = new AsyncResource("inner");
        inner.work = work;
    });
    await inSpan("nestedOuter", (work) => {
        inner.runInAsyncScope(inner.work);
        work();
    });
}

/** A child without a route has that of the span above. */
async function child() {
    const parent = span("parent", { "http.route": "/parent" });
    await within(parent, async () => {
        await null;
        const made = span("child");
        expected.inChild = made.spanContext().spanId;
        cases.inChild = busy("inChild");
        await within(made, async () => {
            await null;
            cases.inChild();
        });
        made.end();
    });
    parent.end();
}

async function work() {
    for (const name in ways) await inSpan(name, ways[name]);
    emitter.emit("go");
    await nested();
    await child();
    await context.with(trace.deleteSpan(context.active()), async () => {
        cases.noSpan = busy("noSpan");
        await null;
        cases.noSpan();
    });
    // Many at a time, taking turns.
    const turns = Array.from({ length: 4 }, (_, i) =>
        inSpan(`turn${i}`, async (work) => {
            for (let round = 0; round < 2; round++) {
                await sleep(1);
                work();
            }
        }),
    );
    await Promise.all(turns);
}

const session = new Session();
session.connect();
const post = (method, params) =>
    new Promise((resolve, reject) =>
        session.post(method, params, (error, result) => (error ? reject(error) : resolve(result))),
    );

const tracker = createSpanTracker();
await post("Profiler.enable");
await post("Profiler.setSamplingInterval", { interval: 1000 });
await post("Profiler.start");
const watched = tracker.begin();
await work();
const { profile } = await post("Profiler.stop");

const parents = new Map();
const byId = new Map(profile.nodes.map((node) => [node.id, node]));
for (const node of profile.nodes) for (const id of node.children ?? []) parents.set(id, node.id);
function caseOf(id) {
    for (let at = id; at !== undefined; at = parents.get(at)) {
        const { functionName } = byId.get(at).callFrame;
        if (functionName in cases) return functionName;
    }
}
const result = Object.create(null); // functions may have any name
const activeAt = tracker.reader();
let time = profile.startTime;
profile.samples.forEach((id, i) => {
    time += profile.timeDeltas[i];
    const name = caseOf(id);
    if (!name) return;
    result[name] ??= { samples: 0, right: 0, none: 0, other: 0, routes: [] };
    const row = result[name];
    const active = activeAt(time);
    row.samples++;
    if (active?.link.spanId === expected[name]) row.right++;
    else if (!active) row.none++;
    else row.other++;
    const route = active?.attributes?.["http.route"];
    if (route && !row.routes.includes(route)) row.routes.push(route);
});
const stats = tracker.stats();
const leftWrapped = context._getContextManager().with.name;
watched.end();
const restored = context._getContextManager().with.name;
console.log(JSON.stringify({ result, stats, leftWrapped, restored }));
