// Where the boxes of a tree are, between 0 (the left edge of the root) and 1 (its right edge), and
// which of them a strip of pixels shows. Rows are slices of breadth-first order and their boxes go
// from left to right, so that everything is found by bisection, whatever the size of the tree.

import type { FrameTree } from "./frame_tree";

export type WidthMode = "after" | "before" | "union";

export interface FlameLayout {
    tree: FrameTree;
    x: Float64Array; // left edges
    end: Float64Array; // right edges
    size: number; // what a width of 1 stands for
    nRows: number; // with boxes of hidden children, which may lie below the deepest node
    /** Nodes with hidden children, in order; the box of each lies in the row below it. */
    hiddenOf: Uint32Array;
    hiddenX: Float64Array;
    hiddenEnd: Float64Array;
    hiddenRows: Uint32Array; // hiddenRows[d] .. hiddenRows[d + 1]: those in row d
}

/** What counts for widths. Values may be negative (a base was subtracted): then their size counts. */
function sizesOf(t: FrameTree, mode: WidthMode, beforeScale: number): Float64Array {
    const w = new Float64Array(t.n);
    const before = t.before;
    const side = (after: number, b: number) => {
        const a = Math.abs(after);
        const c = Math.abs(b) * beforeScale;
        return mode === "after" || !before ? a : mode === "before" ? c : Math.max(a, c);
    };
    for (let i = 0; i < t.n; i++) w[i] = side(t.self[i], before ? before.self[i] : 0);
    for (const [node, h] of t.hidden) w[node] += side(h.value, h.before);
    for (let i = t.n - 1; i > 0; i--) w[t.parent[i]] += w[i];
    return w;
}

function layHidden(l: FlameLayout, mode: WidthMode, beforeScale: number) {
    const t = l.tree;
    const factor = l.size > 0 ? 1 / l.size : 0;
    const nodes = Uint32Array.from(t.hidden.keys()).sort();
    const counts = new Uint32Array(l.nRows + 1);
    l.hiddenOf = nodes;
    l.hiddenX = new Float64Array(nodes.length);
    l.hiddenEnd = new Float64Array(nodes.length);
    for (let k = 0; k < nodes.length; k++) {
        const node = nodes[k];
        const h = t.hidden.get(node) ?? { children: 0, value: 0, before: 0 };
        const a = Math.abs(h.value);
        const b = Math.abs(h.before) * beforeScale;
        const size = mode === "after" || !t.before ? a : mode === "before" ? b : Math.max(a, b);
        const nChildren = t.children[node];
        l.hiddenX[k] = nChildren > 0 ? l.end[t.first[node] + nChildren - 1] : l.x[node];
        l.hiddenEnd[k] = Math.min(l.hiddenX[k] + size * factor, l.end[node]);
        counts[t.depth[node] + 2]++;
    }
    for (let d = 1; d <= l.nRows; d++) counts[d] += counts[d - 1];
    l.hiddenRows = counts;
}

/** `beforeScale` makes the sides comparable when shares are compared: after's total / before's. */
export function layOut(t: FrameTree, mode: WidthMode = "after", beforeScale = 1): FlameLayout {
    const w = sizesOf(t, mode, beforeScale);
    const x = new Float64Array(t.n);
    const end = new Float64Array(t.n);
    const size = w[0];
    const factor = size > 0 ? 1 / size : 0;
    end[0] = size > 0 ? 1 : 0;
    for (let i = 0; i < t.n; i++) {
        let at = x[i];
        const limit = end[i];
        for (let c = t.first[i], last = c + t.children[i]; c < last; c++) {
            x[c] = at;
            // Rounding must not let a child stick out: rows would no longer be in order.
            at = Math.min(at + w[c] * factor, limit);
            end[c] = at;
        }
    }
    const deepest = t.rows.length - 2;
    let nRows = deepest + 1;
    for (const node of t.hidden.keys()) if (t.depth[node] === deepest) nRows = deepest + 2;
    const none = new Float64Array(0);
    const l: FlameLayout = {
        tree: t,
        x,
        end,
        size,
        nRows,
        hiddenOf: new Uint32Array(0),
        hiddenX: none,
        hiddenEnd: none,
        hiddenRows: new Uint32Array(nRows + 1),
    };
    layHidden(l, mode, beforeScale);
    return l;
}

// ---- Finding

/** The first of lo .. hi whose right edge is beyond `at`. */
export function firstBeyond(end: Float64Array, lo: number, hi: number, at: number): number {
    let a = lo;
    let b = hi;
    while (a < b) {
        const m = (a + b) >>> 1;
        if (end[m] > at) b = m;
        else a = m + 1;
    }
    return a;
}

/** The same, when it is probably near `lo`. */
export function gallopBeyond(end: Float64Array, lo: number, hi: number, at: number): number {
    let step = 1;
    let a = lo;
    while (a + step < hi && end[a + step] <= at) {
        a += step;
        step *= 2;
    }
    return firstBeyond(end, a, Math.min(a + step, hi), at);
}

export interface Row {
    from: number;
    until: number;
}

export function rowOf(t: FrameTree, depth: number): Row {
    if (depth < 0 || depth + 1 >= t.rows.length) return { from: 0, until: 0 };
    return { from: t.rows[depth], until: t.rows[depth + 1] };
}

export function hiddenRowOf(l: FlameLayout, depth: number): Row {
    if (depth < 0 || depth >= l.nRows) return { from: 0, until: 0 };
    return { from: l.hiddenRows[depth], until: l.hiddenRows[depth + 1] };
}

export interface Hit {
    node: number;
    isHidden: boolean; // the box of its hidden children
}

/** What is at a place of a row; `slack` (half a pixel, say) finds boxes that are thinner. */
export function hitAt(l: FlameLayout, depth: number, at: number, slack = 0): Hit | null {
    const r = rowOf(l.tree, depth);
    const i = firstBeyond(l.end, r.from, r.until, at);
    if (i < r.until && l.x[i] <= at) return { node: i, isHidden: false };
    const h = hiddenRowOf(l, depth);
    const k = firstBeyond(l.hiddenEnd, h.from, h.until, at);
    if (k < h.until && l.hiddenX[k] <= at) return { node: l.hiddenOf[k], isHidden: true };
    if (i < r.until && l.x[i] - at <= slack) return { node: i, isHidden: false };
    if (i > r.from && at - l.end[i - 1] <= slack) return { node: i - 1, isHidden: false };
    return null;
}

/** True when `node` is `above` or below it. */
export function isWithin(t: FrameTree, node: number, above: number): boolean {
    let i = node;
    while (t.depth[i] > t.depth[above]) i = t.parent[i];
    return i === above;
}

/** How many rows lie below a node, itself included. */
export function heightBelow(l: FlameLayout, node: number): number {
    const t = l.tree;
    const x = l.x[node];
    const end = l.end[node];
    let d = t.depth[node];
    for (; d + 1 < l.nRows; d++) {
        const r = rowOf(t, d + 1);
        const i = firstBeyond(l.end, r.from, r.until, x);
        const h = hiddenRowOf(l, d + 1);
        const k = firstBeyond(l.hiddenEnd, h.from, h.until, x);
        const hasNode = i < r.until && l.x[i] < end;
        const hasHidden = k < h.until && l.hiddenX[k] < end;
        if (!hasNode && !hasHidden) break;
    }
    return d - t.depth[node] + 1;
}
