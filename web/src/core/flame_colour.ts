// Which colour a box has. Every colour is a place in a palette of at most 256, so that a change of
// theme or fading makes a new palette and nothing else.

import { cssOf, mix, oklch, type Packed, parseColour, readable } from "./colour";
import { classOf, type FrameClass, hashOf, packageOf } from "./frame_class";
import type { FrameColumns, FrameTree } from "./frame_tree";
import type { ColourMode, DiffMode } from "./url";

/** The tokens (tokens.css) that canvases need. */
export interface FlameTheme {
    l: number; // lightness of boxes
    c: number; // their chroma
    ink: string; // on boxes
    text: string; // beside boxes
    muted: string;
    surface: string;
    line: string;
    accent: string;
    focus: string;
    less: string;
    more: string;
    same: string;
    mono: string; // the font family
    sans: string;
}

export const FADE = 0.45;

// Places in the palette.
const GREY = 0;
const CLASSES: readonly FrameClass[] = [
    "unknown",
    "kernel",
    "runtime",
    "jit",
    "native",
    "go",
    "v8",
    "jvm",
    "python",
];
export const MONO = 15;
const HUES = 16;
const N_HUES = 120;
const HEAT = HUES + N_HUES;
const N_HEAT = 16;
const SAME = HEAT + N_HEAT;
const LESS = SAME + 1;
export const DIFF_STEPS = 8;
const MORE = LESS + DIFF_STEPS;
const N_COLOURS = MORE + DIFF_STEPS;

/** Hue and chroma (times the theme's) of the fixed classes. */
const CLASS_HUES: Record<FrameClass, [number, number]> = {
    unknown: [80, 0.08],
    kernel: [255, 0.75],
    runtime: [308, 0.75],
    jit: [190, 0.9],
    native: [75, 0.75],
    go: [222, 1.15],
    v8: [138, 1.15],
    jvm: [32, 1.25],
    python: [100, 1.45],
};

export const CLASS_NAMES: Record<FrameClass, string> = {
    unknown: "unknown",
    kernel: "kernel",
    runtime: "runtime and GC",
    jit: "JIT and interpreted",
    native: "native",
    go: "Go",
    v8: "V8",
    jvm: "JVM",
    python: "Python",
};

export interface Palette {
    full: Uint32Array;
    faded: Uint32Array;
}

function heat(theme: FlameTheme, share: number): Packed {
    const isDark = theme.l < 0.6;
    const l = isDark ? 0.34 + 0.17 * share : 0.92 - 0.2 * share;
    return oklch(l, 0.015 + 0.125 * share, 75 - 30 * share);
}

export function paletteOf(theme: FlameTheme): Palette {
    const full = new Uint32Array(N_COLOURS);
    const surface = parseColour(theme.surface);
    const ink = parseColour(theme.ink);
    CLASSES.forEach((name, i) => {
        const [hue, chroma] = CLASS_HUES[name];
        full[i] = oklch(theme.l, theme.c * chroma, hue);
    });
    full[MONO] = oklch(theme.l, 0.012, 75);
    for (let i = 0; i < N_HUES; i++) full[HUES + i] = oklch(theme.l, theme.c, (i * 360) / N_HUES);
    for (let i = 0; i < N_HEAT; i++) full[HEAT + i] = heat(theme, i / (N_HEAT - 1));
    const same = readable(parseColour(theme.same), surface, ink);
    full[SAME] = same;
    for (let i = 0; i < DIFF_STEPS; i++) {
        const share = 0.25 + (0.75 * (i + 1)) / DIFF_STEPS;
        full[LESS + i] = mix(readable(parseColour(theme.less), surface, ink), same, share);
        full[MORE + i] = mix(readable(parseColour(theme.more), surface, ink), same, share);
    }
    const faded = full.map((c) => mix(c, surface, FADE));
    return { full, faded };
}

// ---- Frames

/** The palette place of each frame, for the modes in which frames have colours. */
export function frameSlots(frames: FrameColumns, mode: ColourMode): Uint8Array {
    const out = new Uint8Array(frames.n);
    for (let i = 0; i < frames.n; i++) {
        const f = {
            name: frames.name[i],
            file: frames.file[i],
            binary: frames.binary[i],
            kind: frames.kind[i],
        };
        const cls = mode === "mono" || mode === "value" ? "unknown" : classOf(f);
        if (mode === "mono" || mode === "value") out[i] = MONO;
        else if (mode === "kind") out[i] = CLASSES.indexOf(cls);
        else if (mode === "binary") out[i] = hueSlot(f.binary);
        else if (cls === "kernel" || cls === "runtime") out[i] = CLASSES.indexOf(cls);
        else out[i] = hueSlot(packageOf(f)) || CLASSES.indexOf(cls);
    }
    return out;
}

function hueSlot(text: string): number {
    return text === "" ? GREY : HUES + (hashOf(text) % N_HUES);
}

/** What the colours of frames mean, for a legend. */
export function kindLegend(theme: FlameTheme): { name: string; colour: string }[] {
    const p = paletteOf(theme);
    return CLASSES.map((c, i) => ({ name: CLASS_NAMES[c], colour: cssOf(p.full[i]) }));
}

// ---- Nodes: by value

/** By what a node spends itself, of the whole: the width says the rest. */
export function heatSlot(self: number, whole: number): number {
    if (!(whole > 0) || self === 0) return HEAT;
    const share = Math.abs(self) / whole;
    const step = Math.round((1 + Math.log10(share) / 3.5) * (N_HEAT - 1));
    return HEAT + Math.min(N_HEAT - 1, Math.max(0, step));
}

// ---- Nodes: differences

export interface DiffLook {
    mode: DiffMode;
    wholeBefore: number;
    wholeAfter: number;
}

export type Change = "same" | "less" | "more" | "gone" | "new";

export interface DiffMark {
    change: Change;
    step: number; // strength: 1 .. DIFF_STEPS; 0 for what is the same
}

/** How a change looks. `isSure` null: nobody knows, then every change counts. */
export function diffMark(
    before: number,
    after: number,
    isSure: boolean | null,
    look: DiffLook,
): DiffMark {
    const whole = (v: number) => (v === 0 ? 1 : Math.abs(v));
    const isShare = look.mode !== "absolute";
    const largest = Math.max(Math.abs(look.wholeBefore), Math.abs(look.wholeAfter));
    const a = before / whole(isShare ? look.wholeBefore : largest);
    const b = after / whole(isShare ? look.wholeAfter : largest);
    const d = b - a;
    if (isSure === false || Math.abs(d) < 1e-9) return { change: "same", step: 0 };
    let strength: number;
    if (look.mode === "ratio" && a !== 0 && b !== 0 && a > 0 === b > 0)
        strength = Math.abs(Math.log2(b / a)) / 2;
    else if (look.mode === "ratio") strength = 1;
    else strength = Math.sqrt(Math.abs(d) / 0.1);
    const step = Math.min(DIFF_STEPS, Math.max(1, Math.ceil(strength * DIFF_STEPS)));
    if (before === 0) return { change: d > 0 ? "new" : "less", step };
    if (after === 0) return { change: d < 0 ? "gone" : "more", step };
    return { change: d < 0 ? "less" : "more", step };
}

export function diffSlot(m: DiffMark): number {
    if (m.step === 0) return SAME;
    return (m.change === "less" || m.change === "gone" ? LESS : MORE) + m.step - 1;
}

export function nodeMark(t: FrameTree, node: number, look: DiffLook): DiffMark {
    const before = t.before ? t.before.total[node] : 0;
    const isSure = t.isSure ? t.isSure[node] === 1 : null;
    return diffMark(before, t.total[node], isSure, look);
}
