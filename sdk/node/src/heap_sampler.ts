// V8's sampling heap profiler. An isolate has one, and it either forgets objects as they die (live
// heap) or keeps them (allocations), so those who want it take turns: a window of allocations
// interrupts the live heap, which begins anew after it and knows nothing of what was before. That is
// only for those who ask for both.
//
// Every reading makes V8 collect all garbage first (0.4 to 0.8 ms for a MB of live heap), so readings
// are rare and estimated first (heap_pause.ts); dropping samples unread costs nothing.
import type { V8CallFrame } from "./profile_from_v8.js";
import { openV8, type V8 } from "./session.js";
import { goodInterval } from "./unsample.js";
import { onceInThread } from "./workers.js";

export interface V8HeapNode {
    id: number;
    callFrame: V8CallFrame;
    selfSize: number;
    children: V8HeapNode[];
}

export interface V8HeapProfile {
    head: V8HeapNode;
    samples: { size: number; nodeId: number; ordinal: number }[];
}

export interface HeapReading {
    v8: V8HeapProfile;
    intervalBytes: number;
    /** Objects allocated from here to there. Microseconds of process.hrtime. */
    fromMicros: number;
    toMicros: number;
}

export interface LiveHeap {
    /** As it is now. */
    read(): HeapReading | undefined;
    close(): void;
}

export interface AllocationWindow {
    /** The window is over then. */
    read(): HeapReading;
    close(): void;
}

interface Sampler {
    live: { intervalBytes: number } | undefined;
    allocating: boolean;
    v8: V8 | undefined;
    leaveDomain: (() => void) | undefined;
    sampling: { intervalBytes: number; fromMicros: number } | undefined;
    /** The live heap as it was when a window of allocations began. */
    interrupted: HeapReading | undefined;
}

function sampler(): Sampler {
    return onceInThread<Sampler>("heap_sampler", () => ({
        live: undefined,
        allocating: false,
        v8: undefined,
        leaveDomain: undefined,
        sampling: undefined,
        interrupted: undefined,
    }));
}

function nowMicros(): number {
    return Number(process.hrtime.bigint() / 1000n);
}

/** Objects that died count, too, from Node 20 on: older ones of V8 forget them. */
export const seesDeadObjects = Number(process.versions.v8.split(".")[0]) >= 11;

export function isLiveHeapOn(): boolean {
    return sampler().live !== undefined;
}

export function beginLiveHeap(intervalBytes: number): LiveHeap {
    const shared = sampler();
    if (shared.live) throw new Error("the live heap is being sampled already");
    shared.live = { intervalBytes: goodInterval(intervalBytes) };
    try {
        if (!shared.allocating) startSampling(shared, shared.live.intervalBytes, false);
    } catch (error) {
        shared.live = undefined;
        close(shared);
        throw error;
    }
    return {
        read: () => readLive(shared),
        close() {
            if (!shared.live) return;
            shared.live = undefined;
            shared.interrupted = undefined;
            if (!shared.allocating) close(shared);
        },
    };
}

export function beginAllocations(intervalBytes: number): AllocationWindow {
    const shared = sampler();
    if (shared.allocating) throw new Error("allocations are being sampled already");
    if (shared.sampling) shared.interrupted = stopSampling(shared);
    shared.allocating = true;
    try {
        startSampling(shared, goodInterval(intervalBytes), true);
    } catch (error) {
        endAllocations(shared);
        throw error;
    }
    let open = true;
    const end = (): void => {
        if (open) endAllocations(shared);
        open = false;
    };
    return {
        read() {
            try {
                return stopSampling(shared);
            } finally {
                end();
            }
        },
        close: end,
    };
}

function endAllocations(shared: Sampler): void {
    shared.allocating = false;
    drop(shared);
    if (shared.live) startSampling(shared, shared.live.intervalBytes, false);
    else close(shared);
}

/** The one that reaches back further: what is sampled now, or what was interrupted. Undefined where
 * there is nothing new, as in a window of allocations. */
function readLive(shared: Sampler): HeapReading | undefined {
    const { interrupted, sampling, v8 } = shared;
    shared.interrupted = undefined;
    const now = nowMicros();
    const age = sampling && !shared.allocating ? now - sampling.fromMicros : 0;
    if (interrupted && interrupted.toMicros - interrupted.fromMicros > age) return interrupted;
    if (age === 0 || !sampling || !v8) return undefined;
    const { profile } = v8.post<{ profile: V8HeapProfile }>("HeapProfiler.getSamplingProfile");
    return { v8: profile, ...sampling, toMicros: now };
}

function startSampling(shared: Sampler, intervalBytes: number, keepDead: boolean): void {
    shared.v8 ??= openV8();
    shared.leaveDomain ??= shared.v8.use("HeapProfiler");
    shared.v8.post("HeapProfiler.startSampling", {
        samplingInterval: intervalBytes,
        includeObjectsCollectedByMajorGC: keepDead,
        includeObjectsCollectedByMinorGC: keepDead,
    });
    shared.sampling = { intervalBytes, fromMicros: nowMicros() };
}

function stopSampling(shared: Sampler): HeapReading {
    const { v8, sampling } = shared;
    if (!v8 || !sampling) throw new Error("the heap is not being sampled");
    const toMicros = nowMicros();
    const { profile } = v8.post<{ profile: V8HeapProfile }>("HeapProfiler.stopSampling");
    shared.sampling = undefined;
    return { v8: profile, ...sampling, toMicros };
}

/** Leaving the domain ends sampling without a reading. */
function drop(shared: Sampler): void {
    if (!shared.sampling) return;
    shared.sampling = undefined;
    shared.leaveDomain?.();
    shared.leaveDomain = undefined;
    try {
        shared.v8?.post("HeapProfiler.stopSampling");
    } catch {
        // As it should be. It would go on if a snapshot were being taken just now.
    }
}

function close(shared: Sampler): void {
    drop(shared);
    shared.leaveDomain?.();
    shared.leaveDomain = undefined;
    shared.v8?.release();
    shared.v8 = undefined;
}
