// A clock in the event loop: a timer that notes how late it comes. While it is due and does not come,
// something else has the loop. A timer of 10 ms costs the thread about 0.05 %, and unlike a count of
// all turns of the loop it lets the loop sleep.
import { createHistogram, performance, type RecordableHistogram } from "node:perf_hooks";

/** In microseconds of process.hrtime. */
export interface Lateness {
    previousMicros: number; // when the timer came before
    dueMicros: number;
    cameMicros: number;
}

export interface LoopReport {
    late: Lateness[];
    /** Of all times that the timer came, in nanoseconds. */
    lag: RecordableHistogram;
    utilization: number;
}

export interface LoopWatch {
    end(): LoopReport;
}

const maxLate = 10_000;

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
    const period = periodOf(thresholdMillis);
    const note = thresholdMillis - period;
    const lag = createHistogram();
    const late: Lateness[] = [];
    const offset = offsetMicros();
    const utilization = performance.eventLoopUtilization();
    let previous = performance.now();
    const look = (): void => {
        const now = performance.now();
        const lateBy = now - previous - period;
        lag.record(Math.max(1, Math.round(lateBy * 1e6)));
        if (lateBy >= note && late.length < maxLate) {
            late.push({
                previousMicros: previous * 1000 + offset,
                dueMicros: (previous + period) * 1000 + offset,
                cameMicros: now * 1000 + offset,
            });
        }
        previous = now;
    };
    const timer = setInterval(look, period);
    timer.unref();
    return {
        end() {
            clearInterval(timer);
            // The loop may be blocked right now, by what leads here.
            if (performance.now() - previous > period) look();
            return {
                late,
                lag,
                utilization: performance.eventLoopUtilization(utilization).utilization,
            };
        },
    };
}
