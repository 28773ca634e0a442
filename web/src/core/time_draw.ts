// The picture of values over time, onto a canvas: axes, lines with their gaps, what is selected and
// what the pointer is at. No state: the same scene is the same picture.

import { type Tick, timeTicks, valueTicks } from "./time_ticks";

/** null: a hole; undefined: no point here, the line goes on. */
export type Value = number | null | undefined;

export interface ChartLine {
    values: readonly Value[];
    colour: string;
    fill?: string; // down to zero
    dash?: readonly number[];
}

export interface ChartData {
    from: number; // seconds since 1970
    until: number;
    x: readonly number[]; // rising
    lines: readonly ChartLine[];
    unit: string;
}

export interface ChartLook {
    ink: string; // labels and cursor
    grid: string;
    surface: string;
    accent: string; // edges of what is selected
    accentSoft: string;
    font: string;
    hasAxes: boolean;
    pad: { top: number; right: number; bottom: number; left: number };
}

/** The plot itself, within the canvas, and what its edges mean. */
export interface Plot {
    left: number;
    top: number;
    width: number;
    height: number;
    from: number;
    until: number;
    lo: number;
    hi: number;
}

const LINE = 1.5;
const DOT = 2.5;
const TIME_ROOM = 64; // px a label of the time axis has at least
const VALUE_ROOM = 20;

const isPoint = (v: Value): v is number => typeof v === "number" && Number.isFinite(v);

/** From zero: heights are compared, and a flat line must not look like a storm. */
function valueRange(lines: readonly ChartLine[]): [number, number] {
    let lo = 0;
    let hi = 0;
    for (const line of lines)
        for (const v of line.values)
            if (isPoint(v)) {
                lo = Math.min(lo, v);
                hi = Math.max(hi, v);
            }
    const air = 0.05 * (Math.min(hi, 1e307) - Math.max(lo, -1e307));
    return [lo < 0 ? lo - air : 0, hi > 0 || lo === 0 ? hi + air : 0];
}

export function plotOf(data: ChartData, look: ChartLook, width: number, height: number): Plot {
    const { pad } = look;
    const [lo, hi] = valueRange(data.lines);
    return {
        left: pad.left,
        top: pad.top,
        width: Math.max(1, width - pad.left - pad.right),
        height: Math.max(1, height - pad.top - pad.bottom),
        from: data.from,
        until: data.until,
        lo,
        hi,
    };
}

/** Pixels from the left edge of the plot. */
export function xOf(p: Plot, at: number): number {
    return (p.width * (at - p.from)) / (p.until - p.from || 1);
}

export function timeAt(p: Plot, x: number): number {
    const share = Math.max(0, Math.min(1, x / p.width));
    return p.from + share * (p.until - p.from);
}

/** Pixels from the top of the canvas. Where all is zero, zero is at the bottom. */
export function yOf(p: Plot, v: number): number {
    const range = p.hi - p.lo;
    const share = range > 0 ? v / range - p.lo / range : 0;
    return p.top + p.height * (1 - share);
}

/** Which of `x` (rising) is nearest; -1: there is none. */
export function nearest(x: readonly number[], at: number): number {
    let a = 0;
    let b = x.length - 1;
    while (b - a > 1) {
        const middle = (a + b) >> 1;
        if (x[middle] <= at) a = middle;
        else b = middle;
    }
    return b < 0 ? -1 : Math.abs(x[b] - at) < Math.abs(at - x[a]) ? b : a;
}

/** The indices of points that are joined, one list for each piece of the line. */
export function runsOf(values: readonly Value[]): number[][] {
    const runs: number[][] = [];
    let run: number[] = [];
    values.forEach((v, i) => {
        if (isPoint(v)) run.push(i);
        else if (v !== undefined && run.length > 0) {
            runs.push(run);
            run = [];
        }
    });
    return run.length > 0 ? [...runs, run] : runs;
}

type Canvas = CanvasRenderingContext2D;

function dot(c: Canvas, x: number, y: number, radius: number) {
    c.beginPath();
    c.arc(x, y, radius, 0, 2 * Math.PI);
    c.fill();
}

function drawLine(c: Canvas, p: Plot, x: readonly number[], line: ChartLine) {
    c.strokeStyle = line.colour;
    c.lineWidth = LINE;
    c.lineJoin = "round";
    c.setLineDash((line.dash ?? []) as number[]);
    const at = (i: number): [number, number] => [
        p.left + xOf(p, x[i]),
        yOf(p, line.values[i] as number),
    ];
    for (const run of runsOf(line.values)) {
        const [first, ...rest] = run.map(at);
        if (rest.length === 0) {
            c.fillStyle = line.colour;
            dot(c, first[0], first[1], DOT);
            continue;
        }
        c.beginPath();
        c.moveTo(first[0], first[1]);
        for (const [px, py] of rest) c.lineTo(px, py);
        c.stroke();
        if (line.fill) {
            c.lineTo(rest[rest.length - 1][0], yOf(p, 0));
            c.lineTo(first[0], yOf(p, 0));
            c.fillStyle = line.fill;
            c.fill();
        }
    }
    c.setLineDash([]);
}

/** A thin line on whole pixels. */
function hairline(c: Canvas, x1: number, y1: number, x2: number, y2: number) {
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
    c.stroke();
}

function drawValueAxis(c: Canvas, p: Plot, look: ChartLook, ticks: readonly Tick[]) {
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.strokeStyle = look.grid;
    for (const t of ticks) {
        const y = Math.round(yOf(p, t.at)) - 0.5;
        hairline(c, p.left, y, p.left + p.width, y);
        c.fillText(t.text, p.left - 4, y + 1, p.left - 8);
    }
}

function drawTimeAxis(c: Canvas, p: Plot, look: ChartLook, ticks: readonly Tick[]) {
    c.textAlign = "center";
    c.textBaseline = "top";
    const right = p.left + p.width + look.pad.right;
    for (const t of ticks) {
        const half = c.measureText(t.text).width / 2;
        const x = Math.max(half, Math.min(right - half, p.left + xOf(p, t.at)));
        c.fillText(t.text, x, p.top + p.height + 4);
    }
}

function drawSelection(c: Canvas, p: Plot, look: ChartLook, from: number, until: number) {
    const clamp = (at: number) => Math.max(0, Math.min(p.width, xOf(p, at)));
    const a = Math.round(p.left + clamp(from));
    const b = Math.round(p.left + clamp(until));
    if (b <= a) return;
    c.fillStyle = look.accentSoft;
    c.fillRect(a, p.top, b - a, p.height);
    c.strokeStyle = look.accent;
    hairline(c, a + 0.5, p.top, a + 0.5, p.top + p.height);
    hairline(c, b - 0.5, p.top, b - 0.5, p.top + p.height);
}

function drawCursor(c: Canvas, p: Plot, data: ChartData, look: ChartLook, cursor: number) {
    const x = Math.round(p.left + cursor) - 0.5;
    c.strokeStyle = look.ink;
    c.setLineDash([3, 3]);
    hairline(c, x, p.top, x, p.top + p.height);
    c.setLineDash([]);
    const i = nearest(data.x, timeAt(p, cursor));
    for (const line of data.lines) {
        const v = line.values[i];
        if (!isPoint(v)) continue;
        const at = p.left + xOf(p, data.x[i]);
        // A rim, so that it is seen on its own line and on others.
        c.fillStyle = look.surface;
        dot(c, at, yOf(p, v), DOT + 1.5);
        c.fillStyle = line.colour;
        dot(c, at, yOf(p, v), DOT + 0.5);
    }
}

export interface ChartScene {
    plot: Plot;
    data: ChartData;
    look: ChartLook;
    selected: readonly [number, number] | null; // seconds since 1970
    cursor: number | null; // pixels from the left edge of the plot
}

/** The canvas is clear and its unit is the CSS pixel. */
export function drawChart(c: Canvas, scene: ChartScene) {
    const { plot: p, data, look } = scene;
    if (look.hasAxes) {
        c.font = look.font;
        c.fillStyle = look.ink;
        drawValueAxis(c, p, look, valueTicks(p.lo, p.hi, data.unit, p.height / VALUE_ROOM));
        drawTimeAxis(c, p, look, timeTicks(p.from, p.until, p.width / TIME_ROOM));
    }
    c.save();
    c.beginPath();
    // As wide as the range, as high as lines and dots at its edges need.
    c.rect(p.left, p.top - 4, p.width, p.height + 6);
    c.clip();
    for (const line of data.lines) drawLine(c, p, data.x, line);
    if (scene.selected) drawSelection(c, p, look, scene.selected[0], scene.selected[1]);
    if (scene.cursor !== null) drawCursor(c, p, data, look, scene.cursor);
    c.restore();
}
