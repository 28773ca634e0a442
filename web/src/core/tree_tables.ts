// Tables from a whole tree, for the viewer that has no server to ask. Never for trees that were cut:
// what is hidden is in no table. A function that calls itself counts once per stack.

import { type Matcher, matchFrames, sameName } from "./flame_search";
import type { FrameTree } from "./frame_tree";

/** Frames with the same name are one function: their numbers, and the names by number. */
export interface Functions {
    of: Uint32Array; // per frame
    names: string[];
    file: string[];
    line: number[];
}

export function functionsOf(t: FrameTree): Functions {
    const numbers = new Map<string, number>();
    const f: Functions = { of: new Uint32Array(t.frames.n), names: [], file: [], line: [] };
    for (let i = 0; i < t.frames.n; i++) {
        const name = t.frames.name[i];
        let k = numbers.get(name);
        if (k === undefined) {
            k = f.names.length;
            numbers.set(name, k);
            f.names.push(name);
            f.file.push(t.frames.file[i]);
            f.line.push(t.frames.line[i]);
        }
        f.of[i] = k;
    }
    return f;
}

/** Every node below the root, callers before callees; `leave` when all below it were visited. */
function walk(t: FrameTree, enter: (node: number) => void, leave: (node: number) => void) {
    const stack: number[] = [];
    for (let k = t.children[0] - 1; k >= 0; k--) stack.push(t.first[0] + k);
    const LEAVING = 2 ** 31;
    while (stack.length > 0) {
        const top = stack.pop() ?? 0;
        if (top >= LEAVING) {
            leave(top - LEAVING);
            continue;
        }
        enter(top);
        stack.push(top + LEAVING);
        for (let k = t.children[top] - 1; k >= 0; k--) stack.push(t.first[top] + k);
    }
}

export interface TableRow {
    name: string;
    file: string;
    line: number;
    flat: number;
    cum: number;
    beforeFlat: number;
    beforeCum: number;
}

export function topOf(t: FrameTree): TableRow[] {
    const f = functionsOf(t);
    const n = f.names.length;
    const rows = f.names.map((name, i) => ({
        name,
        file: f.file[i],
        line: f.line[i],
        flat: 0,
        cum: 0,
        beforeFlat: 0,
        beforeCum: 0,
    }));
    const open = new Uint32Array(n); // how often it is on the stack
    const seen = new Uint8Array(n);
    walk(
        t,
        (node) => {
            const k = f.of[t.frame[node]];
            const r = rows[k];
            seen[k] = 1;
            r.flat += t.self[node];
            if (t.before) r.beforeFlat += t.before.self[node];
            if (open[k]++ > 0) return;
            r.cum += t.total[node];
            if (t.before) r.beforeCum += t.before.total[node];
        },
        (node) => open[f.of[t.frame[node]]]--,
    );
    return rows.filter((_, k) => seen[k] === 1).sort((a, b) => b.flat - a.flat || b.cum - a.cum);
}

export interface CallTable {
    flat: number;
    cum: number;
    callers: { name: string; cum: number }[];
    callees: { name: string; cum: number }[];
}

/** Who calls a function, whom it calls, and how much goes that way. */
export function callersOf(t: FrameTree, name: string): CallTable {
    const f = functionsOf(t);
    const mine = f.names.indexOf(name);
    const out: CallTable = { flat: 0, cum: 0, callers: [], callees: [] };
    if (mine < 0) return out;
    const n = f.names.length;
    const sums = { callers: new Float64Array(n), callees: new Float64Array(n) };
    const open = { callers: new Uint32Array(n), callees: new Uint32Array(n) };
    let nOpen = 0;
    const ends = (node: number): [number, number] => [
        f.of[t.frame[t.parent[node]]],
        f.of[t.frame[node]],
    ];
    const enter = (node: number) => {
        const [caller, callee] = ends(node);
        const hasCaller = t.parent[node] !== 0;
        if (callee === mine) {
            out.flat += t.self[node];
            if (nOpen++ === 0) out.cum += t.total[node];
            if (hasCaller && open.callers[caller]++ === 0) sums.callers[caller] += t.total[node];
        }
        if (hasCaller && caller === mine && open.callees[callee]++ === 0)
            sums.callees[callee] += t.total[node];
    };
    const leave = (node: number) => {
        const [caller, callee] = ends(node);
        const hasCaller = t.parent[node] !== 0;
        if (callee === mine) {
            nOpen--;
            if (hasCaller) open.callers[caller]--;
        }
        if (hasCaller && caller === mine) open.callees[callee]--;
    };
    walk(t, enter, leave);
    const list = (s: Float64Array) =>
        [...s]
            .map((cum, k) => ({ name: f.names[k], cum }))
            .filter((r) => r.cum !== 0)
            .sort((a, b) => b.cum - a.cum);
    out.callers = list(sums.callers);
    out.callees = list(sums.callees);
    return out;
}

export interface SearchTable {
    cum: number; // of stacks with a match
    flat: number; // of the functions that match
    functions: number;
}

export function searchTotals(t: FrameTree, matches: Matcher): SearchTable {
    const isMatch = matchFrames(t.frames.name, matches, t.frames.file, t.frames.binary);
    const below = new Uint8Array(t.n);
    const names = new Set<string>();
    const out: SearchTable = { cum: 0, flat: 0, functions: 0 };
    for (let i = 1; i < t.n; i++) {
        const isOne = isMatch[t.frame[i]] === 1;
        const isBelow = below[t.parent[i]] === 1;
        below[i] = isOne || isBelow ? 1 : 0;
        if (!isOne) continue;
        out.flat += t.self[i];
        if (!isBelow) out.cum += t.total[i];
        names.add(t.frames.name[t.frame[i]]);
    }
    out.functions = names.size;
    return out;
}

/** How much of the profile has a function on its stack. */
export function cumOf(t: FrameTree, name: string): number {
    const isOne = sameName(t.frames.name, name);
    const below = new Uint8Array(t.n);
    let sum = 0;
    for (let i = 1; i < t.n; i++) {
        const isMine = isOne[t.frame[i]] === 1;
        if (isMine && below[t.parent[i]] === 0) sum += t.total[i];
        below[i] = isMine ? 1 : below[t.parent[i]];
    }
    return sum;
}
