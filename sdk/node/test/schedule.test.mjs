// When windows are, who may forbid them, and how a process ends.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { console as v8Console } from "node:inspector";
import { cgroupCores } from "../dist/esm/cgroup.js";
import * as vesta from "../dist/esm/index.js";
import { cpuShare, createLoadGauge, verdictOf } from "../dist/esm/load.js";
import { beginCpuRun } from "../dist/esm/cpu_sampler.js";
import { askFlags } from "../dist/esm/flags.js";
import { resolveConfig } from "../dist/esm/config.js";
import { jobsOf, warmSampler } from "../dist/esm/jobs.js";
import { runJob } from "../dist/esm/schedule.js";
import { isSessionOpen } from "../dist/esm/session.js";
import { createStats } from "../dist/esm/stats.js";
import { block, burnCpu, burnFor, collector, eventually, quiet, sleep } from "./lib/programs.mjs";

const index = new URL("../dist/esm/index.js", import.meta.url);

test("nothing happens unless it is enabled", async () => {
    const got = collector();
    for (const begin of Object.values(vesta)) {
        if (!begin.name.startsWith("start")) continue;
        const handle = begin({ enabled: false, exporter: got.exporter, intervalMillis: 60_000 });
        assert.equal(handle.stats().enabled, false);
        await handle.stop();
    }
    assert.equal(isSessionOpen(), false);
    assert.equal(got.batches.length, 0);
});

test("a flag decides on every window", async () => {
    const got = collector();
    let asked = 0;
    const handle = vesta.startContinuousCPUProfiling({
        ...quiet,
        exporter: got.exporter,
        intervalMillis: 60,
        durationMillis: 30,
        shouldProfile: async () => ++asked % 2 === 0,
    });
    assert.equal(isSessionOpen(), false, "nothing before the answer");
    await eventually(() => got.batches.length >= 2);
    await handle.stop();
    const stats = handle.stats();
    assert.ok(stats.skipped.flag >= 2, JSON.stringify(stats));
    assert.equal(stats.errors, 0, stats.lastError);
});

test("a flag that throws, or a window that fails, is the SDK's trouble alone", async () => {
    const got = collector();
    for (const shouldProfile of [
        () => {
            throw new Error("no");
        },
        () => Promise.reject(new Error("no")),
    ]) {
        const handle = vesta.startWallProfiling({
            ...quiet,
            exporter: got.exporter,
            shouldProfile,
        });
        await eventually(() => handle.stats().errors === 1);
        assert.match(handle.stats().lastError, /shouldProfile: no/);
        await handle.stop();
    }
    assert.equal(got.batches.length, 0);
});

test("an app that ends the window itself costs one window", async () => {
    const got = collector();
    const handle = vesta.startWallProfiling({
        ...quiet,
        exporter: got.exporter,
        intervalMillis: 100,
        durationMillis: 100,
    });
    console.profileEnd();
    await eventually(() => handle.stats().windows >= 2);
    await handle.stop();
    assert.equal(isSessionOpen(), false);
});

test("load: full windows, then shorter ones, then none", () => {
    const limits = { maxCpu: 1, maxLagMillis: 100 };
    assert.deepEqual(verdictOf({ cpu: 0.4, lag: 50 }, limits), { share: 1 });
    assert.deepEqual(verdictOf({ cpu: 0.75, lag: 0 }, limits), { share: 0.625 });
    assert.deepEqual(verdictOf({ cpu: 0.2, lag: 75 }, limits), { share: 0.625 });
    assert.deepEqual(verdictOf({ cpu: 1.1, lag: 0 }, limits), { skip: "cpu", share: 0 });
    assert.deepEqual(verdictOf({ cpu: 1.1, lag: 200 }, limits), { skip: "lag", share: 0 });
    assert.deepEqual(verdictOf({ cpu: 9, lag: 900 }, { maxCpu: 0, maxLagMillis: 0 }), { share: 1 });
});

test("a thread that has a core to itself is hot, however many cores there are", () => {
    assert.equal(cpuShare(1, 1, 16), 1);
    assert.equal(cpuShare(8, 0.1, 16), 0.5);
    assert.equal(cpuShare(0.5, 0.5, 0.5), 1, "as much as its container may use");
});

test("a container may use fewer cores than there are", (t) => {
    const root = mkdtempSync(path.join(tmpdir(), "vesta-cgroup-"));
    t.after(() => rmSync(root, { recursive: true, force: true }));
    const write = (name, text) => {
        mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
        writeFileSync(path.join(root, name), text);
    };
    const self = path.join(root, "self");
    assert.equal(cgroupCores(root, self), Number.POSITIVE_INFINITY);
    write("self", "0::/pod/app\n");
    assert.equal(cgroupCores(root, self), Number.POSITIVE_INFINITY);
    write("pod/app/cpu.max", "max 100000\n");
    write("pod/cpu.max", "150000 100000\n");
    assert.equal(cgroupCores(root, self), 1.5);
    write("cpu/old/cpu.cfs_quota_us", "50000\n");
    write("cpu/old/cpu.cfs_period_us", "100000\n");
    write("cpu/cpu.cfs_quota_us", "-1\n");
    write("cpu/cpu.cfs_period_us", "100000\n");
    write("self", "7:memory:/x\n4:cpu,cpuacct:/old\n");
    assert.equal(cgroupCores(root, self), 0.5);
});

test("windows are left out while the process is hot", async () => {
    const got = collector();
    const handle = vesta.startContinuousCPUProfiling({
        ...quiet,
        maxCpu: 0.01,
        exporter: got.exporter,
        intervalMillis: 1100,
        durationMillis: 100,
    });
    await burnFor(1500);
    await handle.stop();
    assert.equal(got.batches.length, 1, "the first, of which nothing was known");
    assert.deepEqual(handle.stats().skipped, { cpu: 1 });
});

test("windows are left out while the loop is blocked", async () => {
    const got = collector();
    const handle = vesta.startContinuousCPUProfiling({
        ...quiet,
        maxLagMillis: 60,
        exporter: got.exporter,
        intervalMillis: 1100,
        durationMillis: 100,
    });
    await sleep(200);
    for (let i = 0; i < 10; i++) {
        block(150);
        await sleep(1);
    }
    await eventually(() => Object.keys(handle.stats().skipped).length > 0);
    await handle.stop();
    assert.ok(handle.stats().skipped.lag >= 1, JSON.stringify(handle.stats()));
});

test("a look just before a window does not hide that the loop is blocked", async () => {
    const gauge = createLoadGauge({ maxCpu: 0, maxLagMillis: 100 }, 1100);
    let verdict;
    setTimeout(() => {
        verdict = gauge.verdict(); // in the same turn as the gauge's own look
    }, 1105);
    for (let i = 0; i < 3; i++) {
        block(700);
        await sleep(1);
    }
    gauge.close();
    assert.deepEqual(verdict, { skip: "lag", share: 0 });
});

test("own time is known", async () => {
    const got = collector();
    const handle = vesta.start({ ...quiet, exporter: got.exporter });
    await burnCpu(200);
    await handle.stop();
    const stats = handle.stats();
    assert.equal(stats.windows, 2);
    assert.ok(stats.samples > 0 && stats.ownMillis > 0, JSON.stringify(stats));
    assert.ok(stats.ownShare > 0 && stats.ownShare < 1);
});

test("the app ends by itself, and stop() in its end sends the window", () => {
    const code = `
        import { start } from ${JSON.stringify(index.href)};
        const kinds = [];
        const handle = start({ enabled: true, heap: true, wall: true, logLevel: "debug",
            exporter: (batch) => kinds.push(...batch.profiles.map((p) => p.kind)) });
        setTimeout(() => {}, 100);
        if (process.argv[1] === "stop") process.once("beforeExit", async () => {
            await handle.stop();
            console.log(kinds.sort().join(" "));
        });`;
    const run = (arg) =>
        spawnSync(process.execPath, ["--input-type=module", "-e", code, "--", arg], {
            encoding: "utf8",
            timeout: 20_000,
        });
    const alone = run("alone");
    assert.deepEqual([alone.status, alone.signal, alone.stderr], [0, null, ""]);
    const stopped = run("stop");
    assert.equal(stopped.stdout, "cpu event_loop heap wall\n", stopped.stderr);
});

test("worker threads profile themselves, and end when they are told to", async () => {
    const code = `
        const { parentPort } = require("node:worker_threads");
        const { start } = require(${JSON.stringify(fileURLToPath(new URL("../dist/cjs/index.js", import.meta.url)))});
        function burnInWorker() { const until = Date.now() + 300; let x = 0; while (Date.now() < until) x++; return x; }
        const handle = start({ enabled: true, maxCpu: 0, exporter: ({ profiles }) => {
            for (const p of profiles) if (p.kind === "cpu") parentPort.postMessage({
                thread: p.attributes["thread.name"],
                found: p.frames.some((f) => f.name === "burnInWorker"),
            });
        } });
        burnInWorker();
        parentPort.once("message", () => handle.stop());`;
    const got = collector();
    const handle = vesta.start({ ...quiet, exporter: got.exporter });
    const worker = new Worker(code, { eval: true });
    const answer = new Promise((resolve, reject) => {
        worker.once("message", resolve);
        worker.once("error", reject);
    });
    worker.postMessage("stop");
    const { thread, found } = await answer;
    assert.match(thread, /^worker-/);
    assert.equal(found, true);
    const killed = new Worker(code, { eval: true });
    await new Promise((resolve) => killed.once("online", resolve));
    await killed.terminate();
    await handle.stop();
    const cpu = got.profiles.find(({ kind }) => kind === "cpu");
    assert.equal(
        cpu.frames.some(({ name }) => name === "burnInWorker"),
        false,
        "threads are apart",
    );
});

/** Runs a job by the real schedule; says what happened in which order. */
function scheduled(job) {
    const steps = [];
    const context = {
        stats: createStats({ enabled: true, logLevel: "silent", problems: [] }),
        gauge: { verdict: () => ({ share: 1 }), close() {} },
        send: async () => {},
        windowBegins: job.windowBegins,
        flagsOf: job.flagsOf,
    };
    const begin = () => {
        steps.push("begin");
        const end = () => {
            steps.push("end");
            return [];
        };
        return { end };
    };
    const rest = () => steps.push("rest");
    const off = () => steps.push("off");
    return {
        steps,
        stats: context.stats,
        ...runJob({ name: "job", begin, rest, off, ...job }, context),
    };
}

test("the profiler rests before the window ends, and never starts anew", async () => {
    const job = scheduled({ intervalMillis: 60, durationMillis: 20 });
    await eventually(() => job.steps.length >= 5);
    await job.stop();
    assert.deepEqual(job.steps.slice(0, 5), ["begin", "rest", "end", "begin", "rest"]);
});

test("a flag that never answers ends the window", async () => {
    let asked = 0;
    const job = scheduled({
        intervalMillis: 30,
        durationMillis: 30,
        overlap: true,
        flagMillis: 40,
        shouldProfile: () => (asked++ === 0 ? true : new Promise(() => {})),
    });
    await eventually(() => asked >= 3);
    await job.stop();
    assert.deepEqual(job.steps.slice(0, 3), ["begin", "end", "off"]);
    assert.equal(job.steps.filter((step) => step === "begin").length, 1);
    assert.match(job.stats.snapshot().lastError, /shouldProfile: no answer in 40 ms/);
});

/** A flag that answers when it is told to. */
function slowFlag() {
    const answers = [];
    return {
        answers,
        flag: () => new Promise((resolve) => answers.push(resolve)),
    };
}

test("a flag that comes while another is asked is asked before the window", async () => {
    const { answers, flag } = slowFlag();
    const flags = [];
    const job = scheduled({
        kinds: ["cpu"],
        intervalMillis: 60_000,
        durationMillis: 60_000,
        shouldProfile: flag,
        flagsOf: () => flags,
    });
    flags.push(() => false);
    job.askAgain(["cpu"]);
    answers[0](true);
    await eventually(() => job.steps.length > 0);
    assert.deepEqual(job.steps, ["off"]);
    await job.stop();
});

test("flags that come ever again while others are asked forbid the window, and end", async () => {
    let asked = 0;
    const job = scheduled({
        kinds: ["cpu"],
        intervalMillis: 60_000,
        durationMillis: 60_000,
        shouldProfile: async () => {
            asked++;
            await null;
            job.askAgain(["cpu"]);
            return true;
        },
    });
    await eventually(() => job.steps.length > 0);
    assert.deepEqual([job.steps, asked], [["off"], 4]);
    await job.stop();
});

test("a flag that ends the window while its turn asks leaves one turn", async () => {
    const { answers, flag } = slowFlag();
    let asked = 0;
    const flags = [];
    const job = scheduled({
        kinds: ["cpu"],
        intervalMillis: 20,
        durationMillis: 20,
        overlap: true,
        flagMillis: 60_000,
        shouldProfile: () => (asked++ === 0 ? true : flag()),
        flagsOf: () => flags,
    });
    await eventually(() => answers.length === 1);
    flags.push(() => false);
    job.askAgain(["cpu"]);
    assert.deepEqual(job.steps, ["begin", "end", "off"], "at once");
    assert.equal(job.stats.snapshot().windows, 0, "it is not sent");
    flags.length = 0;
    await sleep(100);
    assert.equal(asked, 3, "by the first window, its turn and the flag: there is no other turn");
    await job.stop();
});

test("a window without the leave of a flag is not sent by the turn that asks it first", async () => {
    const { answers, flag } = slowFlag();
    let asked = 0;
    const flags = [];
    const job = scheduled({
        kinds: ["cpu"],
        intervalMillis: 20,
        durationMillis: 20,
        overlap: true,
        flagMillis: 60_000,
        shouldProfile: () => (asked++ === 0 ? true : flag()),
        flagsOf: () => flags,
    });
    await eventually(() => answers.length === 1);
    flags.push(() => Promise.resolve(false));
    job.askAgain(["cpu"]);
    answers[0](true); // the turn's; it asks again then
    await eventually(() => answers.length === 3);
    answers[2](true);
    await eventually(() => job.steps.includes("off"));
    await job.stop();
    assert.deepEqual(job.steps, ["begin", "end", "off"]);
    assert.equal(job.stats.snapshot().windows, 0);
});

test("a flag that fails after another said no does not end the app", async () => {
    const fails = async () => {
        throw new Error("no");
    };
    const throws = () => {
        throw new Error("no");
    };
    // The test fails with a rejection that nobody handles.
    assert.equal(
        askFlags([fails, () => false], () => {}),
        false,
    );
    assert.equal(
        askFlags([fails, throws], () => {}),
        false,
    );
    await sleep(20);
});

test("a flag that says no leaves nothing running", async () => {
    let isOn = true;
    const shouldProfile = () => isOn;
    const hours = { intervalMillis: 60, durationMillis: 30 };
    const options = { ...quiet, shouldProfile, cpu: hours, eventLoop: false, allocations: false };
    const config = resolveConfig({ ...options, heap: hours }, {});
    const stats = createStats(config);
    const context = {
        stats,
        gauge: { verdict: () => ({ share: 1 }), close() {} },
        send: async () => {},
        windowBegins: () => undefined,
    };
    const jobs = jobsOf(config, stats, () => warmSampler(-1)).map((job) =>
        // On a busy machine readings take long, and would be seldom then.
        runJob({ ...job, maxCutShare: undefined }, context),
    );
    await eventually(() => stats.snapshot().windows >= 4);
    assert.equal(isSessionOpen(), true, "it rests between windows");
    isOn = false;
    await eventually(() => !isSessionOpen());
    isOn = true;
    await eventually(() => isSessionOpen());
    for (const job of jobs) await job.stop();
    assert.equal(isSessionOpen(), false);
    assert.equal(stats.snapshot().errors, 0, stats.snapshot().lastError);
});

test("a profiler that cannot rest any longer does not end the app", async (t) => {
    const warm = warmSampler(-1, 10);
    warm.windowBegan(0);
    warm.rest(10_000);
    assert.equal(isSessionOpen(), true);
    t.mock.method(v8Console, "profile", () => {
        throw new Error("no");
    });
    await eventually(() => !isSessionOpen());
    t.mock.restoreAll();
    beginCpuRun(10_000).end();
});

test("a window with too many spans comes in pieces", async () => {
    let filled = 0;
    const windowBegins = () => {
        const from = filled;
        return { fill: () => filled - from, end() {} };
    };
    const job = scheduled({
        intervalMillis: 60_000,
        durationMillis: 10_000,
        pieceMillis: 20,
        hasTimes: true,
        windowBegins,
    });
    await sleep(100);
    assert.deepEqual(job.steps, ["begin"], "few spans need no cut");
    filled += 0.8;
    await eventually(() => job.steps.length > 1);
    await sleep(60);
    assert.deepEqual(job.steps, ["begin", "begin", "end"]);
    await job.stop();
});
