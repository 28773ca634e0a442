import { describe, expect, it } from "vitest";
import { hottestLine, lineCosts, sourceRows } from "../src/core/source_rows";

const costs = lineCosts([
    { name: "f /a.c:20", file: "/a.c", line: 20, flat: 5, cum: 9 },
    { name: "g /a.c:20", file: "/a.c", line: 20, flat: 1, cum: 1 },
    { name: "f /a.c:22", file: "/a.c", line: 22, flat: 0, cum: 30 },
]);

describe("lines of a source file", () => {
    it("add up what is on them", () => {
        expect(costs).toEqual([
            { line: 20, flat: 6, cum: 10, functions: ["f", "g"] },
            { line: 22, flat: 0, cum: 30, functions: ["f"] },
        ]);
        expect(hottestLine(costs)).toBe(20);
        expect(hottestLine([])).toBe(0);
    });
    it("fold what is cold, and open it", () => {
        const shape = (open: number[] = []) =>
            sourceRows(costs, 100, new Set(open), 0).map((r) =>
                r.isFold ? `${r.line}-${r.until}` : r.line,
            );
        expect(shape()).toEqual(["1-15", 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, "27-100"]);
        expect(shape([1]).slice(0, 16)).toEqual([...Array(16).keys()].map((i) => i + 1));
        expect(shape([1, 27])).toHaveLength(100);
    });
    it("are only those with costs when there is no text", () => {
        expect(sourceRows(costs, 0, new Set(), 0).map((r) => r.line)).toEqual([20, 22]);
    });
    it("may lie beyond the text, or be none", () => {
        const rows = sourceRows(costs, 10, new Set(), 0);
        expect(rows.map((r) => r.line)).toEqual([1, 20, 22]);
        const zero = lineCosts([{ name: "f", file: "", flat: 1, cum: 1 }]);
        expect(sourceRows(zero, 2, new Set(), 0).map((r) => r.line)).toEqual([1, 2, 0]);
    });
});
