// The spans that were seen, by number. Keeps of a span only its ids and its route once it has ended:
// spans can be large, and a busy service has many. A span gets a new number where others came between:
// to look it up by its id would cost more than all the rest.
import type { Attributes, SpanLink } from "./model.js";
import { parentOf, routeOf, type Span, type SpanContext } from "./otel_api.js";

/** Numbers that are remembered; the oldest make room. */
const CAPACITY = 1 << 17;
const SWEEP_AT = 512;
const MAX_DEPTH = 32;

export interface ActiveSpan {
    link: SpanLink;
    attributes?: Attributes; // http.route, where the span or one above it has it
}

interface Entry {
    number: number;
    context: SpanContext;
    parent: string | undefined;
    route: string | undefined;
    span: Span | undefined; // until it has ended
}

export interface SpanTable {
    /** A number for the span, from 1. */
    numberOf(span: Span): number;
    /** Undefined where it has made room for others, or where the span's ids are no ids. */
    get(number: number): ActiveSpan | undefined;
    clear(): void;
}

/** Takes over what the span says now; lets go of it once it has ended. */
function refresh(entry: Entry): void {
    const span = entry.span;
    if (!span) return;
    entry.route = routeOf(span);
    if (!span.isRecording()) entry.span = undefined;
}

function isValid({ traceId, spanId }: SpanContext): boolean {
    return /^(?!0+$)[0-9a-f]{32}$/.test(traceId) && /^(?!0+$)[0-9a-f]{16}$/.test(spanId);
}

export function createSpanTable(capacity = CAPACITY): SpanTable {
    let entries: Entry[] = [];
    let open: Entry[] = [];
    let sweepAt = SWEEP_AT;
    let last = 0;
    let lastSpan: Span | undefined;
    const byId = new Map<string, Entry>();
    let indexed = 0; // the last number that is in byId

    function sweep(): void {
        for (const entry of open) refresh(entry);
        open = open.filter((entry) => entry.span);
        sweepAt = open.length * 2 + SWEEP_AT;
    }

    function entryOf(number: number): Entry | undefined {
        const entry = entries[number % capacity];
        return entry?.number === number ? entry : undefined;
    }

    /** Only at the end of a window, and only for spans that have no route of their own. */
    function parentEntry(entry: Entry): Entry | undefined {
        if (entry.parent === undefined) return undefined;
        if (indexed !== last) {
            byId.clear();
            for (const known of entries) if (known) byId.set(known.context.spanId, known);
            indexed = last;
        }
        return byId.get(entry.parent);
    }

    function route(first: Entry): string | undefined {
        let entry: Entry | undefined = first;
        for (let depth = 0; entry && depth < MAX_DEPTH; depth++) {
            refresh(entry);
            if (entry.route !== undefined) return entry.route;
            entry = parentEntry(entry);
        }
        return undefined;
    }

    return {
        numberOf(span) {
            if (span === lastSpan) return last;
            lastSpan = span;
            const number = ++last;
            const context = span.spanContext();
            const entry = { number, context, parent: parentOf(span), route: undefined, span };
            entries[number % capacity] = entry;
            if (open.push(entry) >= sweepAt) sweep();
            return number;
        },
        get(number) {
            const entry = entryOf(number);
            if (!entry || !isValid(entry.context)) return undefined;
            const { traceId, spanId } = entry.context;
            const link = { traceId, spanId };
            const found = route(entry);
            return found === undefined ? { link } : { link, attributes: { "http.route": found } };
        },
        clear() {
            entries = [];
            open = [];
            sweepAt = SWEEP_AT;
            lastSpan = undefined;
            byId.clear();
            indexed = 0;
        },
    };
}
