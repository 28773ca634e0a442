// Which span was active when: what the thread's contexts switched to, and at what time, while a
// window is on. Joined to the samples of the window by spans.ts.
import { performance } from "node:perf_hooks";
import { distanceTo } from "./clock.js";
import { watchContexts } from "./context_watch.js";
import { type Context, contextManager, spanOf } from "./otel_api.js";
import { type ActiveSpan, createSpanTable } from "./span_table.js";
import { createSwitchRing } from "./switch_ring.js";

export type { ActiveSpan } from "./span_table.js";

export interface SpanTrackerStats {
    switches: number;
    dropped: number; // switches that did not fit the buffer
    errors: number; // what contexts and spans threw; the window goes on without them
}

export interface SpanTracker {
    /** A window begins. Counted: windows of several profilers may overlap. Does nothing while the
     * app has no OpenTelemetry SDK, which may come later. */
    start(): void;
    /** A window is over, and joined. */
    stop(): void;
    /** The span that was active at a moment of process.hrtime, in microseconds. */
    activeAt(monotonicMicros: number): ActiveSpan | undefined;
    stats(): SpanTrackerStats;
}

const now = performance.now.bind(performance); // milliseconds

/** Of the clock of `now` to that of process.hrtime, in milliseconds. */
function clockDistance(): number {
    return Number(distanceTo(() => BigInt(Math.round(now() * 1e6)))) / 1e6;
}

export function createSpanTracker(): SpanTracker {
    const table = createSpanTable();
    const ring = createSwitchRing();
    const distance = clockDistance();
    let windows = 0;
    let switches = 0;
    let errors = 0;
    let stopWatching: (() => void) | undefined;

    let current = -1; // number of the active span; 0: none

    const watcher = {
        entered(context: Context): void {
            const span = spanOf(context);
            const number = span === undefined ? 0 : table.numberOf(span);
            if (number === current) return;
            current = number;
            switches++;
            ring.push(now(), number);
        },
        failed(): void {
            errors++;
        },
    };

    return {
        start() {
            windows++;
            if (stopWatching) return;
            const manager = contextManager();
            if (manager) stopWatching = watchContexts(manager, watcher);
        },
        stop() {
            if (windows === 0 || --windows > 0) return;
            stopWatching?.();
            stopWatching = undefined;
            ring.clear();
            table.clear();
            current = -1;
        },
        activeAt(monotonicMicros) {
            const number = ring.at(monotonicMicros / 1000 - distance);
            return number === 0 ? undefined : table.get(number);
        },
        stats: () => ({ switches, dropped: ring.dropped(), errors }),
    };
}
