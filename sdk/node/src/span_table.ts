// The spans that were seen, by number. What is kept of a span lies in typed arrays: a busy service has
// tens of thousands a second, and objects that outlive their request are what garbage collectors are
// slow with. A span gets a new number where others came between: to look it up by its id would cost
// more than all the rest.
import type { Attributes, SpanLink } from "./model.js";
import { parentOf, routeOf, type Span } from "./otel_api.js";

/** Numbers that are remembered; the oldest make room. */
const CAPACITY = 1 << 17; // 8 MiB
const FIRST_CAPACITY = 1 << 10;
const SWEEP_AT = 512;
const MAX_DEPTH = 32;
/** A caller's span was entered shortly before, or its route is not found. */
const MAX_LOOK_BACK = 4096;
const MAX_ROUTES = 1 << 12;

const TRACE = 32;
const SPAN = 16;
const ROOM = TRACE + SPAN + SPAN; // trace, span, parent: hexadecimal digits; zeros: none

export interface ActiveSpan {
    link: SpanLink;
    attributes?: Attributes; // http.route, where the span or one above it has it
}

export interface SpanTable {
    /** A number for the span, from 1. */
    numberOf(span: Span): number;
    /** Undefined where it has made room for others, or where the span's ids are no ids. */
    get(number: number): ActiveSpan | undefined;
    clear(): void;
}

/** Few routes serve many spans. */
interface RouteNames {
    numberOf(route: string | undefined): number; // 0: none, or too many different ones
    nameOf(number: number): string | undefined;
}

function createRouteNames(): RouteNames {
    const names: string[] = [""];
    const numbers = new Map<string, number>();
    return {
        numberOf(route) {
            if (route === undefined) return 0;
            let number = numbers.get(route);
            if (number === undefined && names.length < MAX_ROUTES) {
                number = names.push(route) - 1;
                numbers.set(route, number);
            }
            return number ?? 0;
        },
        nameOf: (number) => (number === 0 ? undefined : names[number]),
    };
}

function isId(text: string): boolean {
    return /^(?!0+$)[0-9a-f]+$/.test(text);
}

interface OpenSpan {
    number: number;
    span: Span;
}

export function createSpanTable(capacity = CAPACITY): SpanTable {
    const routeNames = createRouteNames();
    let size = 0; // of the arrays: a power of two
    let ids = new Uint8Array(0);
    let routes = new Uint16Array(0);
    let open: OpenSpan[] = []; // routes are told late: until they have ended; by number
    let sweepAt = SWEEP_AT;
    let base = 1; // the number that is at the start of the arrays
    let first = 1; // the oldest that is remembered
    let last = 0;
    let lastSpan: Span | undefined;

    function empty(): void {
        size = Math.min(capacity, FIRST_CAPACITY);
        ids = new Uint8Array(size * ROOM);
        routes = new Uint16Array(size);
        open = [];
        sweepAt = SWEEP_AT;
        base = first = last + 1;
        lastSpan = undefined;
    }

    /** Numbers fill the arrays from their start, and then go round. */
    function placeOf(number: number): number {
        return (number - base) & (size - 1);
    }

    function makeRoom(): void {
        if (last - first < size) return;
        if (size < capacity) {
            size *= 2;
            const moved = new Uint8Array(size * ROOM);
            moved.set(ids);
            ids = moved;
            const movedRoutes = new Uint16Array(size);
            movedRoutes.set(routes);
            routes = movedRoutes;
        } else {
            first = last - size + 1;
        }
    }

    function write(text: string | undefined, at: number, length: number): void {
        for (let i = 0; i < length; i++) ids[at + i] = text === undefined ? 0 : text.charCodeAt(i);
    }

    function read(at: number, length: number): string {
        return String.fromCharCode(...ids.subarray(at, at + length));
    }

    function isRemembered(number: number): boolean {
        return number >= first && number <= last;
    }

    /** Takes over what the span says now. */
    function refresh({ number, span }: OpenSpan): void {
        if (isRemembered(number)) routes[placeOf(number)] = routeNames.numberOf(routeOf(span));
    }

    function sweep(): void {
        for (const entry of open) refresh(entry);
        open = open.filter(({ number, span }) => isRemembered(number) && span.isRecording());
        sweepAt = open.length * 2 + SWEEP_AT;
    }

    /** What a span says at its end is what counts. */
    function refreshIfOpen(number: number): void {
        let low = 0;
        let high = open.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (open[middle]!.number < number) low = middle + 1;
            else high = middle;
        }
        const found = open[low];
        if (found?.number !== number) return;
        refresh(found);
        if (!found.span.isRecording()) open.splice(low, 1);
    }

    function hasSpanId(number: number, id: number): boolean {
        const at = placeOf(number) * ROOM + TRACE;
        for (let i = 0; i < SPAN; i++) if (ids[at + i] !== ids[id + i]) return false;
        return true;
    }

    /** The number of the span above; 0 where it is not known. */
    function parentNumber(number: number): number {
        const id = placeOf(number) * ROOM + TRACE + SPAN;
        if (ids[id] === 0) return 0;
        const oldest = Math.max(first, number - MAX_LOOK_BACK);
        for (let n = number - 1; n >= oldest; n--) if (hasSpanId(n, id)) return n;
        return 0;
    }

    function route(of: number): string | undefined {
        let number = of;
        for (let depth = 0; number !== 0 && depth < MAX_DEPTH; depth++) {
            refreshIfOpen(number);
            const name = routeNames.nameOf(routes[placeOf(number)]!);
            if (name !== undefined) return name;
            number = parentNumber(number);
        }
        return undefined;
    }

    empty();
    return {
        numberOf(span) {
            if (span === lastSpan) return last;
            lastSpan = span;
            const number = ++last;
            makeRoom();
            const { traceId, spanId } = span.spanContext();
            const at = placeOf(number) * ROOM;
            write(traceId, at, TRACE);
            write(spanId, at + TRACE, SPAN);
            write(parentOf(span), at + TRACE + SPAN, SPAN);
            routes[placeOf(number)] = routeNames.numberOf(routeOf(span));
            const isSaid = span.attributes?.["http.route"] !== undefined;
            if (!isSaid && open.push({ number, span }) >= sweepAt) sweep();
            return number;
        },
        get(number) {
            if (!isRemembered(number)) return undefined;
            const at = placeOf(number) * ROOM;
            const link = { traceId: read(at, TRACE), spanId: read(at + TRACE, SPAN) };
            if (!isId(link.traceId) || !isId(link.spanId)) return undefined;
            const found = route(number);
            return found === undefined ? { link } : { link, attributes: { "http.route": found } };
        },
        clear: empty,
    };
}
