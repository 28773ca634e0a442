// Two clocks and the way between them. V8's samples and this package's own records are timed by the
// monotonic clock of process.hrtime (microseconds in V8's profiles); what leaves the process is Unix
// time. The distance is measured once per window, so that everything in a window is moved alike.

let unixMinusMonotonic: bigint | undefined;

/** Measures the distance anew. To be called where a window begins. */
export function syncClock(): void {
    const before = process.hrtime.bigint();
    const now = wallMillis();
    const after = process.hrtime.bigint();
    unixMinusMonotonic = BigInt(Math.round(now * 1000)) * 1000n - (before + after) / 2n;
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
