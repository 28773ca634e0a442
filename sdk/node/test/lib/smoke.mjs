// A few hundred milliseconds of everything: CPU, event loop and allocations with spans, then the live
// heap. Prints what was found. Arguments: the folder whose node_modules have OpenTelemetry.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { start, startHeapSampling } from "../../dist/esm/index.js";

const require = createRequire(`${process.argv[2]}/package.json`);
const { context, trace } = require("@opentelemetry/api");
const { NodeTracerProvider } = require("@opentelemetry/sdk-trace-node");
new NodeTracerProvider().register();

function hotLoop(millis) {
    let sum = 0;
    for (const end = performance.now() + millis; performance.now() < end; ) {
        for (let i = 0; i < 10000; i++) sum += Math.sqrt(i);
    }
    return sum;
}

const kept = [];
function keepArrays(count) {
    for (let i = 0; i < count; i++) {
        const made = [];
        for (let j = 0; j < 20000; j++) made.push(j + 0.5);
        kept.push(made);
    }
}

const profiles = [];
const exporter = (batch) => void profiles.push(...batch.profiles);
const options = { enabled: true, exporter, logLevel: "error" };

const handle = start({
    ...options,
    cpu: { samplingIntervalMicros: 1000 },
    allocations: { samplingIntervalBytes: 16384 },
});
const span = trace.getTracer("smoke").startSpan("GET /smoke", { kind: 1 });
await context.with(trace.setSpan(context.active(), span), async () => {
    await sleep(5);
    hotLoop(150);
    keepArrays(20);
});
span.end();
await handle.stop();
const heap = startHeapSampling({ ...options, samplingIntervalBytes: 16384 });
keepArrays(20);
await heap.stop();

/** The sum of a value over the samples that have the function in their stack. */
function sumOf(kind, name, index) {
    let sum = 0;
    let linked = 0;
    const routes = new Set();
    const profile = profiles.find((found) => found.kind === kind);
    for (const sample of profile?.samples ?? []) {
        let at = sample.stack;
        while (at !== 0 && profile.frames[profile.stacks.frame[at]].name !== name) {
            at = profile.stacks.parent[at];
        }
        if (at === 0) continue;
        sum += sample.values[index];
        if (sample.link?.spanId === span.spanContext().spanId) linked += sample.values[index];
        if (sample.attributes?.["http.route"]) routes.add(sample.attributes["http.route"]);
    }
    return { sum, linked, routes: [...routes] };
}

const errors = [handle, heap].map((used) => used.stats()).filter(({ errors }) => errors > 0);
console.log(
    JSON.stringify({
        node: process.version,
        kinds: profiles.map(({ kind }) => kind).sort(),
        cpu: sumOf("cpu", "hotLoop", 0),
        blocked: sumOf("event_loop", "hotLoop", 0),
        allocated: sumOf("alloc", "keepArrays", 1).sum,
        live: sumOf("heap", "keepArrays", 1).sum,
        errors,
    }),
);
