import { describe, expect, it } from "vitest";
import {
    cameraAlong,
    easeCamera,
    PITCH,
    panBy,
    rowAt,
    rowsInView,
    rowsWithin,
    WHOLE,
    zoomAt,
} from "../src/core/flame_camera";
import {
    firstBeyond,
    gallopBeyond,
    heightBelow,
    hitAt,
    isWithin,
    layOut,
} from "../src/core/flame_layout";
import { shapeOf, totalsOf } from "../src/core/tree_decode";
import type { FrameTree } from "../src/core/frame_tree";
import { grow, type Wood } from "./tree_encode";

const wood: Wood = {
    name: "",
    children: [
        {
            name: "a",
            self: 10,
            children: [
                { name: "b", self: 40 },
                { name: "c", self: 20 },
            ],
            hidden: [3, 10],
        },
        { name: "d", self: 20 },
    ],
};

/** A tree of equal leaves below the root, without going through bytes. */
function flat(n: number): FrameTree {
    const children = new Uint32Array(n + 1);
    children[0] = n;
    const shape = shapeOf(children);
    const self = new Float64Array(n + 1).fill(1);
    self[0] = 0;
    const base = grow({ name: "", children: [{ name: "leaf", self: 1 }] });
    const frame = new Uint32Array(n + 1).fill(1);
    frame[0] = 0;
    const total = totalsOf(self, shape.parent, new Map(), "value");
    return { ...base, ...shape, n: n + 1, children, frame, self, total };
}

describe("layout", () => {
    it("puts children side by side, then what is hidden, then the own part", () => {
        const l = layOut(grow(wood));
        expect([...l.x]).toEqual([0, 0, 0.8, 0, 0.4]);
        expect([...l.end].map((v) => v.toFixed(3))).toEqual([
            "1.000",
            "0.800",
            "1.000",
            "0.400",
            "0.600",
        ]);
        expect(l.hiddenX[0]).toBeCloseTo(0.6);
        expect(l.hiddenEnd[0]).toBeCloseTo(0.7);
        expect(l.nRows).toBe(3);
        expect(heightBelow(l, 1)).toBe(2);
        expect(heightBelow(l, 2)).toBe(1);
    });

    it("finds what is at a place", () => {
        const l = layOut(grow(wood));
        expect(hitAt(l, 0, 0.5)).toEqual({ node: 0, isHidden: false });
        expect(hitAt(l, 1, 0.79)).toEqual({ node: 1, isHidden: false });
        expect(hitAt(l, 1, 0.81)).toEqual({ node: 2, isHidden: false });
        expect(hitAt(l, 2, 0.5)).toEqual({ node: 4, isHidden: false });
        expect(hitAt(l, 2, 0.65)).toEqual({ node: 1, isHidden: true });
        expect(hitAt(l, 2, 0.75)).toBeNull();
        expect(hitAt(l, 2, 0.605, 0.01)).toEqual({ node: 1, isHidden: true });
        expect(hitAt(l, 9, 0.5)).toBeNull();
        expect(hitAt(l, -1, 0.5)).toBeNull();
    });

    it("draws hidden children below the deepest row", () => {
        const l = layOut(grow({ name: "", children: [{ name: "a", self: 1, hidden: [9, 3] }] }));
        expect(l.nRows).toBe(3);
        expect(hitAt(l, 2, 0.5)).toEqual({ node: 1, isHidden: true });
        expect(rowsWithin(l, 0, 1)).toBe(3);
    });

    it("survives one node, nothing, and negative values", () => {
        const one = layOut(grow({ name: "only", self: 3 }));
        expect([one.x[0], one.end[0], one.nRows]).toEqual([0, 1, 1]);
        const zero = layOut(grow({ name: "", children: [{ name: "a" }] }));
        expect([zero.size, zero.end[0], zero.end[1]]).toEqual([0, 0, 0]);
        const minus = layOut(
            grow(
                {
                    name: "",
                    children: [
                        { name: "a", self: -3 },
                        { name: "b", self: 1 },
                    ],
                },
                { isSigned: true },
            ),
        );
        expect([...minus.x]).toEqual([0, 0, 0.75]);
        expect(minus.size).toBe(4);
    });

    it("takes widths from either side, or the larger", () => {
        const t = grow(
            {
                name: "",
                children: [
                    { name: "a", self: 6, before: 2 },
                    { name: "b", before: 6 },
                ],
            },
            { isDiff: true },
        );
        expect([...layOut(t).end]).toEqual([1, 1, 1]);
        expect(layOut(t, "before").end[1]).toBe(0.25);
        expect(layOut(t, "union").end[1]).toBe(0.5);
        // Twice the before: as if both sides had the same total.
        expect(layOut(t, "union", 2).end[1]).toBeCloseTo(6 / 18);
    });

    it("lays out 2,000 levels and a million siblings", () => {
        let deep: Wood = { name: "bottom", self: 1 };
        for (let i = 0; i < 1999; i++) deep = { name: `level ${i % 7}`, children: [deep] };
        const d = layOut(grow(deep));
        expect(d.nRows).toBe(2000);
        expect(d.end[1999]).toBe(1);
        const l = layOut(flat(1_000_000));
        expect(l.end[1_000_000]).toBeLessThanOrEqual(1);
        expect(hitAt(l, 1, 0.5)?.node).toBeGreaterThan(499_990);
        let isOrdered = true;
        for (let i = 2; i < l.end.length; i++) isOrdered &&= l.end[i] >= l.end[i - 1];
        expect(isOrdered).toBe(true);
    });

    it("knows who is below whom", () => {
        const t = grow(wood);
        expect(isWithin(t, 4, 1)).toBe(true);
        expect(isWithin(t, 4, 2)).toBe(false);
        expect(isWithin(t, 0, 0)).toBe(true);
    });
});

describe("bisection", () => {
    it("agrees with looking at everything", () => {
        const end = Float64Array.from({ length: 200 }, (_, i) => Math.floor(i / 3) / 100);
        for (let at = -0.005; at < 0.7; at += 0.005) {
            const slow = end.findIndex((e) => e > at);
            const want = slow < 0 ? 200 : slow;
            expect(firstBeyond(end, 0, 200, at)).toBe(want);
            expect(gallopBeyond(end, 0, 200, at)).toBe(want);
        }
    });
});

describe("the camera", () => {
    it("stays with a node when a newer tree comes", () => {
        const pair = (a: number, d: number) =>
            layOut(
                grow({
                    name: "",
                    children: [
                        { name: "a", self: a },
                        { name: "d", self: d },
                    ],
                }),
                "after",
                1,
            );
        const was = { layout: pair(80, 20), node: 2 };
        const now = { layout: pair(60, 40), node: 2 };
        const c = cameraAlong({ from: 0.8, to: 0.9, scroll: 30 }, was, now);
        expect(c?.from).toBeCloseTo(0.6);
        expect(c?.to).toBeCloseTo(0.8);
        expect(c?.scroll).toBe(30);
        expect(cameraAlong(WHOLE, was, { layout: pair(60, 0), node: 2 })).toBeNull();
    });

    it("zooms about a point and stays within the picture", () => {
        const c = zoomAt(WHOLE, 0.25, 2);
        expect([c.from, c.to]).toEqual([0.125, 0.625]);
        expect(zoomAt(c, 0.5, 0.01)).toEqual(WHOLE);
        const deep = zoomAt(WHOLE, 1, 1e30);
        expect(deep.to - deep.from).toBeGreaterThan(0);
        expect(panBy(c, -5).from).toBe(0);
        expect(panBy(c, 5).to).toBe(1);
    });

    it("eases only x", () => {
        const a = { from: 0, to: 1, scroll: 0 };
        const b = { from: 0.5, to: 0.6, scroll: 100 };
        expect(easeCamera(a, b, 0.3).scroll).toBe(100);
        expect(easeCamera(a, b, 0.5).from).toBeGreaterThan(0.25);
        expect(easeCamera(a, b, 1)).toBe(b);
    });

    it("lists the rows in view, pinned ones on top", () => {
        const rows = rowsInView(5 * PITCH, 4 * PITCH, 100, [0, 3]);
        expect(rows.map((r) => r.depth)).toEqual([5, 6, 7, 8, 0, 3]);
        expect(rows.filter((r) => r.isPinned).map((r) => r.at)).toEqual([0, PITCH]);
        expect(rowAt(rows, 3)).toBe(0);
        expect(rowAt(rows, PITCH + 3)).toBe(3);
        expect(rowAt(rows, 2 * PITCH + 3)).toBe(7);
        expect(rowsInView(0, 4 * PITCH, 2, [0]).map((r) => r.depth)).toEqual([0, 1]);
        expect(rowAt(rowsInView(0, 400, 2, [0]), 399)).toBe(-1);
    });
});
