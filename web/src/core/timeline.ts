// What the server says over time, as columns that a chart takes: one x for all lines, holes where
// nothing came in, the largest groups apart and the rest as one line.

export interface TimelineAnswer {
    from_ns: string;
    until_ns: string;
    step_ns: string;
    all_groups: number;
    groups: { labels: Record<string, string>; total: number }[];
    points: { group: number[]; start_ns: string[]; value: number[] };
}

export interface Line {
    label: string; // "": the only one
    values: (number | null | undefined)[]; // null: a hole; undefined: no point here, the line goes on
    slot: number; // of its colour; -1: others
}

export interface TimelineColumns {
    from: number; // seconds since 1970
    until: number;
    step: number;
    x: number[];
    lines: Line[];
}

export const MAX_LINES = 7;

const seconds = (ns: string) => Number(ns) / 1e9;

function hash(text: string): number {
    let h = 2166136261;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
    return h >>> 0;
}

/** A colour for each name that stays with it as long as no other of the few wants the same. */
function slotsOf(labels: string[]): number[] {
    const taken = new Set<number>();
    const slots = new Map<string, number>();
    for (const label of [...labels].sort()) {
        let slot = hash(label) % MAX_LINES;
        while (taken.has(slot)) slot = (slot + 1) % MAX_LINES;
        taken.add(slot);
        slots.set(label, slot);
    }
    return labels.map((l) => slots.get(l) ?? 0);
}

/** What is usual between two points: profiles come every few steps, or in every one. */
function usualDistance(starts: number[], step: number): number {
    const between = starts.slice(1).map((x, i) => x - starts[i]);
    between.sort((a, b) => a - b);
    return Math.max(step, between[between.length >> 1] ?? step);
}

function withHoles(points: Map<number, number>, step: number): Map<number, number | null> {
    const starts = [...points.keys()].sort((a, b) => a - b);
    const usual = usualDistance(starts, step);
    const out = new Map<number, number | null>();
    starts.forEach((x, i) => {
        out.set(x, points.get(x) ?? null);
        const next = starts[i + 1];
        if (next !== undefined && next - x > 2.5 * usual) out.set(x + usual, null);
    });
    return out;
}

export function timelineColumns(t: TimelineAnswer): TimelineColumns {
    const step = seconds(t.step_ns);
    const order = t.groups.map((_, i) => i).sort((a, b) => t.groups[b].total - t.groups[a].total);
    const isSplit = t.groups.some((g) => Object.keys(g.labels).length > 0);
    const top = order.slice(0, MAX_LINES);
    const place = new Map(top.map((g, i) => [g, i]));
    const sums: Map<number, number>[] = top.map(() => new Map());
    const others = new Map<number, number>();
    t.points.group.forEach((g, i) => {
        const at = place.get(g);
        const to = at === undefined ? others : sums[at];
        const x = seconds(t.points.start_ns[i]);
        to.set(x, (to.get(x) ?? 0) + t.points.value[i]);
    });
    const labels = top.map((g) =>
        isSplit ? Object.values(t.groups[g].labels).join(", ") || "(without)" : "",
    );
    const slots = slotsOf(labels);
    const columns = sums.map((s) => withHoles(s, step));
    const lines = labels.map((label, i) => ({ label, slot: isSplit ? slots[i] : 0 }));
    if (others.size > 0) {
        columns.push(withHoles(others, step));
        lines.push({ label: `others (${t.all_groups - top.length})`, slot: -1 });
    }
    const x = [...new Set(columns.flatMap((c) => [...c.keys()]))].sort((a, b) => a - b);
    return {
        from: seconds(t.from_ns),
        until: seconds(t.until_ns),
        step,
        x,
        lines: lines.map((l, i) => ({ ...l, values: x.map((at) => columns[i].get(at)) })),
    };
}
