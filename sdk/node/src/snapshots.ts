// The heap by constructor, from heap snapshots. A snapshot stops the process: about 100 ms for a MB of
// small objects. So there is none unless somebody asks, the pause is estimated first, and intervals
// that are too short for it are refused.
import { syncClock, unixNanosOfMicros } from "./clock.js";
import type { ProfilerName, SnapshotConfig } from "./config.js";
import { askFlags, type Flag } from "./flags.js";
import type { LoadGauge } from "./load.js";
import type { Profile } from "./model.js";
import { emptyProfile, stackBuilder } from "./profile_from_v8.js";
import { openV8 } from "./session.js";
import { type ConstructorSummary, createSnapshotParser } from "./snapshot_parser.js";
import type { StatsKeeper } from "./stats.js";
import { onceInThread } from "./workers.js";

/** Measured with Node 18 to 24 on small objects, of which a MB holds most. */
const firstMillisPerMegabyte = 100;
const baseMillis = 50;

export interface SnapshotEstimate {
    heapBytes: number;
    pauseMillis: number;
    /** The shortest interval for which the pauses are within the budget. Infinity where it is 0. */
    leastIntervalMillis: number;
}

/** What was measured here; one snapshot tells more about this heap than all others. */
function measured(): { millisPerMegabyte: number } {
    return onceInThread("snapshot_cost", () => ({ millisPerMegabyte: firstMillisPerMegabyte }));
}

export function estimateSnapshot(maxPauseShare: number): SnapshotEstimate {
    const heapBytes = process.memoryUsage().heapUsed;
    const pauseMillis = baseMillis + (heapBytes / 1e6) * measured().millisPerMegabyte;
    return {
        heapBytes,
        pauseMillis: Math.round(pauseMillis),
        leastIntervalMillis: Math.ceil(pauseMillis / Math.max(0, maxPauseShare)),
    };
}

export interface RunningSnapshots {
    /** Flags came for these: there is no snapshot before they have answered. */
    askAgain(kinds: ProfilerName[]): void;
    stop(): Promise<void>;
}

interface Context {
    stats: StatsKeeper;
    gauge: Pick<LoadGauge, "verdict">;
    flagsOf?(kinds: ProfilerName[]): Flag[];
    send(profiles: Profile[]): Promise<void>;
}

const longestMillis = 600_000;
/** Where flags come ever again while others are being asked, there is no snapshot. */
const maxAsks = 4;

export function runSnapshots(config: SnapshotConfig, context: Context): RunningSnapshots {
    const { stats } = context;
    let timer: NodeJS.Timeout | undefined;
    let stopped = false;
    let generation = 0; // raised by every flag that comes
    let growth: ((now: ConstructorSummary[]) => string[]) | undefined;
    let underWay: Promise<void> = Promise.resolve();
    const take = async (): Promise<void> => {
        const summary = await takeSnapshot(stats);
        const profile = summaryProfile(
            summary.constructors,
            summary.startMicros,
            summary.endMicros,
        );
        if (growth) profile.attributes["vesta.heap.growth"] = growth(summary.constructors);
        growth = growthSince(summary.constructors);
        stats.window();
        stats.samples(profile.samples.length);
        await context.send([profile]);
    };
    /** stop() waits for a snapshot, not for a flag. Flags that come meanwhile are asked, too. */
    const turn = async (asks = 1): Promise<void> => {
        const asked = generation;
        if (!(await isWanted(config, context)) || stopped) return;
        if (generation !== asked) {
            if (asks < maxAsks) await turn(asks + 1);
            else stats.skip("flag");
            return;
        }
        if (!isAffordable(config, stats)) return;
        underWay = take().catch((error: unknown) => stats.error("heap snapshot", error));
    };
    if (config.intervalMillis <= 0) {
        stats.error("heap snapshots", "intervalMillis was not given");
    } else if (isAffordable(config, stats, true)) {
        void turn();
        timer = setInterval(() => void turn(), config.intervalMillis);
        timer.unref();
    }
    return {
        askAgain(kinds) {
            if (kinds.includes("snapshots")) generation++;
        },
        async stop() {
            stopped = true;
            clearInterval(timer);
            await underWay;
        },
    };
}

/** By the flags, and by the load: a process that is busy has no time for it. Never rejects. */
async function isWanted(config: SnapshotConfig, context: Context): Promise<boolean> {
    const { stats, gauge, flagsOf } = context;
    const flags = [config.shouldProfile, ...(flagsOf?.(["snapshots"]) ?? [])];
    const failed = (error: unknown): void => stats.error("heap snapshots: shouldProfile", error);
    const isAllowed = await askFlags(flags, failed);
    const reason = isAllowed ? gauge.verdict().skip : "flag";
    if (reason) stats.skip(reason);
    return reason === undefined;
}

/** Says the estimate, before the first snapshot also to those who did not ask for words; and whether
 * the interval is long enough for it. */
function isAffordable(config: SnapshotConfig, stats: StatsKeeper, isFirst = false): boolean {
    const estimate = estimateSnapshot(config.maxPauseShare);
    const { heapBytes, pauseMillis, leastIntervalMillis } = estimate;
    stats.pauseEstimate(pauseMillis);
    const words = `a heap snapshot of ${Math.round(heapBytes / 1e6)} MB is expected to stop this thread for ${pauseMillis} ms`;
    if (config.intervalMillis >= leastIntervalMillis) {
        if (isFirst) stats.log.error(words);
        else stats.log.info(words);
        return true;
    }
    stats.skip("pause");
    const isAny = Number.isFinite(leastIntervalMillis);
    const wouldDo = isAny ? `${leastIntervalMillis} ms would do` : "as is any other";
    stats.error(
        "heap snapshots",
        `${words}: an interval of ${config.intervalMillis} ms is refused, ${wouldDo} (maxPauseShare ${config.maxPauseShare})`,
    );
    return false;
}

interface Taken {
    constructors: ConstructorSummary[];
    startMicros: number;
    endMicros: number;
}

/** Newer ones of V8 wait until no code of the app is running: the answer comes later. */
async function takeSnapshot(stats: StatsKeeper): Promise<Taken> {
    const v8 = openV8();
    const heapBytes = process.memoryUsage().heapUsed;
    const parser = createSnapshotParser();
    let problem: unknown;
    const now = (): number => Number(process.hrtime.bigint() / 1000n);
    const leave = v8.use("HeapProfiler");
    const stopListening = v8.on("HeapProfiler.addHeapSnapshotChunk", (params) => {
        try {
            if (!problem) parser.write((params as { chunk: string }).chunk);
        } catch (error) {
            problem = error;
        }
    });
    try {
        // Outside of all code of the app, so that the time is the pause and nothing else.
        await new Promise((resolve) => setImmediate(resolve));
        const startMicros = now();
        const options = { reportProgress: false, captureNumericValue: false };
        await v8.ask("HeapProfiler.takeHeapSnapshot", options, longestMillis);
        const endMicros = now();
        const pause = (endMicros - startMicros) / 1000;
        stats.own(pause);
        measured().millisPerMegabyte = Math.max(1, (pause - baseMillis) / (heapBytes / 1e6));
        if (problem) throw problem;
        return { constructors: parser.end(), startMicros, endMicros };
    } finally {
        stopListening();
        leave();
        v8.release();
    }
}

/** The largest; the rest is one line. */
const maxShown = 1000;

export function summaryProfile(
    constructors: ConstructorSummary[],
    startMicros: number,
    endMicros: number,
): Profile {
    syncClock();
    const start = unixNanosOfMicros(startMicros);
    const profile = emptyProfile(
        "heap_summary",
        [
            { type: "inuse_objects", unit: "count" },
            { type: "inuse_space", unit: "bytes" },
        ],
        "inuse_space",
        start,
        unixNanosOfMicros(endMicros) - start,
    );
    const builder = stackBuilder(profile);
    const rest = { name: "(rest)", objects: 0, bytes: 0 };
    for (const { objects, bytes } of constructors.slice(maxShown)) {
        rest.objects += objects;
        rest.bytes += bytes;
    }
    for (const { name, objects, bytes } of [...constructors.slice(0, maxShown), rest]) {
        if (objects === 0) continue;
        const stack = builder.push(0, {
            name,
            file: "",
            line: 0,
            column: 0,
            startLine: 0,
            kind: name.startsWith("(") ? "native" : "v8js",
        });
        profile.samples.push({ stack, values: [objects, bytes] });
    }
    return profile;
}

const maxGrowers = 10;

/** What grew most from one snapshot to the next, in words. */
function growthSince(before: ConstructorSummary[]): (now: ConstructorSummary[]) => string[] {
    const known = new Map(before.slice(0, maxShown).map((one) => [one.name, one]));
    return (now) =>
        now
            .map(({ name, objects, bytes }) => ({
                name,
                objects: objects - (known.get(name)?.objects ?? 0),
                bytes: bytes - (known.get(name)?.bytes ?? 0),
            }))
            .filter(({ bytes }) => bytes > 0)
            .sort((a, b) => b.bytes - a.bytes)
            .slice(0, maxGrowers)
            .map(({ name, objects, bytes }) => `${name}: ${bytes} bytes in ${objects} objects`);
}
