// What to compare with: from one selection to the two sides of a comparison. Relative times stay
// relative, so that a link to "the same hour yesterday" stays that.

import { isRelative, parseTime, periodBefore, timeParam } from "./time";
import type { Matcher, Scope } from "./url";

export interface Sides {
    base: Scope; // A, before
    scope: Scope; // B, after
}

const STEPS: [number, string][] = [
    [86400e3, "d"],
    [3600e3, "h"],
    [60e3, "m"],
    [1e3, "s"],
    [1, "ms"],
];

/** The same moment, `ms` earlier. */
export function earlier(time: string, ms: number, now: number): string {
    if (!isRelative(time)) return timeParam(parseTime(time, now) - ms);
    const back = Math.round(now - parseTime(time, now)) + ms;
    if (back <= 0) return "now";
    const [size, unit] = STEPS.find(([s]) => back % s === 0) ?? STEPS[STEPS.length - 1];
    return `now-${back / size}${unit}`;
}

export function earlierBy(s: Scope, ms: number, now: number): Sides {
    const base = { ...s, from: earlier(s.from, ms, now), until: earlier(s.until, ms, now) };
    return { base, scope: s };
}

export function previousPeriod(s: Scope, now: number): Sides {
    if (isRelative(s.from) && isRelative(s.until)) {
        const length = parseTime(s.until, now) - parseTime(s.from, now);
        return earlierBy(s, Math.round(length), now);
    }
    const [from, until] = periodBefore(s.from, s.until, now);
    return { base: { ...s, from, until }, scope: s };
}

/**
 * Before and after a moment. Both sides are as long as the selection, but end where another
 * deployment begins: a side is of one version.
 */
export function aroundDeploy(s: Scope, at: number, all: readonly number[], now: number): Sides {
    const length = Math.max(60e3, parseTime(s.until, now) - parseTime(s.from, now));
    const last = Math.max(...all.filter((t) => t < at), at - length);
    const next = Math.min(...all.filter((t) => t > at), at + length, Math.max(now, at + 60e3));
    const around = (from: number, until: number) => ({
        ...s,
        labels: s.labels.filter((m) => m.name !== "service.version"),
        from: timeParam(from),
        until: timeParam(until),
    });
    return { base: around(last, at), scope: around(at, next) };
}

export function withLabel(s: Scope, m: Matcher): Scope {
    return { ...s, labels: [...s.labels.filter((x) => x.name !== m.name), m] };
}

export function labelValues(s: Scope, name: string, before: string, after: string): Sides {
    return {
        base: withLabel(s, { name, op: "=", value: before }),
        scope: withLabel(s, { name, op: "=", value: after }),
    };
}

/** All others (A) and this one (B). */
export function labelAndRest(s: Scope, name: string, value: string): Sides {
    return {
        base: withLabel(s, { name, op: "!=", value }),
        scope: withLabel(s, { name, op: "=", value }),
    };
}

/** Both selections say the same but for the time. */
export function differsByTimeOnly(a: Scope, b: Scope): boolean {
    const rest = (s: Scope) => JSON.stringify({ ...s, from: "", until: "" });
    return rest(a) === rest(b) && !a.file;
}
