// From V8's words to the package's model: call frames become frames, V8's tree of nodes becomes the
// trie of stacks.
import { fileURLToPath } from "node:url";
import type { Frame, Profile, ProfileKind, Stacks, ValueType } from "./model.js";

export interface V8CallFrame {
    functionName: string;
    scriptId: string;
    url: string;
    lineNumber: number; // from 0; -1: none
    columnNumber: number;
}

/** An empty profile of a kind, to which stacks and samples are added. */
export function emptyProfile(
    kind: ProfileKind,
    sampleTypes: ValueType[],
    defaultType: string,
    startUnixNanos: bigint,
    durationNanos: bigint,
): Profile {
    return {
        kind,
        sampleTypes,
        defaultType,
        startUnixNanos,
        durationNanos: durationNanos > 0n ? durationNanos : 0n,
        frames: [],
        stacks: { parent: [0], frame: [0] },
        samples: [],
        attributes: {},
    };
}

export interface StackBuilder {
    /** The stack of the caller's plus this frame. */
    push(parent: number, frame: Frame): number;
}

/** Adds to a profile's frames and stacks, each once. */
export function stackBuilder(profile: { frames: Frame[]; stacks: Stacks }): StackBuilder {
    const frames = new Map<string, number>();
    const stacks = new Map<number, Map<number, number>>();
    const frameOf = (frame: Frame): number => {
        const key = `${frame.name}\0${frame.file}\0${frame.line}\0${frame.startLine}\0${frame.startColumn}`;
        let found = frames.get(key);
        if (found === undefined) {
            found = profile.frames.push(frame) - 1;
            frames.set(key, found);
        }
        return found;
    };
    return {
        push(parent, frame) {
            let children = stacks.get(parent);
            if (!children) {
                children = new Map();
                stacks.set(parent, children);
            }
            const number = frameOf(frame);
            let found = children.get(number);
            if (found === undefined) {
                found = profile.stacks.parent.push(parent) - 1;
                profile.stacks.frame.push(number);
                children.set(number, found);
            }
            return found;
        },
    };
}

/** line: the one that ran, where it is known; else the function's own is shown. */
export function frameOf(call: V8CallFrame, line = 0): Frame {
    const isOwn = call.url !== "" && call.lineNumber >= 0;
    const startLine = isOwn ? call.lineNumber + 1 : 0;
    const startColumn = isOwn && call.columnNumber >= 0 ? call.columnNumber + 1 : 0;
    const shown = isOwn && line > 0 ? line : startLine;
    return {
        name: call.functionName || "(anonymous)",
        file: fileOf(call.url),
        line: shown,
        column: shown === startLine ? startColumn : 0,
        startLine,
        startColumn,
        kind: call.url === "" ? "native" : "v8js",
    };
}

const files = new Map<string, string>();
const maxFiles = 20_000;

/** Two letters at least: one is a drive. */
const scheme = /^[a-z][a-z0-9+.-]+:/i;

/** Paths for file: URLs; Node's own modules keep their names ("node:net"). Of other URLs what may be
 * contents is left out: the source text of data: and what follows "?" or "#". */
function fileOf(url: string): string {
    if (url.startsWith("data:")) return "data:";
    if (!scheme.test(url)) return url;
    const known = files.get(url);
    if (known !== undefined) return known;
    let path = url.replace(/[?#].*$/s, "");
    try {
        if (path.startsWith("file:")) path = fileURLToPath(path);
    } catch {
        // Shown as it is.
    }
    if (files.size >= maxFiles) files.clear();
    files.set(url, path);
    return path;
}
