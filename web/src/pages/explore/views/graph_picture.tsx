// The picture of a call graph: boxes as large and as warm as what they spend, lines as wide as what
// is spent in the calls. Keys walk from box to box; the list below it says the same as text.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Graph, GraphNode } from "../../../api/questions";
import { detail, state } from "../../../app";
import { type GraphLayout, layOutGraph, pathText, type Point } from "../../../core/graph_layout";
import { clipText, isMatch, searchPattern, splitName } from "../../../core/text_match";
import { amountText, shareText } from "../../../core/units";
import { openCallers, openRowMenu, selectFunction } from "./common";
import { usePanZoom } from "./use_pan_zoom";

interface Box {
    width: number;
    height: number;
    font: number;
    lines: { text: string; isMuted: boolean }[];
}

const LABEL_MOST = 40;

const share = (part: number, whole: number) =>
    whole === 0 ? 0 : Math.min(1, Math.abs(part / whole));

/** Columns that a text takes: characters of other scripts and emoji are wide. */
function columnsOf(text: string): number {
    let n = 0;
    for (const c of text) n += (c.codePointAt(0) ?? 0) >= 0x1100 ? 2 : 1;
    return n;
}

/** The end of a name survives: it says which function it is. */
function shorten(text: string, most: number): string {
    const all = [...text.slice(-4 * most)];
    return all.length > most ? `…${all.slice(1 - most).join("")}` : text;
}

function boxOf(n: GraphNode, whole: number, unit: string): Box {
    const font = 11 + 9 * Math.sqrt(share(n.flat, whole));
    const [before, own] = n.name === "" ? ["", "(no name)"] : splitName(clipText(n.name, 2000));
    const small = `${amountText(n.flat, unit)} (${shareText(n.flat, whole)})`;
    const lines = [
        { text: `\u2068${shorten(own, LABEL_MOST)}\u2069`, isMuted: false },
        { text: small, isMuted: true },
    ];
    if (n.cum !== n.flat)
        lines.push({
            text: `of ${amountText(n.cum, unit)} (${shareText(n.cum, whole)})`,
            isMuted: true,
        });
    if (before)
        lines.unshift({ text: `\u2068${shorten(before, LABEL_MOST)}\u2069`, isMuted: true });
    const width = Math.max(...lines.map((l) => columnsOf(l.text) * (l.isMuted ? 11 : font) * 0.61));
    const height = lines.reduce((sum, l) => sum + (l.isMuted ? 14 : font + 4), 0) + 10;
    return { width: Math.max(72, width + 12), height, font, lines };
}

function Node(props: {
    node: GraphNode;
    box: Box;
    at: Point;
    whole: number;
    look: string;
    isTabStop: boolean;
    on: JSX.SVGAttributes<SVGGElement>;
    take: (el: SVGGElement | null) => void;
}) {
    const { box, at } = props;
    const warmth = Math.round(4 + 36 * Math.sqrt(share(props.node.cum, props.whole)));
    let y = -box.height / 2 + 5;
    return (
        <g
            class={`graph-node ${props.look}`}
            transform={`translate(${at.x} ${at.y})`}
            role="button"
            tabIndex={props.isTabStop ? 0 : -1}
            ref={props.take}
            {...props.on}
        >
            <rect
                x={-box.width / 2}
                y={-box.height / 2}
                width={box.width}
                height={box.height}
                style={{ fill: `color-mix(in srgb, var(--accent) ${warmth}%, var(--surface))` }}
            />
            {box.lines.map((l, i) => {
                const size = l.isMuted ? 11 : box.font;
                y += l.isMuted ? 14 : box.font + 4;
                return (
                    <text
                        key={i}
                        y={y - 4}
                        text-anchor="middle"
                        style={{ fontSize: `${size}px` }}
                        class={l.isMuted ? "graph-small" : undefined}
                    >
                        {l.text}
                    </text>
                );
            })}
        </g>
    );
}

function Arrow(props: { points: readonly Point[]; width: number }) {
    const p = props.points;
    const end = p[p.length - 1];
    const isLoop = p[0].x === end.x && p.length === 3 && p[1].x !== end.x;
    const size = 4 + props.width;
    const turn = isLoop ? 90 : end.y > p[p.length - 2].y ? 0 : 180;
    return (
        <path
            class="graph-arrow"
            d={`M0 0L${-size / 2} ${-size}L${size / 2} ${-size}Z`}
            transform={`translate(${end.x} ${end.y}) rotate(${turn})`}
        />
    );
}

function Edges(props: {
    graph: Graph;
    layout: GraphLayout;
    whole: number;
    near: Set<number> | null;
}) {
    const { graph, layout } = props;
    return (
        <>
            {graph.edges.map((e, i) => {
                const points = layout.edges[i];
                const width = 1 + 7 * share(e.value, props.whole);
                const isFar =
                    props.near !== null && !(props.near.has(e.caller) && props.near.has(e.callee));
                const from = points[points.length - 2];
                const to = points[points.length - 1];
                return (
                    <g key={i} class={isFar ? "graph-edge is-far" : "graph-edge"}>
                        <path
                            d={pathText(points)}
                            style={{ strokeWidth: `${width}px` }}
                            stroke-dasharray={e.is_residual ? "6 4" : undefined}
                        />
                        <Arrow points={points} width={width} />
                        <text x={(from.x + to.x) / 2 + 4} y={(from.y + to.y) / 2 + 4}>
                            {amountText(e.value, graph.unit)}
                            {e.is_inline ? " inlined" : ""}
                        </text>
                    </g>
                );
            })}
        </>
    );
}

/** The heaviest neighbour of a box, above or below it. */
function neighbour(g: Graph, at: number, isDown: boolean): number {
    let best = -1;
    let most = Number.NEGATIVE_INFINITY;
    for (const e of g.edges) {
        const [own, other] = isDown ? [e.caller, e.callee] : [e.callee, e.caller];
        if (own !== at || other === at || Math.abs(e.value) <= most) continue;
        best = other;
        most = Math.abs(e.value);
    }
    return best;
}

function nodeAfterKey(g: Graph, order: readonly number[], at: number, key: string): number {
    const k = order.indexOf(at);
    const steps: Record<string, () => number> = {
        ArrowRight: () => order[Math.min(order.length - 1, k + 1)],
        ArrowLeft: () => order[Math.max(0, k - 1)],
        ArrowDown: () => neighbour(g, at, true),
        ArrowUp: () => neighbour(g, at, false),
        Home: () => order[0],
        End: () => order[order.length - 1],
    };
    return steps[key]?.() ?? -1;
}

/** Where the function that all begins with is. */
function heaviest(g: Graph, l: GraphLayout): number {
    let best = 0;
    g.nodes.forEach((n, i) => {
        const rank = l.nodes[i].rank - l.nodes[best].rank;
        if (n.cum > g.nodes[best].cum || (n.cum === g.nodes[best].cum && rank < 0)) best = i;
    });
    return l.nodes[best]?.x ?? 0;
}

/** The selected box with its neighbours; null: none is selected. */
function nearOf(g: Graph, selected: number): Set<number> | null {
    if (selected < 0) return null;
    const near = new Set([selected]);
    for (const e of g.edges) {
        if (e.caller === selected) near.add(e.callee);
        if (e.callee === selected) near.add(e.caller);
    }
    return near;
}

export function GraphPicture(props: { graph: Graph; whole: number }) {
    const { graph, whole } = props;
    const { view } = state.value;
    const boxes = useMemo(
        () => graph.nodes.map((n) => boxOf(n, whole, graph.unit)),
        [graph, whole],
    );
    const layout = useMemo(
        () =>
            layOutGraph(
                boxes,
                graph.edges.map((e) => ({ from: e.caller, to: e.callee, weight: e.value })),
            ),
        [boxes],
    );
    const names = graph.nodes.map((n) => n.name).join("\n");
    const { box, camera, fitAll, zoom, show, hasMoved, handlers } = usePanZoom(
        layout,
        names,
        heaviest(graph, layout),
    );
    const selected = graph.nodes.findIndex((n) => view.selected !== "" && n.name === view.selected);
    const near = useMemo(() => nearOf(graph, selected), [graph, selected]);
    const pattern = useMemo(() => searchPattern(view.search), [view.search]);
    const [active, setActive] = useState(-1);
    const stop =
        active >= 0 && active < boxes.length ? active : selected >= 0 ? selected : layout.order[0];
    const elements = useRef<(SVGGElement | null)[]>([]);
    useEffect(() => {
        if (selected >= 0) bringUp(selected);
    }, [view.selected, names]);

    const bringUp = (i: number) =>
        show(layout.nodes[i].x, layout.nodes[i].y, boxes[i].width, boxes[i].height);
    const tell = (i: number) => {
        const n = graph.nodes[i];
        detail.value = {
            name: n.name,
            file: n.file,
            self: n.flat,
            total: n.cum,
            of: whole,
            unit: graph.unit,
        };
    };
    const onKey = (e: JSX.TargetedKeyboardEvent<SVGGElement>, i: number) => {
        if (e.ctrlKey || e.metaKey || e.altKey) return;
        const to = nodeAfterKey(graph, layout.order, i, e.key);
        const at = e.currentTarget.getBoundingClientRect();
        if (to >= 0) {
            setActive(to);
            bringUp(to);
            elements.current[to]?.focus({ preventScroll: true });
        } else if (e.key === "Enter") openCallers(graph.nodes[i].name);
        else if (e.key === " ") selectFunction(graph.nodes[i].name);
        else if (e.key === ".") openRowMenu(graph.nodes[i], at.left, at.bottom);
        else if (e.key === "+" || e.key === "=") zoom(1.25);
        else if (e.key === "-") zoom(0.8);
        else if (e.key === "0") fitAll();
        else if (!e.key.startsWith("Arrow")) return;
        e.preventDefault();
        e.stopPropagation();
    };
    const lookOf = (i: number) => {
        const n = graph.nodes[i];
        const isFar = pattern ? !isMatch(pattern, n.name) : near !== null && !near.has(i);
        return `${isFar ? "is-far" : ""} ${i === selected ? "is-selected" : ""}`;
    };
    return (
        <div class="graph-box" ref={box} {...handlers}>
            <svg class="graph-svg" role="group" aria-label="Call graph">
                <g transform={`translate(${camera.x} ${camera.y}) scale(${camera.scale})`}>
                    <g class="graph-edges">
                        <Edges
                            graph={graph}
                            layout={layout}
                            whole={whole}
                            near={pattern ? null : near}
                        />
                    </g>
                    {graph.nodes.map((n, i) => (
                        <Node
                            key={i}
                            node={n}
                            box={boxes[i]}
                            at={layout.nodes[i]}
                            whole={whole}
                            look={lookOf(i)}
                            isTabStop={i === stop}
                            take={(el) => {
                                elements.current[i] = el;
                            }}
                            on={{
                                onClick: () => !hasMoved() && selectFunction(n.name),
                                onDblClick: () => openCallers(n.name),
                                onContextMenu: (e) => {
                                    e.preventDefault();
                                    openRowMenu(n, e.clientX, e.clientY);
                                },
                                onPointerEnter: () => tell(i),
                                onPointerLeave: () => {
                                    detail.value = null;
                                },
                                onFocus: () => {
                                    setActive(i);
                                    tell(i);
                                },
                                onKeyDown: (e) => onKey(e, i),
                            }}
                        />
                    ))}
                </g>
            </svg>
            <div class="graph-zoom">
                <button
                    type="button"
                    class="button small"
                    onClick={() => zoom(1.25)}
                    aria-label="Larger"
                >
                    +
                </button>
                <button
                    type="button"
                    class="button small"
                    onClick={() => zoom(0.8)}
                    aria-label="Smaller"
                >
                    −
                </button>
                <button type="button" class="button small" onClick={fitAll}>
                    Fit
                </button>
            </div>
        </div>
    );
}
