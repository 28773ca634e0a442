// Where a file's source map is: in the file itself (data:), beside it, or with Node (run with
// --enable-source-maps, or by a loader that compiles in memory). Nothing is fetched from elsewhere.
import { open } from "node:fs/promises";
import { findSourceMap } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { readSourceMap, type SourceMap } from "./source_map.js";

/** Counts the time that something takes. */
export type Timed = <T>(work: () => T) => T;

export type Found = SourceMap | "none" | "missing" | "bad";

/** JSON is parsed in one go, on the app's thread: some 5 ms for each MB. */
const MAX_FILE = 16 << 20;
const TAIL = 2048;
const MARK = /\/[/*][#@]\s*sourceMappingURL=([^\s'"*]+)/g;

/** The text from an offset, and the file's size. Throws for what is no file or too large. */
async function readText(file: string, last?: number): Promise<{ text: string; size: number }> {
    const handle = await open(file, "r");
    try {
        const info = await handle.stat();
        if (!info.isFile() || info.size > MAX_FILE) throw new Error("no file, or too large");
        const length = Math.min(info.size, last ?? info.size);
        const buffer = Buffer.alloc(length);
        const { bytesRead } = await handle.read(buffer, 0, length, info.size - length);
        return { text: buffer.toString("utf8", 0, bytesRead), size: info.size };
    } finally {
        await handle.close();
    }
}

/** What the last comment says. A map within the file is longer than its tail, and all base64. */
async function mappingUrl(file: string): Promise<string | undefined> {
    const tail = await readText(file, TAIL);
    const found = lastMark(tail.text);
    if (found !== undefined || tail.size <= TAIL) return found;
    if (!/^[A-Za-z0-9+/%=_-]+\s*(\*\/)?\s*$/.test(tail.text)) return undefined;
    return lastMark((await readText(file)).text);
}

function lastMark(text: string): string | undefined {
    let last: string | undefined;
    for (const match of text.matchAll(MARK)) last = match[1];
    return last;
}

function dataText(url: string): string {
    const comma = url.indexOf(",");
    if (comma < 0) throw new Error("data without content");
    const content = url.slice(comma + 1);
    const isBase64 = url.slice(0, comma).endsWith(";base64");
    return isBase64 ? Buffer.from(content, "base64").toString("utf8") : decodeURIComponent(content);
}

/** Some servers' files begin with a line that keeps browsers from running them. */
function parse(text: string, timed: Timed): unknown {
    return timed(() => JSON.parse(text.replace(/^\)\]\}'?[^\n]*\n/, "").replace(/^\uFEFF/, "")));
}

/** Node keeps maps by path or by URL; only with source maps turned on. */
function mapOfNode(file: string): unknown {
    try {
        return (findSourceMap(file) ?? findSourceMap(pathToFileURL(file).href))?.payload;
    } catch {
        return undefined;
    }
}

/** The map beside the file, and the folder that its sources are relative to. */
async function sideMap(
    file: string,
    url: string,
): Promise<{ text: string; folder: string } | undefined> {
    let side: string;
    try {
        side = url.startsWith("file:")
            ? fileURLToPath(url)
            : path.resolve(path.dirname(file), decodeURIComponent(url.replace(/[?#].*$/, "")));
    } catch {
        return undefined;
    }
    if (/^[a-z][a-z0-9+.-]+:/i.test(url) && !url.startsWith("file:")) return undefined;
    try {
        return { text: (await readText(side)).text, folder: path.dirname(side) };
    } catch {
        return undefined;
    }
}

/** Never rejects. */
export async function sourceMapOf(file: string, timed: Timed = (work) => work()): Promise<Found> {
    try {
        const known = mapOfNode(file);
        if (known) return await readSourceMap(known, path.dirname(file));
        const url = await mappingUrl(file).catch(() => undefined);
        if (!url) return "none";
        if (url.startsWith("data:")) {
            return await readSourceMap(parse(dataText(url), timed), path.dirname(file));
        }
        const side = await sideMap(file, url);
        if (!side) return "missing";
        return await readSourceMap(parse(side.text, timed), side.folder);
    } catch {
        return "bad";
    }
}
