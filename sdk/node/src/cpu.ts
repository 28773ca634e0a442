// CPU and wall time from V8's samples of a window. A sample stands for the time half-way to its
// neighbours, so all of the window is given out and none of it twice.
import { syncClock, unixNanosOfMicros } from "./clock.js";
import { beginCpuRun, type CpuRun, type V8CpuNode, type V8CpuProfile } from "./cpu_sampler.js";
import type { Profile, Sample } from "./model.js";
import { emptyProfile, frameOf, type StackBuilder, stackBuilder } from "./profile_from_v8.js";
import { threadCpuNanos } from "./thread_cpu.js";

export interface SampleWindow {
    run: CpuRun;
    cpuNanosAtStart: number | undefined;
}

/** What V8 saw in a window, with a time and a weight for every sample. */
export interface Slice {
    v8: V8CpuProfile;
    intervalMicros: number;
    startMicros: number;
    endMicros: number;
    /** Of the samples; those of weight 0 count for nothing. */
    micros: Float64Array;
    weights: Float64Array; // microseconds
    nodes: Map<number, V8CpuNode>;
    /** What the thread really used, where the system tells. */
    cpuNanos: number | undefined;
}

export function beginSamples(intervalMicros: number): SampleWindow {
    const run = beginCpuRun(intervalMicros);
    return { run, cpuNanosAtStart: threadCpuNanos() };
}

/** untilMicros: where the next window began, if that was before this one ended. */
export function endSamples(window: SampleWindow, untilMicros = Number.POSITIVE_INFINITY): Slice {
    const cpuNow = threadCpuNanos();
    const v8 = window.run.end();
    if (!v8?.samples || !v8.timeDeltas) throw new Error("the window was ended by somebody else");
    syncClock();
    const began = window.cpuNanosAtStart;
    return sliceOf(
        v8,
        window.run.intervalMicros,
        untilMicros,
        began === undefined || cpuNow === undefined ? undefined : cpuNow - began,
    );
}

export function sliceOf(
    v8: V8CpuProfile,
    intervalMicros: number,
    untilMicros: number,
    cpuNanos: number | undefined,
): Slice {
    const deltas = v8.timeDeltas ?? [];
    const count = Math.min(deltas.length, v8.samples?.length ?? 0);
    const micros = new Float64Array(count);
    let at = v8.startTime;
    for (let i = 0; i < count; i++) {
        at += deltas[i] as number;
        // V8 may write a sample that was taken later first.
        micros[i] = i > 0 ? Math.max(at, micros[i - 1] as number) : at;
    }
    // The first sample is V8's own, of the call that began the window.
    const startMicros = count > 0 ? (micros[0] as number) : v8.startTime;
    const endMicros = Math.max(startMicros, Math.min(v8.endTime, untilMicros));
    return {
        v8,
        intervalMicros,
        startMicros,
        endMicros,
        micros,
        weights: weightsOf(micros, startMicros, endMicros),
        nodes: new Map(v8.nodes.map((node) => [node.id, node])),
        cpuNanos,
    };
}

function weightsOf(micros: Float64Array, start: number, end: number): Float64Array {
    const weights = new Float64Array(micros.length);
    let lower = start;
    for (let i = 1; i < micros.length; i++) {
        const next = micros[i + 1];
        const middle = next === undefined ? end : ((micros[i] as number) + next) / 2;
        const upper = Math.min(end, middle);
        weights[i] = Math.max(0, upper - lower);
        lower = Math.max(lower, upper);
    }
    return weights;
}

export function isIdle(node: V8CpuNode): boolean {
    return node.callFrame.url === "" && node.callFrame.functionName === "(idle)";
}

/** Samples that are not idle. Their time is wall time, in which the thread may have waited for a core
 * or in a call that blocks, so it is brought to what the thread really used. */
export function cpuProfile(slice: Slice, lineNumbers: boolean): Profile {
    const { cpuNanos, intervalMicros } = slice;
    const all = sumOf(slice, isBusy);
    // A sample long after the one before does not stand for more work: the thread, or the one that
    // takes samples, had no core.
    const most = cpuNanos === undefined ? Number.POSITIVE_INFINITY : 2 * intervalMicros;
    const busy = sumOf(slice, isBusy, most);
    const used = cpuNanos === undefined ? busy : Math.min(cpuNanos / 1000, maxCorrection * all);
    const factors = cpuFactors(busy, sumOf(slice, mayWait, most), used);
    const profile = timeProfile(slice, "cpu", lineNumbers, (node, weight) => {
        if (!isBusy(node)) return 0;
        return Math.min(weight, most) * (mayWait(node) ? factors.waiting : factors.working);
    });
    profile.attributes["nodejs.thread.busy_ratio"] = ratio(
        all,
        slice.endMicros - slice.startMicros,
    );
    return profile;
}

function isBusy(node: V8CpuNode): boolean {
    return !isIdle(node);
}

/** Few samples may have missed work; many times what they saw would be a guess. */
const maxCorrection = 2;
/** What the clocks do not agree on anyway. */
const tolerance = 0.05;

/** What the thread did not use is taken from calls that may wait, and if that is not enough, from all
 * alike. Exported for tests. */
export function cpuFactors(
    busy: number,
    waiting: number,
    used: number,
): { working: number; waiting: number } {
    if (busy <= 0) return { working: 1, waiting: 1 };
    const alike = used / busy;
    const working = busy - waiting;
    if (waiting === 0 || working === 0 || used > busy * (1 - tolerance)) {
        return { working: alike, waiting: alike };
    }
    if (used >= working) return { working: 1, waiting: (used - working) / waiting };
    return { working: used / working, waiting: 0 };
}

/** Calls in which a thread stands still more than it works. */
function mayWait({ callFrame: { functionName, url } }: V8CpuNode): boolean {
    if (url === "") return functionName === "wait" || functionName === "spawn"; // Atomics, spawnSync
    if (url === "node:internal/child_process") return functionName === "spawnSync";
    return url === "node:fs" && functionName.endsWith("Sync");
}

export function wallProfile(slice: Slice, lineNumbers: boolean): Profile {
    return timeProfile(slice, "wall", lineNumbers, (_node, weight) => weight);
}

export function ratio(part: number, whole: number): number {
    return whole > 0 ? Math.round((part / whole) * 1e4) / 1e4 : 0;
}

function sumOf(
    slice: Slice,
    wanted: (node: V8CpuNode) => boolean,
    most = Number.POSITIVE_INFINITY,
): number {
    let sum = 0;
    forEachSample(slice, (node, weight) => {
        if (wanted(node)) sum += Math.min(weight, most);
    });
    return sum;
}

/** Those of the window only, in the order of time. */
export function forEachSample(
    slice: Slice,
    visit: (node: V8CpuNode, weightMicros: number, index: number) => void,
): void {
    const ids = slice.v8.samples ?? [];
    for (let i = 1; i < slice.micros.length; i++) {
        const node = slice.nodes.get(ids[i] as number);
        const weight = slice.weights[i] as number;
        if (node && weight > 0) visit(node, weight, i);
    }
}

function timeProfile(
    slice: Slice,
    kind: "cpu" | "wall",
    lineNumbers: boolean,
    microsOf: (node: V8CpuNode, weight: number) => number,
): Profile {
    const profile = emptyTimeProfile(slice, kind, kind);
    profile.sampleTypes.push({ type: "samples", unit: "count" });
    const stackOf = stacksOf(slice, stackBuilder(profile), lineNumbers);
    forEachSample(slice, (node, weight, index) => {
        const micros = microsOf(node, weight);
        if (micros <= 0) return;
        const sample: Sample = {
            stack: stackOf(node),
            values: [Math.round(micros * 1000), 1],
            timeUnixNanos: unixNanosOfMicros(slice.micros[index] as number),
        };
        profile.samples.push(sample);
    });
    return profile;
}

export function emptyTimeProfile(slice: Slice, kind: Profile["kind"], type: string): Profile {
    const start = unixNanosOfMicros(slice.startMicros);
    const profile = emptyProfile(
        kind,
        [{ type, unit: "nanoseconds" }],
        type,
        start,
        unixNanosOfMicros(slice.endMicros) - start,
    );
    profile.periodType = { type, unit: "nanoseconds" };
    profile.period = slice.intervalMicros * 1000;
    return profile;
}

/** Finds the stack of a sample of a node. V8 counts the lines of a node that were hit, but does not
 * say in which sample: the lines are handed out in turn, so that their sums are right. */
export function stacksOf(
    slice: Slice,
    builder: StackBuilder,
    lineNumbers: boolean,
): (node: V8CpuNode) => number {
    const parents = new Map<number, V8CpuNode>();
    for (const node of slice.v8.nodes) {
        for (const child of node.children ?? []) parents.set(child, node);
    }
    const known = new Map<number, number>();
    const callerStack = (node: V8CpuNode | undefined): number => {
        if (!node || !parents.has(node.id)) return 0; // (root)
        let stack = known.get(node.id);
        if (stack === undefined) {
            stack = builder.push(callerStack(parents.get(node.id)), frameOf(node.callFrame));
            known.set(node.id, stack);
        }
        return stack;
    };
    const given = new Map<number, number>();
    return (node) => {
        const ticks = lineNumbers ? node.positionTicks : undefined;
        if (!ticks?.length || node.callFrame.url === "") return callerStack(node);
        const turn = given.get(node.id) ?? 0;
        given.set(node.id, turn + 1);
        return builder.push(
            callerStack(parents.get(node.id)),
            frameOf(node.callFrame, lineOfTurn(ticks, turn)),
        );
    };
}

function lineOfTurn(ticks: { line: number; ticks: number }[], turn: number): number {
    let left = turn % ticks.reduce((sum, { ticks: n }) => sum + n, 0);
    for (const { line, ticks: n } of ticks) {
        if (left < n) return line;
        left -= n;
    }
    return 0;
}
