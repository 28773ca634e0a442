// Everything that decides how boxes look, worked out once per change of tree, colours, search or
// selection, so that drawing a picture only looks things up.

import {
    type DiffLook,
    diffSlot,
    type FlameTheme,
    frameSlots,
    heatSlot,
    MONO,
    nodeMark,
    type Palette,
    paletteOf,
} from "./flame_colour";
import { Labels } from "./flame_labels";
import { type FlameLayout, layOut, type WidthMode } from "./flame_layout";
import { familyOf, matcherOf, matchFrames, nodesOf, sameName } from "./flame_search";
import type { FrameTree } from "./frame_tree";
import type { ColourMode, DiffMode } from "./url";

export interface FlameDiff {
    mode: DiffMode;
    width?: WidthMode; // after when not said
}

export interface FlameOptions {
    tree: FrameTree;
    theme: FlameTheme;
    colour: ColourMode;
    search: string;
    selected: string; // a function's name; "": none
    diff: FlameDiff | null; // only of trees with two sides
    unit: string;
    isIcicle: boolean;
    isRelative: boolean; // shares are of what is zoomed to
    question?: string; // what the tree answers: another one to the same is the same, newer
}

export interface FlameScene {
    options: FlameOptions;
    layout: FlameLayout;
    look: DiffLook | null;
    palette: Palette;
    labels: Labels;
    slots: Uint8Array; // per frame
    isMatch: Uint8Array | null; // per frame, while something is searched
    matches: Uint32Array; // nodes
    selected: Uint32Array; // nodes of the selected function
    family: Uint8Array | null; // per node, while something is selected
}

function wholeOf(t: FrameTree, side: "before" | "after"): number {
    const head = t.head[side]?.total;
    if (head !== undefined && head !== 0) return head;
    return side === "before" ? (t.before?.total[0] ?? 0) : t.total[0];
}

export function lookOf(t: FrameTree, diff: FlameDiff | null): DiffLook | null {
    if (!diff || !t.before) return null;
    return {
        mode: diff.mode,
        wholeBefore: wholeOf(t, "before"),
        wholeAfter: wholeOf(t, "after"),
    };
}

function layoutFor(o: FlameOptions, look: DiffLook | null): FlameLayout {
    const isShare = look && look.mode !== "absolute" && look.wholeBefore !== 0;
    const scale = isShare ? Math.abs(look.wholeAfter / look.wholeBefore) || 1 : 1;
    return layOut(o.tree, look ? (o.diff?.width ?? "after") : "after", scale);
}

/** The scene of some options; what has not changed is taken from `old`. */
export function sceneOf(o: FlameOptions, old: FlameScene | null): FlameScene {
    const was = old?.options;
    const t = o.tree;
    const isSameTree = was?.tree === t;
    const look = lookOf(t, o.diff);
    const isSameDiff = was?.diff?.mode === o.diff?.mode && was?.diff?.width === o.diff?.width;
    const keep = old && isSameTree ? old : null;
    const scene: FlameScene = {
        options: o,
        look,
        layout: keep && isSameDiff ? keep.layout : layoutFor(o, look),
        palette: old && was?.theme === o.theme ? old.palette : paletteOf(o.theme),
        labels: keep?.labels ?? new Labels(t.frames),
        slots: keep && was?.colour === o.colour ? keep.slots : frameSlots(t.frames, o.colour),
        isMatch: keep?.isMatch ?? null,
        matches: keep?.matches ?? new Uint32Array(0),
        selected: keep?.selected ?? new Uint32Array(0),
        family: keep?.family ?? null,
    };
    if (!keep || was?.search !== o.search) {
        const matches = matcherOf(o.search);
        scene.isMatch =
            matches && matchFrames(t.frames.name, matches, t.frames.file, t.frames.binary);
        scene.matches = scene.isMatch ? nodesOf(t, scene.isMatch) : new Uint32Array(0);
    }
    if (!keep || was?.selected !== o.selected) {
        const isOne = o.selected !== "" && t.frames.name.includes(o.selected);
        scene.selected = isOne
            ? nodesOf(t, sameName(t.frames.name, o.selected))
            : new Uint32Array(0);
        scene.family = scene.selected.length > 0 ? familyOf(t, scene.selected) : null;
    }
    return scene;
}

/** At full strength? What is searched for comes first. */
export function isLit(s: FlameScene, node: number): boolean {
    if (s.isMatch) return s.isMatch[s.layout.tree.frame[node]] === 1;
    return s.family === null || s.family[node] === 1;
}

function slotOf(s: FlameScene, node: number): number {
    const t = s.layout.tree;
    if (s.look) return diffSlot(nodeMark(t, node, s.look));
    if (node === 0) return MONO; // the root is no function
    if (s.options.colour === "value") return heatSlot(t.self[node], s.layout.size);
    return s.slots[t.frame[node]];
}

export function colourOf(s: FlameScene, node: number): number {
    const p = isLit(s, node) ? s.palette.full : s.palette.faded;
    return p[slotOf(s, node)];
}
