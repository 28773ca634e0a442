// The package as people get it: packed, installed into an empty folder, used from ES modules, from
// CommonJS, from TypeScript and by --import.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), "vesta-pack-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const run = (program, args, env = {}) =>
    execFileSync(program, args, {
        cwd: folder,
        encoding: "utf8",
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
    });

const START = `
    const batches = [];
    const handle = start({ enabled: true, serviceName: "packed", exporter: (b) => { batches.push(b); } });
    for (let i = 0; i < 2e6; i++) Math.sqrt(i);
    handle.stop().then(() => {
        const kinds = batches.flatMap((batch) => batch.profiles.map((profile) => profile.kind));
        console.log(batches[0].resource["service.name"], kinds.includes("cpu"), handle.stats().errors);
    });`;

before(() => {
    // Scripts would build dist again, under the other tests.
    const packed = execFileSync(
        "npm",
        ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder],
        { cwd: PACKAGE, encoding: "utf8" },
    );
    writeFileSync(path.join(folder, "package.json"), '{ "name": "consumer", "private": true }\n');
    const tarball = path.join(folder, packed.trim().split("\n").at(-1));
    run("npm", ["install", "--no-save", "--silent", "--offline", "--no-audit", tarball]);
});

test("only what runs is in it, and nothing comes along", () => {
    assert.deepEqual(
        readdirSync(path.join(folder, "node_modules")).filter((name) => name[0] !== "."),
        ["@vesta"],
    );
    const files = readdirSync(path.join(folder, "node_modules/@vesta/node"));
    assert.deepEqual(files.sort(), ["LICENSE", "README.md", "dist", "package.json"]);
});

test("from an ES module", () => {
    writeFileSync(path.join(folder, "app.mjs"), `import { start } from "@vesta/node";${START}`);
    assert.equal(run(process.execPath, ["app.mjs"]), "packed true 0\n");
});

test("from CommonJS", () => {
    writeFileSync(
        path.join(folder, "app.cjs"),
        `const { start } = require("@vesta/node");${START}`,
    );
    assert.equal(run(process.execPath, ["app.cjs"]), "packed true 0\n");
});

for (const option of ["--import", "--require"]) {
    test(`by ${option} and the environment`, () => {
        writeFileSync(
            path.join(folder, "plain.cjs"),
            "for (let i = 0; i < 2e6; i++) Math.sqrt(i);",
        );
        const outDir = path.join(folder, `profiles${option}`);
        const env = { ENABLE_PROFILING: "1", VESTA_OUT_DIR: outDir };
        run(process.execPath, [option, "@vesta/node/auto", "plain.cjs"], env);
        assert.ok(readdirSync(outDir).some((file) => /^cpu-.*\.pb\.gz$/.test(file)));
    });
}

const USE = `
    import "@vesta/node/auto";
    import { type Batch, type Handle, start, startHeapSampling } from "@vesta/node";
    declare const queue: { publish(batch: Batch): Promise<string> };
    const handle: Handle = start({ enabled: true, exporter: (batch: Batch) => void batch.profiles });
    startHeapSampling({ intervalMillis: 1000 });
    start({ cpu: true, wall: false, eventLoop: true, exporter: (batch) => queue.publish(batch) });
    start({ cpu: { lineNumbers: false, shouldProfile: () => true }, eventLoop: { thresholdMillis: 5 } });
    start({ exporter: { async export() {} }, allocations: { maxPauseMillis: 10 } });
    start({ exporter: { export: (batch) => queue.publish(batch), shutdown: () => 1 } });
    // @ts-expect-error: options are checked
    start({ enabled: "yes" });
    // @ts-expect-error: one for all profilers
    start({ cpu: { exporter: () => {} } });
    // @ts-expect-error: not of this profiler
    start({ eventLoop: { samplingIntervalMicros: 5 } });
    export const windows: number = handle.stats().windows;\n`;

const resolutions = {
    node16: ["app.mts", "app.cts", "--module", "Node16", "--moduleResolution", "Node16"],
    bundler: ["app.ts", "--module", "ESNext", "--moduleResolution", "Bundler"],
    node10: [
        ...["app.ts", "--module", "CommonJS", "--moduleResolution", "Node10"],
        ...["--ignoreDeprecations", "5.0"],
    ],
};

for (const [name, options] of Object.entries(resolutions)) {
    test(`types are found and say what the code does: ${name}`, () => {
        const require = createRequire(import.meta.url);
        const types = path.dirname(require.resolve("@types/node/package.json"));
        const place = path.join(folder, "node_modules/@types");
        mkdirSync(place, { recursive: true });
        rmSync(path.join(place, "node"), { force: true });
        symlinkSync(types, path.join(place, "node"));
        for (const file of ["app.mts", "app.cts", "app.ts"]) {
            writeFileSync(path.join(folder, file), USE);
        }
        const strict = ["--strict", "--skipLibCheck", "--noEmit", "--target", "ES2022"];
        const tsc = require.resolve("typescript/bin/tsc");
        assert.equal(run(process.execPath, [tsc, ...strict, "--types", "node", ...options]), "");
    });
}
