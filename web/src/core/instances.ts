// Lines per instance out of groups by instance and version: while an instance changes its version,
// both of its series have a point in one step, and their sum would be a peak that never was. The
// larger one counts.

import type { TimelineAnswer } from "./timeline";
import type { Point } from "./trend";

export interface Instance {
    name: string;
    points: Point[];
}

export const INSTANCE_LABELS = [
    "service.instance.id",
    "k8s.pod.name",
    "pod",
    "instance",
    "container.id",
    "host.name",
];

export function instancesOf(t: TimelineAnswer, label: string): Instance[] {
    const all = new Map<string, Map<number, number>>();
    t.points.group.forEach((g, i) => {
        const name = label ? (t.groups[g].labels[label] ?? "") : "";
        const at = Number(t.points.start_ns[i]) / 1e6;
        let points = all.get(name);
        if (!points) {
            points = new Map();
            all.set(name, points);
        }
        points.set(at, Math.max(points.get(at) ?? Number.NEGATIVE_INFINITY, t.points.value[i]));
    });
    return [...all].map(([name, points]) => ({
        name,
        points: [...points].map(([at, v]) => ({ t: at, v })).sort((a, b) => a.t - b.t),
    }));
}

/** The same as a timeline again, for charts. */
export function asTimeline(t: TimelineAnswer, instances: readonly Instance[]): TimelineAnswer {
    const points = { group: [] as number[], start_ns: [] as string[], value: [] as number[] };
    const groups = instances.map((one, g) => {
        let total = 0;
        for (const p of one.points) {
            points.group.push(g);
            points.start_ns.push(String(Math.round(p.t * 1e6)));
            points.value.push(p.v);
            total += p.v;
        }
        return { labels: { instance: one.name || "all" }, total };
    });
    return { ...t, all_groups: groups.length, groups, points };
}
