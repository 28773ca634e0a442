// What the function page makes of answers over time: totals per group, shares, lines of source.

import type { Timeline, TopRow } from "../../api/questions";
import type { Point } from "../../core/trend";

export interface GroupFigures {
    name: string; // the label's value
    cum: number;
    flat: number;
    of: number; // the group's whole
    points: Point[];
}

/** A label's value per group; "" where it has none. */
function nameOf(labels: Record<string, string>, by: string): string {
    return labels[by] ?? "";
}

/**
 * Amounts per group of one label. What is there at a moment (live heap) is averaged over the points,
 * what was spent is added up.
 */
export function groupFigures(
    fn: Timeline,
    whole: Timeline | undefined,
    by: string,
    isGauge: boolean,
): GroupFigures[] {
    const count = new Map<number, number>();
    const rows = fn.groups.map((g) => ({
        name: nameOf(g.labels, by),
        cum: 0,
        flat: 0,
        of: 0,
        points: [] as Point[],
    }));
    fn.points.group.forEach((g, i) => {
        const r = rows[g];
        r.cum += fn.points.value[i];
        r.flat += fn.points.flat?.[i] ?? 0;
        r.points.push({ t: Number(fn.points.start_ns[i]) / 1e6, v: fn.points.value[i] });
        count.set(g, (count.get(g) ?? 0) + 1);
    });
    const totals = new Map<string, { sum: number; n: number }>();
    whole?.points.group.forEach((g, i) => {
        const name = nameOf(whole.groups[g].labels, by);
        const t = totals.get(name) ?? { sum: 0, n: 0 };
        t.sum += whole.points.value[i];
        t.n++;
        totals.set(name, t);
    });
    rows.forEach((r, g) => {
        const n = isGauge ? (count.get(g) ?? 1) : 1;
        const t = totals.get(r.name);
        r.cum /= n;
        r.flat /= n;
        r.of = t ? t.sum / (isGauge ? t.n : 1) : 0;
        r.points.sort((a, b) => a.t - b.t);
    });
    return rows.filter((r) => r.cum !== 0 || r.flat !== 0).sort((a, b) => b.cum - a.cum);
}

export interface SourceLine {
    file: string;
    line: number;
    flat: number;
    cum: number;
}

/** Rows of `top` by lines ("name file:line") that are this function's. */
export function linesOf(rows: readonly TopRow[], name: string): SourceLine[] {
    const lines: SourceLine[] = [];
    for (const r of rows) {
        if (!r.name.startsWith(`${name} `)) continue;
        const place = /^(.*):(\d+)$/s.exec(r.name.slice(name.length + 1));
        if (!place) continue;
        // "a b" is not "a", although its rows begin with it.
        if (r.file && place[1] !== r.file) continue;
        lines.push({ file: place[1], line: Number(place[2]), flat: r.flat, cum: r.cum });
    }
    return lines.sort((a, b) => b.cum - a.cum || a.line - b.line);
}
