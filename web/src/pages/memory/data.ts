// What the memory page asks: over time per instance, and what lies between its beginning and its end.

import { useMemo } from "preact/hooks";
import {
    askDiff,
    askLabels,
    askTimeline,
    askTop,
    type DiffTable,
    plainView,
    scopeParams,
} from "../../api/questions";
import { ticks } from "../../app";
import { INSTANCE_LABELS, type Instance, instancesOf } from "../../core/instances";
import { timeParam } from "../../core/time";
import { type Judgement, judge, worst } from "../../core/trend";
import type { Scope } from "../../core/url";
import { useQuery } from "../../parts/use_query";

export interface Judged extends Instance {
    judgement: Judgement;
}

const VERSION = "service.version";

/** Memory per instance, and what it looks like. */
export function useInstances(scope: Scope) {
    const where = JSON.stringify(scopeParams(scope));
    const labels = useQuery(`labels ${where}`, (signal) => askLabels(scope, signal));
    const label = INSTANCE_LABELS.find((l) => labels.data?.includes(l)) ?? "";
    const by = [label, labels.data?.includes(VERSION) ? VERSION : ""].filter(Boolean);
    const q = useQuery(
        labels.data || labels.error ? `timeline ${by} ${where}` : null,
        (signal) => askTimeline(scope, { by, limit: 200 }, signal),
        ticks.value,
    );
    const all = useMemo((): Judged[] => {
        if (!q.data) return [];
        return instancesOf(q.data, label)
            .map((i) => ({ ...i, judgement: judge(i.points) }))
            .sort((a, b) => (b.judgement.trend?.slope ?? 0) - (a.judgement.trend?.slope ?? 0));
    }, [q.data, label]);
    const verdict = useMemo(() => worst(all.map((i) => i.judgement)), [all]);
    return { q, label, all, verdict };
}

export interface Windows {
    before: Scope;
    after: Scope;
}

/** The first and the last sixth of where there is data. null: too short for two ends. */
export function windowsOf(scope: Scope, all: readonly Instance[], stepMs: number): Windows | null {
    const times = all.flatMap((i) => i.points.map((p) => p.t));
    if (times.length < 2) return null;
    const from = Math.min(...times);
    const until = Math.max(...times) + stepMs;
    const sixth = (until - from) / 6;
    if (until - from < 2 * stepMs || sixth <= 0) return null;
    const side = (a: number, b: number) => ({ ...scope, from: timeParam(a), until: timeParam(b) });
    return { before: side(from, from + sixth), after: side(until - sixth, until) };
}

export function useGrowth(w: Windows | null, type: string) {
    const of = (s: Scope) => ({ ...s, type });
    const key =
        w && type ? JSON.stringify([scopeParams(of(w.before)), scopeParams(of(w.after))]) : null;
    return useQuery(key && `growth ${key}`, async (signal) => {
        const r = await askDiff(
            of(w!.before),
            of(w!.after),
            "diff/table",
            { limit: 5000 },
            { signal },
        );
        return (await r.json()) as DiffTable;
    });
}

/** What functions allocated over the range, by name. */
export function useAllocated(scope: Scope, type: string) {
    const asked = { ...scope, type };
    return useQuery(type ? `top ${JSON.stringify(scopeParams(asked))}` : null, async (signal) => {
        const top = await askTop(asked, plainView(), { limit: 5000 }, signal);
        return new Map(top.rows.map((r) => [r.name, r.flat]));
    });
}
