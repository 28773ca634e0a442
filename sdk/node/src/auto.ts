// Profiling with the environment alone: `node --import @vesta/node/auto app.js`, or --require.
// Worker threads and cluster workers inherit the option, so each profiles itself.
import { isMainThread } from "node:worker_threads";
import { start } from "./index.js";
import type { Handle } from "./options.js";
import { onceInThread } from "./workers.js";

const FLUSH_MILLIS = 2_000;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Sends the last window when the app has nothing left to do. It ends as it would have. */
function flushAtEnd(handle: Handle): void {
    process.once("beforeExit", () => void handle.stop(FLUSH_MILLIS));
}

/** Sends the last window when the app is asked to end. If nobody else listens, the signal then does
 * what it would have done; an app that listens ends when it likes, and the window is sent meanwhile. */
function flushOnSignal(handle: Handle, signal: NodeJS.Signals): void {
    const listener = (): void => {
        process.removeListener(signal, listener);
        const isOurs = process.listenerCount(signal) === 0;
        void handle.stop(FLUSH_MILLIS).finally(() => {
            if (isOurs && process.listenerCount(signal) === 0) process.kill(process.pid, signal);
        });
    };
    process.prependListener(signal, listener); // before those that listen once and are gone then
}

onceInThread("auto", () => {
    const handle = start();
    if (!handle.stats().enabled) return handle;
    flushAtEnd(handle);
    if (isMainThread) for (const signal of SIGNALS) flushOnSignal(handle, signal);
    return handle;
});
