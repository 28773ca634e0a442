// An app for --import and --require: says what happens to it, and ends as it is told.
import cluster from "node:cluster";
import { readdirSync } from "node:fs";
import { isMainThread, Worker } from "node:worker_threads";

const [, , how] = process.argv;
const busy = (millis) => {
    for (const end = performance.now() + millis; performance.now() < end; ) Math.sqrt(end);
};

/** Ends the app its own way, once the CPU profile is there. */
function endWhenSent(millisLater = 0) {
    const { VESTA_OUT_DIR } = process.env;
    const isSent = () => {
        try {
            return readdirSync(VESTA_OUT_DIR).some((file) => /^cpu-.*gz$/.test(file));
        } catch {
            return false;
        }
    };
    setInterval(() => isSent() && setTimeout(() => process.exit(5), millisLater), 10);
}

busy(30);
if (how === "code") process.exitCode = 7;
if (how === "wait" || how === "listen") setInterval(() => busy(5), 20);
if (how === "prepend") {
    setInterval(() => {}, 1000);
    process.prependOnceListener("SIGTERM", () => endWhenSent(300)); // there is more to finish
}
if (how === "stuck") {
    console.log("main runs");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
if (how === "before-exit") {
    process.on("beforeExit", () => console.log("beforeExit"));
}
if (how === "listen") process.once("SIGTERM", () => endWhenSent());
if (how === "worker" && isMainThread) {
    new Worker(new URL(import.meta.url), { argv: ["worker"], workerData: { name: "pool" } });
}
if (how === "cluster" && cluster.isPrimary) {
    for (let i = 0; i < 2; i++) cluster.fork();
}
if (cluster.isWorker) cluster.worker.disconnect();
console.log(isMainThread ? "main runs" : "worker runs");
