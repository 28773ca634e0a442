import { describe, expect, it } from "vitest";
import {
    cellAfterKey,
    cellTimes,
    heatScale,
    heatScales,
    hottestCells,
} from "../src/core/heat_cells";

const HOUR = 3600e3;
const grid = { startMs: 1000, columnMs: 500, columns: 3, rows: 50 };

describe("heat maps", () => {
    it("choose a scale that fits", () => {
        expect(heatScale(HOUR, "").name).toBe("middle");
        expect(heatScale(HOUR, "coarse").cellMs).toBe(5000);
        expect(heatScale(HOUR, "fine").name).toBe("middle"); // too many cells for the server
        expect(heatScale(60e3, "").name).toBe("fine");
        expect(heatScale(24 * HOUR, "").name).toBe("coarse");
        const month = heatScale(30 * 24 * HOUR, "coarse");
        expect(month.name).toBe("whole");
        expect((30 * 24 * HOUR) / month.cellMs).toBeLessThanOrEqual(100_000);
        expect(heatScale(0, "").cellMs).toBeGreaterThan(0);
    });
    it("say which scales there are", () => {
        expect(heatScales(HOUR).map((s) => s.fits)).toEqual([true, true, false]);
    });
    it("know the times of cells", () => {
        expect(cellTimes(grid, 0, 0)).toEqual([1000, 1010]);
        expect(cellTimes(grid, 51, 49)).toEqual([1490, 1520]);
    });
    it("are walked with keys", () => {
        expect(cellAfterKey(grid, 49, "ArrowDown")).toBe(50);
        expect(cellAfterKey(grid, 0, "ArrowUp")).toBe(0);
        expect(cellAfterKey(grid, 0, "ArrowLeft")).toBe(0);
        expect(cellAfterKey(grid, 10, "ArrowRight")).toBe(60);
        expect(cellAfterKey(grid, 10, "PageDown")).toBe(149);
        expect(cellAfterKey(grid, 10, "End")).toBe(149);
        expect(cellAfterKey(grid, 10, "x")).toBe(-1);
    });
    it("list the hottest cells", () => {
        const cells = { column: [0, 1, 2], row: [5, 0, 1], value: [3, 9, 3] };
        expect(hottestCells(cells, 50, 2)).toEqual([
            { cell: 50, value: 9 },
            { cell: 5, value: 3 },
        ]);
    });
});
