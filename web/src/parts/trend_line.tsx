// A line as small as a word, and its larger sister with bands and markers: SVG, because there are
// few points and each wants to be readable by everybody. Gaps in the data stay gaps.

import { agoText, clockText } from "../core/time";
import type { Point } from "../core/trend";
import { amountText } from "../core/units";
import "./trend_line.css";

/** The path of a line; a point further than `gap` from the one before begins anew. */
function linePath(
    points: readonly Point[],
    x: (t: number) => number,
    y: (v: number) => number,
    gap: number,
): string {
    let path = "";
    points.forEach((p, i) => {
        const isNew = i === 0 || p.t - points[i - 1].t > gap;
        path += `${isNew ? "M" : "L"}${x(p.t).toFixed(1)} ${y(p.v).toFixed(1)}`;
        // A point alone is a dot: round ends make it visible.
        if (isNew && (i + 1 === points.length || points[i + 1].t - p.t > gap)) path += "h.01";
    });
    return path;
}

/** Three times the usual distance is a gap. */
export function gapOf(points: readonly Point[]): number {
    const steps = points.slice(1).map((p, i) => p.t - points[i].t);
    steps.sort((a, b) => a - b);
    return 3 * (steps[Math.floor(steps.length / 2)] ?? Number.POSITIVE_INFINITY);
}

export function summary(points: readonly Point[], unit: string): string {
    if (points.length === 0) return "no data";
    const values = points.map((p) => p.v);
    const a = amountText(points[0].v, unit);
    const b = amountText(points[points.length - 1].v, unit);
    const peak = amountText(Math.max(...values), unit);
    return `${points.length} points, from ${a} to ${b}, at most ${peak}`;
}

export function TrendLine(props: {
    points: readonly Point[];
    unit: string;
    label: string;
    width?: number;
    height?: number;
    from?: number;
    until?: number;
}) {
    const w = props.width ?? 96;
    const h = props.height ?? 20;
    const p = props.points;
    const t0 = props.from ?? p[0]?.t ?? 0;
    const t1 = props.until ?? p[p.length - 1]?.t ?? 1;
    const top = Math.max(0, ...p.map((x) => x.v));
    const low = Math.min(0, ...p.map((x) => x.v));
    const x = (t: number) => 1 + ((w - 2) * (t - t0)) / (t1 - t0 || 1);
    const y = (v: number) => h - 2 - ((h - 4) * (v - low)) / (top - low || 1);
    return (
        <svg
            class="spark"
            width={w}
            height={h}
            viewBox={`0 0 ${w} ${h}`}
            role="img"
            aria-label={`${props.label}: ${summary(p, props.unit)}`}
        >
            <path class="spark-line" d={linePath(p, x, y, gapOf(p))} />
        </svg>
    );
}

export interface StripBand {
    from: number;
    until: number;
    name: string; // "A", "B"
    kind: "a" | "b";
}
export interface StripMark {
    at: number;
    label: string;
    title: string;
    onPick?: () => void;
}
export interface StripSeries {
    name: string;
    points: readonly Point[];
}

const W = 1000; // the drawing's own units; the box stretches, strokes and text do not
const H = 100;

/** A strip over time: lines, tinted bands, flags that can be pressed. Text is HTML over the picture. */
export function Strip(props: {
    label: string;
    series: readonly StripSeries[];
    unit: string;
    from: number;
    until: number;
    bands?: readonly StripBand[];
    marks?: readonly StripMark[];
    height?: number;
    now: number;
}) {
    const { from, until, series } = props;
    const all = series.flatMap((s) => s.points);
    const top = Math.max(0, ...all.map((p) => p.v));
    const low = Math.min(0, ...all.map((p) => p.v));
    const at = (t: number) => (t - from) / (until - from || 1);
    const x = (t: number) => W * at(t);
    const y = (v: number) => H - 4 - ((H - 12) * (v - low)) / (top - low || 1);
    const percent = (t: number) => `${100 * Math.min(1, Math.max(0, at(t)))}%`;
    const text = series.map((s) => `${s.name} ${summary(s.points, props.unit)}`).join("; ");
    return (
        <div class="strip">
            <div class="strip-plot" style={{ height: `${props.height ?? 72}px` }}>
                {props.bands?.map((b) => (
                    <div
                        key={b.name}
                        class={`strip-band strip-band-${b.kind}`}
                        style={{
                            left: percent(b.from),
                            right: `${100 - 100 * Math.min(1, Math.max(0, at(b.until)))}%`,
                        }}
                    >
                        <span>{b.name}</span>
                    </div>
                ))}
                <svg
                    viewBox={`0 0 ${W} ${H}`}
                    preserveAspectRatio="none"
                    role="img"
                    aria-label={`${props.label}: ${text}`}
                >
                    {series.map((s, i) => (
                        <path
                            key={s.name}
                            class={`strip-line strip-line-${i % 7}`}
                            d={linePath(s.points, x, y, gapOf(s.points))}
                        />
                    ))}
                </svg>
                <span class="strip-top" aria-hidden="true">
                    {top > 0 ? amountText(top, props.unit) : ""}
                </span>
                {props.marks
                    ?.filter((m) => m.at >= from && m.at <= until)
                    .map((m) => (
                        <span
                            key={`${m.at} ${m.label}`}
                            class={at(m.at) > 0.8 ? "strip-mark is-late" : "strip-mark"}
                            style={{ left: percent(m.at) }}
                        >
                            {m.onPick ? (
                                <button type="button" title={m.title} onClick={m.onPick}>
                                    {m.label}
                                </button>
                            ) : (
                                <span title={m.title}>{m.label}</span>
                            )}
                        </span>
                    ))}
            </div>
            <div class="strip-times" aria-hidden="true">
                <span title={agoText(from, props.now)}>{clockText(from, props.now)}</span>
                <span title={agoText(until, props.now)}>{clockText(until, props.now)}</span>
            </div>
        </div>
    );
}
