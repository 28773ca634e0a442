// Which span was active when: what the thread's contexts switched to, and at what time, while a
// window is on. Joined to the samples of the window by spans.ts.
import { performance } from "node:perf_hooks";
import { distanceTo } from "./clock.js";
import { watchContexts } from "./context_watch.js";
import { type Context, type ContextManager, contextManager, spanOf } from "./otel_api.js";
import { type ActiveSpan, createSpanTable } from "./span_table.js";
import { createSwitchRing } from "./switch_ring.js";

export type { ActiveSpan } from "./span_table.js";

export interface SpanTrackerStats {
    switches: number;
    dropped: number; // switches that windows had to forget before their end
    errors: number; // what contexts and spans threw; the window goes on without them
}

export interface SpanWindow {
    /** How much of the memory is used for it. Above 1 its beginning is forgotten. */
    fill(): number;
    /** The window is over, and joined. Says how many switches it had to forget. */
    end(): number;
}

export interface SpanTracker {
    /** Windows of several profilers may overlap. Does nothing while the app has no OpenTelemetry SDK,
     * which may come later. */
    begin(): SpanWindow;
    /** The span that was active at a moment of process.hrtime, in microseconds. */
    activeAt(monotonicMicros: number): ActiveSpan | undefined;
    /** The same for many moments, all of them asked at once. */
    reader(): (monotonicMicros: number) => ActiveSpan | undefined;
    stats(): SpanTrackerStats;
}

/** Where a window began; what was active then counts, too. */
interface Mark {
    switches: number;
    number: number;
}

const now = performance.now.bind(performance); // milliseconds

/** Of the clock of `now` to that of process.hrtime, in milliseconds. */
function clockDistance(): number {
    return Number(distanceTo(() => BigInt(Math.round(now() * 1e6)))) / 1e6;
}

export function createSpanTracker(
    table = createSpanTable(),
    ring = createSwitchRing(),
): SpanTracker {
    const distance = clockDistance();
    const windows = new Set<Mark>();
    let switches = 0;
    let dropped = 0;
    let errors = 0;
    let watched: ContextManager | undefined;
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

    /** The app may have replaced what keeps its contexts. */
    function watch(): void {
        const manager = contextManager();
        if (manager === watched) return;
        stopWatching?.();
        watched = manager;
        stopWatching = manager && watchContexts(manager, watcher);
    }

    /** Keeps what windows that are open need. */
    function tidy(): void {
        if (windows.size > 0) {
            const marks = [...windows];
            ring.forget(Math.min(...marks.map((mark) => mark.switches)));
            table.forget(Math.min(...marks.map((mark) => mark.number)));
            return;
        }
        stopWatching?.();
        stopWatching = undefined;
        watched = undefined;
        ring.clear();
        table.clear();
        current = -1;
    }

    function end(mark: Mark): number {
        if (!windows.delete(mark)) return 0;
        const forgotten = Math.max(
            0,
            ring.count() - mark.switches - ring.capacity,
            table.last() - mark.number - table.capacity,
        );
        dropped += forgotten;
        tidy();
        return forgotten;
    }

    function reader(): (monotonicMicros: number) => ActiveSpan | undefined {
        const read = table.reader();
        return (monotonicMicros) => {
            const number = ring.at(monotonicMicros / 1000 - distance);
            return number === 0 ? undefined : read(number);
        };
    }

    return {
        begin() {
            watch();
            const mark = { switches: Math.max(0, ring.count() - 1), number: table.last() };
            windows.add(mark);
            return {
                fill: () =>
                    Math.max(
                        (ring.count() - mark.switches) / ring.capacity,
                        (table.last() - mark.number) / table.capacity,
                    ),
                end: () => end(mark),
            };
        },
        activeAt: (monotonicMicros) => reader()(monotonicMicros),
        reader,
        stats: () => ({ switches, dropped, errors }),
    };
}
