// Frames of compiled files are shown where their maps say: real compilers, V8's own positions.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { beginSamples, cpuProfile, endSamples } from "../dist/esm/cpu.js";
import { readSourceMap } from "../dist/esm/source_map.js";
import { resolveFrames, sourceMapStats } from "../dist/esm/source_maps.js";
import { installed } from "./lib/packages.mjs";

const RESOLVER = fileURLToPath(new URL("../dist/cjs/source_maps.js", import.meta.url));
const require = createRequire(import.meta.url);
const ts = require("typescript");
const folder = mkdtempSync(path.join(tmpdir(), "vesta-maps-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const SOURCE = `
interface Item { price: number; }
type Prices = Record<string, number>;

/** Lines that are not in the output move everything below. */
export interface Order { items: Item[]; }

export function sumOfPrices(order: Order): number {
    let sum = 0;
    for (let round = 0; round < 3000; round++) {
        for (const item of order.items) sum += Math.sqrt(item.price + round);
    }
    return sum;
}

export const discountOf = (order: Order): number => {
    let cheap = 0;
    for (let round = 0; round < 3000; round++) {
        for (const item of order.items) cheap += Math.cbrt(item.price * round);
    }
    return cheap;
};
`;
const lineOf = (text) => SOURCE.split("\n").findIndex((line) => line.includes(text)) + 1;

const order = { items: Array.from({ length: 100 }, (_, price) => ({ price })) };

/** Profiles both functions of a compiled module and gives the resolved frames. */
async function framesOf(file) {
    const { sumOfPrices, discountOf } = require(file);
    const window = beginSamples(200);
    for (let round = 0; round < 20; round++) {
        sumOfPrices(order);
        discountOf(order);
    }
    const profile = cpuProfile(endSamples(window), true);
    await resolveFrames(profile);
    return profile.frames;
}

/** isWide: all of the file is one line, so only the function's own is known. */
function assertResolved(frames, source, isWide = false) {
    for (const [name, body] of [
        ["sumOfPrices", "Math.sqrt"],
        ["discountOf", "Math.cbrt"],
    ]) {
        const found = frames.filter((frame) => frame.name === name);
        assert.ok(found.length > 0, `${name} in ${frames.map((f) => `${f.name} ${f.file}`)}`);
        const start = lineOf(name);
        for (const frame of found) {
            assert.equal(frame.file, source);
            assert.equal(frame.startLine, start);
            assert.ok(frame.line >= start && frame.line <= start + 6, `line ${frame.line}`);
        }
        assert.ok(
            isWide || found.some((frame) => frame.line === lineOf(body)),
            `${name}: its line`,
        );
    }
}

function compiled(name, options) {
    const source = path.join(folder, `${name}.ts`);
    writeFileSync(source, SOURCE);
    const file = path.join(folder, `${name}.cjs`);
    const { outputText, sourceMapText } = ts.transpileModule(SOURCE, {
        fileName: source,
        compilerOptions: { module: "CommonJS", target: "ES2022", ...options },
    });
    return { source, file, text: outputText, map: sourceMapText };
}

test("a map beside the file", async () => {
    const { source, file, text, map } = compiled("beside", { sourceMap: true });
    writeFileSync(file, text.replace("beside.js.map", "maps%20of/../beside.js.map"));
    writeFileSync(path.join(folder, "beside.js.map"), map);
    assertResolved(await framesOf(file), source);
});

test("a map within the file", async () => {
    const { source, file, text } = compiled("within", { inlineSourceMap: true });
    writeFileSync(file, text);
    assertResolved(await framesOf(file), source);
});

test("an index map, with a source root", async () => {
    const { source, file, text, map } = compiled("index", { sourceMap: true });
    const before = "// a banner\n";
    const parts = [
        { offset: { line: 1, column: 0 }, map: { ...JSON.parse(map), sourceRoot: folder } },
    ];
    writeFileSync(file, before + text.replace("index.js.map", "index.map"));
    writeFileSync(
        path.join(folder, "index.map"),
        `)]}'\n${JSON.stringify({ version: 3, sections: parts })}`,
    );
    assertResolved(await framesOf(file), source);
});

test("a minified bundle: names, too", async (t) => {
    const esbuild = installed("esbuild-0.25", "esbuild@0.25.10", "terser@5.44.0");
    if (!esbuild) return t.skip("npm could not install esbuild");
    const source = path.join(folder, "bundle.ts");
    writeFileSync(source, SOURCE);
    const entry = path.join(folder, "entry.ts");
    writeFileSync(
        entry,
        `import { discountOf, sumOfPrices } from "./bundle.js";
        const both = { sumOfPrices: (o: any) => sumOfPrices(o), discountOf: (o: any) => discountOf(o) };
        export = both;`,
    );
    const build = createRequire(path.join(esbuild, "package.json"))("esbuild").buildSync;
    const file = path.join(folder, "bundle.cjs");
    const how = { bundle: true, minify: true, sourcemap: true, format: "cjs", platform: "node" };
    build({ entryPoints: [entry], outfile: file, ...how });
    const text = readFileSync(file, "utf8");
    assert.ok(!text.includes("function sumOfPrices") && text.trim().split("\n").length < 4);
    assertResolved(
        (await framesOf(file)).filter((frame) => frame.file === source),
        source,
        true,
    );
    const terser = path.join(esbuild, "node_modules/terser/bin/terser");
    const smaller = path.join(folder, "terser.cjs");
    const options = ["-c", "inline=0,reduce_funcs=false", "-m", "toplevel", "--source-map"];
    const mapped = `content='${file}.map',url='terser.cjs.map'`;
    execFileSync(process.execPath, [terser, file, ...options, mapped, "-o", smaller]);
    assert.ok(existsSync(smaller));
    assertResolved(
        (await framesOf(smaller)).filter((frame) => frame.file === source),
        source,
        true,
    );
});

test("what Node knows, of code that was never in a file", () => {
    const { source, text } = compiled("memory", { inlineSourceMap: true });
    const code = `
        const { Module } = require("node:module");
        const made = new Module(${JSON.stringify(source)});
        made._compile(${JSON.stringify(text)}, ${JSON.stringify(source)});
        const { resolveFrames } = require(${JSON.stringify(RESOLVER)});
        const line = ${text.split("\n").findIndex((row) => row.includes("function sumOfPrices")) + 1};
        const frame = { name: "sumOfPrices", file: ${JSON.stringify(source)}, line, column: 0,
            startLine: line, startColumn: 21, kind: "v8js" };
        resolveFrames({ frames: [frame] }).then(() => console.log(JSON.stringify(frame)));`;
    const out = execFileSync(process.execPath, ["--enable-source-maps", "-e", code]);
    const frame = JSON.parse(out);
    assert.deepEqual([frame.file, frame.line], [source, lineOf("sumOfPrices")]);
});

test("bad maps change nothing and are counted", async () => {
    const map = (mappings, more) =>
        JSON.stringify({ version: 3, sources: ["a.ts"], names: [], mappings, ...more });
    const bad = {
        json: "{",
        version: map("AAAA", { version: 2 }),
        digits: map("A!AA"),
        unicode: map("A\u00e9AA"),
        length: map("AA"),
        long: map("AAAAAA"),
        unfinished: map("AAAg"),
        nowhere: map("ACAA"),
        negative: map("AADA"),
        huge: map("AAggggggggggE"),
        order: map("KAAA,DAAA"),
        sections: '{"version":3,"sections":[{"offset":{"line":1e9,"column":0},"map":{}}]}',
        nothing: "null",
    };
    const { text } = compiled("bad", {});
    const counted = sourceMapStats().bad;
    for (const [name, content] of Object.entries(bad)) {
        const file = path.join(folder, `bad-${name}.cjs`);
        writeFileSync(file, `${text}\n//# sourceMappingURL=bad-${name}.map\n`);
        writeFileSync(path.join(folder, `bad-${name}.map`), content);
        const frame = { name: "f", file, line: 1, column: 1, startLine: 1, kind: "v8js" };
        await resolveFrames({ frames: [frame] });
        assert.equal(frame.file, file, name);
    }
    assert.equal(sourceMapStats().bad, counted + Object.keys(bad).length);

    const missing = path.join(folder, "missing.cjs");
    writeFileSync(missing, "1;\n//# sourceMappingURL=https://example.com/missing.map\n");
    const frame = { name: "f", file: missing, line: 1, column: 1, startLine: 1, kind: "v8js" };
    const before = sourceMapStats().missing;
    await resolveFrames({ frames: [frame, { ...frame, file: path.join(folder, "gone.cjs") }] });
    assert.equal(sourceMapStats().missing, before + 1);
});

test("maps are parsed in one go: that is counted, and large ones are left alone", async () => {
    let timed = 0;
    const resolve = async (name, size) => {
        const file = path.join(folder, `${name}.cjs`);
        writeFileSync(file, `1;\n//# sourceMappingURL=${name}.map\n`);
        const map = { version: 3, sources: ["a.ts"], names: [], mappings: "AAAA" };
        writeFileSync(path.join(folder, `${name}.map`), JSON.stringify(map).padEnd(size));
        const frame = { name: "f", file, line: 1, column: 1, startLine: 1, kind: "v8js" };
        await resolveFrames({ frames: [frame] }, (work) => {
            timed++;
            return work();
        });
        return path.basename(frame.file);
    };
    assert.deepEqual([await resolve("small", 0), timed], ["a.ts", 1]);
    assert.deepEqual([await resolve("large", (16 << 20) + 1), timed], ["large.cjs", 1]);
});

test("positions between, before and after mappings", async () => {
    const map = await readSourceMap(
        {
            version: 3,
            sources: ["a.ts", "webpack://shop/./b.ts", "/abs/c.ts", null],
            names: ["total"],
            mappings: ";EAAA,IAACA,G;ACEA;;",
        },
        "/app",
    );
    assert.equal(map.at(1, 0), undefined);
    assert.equal(map.at(2, 1), undefined);
    assert.deepEqual(map.firstOf(2, 1), { file: "/app/a.ts", line: 1, column: 0, name: "" });
    assert.deepEqual(map.at(2, 7), { file: "/app/a.ts", line: 1, column: 1, name: "total" });
    assert.equal(map.at(2, 9), undefined, "a mapping to no source");
    assert.equal(map.wordBefore(2, 8, 2), "total");
    assert.equal(map.wordBefore(2, 7, 2), undefined);
    assert.equal(map.at(3, 100).file, "webpack://shop/./b.ts");
    assert.equal(map.at(3, 100).line, 3);
    for (const line of [0, 4, 5, 1000]) assert.equal(map.at(line, 0), undefined);
});
