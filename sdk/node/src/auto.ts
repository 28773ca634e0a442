// Profiling with the environment alone: `node --import @vesta/node/auto app.js`, or --require.
// Worker threads and cluster workers inherit the option, so each profiles itself.
import { isMainThread } from "node:worker_threads";
import { aBoolean } from "./config_values.js";
import { start } from "./index.js";
import type { Handle } from "./options.js";
import { onceInThread } from "./workers.js";

const FLUSH_MILLIS = 2_000;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

type Emit = (name: string | symbol, ...args: unknown[]) => boolean;

/** Sends the last window when the app has nothing left to do. It ends as it would have. Node says
 * "beforeExit" again after every work that follows it, so as a listener we would make the app's
 * listeners run twice: the first one is ours alone, and theirs is the one after it. */
function flushAtEnd(handle: Handle): void {
    const holder = process as unknown as { emit: Emit };
    const emit = holder.emit;
    let isFlushed = false;
    holder.emit = function (this: NodeJS.Process, name, ...args) {
        if (name !== "beforeExit" || isFlushed) return emit.call(this, name, ...args);
        isFlushed = true;
        setImmediate(() => {}); // there is a next one, even if there was nothing to send
        void handle.stop(FLUSH_MILLIS);
        return true;
    };
}

/** Sends the last window when the app is asked to end. If nobody else listens, the signal then does
 * what it would have done; an app that listens ends when it likes, and the window is sent meanwhile. */
function flushOnSignal(handle: Handle, signal: NodeJS.Signals): void {
    let wasRemoved = false; // a moment ago: a listener for one time that came before us
    const watch = (event: string | symbol, removed: unknown): void => {
        if (event !== signal || removed === listener) return;
        wasRemoved = true;
        process.nextTick(() => {
            wasRemoved = false;
        });
    };
    const listener = (): void => {
        process.removeListener("removeListener", watch);
        process.removeListener(signal, listener);
        const isOurs = process.listenerCount(signal) === 0 && !wasRemoved;
        void handle.stop(FLUSH_MILLIS).finally(() => {
            if (isOurs && process.listenerCount(signal) === 0) process.kill(process.pid, signal);
        });
    };
    process.on("removeListener", watch);
    process.prependListener(signal, listener); // before those that listen once and are gone then
}

onceInThread("auto", () => {
    const handle = start();
    if (!handle.stats().enabled) return handle;
    flushAtEnd(handle);
    const isWanted = aBoolean.read(process.env.VESTA_SIGNALS) ?? true;
    if (isMainThread && isWanted) for (const signal of SIGNALS) flushOnSignal(handle, signal);
    return handle;
});
