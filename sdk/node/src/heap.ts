// Allocations of a window and the live heap, by where they were allocated.
import { isoTime, syncClock, unixNanosOfMicros } from "./clock.js";
import type { HeapConfig } from "./config.js";
import { createPauseGuard } from "./heap_pause.js";
import {
    beginAllocations,
    beginLiveHeap,
    type HeapReading,
    isLiveHeapOn,
    type LiveHeap,
    seesDeadObjects,
    type V8HeapNode,
} from "./heap_sampler.js";
import type { Profile } from "./model.js";
import { emptyProfile, frameOf, stackBuilder } from "./profile_from_v8.js";
import type { Job } from "./schedule.js";
import type { StatsKeeper } from "./stats.js";
import { createUnsampler } from "./unsample.js";

const types = {
    alloc: ["alloc_objects", "alloc_space"],
    heap: ["inuse_objects", "inuse_space"],
} as const;

/** Allocations are those of a window. The live heap is of the moment of its reading: whoever looks for
 * what is alive at a time must not have to know when sampling began. */
export function heapProfile(
    kind: "alloc" | "heap",
    reading: HeapReading,
    stackDepth: number,
): Profile {
    syncClock();
    const [objects, space] = types[kind];
    const from = unixNanosOfMicros(reading.fromMicros);
    const to = unixNanosOfMicros(reading.toMicros);
    const start = kind === "heap" ? to : from;
    const profile = emptyProfile(
        kind,
        [
            { type: objects, unit: "count" },
            { type: space, unit: "bytes" },
        ],
        space,
        start,
        to - start,
    );
    if (kind === "heap") profile.attributes["vesta.heap.since"] = isoTime(from);
    profile.periodType = { type: "space", unit: "bytes" };
    profile.period = reading.intervalBytes;
    addNodes(profile, reading, stackDepth);
    return profile;
}

/** The leaf and as many of its callers as are wanted. */
function addNodes(profile: Profile, reading: HeapReading, stackDepth: number): void {
    const samplesOf = samplesByNode(reading);
    const unsample = createUnsampler(reading.intervalBytes);
    const builder = stackBuilder(profile);
    const path: V8HeapNode[] = [];
    const visit = (node: V8HeapNode): void => {
        path.push(node);
        const samples = samplesOf.get(node.id);
        if (samples) {
            const weight = unsample(samples, node.selfSize);
            let stack = 0;
            for (const { callFrame } of path.slice(1).slice(-stackDepth)) {
                stack = builder.push(stack, frameOf(callFrame));
            }
            const values = [Math.round(weight.objects), Math.round(weight.bytes)];
            profile.samples.push({ stack, values });
        }
        for (const child of node.children) visit(child);
        path.pop();
    };
    visit(reading.v8.head);
    mergeSamples(profile);
}

/** Stacks that are the same once they are cut. */
function mergeSamples(profile: Profile): void {
    const byStack = new Map<number, Profile["samples"][number]>();
    for (const sample of profile.samples) {
        const known = byStack.get(sample.stack);
        if (!known) byStack.set(sample.stack, sample);
        else known.values = known.values.map((value, i) => value + (sample.values[i] as number));
    }
    profile.samples = [...byStack.values()];
}

/** Samples by node, and for each how many there are of a product. */
function samplesByNode(reading: HeapReading): Map<number, Map<number, number>> {
    const nodes = new Map<number, Map<number, number>>();
    for (const { nodeId, size } of reading.v8.samples) {
        let samples = nodes.get(nodeId);
        if (!samples) {
            samples = new Map();
            nodes.set(nodeId, samples);
        }
        samples.set(size, (samples.get(size) ?? 0) + 1);
    }
    return nodes;
}

/** Readings stop the app: no more than this share of its time. */
const maxReadingShare = 0.001;
/** A window with more samples makes the next one sample less: they are held in memory, and all of
 * them are handed over at once. */
const manySamples = 20_000;

export function allocationsJob(config: HeapConfig, stats: StatsKeeper): Job {
    let interval = config.samplingIntervalBytes;
    const pause = createPauseGuard("allocations", config.maxPauseMillis, stats);
    const hindrance = (): string | undefined => {
        if (!config.isAsked && isLiveHeapOn()) return "heap";
        return pause.isTooLong() ? "pause" : undefined;
    };
    return {
        ...hoursOf(config),
        name: "allocations",
        kinds: ["allocations"],
        maxCutShare: maxReadingShare,
        hindrance,
        begin() {
            const user = beginAllocations(interval);
            return {
                end() {
                    if (pause.isTooLong()) {
                        user.close(); // it grew meanwhile
                        stats.skip("pause");
                        return [];
                    }
                    const reading = pause.read(() => user.read());
                    const count = reading.v8.samples.length;
                    if (count > manySamples) interval *= Math.ceil(count / manySamples);
                    else if (count < manySamples / 4) {
                        interval = Math.max(config.samplingIntervalBytes, interval / 2);
                    }
                    const profile = heapProfile("alloc", reading, config.stackDepth);
                    // Node 18: what died before the window's end is not seen.
                    if (!seesDeadObjects) profile.attributes["vesta.alloc.survivors_only"] = true;
                    return [profile];
                },
            };
        },
    };
}

export function liveHeapJob(config: HeapConfig, stats: StatsKeeper): Job {
    let user: LiveHeap | undefined;
    const pause = createPauseGuard("heap", config.maxPauseMillis, stats);
    const close = (): void => {
        const closing = user;
        user = undefined;
        closing?.close();
    };
    return {
        ...hoursOf(config),
        name: "heap",
        kinds: ["heap"],
        maxCutShare: maxReadingShare,
        begin() {
            user ??= beginLiveHeap(config.samplingIntervalBytes);
            const { read } = user;
            return {
                end() {
                    if (pause.isTooLong()) {
                        stats.skip("pause");
                        return [];
                    }
                    const reading = pause.read(read);
                    return reading ? [heapProfile("heap", reading, config.stackDepth)] : [];
                },
            };
        },
        off: close,
        close,
    };
}

function hoursOf({ intervalMillis, durationMillis, shouldProfile }: HeapConfig) {
    return { intervalMillis, durationMillis, shouldProfile };
}
