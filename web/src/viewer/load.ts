// The profile that the page carries: a tree, packed with gzip, as base64.

import type { FrameTree } from "../core/frame_tree";
import { decodeTree } from "../core/tree_decode";

/** What the page says about its profile; all of it may be missing. */
export interface About {
    title?: string;
    selection?: string;
    total?: number;
    unit?: string;
    type?: string;
    date?: string;
    version?: string;
}

export function readAbout(): About {
    try {
        return JSON.parse(document.getElementById("about")?.textContent ?? "{}") as About;
    } catch {
        return {};
    }
}

async function unpack(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
    if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes.buffer;
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
}

/** Null: the page has none. */
export async function readTree(): Promise<FrameTree | null> {
    const text = document.getElementById("profile")?.textContent?.trim();
    if (!text) return null;
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return decodeTree(await unpack(packed));
}
