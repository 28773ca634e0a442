// What is shown, as text for elsewhere: a table for spreadsheets, a command for a terminal.

import { FILTERS, type FilterKind, selectorText, type State } from "./url";

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

/** The command that answers the same question in a terminal. */
export function cliCommand(s: State, url: string): string {
    const words = ["vesta", "top"];
    if (s.scope.file) words.push(s.scope.file.replace(/^\d+-/, ""));
    else
        words.push(selectorText(s.scope) || "{}", "--from", s.scope.from, "--until", s.scope.until);
    const isOption = (k: FilterKind) => FILTERS.includes(k);
    for (const f of s.view.filters) if (isOption(f.kind)) words.push(`-${f.kind}=${f.value}`);
    if (s.view.group !== "functions") words.push(`-granularity=${s.view.group}`);
    if (!s.scope.file) words.push("--url", url);
    return words.map(shellWord).join(" ");
}
