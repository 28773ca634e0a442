// With a real Vesta server: what is sent is what it answers, by every way out, and both hide the same.
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { resolveConfig } from "../dist/esm/config.js";
import { encodeOtlp } from "../dist/esm/encode_otlp.js";
import { createExporter } from "../dist/esm/exporter.js";
import { createMask } from "../dist/esm/mask.js";
import { createStats } from "../dist/esm/stats.js";
import { heapProfile, link, makeBatch } from "./lib/batch.mjs";
import { builtInCases, ownCases } from "./lib/mask_cases.mjs";
import { noProgram, runProgram, startServer } from "./lib/vesta.mjs";

test("the standard's rules are kept to", { skip: noProgram }, async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), "vesta-check-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = path.join(folder, "batch.otlp");
    const empty = { ...heapProfile(), samples: [] };
    for (const batch of [makeBatch(), { resource: {}, profiles: [empty] }]) {
        writeFileSync(file, encodeOtlp(batch));
        assert.equal(await runProgram("info", "--check", file), "");
    }
});

async function send(options, batch) {
    const config = resolveConfig({ enabled: true, logLevel: "silent", ...options }, {});
    const stats = createStats(config);
    const exporter = createExporter(config, stats);
    await exporter.export(batch);
    await exporter.shutdown(5000);
    const { exported, dropped, errors, lastError } = stats.snapshot();
    assert.deepEqual(
        { exported, dropped, errors, lastError },
        {
            exported: 1,
            dropped: {},
            errors: 0,
            lastError: "",
        },
    );
}

async function checkTotals(server, service) {
    const of = `service.name="${service}"`;
    const flame = await server.ask("flame", { query: `cpu{${of}}` });
    assert.equal(flame.total, 42_000_000);
    assert.equal(flame.unit, "nanoseconds");
    const rows = Object.fromEntries(
        (await server.ask("top", { query: `cpu{${of}}` })).rows.map((r) => [r.name, r]),
    );
    assert.equal(rows.parse.flat, 28_000_000);
    assert.equal(rows.main.cum, 37_000_000);
    assert.equal(rows.parse.file, "/app/parse.js");
    assert.equal((await server.ask("flame", { query: `samples{${of}}` })).total, 5);
    const heap = await server.ask("flame", { query: `inuse_space{${of}}` });
    assert.equal(heap.total, 2_097_152);
    const { exemplars } = await server.ask("exemplars", { query: `cpu{${of}}` });
    assert.equal(exemplars[0].trace, link.traceId);
    assert.equal(exemplars[0].span, link.spanId);
    const { series } = await server.ask("series", { query: `{${of}}` });
    assert.equal(series[0].labels["service.version"], "1.2.3");
    assert.deepEqual(series.map((s) => s.instant).sort(), [false, true]);
    return flame;
}

test("every way out ends in the same totals", { skip: noProgram }, async (t) => {
    const server = await startServer(t);
    await send({ endpoint: server.otlp }, makeBatch("protobuf"));
    await send({ endpoint: server.otlp, exporter: "otlp-json" }, makeBatch("json"));
    const folder = mkdtempSync(path.join(tmpdir(), "vesta-files-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    await send({ outDir: folder }, makeBatch("files"));
    const files = readdirSync(folder).filter((name) => name.endsWith(".pb.gz"));
    assert.equal(files.length, 2);
    const paths = files.map((name) => path.join(folder, name));
    await runProgram("push", "--url", server.url, ...paths);
    for (const service of ["protobuf", "json", "files"]) {
        await t.test(service, async () => {
            const flame = await checkTotals(server, service);
            if (service !== "files") {
                assert.ok(flame.frames.type.includes("v8js"));
            }
        });
    }
});

test("the server hides the same", { skip: noProgram }, async (t) => {
    const texts = [...builtInCases.map(([text]) => text), ...ownCases.map(([, , text]) => text)];
    const rules = [...new Set(ownCases.map(([rule]) => rule))];
    const wanted = createMask({ mask: rules, maskBuiltIn: true });
    assert.deepEqual(wanted.problems, []);
    const folder = mkdtempSync(path.join(tmpdir(), "vesta-rules-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = path.join(folder, "vesta.yaml");
    const lines = rules.map((rule) => `    - ${JSON.stringify(rule)}\n`);
    writeFileSync(file, `mask:\n  rules:\n${lines.join("")}`);
    const server = await startServer(t, "--config", file);
    const profile = heapProfile();
    profile.frames = texts.map((text) => ({
        name: text || "-",
        file: text,
        line: 0,
        column: 0,
        startLine: 0,
        kind: "v8js",
    }));
    profile.stacks = {
        parent: [0, ...texts.map(() => 0)],
        frame: [0, ...texts.keys()],
    };
    profile.samples = texts.map((_, i) => ({ stack: i + 1, values: [1, 1] }));
    const batch = { resource: { "service.name": "masked" }, profiles: [profile] };
    await send({ endpoint: server.otlp, maskBuiltIn: false }, batch);
    const { rows } = await server.ask("top", { query: "inuse_objects", limit: 1000 });
    const seen = rows.map((row) => [row.name, row.file]).sort();
    const expected = texts.map((text) => [
        wanted.apply("functions", text || "-"),
        wanted.apply("paths", text),
    ]);
    const distinct = [...new Set(expected.map((pair) => JSON.stringify(pair)))];
    assert.deepEqual(seen, distinct.map((pair) => JSON.parse(pair)).sort());
});
