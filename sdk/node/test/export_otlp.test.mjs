// The exporter against receivers that fail in every way: nothing throws, nothing grows, and stop()
// returns in time.
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { spawn, spawnSync } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { context, createContextKey, ROOT_CONTEXT } from "@opentelemetry/api";
import { resolveConfig } from "../dist/esm/config.js";
import { retryAfter } from "../dist/esm/export_otlp.js";
import { createExporter } from "../dist/esm/exporter.js";
import { createStats } from "../dist/esm/stats.js";
import { makeBatch } from "./lib/batch.mjs";
import { decodeOtlp, resolveOtlp } from "./lib/otlp.mjs";

/** A receiver that answers the n-th request as told. */
async function startReceiver(t, respond) {
    const requests = [];
    const sockets = new Set();
    const server = createServer((request, response) => {
        const parts = [];
        request.on("data", (part) => parts.push(part));
        request.on("error", () => {});
        request.on("end", () => {
            requests.push({ request, body: Buffer.concat(parts), at: performance.now() });
            respond(response, requests.length, request);
        });
    });
    server.on("connection", (socket) => {
        sockets.add(socket);
        socket.on("close", () => sockets.delete(socket));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const close = () =>
        new Promise((resolve) => {
            server.close(resolve);
            for (const socket of sockets) socket.destroy();
        });
    t.after(close);
    return { requests, sockets, close, endpoint: `http://127.0.0.1:${server.address().port}` };
}

function makeExporter(endpoint, otlp = {}, options = {}, env = {}) {
    const config = resolveConfig({ enabled: true, logLevel: "silent", endpoint, ...options }, env);
    Object.assign(config.otlp, { retryMillis: 5, retryMaxMillis: 20, timeoutMillis: 500, ...otlp });
    const stats = createStats(config);
    return { exporter: createExporter(config, stats), stats };
}

async function until(condition, what) {
    const deadline = performance.now() + 10_000;
    while (!condition()) {
        assert.ok(performance.now() < deadline, `never: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 2));
    }
}

const ok = (response) => response.end();

test("a batch arrives whole, and connections are kept", async (t) => {
    const receiver = await startReceiver(t, ok);
    const { exporter, stats } = makeExporter(receiver.endpoint, {}, { headers: { "X-Key": "k" } });
    for (let i = 1; i <= 3; i++) {
        await exporter.export(makeBatch(`s${i}`));
        await until(() => stats.snapshot().exported === i, `batch ${i}`);
    }
    const { request, body } = receiver.requests[0];
    assert.equal(request.method, "POST");
    assert.equal(request.url, "/v1development/profiles");
    assert.equal(request.headers["content-type"], "application/x-protobuf");
    assert.equal(request.headers["content-encoding"], "gzip");
    assert.equal(request.headers["x-key"], "k");
    assert.match(request.headers["user-agent"], /^vesta-node\//);
    const read = resolveOtlp(decodeOtlp(gunzipSync(body)));
    assert.equal(read.resource["service.name"], "s1");
    assert.equal(receiver.sockets.size, 1);
    await exporter.shutdown(1000);
    const { exported, exportedBytes, retried, dropped, errors } = stats.snapshot();
    const bytes = receiver.requests.reduce((sum, r) => sum + r.body.length, 0);
    assert.deepEqual(
        { exported, exportedBytes, retried, dropped, errors },
        { exported: 3, exportedBytes: bytes, retried: 0, dropped: {}, errors: 0 },
    );
    assert.ok(stats.snapshot().ownMillis > 0);
});

test("JSON, and without compression", async (t) => {
    const receiver = await startReceiver(t, ok);
    const options = { exporter: "otlp-json" };
    const { exporter } = makeExporter(receiver.endpoint, { compression: "none" }, options);
    await exporter.export(makeBatch("shop"));
    await exporter.shutdown(1000);
    const { request, body } = receiver.requests[0];
    assert.equal(request.headers["content-type"], "application/json");
    assert.equal(request.headers["content-encoding"], undefined);
    assert.equal(resolveOtlp(JSON.parse(body)).resource["service.name"], "shop");
});

test("429, 502, 503, 504 and cut connections are tried again, with the same bytes", async (t) => {
    const receiver = await startReceiver(t, (response, n) => {
        const statuses = [429, 502, 503, 504];
        if (n <= statuses.length) {
            response.writeHead(statuses[n - 1]).end();
        } else if (n === 5) {
            response.destroy();
        } else {
            response.end();
        }
    });
    const { exporter, stats } = makeExporter(receiver.endpoint);
    await exporter.export(makeBatch("shop"));
    await until(() => stats.snapshot().exported === 1, "success");
    assert.ok(receiver.requests.length >= 6);
    assert.ok(receiver.requests.every((r) => r.body.equals(receiver.requests[0].body)));
    assert.ok(stats.snapshot().retried >= 4);
    assert.deepEqual(stats.snapshot().dropped, {});
    await exporter.shutdown(1000);
});

test("Retry-After is kept to", async (t) => {
    const receiver = await startReceiver(t, (response, n) => {
        if (n === 1) response.writeHead(429, { "retry-after": "1" });
        response.end();
    });
    const { exporter, stats } = makeExporter(receiver.endpoint);
    await exporter.export(makeBatch("shop"));
    await until(() => stats.snapshot().exported === 1, "success");
    const [first, second] = receiver.requests;
    assert.ok(second.at - first.at >= 950, `${second.at - first.at} ms`);
    await exporter.shutdown(1000);
    const now = Date.parse("2026-03-01T12:00:00Z");
    assert.equal(retryAfter("Sun, 01 Mar 2026 12:00:07 GMT", now), 7000);
    assert.equal(retryAfter("Sun, 01 Mar 2020 12:00:07 GMT", now), 0);
    assert.equal(retryAfter("99999999", now), 600_000);
    assert.equal(retryAfter("soon", now), undefined);
    assert.equal(retryAfter("", now), undefined);
});

test("what is refused is not tried again, and the reason is told", async (t) => {
    const message = Buffer.from("\x12\x0bbad profile");
    const receiver = await startReceiver(t, (response, n) => {
        response.writeHead(n === 1 ? 400 : 413, { "content-type": "application/x-protobuf" });
        response.end(message);
    });
    const { exporter, stats } = makeExporter(receiver.endpoint);
    await exporter.export(makeBatch("a"));
    await exporter.export(makeBatch("b"));
    await until(() => stats.snapshot().dropped.refused === 2, "both refused");
    assert.equal(receiver.requests.length, 2);
    assert.equal(stats.snapshot().lastError, "export: status 413: bad profile");
    await exporter.shutdown(1000);
});

test("partial success is counted, and final", async (t) => {
    const protobuf = Buffer.from("\x0a\x0b\x08\x02\x12\x07too old");
    const json = '{"partialSuccess":{"rejectedProfiles":"3","errorMessage":"no"}}';
    const receiver = await startReceiver(t, (response, n) =>
        response.end(n === 1 ? protobuf : json),
    );
    for (const [exporterName, rejected, told] of [
        ["otlp", 2, "2 profiles were not taken: too old"],
        ["otlp-json", 3, "3 profiles were not taken: no"],
    ]) {
        const options = { exporter: exporterName };
        const { exporter, stats } = makeExporter(receiver.endpoint, {}, options);
        await exporter.export(makeBatch("a"));
        await exporter.shutdown(1000);
        const seen = stats.snapshot();
        assert.deepEqual(seen.dropped, { rejected_profiles: rejected });
        assert.equal(seen.lastError, `export: ${told}`);
        assert.equal(seen.exported, 1);
    }
    assert.equal(receiver.requests.length, 2);
});

test("answers that make no sense are only answers", async (t) => {
    const bodies = [
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "{",
        "x".repeat(3 << 20),
        "\x0a\xff",
    ];
    const receiver = await startReceiver(t, (response, n) => {
        response.on("error", () => {});
        response.end(Buffer.from(bodies[n - 1], "latin1"));
    });
    const { exporter, stats } = makeExporter(receiver.endpoint);
    for (const _ of bodies) await exporter.export(makeBatch("a"));
    await exporter.shutdown(2000);
    assert.equal(stats.snapshot().exported, bodies.length);
});

test("a receiver that hangs: stop() gives up in time", async (t) => {
    const receiver = await startReceiver(t, () => {});
    const { exporter, stats } = makeExporter(receiver.endpoint, { timeoutMillis: 60_000 });
    await exporter.export(makeBatch("a"));
    await exporter.export(makeBatch("b"));
    const from = performance.now();
    await exporter.shutdown(200);
    assert.ok(performance.now() - from < 2000);
    assert.deepEqual(stats.snapshot().dropped, { timeout: 2 });
    await exporter.export(makeBatch("late"));
    assert.deepEqual(stats.snapshot().dropped, { timeout: 2, stopped: 1 });
});

test("a receiver that is slow: an attempt ends, and is tried again", async (t) => {
    const receiver = await startReceiver(t, (response, n) => {
        if (n > 1) response.end();
    });
    const { exporter, stats } = makeExporter(receiver.endpoint, { timeoutMillis: 50 });
    await exporter.export(makeBatch("a"));
    await until(() => stats.snapshot().exported === 1, "success");
    assert.match(stats.snapshot().lastError, /no answer within 50 ms/);
    await exporter.shutdown(1000);
});

test("a receiver that was away: what waited arrives, in order", async (t) => {
    let isAway = true;
    const receiver = await startReceiver(t, (response) => {
        if (isAway) response.destroy();
        else response.end();
    });
    const { exporter, stats } = makeExporter(receiver.endpoint);
    for (const name of ["a", "b", "c"]) await exporter.export(makeBatch(name));
    await until(() => stats.snapshot().retried >= 3, "three attempts");
    const failed = receiver.requests.length;
    isAway = false;
    await exporter.shutdown(5000);
    const names = receiver.requests
        .slice(failed)
        .map((r) => resolveOtlp(decodeOtlp(gunzipSync(r.body))).resource["service.name"]);
    assert.deepEqual(names.slice(-3), ["a", "b", "c"]);
    assert.equal(stats.snapshot().exported, 3);
});

test("gone for good: the buffer is bounded, the oldest go, and stop() does not wait", async () => {
    const { exporter, stats } = makeExporter("http://127.0.0.1:1", { retryMillis: 60_000 });
    const { exporter: small, stats: few } = makeExporter("http://127.0.0.1:1", {
        retryMillis: 60_000,
        retryMaxMillis: 60_000,
        bufferBytes: 4000, // of two or three batches
    });
    for (let i = 0; i < 30; i++) await small.export(makeBatch(`s${i}`));
    await until(() => few.snapshot().errors > 0, "an attempt");
    const dropped = few.snapshot().dropped.buffer;
    assert.ok(dropped >= 26 && dropped < 30, `${dropped}`);
    const from = performance.now();
    await small.shutdown(5000);
    await exporter.shutdown(5000);
    assert.ok(performance.now() - from < 1000, "there is nothing to wait for");
    assert.equal(few.snapshot().dropped.timeout, 30 - dropped);
    assert.deepEqual(stats.snapshot().dropped, {});
});

test("nobody answers: at the end there is one attempt and no other", async () => {
    const { exporter, stats } = makeExporter("http://127.0.0.1:1");
    const sent = exporter.export(makeBatch("a"));
    await exporter.shutdown(5000);
    await sent;
    const { retried, dropped } = stats.snapshot();
    assert.deepEqual({ retried, dropped }, { retried: 0, dropped: { timeout: 1 } });
});

/** An address where connections are neither made nor refused: a server that takes none, and enough
 * others who wait. */
async function startBlackHole(t) {
    const code = `
        const server = require("node:net").createServer();
        server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
            require("node:fs").writeSync(1, String(server.address().port));
            Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
        });`;
    const child = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] });
    const port = Number(await new Promise((resolve) => child.stdout.once("data", resolve)));
    const others = Array.from({ length: 8 }, () =>
        connect(port, "127.0.0.1").on("error", () => {}),
    );
    t.after(() => {
        child.kill("SIGKILL");
        for (const socket of others) socket.destroy();
    });
    await until(() => others.filter((socket) => !socket.connecting).length >= 2, "a full queue");
    return `http://127.0.0.1:${port}`;
}

test("a connection that is not made in time is given up", async (t) => {
    const endpoint = await startBlackHole(t);
    const { exporter, stats } = makeExporter(endpoint, {
        connectMillis: 50,
        timeoutMillis: 60_000,
    });
    await exporter.export(makeBatch("a"));
    await until(() => stats.snapshot().errors > 0, "an attempt");
    assert.match(stats.snapshot().lastError, /no connection within 50 ms/);
    await exporter.shutdown(100);
});

test("an exporter of the app that never comes back holds few batches", async () => {
    let got = 0;
    const own = () => {
        got++;
        return new Promise(() => {});
    };
    const { exporter, stats } = makeExporter("http://127.0.0.1:1", {}, { exporter: own });
    for (let i = 0; i < 30; i++) await exporter.export(makeBatch("a"));
    assert.equal(got, 16);
    assert.deepEqual(stats.snapshot().dropped, { buffer: 14 });
    await exporter.shutdown(10);
});

test("a batch larger than the buffer is dropped alone", async (t) => {
    const receiver = await startReceiver(t, ok);
    const { exporter, stats } = makeExporter(receiver.endpoint, { bufferBytes: 100 });
    await exporter.export(makeBatch("a"));
    await exporter.shutdown(1000);
    assert.deepEqual(stats.snapshot().dropped, { buffer: 1 });
});

test("addresses and certificates that cannot be", async () => {
    for (const endpoint of ["http://no-such-host.invalid:4318", "https://127.0.0.1:1"]) {
        const { exporter, stats } = makeExporter(endpoint, { ca: Buffer.from("no PEM") });
        await exporter.export(makeBatch("a"));
        await until(() => stats.snapshot().errors > 0, "an attempt");
        await exporter.shutdown(50);
        assert.deepEqual(stats.snapshot().dropped, { timeout: 1 });
    }
});

test("our requests are not traced", async (t) => {
    const receiver = await startReceiver(t, ok);
    const storage = new AsyncLocalStorage();
    const manager = {
        active: () => storage.getStore() ?? ROOT_CONTEXT,
        with: (next, work, self, ...args) => storage.run(next, () => work.call(self, ...args)),
        bind: (_, target) => target,
        enable: () => manager,
        disable: () => manager,
    };
    context.setGlobalContextManager(manager);
    t.after(() => context.disable());
    const key = createContextKey("OpenTelemetry SDK Context Key SUPPRESS_TRACING");
    const seen = [];
    const listener = () => seen.push(context.active().getValue(key));
    subscribe("http.client.request.start", listener);
    t.after(() => unsubscribe("http.client.request.start", listener));
    const { exporter } = makeExporter(receiver.endpoint);
    await exporter.export(makeBatch("a"));
    await exporter.shutdown(1000);
    assert.deepEqual(seen, [true]);
    assert.equal(context.active(), ROOT_CONTEXT);
});

function hasOpenssl() {
    return spawnSync("openssl", ["version"]).status === 0;
}

test("TLS: the certificate that was named is trusted, and no other", {
    skip: !hasOpenssl(),
}, async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), "vesta-tls-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const [key, cert] = ["key.pem", "cert.pem"].map((name) => path.join(folder, name));
    const made = spawnSync("openssl", [
        ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"],
        ...["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost"],
        ...["-addext", "subjectAltName=IP:127.0.0.1"],
    ]);
    assert.equal(made.status, 0, String(made.stderr));
    const server = createSecureServer(
        { key: readFileSync(key), cert: readFileSync(cert) },
        (_, response) => response.end(),
    );
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => server.close());
    const endpoint = `https://127.0.0.1:${server.address().port}`;
    const env = { OTEL_EXPORTER_OTLP_CERTIFICATE: cert };
    const trusted = makeExporter(endpoint, {}, {}, env);
    await trusted.exporter.export(makeBatch("a"));
    await trusted.exporter.shutdown(5000);
    assert.equal(trusted.stats.snapshot().exported, 1);
    const other = makeExporter(endpoint);
    await other.exporter.export(makeBatch("a"));
    await other.exporter.shutdown(100);
    assert.deepEqual(other.stats.snapshot().dropped, { timeout: 1 });
    assert.match(other.stats.snapshot().lastError, /self.signed/);
});

/** Runs a program that exports to the endpoint; what it wrote, once it has ended. */
function runProgram(body, endpoint) {
    const folder = new URL("../dist/cjs/", import.meta.url).pathname;
    const source = `
        const { resolveConfig } = require("${folder}config.js");
        const { createExporter } = require("${folder}exporter.js");
        const { createStats } = require("${folder}stats.js");
        const config = resolveConfig({ enabled: true, logLevel: "silent", endpoint: "${endpoint}" }, {});
        const stats = createStats(config);
        const exporter = createExporter(config, stats);
        const batch = { resource: {}, profiles: [{
            kind: "cpu", sampleTypes: [{ type: "cpu", unit: "nanoseconds" }], defaultType: "cpu",
            startUnixNanos: 1n, durationNanos: 1n, frames: [], stacks: { parent: [0], frame: [0] },
            samples: [{ stack: 0, values: [1] }], attributes: {} }] };
        ${body}`;
    const from = performance.now();
    const { stdout, stderr, status } = spawnSync(process.execPath, ["-e", source], {
        encoding: "utf8",
        timeout: 20_000,
    });
    assert.equal(stderr, "");
    assert.equal(status, 0);
    return { stdout, millis: performance.now() - from };
}

test("neither retries nor connections keep the process; stop() does, until it is done", async (t) => {
    // A receiver in another process, since this one waits.
    const receiver = await startReceiver(t, () => {});
    await receiver.close();
    const { millis } = runProgram("exporter.export(batch);", receiver.endpoint);
    assert.ok(millis < 5000, `${millis}`);
    const { stdout } = runProgram(
        `exporter.export(batch)
            .then(() => exporter.shutdown(300))
            .then(() => console.log(JSON.stringify(stats.snapshot().dropped)));`,
        receiver.endpoint,
    );
    assert.equal(stdout, '{"timeout":1}\n');
});
