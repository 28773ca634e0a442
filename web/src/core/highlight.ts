// Colours for source text: which parts of a line are comments, strings, numbers and words of the
// language. A small lexer that goes line by line and carries what is open (a comment, a string) on
// to the next; it never fails, and what it does not know stays plain.

export type TokenKind = "comment" | "string" | "number" | "word";

export interface Token {
    kind: TokenKind;
    start: number;
    end: number;
}

/** What is open at the end of a line: the text that ends it; "": nothing. */
export type LexState = string;

interface Language {
    line: string; // what begins a comment to the end of the line
    block: [string, string] | null;
    long: [string, string][]; // strings over several lines
    quotes: string;
    words: Set<string>;
}

const set = (text: string) => new Set(text.split(" "));

const C_WORDS =
    "alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false float for friend goto if inline int long namespace new noexcept nullptr operator override private protected public register return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while";
const JS_WORDS =
    "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function if implements import in instanceof interface let namespace new null number of private protected public readonly return static string super switch this throw true try type typeof undefined var void while with yield";

const slashes = (words: string, quotes: string, long: [string, string][] = []): Language => ({
    line: "//",
    block: ["/*", "*/"],
    long,
    quotes,
    words: set(words),
});

const LANGUAGES: Record<string, Language> = {
    c: slashes(C_WORDS, "\"'"),
    go: slashes(
        "any bool break byte case chan const continue default defer else error fallthrough false float64 for func go goto if import int int64 interface iota len make map new nil package range return rune select string struct switch true type uint64 var",
        "\"'",
        [["`", "`"]],
    ),
    java: slashes(
        "abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for if implements import instanceof int interface long native new null package private protected public record return short static super switch synchronized this throw throws true false try val var void volatile while fun object when",
        "\"'",
        [['"""', '"""']],
    ),
    js: slashes(JS_WORDS, "\"'", [["`", "`"]]),
    rust: {
        ...slashes(
            "as async await bool break const continue crate dyn else enum extern false fn for i32 i64 if impl in let loop match mod move mut pub ref return self Self static str struct super trait true type u32 u64 u8 unsafe use usize where while",
            '"',
        ),
        long: [['r#"', '"#']],
    },
    python: {
        line: "#",
        block: null,
        long: [
            ['"""', '"""'],
            ["'''", "'''"],
        ],
        quotes: "\"'",
        words: set(
            "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return self True try while with yield",
        ),
    },
};

const ENDINGS: Record<string, string> = {
    c: "c h cc cpp cxx hh hpp hxx inl m mm cu S s",
    go: "go",
    java: "java kt kts scala groovy cs",
    js: "js mjs cjs jsx ts mts cts tsx vue svelte",
    rust: "rs",
    python: "py pyx pyi rb",
};

/** By the end of a file's name; "": not known. */
export function languageOf(file: string): string {
    const ending = /\.([A-Za-z]+)$/.exec(file)?.[1] ?? "";
    for (const [name, endings] of Object.entries(ENDINGS))
        if (ending !== "" && endings.split(" ").includes(ending)) return name;
    return "";
}

/** Behind this, a line is plain: nobody reads that far, and lines may have megabytes. */
const LONGEST = 4000;

/** Where a string that begins at `start` ends; the end of the line when it does not. */
function stringEnd(line: string, start: number, most: number): number {
    const quote = line[start];
    for (let i = start + 1; i < most; i++) {
        if (line[i] === "\\") i++;
        else if (line[i] === quote) return i + 1;
    }
    return most;
}

const isWord = (c: string) => /[\w$]/.test(c);
const isDigit = (c: string) => c >= "0" && c <= "9";

interface Step {
    end: number;
    kind: TokenKind | null;
    state: LexState;
}

/** What begins at a place and may go on over several lines. */
function openAt(l: Language, line: string, at: number, most: number): Step | null {
    const pairs: [string, string, TokenKind][] = l.long.map(([a, b]) => [a, b, "string"]);
    if (l.block) pairs.push([...l.block, "comment"]);
    for (const [begin, finish, kind] of pairs) {
        if (!line.startsWith(begin, at)) continue;
        const end = line.indexOf(finish, at + begin.length);
        if (end < 0) return { end: most, kind, state: finish };
        return { end: Math.min(most, end + finish.length), kind, state: "" };
    }
    return null;
}

function stepAt(l: Language, line: string, at: number, most: number): Step {
    const c = line[at];
    if (line.startsWith(l.line, at)) return { end: most, kind: "comment", state: "" };
    const open = openAt(l, line, at, most);
    if (open) return open;
    if (l.quotes.includes(c)) return { end: stringEnd(line, at, most), kind: "string", state: "" };
    if (!isWord(c)) return { end: at + 1, kind: null, state: "" };
    let end = at + 1;
    while (end < most && (isWord(line[end]) || (isDigit(c) && line[end] === "."))) end++;
    if (isDigit(c)) return { end, kind: "number", state: "" };
    return { end, kind: l.words.has(line.slice(at, end)) ? "word" : null, state: "" };
}

/** The tokens of one line, and what is open behind it. */
export function lexLine(
    language: string,
    line: string,
    before: LexState,
): { tokens: Token[]; state: LexState } {
    const l = LANGUAGES[language];
    const tokens: Token[] = [];
    if (!l) return { tokens, state: "" };
    const most = Math.min(line.length, LONGEST);
    let at = 0;
    let state = before;
    if (before !== "") {
        const end = line.indexOf(before);
        const kind: TokenKind = before === "*/" ? "comment" : "string";
        at = end < 0 ? most : Math.min(most, end + before.length);
        if (at > 0) tokens.push({ kind, start: 0, end: at });
        if (end < 0) return { tokens, state: before };
        state = "";
    }
    while (at < most) {
        const step = stepAt(l, line, at, most);
        if (step.kind) tokens.push({ kind: step.kind, start: at, end: step.end });
        at = step.end;
        state = step.state;
    }
    return { tokens, state };
}

/** Tokens of all lines. */
export function lexText(language: string, lines: readonly string[]): Token[][] {
    let state: LexState = "";
    return lines.map((line) => {
        const lexed = lexLine(language, line, state);
        state = lexed.state;
        return lexed.tokens;
    });
}
