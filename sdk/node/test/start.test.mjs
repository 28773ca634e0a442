// A guest in the app: what start() and stop() take, and words that nobody reads.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { start, startContinuousCPUProfiling } from "../dist/esm/index.js";
import { frameOf } from "../dist/esm/profile_from_v8.js";
import { wordsOf } from "../dist/esm/stats.js";
import { collector, quiet } from "./lib/programs.mjs";

const INDEX = fileURLToPath(new URL("../dist/cjs/index.js", import.meta.url));

test("words to a standard error that is closed do not end the app", async () => {
    const code = `
        const { start } = require(${JSON.stringify(INDEX)});
        process.stdin.once("data", () => {
            const handle = start({ enabled: true, outDir: "/dev/null/none", noSuchOption: 1 });
            handle.stop().then(() => setTimeout(() => process.stdout.write("alive"), 20));
            process.stdin.destroy();
        });
        process.stdout.write("ready ");`;
    const child = spawn(process.execPath, ["-e", code], { stdio: "pipe" });
    child.stderr.destroy();
    let out = "";
    child.stdout.on("data", (text) => {
        if (out === "") child.stdin.write("go");
        out += text;
    });
    child.stdin.on("error", () => {});
    const [status] = await once(child, "close");
    assert.deepEqual([out, status], ["ready alive", 0]);
});

test("stop as the listener of a signal sends as ever", async () => {
    for (const timeout of ["SIGTERM", Number.NaN, Number.POSITIVE_INFINITY, 1e12]) {
        const got = collector();
        const handle = startContinuousCPUProfiling({ ...quiet, exporter: got.exporter });
        await handle.stop(timeout);
        assert.equal(got.profiles.length, 1, String(timeout));
    }
});

test("options that throw when they are read do not throw into the app", async () => {
    const options = {
        get enabled() {
            throw new Error("no flags yet");
        },
    };
    const handle = start(options);
    assert.equal(handle.stats().enabled, false);
    assert.match(handle.stats().lastError, /no flags yet/);
    await handle.stop();
    assert.equal(wordsOf(Object.create(null)), "an error without words");
});

test("of addresses of code, what may be contents is left out", () => {
    const fileOf = (url) =>
        frameOf({ functionName: "f", scriptId: "1", url, lineNumber: 0, columnNumber: 0 }).file;
    assert.equal(fileOf("data:text/javascript,const key = 's3cret'"), "data:");
    assert.equal(
        fileOf("https://cdn.example/a.mjs?token=s3cret#x\ny"),
        "https://cdn.example/a.mjs",
    );
    assert.equal(fileOf("file:///app/a%20b.mjs?t=1"), "/app/a b.mjs");
    assert.equal(fileOf("/app/what?#.js"), "/app/what?#.js");
    assert.equal(fileOf("node:net"), "node:net");
});

/** A Node without an inspector: to load it throws. */
const WITHOUT = {
    cjs: `const Module = require("node:module");
        const load = Module._load;
        Module._load = (name, ...rest) => {
            if (/^(node:)?inspector$/.test(name)) throw new Error("no inspector here");
            return load(name, ...rest);
        };`,
    esm: `import { register } from "node:module";
        register("data:text/javascript,export function resolve(name, context, next) {" +
            "if (name === 'node:inspector') throw new Error('no inspector here');" +
            "return next(name, context); }");`,
};

test("a Node without inspector runs the app, and profiling says what is missing", () => {
    const code = (load) => `
        ${load}.then(async ({ start }) => {
            console.log(start().stats().errors);
            const handle = start({ enabled: true, logLevel: "silent", exporter() {} });
            console.log(handle.stats().errors > 0, handle.stats().lastError);
            await handle.stop();
        });`;
    const run = (type, before, load) =>
        spawnSync(process.execPath, [`--input-type=${type}`, "-e", before + code(load)], {
            encoding: "utf8",
        });
    const required = `Promise.resolve(require(${JSON.stringify(INDEX)}))`;
    const { stdout, stderr } = run("commonjs", WITHOUT.cjs, required);
    assert.match(`${stdout}${stderr}`, /^0\ntrue .*no inspector here\n$/);
    const imported = `import(${JSON.stringify(new URL("../dist/esm/index.js", import.meta.url).href)})`;
    const esm = run("module", WITHOUT.esm, imported);
    assert.match(esm.stdout, /^0\n/, esm.stderr);
});

test("timers do not keep the request alive in which profiling was started", () => {
    const code = `
        const { AsyncLocalStorage } = require("node:async_hooks");
        const { start } = require(${JSON.stringify(INDEX)});
        const storage = new AsyncLocalStorage();
        let request = { body: "" };
        const kept = new WeakRef(request);
        let handle;
        storage.run(request, () => {
            handle = start({ enabled: true, exporter() {}, heap: true });
        });
        request = undefined;
        const until = Date.now() + 10_000;
        const look = () => {
            gc();
            if (kept.deref() && Date.now() < until) return setTimeout(look, 20);
            console.log(kept.deref() === undefined);
            process.exit();
        };
        setTimeout(look, 20);`;
    const { stdout } = spawnSync(process.execPath, ["--expose-gc", "-e", code], {
        encoding: "utf8",
    });
    assert.equal(stdout, "true\n");
});
