// How long a reading of V8's heap profiler would stop the thread. Whatever is asked of it, V8 collects
// all garbage first (there is no flag against it, Node 18 to 24), which takes the longer the more is
// alive. So it is estimated beforehand, and left out where it would take too long.
import type { StatsKeeper } from "./stats.js";
import { onceInThread } from "./workers.js";

/** Measured with Node 18 to 24 on small objects, of which a MB holds most. */
const firstMillisPerMegabyte = 0.8;
/** A machine that was busy for a moment says nothing about the heap. */
const leastMillisPerMegabyte = 0.1;
const mostMillisPerMegabyte = 4;
/** With every window that is left out, what was measured counts for less, down to what is measured
 * elsewhere: nothing is measured then, and one reading in a busy moment would be the last one. */
const keptShare = 0.9;
/** Smaller heaps take what everything takes. */
const tellingMegabytes = 20;

/** What was measured here: one reading tells more about this heap than all others. */
function measured(): { millisPerMegabyte: number } {
    return onceInThread("reading_cost", () => ({ millisPerMegabyte: firstMillisPerMegabyte }));
}

function forgetSome(): void {
    const cost = measured();
    const above = cost.millisPerMegabyte - firstMillisPerMegabyte;
    if (above > 0) cost.millisPerMegabyte = firstMillisPerMegabyte + above * keptShare;
}

function heapMegabytes(): number {
    return process.memoryUsage().heapUsed / 1e6;
}

export interface PauseGuard {
    /** Asked once for a window, which is left out then. Says so once, in words. */
    isTooLong(): boolean;
    /** Runs the reading, and learns from it. */
    read<T>(reading: () => T): T;
}

export function createPauseGuard(
    name: string,
    maxPauseMillis: number,
    stats: Pick<StatsKeeper, "log">,
): PauseGuard {
    let isTold = false;
    return {
        isTooLong() {
            const megabytes = heapMegabytes();
            const millis = Math.round(megabytes * measured().millisPerMegabyte);
            if (millis <= maxPauseMillis) return false;
            const words = `${name}: reading them from a heap of ${Math.round(megabytes)} MB is expected to stop this thread for ${millis} ms; it is left out (${name}.maxPauseMillis is ${maxPauseMillis})`;
            if (!isTold) stats.log.error(words);
            isTold = true;
            forgetSome();
            return true;
        },
        read(reading) {
            const megabytes = heapMegabytes();
            const from = performance.now();
            const result = reading();
            const each = (performance.now() - from) / megabytes;
            if (megabytes >= tellingMegabytes) {
                const atLeast = Math.max(leastMillisPerMegabyte, each);
                measured().millisPerMegabyte = Math.min(mostMillisPerMegabyte, atLeast);
            }
            return result;
        },
    };
}
