// A flame tree as columns: what the server's `format=tree` becomes (tree_decode.ts), what is laid
// out, drawn and walked. Nodes are in breadth-first order: the children of a node lie together, the
// heaviest first, and each depth is one slice (`rows`), which is all the index that drawing needs.

export interface FrameColumns {
    n: number;
    name: string[];
    file: string[];
    line: Uint32Array;
    binary: string[];
    build: string[];
    kind: string[]; // "kernel", "native", "go", "v8js", "jvm"...; "": not known
}

/** Children of a node that the server left out. */
export interface Hidden {
    children: number;
    value: number;
    before: number;
}

export interface FrameTree {
    n: number;
    parent: Uint32Array; // of the root: itself
    first: Uint32Array; // its first child; meaningless without children
    children: Uint32Array; // how many
    depth: Uint32Array;
    frame: Uint32Array; // row of frames
    self: Float64Array;
    total: Float64Array;
    before: { self: Float64Array; total: Float64Array } | null; // of diffs; self, total: after
    isSure: Uint8Array | null; // per node: 1 when its change is significant; null: not known
    hidden: Map<number, Hidden>;
    rows: Uint32Array; // rows[d] .. rows[d + 1]: the nodes of depth d
    frames: FrameColumns;
    head: TreeHead;
}

/** The answer's own members; see docs/api.md. */
export interface TreeHead {
    type: string;
    unit: string;
    types: { type: string; unit: string }[];
    total: number;
    samples?: number;
    profiles?: number;
    warnings?: string[];
    incomplete?: string;
    cut_nodes: number;
    cut: number;
    max_depth: number;
    has_statistics?: boolean;
    before?: SideHead;
    after?: SideHead;
}

export interface SideHead {
    query: string;
    from_ns: string;
    until_ns: string;
    total: number;
    samples?: number;
}

/** Names from the outermost frame (below the root) to this node. */
export function pathOf(t: FrameTree, node: number): string[] {
    const names: string[] = [];
    for (let i = node; i !== 0; i = t.parent[i]) names.push(t.frames.name[t.frame[i]]);
    return names.reverse();
}

/** The node that a path leads to; the deepest that is there when it is cut short. */
export function nodeAt(t: FrameTree, path: readonly string[]): { node: number; isWhole: boolean } {
    let node = 0;
    for (const name of path) {
        let found = -1;
        for (let k = 0; k < t.children[node] && found < 0; k++) {
            const child = t.first[node] + k;
            if (t.frames.name[t.frame[child]] === name) found = child;
        }
        if (found < 0) return { node, isWhole: false };
        node = found;
    }
    return { node, isWhole: true };
}
