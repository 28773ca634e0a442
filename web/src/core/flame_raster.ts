// Boxes to pixels. All boxes of a row have the same height, so a row is a single line of pixels
// that is stretched when it is put on the canvas: a picture of a million nodes is some fifty lines,
// filled here, without a call into the canvas per box. What is thinner than a pixel still fills the
// pixel that it is in: nothing disappears.

import { type FlameLayout, firstBeyond, gallopBeyond, hiddenRowOf, rowOf } from "./flame_layout";
import { colourOf, type FlameScene } from "./flame_scene";

export interface Strip {
    from: number; // the range of x that is shown
    to: number;
    width: number; // in device pixels
    gap: number; // pixels left free behind boxes that are wide enough
    wide: number; // boxes of at least so many pixels are listed
}

/** Boxes that are wide enough for more than colour: labels, patterns. */
export class Boxes {
    n = 0;
    node = new Uint32Array(256);
    depth = new Uint32Array(256);
    left = new Int32Array(256); // within the picture
    right = new Int32Array(256); // exclusive, without the gap

    add(node: number, depth: number, left: number, right: number) {
        if (this.n === this.node.length) this.grow();
        this.node[this.n] = node;
        this.depth[this.n] = depth;
        this.left[this.n] = left;
        this.right[this.n] = right;
        this.n++;
    }

    private grow() {
        const size = 2 * this.n;
        const more = <T extends Uint32Array | Int32Array>(old: T, fresh: T): T => {
            fresh.set(old);
            return fresh;
        };
        this.node = more(this.node, new Uint32Array(size));
        this.depth = more(this.depth, new Uint32Array(size));
        this.left = more(this.left, new Int32Array(size));
        this.right = more(this.right, new Int32Array(size));
    }
}

/** Fills `out[0 .. width]` with a row's boxes and lists the wide ones. */
export function fillRow(
    s: FlameScene,
    depth: number,
    strip: Strip,
    out: Uint32Array,
    boxes: Boxes,
) {
    const l = s.layout;
    const { x, end } = l;
    const { from, width, gap } = strip;
    const k = width / (strip.to - from);
    const row = rowOf(l.tree, depth);
    let i = firstBeyond(end, row.from, row.until, from);
    while (i < row.until) {
        const left = (x[i] - from) * k;
        if (left >= width) break;
        const right = (end[i] - from) * k;
        // A pixel is the box's whose middle it is.
        const a = Math.max(0, Math.ceil(left - 0.5));
        const b = Math.min(width, Math.ceil(right - 0.5));
        if (b > a) {
            const until = b - a >= 3 * gap && b < width ? b - gap : b;
            out.fill(colourOf(s, i), a, until);
            if (b - a >= strip.wide) boxes.add(i, depth, a, until);
            i++;
        } else {
            const p = Math.max(0, Math.floor(left));
            if (right > left && out[p] === 0) out[p] = colourOf(s, i);
            i = gallopBeyond(end, i + 1, row.until, from + (p + 1) / k);
        }
    }
    if (s.isMatch) markMatches(s, row.from, row.until, strip, out);
}

/** Matches that are too thin to be seen are seen while they are searched for. */
function markMatches(s: FlameScene, lo: number, hi: number, strip: Strip, out: Uint32Array) {
    const { matches, layout } = s;
    const { x, end } = layout;
    const k = strip.width / (strip.to - strip.from);
    const last = bisect(matches, 0, hi, null, 0);
    let m = bisect(matches, bisect(matches, 0, lo, null, 0), hi, end, strip.from);
    while (m < last) {
        const i = matches[m];
        const left = (x[i] - strip.from) * k;
        if (left >= strip.width) break;
        const p = Math.max(0, Math.floor(left));
        const isThin = (end[i] - x[i]) * k < 1.5;
        if (isThin && end[i] > x[i]) out[p] = colourOf(s, i);
        m = isThin ? bisect(matches, m + 1, hi, end, strip.from + (p + 1) / k) : m + 1;
    }
}

/** The first match at or behind `from` that is node `limit` or later, or that ends beyond `at`. */
function bisect(
    nodes: Uint32Array,
    from: number,
    limit: number,
    end: Float64Array | null,
    at: number,
): number {
    let a = from;
    let b = nodes.length;
    while (a < b) {
        const m = (a + b) >>> 1;
        if (nodes[m] >= limit || (end !== null && end[nodes[m]] > at)) b = m;
        else a = m + 1;
    }
    return a;
}

/** The same for the boxes of hidden children. */
export function fillHidden(
    l: FlameLayout,
    depth: number,
    strip: Strip,
    out: Uint32Array,
    colour: number,
    boxes: Boxes,
) {
    const row = hiddenRowOf(l, depth);
    const { from, width } = strip;
    const k = width / (strip.to - from);
    let i = firstBeyond(l.hiddenEnd, row.from, row.until, from);
    while (i < row.until) {
        const left = (l.hiddenX[i] - from) * k;
        if (left >= width) break;
        const right = (l.hiddenEnd[i] - from) * k;
        const a = Math.max(0, Math.ceil(left - 0.5));
        const b = Math.min(width, Math.ceil(right - 0.5));
        if (b > a) {
            const until = b - a >= 3 * strip.gap && b < width ? b - strip.gap : b;
            out.fill(colour, a, until);
            if (b - a >= strip.wide) boxes.add(l.hiddenOf[i], depth, a, until);
            i++;
        } else {
            const p = Math.max(0, Math.floor(left));
            if (right > left && out[p] === 0) out[p] = colour;
            i = gallopBeyond(l.hiddenEnd, i + 1, row.until, from + (p + 1) / k);
        }
    }
}
