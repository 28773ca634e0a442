// Two clocks and the way between them. V8's samples and this package's own records are timed by the
// monotonic clock of process.hrtime (microseconds in V8's profiles); what leaves the process is Unix
// time. The distance is measured once per window, so that everything in a window is moved alike.

let unixMinusMonotonic: bigint | undefined;

const TRIES = 4;

/** What to add to another clock's time to get that of process.hrtime, in nanoseconds. A thread may
 * lose its core between two clocks: the quickest of some tries is taken. */
export function distanceTo(nanosOfOther: () => bigint): bigint {
    let best: { took: bigint; distance: bigint } | undefined;
    for (let i = 0; i < TRIES; i++) {
        const before = process.hrtime.bigint();
        const other = nanosOfOther();
        const took = process.hrtime.bigint() - before;
        if (!best || took < best.took) best = { took, distance: before + took / 2n - other };
    }
    return best?.distance ?? 0n;
}

/** Measures the distance anew. To be called where a window begins. */
export function syncClock(): void {
    unixMinusMonotonic = -distanceTo(() => BigInt(Math.round(wallMillis() * 1000)) * 1000n);
}

/** Fractions of a millisecond come from the performance clock, until the machine's clock was set. */
function wallMillis(): number {
    const fine = performance.timeOrigin + performance.now();
    const coarse = Date.now() + 0.5;
    return Math.abs(fine - coarse) < 2 ? fine : coarse;
}

function distance(): bigint {
    if (unixMinusMonotonic === undefined) syncClock();
    return unixMinusMonotonic as bigint;
}

/** Unix time in nanoseconds of a moment of V8's profiles (startTime and sums of timeDeltas). */
export function unixNanosOfMicros(monotonicMicros: number): bigint {
    return BigInt(Math.round(monotonicMicros * 1000)) + distance();
}

/** The way back. */
export function monotonicMicrosOf(unixNanos: bigint): number {
    return Number(unixNanos - distance()) / 1000;
}

/** For people: to the millisecond. */
export function isoTime(unixNanos: bigint): string {
    return new Date(Number(unixNanos / 1_000_000n)).toISOString();
}
