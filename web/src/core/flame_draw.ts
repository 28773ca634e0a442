// Draws one picture of a flame graph on a canvas: rows as stretched lines of pixels, patterns as
// one path each, then labels. All coordinates are device pixels.

import { mix, parseColour } from "./colour";
import { PITCH, ROW, type RowPlace } from "./flame_camera";
import { type Change, nodeMark } from "./flame_colour";
import { shownName } from "./flame_labels";
import { isNoName } from "./flame_moves";
import { Boxes, fillHidden, fillRow, type Strip } from "./flame_raster";
import { type FlameScene, isLit } from "./flame_scene";
import { amountText, countText, shareText } from "./units";

const LABEL_MIN = 28; // CSS pixels: boxes below that have no label
const PATTERN_MIN = 6;
const PAD = 4;

export interface Picture {
    width: number; // device pixels
    height: number;
    ratio: number; // device pixels per CSS pixel
    from: number;
    to: number;
    rows: readonly RowPlace[];
    isIcicle: boolean;
}

export interface Drawn {
    boxes: Boxes;
    hidden: Boxes;
    isEmpty: boolean;
}

/** The upper edge of a row, in device pixels. */
export function rowTop(p: Picture, row: RowPlace): number {
    const at = Math.round(row.at * p.ratio);
    return p.isIcicle ? at : p.height - at - Math.round(ROW * p.ratio);
}

/** What outlives a picture: canvases and patterns that are used again. */
export class Brushes {
    readonly strip: HTMLCanvasElement;
    readonly stripContext: CanvasRenderingContext2D;
    private image: ImageData | null = null;
    private patterns = new Map<string, CanvasPattern | null>();
    private glyph = { font: "", width: 0 };

    constructor() {
        this.strip = document.createElement("canvas");
        const c = this.strip.getContext("2d", { willReadFrequently: true });
        if (!c) throw new Error("this browser has no canvas");
        this.stripContext = c;
    }

    /** Lines of pixels, all empty. */
    lines(width: number, height: number): ImageData {
        if (this.image?.width !== width || this.image.height < height) {
            const rows = Math.max(height, this.image?.width === width ? this.image.height : 0, 64);
            this.image = new ImageData(width, rows);
            this.strip.width = width;
            this.strip.height = rows;
        } else {
            new Uint32Array(this.image.data.buffer).fill(0, 0, width * height);
        }
        return this.image;
    }

    /** Width of a character of the monospace font. */
    glyphWidth(ctx: CanvasRenderingContext2D): number {
        if (this.glyph.font !== ctx.font)
            this.glyph = { font: ctx.font, width: ctx.measureText("M".repeat(64)).width / 64 };
        return this.glyph.width;
    }

    pattern(ctx: CanvasRenderingContext2D, kind: PatternKind, colour: string, ratio: number) {
        const key = `${kind} ${colour} ${ratio}`;
        let p = this.patterns.get(key);
        if (p === undefined) {
            p = ctx.createPattern(patternTile(kind, colour, ratio), "repeat");
            this.patterns.set(key, p);
        }
        return p;
    }
}

export type PatternKind = "hidden" | Exclude<Change, "same">;

/** Lines that say without colour what a box is. */
function patternTile(kind: PatternKind, colour: string, ratio: number): HTMLCanvasElement {
    const tile = document.createElement("canvas");
    const n = Math.max(4, Math.round(8 * ratio));
    tile.width = n;
    tile.height = n;
    const c = tile.getContext("2d");
    if (!c) return tile;
    c.strokeStyle = colour;
    c.lineWidth = Math.max(1, ratio);
    c.beginPath();
    // Drawn three times, so that the corners of neighbouring tiles meet.
    for (const k of [-n, 0, n]) {
        if (kind === "more" || kind === "new" || kind === "hidden") {
            c.moveTo(k, n);
            c.lineTo(k + n, 0);
        }
        if (kind === "less" || kind === "new") {
            c.moveTo(k, 0);
            c.lineTo(k + n, n);
        }
    }
    if (kind === "gone") {
        for (const y of [n / 4, (3 * n) / 4]) {
            c.moveTo(0, Math.round(y) + 0.5);
            c.lineTo(n, Math.round(y) + 0.5);
        }
    }
    c.stroke();
    return tile;
}

// ---- Steps

function drawRows(
    ctx: CanvasRenderingContext2D,
    s: FlameScene,
    p: Picture,
    brushes: Brushes,
    drawn: Drawn,
) {
    const theme = s.options.theme;
    const strip: Strip = {
        from: p.from,
        to: p.to,
        width: p.width,
        gap: Math.max(1, Math.round(p.ratio)),
        wide: Math.round(PATTERN_MIN * p.ratio),
    };
    const image = brushes.lines(p.width, p.rows.length);
    const pixels = new Uint32Array(image.data.buffer);
    const hidden = mix(parseColour(theme.same), parseColour(theme.surface), 0.4);
    p.rows.forEach((row, i) => {
        const line = pixels.subarray(i * p.width, (i + 1) * p.width);
        fillRow(s, row.depth, strip, line, drawn.boxes);
        fillHidden(s.layout, row.depth, strip, line, hidden, drawn.hidden);
    });
    brushes.stripContext.putImageData(image, 0, 0, 0, 0, p.width, p.rows.length);
    ctx.imageSmoothingEnabled = false;
    const height = Math.round(ROW * p.ratio);
    ctx.fillStyle = theme.surface;
    p.rows.forEach((row, i) => {
        const y = rowTop(p, row);
        // What is scrolled goes under what is pinned.
        if (row.isPinned)
            ctx.fillRect(0, p.isIcicle ? y : y - p.ratio, p.width, Math.round(PITCH * p.ratio));
        ctx.drawImage(brushes.strip, 0, i, p.width, 1, 0, y, p.width, height);
    });
}

/** Where the rows of a picture are, by depth; rows that a pinned one covers are left out. */
function topsOf(p: Picture): Map<number, number> {
    const tops = new Map<number, number>();
    const pinned = p.rows.filter((r) => r.isPinned);
    for (const row of p.rows)
        if (row.isPinned || !pinned.some((o) => Math.abs(o.at - row.at) < PITCH))
            tops.set(row.depth, rowTop(p, row));
    return tops;
}

function fillPattern(
    ctx: CanvasRenderingContext2D,
    boxes: Boxes,
    p: Picture,
    tops: Map<number, number>,
    pattern: CanvasPattern | null,
    isOne: (node: number) => boolean,
) {
    if (!pattern) return;
    const height = Math.round(ROW * p.ratio);
    ctx.beginPath();
    for (let i = 0; i < boxes.n; i++) {
        const y = tops.get(boxes.depth[i]);
        if (y !== undefined && isOne(boxes.node[i]))
            ctx.rect(boxes.left[i], y, boxes.right[i] - boxes.left[i], height);
    }
    ctx.fillStyle = pattern;
    ctx.fill();
}

function drawPatterns(
    ctx: CanvasRenderingContext2D,
    s: FlameScene,
    p: Picture,
    brushes: Brushes,
    drawn: Drawn,
    tops: Map<number, number>,
) {
    const theme = s.options.theme;
    const pattern = (kind: PatternKind, colour: string) =>
        brushes.pattern(ctx, kind, colour, p.ratio);
    if (drawn.hidden.n > 0)
        fillPattern(ctx, drawn.hidden, p, tops, pattern("hidden", theme.line), () => true);
    const look = s.look;
    if (!look) return;
    const ink = `${theme.ink.slice(0, 7)}2e`;
    for (const kind of ["less", "more", "gone", "new"] as const)
        fillPattern(ctx, drawn.boxes, p, tops, pattern(kind, ink), (node) => {
            const m = nodeMark(s.layout.tree, node, look);
            return m.change === kind && isLit(s, node);
        });
}

/** What the box of the root says: how much it all is. */
function rootText(s: FlameScene): string {
    const t = s.layout.tree;
    const name = t.frames.name[t.frame[0]];
    return `${isNoName(name) ? "total" : shownName(name)} · ${amountText(t.total[0], s.options.unit)}`;
}

/** "(123 more, 0.4 %)", or less of it. */
function hiddenText(s: FlameScene, node: number, columns: number): string {
    const h = s.layout.tree.hidden.get(node);
    if (!h) return "";
    const share = shareText(h.value, s.layout.tree.total[0]);
    const count = countText(h.children);
    const texts = [`(${count} more, ${share})`, `(${count} more)`, `+${count}`, "…"];
    return texts.find((x) => x.length <= columns) ?? "";
}

function drawLabels(
    ctx: CanvasRenderingContext2D,
    s: FlameScene,
    p: Picture,
    brushes: Brushes,
    drawn: Drawn,
    tops: Map<number, number>,
) {
    const theme = s.options.theme;
    ctx.font = `${12 * p.ratio}px ${theme.mono}`;
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "left";
    ctx.direction = "ltr";
    const glyph = brushes.glyphWidth(ctx);
    const min = LABEL_MIN * p.ratio;
    const pad = PAD * p.ratio;
    const base = Math.round(13 * p.ratio);
    const tree = s.layout.tree;
    const write = (
        boxes: Boxes,
        i: number,
        text: (columns: number) => string,
        isPlain: boolean,
    ) => {
        const room = boxes.right[i] - boxes.left[i] - 2 * pad;
        const y = tops.get(boxes.depth[i]);
        const columns = Math.floor(room / glyph);
        if (y === undefined || columns < 1) return;
        if (isPlain) ctx.fillText(text(columns), boxes.left[i] + pad, y + base);
        else ctx.fillText(text(columns), boxes.left[i] + pad, y + base, room);
    };
    // Faint ones first: changing colours costs more than going over the list twice.
    for (const lit of [false, true]) {
        ctx.fillStyle = lit ? theme.ink : theme.muted;
        const b = drawn.boxes;
        for (let i = 0; i < b.n; i++) {
            const node = b.node[i];
            if (b.right[i] - b.left[i] < min || isLit(s, node) !== lit) continue;
            const frame = tree.frame[node];
            if (node === 0) write(b, i, (n) => rootText(s).slice(0, n), true);
            else write(b, i, (n) => s.labels.text(frame, n), s.labels.isPlain[frame] === 1);
        }
    }
    ctx.fillStyle = theme.muted;
    const h = drawn.hidden;
    for (let i = 0; i < h.n; i++)
        if (h.right[i] - h.left[i] >= min) write(h, i, (n) => hiddenText(s, h.node[i], n), true);
}

/** A profile of nothing has no shares: it says so. */
function drawEmpty(ctx: CanvasRenderingContext2D, s: FlameScene, p: Picture) {
    ctx.font = `${13 * p.ratio}px ${s.options.theme.sans}`;
    ctx.textAlign = "center";
    ctx.fillStyle = s.options.theme.muted;
    ctx.fillText(
        "Nothing to draw: every value is zero",
        p.width / 2,
        Math.min(p.height / 2, 96 * p.ratio),
        p.width,
    );
}

export function drawFlame(
    ctx: CanvasRenderingContext2D,
    s: FlameScene,
    p: Picture,
    brushes: Brushes,
): Drawn {
    const drawn: Drawn = { boxes: new Boxes(), hidden: new Boxes(), isEmpty: s.layout.size === 0 };
    ctx.clearRect(0, 0, p.width, p.height);
    if (p.width < 1 || p.height < 1 || p.rows.length === 0) return drawn;
    if (drawn.isEmpty) {
        drawEmpty(ctx, s, p);
        return drawn;
    }
    const tops = topsOf(p);
    drawRows(ctx, s, p, brushes, drawn);
    drawPatterns(ctx, s, p, brushes, drawn, tops);
    drawLabels(ctx, s, p, brushes, drawn, tops);
    return drawn;
}
