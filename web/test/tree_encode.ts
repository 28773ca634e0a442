// Trees for tests: written as the server writes them, and made from nested objects.

import { decodeTree } from "../src/core/tree_decode";
import type { FrameTree } from "../src/core/frame_tree";

export interface Wood {
    name: string;
    file?: string;
    line?: number;
    kind?: string;
    binary?: string;
    self?: number;
    before?: number;
    isSure?: boolean;
    hidden?: [number, number, number?]; // children, value, value before
    children?: Wood[];
}

class Bytes {
    private readonly out: number[] = [];
    varint(v: number) {
        let rest = v;
        while (rest >= 128) {
            this.out.push((rest % 128) | 128);
            rest = Math.floor(rest / 128);
        }
        this.out.push(rest);
    }
    bytes(b: Uint8Array) {
        for (const x of b) this.out.push(x);
    }
    done(): Uint8Array {
        return Uint8Array.from(this.out);
    }
}

function column(values: number[], isSigned = false): Uint8Array {
    const b = new Bytes();
    for (const v of values) b.varint(isSigned ? (v < 0 ? -2 * v - 1 : 2 * v) : v);
    return b.done();
}

function breadthFirst(root: Wood): Wood[] {
    const all = [root];
    for (let i = 0; i < all.length; i++) for (const c of all[i].children ?? []) all.push(c);
    return all;
}

export function pieces(head: object, sections: Record<string, Uint8Array>): Uint8Array {
    let offset = 0;
    const listed = Object.entries(sections).map(([name, b]) => {
        const s = { name, offset, bytes: b.length };
        offset += b.length;
        return s;
    });
    let json = JSON.stringify({ ...head, sections: listed });
    while (new TextEncoder().encode(json).length % 8 !== 0) json += " ";
    const text = new TextEncoder().encode(json);
    const out = new Uint8Array(16 + text.length + offset);
    out.set(new TextEncoder().encode("VESTATRE"));
    new DataView(out.buffer).setUint32(8, 1, true);
    new DataView(out.buffer).setUint32(12, text.length, true);
    out.set(text, 16);
    let at = 16 + text.length;
    for (const b of Object.values(sections)) {
        out.set(b, at);
        at += b.length;
    }
    return out;
}

/** The sections of a tree, for tests that break one of them. */
export function sectionsOf(root: Wood, isDiff = false, isSigned = false, scale = 1) {
    const nodes = breadthFirst(root);
    const strings = [""];
    const place = (s: string) => {
        if (!strings.includes(s)) strings.push(s);
        return strings.indexOf(s);
    };
    const frames: Wood[] = [];
    const keys: string[] = [];
    const frame = nodes.map((w) => {
        const key = JSON.stringify([w.name, w.file, w.line, w.kind, w.binary]);
        if (!keys.includes(key)) {
            keys.push(key);
            frames.push(w);
        }
        return keys.indexOf(key);
    });
    const hidden = new Bytes();
    let last = 0;
    const zig = (v: number) => (isSigned ? (v < 0 ? -2 * v - 1 : 2 * v) : v);
    nodes.forEach((w, i) => {
        if (!w.hidden) return;
        hidden.varint(i - last);
        last = i;
        hidden.varint(w.hidden[0]);
        hidden.varint(zig(w.hidden[1] / scale));
        if (isDiff) hidden.varint(zig((w.hidden[2] ?? 0) / scale));
    });
    const sure = new Uint8Array(Math.ceil(nodes.length / 8));
    nodes.forEach((w, i) => {
        if (w.isSure) sure[i >> 3] |= 1 << (i & 7);
    });
    const sections: Record<string, Uint8Array> = {
        children: column(nodes.map((w) => w.children?.length ?? 0)),
        frame: column(frame),
        self: column(
            nodes.map((w) => (w.self ?? 0) / scale),
            isSigned,
        ),
    };
    if (isDiff)
        sections.before = column(
            nodes.map((w) => (w.before ?? 0) / scale),
            isSigned,
        );
    if (nodes.some((w) => w.isSure !== undefined)) sections.sure = sure;
    sections.hidden = hidden.done();
    sections.frame_name = column(frames.map((w) => place(w.name)));
    sections.frame_file = column(frames.map((w) => place(w.file ?? "")));
    sections.frame_type = column(frames.map((w) => place(w.kind ?? "")));
    sections.frame_binary = column(frames.map((w) => place(w.binary ?? "")));
    sections.frame_line = column(frames.map((w) => w.line ?? 0));
    const text = new Bytes();
    for (const s of strings) {
        const b = new TextEncoder().encode(s);
        text.varint(b.length);
        text.bytes(b);
    }
    sections.strings = text.done();
    return sections;
}

export interface GrowOptions {
    isDiff?: boolean;
    isSigned?: boolean;
    scale?: number;
    head?: object;
}

export function encode(root: Wood, o: GrowOptions = {}): Uint8Array {
    const head = {
        type: "cpu",
        unit: "count",
        scale: o.scale ?? 1,
        is_signed: o.isSigned ?? false,
    };
    return pieces({ ...head, ...o.head }, sectionsOf(root, o.isDiff, o.isSigned, o.scale));
}

/** A tree as the pages have it. */
export function grow(root: Wood, o: GrowOptions = {}): FrameTree {
    return decodeTree(encode(root, o));
}
