// CPU and wall profiles of real code by real V8.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import test from "node:test";
import { cpuFactors } from "../dist/esm/cpu.js";
import { isNodeProfiling } from "../dist/esm/cpu_sampler.js";
import { startContinuousCPUProfiling, startWallProfiling } from "../dist/esm/index.js";
import { isSessionOpen } from "../dist/esm/session.js";
import {
    burnCpu,
    burnFor,
    collector,
    eventually,
    framesOf,
    quiet,
    selfOf,
    sleep,
    totalOf,
} from "./lib/programs.mjs";

const here = new URL("./lib/programs.mjs", import.meta.url).pathname;

test("hot functions have the shares that they use", async () => {
    const got = collector();
    const handle = startContinuousCPUProfiling({
        ...quiet,
        exporter: got.exporter,
        samplingIntervalMicros: 250,
    });
    await burnCpu(700);
    const cpu = process.cpuUsage();
    await handle.stop();
    const [profile] = got.profiles;
    assert.equal(got.profiles.length, 1);
    assert.equal(profile.kind, "cpu");
    assert.deepEqual(profile.sampleTypes, [
        { type: "cpu", unit: "nanoseconds" },
        { type: "samples", unit: "count" },
    ]);
    const ratio = selfOf(profile, "burnMuch") / selfOf(profile, "burnLittle");
    assert.ok(ratio > 2.5 && ratio < 3.6, `3 times as much work, ${ratio} times the time`);
    const total = totalOf(profile);
    assert.ok(total > 0 && total < (cpu.user + cpu.system) * 1000, "no more than the process used");
    assert.ok(totalOf(profile, "burnFor") > 0.7 * total, "callers are there");
});

test("frames say file, function and the line that ran", async () => {
    const got = collector();
    const handle = startContinuousCPUProfiling({ ...quiet, exporter: got.exporter });
    await burnFor(300);
    await handle.stop();
    const [profile] = got.profiles;
    const frame = profile.frames.find((f) => f.name === "burnMuch" && f.line !== f.startLine);
    assert.equal(frame.file, here);
    assert.equal(frame.kind, "v8js");
    assert.equal(frame.startLine, 10);
    assert.equal(frame.line, 12);
    for (const sample of profile.samples) {
        assert.ok(sample.timeUnixNanos >= profile.startUnixNanos);
        assert.ok(sample.timeUnixNanos <= profile.startUnixNanos + profile.durationNanos);
    }
    const now = BigInt(Date.now()) * 1_000_000n;
    const distance = now - (profile.startUnixNanos + profile.durationNanos);
    assert.ok(distance >= -5_000_000n && distance < 5_000_000_000n, `${distance} ns ago`);
});

test("without line numbers there is one frame for a function", async () => {
    const got = collector();
    const handle = startContinuousCPUProfiling({
        ...quiet,
        exporter: got.exporter,
        lineNumbers: false,
    });
    await burnFor(200);
    await handle.stop();
    const lines = got.profiles[0].frames.filter((f) => f.name === "burnMuch").map((f) => f.line);
    assert.deepEqual(lines, [10]);
});

test("an idle process has no CPU and is all idle on the wall", async () => {
    const cpu = collector();
    const wall = collector();
    const handles = [
        startContinuousCPUProfiling({ ...quiet, exporter: cpu.exporter }),
        startWallProfiling({ ...quiet, exporter: wall.exporter }),
    ];
    await sleep(600);
    await Promise.all(handles.map((handle) => handle.stop()));
    const [wallProfile] = wall.profiles;
    const duration = Number(wallProfile.durationNanos);
    const total = totalOf(wallProfile);
    assert.ok(Math.abs(total - duration) < 0.001 * duration, `${total} of ${duration} ns`);
    const idle = selfOf(wallProfile, "(idle)");
    assert.ok(idle > 0.85 * duration, `idle for ${idle} of ${duration} ns`);
    assert.ok(totalOf(cpu.profiles[0]) < 0.15 * duration);
    assert.equal(isSessionOpen(), false, "the session is closed with the last profiler");
});

test("windows back to back lose nothing and count nothing twice", async () => {
    const got = collector();
    const handle = startWallProfiling({
        ...quiet,
        exporter: got.exporter,
        intervalMillis: 150,
        durationMillis: 150,
    });
    await burnFor(1000);
    await handle.stop();
    const windows = got.profiles;
    assert.ok(windows.length >= 4, `${windows.length} windows`);
    const first = windows[0];
    const last = windows[windows.length - 1];
    const all = Number(last.startUnixNanos + last.durationNanos - first.startUnixNanos);
    const sum = windows.reduce((total, profile) => total + totalOf(profile), 0);
    assert.ok(Math.abs(sum - all) < 0.02 * all, `${sum} of ${all} ns`);
    assert.equal(handle.stats().windows, windows.length);
    assert.equal(handle.stats().errors, 0, handle.stats().lastError);
});

test("intervals leave time between windows", async () => {
    const got = collector();
    const handle = startContinuousCPUProfiling({
        ...quiet,
        exporter: got.exporter,
        intervalMillis: 500,
        durationMillis: 100,
    });
    await eventually(async () => {
        await burnFor(20);
        return got.profiles.length === 2;
    });
    await handle.stop();
    const [a, b] = got.profiles;
    assert.ok(Number(b.startUnixNanos - a.startUnixNanos) > 490e6);
    assert.ok(b.startUnixNanos > a.startUnixNanos + a.durationNanos, "they do not touch");
    assert.ok(framesOf(a, a.samples[0].stack).length > 0);
});

test("waiting is not working", async () => {
    const got = collector();
    const handle = startContinuousCPUProfiling({ ...quiet, exporter: got.exporter });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    await burnFor(200);
    await handle.stop();
    const [profile] = got.profiles;
    const waited = selfOf(profile, "wait");
    assert.ok(waited < 0.25 * totalOf(profile, "burnFor"), `${waited} ns of waiting`);
});

test("what a thread did not use is taken from those who may have waited", () => {
    assert.deepEqual(cpuFactors(100, 50, 100), { working: 1, waiting: 1 });
    assert.deepEqual(cpuFactors(100, 50, 60), { working: 1, waiting: 0.2 });
    assert.deepEqual(cpuFactors(100, 50, 25), { working: 0.5, waiting: 0 });
    assert.deepEqual(cpuFactors(100, 0, 80), { working: 0.8, waiting: 0.8 });
    assert.deepEqual(cpuFactors(10, 0, 15), { working: 1.5, waiting: 1.5 });
    assert.deepEqual(cpuFactors(0, 0, 10), { working: 1, waiting: 1 });
});

test("a Node that profiles itself prints nothing of ours", (t) => {
    assert.equal(isNodeProfiling({}, []), false);
    assert.equal(isNodeProfiling({ NODE_OPTIONS: "--cpu-prof-dir=/tmp" }, ["--inspect"]), false);
    assert.equal(isNodeProfiling({ NODE_OPTIONS: "--no-warnings --cpu-prof" }, []), true);
    const folder = mkdtempSync(path.join(tmpdir(), "vesta-prof-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const code = `
        import { start } from ${JSON.stringify(new URL("../dist/esm/index.js", import.meta.url).href)};
        const found = [];
        const cpu = { intervalMillis: 60, durationMillis: 60, samplingIntervalMicros: 500 };
        const handle = start({ enabled: true, maxCpu: 0, maxLagMillis: 0, cpu,
            exporter: ({ profiles }) => found.push(...profiles.filter((p) => p.kind === "cpu")) });
        function busyInChild() { for (const end = Date.now() + 50; Date.now() < end; ); }
        while (found.length < 2) { busyInChild(); await new Promise((r) => setTimeout(r, 5)); }
        await handle.stop();
        const isThere = (p) => p.frames.some(({ name }) => name === "busyInChild");
        console.log(found.some(isThere), handle.stats().errors);`;
    const run = (options, env) =>
        spawnSync(process.execPath, [...options, "--input-type=module", "-e", code], {
            encoding: "utf8",
            env: { ...process.env, ...env },
            timeout: 30_000,
        });
    for (const { stdout, stderr } of [
        run(["--cpu-prof", "--cpu-prof-dir", folder], {}),
        run([], { NODE_V8_COVERAGE: folder }),
    ]) {
        assert.deepEqual([stdout, stderr], ["true 0\n", ""]);
    }
});
