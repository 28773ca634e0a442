// Two sides compared: a change said in three ways (amount, points of share, ratio), what kind of
// change it is, which way of saying it fits a type, and what adds up to the whole change. The numbers
// are the server's; nothing here looks at a drawn tree.

import type { DiffMode } from "./url";
import { changeText, threeDigits } from "./units";

export interface Change {
    before: number;
    after: number;
    change: number; // after - before
    shareChange: number; // in parts of the whole: 0.05 are 5 points; NaN: a side has no total
    ratio: number | null; // after / before; null: nothing before
}

export function changeOf(
    before: number,
    after: number,
    totalBefore: number,
    totalAfter: number,
): Change {
    const share = (part: number, whole: number) =>
        whole === 0 ? (part === 0 ? 0 : Number.NaN) : part / whole;
    return {
        before,
        after,
        change: after - before,
        shareChange: share(after, totalAfter) - share(before, totalBefore),
        ratio: before === 0 ? (after === 0 ? 1 : null) : after / before,
    };
}

export type ChangeKind = "new" | "gone" | "more" | "less" | "same" | "unsure";

/** What a change is called. `isSure` undefined: there are no statistics, so nothing is called unsure. */
export function kindOf(c: Change, mode: DiffMode, isSure: boolean | undefined): ChangeKind {
    if (c.before === 0 && c.after === 0) return "same";
    if (isSure === false) return "unsure";
    if (c.before === 0) return "new";
    if (c.after === 0) return "gone";
    const amount = inMode(c, mode);
    const by = mode === "ratio" ? amount - 1 : amount;
    if (!(Math.abs(by) > 1e-12)) return "same";
    return by > 0 ? "more" : "less";
}

export const KIND_WORDS: Record<ChangeKind, string> = {
    new: "only after",
    gone: "only before",
    more: "more",
    less: "less",
    same: "unchanged",
    unsure: "not significant",
};

/** A sign that says the kind without colour. */
export const KIND_SIGNS: Record<ChangeKind, string> = {
    new: "✚",
    gone: "✖",
    more: "▲",
    less: "▼",
    same: "=",
    unsure: "≈",
};

/** The one number that a mode is about. A ratio of something new is infinite. */
export function inMode(c: Change, mode: DiffMode): number {
    if (mode === "absolute") return c.change;
    if (mode === "share") return Number.isNaN(c.shareChange) ? 0 : c.shareChange;
    return c.ratio ?? Number.POSITIVE_INFINITY;
}

/** How far from "no change", for ordering: a half weighs as much as a double. */
export function weightIn(c: Change, mode: DiffMode): number {
    if (mode !== "ratio") return Math.abs(inMode(c, mode));
    if (c.ratio === null || c.ratio === 0) return Number.POSITIVE_INFINITY;
    return Math.abs(Math.log(Math.abs(c.ratio)));
}

/** The largest change first; equal ones keep their order. */
export function orderByChange<T>(rows: readonly T[], changeOfRow: (row: T) => Change, m: DiffMode) {
    return rows
        .map((row, i) => ({ row, i, c: changeOfRow(row) }))
        .sort((a, b) => {
            const wa = weightIn(a.c, m);
            const wb = weightIn(b.c, m);
            // Infinite ratios: what is larger in amount is more news.
            if (wa === wb) return Math.abs(b.c.change) - Math.abs(a.c.change) || a.i - b.i;
            return wb > wa ? 1 : -1;
        })
        .map((x) => x.row);
}

export type SideFilter = "" | "before" | "after" | "sure";

/** Whether a row is shown: all, only in A, only in B, significant only. */
export function passes(c: Change, isSure: boolean | undefined, filter: SideFilter): boolean {
    if (filter === "before") return c.before !== 0 && c.after === 0;
    if (filter === "after") return c.before === 0 && c.after !== 0;
    if (filter === "sure") return isSure === true;
    return true;
}

// ---- Words

/** "+3.2 points" of share */
export function pointsText(shareChange: number): string {
    if (Number.isNaN(shareChange)) return "–";
    const points = 100 * shareChange;
    const text = threeDigits(points);
    if (text === "0" && points !== 0) return points > 0 ? "+<0.0001 pt" : "−<0.0001 pt";
    return `${points > 0 ? "+" : ""}${text} pt`;
}

/** "× 1.32"; what is new has no ratio, what is gone is × 0. */
export function ratioText(ratio: number | null): string {
    return ratio === null ? "new" : `× ${threeDigits(ratio)}`;
}

export function modeText(c: Change, mode: DiffMode, unit: string): string {
    if (mode === "absolute") return changeText(c.change, unit);
    return mode === "share" ? pointsText(c.shareChange) : ratioText(c.ratio);
}

// ---- Which way of comparing fits

/** Types that say how much there is at a moment, and not how much was spent. */
export function isGauge(type: string): boolean {
    const t = type.split(":")[0].toLowerCase();
    return /^(inuse|in_use|live|goroutine|threads?$|rss|retained|heap$|heap_|peak_|space$|objects$)/.test(
        t,
    );
}

/** Amounts for what is there at a moment; shares for rates, where both sides ran unequally long. */
export function defaultMode(type: string): DiffMode {
    return isGauge(type) ? "absolute" : "share";
}

// ---- What explains the change

export interface Contribution {
    name: string;
    value: number;
    isRest: boolean;
}

/**
 * The largest contributions, most positive first, and what is left: together they are `total`. Rows
 * must be each function's own (flat) change, so that nothing counts twice.
 */
export function contributions(
    rows: readonly { name: string; value: number }[],
    total: number,
    most: number,
): Contribution[] {
    const shown = [...rows]
        .filter((r) => r.value !== 0)
        .sort((a, b) => Math.abs(b.value) - Math.abs(a.value))
        .slice(0, most)
        .map((r) => ({ name: r.name, value: r.value, isRest: false }));
    const rest = total - shown.reduce((sum, r) => sum + r.value, 0);
    const scale = Math.max(Math.abs(total), ...shown.map((r) => Math.abs(r.value)), 0);
    shown.sort((a, b) => b.value - a.value);
    // Sums of doubles leave crumbs that are nobody's change.
    if (Math.abs(rest) > scale * 1e-9) shown.push({ name: "", value: rest, isRest: true });
    return shown;
}
