import { describe, expect, it } from "vitest";
import { matcherOf } from "../src/core/flame_search";
import { pathOf } from "../src/core/frame_tree";
import { graft } from "../src/core/tree_graft";
import { invert } from "../src/core/tree_invert";
import { callersOf, cumOf, searchTotals, topOf } from "../src/core/tree_tables";
import { grow, type Wood } from "./tree_encode";

// main calls f, f calls itself and g; idle calls g.
const wood: Wood = {
    name: "root",
    children: [
        {
            name: "main",
            self: 1,
            children: [
                {
                    name: "f",
                    self: 10,
                    children: [
                        { name: "f", self: 20, children: [{ name: "g", self: 5 }] },
                        { name: "g", self: 4 },
                    ],
                },
            ],
        },
        { name: "idle", self: 2, children: [{ name: "g", self: 8 }] },
    ],
};

describe("tables of a whole tree", () => {
    it("counts recursion once", () => {
        const rows = topOf(grow(wood));
        const f = rows.find((r) => r.name === "f");
        expect(rows[0].name).toBe("f");
        expect([f?.flat, f?.cum]).toEqual([30, 39]);
        expect(rows.find((r) => r.name === "g")).toMatchObject({ flat: 17, cum: 17 });
        expect(rows.find((r) => r.name === "root")).toBeUndefined();
        expect(rows.reduce((s, r) => s + r.flat, 0)).toBe(50);
    });

    it("lists callers and callees", () => {
        const c = callersOf(grow(wood), "f");
        expect([c.flat, c.cum]).toEqual([30, 39]);
        expect(c.callers).toEqual([
            { name: "main", cum: 39 },
            { name: "f", cum: 25 },
        ]);
        expect(c.callees).toEqual([
            { name: "f", cum: 25 },
            { name: "g", cum: 9 },
        ]);
        expect(callersOf(grow(wood), "nobody")).toEqual({
            flat: 0,
            cum: 0,
            callers: [],
            callees: [],
        });
    });

    it("adds up what a search finds", () => {
        const t = grow(wood);
        const of = (search: string) => searchTotals(t, matcherOf(search) ?? (() => false));
        expect(of("F")).toEqual({ cum: 39, flat: 30, functions: 1 });
        expect(of("/^(f|g)$/")).toEqual({ cum: 47, flat: 47, functions: 2 });
        expect(of("zzz")).toEqual({ cum: 0, flat: 0, functions: 0 });
        expect(cumOf(t, "g")).toBe(17);
    });
});

describe("a tree upside down", () => {
    it("begins with what spends", () => {
        const t = invert(grow(wood));
        const names = [...Array(t.children[0])].map((_, k) => t.frames.name[t.frame[1 + k]]);
        expect(names).toEqual(["f", "g", "idle", "main"]);
        expect(t.total[0]).toBe(50);
        expect([t.total[1], t.total[2]]).toEqual([30, 17]);
        const paths = [...Array(t.n)].map((_, i) => pathOf(t, i).join("<"));
        expect(paths).toContain("g<f<f<main");
        expect(paths).toContain("g<idle");
    });

    it("states what it leaves out", () => {
        const t = invert(grow(wood), 6);
        expect(t.n).toBeLessThanOrEqual(6);
        expect(t.total[0]).toBe(50);
        expect(t.hidden.size).toBeGreaterThan(0);
    });
});

describe("grafting", () => {
    const cut: Wood = {
        name: "root",
        children: [
            { name: "a", self: 1, children: [{ name: "b", self: 2 }], hidden: [2, 30] },
            { name: "c", self: 4, children: [{ name: "d", self: 8 }] },
        ],
    };
    const below: Wood = {
        name: "a",
        self: 1,
        children: [
            { name: "x", file: "x.c", self: 25, children: [{ name: "d", self: 3 }] },
            { name: "b", self: 2 },
        ],
        hidden: [1, 2],
    };

    it("makes one tree of both", () => {
        const t = graft(grow(cut), 1, grow(below));
        const paths = [...Array(t.n)].map((_, i) => pathOf(t, i).join("/"));
        expect(paths).toEqual(["", "a", "c", "a/x", "a/b", "c/d", "a/x/d"]);
        expect([...t.total]).toEqual([45, 33, 12, 28, 2, 8, 3]);
        expect(t.hidden.get(1)).toEqual({ children: 1, value: 2, before: 0 });
        expect(t.frames.file[t.frame[3]]).toBe("x.c");
        // Frames that both have are there once.
        expect(t.frame[5]).toBe(t.frame[6]);
        expect([...t.rows]).toEqual([0, 1, 3, 6, 7]);
    });

    it("keeps both sides of a comparison", () => {
        const a: Wood = {
            name: "root",
            isSure: false,
            children: [{ name: "a", self: 1, before: 2, isSure: true, hidden: [1, 5, 7] }],
        };
        const b: Wood = {
            name: "a",
            self: 1,
            before: 2,
            isSure: true,
            children: [{ name: "x", self: 5, before: 7, isSure: true }],
        };
        const t = graft(grow(a, { isDiff: true }), 1, grow(b, { isDiff: true }));
        expect([...(t.before?.total ?? [])]).toEqual([9, 9, 7]);
        expect([...(t.isSure ?? [])]).toEqual([0, 1, 1]);
        expect(t.hidden.size).toBe(0);
    });

    it("replaces the root as well", () => {
        const t = graft(grow(cut), 0, grow(cut));
        expect([...t.total]).toEqual([...grow(cut).total]);
    });
});
