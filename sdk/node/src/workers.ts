// Threads and processes: every thread profiles itself where the package is started in it, and says
// which it is.
import cluster from "node:cluster";
import { randomUUID } from "node:crypto";
import {
    getEnvironmentData,
    isMainThread,
    setEnvironmentData,
    threadId,
} from "node:worker_threads";
import type { Attributes } from "./model.js";

const INSTANCE = "vesta.service.instance.id";

/** service.instance.id: one for a process and its worker threads, another for every cluster worker
 * (environment data is handed to threads, never to processes). */
export function instanceId(): string {
    const known = getEnvironmentData(INSTANCE);
    if (typeof known === "string") return known;
    const made = randomUUID();
    setEnvironmentData(INSTANCE, made);
    return made;
}

/** For the attributes of a profile: thread.id, thread.name and, in a cluster, the worker's number. */
export function threadAttributes(): Attributes {
    const name = isMainThread ? "main" : `worker-${threadId}`; // its data are the app's
    const found: Attributes = { "thread.id": threadId, "thread.name": name };
    if (cluster.worker) found["nodejs.cluster.worker.id"] = cluster.worker.id;
    return found;
}

/** One value for a thread, though the package may be loaded twice (as ES module and as CommonJS, by
 * --import and by the app): made by whoever comes first. */
export function onceInThread<T>(key: string, make: () => T): T {
    const shared = globalThis as unknown as Record<symbol, T | undefined>;
    const symbol = Symbol.for(`vesta.node.${key}`);
    const known = shared[symbol];
    if (known !== undefined) return known;
    const made = make();
    shared[symbol] = made;
    return made;
}

/** After this, onceInThread makes a new one. */
export function forgetInThread(key: string): void {
    delete (globalThis as unknown as Record<symbol, unknown>)[Symbol.for(`vesta.node.${key}`)];
}
