// Moving through a tree by keys: to callers, callees and neighbours, in the order in which they are
// drawn. And what there is to say about a node once one is there.

import type { FlameScene } from "./flame_scene";
import { shownName } from "./flame_labels";
import { hitAt } from "./flame_layout";
import type { FrameTree } from "./frame_tree";
import { amountText, countText, shareText } from "./units";

export type Move = "in" | "out" | "left" | "right";

/** The node that a move leads to; the same when there is none. */
export function moveFrom(t: FrameTree, node: number, move: Move): number {
    if (move === "out") return t.parent[node];
    if (move === "in") return t.children[node] > 0 ? t.first[node] : node;
    // Siblings lie side by side, and behind the last comes the next of the row, a cousin.
    const next = node + (move === "left" ? -1 : 1);
    const isSameRow = next > 0 && next < t.n && t.depth[next] === t.depth[node];
    return isSameRow ? next : node;
}

/** The same, but into the child that is at `at` (where the view is), when there is one. */
export function moveIn(s: FlameScene, node: number, at: number): number {
    const t = s.layout.tree;
    const hit = hitAt(s.layout, t.depth[node] + 1, at);
    if (hit && !hit.isHidden && t.parent[hit.node] === node) return hit.node;
    return moveFrom(t, node, "in");
}

export interface NodeInfo {
    node: number;
    name: string;
    file: string;
    line: number;
    binary: string;
    build: string;
    kind: string;
    self: number;
    total: number;
    of: number; // the whole
    parent: number; // the parent's total
    unit: string;
    before?: number; // of comparisons: its total on the side before
    note?: string;
}

/** What the server calls a root that is no function. */
export function isNoName(root: string): boolean {
    return root === "" || root === "root";
}

/** `whole`: the node whose total shares are of; the profile's when it is the root. */
export function infoOf(s: FlameScene, node: number, whole = 0): NodeInfo {
    const t = s.layout.tree;
    const f = t.frame[node];
    const h = t.hidden.get(node);
    return {
        node,
        name: node === 0 && isNoName(t.frames.name[f]) ? "total" : shownName(t.frames.name[f]),
        file: t.frames.file[f],
        line: t.frames.line[f],
        binary: t.frames.binary[f],
        build: t.frames.build[f],
        kind: t.frames.kind[f],
        self: t.self[node],
        total: t.total[node],
        of: whole === 0 ? t.head.total || t.total[0] : t.total[whole],
        parent: t.total[t.parent[node]],
        unit: s.options.unit,
        before: t.before ? t.before.total[node] : undefined,
        note: h ? `${countText(h.children)} more below, not drawn` : undefined,
    };
}

export function hiddenInfo(s: FlameScene, node: number): NodeInfo {
    const t = s.layout.tree;
    const h = t.hidden.get(node) ?? { children: 0, value: 0, before: 0 };
    return {
        ...infoOf(s, node),
        name: `${countText(h.children)} more below ${infoOf(s, node).name}`,
        file: "",
        line: 0,
        self: 0,
        total: h.value,
        parent: t.total[node],
        before: t.before ? h.before : undefined,
        note: "not drawn: open it to see what is inside",
    };
}

/** "name, total, share", for those who listen. */
export function spokenText(i: NodeInfo): string {
    const parts = [i.name, amountText(i.total, i.unit), shareText(i.total, i.of)];
    if (i.note) parts.push(i.note);
    return parts.join(", ");
}
