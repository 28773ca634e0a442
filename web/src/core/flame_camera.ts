// What part of a flame graph is looked at: a range of x between 0 and 1, and how far the rows are
// scrolled away from the root. Plain functions over plain values; the chart holds one of them.

import { firstBeyond, type FlameLayout, hiddenRowOf, rowOf } from "./flame_layout";

export const ROW = 18; // height of a box, in CSS pixels
export const PITCH = 19; // with the gap below it
/** Narrower than this nothing can be told apart any more: numbers have 53 bits. */
const MIN_SPAN = 1e-11;

export interface Camera {
    from: number;
    to: number;
    scroll: number; // CSS pixels
}

export const WHOLE: Camera = { from: 0, to: 1, scroll: 0 };

export function clampCamera(c: Camera, maxScroll: number): Camera {
    const span = Math.min(1, Math.max(MIN_SPAN, c.to - c.from));
    const from = Math.min(1 - span, Math.max(0, c.from));
    return {
        from,
        to: from + span,
        scroll: Math.min(Math.max(0, c.scroll), Math.max(0, maxScroll)),
    };
}

/** Closer by `factor` (2: twice as large); what is at `at` (0 .. 1 of the width) stays there. */
export function zoomAt(c: Camera, at: number, factor: number): Camera {
    const span = Math.min(1, Math.max(MIN_SPAN, (c.to - c.from) / factor));
    const point = c.from + at * (c.to - c.from);
    const from = Math.min(1 - span, Math.max(0, point - at * span));
    return { from, to: from + span, scroll: c.scroll };
}

/** Moved by a part of the width. */
export function panBy(c: Camera, part: number): Camera {
    const span = c.to - c.from;
    const from = Math.min(1 - span, Math.max(0, c.from + part * span));
    return { from, to: from + span, scroll: c.scroll };
}

/** Between two cameras; only x moves, and it slows down towards the end. */
export function easeCamera(a: Camera, b: Camera, progress: number): Camera {
    const t = 1 - (1 - Math.min(1, Math.max(0, progress))) ** 3;
    const mid = (p: number, q: number) => p + (q - p) * t;
    return t >= 1 ? b : { from: mid(a.from, b.from), to: mid(a.to, b.to), scroll: b.scroll };
}

/**
 * The camera over a newer picture of the same thing: what is seen of a node stays where it is,
 * although the node may be elsewhere and wider now. Null: one of them has no width.
 */
export function cameraAlong(
    c: Camera,
    was: { layout: FlameLayout; node: number },
    now: { layout: FlameLayout; node: number },
): Camera | null {
    const a = was.layout.x[was.node];
    const b = now.layout.x[now.node];
    const before = was.layout.end[was.node] - a;
    const after = now.layout.end[now.node] - b;
    if (!(before > 0) || !(after > 0)) return null;
    const place = (x: number) => b + ((x - a) / before) * after;
    return { from: place(c.from), to: place(c.to), scroll: c.scroll };
}

/** How many rows have something in a range. Below an empty row all are empty. */
export function rowsWithin(l: FlameLayout, from: number, to: number): number {
    const has = (depth: number) => {
        const r = rowOf(l.tree, depth);
        const i = firstBeyond(l.end, r.from, r.until, from);
        if (i < r.until && l.x[i] < to) return true;
        const h = hiddenRowOf(l, depth);
        const k = firstBeyond(l.hiddenEnd, h.from, h.until, from);
        return k < h.until && l.hiddenX[k] < to;
    };
    let lo = 0;
    let hi = l.nRows;
    while (lo < hi) {
        const m = (lo + hi) >>> 1;
        if (has(m)) lo = m + 1;
        else hi = m;
    }
    return Math.max(1, lo);
}

export interface RowPlace {
    depth: number;
    at: number; // distance of its near edge from the root's edge of the picture, in CSS pixels
    isPinned: boolean; // it would be scrolled away
}

/**
 * The rows that a picture shows; pinned ones last, since they lie on top. `pins` are depths that
 * stay: the root, and what is zoomed to.
 */
export function rowsInView(
    scroll: number,
    height: number,
    nRows: number,
    pins: readonly number[],
): RowPlace[] {
    const out: RowPlace[] = [];
    const stuck: RowPlace[] = [];
    pins.forEach((depth, k) => {
        if (depth < nRows && depth * PITCH - scroll < k * PITCH)
            stuck.push({ depth, at: k * PITCH, isPinned: true });
    });
    const first = Math.max(0, Math.floor(scroll / PITCH));
    for (let d = first; d < nRows && d * PITCH - scroll < height; d++)
        if (!stuck.some((s) => s.depth === d))
            out.push({ depth: d, at: d * PITCH - scroll, isPinned: false });
    return out.concat(stuck);
}

/** The row at a distance from the root's edge; -1: none. */
export function rowAt(rows: readonly RowPlace[], at: number): number {
    for (let i = rows.length - 1; i >= 0; i--)
        if (at >= rows[i].at && at < rows[i].at + PITCH) return rows[i].depth;
    return -1;
}
