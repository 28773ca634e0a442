// Who blocked the event loop, and for how long: the times at which the loop's clock was late, joined
// to the samples that V8 took meanwhile.
import { unixNanosOfMicros } from "./clock.js";
import { emptyTimeProfile, forEachSample, isIdle, ratio, type Slice, stacksOf } from "./cpu.js";
import type { V8CpuNode } from "./cpu_sampler.js";
import type { Lateness, LoopReport } from "./loop_watch.js";
import type { Attributes, Profile, Sample } from "./model.js";
import { frameOf, type StackBuilder, stackBuilder } from "./profile_from_v8.js";

interface Block {
    startMicros: number;
    endMicros: number;
    first: number; // of the samples
    last: number;
}

export function eventLoopProfile(
    slice: Slice,
    report: LoopReport,
    thresholdMillis: number,
    lineNumbers: boolean,
): Profile {
    const profile = emptyTimeProfile(slice, "event_loop", "event_loop_delay");
    profile.sampleTypes.push({ type: "event_loop_blocks", unit: "count" });
    const builder = stackBuilder(profile);
    const stackOf = stacksOf(slice, builder, lineNumbers);
    const rootOf = rootsOf(slice);
    const blocks = report.late.map((late) => blockOf(slice, late, rootOf));
    for (const { fromMicros, toMicros } of report.sparse) {
        blocks.push(...workIn(slice, fromMicros, toMicros, rootOf));
    }
    for (const block of blocks) {
        if (block && block.endMicros - block.startMicros >= thresholdMillis * 1000) {
            profile.samples.push(...samplesOf(slice, block, rootOf, stackOf, builder));
        }
    }
    profile.attributes = lagAttributes(report, utilizationOf(slice));
    return profile;
}

/** Names of OpenTelemetry's runtime metrics, in seconds. */
function lagAttributes({ lag }: LoopReport, utilization: number): Attributes {
    if (lag.count === 0) return {};
    const seconds = (nanos: number): number => Math.round(nanos / 1000) / 1e6;
    return {
        "nodejs.eventloop.delay.p50": seconds(lag.percentile(50)),
        "nodejs.eventloop.delay.p90": seconds(lag.percentile(90)),
        "nodejs.eventloop.delay.p99": seconds(lag.percentile(99)),
        "nodejs.eventloop.delay.max": seconds(lag.max),
        "nodejs.eventloop.delay.mean": seconds(lag.mean),
        "nodejs.eventloop.utilization": utilization,
    };
}

/** By samples: perf_hooks counts far too much while V8 takes samples (loop_watch.ts). */
function utilizationOf(slice: Slice): number {
    let busy = 0;
    let all = 0;
    forEachSample(slice, (node, weight) => {
        all += weight;
        if (!isIdle(node)) busy += weight;
    });
    return ratio(busy, all);
}

function nodeOf(slice: Slice, index: number): V8CpuNode | undefined {
    return slice.nodes.get(slice.v8.samples?.[index] as number);
}

/** Garbage is collected in the midst of anything: such a sample does not say who is at work. */
function isAtWork(slice: Slice, index: number): boolean {
    const node = nodeOf(slice, index);
    return node !== undefined && !isIdle(node) && !isGarbageCollector(node);
}

function isGarbageCollector(node: V8CpuNode | undefined): boolean {
    return node?.callFrame.url === "" && node.callFrame.functionName === "(garbage collector)";
}

/** The loop was blocked for all the time that the clock was due, and for a part of the time before:
 * as far back as samples show the same callback at work. It began somewhere between the last sample
 * that shows something else and the first that shows it. */
function blockOf(
    slice: Slice,
    late: Lateness,
    rootOf: (index: number) => number,
): Block | undefined {
    const { micros } = slice;
    const last = lastBefore(micros, late.cameMicros);
    let first = lastBefore(micros, late.dueMicros) + 1;
    while (first <= last && !isAtWork(slice, first)) first++;
    if (first > last || first < 1) return undefined;
    const root = rootOf(first);
    let before = first - 1;
    for (; before >= 1 && (micros[before] as number) > late.previousMicros; before--) {
        if (isAtWork(slice, before) && rootOf(before) === root) first = before;
        else if (!isGarbageCollector(nodeOf(slice, before))) break;
    }
    const earliest = Math.max(late.previousMicros, micros[before] ?? 0);
    const latest = Math.min(late.dueMicros, micros[first] as number);
    const startMicros = Math.min(late.dueMicros, (earliest + latest) / 2);
    return { startMicros, endMicros: late.cameMicros, first, last };
}

/** Where the clock came seldom, samples alone say who was at work, and for how long. */
function workIn(
    slice: Slice,
    fromMicros: number,
    toMicros: number,
    rootOf: (index: number) => number,
): Block[] {
    const { micros } = slice;
    const half = slice.intervalMicros / 2; // samples that are missing say nothing
    const end = lastBefore(micros, toMicros);
    const found: Block[] = [];
    let first = Math.max(1, lastBefore(micros, fromMicros) + 1);
    while (first <= end) {
        const isWork = isAtWork(slice, first);
        const last = isWork ? lastOfWork(slice, first, end, rootOf) : first;
        const startMicros = Math.max(fromMicros, (micros[first] as number) - half);
        const endMicros = Math.min(toMicros, (micros[last] as number) + half);
        if (isWork) found.push({ startMicros, endMicros, first, last });
        first = last + 1;
    }
    return found;
}

/** The last sample of the callback that is at work. */
function lastOfWork(
    slice: Slice,
    first: number,
    end: number,
    rootOf: (index: number) => number,
): number {
    const root = rootOf(first);
    const belongs = (index: number): boolean =>
        isGarbageCollector(nodeOf(slice, index)) ||
        (isAtWork(slice, index) && rootOf(index) === root);
    let last = first;
    while (last < end && belongs(last + 1)) last++;
    return last;
}

/** The last sample at or before a moment; -1 before all. */
function lastBefore(micros: Float64Array, moment: number): number {
    let low = 0;
    let high = micros.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if ((micros[middle] as number) <= moment) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

/** Samples that are missing for longer mean that the process did not run at all: it was stopped, or
 * the machine slept. */
const frozenMicros = 200_000;
const frozenIntervals = 10;

/** How long the process did not run before a sample. */
function frozenBefore({ micros, intervalMicros }: Slice, index: number): number {
    const gap = (micros[index] ?? 0) - (micros[index - 1] ?? 0);
    const isFrozen = gap > Math.max(frozenMicros, frozenIntervals * intervalMicros);
    return isFrozen ? gap - intervalMicros : 0;
}

const notRunning = frameOf({
    functionName: "(not running)",
    scriptId: "0",
    url: "",
    lineNumber: -1,
    columnNumber: -1,
});

interface Share {
    micros: number;
    at: number;
}

/** The time of a block by stacks. Within a block it is known whose garbage is collected: V8 leaves that
 * out. Time in which nothing ran is that of the callback that it came in the midst of; else nobody's. */
function sharesOf(
    slice: Slice,
    block: Block,
    rootOf: (index: number) => number,
    stackOf: (node: V8CpuNode) => number,
    builder: StackBuilder,
): Map<number, Share> {
    const found = new Map<number, Share>();
    const add = (stack: number, micros: number, at: number): void => {
        if (micros <= 0) return;
        const known = found.get(stack);
        if (known) known.micros += micros;
        else found.set(stack, { micros, at });
    };
    let caller = 0;
    for (let i = block.first; i <= block.last; i++) {
        const node = nodeOf(slice, i);
        const at = slice.micros[i] as number;
        const frozen = frozenBefore(slice, i);
        const isWithin = i > block.first && isAtWork(slice, i - 1) && rootOf(i - 1) === rootOf(i);
        if (frozen > 0) {
            const stack = builder.push(isWithin ? caller : 0, notRunning);
            add(stack, Math.min(frozen, at - block.startMicros), at);
        }
        if (!node || isIdle(node)) continue;
        const ran = (slice.weights[i] as number) - (frozen + frozenBefore(slice, i + 1)) / 2;
        const collects = isGarbageCollector(node);
        if (!collects) caller = stackOf(node);
        add(collects ? builder.push(caller, frameOf(node.callFrame)) : caller, ran, at);
    }
    return found;
}

/** One for each stack that was seen in the block. The longest counts the block. */
function samplesOf(
    slice: Slice,
    block: Block,
    rootOf: (index: number) => number,
    stackOf: (node: V8CpuNode) => number,
    builder: StackBuilder,
): Sample[] {
    const found = sharesOf(slice, block, rootOf, stackOf, builder);
    const all = [...found.values()].map(({ micros }) => micros);
    const longest = Math.max(...all);
    const sum = all.reduce((total, micros) => total + micros, 0);
    const nanos = (block.endMicros - block.startMicros) * 1000;
    let counted = false;
    return [...found].map(([stack, { micros, at }]) => {
        const counts = !counted && micros === longest;
        counted ||= counts;
        return {
            stack,
            values: [Math.round((micros / sum) * nanos), counts ? 1 : 0],
            timeUnixNanos: unixNanosOfMicros(at),
        };
    });
}

/** The outermost frame of a sample: which callback the loop was in. */
function rootsOf(slice: Slice): (index: number) => number {
    const parents = new Map<number, number>();
    for (const node of slice.v8.nodes) {
        for (const child of node.children ?? []) parents.set(child, node.id);
    }
    return (index) => {
        let at = slice.v8.samples?.[index] as number;
        for (;;) {
            const parent = parents.get(at);
            // (root) itself has no parent, and says nothing.
            if (parent === undefined || !parents.has(parent)) return at;
            at = parent;
        }
    };
}
