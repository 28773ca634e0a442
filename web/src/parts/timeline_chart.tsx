// Values over time, drawn by uPlot: drag to select, gaps stay gaps, deployments are thin lines with a
// flag, captures a tinted band. Whoever shows it decides what a selection means.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { cssToken, detail, themeChanges } from "../app";
import { clockText } from "../core/time";
import type { TimelineColumns } from "../core/timeline";
import { amountText } from "../core/units";
import { lineColour } from "./line_colour";
import "./timeline_chart.css";

export interface Marker {
    at: number; // ms
    label: string;
    detail: string;
    onPick?: () => void;
}
export interface Band {
    from: number; // ms
    until: number;
    label: string;
    side?: "A" | "B"; // of a comparison
}
export interface Brush {
    from: number; // ms
    until: number;
    isShift: boolean;
}

const AXIS_W = 56;
const AXIS_H = 18;
const PAD = 16;
const HEAD = 28; // room for what whoever shows it puts there

/** Many lines are told apart by more than their colour. */
const DASHES: (number[] | undefined)[] = [undefined, [6, 3], [2, 2], [8, 3, 2, 3]];

/** Points that no line touches: they would not be seen. */
function lonePoints(values: readonly (number | null | undefined)[]): number[] {
    const there = values.map((v, i) => ({ v, i })).filter((p) => p.v !== undefined);
    const isHole = (k: number) => typeof there[k]?.v !== "number";
    return there.filter((p, k) => p.v !== null && isHole(k - 1) && isHole(k + 1)).map((p) => p.i);
}

interface Shape {
    columns: TimelineColumns;
    unit: string;
    height: number;
    isBare: boolean;
}

function seriesOf(s: Shape): uPlot.Series[] {
    const { lines } = s.columns;
    const isOne = lines.length === 1;
    return [
        {},
        ...lines.map((l, i) => {
            const lone = lonePoints(l.values);
            return {
                label: l.label,
                stroke: isOne ? cssToken("--accent") : lineColour(l.slot),
                fill: isOne ? cssToken("--accent-soft") : undefined,
                width: 1.5,
                dash: lines.length > 4 ? DASHES[i % DASHES.length] : undefined,
                points: {
                    show: lone.length > 0,
                    size: 5,
                    fill: isOne ? cssToken("--accent") : lineColour(l.slot),
                    filter: () => lone,
                },
            };
        }),
    ];
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** Clock times; the day is said where it begins. */
function timeTicks(ticks: number[], isShort: boolean): string[] {
    return ticks.map((t, i) => {
        const d = new Date(t * 1e3);
        const isNewDay = i > 0 && new Date(ticks[i - 1] * 1e3).getDate() !== d.getDate();
        const isMidnight = d.getHours() === 0 && d.getMinutes() === 0;
        if (isNewDay || isMidnight) return `${MONTHS[d.getMonth()]} ${d.getDate()}`;
        return clockText(t * 1e3, t * 1e3, isShort);
    });
}

function axesOf(s: Shape): uPlot.Axis[] {
    if (s.isBare) return [{ show: false }, { show: false }];
    const common = {
        stroke: cssToken("--ink-2"),
        font: `11px ${cssToken("--sans")}`,
        ticks: { show: false },
    };
    const isShort = s.columns.until - s.columns.from < 600;
    return [
        {
            ...common,
            size: AXIS_H,
            gap: 2,
            space: 64,
            grid: { show: false },
            values: (_, ticks) => timeTicks(ticks, isShort),
        },
        {
            ...common,
            size: AXIS_W,
            gap: 4,
            space: 24,
            grid: { stroke: cssToken("--line"), width: 1 },
            values: (_, ticks) => ticks.map((t) => amountText(t, s.unit)),
        },
    ];
}

/** What is under the pointer, for the bar at the bottom. */
function tell(u: uPlot, s: Shape) {
    const i = u.cursor.idx;
    if (i === null || i === undefined) {
        detail.value = null;
        return;
    }
    const at = s.columns.x[i];
    const parts = s.columns.lines.map((l) => {
        const v = l.values[i];
        return typeof v === "number" ? `${l.label} ${amountText(v, s.unit)}`.trim() : "";
    });
    detail.value = {
        name: clockText(at * 1e3, Date.now(), true),
        note: parts.filter(Boolean).join("   ") || "nothing came in",
    };
}

function make(box: HTMLElement, s: Shape, onBrush: (b: Brush) => void): uPlot {
    let isShift = false;
    const u = new uPlot(
        {
            width: Math.max(80, box.clientWidth),
            height: s.height,
            padding: s.isBare ? [2, PAD, 2, 8] : [HEAD, PAD, 0, 0],
            legend: { show: false },
            cursor: {
                drag: { x: true, y: false, setScale: false, dist: 4 },
                y: false,
                points: { size: 6 },
            },
            scales: {
                x: { time: true, range: () => [s.columns.from, s.columns.until] },
                // From zero: heights are compared, and a flat line must not look like a storm.
                y: { range: (_, lo, hi) => [Math.min(0, lo ?? 0), hi > 0 ? hi * 1.05 : 1] },
            },
            axes: axesOf(s),
            series: seriesOf(s),
            hooks: {
                setCursor: [(u) => tell(u, s)],
                setSelect: [
                    (u) => {
                        const { left, width } = u.select;
                        if (width < 4) return;
                        const from = u.posToVal(left, "x") * 1e3;
                        onBrush({ from, until: u.posToVal(left + width, "x") * 1e3, isShift });
                    },
                ],
            },
        },
        [s.columns.x, ...s.columns.lines.map((l) => l.values)] as uPlot.AlignedData,
        box,
    );
    u.over.addEventListener("mousedown", (e) => {
        isShift = e.shiftKey;
    });
    u.over.addEventListener("mouseleave", () => {
        detail.value = null;
    });
    return u;
}

function Overlay(props: { shape: Shape; markers: readonly Marker[]; bands: readonly Band[] }) {
    const { from, until } = props.shape.columns;
    const at = (ms: number) =>
        Math.max(0, Math.min(100, (100 * (ms / 1e3 - from)) / (until - from || 1)));
    const isInside = (ms: number) => ms / 1e3 >= from && ms / 1e3 <= until;
    const left = props.shape.isBare ? 8 : AXIS_W;
    const bottom = props.shape.isBare ? 2 : AXIS_H;
    return (
        <div
            class="timeline-over"
            style={{ left: `${left}px`, right: `${PAD}px`, bottom: `${bottom}px` }}
        >
            {props.bands
                .filter((b) => b.until / 1e3 > from && b.from / 1e3 < until)
                .map((b) => (
                    <div
                        key={`${b.side} ${b.from}`}
                        class={b.side ? `timeline-band is-${b.side}` : "timeline-band"}
                        title={b.label}
                        style={{ left: `${at(b.from)}%`, width: `${at(b.until) - at(b.from)}%` }}
                    >
                        {b.side}
                    </div>
                ))}
            {props.markers
                .filter((m) => isInside(m.at))
                .map((m) => (
                    <button
                        key={`${m.at} ${m.label}`}
                        type="button"
                        class="timeline-marker"
                        style={{ left: `${at(m.at)}%` }}
                        title={m.detail}
                        aria-label={m.detail}
                        onClick={m.onPick}
                    >
                        <span class="timeline-flag">{m.label}</span>
                    </button>
                ))}
        </div>
    );
}

const none: readonly never[] = [];

export function TimelineChart(props: {
    columns: TimelineColumns;
    unit: string;
    height: number;
    isBare?: boolean; // no axes: a strip
    markers?: readonly Marker[];
    bands?: readonly Band[];
    brush?: Brush | null; // what is selected now; null clears the picture of it
    label: string; // for those who do not see it
    onBrush: (b: Brush) => void;
}) {
    const box = useRef<HTMLDivElement>(null);
    const plot = useRef<uPlot | null>(null);
    const [isReady, setReady] = useState(false);
    const brushing = useRef(props.onBrush);
    brushing.current = props.onBrush;
    const shape = { ...props, isBare: props.isBare ?? false };
    const theme = themeChanges.value;

    useEffect(() => {
        if (!box.current) return;
        const u = make(box.current, shape, (b) => brushing.current(b));
        plot.current = u;
        setReady(true);
        const watch = new ResizeObserver(() => {
            const width = box.current?.clientWidth ?? 0;
            if (width > 0) u.setSize({ width, height: props.height });
        });
        watch.observe(box.current);
        return () => {
            watch.disconnect();
            u.destroy();
            plot.current = null;
        };
    }, [props.columns, props.unit, props.height, props.isBare, theme]);

    useEffect(() => {
        const u = plot.current;
        if (!u || !isReady) return;
        const b = props.brush;
        const left = b ? u.valToPos(b.from / 1e3, "x") : 0;
        const width = b ? u.valToPos(b.until / 1e3, "x") - left : 0;
        u.setSelect({ left, width, top: 0, height: width ? u.over.clientHeight : 0 }, false);
    }, [props.brush, isReady, props.columns]);

    return (
        <div class="timeline" role="group" aria-label={props.label}>
            <div class="timeline-plot" ref={box} aria-hidden="true" />
            <Overlay shape={shape} markers={props.markers ?? none} bands={props.bands ?? none} />
        </div>
    );
}
