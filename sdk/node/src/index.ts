// Always-on profiling of this process, or of this thread of it. Every function here starts something,
// if it is enabled, and gives back the way to stop it. None throws.
import { AsyncResource } from "node:async_hooks";
import { type Config, type ProfilerName, resolveConfig } from "./config.js";
import type { Flag } from "./flags.js";
import { jobsOf } from "./jobs.js";
import { createLoadGauge } from "./load.js";
import type {
    CpuOptions,
    EventLoopOptions,
    Handle,
    HeapOptions,
    SnapshotOptions,
    StartOptions,
    WallOptions,
} from "./options.js";
import { atMost, createPipeline } from "./pipeline.js";
import { forget, type Running, remember, runningFor } from "./running.js";
import { runJob, type RunningJob } from "./schedule.js";
import { estimateSnapshot, runSnapshots, type SnapshotEstimate } from "./snapshots.js";
import { createStats, type StatsKeeper } from "./stats.js";

export type * from "./model.js";
export type * from "./options.js";
export type { SnapshotEstimate };

/** CPU, allocations and event loop, with sensible hours; wall and live heap where asked for. */
export function start(options: StartOptions = {}): Handle {
    return run(options);
}

export function startContinuousCPUProfiling(options: CpuOptions = {}): Handle {
    return run(options, "cpu");
}

export function startWallProfiling(options: WallOptions = {}): Handle {
    return run(options, "wall");
}

/** Live heap: what was allocated since the start and is still alive, by where it was allocated. */
export function startHeapSampling(options: HeapOptions = {}): Handle {
    return run(options, "heap");
}

export function startAllocationProfiling(options: HeapOptions = {}): Handle {
    return run(options, "allocations");
}

/** Who blocked the event loop, and for how long. */
export function startEventLoopProfiling(options: EventLoopOptions = {}): Handle {
    return run(options, "eventLoop");
}

/** Heap by constructor. Stops the process for every snapshot: see SnapshotOptions. */
export function startHeapSnapshots(options: SnapshotOptions): Handle {
    return run(options, "snapshots");
}

/** How long a heap snapshot would stop this thread now, and the shortest interval that allows it. */
export function estimateHeapSnapshot(maxPauseShare = 0.001): SnapshotEstimate {
    return estimateSnapshot(maxPauseShare);
}

/** Made as this file is loaded, mostly by no request: what is begun there keeps no request's context
 * alive, however long it runs. */
const nowhere = new AsyncResource("vesta");

const stopMillis = 5_000;

const longestMillis = 0x7fffffff;

/** stop itself may be the listener of a signal: what it gets then is no time. */
function stopTime(given: unknown): number {
    const isTime = typeof given === "number" && Number.isFinite(given);
    return isTime ? Math.min(Math.max(given, 0), longestMillis) : stopMillis;
}

const unread = { enabled: false, logLevel: "error", problems: [] } as const;

function run(options: StartOptions, only?: ProfilerName): Handle {
    let stats: StatsKeeper | undefined;
    const idle = (keeper: StatsKeeper): Handle => ({
        stop: async () => {},
        stats: () => keeper.snapshot(),
    });
    try {
        const config = resolveConfig(options, process.env, only);
        const keeper = createStats(config);
        stats = keeper;
        if (!config.enabled) return idle(keeper);
        return (
            runningFor(config, options, only) ??
            remember(keeper.timed(() => nowhere.runInAsyncScope(() => begin(config, keeper))))
        );
    } catch (error) {
        stats ??= createStats(unread); // options that throw when they are read
        stats.error("start", error);
        return idle(stats);
    }
}

/** An app that calls start() again and again brings a new one each time. */
const maxFlags = 16;

function begin(config: Config, stats: StatsKeeper): Running {
    const pipeline = createPipeline(config, stats);
    const gauge = createLoadGauge(config);
    const flags = new Map<ProfilerName, Flag[]>();
    const flagsOf = (kinds: ProfilerName[]): Flag[] =>
        kinds.flatMap((kind) => flags.get(kind) ?? []);
    const context = { stats, gauge, flagsOf, ...pipeline };
    const jobs: RunningJob[] = jobsOf(config, stats).map((job) => runJob(job, context));
    if (config.snapshots.enabled) jobs.push(runSnapshots(config.snapshots, context));
    let stopping: Promise<void> | undefined;
    const stop = async (timeoutMillis: number): Promise<void> => {
        try {
            const until = performance.now() + timeoutMillis;
            gauge.close();
            await atMost(Promise.all(jobs.map((job) => job.stop())), timeoutMillis);
            await pipeline.shutdown(Math.max(0, until - performance.now()));
        } catch (error) {
            stats.error("stop", error);
        }
    };
    const handle: Handle = {
        stop(timeoutMillis) {
            forget(handle);
            stopping ??= stop(stopTime(timeoutMillis));
            return stopping;
        },
        stats: () => stats.snapshot(),
    };
    return {
        handle,
        config,
        addMask: pipeline.addMask,
        addFlags(more) {
            for (const [name, flag] of more) {
                const others = (flags.get(name) ?? []).filter((known) => known !== flag);
                flags.set(name, [...others, flag].slice(-maxFlags));
            }
            for (const job of jobs) job.askAgain?.(more.map(([name]) => name));
        },
        tell: (problem) => stats.error("configuration", problem),
    };
}
