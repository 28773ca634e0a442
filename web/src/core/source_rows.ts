// Source lines with what they spend, as rows: lines near hot ones are there, runs of cold lines are
// one row that can be opened.

export interface LineCost {
    line: number;
    flat: number;
    cum: number;
    functions: string[];
}

/** Costs by line: several functions may be on one (inlined, macros). */
export function lineCosts(
    rows: readonly { name: string; file: string; line?: number; flat: number; cum: number }[],
): LineCost[] {
    const by = new Map<number, LineCost>();
    for (const r of rows) {
        const line = r.line ?? 0;
        const cost = by.get(line) ?? { line, flat: 0, cum: 0, functions: [] };
        cost.flat += r.flat;
        cost.cum += r.cum;
        const end = r.name.lastIndexOf(` ${r.file}:`);
        const name = end > 0 ? r.name.slice(0, end) : r.name;
        if (!cost.functions.includes(name)) cost.functions.push(name);
        by.set(line, cost);
    }
    return [...by.values()].sort((a, b) => a.line - b.line);
}

/** The line with the largest share of its own; of the whole when none has any. */
export function hottestLine(costs: readonly LineCost[]): number {
    let best: LineCost | null = null;
    for (const c of costs)
        if (!best || c.flat > best.flat || (c.flat === best.flat && c.cum > best.cum)) best = c;
    return best?.line ?? 0;
}

export interface SourceRow {
    line: number; // of a run: its first
    until: number; // of a run: its last; of a line: itself
    isFold: boolean;
    cost: LineCost | null;
}

const AROUND = 4;
const SHORTEST_FOLD = 4; // shorter runs are not worth hiding

/** `lines`: how many the text has; 0: there is no text, and only lines with costs are rows. */
export function sourceRows(
    costs: readonly LineCost[],
    lines: number,
    open: ReadonlySet<number>, // first lines of runs that were opened
    extra: number, // a line that must be seen
): SourceRow[] {
    const by = new Map(costs.map((c) => [c.line, c]));
    const one = (line: number): SourceRow => ({
        line,
        until: line,
        isFold: false,
        cost: by.get(line) ?? null,
    });
    if (lines === 0) return costs.map((c) => one(c.line));
    const isNear = new Uint8Array(lines + 2);
    for (const line of [...by.keys(), extra])
        for (let k = line - AROUND; k <= line + AROUND; k++)
            if (line > 0 && k >= 1 && k <= lines) isNear[k] = 1;
    const rows: SourceRow[] = [];
    for (let i = 1; i <= lines; ) {
        let end = i;
        while (end <= lines && !isNear[end]) end++;
        const isLong = end - i >= SHORTEST_FOLD && !open.has(i);
        if (isLong) rows.push({ line: i, until: end - 1, isFold: true, cost: null });
        else for (let k = i; k < end; k++) rows.push(one(k));
        for (i = end; i <= lines && isNear[i]; i++) rows.push(one(i));
    }
    // Lines beyond the text: it is of another version.
    for (const c of costs) if (c.line > lines || c.line < 1) rows.push(one(c.line));
    return rows;
}
