// One source map, version 3: from positions of a generated file to those of its sources. Mappings
// are decoded into typed arrays, step by step, so that a large map does not stop the event loop.
import path from "node:path";
import { fileURLToPath } from "node:url";

/** Lines are 1-based and columns 0-based, as maps and V8 have them. */
export interface Original {
    file: string;
    line: number;
    column: number;
    name: string; // "" where the map has none
}

export interface SourceMap {
    /** The position that the mapping at or before this one, in the same line, says. */
    at(line: number, column: number): Original | undefined;
    /** The first mapping of the line, at or after the column. */
    firstOf(line: number, column: number): Original | undefined;
    /** What a word of that length was called that stands before the column, with at most one other
     * mapping between: "word=async(", "function word(". */
    wordBefore(line: number, column: number, length: number): string | undefined;
    bytes: number;
}

interface RawMap {
    version: 3;
    mappings: string;
    sources: (string | null)[];
    names?: unknown[];
    sourceRoot?: string;
}

/** A map, or one of the sections of an index map, and where it begins. */
interface Section {
    line: number; // 0-based
    column: number;
    map: RawMap;
}

const NONE = -1;
const MAX_SECTIONS = 10_000;
const MAX_LINE = 10_000_000;
const MAX_NUMBER = 2 ** 31 - 1;
const MAX_BETWEEN = 16; // columns between a function's name and its parameters
const STEP = 200_000; // characters between two turns of the event loop
const DIGITS = digits();

function digits(): Int8Array {
    const values = new Int8Array(128).fill(NONE);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (let i = 0; i < alphabet.length; i++) values[alphabet.charCodeAt(i)] = i;
    return values;
}

function isObject(value: unknown): value is Record<string, unknown> {
    return typeof value === "object" && value !== null;
}

function rawMap(value: unknown): RawMap {
    if (!isObject(value) || value.version !== 3) throw new Error("not a source map, version 3");
    const { mappings, sources } = value;
    if (typeof mappings !== "string" || !Array.isArray(sources)) throw new Error("no mappings");
    return value as unknown as RawMap;
}

function isCount(value: unknown, most: number): value is number {
    return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}

function sectionsOf(value: unknown): Section[] {
    if (!isObject(value) || !Array.isArray(value.sections)) {
        return [{ line: 0, column: 0, map: rawMap(value) }];
    }
    if (value.sections.length > MAX_SECTIONS) throw new Error("too many sections");
    return value.sections.map((section: unknown): Section => {
        const offset = isObject(section) ? section.offset : undefined;
        if (!isObject(section) || !isObject(offset)) throw new Error("a section without offset");
        const { line, column } = offset;
        if (!isCount(line, MAX_LINE) || !isCount(column, MAX_NUMBER))
            throw new Error("a bad offset");
        return { line, column, map: rawMap(section.map) };
    });
}

/** A path where the source is a file; else the URL as it is ("webpack://shop/./src/cart.ts"). */
function sourceFile(source: string | null, root: unknown, folder: string): string {
    const prefix = typeof root === "string" && root !== "" ? root.replace(/\/*$/, "/") : "";
    const isUrl = /^[a-z][a-z0-9+.-]*:/i;
    const name = String(source ?? "");
    const whole = isUrl.test(name) || path.isAbsolute(name) ? name : prefix + name;
    if (whole.startsWith("file:")) {
        try {
            return fileURLToPath(whole);
        } catch {
            return whole;
        }
    }
    return isUrl.test(whole) ? whole : path.resolve(folder, whole);
}

/** Everything decoded so far: one row for a mapping, in the order of the generated file. */
class Rows {
    files: string[] = [];
    names: string[] = [];
    lineStarts: number[] = [0]; // first row of every line
    length = 0;
    columns = new Int32Array(1024);
    sources = new Int32Array(1024);
    lines = new Int32Array(1024);
    sourceColumns = new Int32Array(1024);
    nameNumbers = new Int32Array(1024);

    openLine(line: number): void {
        while (this.lineStarts.length <= line) this.lineStarts.push(this.length);
    }

    add(column: number, source: number, line: number, sourceColumn: number, name: number): void {
        const first = this.lineStarts[this.lineStarts.length - 1] as number;
        if (
            column < 0 ||
            (this.length > first && column < (this.columns[this.length - 1] as number))
        ) {
            throw new Error("mappings are not in order");
        }
        if (this.length === this.columns.length) this.grow();
        const row = this.length++;
        this.columns[row] = column;
        this.sources[row] = source;
        this.lines[row] = line;
        this.sourceColumns[row] = sourceColumn;
        this.nameNumbers[row] = name;
    }

    private grow(): void {
        const larger = (old: Int32Array): Int32Array<ArrayBuffer> => {
            const made = new Int32Array(old.length * 2);
            made.set(old);
            return made;
        };
        this.columns = larger(this.columns);
        this.sources = larger(this.sources);
        this.lines = larger(this.lines);
        this.sourceColumns = larger(this.sourceColumns);
        this.nameNumbers = larger(this.nameNumbers);
    }
}

/** Decodes one section, giving way after every STEP characters. */
function* decode(rows: Rows, section: Section, folder: string): Generator<void> {
    const { mappings, sources, names, sourceRoot } = section.map;
    const firstFile = rows.files.length;
    const firstName = rows.names.length;
    for (const source of sources) rows.files.push(sourceFile(source, sourceRoot, folder));
    for (const name of names ?? []) rows.names.push(typeof name === "string" ? name : "");
    const state = [0, 0, 0, 0, 0]; // column, source, line, column there, name: all are differences
    const fields = [0, 0, 0, 0, 0];
    let line = section.line;
    let shift = section.column; // of the first line only
    let at = 0;
    let stop = STEP;
    rows.openLine(line);
    while (at < mappings.length) {
        const code = mappings.charCodeAt(at);
        if (code === 59 /* ; */) {
            at++;
            rows.openLine(++line);
            state[0] = 0;
            shift = 0;
            continue;
        }
        if (code === 44 /* , */) {
            at++;
            continue;
        }
        let count = 0;
        for (; at < mappings.length; count++) {
            if (count === 5) throw new Error("a mapping of too many fields");
            let value = 0;
            let digit = 32;
            for (let bits = 0; digit & 32; bits += 5) {
                const next = mappings.charCodeAt(at++);
                digit = next < 128 ? (DIGITS[next] as number) : NONE;
                if (!(digit >= 0) || bits > 30) throw new Error("a bad digit");
                value += (digit & 31) * 2 ** bits;
            }
            fields[count] = value % 2 ? -Math.floor(value / 2) : value / 2;
            const then = mappings.charCodeAt(at);
            if (then === 44 || then === 59) {
                count++;
                break;
            }
        }
        addRow(rows, state, fields, count, { shift, firstFile, firstName });
        if (at >= stop) {
            stop = at + STEP;
            yield;
        }
    }
}

interface Origin {
    shift: number;
    firstFile: number;
    firstName: number;
}

function addRow(
    rows: Rows,
    state: number[],
    fields: number[],
    count: number,
    { shift, firstFile, firstName }: Origin,
): void {
    if (count !== 1 && count !== 4 && count !== 5) throw new Error("a mapping of odd length");
    for (let i = 0; i < count; i++) state[i] = (state[i] as number) + (fields[i] as number);
    const [column = 0, source = 0, line = 0, sourceColumn = 0, name = 0] = state;
    if (count === 1) {
        rows.add(column + shift, NONE, 0, 0, NONE);
        return;
    }
    const file = firstFile + source;
    const isKnown = source >= 0 && file < rows.files.length;
    if (!isKnown || !isCount(line, MAX_LINE) || !isCount(sourceColumn, MAX_NUMBER)) {
        throw new Error("a mapping to nowhere");
    }
    const hasName = count === 5 && name >= 0 && firstName + name < rows.names.length;
    rows.add(column + shift, file, line + 1, sourceColumn, hasName ? firstName + name : NONE);
}

function query(rows: Rows): SourceMap {
    const original = (row: number): Original | undefined => {
        const source = rows.sources[row];
        if (source === undefined || source === NONE) return undefined;
        const name = rows.nameNumbers[row] as number;
        return {
            file: rows.files[source] as string,
            line: rows.lines[row] as number,
            column: rows.sourceColumns[row] as number,
            name: name === NONE ? "" : (rows.names[name] as string),
        };
    };
    const begin = (line: number): number => rows.lineStarts[line - 1] ?? rows.length;
    /** The first row of the line at or after the column. */
    const find = (line: number, column: number): number => {
        let low = begin(line);
        let high = begin(line + 1);
        while (low < high) {
            const middle = (low + high) >>> 1;
            if ((rows.columns[middle] as number) < column) low = middle + 1;
            else high = middle;
        }
        return low;
    };
    return {
        at(line, column) {
            const row = find(line, column + 1) - 1;
            return row >= begin(line) ? original(row) : undefined;
        },
        firstOf(line, column) {
            const end = begin(line + 1);
            for (let row = find(line, column); row < end; row++) {
                const found = original(row);
                if (found) return found;
            }
            return undefined;
        },
        wordBefore(line, column, length) {
            const last = find(line, column) - 1;
            let end = column; // where what follows the word begins
            for (let row = last; row >= Math.max(begin(line), last - 1); row--) {
                const name = rows.nameNumbers[row] as number;
                const start = rows.columns[row] as number;
                if (name !== NONE) {
                    const isNear = start + length <= end && column - start - length <= MAX_BETWEEN;
                    return isNear ? rows.names[name] : undefined;
                }
                end = start;
            }
            return undefined;
        },
        bytes: rows.columns.length * 20 + rows.lineStarts.length * 8 + rows.names.length * 32,
    };
}

/** folder: of the map, or of the generated file where the map is in it. Rejects for bad maps. */
export async function readSourceMap(value: unknown, folder: string): Promise<SourceMap> {
    const rows = new Rows();
    for (const section of sectionsOf(value)) {
        if (section.line < rows.lineStarts.length - 1) throw new Error("sections overlap");
        for (const _ of decode(rows, section, folder)) await nextTurn();
    }
    return query(rows);
}

function nextTurn(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
}
