// An HTTP service that answers with JSON: what it costs to profile it is measured by bench_node.py,
// which switches profiling on and off in one running process. Prints its port.
//
// With OTEL_FOLDER, a folder with OpenTelemetry's packages, every request has a span.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import * as sdk from "../../sdk/node/dist/esm/index.js";

const orders = Array.from({ length: 60 }, (_, i) => ({
    id: i,
    customer: `customer-${i % 7}`,
    lines: Array.from({ length: 1 + (i % 5) }, (_, k) => ({ sku: `sku-${k}`, price: i * 1.25, n: k })),
}));

function total(order) {
    return order.lines.reduce((sum, line) => sum + line.price * line.n, 0);
}

function report(customer) {
    const mine = JSON.parse(JSON.stringify(orders.filter((order) => order.customer === customer)));
    for (const order of mine) order.total = total(order);
    return JSON.stringify(mine.sort((a, b) => b.total - a.total));
}

const quiet = { enabled: true, exporter: () => {}, maxCpu: 0, maxLagMillis: 0 };
const always = { intervalMillis: 60_000, durationMillis: 60_000 };
const modes = {
    off: () => undefined,
    cpu: () => sdk.startContinuousCPUProfiling({ ...quiet, ...always }),
    cpu_without_spans: () =>
        sdk.startContinuousCPUProfiling({ ...quiet, ...always, spans: false }),
    heap: () => sdk.startHeapSampling({ ...quiet, ...always }),
    alloc: () => sdk.startAllocationProfiling({ ...quiet, ...always }),
    all: () => sdk.start({ ...quiet }),
};
let handle;
let requests = 0;
let started = process.cpuUsage();
let began = process.hrtime.bigint();

/** What happened since it was asked last. */
function count() {
    const cpu = process.cpuUsage(started);
    const seconds = Number(process.hrtime.bigint() - began) / 1e9;
    const counted = { requests, seconds, cpu: (cpu.user + cpu.system) / 1e6 };
    requests = 0;
    started = process.cpuUsage();
    began = process.hrtime.bigint();
    return counted;
}

/** Ends what is running, which is what a window ends with, and starts another. */
async function change(mode) {
    count();
    await handle?.stop();
    handle = modes[mode]();
    return count();
}

/** Runs the work of a request, in a span where there is OpenTelemetry. */
function tracing() {
    if (!process.env.OTEL_FOLDER) return (work) => work();
    const load = createRequire(`${process.env.OTEL_FOLDER}/`);
    const { context, trace } = load("@opentelemetry/api");
    const { BatchSpanProcessor, NodeTracerProvider } = load("@opentelemetry/sdk-trace-node");
    // As services have it, but nothing is sent.
    const nowhere = { export: (_, done) => done({ code: 0 }), shutdown: async () => {} };
    new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(nowhere)] }).register();
    const tracer = trace.getTracer("bench");
    return async (work) => {
        const span = tracer.startSpan("GET /report", { attributes: { "http.route": "/report" } });
        await context.with(trace.setSpan(context.active(), span), work);
        span.end();
    };
}
const traced = tracing();

const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    if (url.pathname === "/mode") {
        response.end(JSON.stringify(await change(url.searchParams.get("is"))));
    } else if (url.pathname === "/count") {
        response.end(JSON.stringify(count()));
    } else {
        requests++;
        await traced(async () => {
            await Promise.resolve(); // as if a database had been asked
            response.setHeader("content-type", "application/json");
            response.end(report(`customer-${requests % 7}`));
        });
    }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
