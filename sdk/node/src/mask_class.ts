// Sets of characters in PCRE2's words for JavaScript: [classes], \s and its kin, and single characters
// by number. Without PCRE2_UCP these are ASCII's, which JavaScript's \s is not.

/** A range of code points, or a set that has no single one (from > to). */
export interface ClassItem {
    from: number;
    to: number;
    text: string;
}

export interface Shorthand {
    /** The one character it is; else `text` is what stands between brackets. */
    char?: string;
    text: string;
    end: number;
}

const sets: Record<string, string> = {
    d: "0-9",
    D: "\\0-\\/:-\\u{10ffff}",
    w: "0-9A-Z_a-z",
    W: "\\0-\\/:-@\\[-\\^`\\{-\\u{10ffff}",
    s: "\\t\\n\\v\\f\\r ",
    S: "\\0-\\x08\\x0e-\\x1f!-\\u{10ffff}",
    h: "\\t \\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000",
    v: "\\n\\v\\f\\r\\x85\\u2028\\u2029",
    N: "\\0-\\t\\v-\\u{10ffff}",
};
const named: Record<string, string> = {
    alnum: "0-9A-Za-z",
    alpha: "A-Za-z",
    ascii: "\\0-\\x7f",
    blank: " \\t",
    cntrl: "\\0-\\x1f\\x7f",
    digit: "0-9",
    graph: "!-~",
    lower: "a-z",
    print: " -~",
    punct: "!-\\/:-@\\[-`\\{-~",
    space: "\\t\\n\\v\\f\\r ",
    upper: "A-Z",
    word: "0-9A-Z_a-z",
    xdigit: "0-9A-Fa-f",
};
const characters: Record<string, string> = {
    a: "\x07",
    e: "\x1b",
    f: "\f",
    n: "\n",
    r: "\r",
    t: "\t",
};

/** As it may stand anywhere in an expression with the flag "u". */
export function escaped(char: string): string {
    if (/[\^$\\.*+?()[\]{}|/]/.test(char)) {
        return `\\${char}`;
    }
    return /[\p{Cc}\p{Zl}\p{Zp}]/u.test(char) ? `\\u{${char.codePointAt(0)!.toString(16)}}` : char;
}

function sticky(what: RegExp, text: string, at: number): RegExpExecArray | null {
    const expression = new RegExp(what.source, "yu");
    expression.lastIndex = at;
    return expression.exec(text);
}

const byNumber =
    /\\(?:x\{([0-9A-Fa-f]+)\}|N\{U\+([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{0,2})|o\{([0-7]+)\}|(0[0-7]{0,2})|c([\x20-\x7e]))/;

function characterByNumber(text: string, at: number): Shorthand | undefined {
    const found = sticky(byNumber, text, at);
    if (!found) {
        return undefined;
    }
    const [all, braced, named16, short, octal, zero, control] = found;
    const hex = braced ?? named16 ?? short;
    const code =
        hex !== undefined
            ? Number.parseInt(hex || "0", 16)
            : control !== undefined
              ? control.toUpperCase().charCodeAt(0) ^ 0x40
              : Number.parseInt((octal ?? zero)!, 8);
    if (code > 0x10ffff) {
        throw new Error(`there is no character "${all}"`);
    }
    return { char: String.fromCodePoint(code), text: "", end: at + all.length };
}

/** What the backslash at this place begins: one character, or a set of them. */
export function shorthand(text: string, at: number): Shorthand {
    const number = characterByNumber(text, at);
    if (number) {
        return number;
    }
    const property = sticky(/\\([pP])(?:([A-Z])|\{(\^?)([\w &]+)\})/, text, at);
    if (property) {
        return { text: propertyOf(property), end: at + property[0].length };
    }
    const letter = text.codePointAt(at + 1);
    const char = letter === undefined ? "" : String.fromCodePoint(letter);
    const end = at + 1 + char.length;
    const set = sets[char];
    if (set) {
        return { text: set, end };
    }
    const known = characters[char];
    if (known) {
        return { char: known, text: "", end };
    }
    if (char === "" || /[A-Za-z0-9]/.test(char)) {
        throw new Error(`"\\${char}" cannot be said in JavaScript's expressions`);
    }
    return { char, text: "", end };
}

function propertyOf(found: RegExpExecArray): string {
    const [all, letter, short, not, long] = found;
    const name = short ?? long!;
    const kind = not === "^" ? (letter === "p" ? "P" : "p") : letter;
    for (const text of [`\\${kind}{${name}}`, `\\${kind}{Script=${name}}`]) {
        try {
            new RegExp(text, "u");
            return text;
        } catch {
            // The next spelling, or none.
        }
    }
    throw new Error(`"${all}" is no property of characters that JavaScript knows`);
}

// ---- Classes

const nothing = { from: 1, to: 0 };

function single(char: string): ClassItem {
    const code = char.codePointAt(0)!;
    const text = char === "-" ? "\\-" : escaped(char);
    return { from: code, to: code, text };
}

/** One member of a class, before it is known whether a range begins with it. */
function member(text: string, at: number): { item: ClassItem; end: number } {
    const posix = sticky(/\[:(\^?)(\w+):\]/, text, at);
    if (posix) {
        const set = named[posix[2]!];
        if (!set || posix[1] === "^") {
            throw new Error(`"${posix[0]}" is no class that can be said in JavaScript`);
        }
        return { item: { ...nothing, text: set }, end: at + posix[0].length };
    }
    if (text[at] !== "\\") {
        const char = String.fromCodePoint(text.codePointAt(at)!);
        return { item: single(char), end: at + char.length };
    }
    if (text[at + 1] === "b") {
        return { item: single("\b"), end: at + 2 };
    }
    const octal = sticky(/\\([1-7][0-7]{0,2})/, text, at);
    if (octal) {
        const char = String.fromCharCode(Number.parseInt(octal[1]!, 8));
        return { item: single(char), end: at + octal[0].length };
    }
    const found = shorthand(text, at);
    const item = found.char === undefined ? { ...nothing, text: found.text } : single(found.char);
    return { item, end: found.end };
}

/** The class whose bracket stands at this place. */
export function readClass(
    text: string,
    from: number,
): { items: ClassItem[]; isNegative: boolean; end: number } {
    const items: ClassItem[] = [];
    const isNegative = text[from + 1] === "^";
    const first = from + (isNegative ? 2 : 1);
    let at = first;
    while (at < text.length && (text[at] !== "]" || at === first)) {
        let { item, end } = member(text, at);
        const isRange = text[end] === "-" && end + 1 < text.length && text[end + 1] !== "]";
        if (isRange && item.from <= item.to) {
            const last = member(text, end + 1);
            if (last.item.from <= last.item.to) {
                if (last.item.from < item.from) {
                    throw new Error(
                        `a range of a class goes backwards: "${text.slice(at, last.end)}"`,
                    );
                }
                item = {
                    from: item.from,
                    to: last.item.to,
                    text: `${item.text}-${last.item.text}`,
                };
                end = last.end;
            }
        }
        items.push(item);
        at = end;
    }
    if (at >= text.length) {
        throw new Error("a class is not closed");
    }
    return { items, isNegative, end: at + 1 };
}
