// Names as regexes. The server's filters search the names of functions, files and binaries as they
// were measured, whatever frames are grouped by: what stands on screen may be more, or less.

import type { Granularity } from "./url";

function escaped(text: string): string {
    return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** A filter by an attribute of samples as the server writes it, for people; null: another one. */
export function tagFilterText(filter: string): string | null {
    const found = /^([^=]+)=\^([\s\S]*)\$$/.exec(filter);
    if (!found || !/^(?:[^\\^$.|?*+()[\]{},=]|\\x[0-9a-f]{2}|\\[^\w\s])*$/.test(found[2]))
        return null;
    const value = found[2].replace(/\\(?:x([0-9a-f]{2})|(.))/g, (_, hex, sign) =>
        hex ? String.fromCharCode(Number.parseInt(hex, 16)) : sign,
    );
    return `${found[1]}=${value}`;
}

/** The regex that means exactly this name. */
export function exactRegex(name: string): string {
    return `^${escaped(name)}$`;
}

/** The function that a frame's name on screen is of. */
export function functionOf(name: string, group: Granularity): string {
    switch (group) {
        case "lines":
        case "addresses": {
            const bare = name.replace(/^[0-9a-f]{16} /, "");
            const short = bare.replace(/ \S+:\d+$/, "");
            return short === bare ? withoutFile(bare) : short;
        }
        case "filefunctions":
            return withoutFile(name);
        default:
            return name;
    }
}

/** A function's name may have spaces, too: "operator new(unsigned long)" has no file. */
function withoutFile(name: string): string {
    return name.replace(/ (<[^<>]*>|[^ ()]*[./][^ ()]*)$/, "");
}

/** The regex of a filter that means the frame with this name on screen. */
export function frameRegex(name: string, group: Granularity): string {
    if (group === "packages") return `^${escaped(name)}(\\.|::)`;
    if (group === "binaries") return `(^|/)${escaped(name)}$`;
    return exactRegex(functionOf(name, group));
}
