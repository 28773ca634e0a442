// An app for --import and --require: says what happens to it, and ends as it is told.
import { isMainThread, Worker } from "node:worker_threads";

const [, , how] = process.argv;
const busy = (millis) => {
    for (const end = performance.now() + millis; performance.now() < end; ) Math.sqrt(end);
};
busy(30);
if (how === "code") process.exitCode = 7;
if (how === "wait" || how === "listen") setInterval(() => busy(5), 20);
if (how === "listen") {
    process.once("SIGTERM", () => {
        setTimeout(() => process.exit(5), 50);
    });
}
if (how === "worker" && isMainThread) {
    new Worker(new URL(import.meta.url), { argv: ["worker"], workerData: { name: "pool" } });
}
console.log(isMainThread ? "main runs" : "worker runs");
