import { describe, expect, it } from "vitest";
import { type LayoutEdge, layOutGraph, pathText } from "../src/core/graph_layout";

const boxes = (n: number) => Array.from({ length: n }, () => ({ width: 100, height: 40 }));
const edge = (from: number, to: number, weight = 1): LayoutEdge => ({ from, to, weight });

/** The same numbers every time. */
function numbers(seed: number) {
    let s = seed;
    return (n: number) => {
        s = (Math.imul(s, 1103515245) + 12345) & 0x7fffffff;
        return s % n;
    };
}

function overlaps(l: ReturnType<typeof layOutGraph>, size = { width: 100, height: 40 }) {
    let n = 0;
    l.nodes.forEach((a, i) => {
        l.nodes.forEach((b, j) => {
            if (j <= i) return;
            if (Math.abs(a.x - b.x) < size.width && Math.abs(a.y - b.y) < size.height) n++;
        });
    });
    return n;
}

describe("a call graph", () => {
    it("of nothing, and of one", () => {
        expect(layOutGraph([], [])).toEqual({
            nodes: [],
            edges: [],
            order: [],
            width: 0,
            height: 0,
        });
        const one = layOutGraph(boxes(1), [edge(0, 0)]);
        expect(one.nodes[0]).toEqual({ x: 50, y: 20, rank: 0 });
        expect(one.edges[0]).toHaveLength(3);
    });

    it("has callers above callees, by the longest way", () => {
        const l = layOutGraph(boxes(4), [edge(0, 1), edge(1, 2), edge(0, 2), edge(2, 3)]);
        expect(l.nodes.map((n) => n.rank)).toEqual([0, 1, 2, 3]);
        expect(l.order).toEqual([0, 1, 2, 3]);
        // The line past the layer between has a bend there.
        expect(l.edges[2]).toHaveLength(3);
        for (const points of l.edges) expect(points[0].y).toBeLessThan(points.at(-1)!.y);
    });

    it("ends at cycles, which go back up", () => {
        const l = layOutGraph(boxes(3), [edge(0, 1, 9), edge(1, 2, 9), edge(2, 1, 1)]);
        expect(l.nodes.map((n) => n.rank)).toEqual([0, 1, 2]);
        expect(l.edges[2][0].y).toBeGreaterThan(l.edges[2].at(-1)!.y);
        const only = layOutGraph(boxes(2), [edge(0, 1), edge(1, 0)]);
        expect(new Set(only.nodes.map((n) => n.rank)).size).toBe(2);
    });

    it("lets nodes without callers sink to what they call", () => {
        const l = layOutGraph(boxes(4), [edge(0, 1), edge(1, 2), edge(3, 2)]);
        expect(l.nodes[3].rank).toBe(1);
    });

    it("uncrosses what can be uncrossed", () => {
        const l = layOutGraph(boxes(6), [edge(0, 5), edge(1, 4), edge(2, 3)]);
        const by = (a: number, b: number) => Math.sign(l.nodes[a].x - l.nodes[b].x);
        expect(by(0, 1)).toBe(by(5, 4));
        expect(by(1, 2)).toBe(by(4, 3));
    });

    it("is the same each time, without overlaps, for 80 nodes with anything between them", () => {
        for (let seed = 1; seed < 5; seed++) {
            const next = numbers(seed);
            const edges = Array.from({ length: 300 }, () => edge(next(80), next(80), next(1000)));
            const l = layOutGraph(boxes(80), edges);
            expect(l).toEqual(layOutGraph(boxes(80), edges));
            expect(overlaps(l)).toBe(0);
            expect([...l.order].sort((a, b) => a - b)).toEqual([...boxes(80).keys()]);
            for (const p of l.nodes) {
                expect(p.x).toBeGreaterThanOrEqual(50);
                expect(p.x).toBeLessThanOrEqual(l.width - 50);
                expect(p.y).toBeLessThanOrEqual(l.height - 20);
            }
        }
    });

    it("takes weights of zero and below", () => {
        const l = layOutGraph(boxes(2), [edge(0, 1, 0), edge(0, 1, -5)]);
        expect(l.nodes.every((p) => Number.isFinite(p.x))).toBe(true);
        expect(pathText(l.edges[0])).toMatch(/^M[\d. ]+C[\d. ]+$/);
    });
});
