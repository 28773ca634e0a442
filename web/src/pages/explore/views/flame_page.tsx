// The flame graph and the icicle: fetched, decoded and drawn; what was cut is said and can be opened.

import { useEffect, useRef } from "preact/hooks";
import { flameBytes } from "../../../api/questions";
import {
    addFilter,
    type Detail,
    detail,
    openFrameMenu,
    patchView,
    state,
    ticks,
    type FrameTarget,
} from "../../../app";
import { frameRegex } from "../../../core/regex";
import type { FrameTree } from "../../../core/frame_tree";
import { status } from "../../../parts/details_bar";
import { picture } from "../../../parts/export_menu";
import { type FlameHandle, FlameView } from "../../../parts/flame_view";
import { queryKey } from "../../../parts/query_key";
import { ErrorBox, Loading, Skeleton } from "../../../parts/states";
import { shown, useWholeTotal } from "../head";
import { useTree } from "../tree_query";

/** What the bar at the bottom says about a tree. */
export function tellTree(t: FrameTree, note?: string) {
    const h = t.head;
    status.value = {
        total: h.total,
        unit: h.unit,
        samples: h.samples,
        profiles: h.profiles,
        drawn: t.n,
        cutNodes: h.cut_nodes,
        cut: h.cut,
        incomplete: h.incomplete,
        warnings: h.warnings,
        note,
    };
}

/** Keys that work on the frame that has the focus. */
export function frameKey(e: KeyboardEvent, frame: FrameTarget): boolean {
    if (e.ctrlKey || e.metaKey || e.altKey || !frame.name) return false;
    const value = frameRegex(frame.name, state.value.view.group);
    if (e.key === "f") addFilter({ kind: "focus", value });
    else if (e.key === "h") addFilter({ kind: "hide", value });
    else if (e.key === "s") patchView({ selected: frame.name, view: "callers" });
    else return false;
    return true;
}

/** Lets the export paint what is on screen. */
export function usePicture(title: string) {
    const handle = useRef<FlameHandle | null>(null);
    useEffect(() => {
        picture.current = () => handle.current?.png(title) ?? null;
        return () => {
            picture.current = null;
        };
    }, [title]);
    return handle;
}

export default function FlamePage() {
    const { scope, view } = state.value;
    const key = `flame ${queryKey(scope, view)} ${view.invert}`;
    const q = useTree(
        key,
        (under, maxNodes, signal) => flameBytes({ scope, view, maxNodes, under }, signal),
        view.root,
        ticks.value,
    );
    const tree = q.data;
    const isNow = tree !== undefined && !q.isOld;
    const whole = useWholeTotal(tree?.head.total);
    const handle = usePicture([scope.type, scope.service].filter(Boolean).join(" of "));
    useEffect(() => {
        shown.value = { head: isNow ? tree.head : undefined, error: q.error };
        if (isNow) tellTree(tree);
    }, [tree, isNow, q.error]);

    if (q.error && !(tree && isNow)) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!tree) return <Skeleton rows={20} />;
    const onHover = (d: Detail | null) => {
        detail.value = d && !view.relative ? { ...d, of: whole } : d;
    };
    return (
        <Loading isOld={q.isOld}>
            <FlameView
                tree={tree}
                isIcicle={view.view === "icicle"}
                colour={view.colour}
                search={view.search}
                selected={view.selected}
                root={view.root}
                isRelative={view.relative}
                question={q.question}
                handle={handle}
                onHover={onHover}
                onSelect={(selected) => patchView({ selected }, { replace: true })}
                onZoom={(root) => patchView({ root })}
                onMenu={(x, y, frame) => openFrameMenu(x, y, frame)}
                onOpenHidden={(_, path) => q.open(path)}
                onKey={frameKey}
            />
        </Loading>
    );
}
