// `--import @vesta/node/auto` and `--require`: environment alone, in threads and clusters, and ends
// that stay what they are.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { start, startContinuousCPUProfiling } from "../dist/esm/index.js";
import { isSessionOpen } from "../dist/esm/session.js";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const ESM = ["--import", here("../dist/esm/auto.js")];
const CJS = ["--require", here("../dist/cjs/auto.js")];
const folder = mkdtempSync(path.join(tmpdir(), "vesta-auto-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let runs = 0;

/** Runs the app; gives its end, what it printed, and the files it wrote. */
async function run(options, how, { env = {}, signal } = {}) {
    const outDir = path.join(folder, String(++runs));
    const child = spawn(process.execPath, [...options, here("lib/auto_app.mjs"), how], {
        env: { ...process.env, VESTA_ENABLED: "1", VESTA_OUT_DIR: outDir, ...env },
        stdio: ["ignore", "pipe", "pipe"],
        timeout: 30_000,
        killSignal: "SIGKILL",
    });
    let out = "";
    let errors = "";
    child.stdout.on("data", (text) => {
        out += text;
        if (signal && out.includes("main runs")) child.kill(signal);
    });
    child.stderr.on("data", (text) => {
        errors += text;
    });
    const end = await new Promise((resolve) => {
        child.on("close", (code, killedBy) => resolve({ code, killedBy }));
    });
    let files = [];
    try {
        files = readdirSync(outDir);
    } catch {}
    return { ...end, out, errors, files };
}

const cpuFiles = (files) => files.filter((file) => /^cpu-.*\.pb\.gz$/.test(file));

for (const [name, options] of [
    ["--import", ESM],
    ["--require", CJS],
]) {
    test(`${name}: the last window is sent at the end, which stays what it is`, async () => {
        const { code, files, errors } = await run(options, "code");
        assert.equal(errors, "");
        assert.equal(code, 7);
        assert.equal(cpuFiles(files).length, 1);
    });
}

test("nothing happens unless it is enabled", async () => {
    const { code, files, errors } = await run(ESM, "code", { env: { VESTA_ENABLED: "" } });
    assert.deepEqual([code, files, errors], [7, [], ""]);
});

test("SIGTERM: sent, then ended by the signal", async () => {
    const { killedBy, files } = await run(ESM, "wait", { signal: "SIGTERM" });
    assert.equal(killedBy, "SIGTERM");
    assert.equal(cpuFiles(files).length, 1);
});

test("SIGTERM: an app that listens ends as it likes", async () => {
    const { code, files } = await run(ESM, "listen", { signal: "SIGTERM" });
    assert.equal(code, 5);
    assert.equal(cpuFiles(files).length, 1);
});

test("SIGTERM: an app whose own listener came first is not ended under its hands", async () => {
    const { code, files } = await run(ESM, "prepend", { signal: "SIGTERM" });
    assert.equal(code, 5);
    assert.equal(cpuFiles(files).length, 1);
});

test("VESTA_SIGNALS=0: a signal ends an app at once, also one that is stuck", async () => {
    const env = { VESTA_SIGNALS: "0" };
    const { killedBy, files } = await run(ESM, "stuck", { signal: "SIGTERM", env });
    assert.equal(killedBy, "SIGTERM");
    assert.equal(cpuFiles(files).length, 0);
});

test("the app sees beforeExit as often as it would have", async () => {
    const { code, out, files } = await run(ESM, "before-exit");
    assert.equal(code, 0);
    assert.equal(out, "main runs\nbeforeExit\n");
    assert.equal(cpuFiles(files).length, 1);
});

/** Runs the app with a server that takes its profiles; gives who sent CPU profiles, in text. */
async function senders(how) {
    const bodies = [];
    const server = createServer(async (request, response) => {
        const parts = [];
        for await (const part of request) parts.push(part);
        const whole = Buffer.concat(parts);
        const isPacked = request.headers["content-encoding"] === "gzip";
        bodies.push((isPacked ? gunzipSync(whole) : whole).toString());
        response.setHeader("content-type", "application/json");
        response.end("{}");
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const endpoint = `http://127.0.0.1:${server.address().port}`;
    const env = {
        VESTA_EXPORTER: "otlp-json",
        VESTA_OUT_DIR: "",
        VESTA_ENDPOINT: endpoint,
        VESTA_ALLOCATIONS: "0",
        VESTA_EVENT_LOOP: "0",
    };
    const { code, errors } = await run(ESM, how, { env });
    server.close();
    assert.deepEqual([code, errors], [0, ""]);
    return bodies;
}

const instanceOf = (body) =>
    /"service\.instance\.id","value":\{"stringValue":"([^"]+)"/.exec(body)?.[1];

/** By its attribute: the same words are names of functions and branches, too. */
function threadOf(body) {
    const { stringTable, attributeTable } = JSON.parse(body).dictionary;
    const key = stringTable.indexOf("thread.name");
    return attributeTable.find(({ keyStrindex }) => keyStrindex === key)?.value.stringValue;
}

test("worker threads profile themselves", async () => {
    const bodies = await senders("worker");
    assert.equal(bodies.length, 2);
    assert.deepEqual(bodies.map(threadOf).sort(), ["main", "worker-1"]);
    assert.equal(new Set(bodies.map(instanceOf)).size, 1);
});

test("cluster workers are instances of their own", async () => {
    const bodies = await senders("cluster");
    assert.equal(bodies.length, 3);
    assert.equal(new Set(bodies.map(instanceOf)).size, 3);
});

test("a profiler runs once in a thread", async () => {
    const batches = [];
    const options = { enabled: true, exporter: (batch) => void batches.push(batch) };
    const first = start(options);
    assert.equal(start(options), first);
    assert.equal(startContinuousCPUProfiling(options), first);
    await first.stop();
    assert.equal(
        batches.flatMap(({ profiles }) => profiles).filter((p) => p.kind === "cpu").length,
        1,
    );
    const second = start(options);
    assert.notEqual(second, first);
    await second.stop();
});

test("who starts it again adds rules and flags, and hears what is passed over", async () => {
    const batches = [];
    const exporter = (batch) => void batches.push(batch);
    const first = start({ enabled: true, exporter, logLevel: "silent", allocations: false });
    const secretName = (millis) => {
        for (const end = performance.now() + millis; performance.now() < end; ) Math.sqrt(end);
    };
    let asked = 0;
    const again = {
        enabled: true,
        exporter: () => assert.fail("it is passed over"),
        mask: ["functions: /secretName/***/"],
        cpu: { samplingIntervalMicros: 5000 },
        allocations: false,
        shouldProfile: () => ++asked > 0,
    };
    assert.equal(start(again), first);
    assert.equal(asked, 1, "at once, for the window that is open");
    secretName(150);
    await first.stop();
    const names = batches.flatMap((b) => b.profiles.flatMap((p) => p.frames.map((f) => f.name)));
    assert.equal(names.includes("secretName"), false);
    assert.equal(names.includes("***"), true);
    const { errors, lastError } = first.stats();
    assert.equal(errors, 2);
    assert.match(lastError, /option cpu is passed over for cpu, eventLoop: started before/);
});

test("options that are in force are not told, whoever started what they are for", async () => {
    const common = { enabled: true, exporter() {}, logLevel: "silent" };
    const cpu = { samplingIntervalMicros: 5000 };
    const wall = { samplingIntervalMicros: 20_000 };
    const first = start({ ...common, allocations: false, cpu });
    const second = start({ ...common, allocations: false, cpu, wall });
    assert.notEqual(second, first);
    assert.equal(start({ ...common, allocations: false, cpu, wall }), first);
    assert.deepEqual([first.stats().lastError, second.stats().lastError], ["", ""]);
    start({ ...common, allocations: false, cpu, wall: { samplingIntervalMicros: 9000 } });
    assert.equal(first.stats().errors, 0);
    assert.match(second.stats().lastError, /option wall is passed over for wall/);
    await second.stop();
    await first.stop();
});

test("what was seen without the leave of a flag is not sent", async () => {
    const batches = [];
    const exporter = (batch) => void batches.push(batch);
    const first = start({ enabled: true, exporter, logLevel: "silent" });
    for (const shouldProfile of [() => false, () => Promise.resolve(false)]) {
        assert.equal(start({ enabled: true, shouldProfile }), first);
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isSessionOpen(), false);
    await first.stop();
    assert.equal(batches.length, 0);
    assert.equal(first.stats().skipped.flag, 2);
    assert.equal(first.stats().errors, 0, first.stats().lastError);
});
