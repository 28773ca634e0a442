// Reads the server's binary trees (docs/api.md, "Trees") into columns, in one pass over each
// section. The bytes may come from a file that anybody wrote: everything is checked, and what does
// not fit is an error, never a picture that is silently wrong.

import type { FrameColumns, FrameTree, Hidden, TreeHead } from "./frame_tree";

const MAGIC = "VESTATRE";
const MAX_NODES = 1 << 26;

export class TreeError extends Error {}

interface WireHead extends TreeHead {
    scale?: number;
    is_signed?: boolean;
    sections: { name: string; offset: number; bytes: number }[];
}

/** A section that is being read. */
interface Cursor {
    bytes: Uint8Array;
    at: number;
}

function readVarint(c: Cursor): number {
    const b = c.bytes;
    let byte = b[c.at++];
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let factor = 128;
    // Not with shifts: values may have more than 32 bits.
    for (let k = 1; k < 10; k++) {
        byte = b[c.at++];
        value += (byte & 0x7f) * factor;
        if (byte < 0x80) return value;
        factor *= 128;
    }
    throw new TreeError("this tree has a number that does not end");
}

function unZigzag(v: number): number {
    return v % 2 === 0 ? v / 2 : -(v + 1) / 2;
}

/** How many numbers a section holds: bytes that end one. */
function countVarints(bytes: Uint8Array): number {
    let n = 0;
    for (let i = 0; i < bytes.length; i++) n += bytes[i] < 0x80 ? 1 : 0;
    return n;
}

function readIndices(bytes: Uint8Array, n: number, limit: number, what: string): Uint32Array {
    const out = new Uint32Array(n);
    const c: Cursor = { bytes, at: 0 };
    for (let i = 0; i < n; i++) {
        const v = bytes[c.at] < 0x80 ? bytes[c.at++] : readVarint(c);
        if (!(v < limit)) throw new TreeError(`this tree has a ${what} that does not exist`);
        out[i] = v;
    }
    return out;
}

function readValues(bytes: Uint8Array, n: number, head: WireHead): Float64Array {
    const out = new Float64Array(n);
    const scale = head.scale ?? 1;
    const c: Cursor = { bytes, at: 0 };
    for (let i = 0; i < n; i++) {
        const v = bytes[c.at] < 0x80 ? bytes[c.at++] : readVarint(c);
        out[i] = scale * (head.is_signed ? unZigzag(v) : v);
    }
    if (c.at > bytes.length) throw new TreeError("this tree has fewer values than nodes");
    return out;
}

function readBits(bytes: Uint8Array, n: number): Uint8Array {
    const out = new Uint8Array(n);
    for (let i = 0; i < n; i++) out[i] = (bytes[i >> 3] >> (i & 7)) & 1;
    return out;
}

function readHidden(bytes: Uint8Array, n: number, head: WireHead, isDiff: boolean) {
    const hidden = new Map<number, Hidden>();
    const c: Cursor = { bytes, at: 0 };
    const scale = head.scale ?? 1;
    const value = () => {
        const v = readVarint(c);
        return scale * (head.is_signed ? unZigzag(v) : v);
    };
    let node = 0;
    while (c.at < bytes.length) {
        node += readVarint(c);
        if (!(node < n)) throw new TreeError("this tree hides children of no node");
        const children = readVarint(c);
        hidden.set(node, { children, value: value(), before: isDiff ? value() : 0 });
    }
    return hidden;
}

// ---- Shape

interface Shape {
    parent: Uint32Array;
    first: Uint32Array;
    depth: Uint32Array;
    rows: Uint32Array;
}

/** Who hangs where, from the numbers of children alone. */
export function shapeOf(children: Uint32Array): Shape {
    const n = children.length;
    const parent = new Uint32Array(n);
    const first = new Uint32Array(n);
    const depth = new Uint32Array(n);
    const rows = [0];
    let next = 1;
    for (let i = 0; i < n; i++) {
        const end = next + children[i];
        if (end > n || (i >= next && i > 0)) break;
        if (i > 0 && depth[i] !== depth[i - 1]) rows.push(i);
        first[i] = next;
        for (const d = depth[i] + 1; next < end; next++) {
            parent[next] = i;
            depth[next] = d;
        }
    }
    if (next !== n) throw new TreeError("this tree is not in one piece");
    rows.push(n);
    return { parent, first, depth, rows: Uint32Array.from(rows) };
}

/** Totals: what nodes have themselves, what is hidden below them, and their children's. */
export function totalsOf(
    self: Float64Array,
    parent: Uint32Array,
    hidden: ReadonlyMap<number, Hidden>,
    side: "value" | "before",
): Float64Array {
    const total = Float64Array.from(self);
    for (const [node, h] of hidden) total[node] += h[side];
    for (let i = total.length - 1; i > 0; i--) total[parent[i]] += total[i];
    return total;
}

// ---- Frames

function readStrings(bytes: Uint8Array): string[] {
    const out: string[] = [];
    const decoder = new TextDecoder();
    const c: Cursor = { bytes, at: 0 };
    while (c.at < bytes.length) {
        const length = readVarint(c);
        if (c.at + length > bytes.length) throw new TreeError("this tree has a string cut short");
        out.push(decoder.decode(bytes.subarray(c.at, c.at + length)));
        c.at += length;
    }
    return out;
}

function readFrames(section: (name: string) => Uint8Array): FrameColumns {
    const strings = readStrings(section("strings"));
    const n = countVarints(section("frame_name"));
    const column = (name: string): string[] => {
        const bytes = section(name);
        if (bytes.length === 0) return new Array<string>(n).fill("");
        if (countVarints(bytes) < n) throw new TreeError(`this tree has too few of ${name}`);
        const places = readIndices(bytes, n, strings.length, "string");
        return Array.from(places, (p) => strings[p]);
    };
    const lines = section("frame_line");
    return {
        n,
        name: column("frame_name"),
        file: column("frame_file"),
        line: lines.length > 0 ? readIndices(lines, n, 2 ** 32, "line") : new Uint32Array(n),
        binary: column("frame_binary"),
        build: column("frame_build"),
        kind: column("frame_type"),
    };
}

// ---- All of it

function readHead(bytes: Uint8Array): { head: WireHead; data: number } {
    const text = new TextDecoder();
    if (bytes.length < 16 || text.decode(bytes.subarray(0, 8)) !== MAGIC)
        throw new TreeError("this is not a tree");
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const version = view.getUint32(8, true);
    if (version !== 1) throw new TreeError(`this tree is of version ${version}; known is 1`);
    const data = 16 + view.getUint32(12, true);
    if (data > bytes.length) throw new TreeError("this tree is cut short");
    try {
        const head = JSON.parse(text.decode(bytes.subarray(16, data))) as WireHead;
        if (Array.isArray(head.sections)) return { head, data };
    } catch {
        // Said below.
    }
    throw new TreeError("this tree's header cannot be read");
}

/** A tree from its bytes; a TreeError when they are none. */
export function decodeTree(buffer: ArrayBuffer | Uint8Array): FrameTree {
    const bytes = buffer instanceof Uint8Array ? buffer : new Uint8Array(buffer);
    const { head, data } = readHead(bytes);
    const section = (name: string): Uint8Array => {
        const s = head.sections.find((x) => x.name === name);
        if (!s) return new Uint8Array(0);
        const from = data + s.offset;
        if (!(s.offset >= 0 && s.bytes >= 0 && from + s.bytes <= bytes.length))
            throw new TreeError("this tree is cut short");
        return bytes.subarray(from, from + s.bytes);
    };
    const frames = readFrames(section);
    const n = countVarints(section("children"));
    if (n === 0 || n > MAX_NODES) throw new TreeError("this tree has no nodes");
    const children = readIndices(section("children"), n, MAX_NODES, "child");
    const { parent, first, depth, rows } = shapeOf(children);
    const isDiff = section("before").length > 0;
    const hidden = readHidden(section("hidden"), n, head, isDiff);
    const self = readValues(section("self"), n, head);
    const beforeSelf = isDiff ? readValues(section("before"), n, head) : null;
    const sure = section("sure");
    if (countVarints(section("frame")) < n) throw new TreeError("this tree has nameless nodes");
    return {
        n,
        parent,
        first,
        children,
        depth,
        rows,
        frame: readIndices(section("frame"), n, frames.n, "frame"),
        self,
        total: totalsOf(self, parent, hidden, "value"),
        before: beforeSelf && {
            self: beforeSelf,
            total: totalsOf(beforeSelf, parent, hidden, "before"),
        },
        isSure: sure.length * 8 >= n ? readBits(sure, n) : null,
        hidden,
        frames,
        head,
    };
}
