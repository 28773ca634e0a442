// How busy the process is: windows are shortened, then left out, where the app needs its time itself.
import * as os from "node:os";
import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { cgroupCores } from "./cgroup.js";
import { threadCpuNanos } from "./thread_cpu.js";

export interface Verdict {
    /** Why there is to be no window. */
    skip?: "cpu" | "lag";
    /** Of the window's length: 1 is all of it. */
    share: number;
}

export interface LoadGauge {
    verdict(): Verdict;
    close(): void;
}

interface Limits {
    maxCpu: number;
    maxLagMillis: number;
}

const lagResolutionMillis = 50;

/** From here on windows get shorter: as a share of a limit. */
const easy = 0.5;
/** The shortest they get. */
const shortest = 0.25;

/** Looks at the last seconds, again and again. Costs nothing where there is no limit. */
export function createLoadGauge(limits: Limits, periodMillis = 5_000): LoadGauge {
    if (limits.maxCpu <= 0 && limits.maxLagMillis <= 0) {
        return { verdict: () => ({ share: 1 }), close: () => {} };
    }
    const lag = limits.maxLagMillis > 0 ? startLag() : undefined;
    let cpu = cpuReader();
    let last = { cpu: 0, lag: 0 };
    let lookedAt = performance.now();
    const look = (): void => {
        lookedAt = performance.now();
        last = { cpu: cpu(), lag: lag ? readLag(lag) : 0 };
    };
    const timer = setInterval(look, periodMillis);
    timer.unref();
    return {
        verdict() {
            // Seconds are enough to know; less is chance, or what a look just before has taken away.
            if (performance.now() - lookedAt > 1000) look();
            return verdictOf(last, limits);
        },
        close() {
            clearInterval(timer);
            lag?.disable();
            cpu = () => 0;
        },
    };
}

/** Exported for tests. */
export function verdictOf(load: { cpu: number; lag: number }, limits: Limits): Verdict {
    const cpu = limits.maxCpu > 0 ? load.cpu / limits.maxCpu : 0;
    const lag = limits.maxLagMillis > 0 ? load.lag / limits.maxLagMillis : 0;
    const worst = Math.max(cpu, lag);
    if (worst > 1) return { skip: cpu >= lag ? "cpu" : "lag", share: 0 };
    if (worst <= easy) return { share: 1 };
    return { share: 1 - ((worst - easy) / (1 - easy)) * (1 - shortest) };
}

/** The share of the cores that this process may use, or of the one core that this thread can use: the
 * larger. A thread has no more than one, however many there are. */
function cpuReader(): () => number {
    const all = os.availableParallelism?.() ?? os.cpus().length;
    const cores = Math.max(Math.min(all, cgroupCores()), 0.01);
    let at = performance.now();
    let used = process.cpuUsage();
    let threadUsed = threadCpuNanos();
    return () => {
        const now = performance.now();
        const nanos = threadCpuNanos();
        const elapsed = Math.max(now - at, 1);
        const since = process.cpuUsage(used);
        const millis = (since.user + since.system) / 1000;
        const threadMillis = ((nanos ?? 0) - (threadUsed ?? 0)) / 1e6;
        at = now;
        used = process.cpuUsage();
        threadUsed = nanos;
        return cpuShare(millis / elapsed, threadMillis / elapsed, cores);
    };
}

/** Of cores that were used by the process and by its thread. Exported for tests. */
export function cpuShare(used: number, usedByThread: number, cores: number): number {
    return Math.max(used / cores, usedByThread / Math.min(cores, 1));
}

function startLag(): IntervalHistogram {
    const histogram = monitorEventLoopDelay({ resolution: lagResolutionMillis });
    histogram.enable();
    return histogram;
}

/** p99 in ms. The histogram counts from one look at the clock to the next, which is not all lag. */
function readLag(histogram: IntervalHistogram): number {
    const p99 = histogram.percentile(99) / 1e6;
    histogram.reset();
    return Math.max(0, p99 - lagResolutionMillis);
}
