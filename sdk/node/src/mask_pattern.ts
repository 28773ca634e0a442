// Regular expressions as the server writes them (PCRE2) for JavaScript. Both mean the same by most of
// what people write; the rest is written anew here: flags within the pattern, possessive quantifiers
// and atomic groups, what "." and "$" are, classes by name. What cannot be said in JavaScript is
// refused, in words.
import { type ClassItem, escaped, readClass, shorthand } from "./mask_class.js";

export interface Pattern {
    regexp: RegExp;
    /** groups[n] is the number that the pattern's group n has in the expression. */
    groups: number[];
}

/** Throws what is wrong with it. */
export function compilePattern(pattern: string): Pattern {
    const plain = translate(pattern, false);
    // One flag serves a pattern that ignores case everywhere; where only parts do, letters say so.
    const both = plain.cases.size > 1;
    const { tokens, opened } = both ? translate(pattern, true) : plain;
    const flags = !both && plain.cases.has(true) ? "giu" : "gu";
    let next = 1;
    const numbers = new Map<Group, number>();
    for (const token of tokens) {
        if (typeof token !== "string" && token.kind === "open") {
            numbers.set(token.group, next++);
        }
    }
    const source = tokens.map((token) => textOf(token, numbers)).join("");
    return {
        regexp: new RegExp(source, flags),
        groups: [0, ...opened.map((g) => numbers.get(g)!)],
    };
}

// ---- What a translation is made of

/** Numbers are given at the end: groups of ours come in between. */
type Group = { name: string };
type Token = string | { kind: "open" | "reference"; group: Group };

interface Flags {
    i: boolean;
    m: boolean;
    s: boolean;
    x: boolean;
}

/** A group that is open: where it began, and the flags of before. */
interface Open {
    from: number;
    flags: Flags;
    isAtomic: boolean;
    isLookbehind: boolean;
}

interface Translation {
    text: string;
    at: number;
    tokens: Token[];
    opened: Group[]; // those of the pattern, in order
    open: Open[];
    flags: Flags;
    atom: number; // where the last thing that can be repeated begins; -1: none
    expandsCase: boolean;
    cases: Set<boolean>; // whether case was ignored, at letters and classes
}

function textOf(token: Token, numbers: Map<Group, number>): string {
    if (typeof token === "string") {
        return token;
    }
    // Digits may follow a reference: a group around it ends it.
    return token.kind === "open" ? "(" : `(?:\\${numbers.get(token.group)})`;
}

function translate(text: string, expandsCase: boolean): Translation {
    const t: Translation = {
        text,
        at: 0,
        tokens: [],
        opened: [],
        open: [],
        flags: { i: false, m: false, s: false, x: false },
        atom: -1,
        expandsCase,
        cases: new Set(),
    };
    while (t.at < text.length) {
        step(t);
    }
    if (t.open.length > 0) {
        throw new Error("a group is not closed");
    }
    return t;
}

function addAtom(t: Translation, ...tokens: Token[]): void {
    t.atom = t.tokens.length;
    t.tokens.push(...tokens);
}

function addLetter(t: Translation, char: string): void {
    const other = char.toLowerCase() === char ? char.toUpperCase() : char.toLowerCase();
    const hasCase = other !== char && [...other].length === 1;
    if (hasCase) {
        t.cases.add(t.flags.i);
    }
    addAtom(t, t.expandsCase && t.flags.i && hasCase ? `[${char}${other}]` : escaped(char));
}

/** Takes what the expression finds here, or nothing. */
function take(t: Translation, what: RegExp): RegExpExecArray | null {
    const sticky = new RegExp(what.source, "yu");
    sticky.lastIndex = t.at;
    const found = sticky.exec(t.text);
    if (found) {
        t.at += found[0].length;
    }
    return found;
}

// ---- One step

const end = "(?![\\s\\S])";
const start = "(?<![\\s\\S])";

/** What has no width, or divides: nothing that could be repeated. */
function addMark(t: Translation, text: string): void {
    t.tokens.push(text);
    t.atom = -1;
}

const readers: Record<string, (t: Translation) => void> = {
    "\\": readEscape,
    "[": characterClass,
    "(": openGroup,
    ")": closeGroup,
    "*": quantify,
    "+": quantify,
    "?": quantify,
    "{": quantify,
};

function step(t: Translation): void {
    if (t.flags.x && take(t, /[ \t\n\v\f\r]+|#[^\n]*/)) {
        return;
    }
    const char = String.fromCodePoint(t.text.codePointAt(t.at)!);
    const reader = readers[char];
    if (reader) {
        reader(t);
        return;
    }
    t.at += char.length;
    if (char === ".") {
        addAtom(t, t.flags.s ? "[\\s\\S]" : "[^\\n]");
    } else if (char === "^") {
        addMark(t, t.flags.m ? `(?:${start}|(?<=\\n)(?=[\\s\\S]))` : start);
    } else if (char === "$") {
        addMark(t, t.flags.m ? "(?![^\\n])" : end);
    } else if (char === "|") {
        addMark(t, "|");
    } else {
        addLetter(t, char);
    }
}

function quantify(t: Translation): void {
    const found = take(t, /([*+?]|\{\d+(?:,\d*)?\})([+?]?)/);
    if (!found) {
        t.at++;
        addLetter(t, "{"); // a brace that counts nothing
        return;
    }
    if (t.atom < 0) {
        throw new Error(`"${found[0]}" repeats nothing`);
    }
    const [, count, kind] = found as unknown as [string, string, string];
    if (kind === "+") {
        makeAtomic(t, t.atom, [count]);
    } else {
        t.tokens.push(count + kind);
    }
    t.atom = -1;
}

/** What a lookahead has found is never tried again: this is what makes a group atomic. */
function makeAtomic(t: Translation, from: number, more: Token[]): void {
    if (t.open.some((o) => o.isLookbehind)) {
        throw new Error("a possessive quantifier or an atomic group within a lookbehind");
    }
    const group: Group = { name: "" };
    const inner = t.tokens.splice(from);
    t.tokens.push("(?:(?=", { kind: "open", group }, ...inner, ...more, "))");
    t.tokens.push({ kind: "reference", group }, ")");
}

function characterClass(t: Translation): void {
    const { items, isNegative, end: next } = readClass(t.text, t.at);
    t.at = next;
    t.cases.add(t.flags.i);
    const both = t.expandsCase && t.flags.i ? items.flatMap(withOtherCase) : items;
    addAtom(t, `[${isNegative ? "^" : ""}${both.map((item) => item.text).join("")}]`);
}

/** The letters of a range in the other case, too. */
function withOtherCase(item: ClassItem): ClassItem[] {
    const found = [item];
    for (const [from, to, distance] of [
        [0x41, 0x5a, 0x20],
        [0x61, 0x7a, -0x20],
    ] as const) {
        const low = Math.max(item.from, from);
        const high = Math.min(item.to, to);
        if (low <= high) {
            const [a, b] = [low + distance, high + distance];
            const range = `${String.fromCharCode(a)}-${String.fromCharCode(b)}`;
            found.push({ from: a, to: b, text: range });
        }
    }
    return found;
}

// ---- Groups

const openings: [RegExp, string][] = [
    [/\(\?=/, "(?="],
    [/\(\?!/, "(?!"],
    [/\(\?<=/, "(?<="],
    [/\(\?<!/, "(?<!"],
];

function openGroup(t: Translation): void {
    if (take(t, /\(\?#[^)]*\)/)) {
        return;
    }
    const reference = take(t, /\(\?P=(\w+)\)/);
    if (reference) {
        addReference(t, reference[1]!);
        return;
    }
    const flags = take(t, /\(\?([imsx]*)(?:-([imsx]+))?([:)])/);
    if (flags) {
        changeFlags(t, flags);
        return;
    }
    for (const [what, text] of openings) {
        if (take(t, what)) {
            push(t, text);
            return;
        }
    }
    if (take(t, /\(\?>/)) {
        push(t, "(?:", true);
        return;
    }
    const name = take(t, /\((?:\?P?<([A-Za-z_]\w*)>|\?'([A-Za-z_]\w*)'|(?![?*]))/);
    if (!name) {
        const shown = t.text.slice(t.at, t.at + 4);
        throw new Error(`"${shown}" cannot be said in JavaScript's expressions`);
    }
    const group: Group = { name: name[1] ?? name[2] ?? "" };
    t.opened.push(group);
    push(t, { kind: "open", group });
}

function push(t: Translation, opening: Token, isAtomic = false): void {
    const isLookbehind = opening === "(?<=" || opening === "(?<!";
    t.open.push({ from: t.tokens.length, flags: { ...t.flags }, isAtomic, isLookbehind });
    t.tokens.push(opening);
    t.atom = -1;
}

/** "(?i)" is for the rest of the group that it stands in, "(?i:" for its own. */
function changeFlags(t: Translation, found: RegExpExecArray): void {
    const [, on, off, last] = found as unknown as [string, string, string | undefined, string];
    if (last === ":") {
        push(t, "(?:");
    }
    t.flags = { ...t.flags };
    for (const flag of on as Iterable<keyof Flags>) {
        t.flags[flag] = true;
    }
    for (const flag of (off ?? "") as Iterable<keyof Flags>) {
        t.flags[flag] = false;
    }
    t.atom = -1;
}

function closeGroup(t: Translation): void {
    const open = t.open.pop();
    if (!open) {
        throw new Error("a group is closed that was not opened");
    }
    t.at++;
    t.flags = open.flags;
    t.tokens.push(")");
    if (open.isAtomic) {
        makeAtomic(t, open.from, []);
    }
    t.atom = open.from;
}

// ---- Escapes

const wholes: Record<string, string> = {
    A: start,
    z: end,
    Z: `(?=\\n?${end})`,
    b: "\\b",
    B: "\\B",
};
const references = /\\(?:([1-9]\d?)|g(-?\d+)|g\{(-?\w+)\}|k<(\w+)>|k\{(\w+)\}|k'(\w+)')/;

function readEscape(t: Translation): void {
    const quoted = take(t, /\\Q([\s\S]*?)(?:\\E|$)/);
    if (quoted) {
        for (const char of quoted[1]!) {
            addLetter(t, char);
        }
        return;
    }
    if (take(t, /\\E/)) {
        return;
    }
    const reference = take(t, references);
    if (reference) {
        addReference(t, reference.slice(1).find((part) => part !== undefined)!);
        return;
    }
    const letter = t.text[t.at + 1] ?? "";
    const whole = wholes[letter];
    if (whole) {
        t.at += 2;
        addMark(t, whole);
        return;
    }
    if (take(t, /\\R/)) {
        addAtom(t, "(?:\\r\\n|[\\n\\v\\f\\r\\x85\\u2028\\u2029])");
        makeAtomic(t, t.atom, []);
        return;
    }
    const found = shorthand(t.text, t.at);
    t.at = found.end;
    if (found.char !== undefined) {
        addLetter(t, found.char);
        return;
    }
    addAtom(t, `[${found.text}]`);
}

function addReference(t: Translation, name: string): void {
    const number = /^-?\d+$/.test(name) ? Number(name) : Number.NaN;
    const group = Number.isNaN(number)
        ? t.opened.find((g) => g.name === name)
        : t.opened[number < 0 ? t.opened.length + number : number - 1];
    if (!group) {
        throw new Error(`there is no group ${name} before its reference`);
    }
    addAtom(t, { kind: "reference", group });
}
