// The tree on screen: asked for once, and again under nodes whose hidden children somebody opens or
// zooms to. All of it is one answer, so that a refresh asks for the same parts again.

import { useEffect, useRef, useState } from "preact/hooks";
import { type FrameTree, nodeAt } from "../../core/frame_tree";
import { decodeTree } from "../../core/tree_decode";
import { openUnder } from "../../parts/frame_menu";
import { type Query, useQuery } from "../../parts/use_query";

export const MAX_NODES = 50000;
const DEEP = 8; // so much larger than at first, and hidden nodes are worth asking for
const OPENED_MAX = 16;
const STEPS_MAX = 8;

export type AskBytes = (
    under: readonly string[],
    maxNodes: number,
    signal: AbortSignal,
) => Promise<ArrayBuffer>;

interface Opened {
    path: string[];
    times: number; // opened again: more nodes are asked for
}

/** What hidden nodes below a node (and itself) weigh. */
function hiddenBelow(t: FrameTree, node: number): number {
    let sum = 0;
    for (const [at, h] of t.hidden) {
        let i = at;
        while (t.depth[i] > t.depth[node]) i = t.parent[i];
        if (i === node) sum += Math.abs(h.value);
    }
    return sum;
}

/** Asks under a path; where nodes on the way are hidden themselves, under those first. */
async function openPath(t: FrameTree, o: Opened, ask: AskBytes, signal: AbortSignal) {
    const { graft } = await import("../../core/tree_graft");
    let tree = t;
    for (let step = 0; step < STEPS_MAX; step++) {
        const { node, isWhole } = nodeAt(tree, o.path);
        if (isWhole && step > 0) break;
        const depth = tree.depth[node];
        const more = MAX_NODES * 4 ** (o.times + (depth === 0 ? 1 : 0));
        const bytes = await ask(o.path.slice(0, depth), Math.min(more, 2_000_000), signal);
        const n = tree.n;
        tree = graft(tree, node, decodeTree(bytes));
        if (!isWhole && tree.n === n) break; // nothing there any more
    }
    return tree;
}

/** `key` says what is asked; `root` is what is zoomed to; `turn` makes what is shown of the answer. */
export function useTree(
    key: string | null,
    ask: AskBytes,
    root: readonly string[],
    tick: number,
    turn: (t: FrameTree) => FrameTree = (t) => t,
): Query<FrameTree> & { open: (path: string[]) => void; question: string } {
    const [opened, setOpened] = useState<{ key: string | null; list: Opened[] }>({ key, list: [] });
    const base = useRef<{ key: string; tick: number; tree: FrameTree } | null>(null);
    const list = opened.key === key ? opened.list : [];
    const q = useQuery(
        key === null ? null : JSON.stringify([key, list]),
        async (signal) => {
            const known = base.current;
            let tree =
                known && known.key === key && known.tick === tick
                    ? known.tree
                    : decodeTree(await ask([], MAX_NODES, signal));
            base.current = { key: key ?? "", tick, tree };
            for (const o of list) tree = await openPath(tree, o, ask, signal);
            return turn(tree);
        },
        tick,
    );
    // What the tree on screen answers, which is not yet the key while the next is on its way.
    const answered = useRef("");
    if (q.data && !q.isOld) answered.current = key ?? "";
    const open = (path: readonly string[]) => {
        const name = path.join("\n");
        const old = list.find((o) => o.path.join("\n") === name);
        const rest = list.filter((o) => o !== old).slice(1 - OPENED_MAX);
        const next = { path: [...path], times: old ? old.times + 1 : 0 };
        setOpened({ key, list: [...rest, next] });
    };

    // Deep inside a tree that was cut, what is hidden becomes large enough to be seen.
    const tree = q.isOld ? undefined : q.data;
    const rootName = root.join("\n");
    useEffect(() => {
        if (!tree || root.length === 0 || list.some((o) => o.path.join("\n") === rootName)) return;
        const { node, isWhole } = nodeAt(tree, root);
        const isDeep = tree.total[node] * DEEP < tree.total[0];
        if (!isWhole ? tree.hidden.size > 0 : isDeep && hiddenBelow(tree, node) > 0) open(root);
    }, [tree, rootName]);

    const asked = openUnder.value;
    useEffect(() => {
        if (!asked) return;
        openUnder.value = null;
        open(asked);
    }, [asked]);
    return { ...q, open, question: answered.current };
}
