// A guest in the app: what start() and stop() take, and words that nobody reads.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
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
