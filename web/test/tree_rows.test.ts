import { describe, expect, it } from "vitest";
import type { FrameTree } from "../src/core/frame_tree";
import {
    heaviestPlaces,
    makePlaces,
    placesAbove,
    ROOT,
    rowPath,
    treeRows,
} from "../src/core/tree_rows";
import { shapeOf, totalsOf } from "../src/core/tree_decode";

/** [name, self, children...] in breadth-first order by `children` counts. */
function treeOf(
    names: string[],
    children: number[],
    self: number[],
    hidden: [number, { children: number; value: number; before: number }][] = [],
): FrameTree {
    const counts = Uint32Array.from(children);
    const shape = shapeOf(counts);
    const hiddenOf = new Map(hidden);
    const values = Float64Array.from(self);
    return {
        n: names.length,
        ...shape,
        children: counts,
        frame: Uint32Array.from(names.keys()),
        self: values,
        total: totalsOf(values, shape.parent, hiddenOf, "value"),
        before: null,
        isSure: null,
        hidden: hiddenOf,
        frames: {
            n: names.length,
            name: names,
            file: names.map(() => ""),
            line: new Uint32Array(names.length),
            binary: names.map(() => ""),
            build: names.map(() => ""),
            kind: names.map(() => ""),
        },
        head: {
            type: "cpu",
            unit: "ns",
            types: [],
            total: 0,
            cut_nodes: 0,
            cut: 0,
            max_depth: 0,
        },
    };
}

//  root → main → (serve → sort, parse), idle; 3 more below parse
const tree = treeOf(
    ["root", "main", "idle", "serve", "parse", "sort"],
    [2, 2, 0, 1, 0, 0],
    [0, 0, 4, 1, 2, 9],
    [[4, { children: 3, value: 5, before: 0 }]],
);
const names = (rows: ReturnType<typeof treeRows>) =>
    rows.map((r) =>
        r.hidden ? `+${r.hidden.children}` : r.tree.frames.name[r.tree.frame[r.node]],
    );

function ask(
    open: number[],
    more: Partial<Parameters<typeof treeRows>[0]> = {},
    places = makePlaces(),
) {
    return treeRows({
        tree,
        isRooted: false,
        open: new Set(open),
        grafts: new Map(),
        places,
        compare: null,
        ...more,
    });
}

describe("rows of a tree", () => {
    it("are the outermost frames while nothing is open", () => {
        const rows = ask([]);
        expect(names(rows)).toEqual(["main", "idle"]);
        expect(rows.map((r) => r.canOpen)).toEqual([true, false]);
    });

    it("open below their callers, hidden children last", () => {
        const places = makePlaces();
        const main = places.child(ROOT, "main", "");
        const parse = places.child(main, "parse", "");
        const rows = ask([main, parse], {}, places);
        expect(names(rows)).toEqual(["main", "serve", "parse", "+3", "idle"]);
        expect(rows.map((r) => r.level)).toEqual([1, 2, 2, 3, 1]);
        expect(rowPath(rows, 3, [])).toEqual(["main", "parse"]);
        expect(rowPath(rows, 1, ["x"])).toEqual(["x", "main", "serve"]);
    });

    it("take what was asked for in place of what was hidden", () => {
        const places = makePlaces();
        const main = places.child(ROOT, "main", "");
        const parse = places.child(main, "parse", "");
        const graft = treeOf(["parse", "lex"], [1, 0], [2, 5]);
        const rows = ask([main, parse], { grafts: new Map([[parse, graft]]) }, places);
        expect(names(rows)).toEqual(["main", "serve", "parse", "lex", "idle"]);
    });

    it("begin with the frame that is zoomed to, in any order", () => {
        const places = makePlaces();
        const root = places.child(ROOT, "root", "");
        expect(names(ask([root], { isRooted: true }, places))).toEqual(["root", "main", "idle"]);
        const byName = ask([root], {
            isRooted: true,
            places,
            compare: (t, a, b) => (t.frames.name[t.frame[a]] < t.frames.name[t.frame[b]] ? -1 : 1),
        });
        expect(names(byName)).toEqual(["root", "idle", "main"]);
    });

    it("find the heaviest way, and a function", () => {
        const places = makePlaces();
        const ids = heaviestPlaces(places, tree, 0, ROOT, 0);
        expect(names(ask(ids, {}, places))).toEqual(["main", "serve", "sort", "parse", "idle"]);
        expect(heaviestPlaces(places, tree, 0, ROOT, 15)).toHaveLength(1);
        const found = placesAbove(places, tree, false, "sort");
        expect(found?.open).toHaveLength(2);
        expect(placesAbove(places, tree, false, "nothing")).toBeNull();
    });

    it("go down 2,000 levels", () => {
        const n = 2000;
        const deep = treeOf(
            Array.from({ length: n }, (_, i) => `f${i}`),
            Array.from({ length: n }, (_, i) => (i < n - 1 ? 1 : 0)),
            Array.from({ length: n }, (_, i) => (i < n - 1 ? 0 : 1)),
        );
        const places = makePlaces();
        const ids = heaviestPlaces(places, deep, 0, ROOT, 0);
        const rows = ask(ids, { tree: deep }, places);
        expect(rows).toHaveLength(n - 1);
        expect(rowPath(rows, n - 2, [])).toHaveLength(n - 1);
    });
});
