import { describe, expect, it } from "vitest";
import {
    changeOf,
    contributions,
    defaultMode,
    isGauge,
    kindOf,
    modeText,
    orderByChange,
    passes,
    pointsText,
    ratioText,
    weightIn,
} from "../src/core/diff";

describe("a change", () => {
    it("is said in three ways", () => {
        const c = changeOf(60, 30, 100, 100);
        expect(c.change).toBe(-30);
        expect(c.shareChange).toBeCloseTo(-0.3);
        expect(c.ratio).toBe(0.5);
        expect(modeText(c, "absolute", "count")).toBe("−30");
        expect(modeText(c, "share", "count")).toBe("−30 pt");
        expect(modeText(c, "ratio", "count")).toBe("× 0.5");
    });
    it("knows totals that differ: more in amount can be less in share", () => {
        const c = changeOf(50, 60, 100, 200);
        expect(c.change).toBe(10);
        expect(c.shareChange).toBeCloseTo(-0.2);
        expect(kindOf(c, "absolute", undefined)).toBe("more");
        expect(kindOf(c, "share", undefined)).toBe("less");
        expect(kindOf(c, "ratio", undefined)).toBe("more");
    });
    it("of what is new has no ratio, of what is gone is zero", () => {
        expect(changeOf(0, 5, 10, 10).ratio).toBeNull();
        expect(ratioText(null)).toBe("new");
        expect(changeOf(5, 0, 10, 10).ratio).toBe(0);
        expect(kindOf(changeOf(0, 5, 10, 10), "share", true)).toBe("new");
        expect(kindOf(changeOf(5, 0, 10, 10), "share", true)).toBe("gone");
    });
    it("survives totals of zero", () => {
        expect(changeOf(0, 0, 0, 0).shareChange).toBe(0);
        expect(changeOf(0, 5, 0, 5).shareChange).toBe(1);
        expect(Number.isNaN(changeOf(3, -3, 0, 10).shareChange)).toBe(true);
        expect(pointsText(Number.NaN)).toBe("–");
    });
    it("survives negative values", () => {
        const c = changeOf(-10, 5, 100, 100);
        expect(c.change).toBe(15);
        expect(c.ratio).toBe(-0.5);
        expect(kindOf(c, "absolute", undefined)).toBe("more");
    });
    it("that is not significant is called so, whatever its size", () => {
        expect(kindOf(changeOf(0, 5, 10, 10), "share", false)).toBe("unsure");
        expect(kindOf(changeOf(1, 5, 10, 10), "share", undefined)).toBe("more");
        expect(kindOf(changeOf(5, 5, 10, 10), "share", true)).toBe("same");
    });
    it("too small for digits keeps its sign", () => {
        expect(pointsText(1e-9)).toBe("+<0.0001 pt");
        expect(pointsText(0)).toBe("0 pt");
    });
});

describe("order", () => {
    const rows = [
        { name: "a", c: changeOf(100, 110, 1000, 1000) },
        { name: "b", c: changeOf(1, 4, 1000, 1000) },
        { name: "c", c: changeOf(0, 2, 1000, 1000) },
        { name: "d", c: changeOf(50, 20, 1000, 1000) },
    ];
    const names = (mode: "absolute" | "ratio") =>
        orderByChange(rows, (r) => r.c, mode)
            .map((r) => r.name)
            .join("");
    it("is by size, whatever the sign", () => {
        expect(names("absolute")).toBe("dabc");
    });
    it("of ratios puts what is new first, and a half beside a double", () => {
        expect(names("ratio")).toBe("cbda");
        expect(weightIn(changeOf(2, 1, 9, 9), "ratio")).toBeCloseTo(
            weightIn(changeOf(1, 2, 9, 9), "ratio"),
        );
    });
});

describe("filters", () => {
    it("by side", () => {
        const isNew = changeOf(0, 2, 9, 9);
        expect(passes(isNew, false, "after")).toBe(true);
        expect(passes(isNew, false, "before")).toBe(false);
        expect(passes(isNew, undefined, "sure")).toBe(false);
        expect(passes(isNew, true, "sure")).toBe(true);
        expect(passes(isNew, false, "")).toBe(true);
    });
});

describe("which mode fits", () => {
    it("amounts for what is there at a moment", () => {
        for (const t of ["inuse_space", "inuse_objects:count", "goroutine", "threads", "live_heap"])
            expect(defaultMode(t)).toBe("absolute");
        for (const t of ["cpu", "cpu:nanoseconds", "alloc_space", "samples", "wall", "contentions"])
            expect(defaultMode(t)).toBe("share");
        expect(isGauge("")).toBe(false);
    });
});

describe("what explains a change", () => {
    it("adds up to the whole, with the rest", () => {
        const rows = [
            { name: "a", value: 30 },
            { name: "b", value: -10 },
            { name: "c", value: 2 },
            { name: "d", value: 0 },
        ];
        const all = contributions(rows, 22, 2);
        expect(all.map((c) => c.name)).toEqual(["a", "b", ""]);
        expect(all[2]).toEqual({ name: "", value: 2, isRest: true });
        expect(all.reduce((s, c) => s + c.value, 0)).toBe(22);
    });
    it("has no rest where there is none, crumbs aside", () => {
        expect(contributions([{ name: "a", value: 0.1 + 0.2 }], 0.3, 5)).toHaveLength(1);
        expect(contributions([], 0, 5)).toEqual([]);
    });
});
