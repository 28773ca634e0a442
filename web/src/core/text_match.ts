// What a search finds in a text: the same rule as the server's (plain text is a substring in any
// case, /x/ a regex), for marking what is on screen. Totals of a search are the server's.

export type Span = [start: number, end: number];

/** The search as a regex; null: it searches nothing, or is no regex (yet: somebody types). */
export function searchPattern(search: string): RegExp | null {
    if (search === "") return null;
    const regex = /^\/(.*)\/$/s.exec(search);
    if (!regex) return new RegExp(search.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
    const isFolded = regex[1].startsWith("(?i)");
    try {
        return new RegExp(isFolded ? regex[1].slice(4) : regex[1], isFolded ? "gi" : "g");
    } catch {
        return null;
    }
}

export function isMatch(pattern: RegExp | null, text: string): boolean {
    if (!pattern) return false;
    pattern.lastIndex = 0;
    return pattern.test(text);
}

/** Where it matches, at most `limit` places; matches of nothing are left out. */
export function matchSpans(pattern: RegExp | null, text: string, limit = 20): Span[] {
    const spans: Span[] = [];
    if (!pattern) return spans;
    pattern.lastIndex = 0;
    while (spans.length < limit) {
        const found = pattern.exec(text);
        if (!found) break;
        if (found[0] === "") pattern.lastIndex++;
        else spans.push([found.index, found.index + found[0].length]);
        if (pattern.lastIndex > text.length) break;
    }
    return spans;
}

/**
 * A name as the part that may be clipped first and the part that says which function it is:
 * "github.com/x/y." and "(*T).Do", "com.example." and "Cart.add".
 */
export function splitName(name: string): [string, string] {
    const end = /[(<[ ]/.exec(name)?.index ?? name.length;
    const plain = name.slice(0, end);
    const slash = plain.lastIndexOf("/");
    if (slash > 0 && slash < name.length - 1)
        return [name.slice(0, slash + 1), name.slice(slash + 1)];
    const parts = /^((?:[\w$]+\.){2,})([A-Z_$][\w$]*\.[\w$]+)$/.exec(plain);
    if (parts) return [parts[1], name.slice(parts[1].length)];
    return ["", name];
}

/** As much of a text as a tooltip can show. */
export function clipText(text: string, most = 500): string {
    return text.length > most ? `${text.slice(0, most)}…` : text;
}
