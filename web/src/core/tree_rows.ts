// A tree as the rows of a table: those whose callers are all open. Children that the server left out
// are a row of their own; when they were asked for, the answer is grafted in their place.

import type { FrameTree, Hidden } from "./frame_tree";

export interface TreeRow {
    id: number; // of the place: the same frame below the same callers
    tree: FrameTree;
    node: number; // of a row of what is hidden: the node that it belongs to
    level: number; // from 1
    parent: number; // its row; -1: none
    isOpen: boolean;
    canOpen: boolean;
    hidden: Hidden | null; // this row stands for what is not here
}

/** Numbers for places, which stay the same when a tree is asked for again. */
export interface Places {
    child(parent: number, name: string, file: string): number;
    more(parent: number): number;
}

export const ROOT = 0;

export function makePlaces(): Places {
    const known = new Map<string, number>();
    const idOf = (key: string) => {
        let id = known.get(key);
        if (id === undefined) {
            id = known.size + 1;
            known.set(key, id);
        }
        return id;
    };
    return {
        child: (parent, name, file) => idOf(`${parent} ${name}\n${file}`),
        more: (parent) => idOf(`${parent}`),
    };
}

function placeOf(places: Places, t: FrameTree, node: number, parent: number): number {
    const f = t.frame[node];
    return places.child(parent, t.frames.name[f], t.frames.file[f]);
}

export type Compare = (t: FrameTree, a: number, b: number) => number;

export interface RowsQuestion {
    tree: FrameTree;
    isRooted: boolean; // the tree's root is a frame: the first row
    open: ReadonlySet<number>;
    grafts: ReadonlyMap<number, FrameTree>;
    places: Places;
    compare: Compare | null; // null: as they come, the heaviest first
}

function childrenOf(t: FrameTree, node: number, compare: Compare | null): number[] {
    const list = Array.from({ length: t.children[node] }, (_, k) => t.first[node] + k);
    return compare ? list.sort((a, b) => compare(t, a, b) || a - b) : list;
}

/** All rows that are open. Without recursion: trees may be thousands of levels deep. */
export function treeRows(q: RowsQuestion): TreeRow[] {
    const rows: TreeRow[] = [];
    interface Todo {
        tree: FrameTree;
        node: number;
        level: number;
        parent: number;
        parentId: number;
        hidden: Hidden | null;
    }
    const todo: Todo[] = [];
    const push = (tree: FrameTree, node: number, level: number, parent: number, id: number) => {
        const hidden = tree.hidden.get(node);
        // What comes last is pushed first.
        if (hidden && hidden.children > 0)
            todo.push({ tree, node, level, parent, parentId: id, hidden });
        const list = childrenOf(tree, node, q.compare);
        for (let k = list.length - 1; k >= 0; k--)
            todo.push({ tree, node: list[k], level, parent, parentId: id, hidden: null });
    };
    if (q.isRooted)
        todo.push({ tree: q.tree, node: 0, level: 1, parent: -1, parentId: ROOT, hidden: null });
    else {
        const grafted = q.grafts.get(ROOT) ?? q.tree;
        push(grafted, 0, 1, -1, ROOT);
    }
    for (let t = todo.pop(); t; t = todo.pop()) {
        const { level, parent } = t;
        if (t.hidden) {
            const id = q.places.more(t.parentId);
            const base = { tree: t.tree, node: t.node, level, parent };
            rows.push({ ...base, id, isOpen: false, canOpen: true, hidden: t.hidden });
            continue;
        }
        const id = placeOf(q.places, t.tree, t.node, t.parentId);
        const graft = q.grafts.get(id);
        const tree = graft ?? t.tree;
        const node = graft ? 0 : t.node;
        const canOpen = tree.children[node] > 0 || (tree.hidden.get(node)?.children ?? 0) > 0;
        const isOpen = canOpen && q.open.has(id);
        rows.push({ id, tree, node, level, parent, isOpen, canOpen, hidden: null });
        if (isOpen) push(tree, node, level + 1, rows.length - 1, id);
    }
    return rows;
}

/** Names from the outermost frame to a row; of what is hidden, to the frame that it is in. */
export function rowPath(rows: readonly TreeRow[], at: number, before: readonly string[]): string[] {
    const names: string[] = [];
    let i = rows[at]?.hidden ? rows[at].parent : at;
    for (; i >= 0; i = rows[i].parent) {
        const { tree, node } = rows[i];
        names.push(tree.frames.name[tree.frame[node]]);
    }
    return [...before, ...names.reverse()];
}

/** Places from a node down to its heaviest leaf, while a child has at least `share` of `whole`. */
export function heaviestPlaces(
    places: Places,
    tree: FrameTree,
    node: number,
    id: number,
    least: number,
): number[] {
    const ids: number[] = [];
    let at = node;
    let place = id;
    while (tree.children[at] > 0) {
        at = tree.first[at];
        if (Math.abs(tree.total[at]) < least) break;
        place = placeOf(places, tree, at, place);
        ids.push(place);
    }
    return ids;
}

/** Places of the callers of the heaviest node of a function, outermost first; [] without one. */
export function placesAbove(
    places: Places,
    tree: FrameTree,
    isRooted: boolean,
    name: string,
): { open: number[]; id: number } | null {
    let best = -1;
    for (let i = isRooted ? 0 : 1; i < tree.n; i++)
        if (tree.frames.name[tree.frame[i]] === name)
            if (best < 0 || tree.total[i] > tree.total[best]) best = i;
    if (best < 0) return null;
    const way: number[] = [];
    for (let i = best; i !== 0; i = tree.parent[i]) way.push(i);
    if (isRooted) way.push(0);
    let place = ROOT;
    const ids = way.reverse().map((node) => {
        place = placeOf(places, tree, node, place);
        return place;
    });
    return { open: ids.slice(0, -1), id: ids[ids.length - 1] };
}
