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
/** Spans that are kept for what they may still say. There may be some that nobody ever ends. */
const MAX_OPEN = 1 << 13;
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
    readonly capacity: number;
    /** A number for the span, from 1. */
    numberOf(span: Span): number;
    /** Undefined where it has made room for others, or where the span's ids are no ids. */
    get(number: number): ActiveSpan | undefined;
    /** The newest number; 0 where there is none. */
    last(): number;
    /** Numbers before this one may make room, but for those that were shortly before. */
    forget(number: number): void;
    /** How many spans are kept for what they may still say. For tests. */
    openCount(): number;
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

export function createSpanTable(capacity = CAPACITY, least = FIRST_CAPACITY): SpanTable {
    const routeNames = createRouteNames();
    let size = 0; // of the arrays: a power of two
    let ids = new Uint8Array(0);
    let routes = new Uint16Array(0);
    let open: OpenSpan[] = []; // routes are told late: until they have ended; by number
    let sweepAt = SWEEP_AT;
    let first = 1; // the oldest that is remembered
    let last = 0;
    let lastSpan: Span | undefined;

    function empty(): void {
        size = Math.min(capacity, least);
        ids = new Uint8Array(size * ROOM);
        routes = new Uint16Array(size);
        open = [];
        sweepAt = SWEEP_AT;
        first = last + 1;
        lastSpan = undefined;
    }

    function placeOf(number: number): number {
        return number & (size - 1);
    }

    /** Copies what there is to where it belongs in an array of twice the size. */
    function move<T extends Uint8Array | Uint16Array>(from: T, to: T, room: number): T {
        const at = placeOf(first);
        const place = first & (2 * size - 1);
        const rest = (place + size - at) & (2 * size - 1);
        to.set(from.subarray(at * room), place * room);
        to.set(from.subarray(0, at * room), rest * room);
        return to;
    }

    function makeRoom(): void {
        if (last - first < size) return;
        if (size < capacity) {
            ids = move(ids, new Uint8Array(2 * size * ROOM), ROOM);
            routes = move(routes, new Uint16Array(2 * size), 1);
            size *= 2;
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
        open = open.slice(-MAX_OPEN);
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
        capacity,
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
        last: () => last,
        forget(number) {
            first = Math.min(last + 1, Math.max(first, number - MAX_LOOK_BACK));
        },
        openCount: () => open.length,
        clear: empty,
    };
}
