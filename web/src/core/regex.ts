// Names as regexes.

/** The regex that means exactly this name. */
export function exactRegex(name: string): string {
    return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}
