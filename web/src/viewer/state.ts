// What a person has set in the viewer. A file has no address that could hold it.

import { computed, signal } from "@preact/signals";
import { matcherOf } from "../core/flame_search";
import type { WidthMode } from "../core/flame_layout";
import type { FrameTree } from "../core/frame_tree";
import { invert } from "../core/tree_invert";
import { searchTotals } from "../core/tree_tables";
import type { ColourMode, DiffMode } from "../core/url";

export type Tab = "flame" | "icicle" | "top" | "callers";

export const whole = signal<FrameTree | null>(null);
export const tab = signal<Tab>("flame");
export const search = signal("");
export const selected = signal("");
export const root = signal<string[]>([]);
export const colour = signal<ColourMode>("package");
export const isInverted = signal(false);
export const diffMode = signal<DiffMode>("share");
export const diffWidth = signal<WidthMode>("after");
export const menu = signal<{ x: number; y: number; name: string; file: string } | null>(null);

/** The tree that is drawn. */
export const drawn = computed(() => {
    const t = whole.value;
    return t && isInverted.value ? invert(t) : t;
});

/** How much of the whole profile a search finds; null: nothing is searched. */
export const found = computed(() => {
    const t = whole.value;
    const matches = matcherOf(search.value);
    return t && matches ? searchTotals(t, matches) : null;
});

export function showCallers(name: string) {
    selected.value = name;
    tab.value = "callers";
    menu.value = null;
}
