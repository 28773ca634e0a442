// The spans that were seen, by number. Keeps of a span only its ids and its route once it has ended:
// spans can be large, and a busy service has many.
import type { Attributes, SpanLink } from "./model.js";
import { parentOf, routeOf, type Span } from "./otel_api.js";

/** Distinct spans that are remembered; the oldest make room. */
const CAPACITY = 1 << 16;
const SWEEP_AT = 512;
const MAX_DEPTH = 32;

export interface ActiveSpan {
    link: SpanLink;
    attributes?: Attributes; // http.route, where the span or one above it has it
}

interface Entry {
    number: number;
    link: SpanLink;
    parent: string | undefined;
    route: string | undefined;
    span: Span | undefined; // until it has ended
}

export interface SpanTable {
    /** The span's number, from 1. 0: it has no valid context. */
    numberOf(span: Span): number;
    /** Undefined where it has made room for others. */
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

export function createSpanTable(capacity = CAPACITY): SpanTable {
    let entries: Entry[] = [];
    let numbers = new Map<string, number>();
    let open: Entry[] = [];
    let sweepAt = SWEEP_AT;
    let last = 0;

    function sweep(): void {
        for (const entry of open) refresh(entry);
        open = open.filter((entry) => entry.span);
        sweepAt = open.length * 2 + SWEEP_AT;
    }

    function add(span: Span, traceId: string, spanId: string): number {
        const number = ++last;
        const place = number % capacity;
        const evicted = entries[place];
        if (evicted) {
            evicted.span = undefined;
            if (numbers.get(evicted.link.spanId) === evicted.number) {
                numbers.delete(evicted.link.spanId);
            }
        }
        const link = { traceId, spanId };
        const entry = { number, link, parent: parentOf(span), route: undefined, span };
        entries[place] = entry;
        numbers.set(spanId, number);
        if (open.push(entry) >= sweepAt) sweep();
        return number;
    }

    function entryOf(number: number | undefined): Entry | undefined {
        if (number === undefined) return undefined;
        const entry = entries[number % capacity];
        return entry?.number === number ? entry : undefined;
    }

    function route(first: Entry): string | undefined {
        let entry: Entry | undefined = first;
        for (let depth = 0; entry && depth < MAX_DEPTH; depth++) {
            refresh(entry);
            if (entry.route !== undefined) return entry.route;
            entry = entry.parent === undefined ? undefined : entryOf(numbers.get(entry.parent));
        }
        return undefined;
    }

    return {
        numberOf(span) {
            const { traceId, spanId } = span.spanContext();
            const known = numbers.get(spanId);
            if (known !== undefined) return known;
            if (!/^(?!0+$)[0-9a-f]{16}$/.test(spanId)) return 0;
            if (!/^(?!0+$)[0-9a-f]{32}$/.test(traceId)) return 0;
            return add(span, traceId, spanId);
        },
        get(number) {
            const entry = entryOf(number);
            if (!entry) return undefined;
            const found = route(entry);
            if (found === undefined) return { link: entry.link };
            return { link: entry.link, attributes: { "http.route": found } };
        },
        clear() {
            entries = [];
            numbers = new Map();
            open = [];
            sweepAt = SWEEP_AT;
        },
    };
}
