// A line as small as a word, for tables: SVG, with its story as text for those who do not see it. Gaps
// in the data stay gaps.

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
function gapOf(points: readonly Point[]): number {
    const steps = points.slice(1).map((p, i) => p.t - points[i].t);
    steps.sort((a, b) => a - b);
    return 3 * (steps[Math.floor(steps.length / 2)] ?? Number.POSITIVE_INFINITY);
}

function summary(points: readonly Point[], unit: string): string {
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
