// The picture of a heat map: a canvas as large as its cells, with a second one above it for what is
// under the pointer and what is chosen.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { serverNow } from "../../../api/client";
import type { HeatMap } from "../../../api/questions";
import { cssToken, themeChanges } from "../../../app";
import { cellAfterKey, type HeatGrid } from "../../../core/heat_cells";
import { clockText } from "../../../core/time";

export function gridOf(h: HeatMap): HeatGrid {
    return {
        startMs: Number(h.start_ns) / 1e6,
        columnMs: Number(h.column_ns) / 1e6,
        columns: h.n_columns,
        rows: h.n_rows,
    };
}

interface Size {
    cellWidth: number;
    cellHeight: number;
    width: number;
    height: number;
}

const NARROWEST = 4;
const AXIS_HEIGHT = 20;
const WIDEST_CANVAS = 16_000;

function sizeOf(g: HeatGrid, width: number, height: number): Size {
    const fitting = width / Math.max(1, g.columns);
    const least = Math.min(NARROWEST, WIDEST_CANVAS / Math.max(1, g.columns));
    const cellWidth = Math.max(least, fitting);
    const cellHeight = Math.max(4, Math.min(14, Math.floor((height - AXIS_HEIGHT) / g.rows)));
    return { cellWidth, cellHeight, width: cellWidth * g.columns, height: cellHeight * g.rows };
}

/** A canvas in device pixels that draws in CSS pixels. */
function prepare(canvas: HTMLCanvasElement, s: Size): CanvasRenderingContext2D | null {
    const ratio = Math.min(devicePixelRatio || 1, 32_000 / Math.max(1, s.width));
    canvas.width = Math.max(1, Math.round(s.width * ratio));
    canvas.height = Math.max(1, Math.round(s.height * ratio));
    const c = canvas.getContext("2d");
    c?.setTransform(ratio, 0, 0, ratio, 0, 0);
    return c;
}

function drawCells(canvas: HTMLCanvasElement, h: HeatMap, s: Size) {
    const c = prepare(canvas, s);
    if (!c) return;
    const { column, row, value } = h.cells;
    const gap = s.cellWidth > 6 ? 1 : 0;
    c.fillStyle = cssToken("--accent");
    for (let i = 0; i < value.length; i++) {
        // Small values stay visible beside large ones.
        c.globalAlpha = 0.15 + 0.85 * Math.sqrt(Math.max(0, value[i]) / Math.max(1, h.max));
        c.fillRect(
            column[i] * s.cellWidth,
            row[i] * s.cellHeight,
            Math.max(1, s.cellWidth - gap),
            s.cellHeight - 1,
        );
    }
}

/** The chosen cells, column by column, and the one with the focus. */
function drawChoice(canvas: HTMLCanvasElement, g: HeatGrid, s: Size, a: number, b: number) {
    const c = prepare(canvas, s);
    if (!c || b < 0) return;
    const from = Math.min(a < 0 ? b : a, b);
    const until = Math.max(a, b);
    c.fillStyle = cssToken("--focus");
    c.globalAlpha = 0.25;
    for (let col = Math.floor(from / g.rows); col <= Math.floor(until / g.rows); col++) {
        const top = Math.max(from, col * g.rows) % g.rows;
        const bottom = Math.min(until, col * g.rows + g.rows - 1) % g.rows;
        c.fillRect(
            col * s.cellWidth,
            top * s.cellHeight,
            s.cellWidth,
            (bottom - top + 1) * s.cellHeight,
        );
    }
    c.globalAlpha = 1;
    c.strokeStyle = cssToken("--focus");
    c.lineWidth = 2;
    const x = Math.floor(b / g.rows) * s.cellWidth;
    const y = (b % g.rows) * s.cellHeight;
    c.strokeRect(x, y, Math.max(4, s.cellWidth), s.cellHeight);
}

/** The times of some columns, below them. */
function Axis(props: { grid: HeatGrid; size: Size }) {
    const { grid, size } = props;
    const every = Math.max(1, Math.ceil(136 / size.cellWidth));
    const now = serverNow();
    const columns: number[] = [];
    for (let c = 0; c < grid.columns; c += every) columns.push(c);
    return (
        <div class="heat-axis" style={{ width: `${size.width}px` }} aria-hidden="true">
            {columns.map((c) => (
                <span key={c} style={{ left: `${c * size.cellWidth}px` }}>
                    {clockText(grid.startMs + c * grid.columnMs, now, grid.columnMs < 60e3)}
                </span>
            ))}
        </div>
    );
}

export interface HeatPictureProps {
    heat: HeatMap;
    label: string;
    onHover: (cell: number) => void; // -1: none
    onChoose: (from: number, until: number) => void;
}

export function HeatPicture(props: HeatPictureProps) {
    const { heat } = props;
    const grid = useMemo(() => gridOf(heat), [heat]);
    const box = useRef<HTMLDivElement>(null);
    const cells = useRef<HTMLCanvasElement>(null);
    const above = useRef<HTMLCanvasElement>(null);
    const [place, setPlace] = useState({ width: 800, height: 400 });
    const [choice, setChoice] = useState({ start: -1, end: -1 });
    const isDown = useRef(false);
    const size = useMemo(() => sizeOf(grid, place.width, place.height), [grid, place]);
    const look = themeChanges.value;

    useEffect(() => {
        const el = box.current!;
        const watch = new ResizeObserver(() =>
            setPlace({ width: el.clientWidth, height: el.clientHeight }),
        );
        watch.observe(el);
        return () => watch.disconnect();
    }, []);
    useEffect(() => drawCells(cells.current!, heat, size), [heat, size, look]);
    useEffect(
        () => drawChoice(above.current!, grid, size, choice.start, choice.end),
        [grid, size, choice, look],
    );
    useEffect(() => setChoice({ start: -1, end: -1 }), [heat]);

    const cellAt = (e: PointerEvent) => {
        const at = above.current!.getBoundingClientRect();
        const column = Math.floor((e.clientX - at.left) / size.cellWidth);
        const row = Math.floor((e.clientY - at.top) / size.cellHeight);
        if (column < 0 || row < 0 || column >= grid.columns || row >= grid.rows) return -1;
        return column * grid.rows + row;
    };
    const onPointerMove = (e: PointerEvent) => {
        const cell = cellAt(e);
        props.onHover(cell);
        if (cell < 0) return;
        setChoice((c) => ({ start: isDown.current ? c.start : cell, end: cell }));
    };
    const onKey = (e: JSX.TargetedKeyboardEvent<HTMLDivElement>) => {
        if (e.ctrlKey || e.metaKey || e.altKey) return;
        const at = Math.max(0, choice.end);
        const to = cellAfterKey(grid, at, e.key);
        if (to >= 0) {
            setChoice({ start: e.shiftKey ? Math.max(0, choice.start) : to, end: to });
            props.onHover(to);
            const x = Math.floor(to / grid.rows) * size.cellWidth;
            const el = box.current!;
            if (x < el.scrollLeft) el.scrollLeft = x;
            else if (x + size.cellWidth > el.scrollLeft + el.clientWidth)
                el.scrollLeft = x + size.cellWidth - el.clientWidth;
        } else if (e.key === "Enter" && choice.end >= 0) props.onChoose(choice.start, choice.end);
        else if (e.key === "Escape" && choice.end >= 0) setChoice({ start: -1, end: -1 });
        else return;
        e.preventDefault();
        e.stopPropagation();
    };
    return (
        <div
            class="heat-box"
            ref={box}
            role="application"
            aria-roledescription="heat map"
            aria-label={props.label}
            tabIndex={0}
            onKeyDown={onKey}
            onPointerDown={(e) => {
                const cell = cellAt(e);
                if (e.button !== 0 || cell < 0) return;
                isDown.current = true;
                above.current!.setPointerCapture(e.pointerId);
                setChoice({ start: cell, end: cell });
            }}
            onPointerMove={onPointerMove}
            onPointerUp={(e) => {
                if (!isDown.current) return;
                isDown.current = false;
                const cell = cellAt(e);
                props.onChoose(choice.start, cell < 0 ? choice.end : cell);
            }}
            onPointerLeave={() => {
                if (isDown.current) return;
                setChoice({ start: -1, end: -1 });
                props.onHover(-1);
            }}
        >
            <canvas
                ref={cells}
                class="heat-cells"
                style={{ width: `${size.width}px`, height: `${size.height}px` }}
            />
            <canvas
                ref={above}
                class="heat-above"
                style={{ width: `${size.width}px`, height: `${size.height}px` }}
            />
            <Axis grid={grid} size={size} />
        </div>
    );
}
