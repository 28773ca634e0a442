// How many filters of a kind the server takes: what it would refuse is not sent.

import type { Filter } from "./url";

/** Of tagfocus, and as many of tagignore. */
export const MAX_TAG_FILTERS = 8;

/** Why a filter cannot be added to these, in words. */
export function filterRefusal(others: readonly Filter[], f: Filter): string | null {
    if (f.kind !== "tagfocus" && f.kind !== "tagignore") return null;
    if (others.filter((x) => x.kind === f.kind).length < MAX_TAG_FILTERS) return null;
    return `Not added: the server takes ${MAX_TAG_FILTERS} filters of ${f.kind}. Drop one first`;
}
