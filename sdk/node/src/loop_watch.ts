// A clock in the event loop: a timer that notes how late it comes. While it is due and does not come,
// something else has the loop. A timer of 10 ms costs the thread about 0.05 %, and unlike a count of
// all turns of the loop it lets the loop sleep. While next to nothing happens it comes less often: to
// wake a process that sleeps is dear, on a busy machine 0.1 ms. What blocked the loop between two looks
// is then left to V8's samples. (The loop's own count of the time that it slept is no help: signals,
// with which V8 takes samples, make it lose most of that time.)
import { createHistogram, performance, type RecordableHistogram } from "node:perf_hooks";

/** In microseconds of process.hrtime. */
export interface Lateness {
    previousMicros: number; // when the timer came before
    dueMicros: number;
    cameMicros: number;
}

/** The timer came less often, and was not late. */
export interface Sparse {
    fromMicros: number;
    toMicros: number;
}

export interface LoopReport {
    late: Lateness[];
    sparse: Sparse[];
    /** Of all times that the timer came, in nanoseconds. */
    lag: RecordableHistogram;
    looks: number; // how often the timer came
}

export interface LoopWatch {
    end(): LoopReport;
}

const maxLate = 10_000;
/** While the loop sleeps the timer comes so many times less often. */
const sparser = 5;
/** Looks after which it is known whether the loop sleeps, and what counts as that. */
const idleLooks = 50;
const idleShare = 0.05;

export function periodOf(thresholdMillis: number): number {
    return Math.min(50, Math.max(1, Math.round(thresholdMillis / 2)));
}

/** From performance.now to process.hrtime, of which the first counts from the start of the process. A
 * thread may lose its core between the two, so the quickest of some tries is taken. */
function offsetMicros(): number {
    let best = { offset: 0, took: Number.POSITIVE_INFINITY };
    for (let i = 0; i < 5; i++) {
        const before = performance.now();
        const micros = Number(process.hrtime.bigint()) / 1000;
        const took = performance.now() - before;
        const offset = micros - (before + took / 2) * 1000;
        if (took < best.took) best = { offset, took };
    }
    return best.offset;
}

export function startLoopWatch(thresholdMillis: number): LoopWatch {
    const dense = periodOf(thresholdMillis);
    const note = thresholdMillis - dense;
    const lag = createHistogram();
    const late: Lateness[] = [];
    const sparse: Sparse[] = [];
    const offset = offsetMicros();
    const used = createCpuMeter();
    let period = dense;
    let previous = performance.now();
    let sparseFrom = 0;
    let looks = 0;
    let timer: NodeJS.Timeout | undefined;

    const micros = (millis: number): number => millis * 1000 + offset;
    const comeEvery = (millis: number): void => {
        clearInterval(timer);
        period = millis;
        timer = setInterval(look, millis);
        timer.unref();
    };
    const leaveSparse = (at: number): void => {
        comeEvery(dense);
        if (sparse.length >= maxLate || at <= sparseFrom) return;
        sparse.push({ fromMicros: micros(sparseFrom), toMicros: micros(at) });
    };
    const fitPeriod = (now: number, isLate: boolean): void => {
        if (period > dense) {
            if (isLate) leaveSparse(previous);
            else if (used().millis >= dense / 2) leaveSparse(now);
        } else if (looks % idleLooks === 0 && used().share < idleShare && !isLate) {
            sparseFrom = now;
            comeEvery(dense * sparser);
        }
    };
    const look = (): void => {
        const now = performance.now();
        const lateBy = now - previous - period;
        const nanos = Math.max(1, Math.round(lateBy * 1e6));
        for (let i = 0; i < period / dense; i++) lag.record(nanos);
        looks++;
        const isLate = lateBy >= note;
        if (isLate && late.length < maxLate) {
            late.push({
                previousMicros: micros(previous),
                dueMicros: micros(previous + period),
                cameMicros: micros(now),
            });
        }
        fitPeriod(now, isLate);
        previous = now;
    };
    comeEvery(dense);
    return {
        end() {
            // The loop may be blocked right now, by what leads here.
            if (performance.now() - previous > period) look();
            if (period > dense) leaveSparse(performance.now());
            clearInterval(timer);
            return { late, sparse, lag, looks };
        },
    };
}

/** What the process used since it was asked before. */
function createCpuMeter(): () => { millis: number; share: number } {
    let usage = process.cpuUsage();
    let at = performance.now();
    return () => {
        const now = performance.now();
        const { user, system } = process.cpuUsage(usage);
        const millis = (user + system) / 1000;
        const share = millis / Math.max(1, now - at);
        usage = process.cpuUsage();
        at = now;
        return { millis, share };
    };
}
