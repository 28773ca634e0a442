// What lies over the boxes: the pointer's box, the focus ring, outlines of the selected function,
// the scroll bar. Cheap enough to be drawn at every move of the pointer.

import { ROW } from "./flame_camera";
import { type Picture, rowTop } from "./flame_draw";
import { firstBeyond, type FlameLayout, type Hit, hiddenRowOf, rowOf } from "./flame_layout";
import type { FlameScene } from "./flame_scene";

export interface Marks {
    hover: Hit | null;
    focus: number; // a node; -1: none
    hasFocus: boolean; // of the keyboard
    scroll: { at: number; size: number } | null; // parts of the height, from the root's edge
}

interface Span {
    left: number;
    right: number;
}

function spanOf(l: FlameLayout, p: Picture, hit: Hit): Span | null {
    let x = l.x[hit.node];
    let end = l.end[hit.node];
    if (hit.isHidden) {
        const r = hiddenRowOf(l, l.tree.depth[hit.node] + 1);
        let k = r.from;
        while (k < r.until && l.hiddenOf[k] !== hit.node) k++;
        if (k === r.until) return null;
        x = l.hiddenX[k];
        end = l.hiddenEnd[k];
    }
    const scale = p.width / (p.to - p.from);
    const left = Math.round((x - p.from) * scale);
    const right = Math.max(left + 1, Math.round((end - p.from) * scale));
    if (right <= 0 || left >= p.width) return null;
    return { left, right };
}

function outline(ctx: CanvasRenderingContext2D, p: Picture, s: Span, y: number, line: number) {
    const left = Math.max(s.left, -2 * line);
    const right = Math.min(s.right, p.width + 2 * line);
    const height = Math.round(ROW * p.ratio);
    ctx.strokeRect(left + line / 2, y + line / 2, Math.max(1, right - left - line), height - line);
}

/** The outlines of the selected function; thin ones side by side are one. */
function outlineSelected(ctx: CanvasRenderingContext2D, s: FlameScene, p: Picture) {
    const nodes = s.selected;
    const l = s.layout;
    const line = 2 * p.ratio;
    const scale = p.width / (p.to - p.from);
    ctx.strokeStyle = s.options.theme.accent;
    ctx.lineWidth = line;
    for (const row of p.rows) {
        const r = rowOf(l.tree, row.depth);
        const first = firstBeyond(l.end, r.from, r.until, p.from);
        let k = lowerBound(nodes, first);
        let covered = Number.NEGATIVE_INFINITY;
        for (; k < nodes.length && nodes[k] < r.until && l.x[nodes[k]] < p.to; k++) {
            if ((l.end[nodes[k]] - p.from) * scale < covered) continue;
            const span = spanOf(l, p, { node: nodes[k], isHidden: false });
            if (!span) continue;
            span.right = Math.max(span.right, span.left + 2 * line);
            outline(ctx, p, span, rowTop(p, row), line);
            covered = span.right;
        }
    }
}

function lowerBound(nodes: Uint32Array, from: number): number {
    let a = 0;
    let b = nodes.length;
    while (a < b) {
        const m = (a + b) >>> 1;
        if (nodes[m] < from) a = m + 1;
        else b = m;
    }
    return a;
}

function drawScroll(ctx: CanvasRenderingContext2D, s: FlameScene, p: Picture, m: Marks) {
    if (!m.scroll) return;
    const width = 4 * p.ratio;
    const size = Math.max(24 * p.ratio, m.scroll.size * p.height);
    const at = m.scroll.at * (p.height - size);
    ctx.globalAlpha = 0.5;
    ctx.fillStyle = s.options.theme.muted;
    const y = p.isIcicle ? at : p.height - at - size;
    ctx.fillRect(p.width - width - p.ratio, y, width, size);
    ctx.globalAlpha = 1;
}

export function drawOverlay(ctx: CanvasRenderingContext2D, s: FlameScene, p: Picture, m: Marks) {
    ctx.clearRect(0, 0, p.width, p.height);
    if (s.layout.size === 0) return;
    const rowWith = (depth: number) => p.rows.find((r) => r.depth === depth);
    if (s.selected.length > 0) outlineSelected(ctx, s, p);
    if (m.hover) {
        const t = s.layout.tree;
        const row = rowWith(t.depth[m.hover.node] + (m.hover.isHidden ? 1 : 0));
        const span = spanOf(s.layout, p, m.hover);
        if (row && span) {
            const y = rowTop(p, row);
            ctx.fillStyle = `${s.options.theme.ink.slice(0, 7)}1f`;
            ctx.fillRect(span.left, y, span.right - span.left, Math.round(ROW * p.ratio));
            ctx.strokeStyle = s.options.theme.text;
            ctx.lineWidth = p.ratio;
            outline(ctx, p, span, y, p.ratio);
        }
    }
    if (m.focus >= 0 && m.hasFocus) {
        const row = rowWith(s.layout.tree.depth[m.focus]);
        const span = spanOf(s.layout, p, { node: m.focus, isHidden: false });
        if (row && span) {
            span.right = Math.max(span.right, span.left + 5 * p.ratio);
            ctx.strokeStyle = s.options.theme.focus;
            ctx.lineWidth = 2 * p.ratio;
            outline(ctx, p, span, rowTop(p, row), 2 * p.ratio);
        }
    }
    drawScroll(ctx, s, p, m);
}
