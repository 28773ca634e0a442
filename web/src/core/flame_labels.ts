// What is written into boxes. Names may be long (64 KB happen), in any script, or missing; a label
// is cut so that the function's own name survives, and never more text is made than fits.

import { shortStart } from "./frame_class";
import type { FrameColumns } from "./frame_tree";

const ELLIPSIS = "…";
const PLAIN = /^[\x20-\x7e]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is meant
const CONTROL = /[\x00-\x1f\x7f\u2028\u2029]/g;

export const NO_NAME = "(no name)";

/** A name as it is shown; in running text its direction does not touch what is around it. */
export function shownName(name: string): string {
    if (name === "") return NO_NAME;
    return PLAIN.test(name) ? name : `\u2068${name.replace(CONTROL, " ")}\u2069`;
}

/** How many columns of the monospace font a character takes; marks that combine take none. */
function columnsOf(code: number): number {
    if (code < 0x300) return 1;
    if (code < 0x370 || code === 0x200d || (code >= 0xfe00 && code <= 0xfe0f)) return 0;
    if (code >= 0x1100 && code <= 0x115f) return 2;
    if (code >= 0x2e80 && code <= 0xd7ff) return 2;
    if (code >= 0xf900 && code <= 0xfaff) return 2;
    if (code >= 0xff00 && code <= 0xff60) return 2;
    return code >= 0x1f300 ? 2 : 1;
}

/** As much of `name` from `start` as `columns` hold. */
function headOf(name: string, start: number, columns: number): string {
    let used = 0;
    let i = start;
    while (i < name.length) {
        const code = name.codePointAt(i) ?? 0;
        used += columnsOf(code);
        if (used > columns) break;
        i += code > 0xffff ? 2 : 1;
    }
    return name.slice(start, i);
}

/** As much of the end of `name` as `columns` hold. */
function tailOf(name: string, columns: number): string {
    let used = 0;
    let i = name.length;
    while (i > 0) {
        const low = name.charCodeAt(i - 1);
        const isPair = low >= 0xdc00 && low <= 0xdfff && i > 1;
        used += columnsOf(isPair ? (name.codePointAt(i - 2) ?? 0) : low);
        if (used > columns) break;
        i -= isPair ? 2 : 1;
    }
    return name.slice(i);
}

/** `name` in at most `columns` columns. The package goes first, from its left; then the end. */
export function clipName(name: string, columns: number, start = shortStart(name)): string {
    if (columns < 1) return "";
    // Twice as many units as columns cannot fit: longer names are not even looked at.
    if (name.length <= columns * 2 && headOf(name, 0, columns) === name) return name;
    const short = headOf(name, start, columns - 1);
    if (start > 0 && start + short.length >= name.length)
        return ELLIPSIS + tailOf(name, columns - 1);
    if (start > 0 && headOf(name, start, columns) === name.slice(start, start + columns * 2))
        return name.slice(start);
    return columns === 1 ? headOf(name, start, 1) : short + ELLIPSIS;
}

/** Labels of frames, remembered: most frames keep their width from one picture to the next. */
export class Labels {
    private readonly columns: Int32Array;
    private readonly texts: string[];
    private readonly starts: Int32Array;
    readonly isPlain: Uint8Array; // 0: not looked at, 1: ASCII, 2: not

    constructor(private readonly frames: FrameColumns) {
        this.columns = new Int32Array(frames.n).fill(-1);
        this.starts = new Int32Array(frames.n).fill(-1);
        this.isPlain = new Uint8Array(frames.n);
        this.texts = new Array<string>(frames.n).fill("");
    }

    text(frame: number, columns: number): string {
        if (this.columns[frame] === columns) return this.texts[frame];
        let name = this.frames.name[frame];
        if (name === "") name = NO_NAME;
        if (this.starts[frame] < 0) {
            this.starts[frame] = shortStart(name);
            this.isPlain[frame] = PLAIN.test(name.slice(0, 4096)) ? 1 : 2;
        }
        let text: string;
        if (this.isPlain[frame] === 1 && name.length <= columns) text = name;
        else text = clipName(name, columns, this.starts[frame]);
        // Isolated: a name that runs from right to left stays where its box is.
        if (this.isPlain[frame] === 2) text = `\u2068${text.replace(CONTROL, " ")}\u2069`;
        this.columns[frame] = columns;
        this.texts[frame] = text;
        return text;
    }
}
