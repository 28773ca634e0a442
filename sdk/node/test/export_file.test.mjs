// Files are whole, named by what and when, and stand beside what else is known; an app's own exporter
// may do what it likes.
import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { resolveConfig } from "../dist/esm/config.js";
import { createExporter } from "../dist/esm/exporter.js";
import { createLog, createStats } from "../dist/esm/stats.js";
import { makeBatch, startNanos } from "./lib/batch.mjs";
import { decodePprof } from "./lib/otlp.mjs";

const start = startNanos(Date.parse("2026-03-01T12:00:20.250Z"));

function inFolder(t) {
    const folder = mkdtempSync(path.join(tmpdir(), "vesta-files-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
}

function makeExporter(options) {
    const config = resolveConfig({ enabled: true, logLevel: "silent", ...options }, {});
    const stats = createStats(config);
    return { exporter: createExporter(config, stats), stats };
}

test("profiles and their sidecars", async (t) => {
    const folder = path.join(inFolder(t), "not", "yet", "there");
    const { exporter, stats } = makeExporter({ outDir: folder });
    await exporter.export(makeBatch("shop", start));
    assert.deepEqual(readdirSync(folder).sort(), [
        "cpu-2026-03-01T12-00-00.250Z.pb.gz",
        "cpu-2026-03-01T12-00-00.250Z.pb.gz.json",
        "heap-2026-03-01T12-00-00.250Z.pb.gz",
        "heap-2026-03-01T12-00-00.250Z.pb.gz.json",
    ]);
    const file = path.join(folder, "cpu-2026-03-01T12-00-00.250Z.pb.gz");
    const read = decodePprof(gunzipSync(readFileSync(file)));
    assert.equal(read.samples[0].stack[0], "parse /app/parse.js:22");
    assert.deepEqual(JSON.parse(readFileSync(`${file}.json`)), {
        service: "shop",
        labels: {
            "service.version": "1.2.3",
            "process.command_args": "node,app.js",
            "host.name": "box",
        },
        from: "2026-03-01T12:00:00.250Z",
        until: "2026-03-01T12:00:10.250Z",
        moment: false,
        types: ["samples/count", "cpu/nanoseconds"],
        period: 10_000_000,
    });
    const heap = file.replace("cpu-", "heap-");
    assert.equal(JSON.parse(readFileSync(`${heap}.json`)).moment, true);
    assert.equal(stats.snapshot().exported, 1);
    await exporter.shutdown(1000);
});

test("many at the same moment: none is lost", async (t) => {
    const folder = inFolder(t);
    const exporters = [1, 2, 3, 4, 5].map(() => makeExporter({ outDir: folder }));
    await Promise.all(exporters.map(({ exporter }) => exporter.export(makeBatch("shop", start))));
    const files = readdirSync(folder);
    assert.equal(files.filter((name) => /^cpu-.*\.pb\.gz$/.test(name)).length, 5);
    assert.equal(files.filter((name) => name.endsWith(".pb.gz.json")).length, 10);
    assert.equal(files.length, 20);
});

test("however many there are of a moment, one more has a name", async (t) => {
    const folder = inFolder(t);
    const base = "cpu-2026-03-01T12-00-00.250Z";
    for (let i = 1; i <= 1000; i++) {
        writeFileSync(path.join(folder, `${base}${i > 1 ? `-${i}` : ""}.pb.gz.json`), "");
    }
    const { exporter, stats } = makeExporter({ outDir: folder });
    await exporter.export(makeBatch("shop", start));
    assert.equal(stats.snapshot().errors, 0, stats.snapshot().lastError);
    assert.equal(readdirSync(folder).filter((name) => /^cpu-.*\.pb\.gz$/.test(name)).length, 1);
});

test("a folder that cannot be: counted and told, nothing is left behind", async (t) => {
    const folder = inFolder(t);
    const file = path.join(folder, "file");
    writeFileSync(file, "");
    const { exporter, stats } = makeExporter({ outDir: path.join(file, "profiles") });
    await exporter.export(makeBatch("shop", start));
    assert.deepEqual(stats.snapshot().dropped, { refused: 1 });
    assert.match(stats.snapshot().lastError, /writing to ".*": ENOTDIR/);
    if (process.getuid?.() !== 0) {
        chmodSync(folder, 0o500);
        const { exporter: other, stats: more } = makeExporter({ outDir: folder });
        await other.export(makeBatch("shop", start));
        assert.deepEqual(more.snapshot().dropped, { refused: 1 });
        chmodSync(folder, 0o700);
    }
    assert.deepEqual(readdirSync(folder), ["file"]);
    await exporter.shutdown(1000);
});

test("a function of the app gets what is masked", async () => {
    const seen = [];
    const { exporter, stats } = makeExporter({ exporter: (batch) => seen.push(batch) });
    const batch = makeBatch("shop", start);
    batch.resource.note = "token=abc";
    await exporter.export(batch);
    await exporter.export({ resource: {}, profiles: [] });
    await exporter.shutdown(1000);
    assert.equal(seen.length, 1);
    assert.equal(seen[0].resource.note, "token=***");
    assert.equal(seen[0].profiles[0].samples.length, 5);
    assert.equal(stats.snapshot().exported, 1);
});

test("an exporter that throws, rejects or never comes back", async () => {
    const fail = () => {
        throw new Error("no");
    };
    for (const own of [fail, async () => fail(), { export: fail, shutdown: fail }]) {
        const { exporter, stats } = makeExporter({ exporter: own });
        await exporter.export(makeBatch("shop", start));
        await exporter.shutdown(100);
        assert.deepEqual(stats.snapshot().dropped, { refused: 1 });
        assert.ok(stats.snapshot().errors >= 1);
        assert.match(stats.snapshot().lastError, /no/);
    }
    const never = { export: () => new Promise(() => {}), shutdown: () => new Promise(() => {}) };
    const { exporter } = makeExporter({ exporter: never });
    await exporter.export(makeBatch("shop", start));
    const from = performance.now();
    await exporter.shutdown(50);
    assert.ok(performance.now() - from < 2000);
});

test("a bad rule is told, and the others are in force", async () => {
    const seen = [];
    const { exporter, stats } = makeExporter({
        exporter: (batch) => seen.push(batch),
        mask: ["labels: /(/x/", "functions: /parse/p***/"],
    });
    assert.match(stats.snapshot().lastError, /mask rule "labels: \/\(\/x\/"/);
    await exporter.export(makeBatch("shop", start));
    assert.equal(seen[0].profiles[0].frames[1].name, "p***");
});

test("the log: levels, and no word twice in a row", () => {
    const lines = [];
    const log = createLog("error", (line) => lines.push(line));
    log.error("a");
    log.error("a");
    log.info("b");
    log.error("c");
    assert.deepEqual(lines, ["vesta: a\n", "vesta: c\n"]);
    createLog("error", () => {
        throw new Error("closed");
    }).error("a");
    createLog("silent", () => assert.fail()).error("a");
});
