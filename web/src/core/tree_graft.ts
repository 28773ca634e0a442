// A tree that was cut for drawing, with what hangs under one of its nodes asked for again and put in
// its place. Sums do not change: what was one hidden box becomes nodes.

import type { FrameColumns, FrameTree, Hidden } from "./frame_tree";
import { shapeOf, totalsOf } from "./tree_decode";

/** Frames of both; `rows[i]` is where the second one's row i went. */
function joinFrames(a: FrameColumns, b: FrameColumns): { frames: FrameColumns; rows: Uint32Array } {
    const key = (f: FrameColumns, i: number) =>
        [f.name[i], f.file[i], f.line[i], f.binary[i], f.build[i], f.kind[i]].join("\0");
    const known = new Map<string, number>();
    for (let i = 0; i < a.n; i++) known.set(key(a, i), i);
    const rows = new Uint32Array(b.n);
    const fresh: number[] = [];
    for (let i = 0; i < b.n; i++) {
        const at = known.get(key(b, i));
        rows[i] = at ?? a.n + fresh.length;
        if (at === undefined) fresh.push(i);
    }
    const add = (x: string[], y: string[]) => x.concat(fresh.map((i) => y[i]));
    const frames: FrameColumns = {
        n: a.n + fresh.length,
        name: add(a.name, b.name),
        file: add(a.file, b.file),
        line: Uint32Array.from([...a.line, ...fresh.map((i) => b.line[i])]),
        binary: add(a.binary, b.binary),
        build: add(a.build, b.build),
        kind: add(a.kind, b.kind),
    };
    return { frames, rows };
}

/** Breadth-first over both: nodes below the base's count are its own, above it the branch's. */
function orderOf(base: FrameTree, node: number, branch: FrameTree): Uint32Array {
    const order = new Uint32Array(base.n + branch.n);
    let n = 1;
    for (let i = 0; i < n; i++) {
        const id = order[i];
        // The root of the branch is the node itself.
        const isBranch = id >= base.n || id === node;
        const tree = isBranch ? branch : base;
        const at = id === node ? 0 : isBranch ? id - base.n : id;
        const first = tree.first[at] + (isBranch ? base.n : 0);
        for (let k = 0; k < tree.children[at]; k++) order[n++] = first + k;
    }
    return order.subarray(0, n);
}

/** `branch` is the answer to the same question under the path of `node`. */
export function graft(base: FrameTree, node: number, branch: FrameTree): FrameTree {
    const { frames, rows } = joinFrames(base.frames, branch.frames);
    const order = orderOf(base, node, branch);
    const n = order.length;
    const children = new Uint32Array(n);
    const frame = new Uint32Array(n);
    const self = new Float64Array(n);
    const before = base.before && branch.before ? new Float64Array(n) : null;
    const isSure = base.isSure && branch.isSure ? new Uint8Array(n) : null;
    const hidden = new Map<number, Hidden>();
    order.forEach((id, i) => {
        const isBranch = id >= base.n || id === node;
        const tree = isBranch ? branch : base;
        const at = id === node ? 0 : isBranch ? id - base.n : id;
        children[i] = tree.children[at];
        frame[i] = isBranch && id !== node ? rows[tree.frame[at]] : base.frame[id];
        self[i] = tree.self[at];
        if (before) before[i] = tree.before?.self[at] ?? 0;
        if (isSure) isSure[i] = tree.isSure?.[at] ?? 0;
        const h = tree.hidden.get(at);
        if (h) hidden.set(i, h);
    });
    const shape = shapeOf(children);
    const all = base.n + base.head.cut_nodes;
    let cut = 0;
    for (const h of hidden.values()) cut += h.value;
    return {
        n,
        ...shape,
        children,
        frame,
        self,
        total: totalsOf(self, shape.parent, hidden, "value"),
        before: before && {
            self: before,
            total: totalsOf(before, shape.parent, hidden, "before"),
        },
        isSure,
        hidden,
        frames,
        head: {
            ...base.head,
            cut,
            cut_nodes: Math.max(0, all - n),
            max_depth: shape.rows.length - 2,
        },
    };
}
