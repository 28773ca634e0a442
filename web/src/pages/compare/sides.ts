// Both sides of the comparison as the page's parts need them: what is asked, and in which mode.

import { signal } from "@preact/signals";
import {
    askDiff,
    filterParams,
    frameParams,
    type DiffTable,
    scopeParams,
} from "../../api/questions";
import { patchState, state, ticks } from "../../app";
import { defaultMode } from "../../core/diff";
import type { DiffMode, Scope, View } from "../../core/url";
import { type Query, useQuery } from "../../parts/use_query";
import type { Params } from "../../api/client";

/** What the server took where no type was named. */
export const answeredType = signal("");

export type CompareView = "flame" | "side" | "table" | "why";
export type Width = "after" | "before" | "union";

export interface Sides {
    before: Scope;
    after: Scope;
}

/** Amounts of an answer's sides. */
export interface Totals {
    type: string;
    unit: string;
    before: DiffTable["before"];
    after: DiffTable["after"];
    has_statistics?: boolean;
}

/**
 * The type that both sides are of: B's, and A's when only that names one. Two different types have no
 * difference: null.
 */
export function sameType(a: Scope, b: Scope): string | null {
    const plain = (t: string) => t.split(":")[0];
    if (a.type && b.type && plain(a.type) !== plain(b.type)) return null;
    return b.type || a.type;
}

export function useMode(type: string): DiffMode {
    const s = state.value;
    if (s.extra.mode === "share") return "share";
    return s.diff !== "share" ? s.diff : defaultMode(type);
}

export function setMode(mode: DiffMode) {
    const extra = { ...state.value.extra };
    // "share" is what an address without a mode says, and a default of its own: it is written out.
    if (mode === "share") extra.mode = "share";
    else delete extra.mode;
    patchState({ diff: mode, extra });
}

export function setExtra(name: string, value: string, how?: { replace?: boolean }) {
    const extra = { ...state.value.extra };
    if (value) extra[name] = value;
    else delete extra[name];
    patchState({ extra }, how);
}

export function diffKey(s: Sides, v: View, more: Params): string {
    const side = (x: Scope) => [x.file, scopeParams(x)];
    return JSON.stringify([side(s.before), side(s.after), filterParams(v), frameParams(v), more]);
}

/** Functions and what changed in them; the totals of both sides come with it. */
export function useDiffTable(s: Sides | null, v: View, more: Params): Query<DiffTable> {
    const key = s && `diff/table ${diffKey(s, v, more)}`;
    return useQuery(
        key,
        async (signal) => {
            const params = { ...filterParams(v), ...frameParams(v), ...more };
            const r = await askDiff(s!.before, s!.after, "diff/table", params, { signal });
            return (await r.json()) as DiffTable;
        },
        ticks.value,
    );
}
