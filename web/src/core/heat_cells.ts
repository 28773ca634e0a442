// Heat maps: which scales a range can be looked at in, and the times behind cells. Time runs down
// each column and then on to the next one, so that cells in order are times in order.

export interface HeatScale {
    name: "coarse" | "middle" | "fine" | "whole";
    cellMs: number;
}

export const HEAT_ROWS = 50;
const MOST_CELLS = 99_000; // the server's limit, with room for the ends of a range
const SCALES: HeatScale[] = [
    { name: "coarse", cellMs: 5000 },
    { name: "middle", cellMs: 100 },
    { name: "fine", cellMs: 20 },
];

/** The scales with cells of a fixed size; `fits`: the range is short enough for it. */
export function heatScales(rangeMs: number): (HeatScale & { fits: boolean; longestMs: number })[] {
    return SCALES.map((s) => ({
        ...s,
        fits: rangeMs / s.cellMs <= MOST_CELLS,
        longestMs: s.cellMs * MOST_CELLS,
    }));
}

/** The one that was asked for if it fits; otherwise the finest with a handy number of columns. */
export function heatScale(rangeMs: number, wanted: string): HeatScale {
    const fitting = heatScales(rangeMs).filter((s) => s.fits);
    const asked = fitting.find((s) => s.name === wanted);
    if (asked) return { name: asked.name, cellMs: asked.cellMs };
    const handy = fitting.filter((s) => rangeMs / (s.cellMs * HEAT_ROWS) <= 800).pop();
    if (handy) return { name: handy.name, cellMs: handy.cellMs };
    // Longer than any of them can show: whole seconds, 400 columns.
    const cellMs = Math.max(5000, Math.ceil(rangeMs / (400 * HEAT_ROWS) / 1000) * 1000);
    return { name: "whole", cellMs };
}

export interface HeatGrid {
    startMs: number;
    columnMs: number;
    columns: number;
    rows: number;
}

/** First and behind the last moment of the cells from `a` to `b`, in whichever order. */
export function cellTimes(g: HeatGrid, a: number, b: number): [number, number] {
    const cell = g.columnMs / g.rows;
    const first = Math.min(a, b);
    const last = Math.max(a, b);
    return [g.startMs + first * cell, g.startMs + (last + 1) * cell];
}

/** The cell that a key leads to; -1 when it does not move. */
export function cellAfterKey(g: HeatGrid, at: number, key: string): number {
    const all = g.columns * g.rows;
    const steps: Record<string, number> = {
        ArrowDown: at + 1,
        ArrowUp: at - 1,
        ArrowRight: at + g.rows,
        ArrowLeft: at - g.rows,
        PageDown: at + 10 * g.rows,
        PageUp: at - 10 * g.rows,
        Home: 0,
        End: all - 1,
    };
    if (!(key in steps) || all === 0) return -1;
    const to = steps[key];
    if (to >= 0 && to < all) return to;
    return key.startsWith("Page") ? Math.max(0, Math.min(all - 1, to)) : at;
}

/** Cells by falling value, equal ones by time. */
export function hottestCells(
    cells: { column: readonly number[]; row: readonly number[]; value: readonly number[] },
    rows: number,
    most: number,
): { cell: number; value: number }[] {
    return cells.value
        .map((value, i) => ({ cell: cells.column[i] * rows + cells.row[i], value }))
        .sort((a, b) => b.value - a.value || a.cell - b.cell)
        .slice(0, most);
}
