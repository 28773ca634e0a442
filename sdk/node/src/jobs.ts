// Which profilers run, and which of them share a window: all that live on V8's CPU samples and have
// the same hours take one run of it.
import type { Config, WindowConfig } from "./config.js";
import { beginSamples, cpuProfile, endSamples, type SampleWindow, wallProfile } from "./cpu.js";
import type { Profile } from "./model.js";
import type { Capture, Job } from "./schedule.js";

type SampleKind = "cpu" | "wall";

const sampleKinds: SampleKind[] = ["cpu", "wall"];

export function jobsOf(config: Config): Job[] {
    return sampleJobs(config);
}

function sampleJobs(config: Config): Job[] {
    const groups = new Map<string, SampleKind[]>();
    for (const kind of sampleKinds) {
        if (!config[kind].enabled) continue;
        const { intervalMillis, durationMillis, shouldProfile } = config[kind];
        const own = shouldProfile && shouldProfile !== config.shouldProfile ? kind : "";
        const key = `${intervalMillis} ${durationMillis} ${own}`;
        groups.set(key, [...(groups.get(key) ?? []), kind]);
    }
    return [...groups.values()].map((kinds) => sampleJob(config, kinds));
}

function sampleJob(config: Config, kinds: SampleKind[]): Job {
    const hours = config[kinds[0] as SampleKind] as WindowConfig;
    const micros = config.cpu.enabled
        ? config.cpu.samplingIntervalMicros
        : config.wall.samplingIntervalMicros;
    return {
        name: kinds.join(", "),
        intervalMillis: hours.intervalMillis,
        durationMillis: hours.durationMillis,
        shouldProfile: hours.shouldProfile,
        maxCutMillis: 10,
        begin: () => sampleCapture(config, kinds, beginSamples(micros)),
    };
}

interface SampleCapture extends Capture {
    beganMicros: number;
}

function sampleCapture(config: Config, kinds: SampleKind[], window: SampleWindow): SampleCapture {
    return {
        beganMicros: Number(process.hrtime.bigint() / 1000n),
        end(next) {
            const slice = endSamples(window, (next as SampleCapture | undefined)?.beganMicros);
            return kinds.map(
                (kind): Profile =>
                    kind === "cpu"
                        ? cpuProfile(slice, config.cpu.lineNumbers)
                        : wallProfile(slice, config.wall.lineNumbers),
            );
        },
    };
}
