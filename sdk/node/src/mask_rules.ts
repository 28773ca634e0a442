// The rules by which texts are hidden, in the server's words: "paths|functions: #^/build/[^/]+/#/b/#".
// The same rules make the same of the same text here and there.
import { compilePattern, type Pattern } from "./mask_pattern.js";

export const maskHidden = "***";
export const maskTextMax = 32 << 10;
const rulesMax = 64;

export type MaskRole = "functions" | "paths" | "labels";

export interface MaskRule {
    text: string;
    roles: Set<string>;
    pattern: Pattern;
    replacement: string;
    isBuiltIn: boolean;
    slow: number; // texts that it was given up on
}

/** As the server's: each begins where no letter of a token stands before. */
const builtIn = [
    "labels|paths: /(?i)(?<![a-z])(bearer|basic)\\s++[a-z0-9._~+\\/=-]{8,}+/$1 ***/",
    "labels|paths: /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\\.[A-Za-z0-9_-]{4,}+(?:\\.[A-Za-z0-9_-]*+)?/***/",
    "labels|paths: /(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])/***/",
    "labels|paths: /(?<![A-Za-z0-9_-])(?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|sk-|sk_live_|AIza|npm_|dop_v1_)[A-Za-z0-9_-]{16,}+/***/",
    "labels|paths: /(?i)(?<![a-z])((?:password|passwd|pwd|secret|client_secret|token|access_token|auth_token|api[_-]?key|access[_-]?key)=)[^&\\s\"';,]++/$1***/",
    "labels|paths: #(://[^\\s/:@]*+:)[^\\s/@]++@#$1***@#",
    "labels|paths: /(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY.*+/***/",
    "labels|paths: #(?<![A-Za-z0-9_.-])(/(?:home|Users)/)[^/\\s]++(?=/)#$1*#",
    "labels|paths: #(?i)(?<![a-z])([a-z]:\\\\users\\\\)[^\\\\]++(?=\\\\)#$1*#",
];

/** Rules that can be used, and what is wrong with the others. */
export function readMaskRules(texts: string[], withBuiltIn: boolean) {
    const rules: MaskRule[] = [];
    const problems: string[] = [];
    if (texts.length > rulesMax) {
        problems.push(`${texts.length} mask rules are more than ${rulesMax}`);
    }
    for (const text of withBuiltIn ? builtIn : []) {
        rules.push(readRule(text, true));
    }
    for (const text of texts.slice(0, rulesMax)) {
        try {
            rules.push(readRule(text, false));
        } catch (error) {
            problems.push((error as Error).message);
        }
    }
    return { rules, problems };
}

function readRule(text: string, isBuiltIn: boolean): MaskRule {
    const colon = text.indexOf(":");
    const roles = text
        .slice(0, Math.max(colon, 0))
        .split("|")
        .map((role) => role.trim());
    if (!roles.every((role) => ["functions", "paths", "labels"].includes(role))) {
        throw new Error(
            `mask rule "${text}" does not begin with "paths", "functions" or "labels" (or several ` +
                `with '|' between them) and a colon`,
        );
    }
    const rest = text.slice(colon + 1).trim();
    const parts = partsOf(rest.slice(1), rest[0] ?? "");
    if (parts.length !== 3 || parts[2] !== "" || rest[0] === "\\") {
        throw new Error(`mask rule "${text}" is not /PATTERN/REPLACEMENT/`);
    }
    const [source, replacement] = parts as [string, string];
    if (source === "") {
        throw new Error(`mask rule "${text}" has an empty pattern`);
    }
    try {
        const pattern = compilePattern(source);
        return { text, roles: new Set(roles), pattern, replacement, isBuiltIn, slow: 0 };
    } catch (error) {
        const why = (error as Error).message;
        throw new Error(`mask rule "${text}": bad regular expression "${source}": ${why}`);
    }
}

/** A backslash before the divider makes it one of the text. */
function partsOf(text: string, divider: string): string[] {
    const parts = [""];
    for (let i = 0; i < text.length; i++) {
        let char = text[i]!;
        if (char === divider) {
            parts.push("");
            continue;
        }
        if (char === "\\" && i + 1 < text.length) {
            const next = text[++i]!;
            char = next === divider ? next : char + next;
        }
        parts[parts.length - 1] += char;
    }
    return parts;
}

// ---- Applying them

export function isTooLong(text: string): boolean {
    return (
        text.length > maskTextMax ||
        (text.length * 3 > maskTextMax && Buffer.byteLength(text) > maskTextMax)
    );
}

/** One rule wherever it matches; undefined when the text grows too long. */
export function applyRule(rule: MaskRule, text: string): string | undefined {
    const { regexp, groups } = rule.pattern;
    let out = "";
    let at = 0;
    let from = 0;
    while (from <= text.length) {
        regexp.lastIndex = from;
        const found = regexp.exec(text);
        if (!found) {
            break;
        }
        if (isWithinPair(text, found.index)) {
            from = found.index + 1; // V8 finds empty places where no character begins
            continue;
        }
        if (out.length > maskTextMax) {
            return undefined;
        }
        const end = found.index + found[0].length;
        out += text.slice(at, found.index) + replacementOf(rule.replacement, found, groups);
        at = end;
        // Behind an empty match the next is looked for one character on.
        from = end > found.index ? end : end + ((text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1);
    }
    return at === 0 && out === "" ? text : out + text.slice(at);
}

function isWithinPair(text: string, at: number): boolean {
    return at > 0 && (text.codePointAt(at - 1) ?? 0) > 0xffff;
}

function replacementOf(replacement: string, found: RegExpExecArray, groups: number[]): string {
    return replacement.replace(/\$([$0-9])/g, (_, what: string) =>
        what === "$" ? "$" : (found[groups[Number(what)] ?? -1] ?? ""),
    );
}
