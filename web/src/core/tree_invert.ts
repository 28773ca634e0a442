// A whole tree upside down: the functions that spend come first, their callers below them. For the
// viewer without a server. Built level by level; when it grows too large, what is deeper is stated
// as hidden.

import type { FrameTree, Hidden } from "./frame_tree";
import { shapeOf, totalsOf } from "./tree_decode";

const MAX_NODES = 400_000;

/** The stacks that pass through a node of the new tree: where in the old one they are by now. */
interface Group {
    frame: number;
    at: number[]; // nodes of the old tree
    of: number[]; // the nodes whose own values they carry
}

function ownValue(t: FrameTree, node: number): number {
    return t.self[node] + (t.hidden.get(node)?.value ?? 0);
}

function ownBefore(t: FrameTree, node: number): number {
    return (t.before?.self[node] ?? 0) + (t.hidden.get(node)?.before ?? 0);
}

/** One step towards the root: the callers of a group, the heaviest first; and what ends here. */
function split(t: FrameTree, nameOf: Uint32Array, g: Group): { next: Group[]; ended: number[] } {
    const byName = new Map<number, Group>();
    const ended: number[] = [];
    g.at.forEach((node, i) => {
        const up = t.parent[node];
        if (up === 0) {
            ended.push(g.of[i]);
            return;
        }
        const name = nameOf[t.frame[up]];
        let other = byName.get(name);
        if (!other) {
            other = { frame: t.frame[up], at: [], of: [] };
            byName.set(name, other);
        }
        other.at.push(up);
        other.of.push(g.of[i]);
    });
    const weight = new Map<Group, number>();
    for (const o of byName.values())
        weight.set(
            o,
            o.of.reduce((sum, k) => sum + Math.abs(ownValue(t, k)) + Math.abs(ownBefore(t, k)), 0),
        );
    const next = [...byName.values()].sort((a, b) => (weight.get(b) ?? 0) - (weight.get(a) ?? 0));
    return { next, ended };
}

/** All nodes that have something themselves, as if one function had called them all. */
function start(t: FrameTree, nameOf: Uint32Array): Group[] {
    const at: number[] = [];
    for (let i = 1; i < t.n; i++) if (ownValue(t, i) !== 0 || ownBefore(t, i) !== 0) at.push(i);
    const byName = new Map<number, Group>();
    for (const node of at) {
        const name = nameOf[t.frame[node]];
        const g = byName.get(name) ?? { frame: t.frame[node], at: [], of: [] };
        g.at.push(node);
        g.of.push(node);
        byName.set(name, g);
    }
    const size = (g: Group) => g.of.reduce((sum, k) => sum + Math.abs(ownValue(t, k)), 0);
    return [...byName.values()]
        .map((g) => ({ g, w: size(g) }))
        .sort((a, b) => b.w - a.w)
        .map((x) => x.g);
}

interface Columns {
    frame: number[];
    self: number[];
    before: number[];
    children: number[];
    hidden: Map<number, Hidden>;
}

function numbersOf(names: readonly string[]): Uint32Array {
    const numbers = new Map<string, number>();
    return Uint32Array.from(names, (name) => {
        const k = numbers.get(name) ?? numbers.size;
        numbers.set(name, k);
        return k;
    });
}

/** Level by level, until all stacks have ended or there are enough nodes. */
function growDown(t: FrameTree, maxNodes: number): Columns {
    const nameOf = numbersOf(t.frames.name);
    const sum = (nodes: number[], f: (t: FrameTree, k: number) => number) =>
        nodes.reduce((s, k) => s + f(t, k), 0);
    let groups = start(t, nameOf);
    const c: Columns = {
        frame: [t.frame[0]],
        self: [ownValue(t, 0)],
        before: [ownBefore(t, 0)],
        children: [groups.length],
        hidden: new Map(),
    };
    let n = 1;
    while (groups.length > 0) {
        const later: Group[] = [];
        for (const g of groups) {
            const { next, ended } = split(t, nameOf, g);
            const isFull = n + groups.length + later.length + next.length > maxNodes;
            if (isFull && next.length > 0) {
                const of = next.flatMap((x) => x.of);
                const value = sum(of, ownValue);
                const before = sum(of, ownBefore);
                c.hidden.set(c.children.length, { children: next.length, value, before });
            } else for (const x of next) later.push(x);
            c.children.push(isFull ? 0 : next.length);
            c.frame.push(g.frame);
            c.self.push(sum(ended, ownValue));
            c.before.push(sum(ended, ownBefore));
        }
        n += groups.length;
        groups = later;
    }
    return c;
}

export function invert(t: FrameTree, maxNodes = MAX_NODES): FrameTree {
    const c = growDown(t, maxNodes);
    const self = Float64Array.from(c.self);
    const before = t.before ? Float64Array.from(c.before) : null;
    const children = Uint32Array.from(c.children);
    const { parent, first, depth, rows } = shapeOf(children);
    return {
        n: children.length,
        parent,
        first,
        children,
        depth,
        rows,
        frame: Uint32Array.from(c.frame),
        self,
        total: totalsOf(self, parent, c.hidden, "value"),
        before: before && { self: before, total: totalsOf(before, parent, c.hidden, "before") },
        isSure: null,
        hidden: c.hidden,
        frames: t.frames,
        head: t.head,
    };
}
