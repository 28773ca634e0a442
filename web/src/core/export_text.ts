// What is shown, as text for elsewhere: a table for spreadsheets, a command for a terminal.

import { exactRegex, tagFilterText } from "./regex";
import { type Filter, type FilterKind, FILTERS, selectorText, type State } from "./url";

/** Spreadsheets run cells that look like formulas; an apostrophe makes them text again. */
function csvCell(v: string | number): string {
    if (typeof v === "number") return String(v);
    const safe = /^[=+\-@\t\r]/.test(v) ? `'${v}` : v;
    return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function csvText(rows: readonly (readonly (string | number)[])[]): string {
    return rows.map((r) => `${r.map(csvCell).join(",")}\n`).join("");
}

/** One word for a POSIX shell. */
export function shellWord(text: string): string {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
}

/**
 * Commands take one filter by attributes, as pprof does: several that are exact ("key=^value$")
 * become patterns of "key:value", of which all must match, or any.
 */
function joinTags(filters: readonly Filter[], kind: FilterKind): Filter[] {
    const own = filters.filter((f) => f.kind === kind);
    const exact = own.map((f) => (tagFilterText(f.value) ? f.value.split(/=\^(.*)/s) : null));
    if (own.length < 2 || exact.includes(null)) return own;
    const patterns = exact.map((e) => `${exactRegex(e![0]).slice(0, -1)}:${e![1]}`);
    return [{ kind, value: patterns.join(kind === "tagfocus" ? "," : "|") }];
}

/** The command that answers the same question in a terminal. */
export function cliCommand(s: State, url: string): string {
    const words = ["vesta", "top"];
    if (s.scope.file) words.push(s.scope.file.replace(/^\d+-/, ""));
    else
        words.push(selectorText(s.scope) || "{}", "--from", s.scope.from, "--until", s.scope.until);
    const { filters } = s.view;
    const others = filters.filter((f) => FILTERS.includes(f.kind) && !f.kind.startsWith("tag"));
    for (const f of [
        ...others,
        ...joinTags(filters, "tagfocus"),
        ...joinTags(filters, "tagignore"),
    ])
        words.push(`-${f.kind}=${f.value}`);
    if (s.view.group !== "functions") words.push(`-granularity=${s.view.group}`);
    if (!s.scope.file) words.push("--url", url);
    return words.map(shellWord).join(" ");
}
