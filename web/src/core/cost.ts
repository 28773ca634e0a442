// What services cost, from timelines: totals of a day, the day before, and the shape in between.

export interface TimelinePoints {
    groups: readonly { labels: Record<string, string>; total: number }[];
    points: { group: number[]; start_ns: string[]; value: number[] };
}

export interface Cost {
    service: string;
    now: number; // the newer half of the range
    before: number; // the older half
    bars: number[]; // the newer half in equal parts
}

/** `from` and `until` in ms; the middle parts before and now. */
export function costsOf(t: TimelinePoints, from: number, until: number, n: number): Cost[] {
    const middle = (from + until) / 2;
    const step = (until - middle) / n;
    const all = t.groups.map((g) => ({
        service: g.labels["service.name"] ?? "",
        now: 0,
        before: 0,
        bars: new Array<number>(n).fill(0),
    }));
    t.points.group.forEach((g, i) => {
        const cost = all[g];
        const at = Number(t.points.start_ns[i]) / 1e6;
        const value = t.points.value[i];
        if (!cost) return;
        if (at < middle) {
            cost.before += value;
            return;
        }
        cost.now += value;
        cost.bars[Math.min(n - 1, Math.max(0, Math.floor((at - middle) / step)))] += value;
    });
    return all;
}

/** "+12 %", "new", "–" */
export function changeShare(now: number, before: number): string {
    if (before === 0) return now === 0 ? "–" : "new";
    const percent = (100 * (now - before)) / before;
    const text = Math.abs(percent) >= 10 ? percent.toFixed(0) : percent.toFixed(1);
    if (Math.abs(percent) >= 1000) return `× ${(now / before).toFixed(0)}`;
    return `${percent > 0 ? "+" : ""}${text.replace("-", "−")} %`;
}
