// What share of each side a search matches, as the server counts it over the whole of that side.

import { useEffect, useState } from "preact/hooks";
import { askSearch, type SearchTotals as SearchTotalsAnswer } from "../../api/questions";
import { state, ticks } from "../../app";
import { shareText } from "../../core/units";
import type { Scope } from "../../core/url";
import { queryKey } from "../../parts/query_key";
import { type Query, useQuery } from "../../parts/use_query";
import type { Sides } from "./sides";

const PAUSE_MS = 250;

/** The search once typing pauses: a question for each letter would be too many. */
function useSettledSearch(): string {
    const search = state.value.view.search.trim();
    const [settled, setSettled] = useState(search);
    useEffect(() => {
        const timer = setTimeout(() => setSettled(search), PAUSE_MS);
        return () => clearTimeout(timer);
    }, [search]);
    return settled && search ? settled : "";
}

function useShare(scope: Scope, search: string) {
    const { view } = state.value;
    return useQuery(
        search ? `search ${search} ${queryKey(scope, view)}` : null,
        (signal) => askSearch(scope, view, search, signal),
        ticks.value,
    );
}

/** A side may be empty: what appeared has no before. */
function shareOf(q: Query<SearchTotalsAnswer>): string | undefined {
    if (q.error) return "–";
    return q.data && !q.isOld ? shareText(q.data.matched_cum, q.data.total) : undefined;
}

export function SearchTotals(props: Sides) {
    const search = useSettledSearch();
    const before = useShare(props.before, search);
    const after = useShare(props.after, search);
    if (!search) return null;
    const error = [before.error, after.error].find((e) => e && e.code !== "no_data");
    if (error)
        return (
            <span class="cmp-search-totals is-bad" title={error.message}>
                {error.status === 400 ? "no regex" : "?"}
            </span>
        );
    const a = shareOf(before);
    const b = shareOf(after);
    if (!a || !b) return <span class="cmp-search-totals">…</span>;
    return (
        <span
            class="cmp-search-totals"
            role="status"
            title="Share of each whole side in functions that match, with what they call"
        >
            A {a}, B {b}
        </span>
    );
}
