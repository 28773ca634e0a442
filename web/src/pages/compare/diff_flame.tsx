// The comparison as pictures: one flame graph with both sides' values, or one for each side whose
// pointer, zoom and selection are linked by path.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { askDiff, filterParams, flameBytes, frameParams, TREE_TYPE } from "../../api/questions";
import { type Detail, detail, openFrameMenu, patchView, state, ticks } from "../../app";
import { type FrameTree, nodeAt, pathOf } from "../../core/frame_tree";
import type { DiffMode, Scope } from "../../core/url";
import { amountText, shareText } from "../../core/units";
import { status } from "../../parts/details_bar";
import { type FlameHandle, FlameView } from "../../parts/flame_view";
import { queryKey } from "../../parts/query_key";
import { Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useTree } from "../explore/tree_query";
import { diffKey, type Sides } from "./sides";
import { swapSides } from "./sides_bar";
import { currentWidth } from "./view_bar";

function useDiffTree(sides: Sides) {
    const v = state.value.view;
    return useTree(
        `diff tree ${diffKey(sides, v, { invert: v.invert })}`,
        async (under, maxNodes, signal) => {
            const params = {
                ...filterParams(v),
                ...frameParams(v),
                invert: v.invert,
                under,
                max_nodes: maxNodes,
                format: "tree",
            };
            const how = { signal, accept: TREE_TYPE };
            const r = await askDiff(sides.before, sides.after, "diff", params, how);
            return r.arrayBuffer();
        },
        v.root,
        ticks.value,
    );
}

function useFlameTree(scope: Scope) {
    const view = state.value.view;
    return useTree(
        `flame tree ${queryKey(scope, view)} ${view.invert}`,
        (under, maxNodes, signal) => flameBytes({ scope, view, maxNodes, under }, signal),
        view.root,
        ticks.value,
    );
}

/** The graph has a `w` of its own; here it is the page's. */
function onKey(e: KeyboardEvent): boolean {
    if (e.key === "w") swapSides();
    return e.key === "w";
}

/** The bar at the bottom says what is drawn while nothing is pointed at. */
function useStatus(tree: FrameTree | undefined) {
    useEffect(() => {
        if (!tree) return;
        const h = tree.head;
        status.value = {
            total: h.total,
            unit: h.unit,
            samples: h.after?.samples ?? h.samples,
            drawn: tree.n,
            cutNodes: h.cut_nodes,
            cut: h.cut,
            incomplete: h.incomplete,
            warnings: h.warnings,
        };
        return () => {
            status.value = null;
            detail.value = null;
        };
    }, [tree]);
}

/** Shares of both sides, which the bar does not have for one tree. */
function withShares(tree: FrameTree, d: Detail | null, node: number): Detail | null {
    if (!d || !tree.before || node < 0) return d;
    const before = tree.before.total[node];
    const a = shareText(before, tree.head.before?.total ?? tree.before.total[0]);
    const b = shareText(tree.total[node], tree.head.after?.total ?? tree.total[0]);
    const sure = tree.isSure && tree.isSure[node] !== 1 ? ", not significant" : "";
    return { ...d, note: [`A ${a}, B ${b}${sure}`, d.note].filter(Boolean).join("; ") };
}

export function DiffFlame(props: { sides: Sides; mode: DiffMode }) {
    const v = state.value.view;
    const q = useDiffTree(props.sides);
    useStatus(q.data);
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={16} label="Loading the flame graph" />;
    const tree = q.data;
    if (tree.n <= 1)
        return (
            <Empty title="Nothing to draw">
                <p>Neither side has a stack here. Drop a filter, or choose a longer range.</p>
            </Empty>
        );
    return (
        <Loading isOld={q.isOld}>
            <div class="cmp-flame">
                <FlameView
                    tree={tree}
                    isIcicle={v.view === "icicle"}
                    search={v.search}
                    selected={v.selected}
                    root={v.root}
                    question={q.question}
                    diff={{ mode: props.mode, width: currentWidth() }}
                    onHover={(d, node) => {
                        detail.value = withShares(tree, d, node);
                    }}
                    onSelect={(name) => patchView({ selected: name }, { replace: true })}
                    onZoom={(root) => patchView({ root })}
                    onMenu={(x, y, frame) => openFrameMenu(x, y, frame)}
                    onOpenHidden={(_, path) => q.open(path)}
                    onKey={onKey}
                />
            </div>
        </Loading>
    );
}

/** What the other side says about a path. */
function elsewhere(other: FrameTree | undefined, path: string[], name: string): string {
    if (!other) return "";
    const found = nodeAt(other, path);
    if (!found.isWhole) return `${name}: not there`;
    const total = other.total[found.node];
    return `${name}: ${amountText(total, other.head.unit)}, ${shareText(total, other.head.total)}`;
}

function Pane(props: {
    name: "A" | "B";
    scope: Scope;
    tree: ReturnType<typeof useFlameTree>;
    other: FrameTree | undefined;
    handle: { current: FlameHandle | null };
    link: { current: FlameHandle | null };
}) {
    const v = state.value.view;
    const q = props.tree;
    const isA = props.name === "A";
    return (
        <section aria-label={isA ? "Side A, before" : "Side B, after"}>
            <div class="cmp-pair-head">
                <span class={isA ? "cmp-letter is-a" : "cmp-letter is-b"}>{props.name}</span>
                {q.data && amountText(q.data.head.total, q.data.head.unit)}
            </div>
            {q.error && <ErrorBox error={q.error} retry={q.retry} />}
            {!q.data && !q.error && <Skeleton rows={12} label={`Loading side ${props.name}`} />}
            {q.data && !q.error && (
                <Loading isOld={q.isOld}>
                    <div class="cmp-flame">
                        <FlameView
                            tree={q.data}
                            isIcicle={v.view === "icicle"}
                            colour={v.colour}
                            search={v.search}
                            selected={v.selected}
                            root={v.root}
                            question={q.question}
                            handle={props.handle}
                            onHover={(d, node) => {
                                const path = node < 0 ? null : pathOf(q.data!, node);
                                props.link.current?.point(path);
                                const there = path && elsewhere(props.other, path, isA ? "B" : "A");
                                detail.value = d && {
                                    ...d,
                                    note: [there, d.note].filter(Boolean).join("; "),
                                };
                            }}
                            onSelect={(name) => patchView({ selected: name }, { replace: true })}
                            onZoom={(root) => patchView({ root })}
                            onMenu={(x, y, frame) => openFrameMenu(x, y, frame)}
                            onOpenHidden={(_, path) => q.open(path)}
                            onKey={onKey}
                        />
                    </div>
                </Loading>
            )}
        </section>
    );
}

export function SideBySide(props: { sides: Sides }) {
    const a = useFlameTree(props.sides.before);
    const b = useFlameTree(props.sides.after);
    const left = useRef<FlameHandle | null>(null);
    const right = useRef<FlameHandle | null>(null);
    useStatus(useMemo(() => b.data, [b.data]));
    return (
        <div class="cmp-pair">
            <Pane
                name="A"
                scope={props.sides.before}
                tree={a}
                other={b.data}
                handle={left}
                link={right}
            />
            <Pane
                name="B"
                scope={props.sides.after}
                tree={b}
                other={a.data}
                handle={right}
                link={left}
            />
        </div>
    );
}
