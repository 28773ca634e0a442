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
const KEPT_BEFORE = 4096;
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
    /** The same for many at once, as spans are now: what was found is remembered. */
    reader(): (number: number) => ActiveSpan | undefined;
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
    let ids = Buffer.alloc(0);
    let routes = new Uint16Array(0);
    let open: OpenSpan[] = []; // routes are told late: until they have ended; by number
    let sweepAt = SWEEP_AT;
    let first = 1; // the oldest that is remembered
    let last = 0;
    let lastSpan: Span | undefined;

    function empty(): void {
        size = Math.min(capacity, least);
        ids = Buffer.alloc(size * ROOM);
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
            ids = move(ids, Buffer.alloc(2 * size * ROOM), ROOM);
            routes = move(routes, new Uint16Array(2 * size), 1);
            size *= 2;
        } else {
            first = last - size + 1;
        }
    }

    function write(text: string | undefined, at: number, length: number): void {
        for (let i = 0; i < length; i++) ids[at + i] = text === undefined ? 0 : text.charCodeAt(i);
    }

    function text(at: number, length: number): string {
        return ids.toString("latin1", at, at + length);
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

    function isSameText(one: number, other: number, length: number): boolean {
        for (let i = 0; i < length; i++) if (ids[one + i] !== ids[other + i]) return false;
        return true;
    }

    function hashOf(at: number): number {
        let hash = 0;
        for (let i = 0; i < SPAN; i++) hash = Math.imul(hash ^ ids[at + i]!, 0x01000193);
        return hash ^ (hash >>> 15);
    }

    /** Finds the span above; 0 where it is not known. To look through all that came before would take
     * long for each that is not there: they are sorted by their ids once, where one is looked for. */
    function parentFinder(): (number: number) => number {
        let slots = new Float64Array(0); // of numbers; the newest of a span
        let mask = 0;
        const placeFor = (trace: number, span: number): number => {
            let slot = hashOf(span) & mask;
            for (; slots[slot] !== 0; slot = (slot + 1) & mask) {
                const at = placeOf(slots[slot]!) * ROOM;
                if (isSameText(at + TRACE, span, SPAN) && isSameText(at, trace, TRACE)) break;
            }
            return slot;
        };
        const sort = (): void => {
            let room = 2;
            while (room < 2 * (last - first + 1)) room *= 2;
            slots = new Float64Array(room);
            mask = room - 1;
            for (let number = first; number <= last; number++) {
                const at = placeOf(number) * ROOM;
                slots[placeFor(at, at + TRACE)] = number;
            }
        };
        return (number) => {
            const at = placeOf(number) * ROOM;
            if (ids[at + TRACE + SPAN] === 0) return 0;
            if (mask === 0) sort();
            return slots[placeFor(at, at + TRACE + SPAN)]!;
        };
    }

    /** Of a span, or of the nearest above it that has one. */
    function routeReader(): (number: number) => string | undefined {
        const parentNumber = parentFinder();
        const known = new Map<number, string | undefined>();
        const read = (number: number, depth: number): string | undefined => {
            if (known.has(number)) return known.get(number);
            refreshIfOpen(number);
            let name = routeNames.nameOf(routes[placeOf(number)]!);
            if (name === undefined && depth < MAX_DEPTH) {
                const above = parentNumber(number);
                if (above !== 0 && above !== number) name = read(above, depth + 1);
            }
            known.set(number, name);
            return name;
        };
        return (number) => read(number, 0);
    }

    function reader(): (number: number) => ActiveSpan | undefined {
        const routeOfNumber = routeReader();
        const known = new Map<number, ActiveSpan | undefined>();
        const read = (number: number): ActiveSpan | undefined => {
            if (!isRemembered(number)) return undefined;
            const at = placeOf(number) * ROOM;
            const link = { traceId: text(at, TRACE), spanId: text(at + TRACE, SPAN) };
            if (!isId(link.traceId) || !isId(link.spanId)) return undefined;
            const found = routeOfNumber(number);
            return found === undefined ? { link } : { link, attributes: { "http.route": found } };
        };
        return (number) => {
            if (!known.has(number)) known.set(number, read(number));
            return known.get(number);
        };
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
        get: (number) => reader()(number),
        reader,
        last: () => last,
        forget(number) {
            first = Math.min(last + 1, Math.max(first, number - KEPT_BEFORE));
        },
        openCount: () => open.length,
        clear: empty,
    };
}
