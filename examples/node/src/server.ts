// A web service that profiles itself: an import, start(), and stop() for a tidy end.
//
//   GET /cart?rounds=5   CPU: discount() takes three times as long as tax()
//   GET /block?ms=200    blocks the event loop for that long
//   GET /leak?kb=1024    keeps that much memory for ever
//   GET /report          JSON
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { performance } from "node:perf_hooks";
import { context, SpanKind, trace } from "@opentelemetry/api";
import { start } from "@vesta/node";
import { blockFor, discount, remember, report, tax } from "./work.js";

const profiling = start({ enabled: true });

type Handler = (query: URLSearchParams) => Promise<unknown>;

/** By the wall's clock, and by what the process had of a core. */
function millisOf(work: () => unknown): { wall: number; cpu: number } {
    const from = performance.now();
    const used = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(used);
    return { wall: performance.now() - from, cpu: (user + system) / 1000 };
}

const number = (query: URLSearchParams, name: string, otherwise: number): number =>
    Math.max(0, Number(query.get(name) ?? otherwise)) || otherwise;

/** Every answer says how long its work took by the service's own clock. */
const routes: Record<string, Handler> = {
    async "/cart"(query) {
        const rounds = number(query, "rounds", 5);
        await Promise.resolve(); // as if a database had been asked
        const ofDiscount = millisOf(() => discount(rounds));
        const ofTax = millisOf(() => tax(rounds));
        return {
            discountMillis: ofDiscount.wall,
            discountCpuMillis: ofDiscount.cpu,
            taxMillis: ofTax.wall,
            taxCpuMillis: ofTax.cpu,
        };
    },
    async "/block"(query) {
        const blocked = millisOf(() => blockFor(number(query, "ms", 200)));
        return { blockedMillis: blocked.wall };
    },
    async "/leak"(query) {
        return { pieces: remember(number(query, "kb", 1024)) };
    },
    async "/report"() {
        return report();
    },
};

const tracer = trace.getTracer("vesta-example-node");

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://localhost");
    const handler = routes[url.pathname];
    if (!handler) {
        response.writeHead(404).end("not found\n");
        return;
    }
    const span = tracer.startSpan(`${request.method} ${url.pathname}`, {
        kind: SpanKind.SERVER,
        attributes: { "http.route": url.pathname },
    });
    await context.with(trace.setSpan(context.active(), span), async () => {
        const body = JSON.stringify(await handler(url.searchParams));
        response.setHeader("content-type", "application/json");
        response.end(body);
    });
    span.end();
}

const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error));
    });
});
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

process.once("SIGTERM", () => {
    server.close();
    server.closeAllConnections();
    void profiling.stop(); // sends the last window
});
