// Who a thread says it is, and the two clocks.
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { monotonicMicrosOf, syncClock, unixNanosOfMicros } from "../dist/esm/clock.js";
import { forgetInThread, instanceId, onceInThread, threadAttributes } from "../dist/esm/workers.js";

function askWorker(options) {
    const file = fileURLToPath(new URL("../dist/cjs/workers.js", import.meta.url));
    const code = `
        const { instanceId, threadAttributes } = require(${JSON.stringify(file)});
        require("node:worker_threads").parentPort.postMessage([instanceId(), threadAttributes()]);`;
    return new Promise((resolve, reject) => {
        const worker = new Worker(code, { eval: true, ...options });
        worker.once("message", resolve);
        worker.once("error", reject);
    });
}

test("threads share the instance and have names of their own, made of no data of the app", async () => {
    const mine = instanceId();
    assert.match(mine, /^[0-9a-f-]{36}$/);
    assert.equal(instanceId(), mine);
    assert.deepEqual(threadAttributes(), { "thread.id": 0, "thread.name": "main" });
    const [theirs, attributes] = await askWorker({ workerData: { name: "Ann" } });
    assert.equal(theirs, mine);
    assert.equal(attributes["thread.name"], `worker-${attributes["thread.id"]}`);
});

test("a thread has one of a thing until it is forgotten", () => {
    let made = 0;
    const make = () => ({ number: ++made });
    assert.equal(onceInThread("test", make), onceInThread("test", make));
    forgetInThread("test");
    assert.equal(onceInThread("test", make).number, 2);
    forgetInThread("test");
});

test("monotonic and Unix time are a fixed distance apart", () => {
    syncClock();
    const micros = Number(process.hrtime.bigint()) / 1000;
    const unix = unixNanosOfMicros(micros);
    assert.ok(Math.abs(Number(unix / 1000000n) - Date.now()) < 50);
    assert.ok(Math.abs(monotonicMicrosOf(unix) - micros) < 1);
});
