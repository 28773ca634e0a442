// Values over time: drag to select, gaps stay gaps, deployments are thin lines with a flag, captures a
// tinted band. Whoever shows it decides what a selection means.

import { useEffect, useRef } from "preact/hooks";
import { cssToken, detail, themeChanges } from "../app";
import { clockText } from "../core/time";
import { TimeChart } from "../core/time_chart";
import type { ChartData, ChartLook } from "../core/time_draw";
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

interface Shape {
    columns: TimelineColumns;
    unit: string;
    height: number;
    isBare: boolean;
}

function dataOf(s: Shape): ChartData {
    const { from, until, x, lines } = s.columns;
    const isOne = lines.length === 1;
    return {
        from,
        until,
        x,
        unit: s.unit,
        lines: lines.map((l, i) => ({
            values: l.values,
            colour: lineColour(l.slot, lines.length),
            fill: isOne ? cssToken("--accent-soft") : undefined,
            dash: lines.length > 4 ? DASHES[i % DASHES.length] : undefined,
        })),
    };
}

function lookOf(isBare: boolean): ChartLook {
    return {
        ink: cssToken("--ink-2"),
        grid: cssToken("--line"),
        surface: cssToken("--surface"),
        accent: cssToken("--accent"),
        accentSoft: cssToken("--accent-soft"),
        font: `11px ${cssToken("--sans")}`,
        hasAxes: !isBare,
        pad: isBare
            ? { top: 2, right: PAD, bottom: 2, left: 8 }
            : { top: HEAD, right: PAD, bottom: AXIS_H, left: AXIS_W },
    };
}

/** What is under the pointer, for the bar at the bottom. */
function tell(i: number | null, s: Shape) {
    if (i === null) {
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
    const chart = useRef<TimeChart | null>(null);
    const shape = { ...props, isBare: props.isBare ?? false };
    const now = useRef(shape); // what listeners see
    now.current = shape;
    const theme = themeChanges.value;

    useEffect(() => {
        if (!box.current) return;
        const made = new TimeChart(box.current, {
            onHover: (i) => tell(i, now.current),
            onSelect: ({ from, until, isShift }) =>
                now.current.onBrush({ from: from * 1e3, until: until * 1e3, isShift }),
        });
        chart.current = made;
        return () => {
            chart.current = null;
            made.destroy();
        };
    }, []);

    useEffect(() => {
        chart.current?.update(dataOf(shape), lookOf(shape.isBare), shape.height);
    }, [props.columns, props.unit, props.height, props.isBare, theme]);

    useEffect(() => {
        const b = props.brush;
        chart.current?.select(b ? [b.from / 1e3, b.until / 1e3] : null);
    }, [props.brush]);

    return (
        <div class="timeline" role="group" aria-label={props.label}>
            <div class="timeline-plot" ref={box} aria-hidden="true" />
            <Overlay shape={shape} markers={props.markers ?? none} bands={props.bands ?? none} />
        </div>
    );
}
