// Which span was active when: what the thread's contexts switched to, and at what time, while a
// window is on. Joined to the samples of the window by spans.ts.
import type { Attributes, SpanLink } from "./model.js";

export interface ActiveSpan {
    link: SpanLink;
    attributes?: Attributes; // http.route, where the span or one above it has it
}

export interface SpanTrackerStats {
    switches: number;
    dropped: number; // switches that did not fit the buffer
}

export interface SpanTracker {
    /** A window begins. Counted: windows of several profilers may overlap. */
    start(): void;
    /** A window is over, and joined. */
    stop(): void;
    /** The span that was active at a moment of process.hrtime, in microseconds. */
    activeAt(monotonicMicros: number): ActiveSpan | undefined;
    stats(): SpanTrackerStats;
}

/** Undefined where the app has no @opentelemetry/api, or nothing that keeps contexts. */
export function createSpanTracker(): SpanTracker | undefined {
    return undefined;
}
