// What is in force, whoever said it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { resolveConfig } from "../dist/esm/config.js";

test("nothing is on unless somebody says so", () => {
    assert.equal(resolveConfig({}, {}).enabled, false);
    assert.equal(resolveConfig({ enabled: true }, {}).enabled, true);
    assert.equal(resolveConfig({}, { VESTA_ENABLED: "1" }).enabled, true);
    assert.equal(resolveConfig({}, { VESTA_ENABLED: "true" }).enabled, true);
    assert.equal(resolveConfig({}, { ENABLE_PROFILING: "1" }).enabled, true);
    assert.equal(resolveConfig({}, { ENABLE_PROFILING: "0" }).enabled, false);
    assert.equal(resolveConfig({}, { VESTA_ENABLED: "0", ENABLE_PROFILING: "1" }).enabled, false);
    assert.equal(resolveConfig({ enabled: false }, { VESTA_ENABLED: "1" }).enabled, false);
    const disabled = { VESTA_ENABLED: "1", OTEL_SDK_DISABLED: "true" };
    assert.equal(resolveConfig({}, disabled).enabled, false);
    assert.equal(resolveConfig({ enabled: true }, disabled).enabled, true);
});

test("start() is CPU, allocations and the event loop", () => {
    const on = (c) =>
        ["cpu", "wall", "allocations", "heap", "eventLoop", "snapshots"].filter(
            (n) => c[n].enabled,
        );
    assert.deepEqual(on(resolveConfig({}, {})), ["cpu", "allocations", "eventLoop"]);
    const env = { VESTA_CPU: "0", VESTA_WALL: "1", VESTA_HEAP: "on", VESTA_EVENT_LOOP: "no" };
    assert.deepEqual(on(resolveConfig({}, env)), ["wall", "allocations", "heap"]);
    const options = { cpu: {}, wall: { enabled: false }, allocations: false, heap: true };
    assert.deepEqual(on(resolveConfig(options, env)), ["cpu", "heap"]);
    assert.deepEqual(on(resolveConfig({}, env, "cpu")), ["cpu"]);
    assert.deepEqual(on(resolveConfig({ intervalMillis: 60_000 }, {}, "snapshots")), ["snapshots"]);
});

test("windows: options, then variables, then defaults", () => {
    const c = resolveConfig({}, {});
    assert.equal(c.cpu.intervalMillis, 60_000, "always on");
    assert.equal(c.cpu.durationMillis, 60_000);
    const cpuAlone = resolveConfig({}, {}, "cpu");
    assert.equal(cpuAlone.cpu.intervalMillis, 300_000);
    assert.equal(cpuAlone.cpu.durationMillis, 15_000);
    assert.equal(resolveConfig({ cpu: { intervalMillis: 90_000 } }, {}).cpu.durationMillis, 15_000);
    assert.equal(c.cpu.samplingIntervalMicros, 10_000);
    assert.equal(c.heap.intervalMillis, 600_000);
    assert.equal(c.heap.samplingIntervalBytes, 524_288);
    assert.equal(c.eventLoop.thresholdMillis, 20);
    const env = {
        VESTA_CPU_INTERVAL_MILLIS: "60000",
        VESTA_CPU_DURATION_MILLIS: "5000",
        VESTA_HEAP_STACK_DEPTH: "128",
        VESTA_HEAP_SNAPSHOTS_INTERVAL_MILLIS: "3600000",
    };
    const d = resolveConfig({ cpu: { durationMillis: 7000 } }, env);
    assert.equal(d.cpu.intervalMillis, 60_000);
    assert.equal(d.cpu.durationMillis, 7000);
    assert.equal(d.heap.stackDepth, 128);
    assert.equal(d.snapshots.intervalMillis, 3_600_000);
    const alone = resolveConfig({ durationMillis: 10, intervalMillis: 5 }, {}, "wall");
    assert.equal(alone.wall.intervalMillis, 5);
    assert.equal(alone.wall.durationMillis, 5, "back to back");
    assert.equal(alone.cpu.intervalMillis, 300_000);
});

test("values that may hold keys are never shown", () => {
    const secret = "s3cret";
    const env = {
        OTEL_EXPORTER_OTLP_HEADERS: `authorization: Bearer ${secret}`,
        VESTA_HEADERS: `%zz=${secret}`,
        OTEL_RESOURCE_ATTRIBUTES: secret,
        OTEL_EXPORTER_OTLP_ENDPOINT: `ftp://me:${secret}@host`,
    };
    const { problems } = resolveConfig({ enabled: true, headers: secret }, env);
    assert.equal(problems.length, 5);
    assert.equal(problems.join("\n").includes(secret), false, problems.join("\n"));
});

test("bad values are told and passed over", () => {
    const c = resolveConfig(
        {
            serviceName: 7,
            maxCpu: "much",
            mask: ["labels: /a/b/", 1],
            shouldProfile: true,
            cpu: { intervalMillis: -1 },
            heap: "yes",
            headers: { "bad name": "x" },
            logLevel: "loud",
            exporter: {},
        },
        {
            VESTA_ENABLED: "maybe",
            VESTA_WALL_INTERVAL_MILLIS: "1 minute",
            OTEL_EXPORTER_OTLP_ENDPOINT: "localhost:4318",
            OTEL_EXPORTER_OTLP_COMPRESSION: "zstd",
            OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
            OTEL_RESOURCE_ATTRIBUTES: "a=b,c",
            OTEL_EXPORTER_OTLP_CERTIFICATE: "/does/not/exist.pem",
        },
    );
    assert.equal(c.enabled, false);
    assert.equal(c.serviceName, "");
    assert.equal(c.maxCpu, 0.9);
    assert.deepEqual(c.mask, []);
    assert.equal(c.shouldProfile, undefined);
    assert.equal(c.cpu.intervalMillis, 60_000);
    assert.equal(c.wall.intervalMillis, 300_000);
    assert.equal(c.heap.enabled, false);
    assert.deepEqual(c.otlp.headers, {});
    assert.equal(c.otlp.url, "http://localhost:4318/v1development/profiles");
    assert.equal(c.otlp.compression, "gzip");
    assert.equal(c.logLevel, "error");
    assert.equal(c.exporter, "otlp");
    assert.deepEqual(c.resourceAttributes, {});
    for (const word of [
        "serviceName",
        "maxCpu",
        "mask",
        "shouldProfile",
        "cpu.intervalMillis",
        "option heap",
        "headers",
        "logLevel",
        "exporter",
        "VESTA_ENABLED",
        "VESTA_WALL_INTERVAL_MILLIS",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "OTEL_RESOURCE_ATTRIBUTES",
        "exist.pem",
    ]) {
        assert.ok(
            c.problems.some((p) => p.includes(word)),
            `${word} in ${c.problems.join("\n")}`,
        );
    }
    for (const nothing of [null, undefined, "x", 1]) {
        assert.equal(resolveConfig(nothing, {}).enabled, false);
        assert.equal(resolveConfig(nothing, {}, "cpu").cpu.enabled, true);
    }
});

test("names that nobody knows are told", () => {
    const told = (...args) => resolveConfig(...args).problems.map((p) => p.split(" ")[1]);
    assert.deepEqual(told({ cpu: { intervalMs: 1, exporter: "file" }, service: "x" }, {}), [
        "service",
        "cpu.intervalMs",
        "cpu.exporter",
    ]);
    assert.deepEqual(told({ intervalMillis: 1, exporter: "file", stackDepth: 5 }, {}, "cpu"), [
        "stackDepth",
    ]);
    assert.deepEqual(told({ intervalMillis: 60_000, maxPauseShare: 0.1 }, {}, "snapshots"), []);
    assert.deepEqual(told({ heap: true, wall: { lineNumbers: false }, eventLoop: false }, {}), []);
});

test("the endpoint is a base, but for the signal's own variable", () => {
    const url = (options, env = {}) => resolveConfig(options, env).otlp.url;
    assert.equal(url({ endpoint: "http://c:1" }), "http://c:1/v1development/profiles");
    assert.equal(url({ endpoint: "https://c/base/" }), "https://c/base/v1development/profiles");
    assert.equal(
        url({ endpoint: "http://c:1/v1development/profiles" }),
        "http://c:1/v1development/profiles",
    );
    const env = {
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://all:4318",
        OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT: "http://own:4318/x",
    };
    assert.equal(url({}, env), "http://own:4318/x");
    assert.equal(
        url({}, { ...env, VESTA_ENDPOINT: "http://v" }),
        "http://v/v1development/profiles",
    );
    delete env.OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT;
    assert.equal(url({}, env), "http://all:4318/v1development/profiles");
});

test("headers and the rest of the signal go over those of all", () => {
    const c = resolveConfig(
        { headers: { C: "3" } },
        {
            OTEL_EXPORTER_OTLP_HEADERS: "A=1,B=x%20y",
            OTEL_EXPORTER_OTLP_PROFILES_HEADERS: "A=2",
            OTEL_EXPORTER_OTLP_TIMEOUT: "5000",
            OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT: "700",
            OTEL_EXPORTER_OTLP_COMPRESSION: "none",
        },
    );
    assert.deepEqual(c.otlp.headers, { A: "2", B: "x y", C: "3" });
    assert.equal(c.otlp.timeoutMillis, 700);
    assert.equal(c.otlp.compression, "none");
    assert.deepEqual(c.problems, []);
});

test("the exporter: named, by folder, by protocol, or somebody's own", () => {
    const exporter = (options, env = {}) => resolveConfig(options, env).exporter;
    assert.equal(exporter({}), "otlp");
    assert.equal(exporter({ outDir: "x" }), "file");
    assert.equal(exporter({}, { VESTA_OUT_DIR: "x" }), "file");
    assert.equal(exporter({ outDir: "x", exporter: "otlp" }), "otlp");
    assert.equal(exporter({}, { VESTA_EXPORTER: "file" }), "file");
    assert.equal(exporter({}, { OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" }), "otlp-json");
    const own = () => {};
    assert.equal(exporter({ exporter: own }), own);
    const object = { export: async () => {}, shutdown: async () => {} };
    assert.equal(exporter({ exporter: object }), object);
    assert.equal(resolveConfig({ exporter: "file" }, {}).outDir, "./profiles");
});

test("attributes of the resource are decoded, and options go over them", () => {
    const c = resolveConfig(
        { resourceAttributes: { b: 2, nothing: undefined } },
        {
            OTEL_RESOURCE_ATTRIBUTES: "a=x%2Cy, b=1,c=%C3%A4,",
            VESTA_RESOURCE_ATTRIBUTES: "c=3",
            OTEL_SERVICE_NAME: "shop",
        },
    );
    assert.deepEqual(c.resourceAttributes, { a: "x,y", b: 2, c: "3" });
    assert.equal(c.serviceName, "shop");
    assert.equal(
        resolveConfig({ serviceName: "own" }, { OTEL_SERVICE_NAME: "x" }).serviceName,
        "own",
    );
});

test("rules of the environment stand on lines", () => {
    const env = {
        VESTA_MASK_RULES: "labels: /a,b/c/\n\n paths: #x#y#\n",
        VESTA_MASK_DEFAULTS: "off",
    };
    const c = resolveConfig({}, env);
    assert.deepEqual(c.mask, ["labels: /a,b/c/", "paths: #x#y#"]);
    assert.equal(c.maskBuiltIn, false);
});
