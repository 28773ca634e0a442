// Shows frames of compiled and bundled files where their source maps say. Off the hot path: at the
// end of a window, with files read asynchronously. What was found is kept within bounds.
import path from "node:path";
import type { Frame, Profile } from "./model.js";
import type { SourceMap } from "./source_map.js";
import { sourceMapOf, type Timed } from "./source_map_files.js";

export interface SourceMapStats {
    resolved: number; // frames
    maps: number; // read and understood
    missing: number; // named by a file, but not there
    bad: number; // ignored: not JSON, not a source map, too large, not readable
}

/** What a map makes of a frame. */
type Change = Pick<Frame, "name" | "file" | "line" | "column" | "startLine" | "startColumn">;

const MAX_MAP_BYTES = 64 << 20;
const MAX_CHANGES = 20_000;
const MAX_WITHOUT = 20_000;

const stats: SourceMapStats = { resolved: 0, maps: 0, missing: 0, bad: 0 };
const maps = new Map<string, SourceMap>(); // the one that was used last is last
const without = new Set<string>(); // files that have none
const loading = new Map<string, Promise<SourceMap | undefined>>();
const changes = new Map<string, Change | undefined>();
let mapBytes = 0;

export function sourceMapStats(): SourceMapStats {
    return { ...stats };
}

/** Changes the frames that a source map knows: file, line, column and name. Never rejects. */
export async function resolveFrames(profile: Profile, timed?: Timed): Promise<void> {
    for (const frame of profile.frames) {
        if (frame.kind !== "v8js" || !path.isAbsolute(frame.file) || frame.startLine <= 0) continue;
        if (without.has(frame.file)) continue;
        const key = `${frame.file}\0${frame.name}\0${frame.line}\0${frame.column}\0${frame.startLine}\0${frame.startColumn}`;
        if (!changes.has(key)) {
            const map = await mapOf(frame.file, timed);
            if (!map) continue;
            if (changes.size >= MAX_CHANGES) changes.clear();
            changes.set(key, changeOf(map, frame));
        }
        const change = changes.get(key);
        if (!change) continue;
        Object.assign(frame, change);
        stats.resolved++;
    }
}

async function mapOf(file: string, timed?: Timed): Promise<SourceMap | undefined> {
    const known = maps.get(file);
    if (known) {
        maps.delete(file);
        maps.set(file, known);
        return known;
    }
    const begun = loading.get(file) ?? load(file, timed).finally(() => loading.delete(file));
    loading.set(file, begun);
    return begun;
}

async function load(file: string, timed?: Timed): Promise<SourceMap | undefined> {
    const found = await sourceMapOf(file, timed);
    if (typeof found === "string") {
        if (found !== "none") stats[found]++;
        if (without.size >= MAX_WITHOUT) without.clear();
        without.add(file);
        return undefined;
    }
    stats.maps++;
    maps.set(file, found);
    mapBytes += found.bytes;
    for (const [old, map] of maps) {
        if (mapBytes <= MAX_MAP_BYTES || old === file) break;
        maps.delete(old);
        mapBytes -= map.bytes;
    }
    return found;
}

/** Undefined where the map knows nothing of the function. */
function changeOf(map: SourceMap, frame: Frame): Change | undefined {
    const { line, column, startLine } = frame;
    const startColumn = Math.max(0, (frame.startColumn ?? 0) - 1);
    const start = map.at(startLine, startColumn) ?? map.firstOf(startLine, startColumn);
    const ranAt = column > 0 ? map.at(line, column - 1) : undefined;
    const ran = ranAt ?? map.firstOf(line, line === startLine ? startColumn : 0);
    const own = start ?? ran;
    if (!own) return undefined;
    const isSame = ran?.file === own.file;
    return {
        name: nameOf(map, frame, startColumn),
        file: own.file,
        line: isSame ? ran.line : own.line,
        column: isSame && column > 0 ? ran.column + 1 : 0,
        startLine: start ? start.line : 0,
        startColumn: start ? start.column + 1 : 0,
    };
}

/** V8 says where a function's parameters begin; in a minified file, its name is mapped just before. */
function nameOf(map: SourceMap, frame: Frame, startColumn: number): string {
    if (frame.name === "(anonymous)") return frame.name;
    const [short = ""] = frame.name.split(/[.\s]/).slice(-1);
    const word = map.wordBefore(frame.startLine, startColumn, short.length);
    if (!word) return frame.name;
    return frame.name.slice(0, frame.name.length - short.length) + word;
}
