// The flame graph for pages: the chart of core/flame_chart.ts with the page's colours and answers.

import { useLayoutEffect, useRef } from "preact/hooks";
import { cssToken, type Detail, type FrameTarget, themeChanges } from "../app";
import { FlameChart, type FlameEvents } from "../core/flame_chart";
import type { FlameTheme } from "../core/flame_colour";
import type { Hit } from "../core/flame_layout";
import { hiddenInfo, infoOf, type NodeInfo } from "../core/flame_moves";
import type { FlameDiff, FlameOptions } from "../core/flame_scene";
import { type FrameTree, nodeAt, pathOf } from "../core/frame_tree";
import type { ColourMode } from "../core/url";
import "./flame_view.css";

/** What a page can do with a flame graph that it shows. */
export interface FlameHandle {
    focus(): void;
    reset(): void;
    zoomOut(): void;
    zoomTo(path: readonly string[]): void;
    /** Marks the box that a path leads to, as the pointer would, without saying so; null: none. */
    point(path: readonly string[] | null): void;
    nextMatch(step: 1 | -1): void;
    /** The drawn nodes that the search finds. */
    matches(): number;
    /** What is in view, as a picture. */
    png(title: string, subtitle?: string): Promise<Blob>;
}

export interface FlameViewProps {
    tree: FrameTree;
    isIcicle?: boolean;
    colour?: ColourMode;
    search?: string;
    selected?: string;
    root?: readonly string[]; // names from the outermost frame: what is zoomed to
    diff?: FlameDiff | null; // of trees with two sides
    unit?: string; // the tree's own when not said
    isRelative?: boolean; // shares of what is zoomed to
    question?: string; // that the tree answers: a newer answer to it keeps zoom and scroll
    onHover?(detail: Detail | null, node: number): void; // -1: nothing
    onSelect?(name: string, node: number): void; // "": nothing any more
    onZoom?(path: string[], node: number): void;
    onMenu?(x: number, y: number, frame: FrameTarget, node: number): void;
    onOpenHidden?(node: number, path: string[]): void;
    onMatches?(nodes: number): void;
    /** Keys that the page knows, before the graph's own; true when it was one of them. The root is
     * no function: it has no name here. */
    onKey?(e: KeyboardEvent, frame: FrameTarget): boolean;
    handle?: { current: FlameHandle | null };
}

export function flameTheme(): FlameTheme {
    return {
        l: Number(cssToken("--flame-l")) || 0.83,
        c: Number(cssToken("--flame-c")) || 0.075,
        ink: cssToken("--flame-ink"),
        text: cssToken("--ink"),
        muted: cssToken("--ink-2"),
        surface: cssToken("--surface"),
        line: cssToken("--line"),
        accent: cssToken("--accent"),
        focus: cssToken("--focus"),
        less: cssToken("--less"),
        more: cssToken("--more"),
        same: cssToken("--same"),
        mono: cssToken("--mono"),
        sans: cssToken("--sans"),
    };
}

let theme: { changes: number; isDark: boolean; value: FlameTheme } | null = null;

/** The colours now; the same object as long as they are the same. */
function themeNow(): FlameTheme {
    const changes = themeChanges.value;
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    if (theme?.changes !== changes || theme.isDark !== isDark)
        theme = { changes, isDark, value: flameTheme() };
    return theme.value;
}

export function targetOf(tree: FrameTree, node: number): FrameTarget {
    const f = tree.frame[node];
    return {
        name: tree.frames.name[f],
        file: tree.frames.file[f],
        line: tree.frames.line[f],
        path: pathOf(tree, node),
        binary: tree.frames.binary[f] || undefined,
    };
}

function detailOf(i: NodeInfo): Detail {
    const { node: _, ...rest } = i;
    return rest;
}

function eventsOf(chart: () => FlameChart | null, props: () => FlameViewProps): FlameEvents {
    const tree = () => props().tree;
    return {
        onHover(hit: Hit | null) {
            const c = chart();
            if (!hit || !c?.scene) return props().onHover?.(null, -1);
            const whole = props().isRelative ? c.zoomed : 0;
            const i = hit.isHidden
                ? hiddenInfo(c.scene, hit.node)
                : infoOf(c.scene, hit.node, whole);
            props().onHover?.(detailOf(i), hit.node);
        },
        onSelect(node) {
            const t = tree();
            props().onSelect?.(node < 0 ? "" : t.frames.name[t.frame[node]], node);
        },
        onZoom: (node) => props().onZoom?.(pathOf(tree(), node), node),
        onMenu(x, y, node) {
            if (node !== 0) props().onMenu?.(x, y, targetOf(tree(), node), node);
        },
        onOpenHidden: (node) => props().onOpenHidden?.(node, pathOf(tree(), node)),
        onKey(e, node) {
            const frame = targetOf(tree(), node);
            return props().onKey?.(e, node === 0 ? { ...frame, name: "" } : frame) ?? false;
        },
    };
}

function optionsOf(p: FlameViewProps): FlameOptions {
    return {
        tree: p.tree,
        theme: themeNow(),
        colour: p.colour ?? "package",
        search: p.search ?? "",
        selected: p.selected ?? "",
        diff: p.diff ?? null,
        unit: p.unit ?? p.tree.head.unit ?? "",
        isIcicle: p.isIcicle ?? false,
        isRelative: p.isRelative ?? false,
        question: p.question,
    };
}

function handleOf(c: FlameChart, props: () => FlameViewProps): FlameHandle {
    return {
        focus: () => c.tree.focus(),
        reset: () => c.zoomTo(0),
        zoomOut: () => c.zoomOut(),
        zoomTo: (path) => c.setRoot(path),
        point: (path) => {
            const found = path && nodeAt(props().tree, path);
            c.hover = found?.isWhole ? { node: found.node, isHidden: false } : null;
            c.invalidate(false);
        },
        nextMatch: (step) => c.nextMatch(step),
        matches: () => c.scene?.matches.length ?? 0,
        png: async (title, subtitle) => {
            const { flameToPng } = await import("../core/flame_png");
            return flameToPng(props().tree, {
                ...optionsOf(props()),
                title,
                subtitle,
                from: c.camera.from,
                to: c.camera.to,
                width: c.width,
            });
        },
    };
}

export function FlameView(props: FlameViewProps) {
    const host = useRef<HTMLDivElement>(null);
    const chart = useRef<FlameChart | null>(null);
    const latest = useRef(props);
    latest.current = props;
    const changes = themeChanges.value;

    // Before the frame is shown: the first picture would else come one later.
    useLayoutEffect(() => {
        if (!host.current) return;
        const c = new FlameChart(
            host.current,
            eventsOf(
                () => chart.current,
                () => latest.current,
            ),
        );
        chart.current = c;
        const handle = latest.current.handle;
        if (handle) handle.current = handleOf(c, () => latest.current);
        const dark = matchMedia("(prefers-color-scheme: dark)");
        const recolour = () => c.update(optionsOf(latest.current));
        dark.addEventListener("change", recolour);
        return () => {
            dark.removeEventListener("change", recolour);
            chart.current = null;
            if (handle) handle.current = null;
            c.destroy();
        };
    }, []);

    const { tree, isIcicle, colour, search, selected, diff, unit, isRelative } = props;
    useLayoutEffect(() => {
        const c = chart.current;
        if (!c) return;
        c.update(optionsOf(latest.current));
        latest.current.onMatches?.(c.scene?.matches.length ?? 0);
    }, [
        tree,
        isIcicle,
        colour,
        search,
        selected,
        diff?.mode,
        diff?.width,
        unit,
        isRelative,
        changes,
    ]);

    // Behind the tree: the path is of that tree.
    const path = (props.root ?? []).join("\n");
    useLayoutEffect(() => chart.current?.setRoot(latest.current.root ?? []), [tree, path]);

    return <div class="flame" ref={host} />;
}
