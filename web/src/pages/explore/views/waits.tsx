// Where code waits: wall-clock minus CPU time of the same selection. Without a wall-clock profile the
// off-CPU profile says the same more directly; without either, how to get one.

import { useEffect } from "preact/hooks";
import {
    askDiff,
    askFileInfo,
    askTypes,
    filterParams,
    flameBytes,
    frameParams,
    TREE_TYPE,
} from "../../../api/questions";
import { detail, openFrameMenu, patchView, state, ticks } from "../../../app";
import type { FrameTree } from "../../../core/frame_tree";
import { KINDS, typeOfKind } from "../../../core/kinds";
import { amountText } from "../../../core/units";
import { type Scope, selectorText, type View } from "../../../core/url";
import { waitsOf } from "../../../core/waits";
import { FlameView } from "../../../parts/flame_view";
import { queryKey } from "../../../parts/query_key";
import { Command, Empty, ErrorBox, Loading, Skeleton } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { shown } from "../head";
import { type AskBytes, useTree } from "../tree_query";
import { frameKey, tellTree, usePicture } from "./flame_page";
import "./waits.css";

interface Ways {
    cpu: string;
    wall: string;
    offcpu: string;
}

function waysOf(types: readonly { type: string }[]): Ways {
    const names = types.map((t) => t.type);
    const of = (kind: "wall" | "offcpu") => typeOfKind(kind, names) ?? "";
    return { cpu: names.includes("cpu") ? "cpu" : "", wall: of("wall"), offcpu: of("offcpu") };
}

function asking(scope: Scope, view: View, ways: Ways): AskBytes {
    if (!ways.wall || !ways.cpu)
        return (under, maxNodes, signal) =>
            flameBytes({ scope: { ...scope, type: ways.offcpu }, view, maxNodes, under }, signal);
    const side = (type: string) => ({ ...scope, type });
    return async (under, maxNodes, signal) => {
        const params = {
            ...filterParams(view),
            ...frameParams(view),
            invert: view.invert,
            max_nodes: maxNodes,
            under,
            format: "tree",
        };
        const how = { signal, accept: TREE_TYPE };
        return (await askDiff(side(ways.cpu), side(ways.wall), "diff", params, how)).arrayBuffer();
    };
}

function NoWaits() {
    return (
        <Empty title="Nobody has measured waiting here">
            <p>
                This view is wall-clock time minus CPU time of the same selection, or the off-CPU
                profile. This selection has neither. {KINDS.offcpu.how}
            </p>
            <Command text={KINDS.offcpu.command ?? ""} />
            <Command text={KINDS.wall.command ?? ""} />
        </Empty>
    );
}

function noteOf(ways: Ways, t: FrameTree): string {
    if (!ways.wall || !ways.cpu) return `Off-CPU time, as it was measured (${ways.offcpu}).`;
    const { before, after } = t.head;
    const unit = t.head.unit;
    return `Time that threads did not run: ${ways.wall} ${amountText(after?.total ?? 0, unit)} minus ${ways.cpu} ${amountText(before?.total ?? 0, unit)}, stack by stack.`;
}

function WaitsFlame(props: { ways: Ways }) {
    const { ways } = props;
    const { scope, view } = state.value;
    const isDiff = ways.wall !== "" && ways.cpu !== "";
    const key = `waits ${ways.wall} ${ways.offcpu} ${queryKey({ ...scope, type: "" }, view)} ${view.invert}`;
    const q = useTree(
        key,
        asking(scope, view, ways),
        view.root,
        ticks.value,
        isDiff ? waitsOf : undefined,
    );
    const tree = q.data;
    const isNow = tree !== undefined && !q.isOld;
    const handle = usePicture(`Waits of ${scope.service || "all services"}`);
    useEffect(() => {
        shown.value = { head: isNow ? tree.head : undefined, error: q.error };
        if (isNow) tellTree(tree);
    }, [tree, isNow, q.error]);
    if (q.error && !isNow) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!tree) return <Skeleton rows={20} />;
    return (
        <Loading isOld={q.isOld}>
            <p class="waits-note muted">{noteOf(ways, tree)}</p>
            <FlameView
                tree={tree}
                colour={view.colour}
                search={view.search}
                selected={view.selected}
                root={view.root}
                isRelative={view.relative}
                question={q.question}
                handle={handle}
                onHover={(d) => {
                    detail.value = d;
                }}
                onSelect={(selected) => patchView({ selected }, { replace: true })}
                onZoom={(root) => patchView({ root })}
                onMenu={(x, y, frame) => openFrameMenu(x, y, frame)}
                onOpenHidden={(_, path) => q.open(path)}
                onKey={frameKey}
            />
        </Loading>
    );
}

export default function WaitsView() {
    const { scope } = state.value;
    const q = useQuery<{ type: string }[]>(
        scope.file
            ? `types of file ${scope.file}`
            : `types ${selectorText({ ...scope, type: "" })} ${scope.from} ${scope.until}`,
        async (signal) =>
            scope.file ? (await askFileInfo(scope.file, signal)).types : askTypes(scope, signal),
        ticks.value,
    );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={20} />;
    const ways = waysOf(q.data);
    // A file's sides would need two types of one file, which the server compares only by itself.
    if (scope.file) ways.wall = "";
    return (ways.wall && ways.cpu) || ways.offcpu ? <WaitsFlame ways={ways} /> : <NoWaits />;
}
