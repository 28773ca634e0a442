// Which profilers run, and which of them share a window: all that live on V8's CPU samples and have
// the same hours take one run of it.
import type { Config, WindowConfig } from "./config.js";
import { beginSamples, cpuProfile, endSamples, type Slice, wallProfile } from "./cpu.js";
import { type CpuRun, beginCpuRun } from "./cpu_sampler.js";
import { eventLoopProfile } from "./event_loop.js";
import { allocationsJob, liveHeapJob } from "./heap.js";
import { type LoopReport, startLoopWatch } from "./loop_watch.js";
import type { Profile } from "./model.js";
import type { Capture, Job } from "./schedule.js";
import type { StatsKeeper } from "./stats.js";

type SampleKind = "cpu" | "wall" | "eventLoop";

const sampleKinds: SampleKind[] = ["cpu", "wall", "eventLoop"];

/** makeWarm: for tests. */
export function jobsOf(config: Config, stats: StatsKeeper, makeWarm = warmSampler): Job[] {
    const jobs = sampleJobs(config, makeWarm);
    if (config.heap.enabled) jobs.push(liveHeapJob(config.heap, stats));
    if (config.allocations.enabled) jobs.push(allocationsJob(config.allocations, stats));
    return jobs;
}

function sampleJobs(config: Config, makeWarm: typeof warmSampler): Job[] {
    const groups = new Map<string, SampleKind[]>();
    for (const kind of sampleKinds) {
        if (!config[kind].enabled) continue;
        const { intervalMillis, durationMillis, shouldProfile } = config[kind];
        const own = shouldProfile && shouldProfile !== config.shouldProfile ? kind : "";
        const key = `${intervalMillis} ${durationMillis} ${own}`;
        groups.set(key, [...(groups.get(key) ?? []), kind]);
    }
    return [...groups.values()].map((kinds) => sampleJob(config, kinds, makeWarm()));
}

/** A cut hands over all that V8 has of a window, on the app's thread. */
const maxCutMillis = 10;

function sampleJob(config: Config, kinds: SampleKind[], warm: ReturnType<typeof warmSampler>): Job {
    const hours: WindowConfig = config[kinds[0] as SampleKind];
    return {
        name: kinds.join(", "),
        kinds,
        intervalMillis: hours.intervalMillis,
        durationMillis: hours.durationMillis,
        shouldProfile: hours.shouldProfile,
        overlap: true,
        hasTimes: true,
        maxCutMillis,
        begin() {
            const capture = beginCapture(config, kinds);
            warm.windowBegan(capture.startMillis);
            return capture;
        },
        rest: () => warm.rest(intervalOf(config)),
        off: () => warm.close(),
        close: () => warm.close(),
    };
}

/** V8 has one for all. */
function intervalOf({ cpu, wall }: Config): number {
    if (cpu.enabled && wall.enabled) {
        return Math.min(cpu.samplingIntervalMicros, wall.samplingIntervalMicros);
    }
    return (wall.enabled ? wall : cpu).samplingIntervalMicros;
}

interface SampleCapture extends Capture {
    startMillis: number;
    beganMicros: number;
}

function beginCapture(config: Config, kinds: SampleKind[]): SampleCapture {
    const window = beginSamples(intervalOf(config));
    const { thresholdMillis } = config.eventLoop;
    const watch = kinds.includes("eventLoop") ? startLoopWatch(thresholdMillis) : undefined;
    return {
        startMillis: window.run.startMillis,
        beganMicros: Number(process.hrtime.bigint() / 1000n),
        end(next) {
            const report = watch?.end();
            const slice = endSamples(window, (next as SampleCapture | undefined)?.beganMicros);
            return kinds.map((kind) => profileOf(config, kind, slice, report));
        },
    };
}

function profileOf(
    config: Config,
    kind: SampleKind,
    slice: Slice,
    report: LoopReport | undefined,
): Profile {
    if (kind === "cpu") return cpuProfile(slice, config.cpu.lineNumbers);
    if (kind === "wall") return wallProfile(slice, config.wall.lineNumbers);
    const { thresholdMillis } = config.eventLoop;
    return eventLoopProfile(slice, report as LoopReport, thresholdMillis, config.lineNumbers);
}

/** Where V8 takes long to start its profiler, it is left running between windows. */
const longStartMillis = 20;
/** What it has seen by then is thrown away, and it goes on. */
const warmMillis = 30_000;

/** Exported for tests. */
export function warmSampler(longMillis = longStartMillis, againMillis = warmMillis) {
    let run: CpuRun | undefined;
    let timer: NodeJS.Timeout | undefined;
    let isDear = false;
    const close = (): void => {
        clearTimeout(timer);
        const ending = run;
        run = undefined;
        ending?.end();
    };
    const closeQuietly = (): void => {
        try {
            close();
        } catch {
            // It is let go all the same.
        }
    };
    const rest = (micros: number): void => {
        if (!isDear) return;
        const next = beginCpuRun(micros);
        close();
        run = next;
        timer = setTimeout(restAgain, againMillis, micros);
        timer.unref();
    };
    /** Nothing is lost but a quick start: the next window says what is wrong. */
    const restAgain = (micros: number): void => {
        try {
            rest(micros);
        } catch {
            closeQuietly();
        }
    };
    return {
        windowBegan(startMillis: number) {
            isDear ||= startMillis > longMillis;
            close();
        },
        rest,
        close,
    };
}
