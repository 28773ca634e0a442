// What a search or a selected function finds in the tree that is drawn. How much of the whole
// profile that is says the server: the tree may be cut.

import type { FrameTree } from "./frame_tree";

export type Matcher = (text: string) => boolean;

/** Plain text is a substring in any case; /x/ is a regex. Null: nothing is searched. */
export function matcherOf(search: string): Matcher | null {
    if (search.trim() === "") return null;
    const regex = /^\/(.*)\/$/.exec(search);
    if (!regex) {
        const text = search.toLowerCase();
        return (s) => s.toLowerCase().includes(text);
    }
    try {
        // (?i) in front is how the server's regexes say it.
        const isAnyCase = regex[1].startsWith("(?i)");
        const r = new RegExp(isAnyCase ? regex[1].slice(4) : regex[1], isAnyCase ? "i" : "");
        return (s) => r.test(s);
    } catch {
        return () => false; // half a regex, while it is typed
    }
}

/** Per frame: 1 when its name matches, or one of the other columns: file and binary, as the server
 * searches. */
export function matchFrames(
    names: readonly string[],
    matches: Matcher,
    ...also: (readonly string[])[]
): Uint8Array {
    // Few files and binaries have many frames.
    const known = new Map<string, boolean>();
    const isMatch = (text: string) => {
        if (!text) return false;
        let is = known.get(text);
        if (is === undefined) {
            is = matches(text);
            known.set(text, is);
        }
        return is;
    };
    return Uint8Array.from(names, (name, i) =>
        matches(name) || also.some((column) => isMatch(column[i])) ? 1 : 0,
    );
}

/** The nodes of some frames, in order (breadth first). The root is none: it is no function. */
export function nodesOf(t: FrameTree, isFrame: Uint8Array): Uint32Array {
    let n = 0;
    for (let i = 1; i < t.n; i++) n += isFrame[t.frame[i]];
    const out = new Uint32Array(n);
    n = 0;
    for (let i = 1; i < t.n; i++) if (isFrame[t.frame[i]] === 1) out[n++] = i;
    return out;
}

export function sameName(names: readonly string[], name: string): Uint8Array {
    return Uint8Array.from(names, (s) => (s === name ? 1 : 0));
}

/** 1 for the nodes, all above them and all below them: callers and callees. */
export function familyOf(t: FrameTree, nodes: Uint32Array): Uint8Array {
    const below = new Uint8Array(t.n);
    const above = new Uint8Array(t.n);
    for (const node of nodes) {
        below[node] = 1;
        above[node] = 1;
    }
    for (let i = 1; i < t.n; i++) below[i] |= below[t.parent[i]];
    for (let i = t.n - 1; i > 0; i--) above[t.parent[i]] |= above[i];
    for (let i = 0; i < t.n; i++) below[i] |= above[i];
    return below;
}

/** The match behind (or before) a node, around the end. -1: there is none. */
export function nextMatch(nodes: Uint32Array, from: number, step: 1 | -1): number {
    const n = nodes.length;
    if (n === 0) return -1;
    let lo = 0;
    let hi = n;
    while (lo < hi) {
        const m = (lo + hi) >>> 1;
        if (nodes[m] < from) lo = m + 1;
        else hi = m;
    }
    if (step === -1) return nodes[(lo - 1 + n) % n];
    return nodes[(nodes[lo] === from ? lo + 1 : lo) % n];
}
