// Search: marks what matches in every view and says what share of the whole profile it is, as the
// server counts it. Enter makes a filter of it.

import { useEffect, useRef, useState } from "preact/hooks";
import { askSearch, searchRegex } from "../api/questions";
import { addFilter, patchView, state, ticks } from "../app";
import { shareText } from "../core/units";
import { queryKey } from "./query_key";
import { Icon } from "./icons";
import { useQuery } from "./use_query";
import "./search_box.css";

const INPUT_ID = "search";

export function focusSearch() {
    const input = document.getElementById(INPUT_ID) as HTMLInputElement | null;
    input?.focus();
    input?.select();
}

function Totals() {
    const { scope, view } = state.value;
    const q = useQuery(
        view.search ? `search ${view.search} ${queryKey(scope, view)}` : null,
        (signal) => askSearch(scope, view, view.search, signal),
        ticks.value,
    );
    if (!view.search) return null;
    if (q.error) {
        const isRegex = q.error.status === 400;
        return (
            <span class="search-totals is-bad" title={q.error.message}>
                {isRegex ? "no regex" : "?"}
            </span>
        );
    }
    const t = q.isOld ? undefined : q.data;
    const text = t ? (t.functions === 0 ? "no match" : shareText(t.matched_cum, t.total)) : "…";
    const title = t
        ? `${t.functions} functions match: ${shareText(t.matched_cum, t.total)} of the whole profile with what they call, ${shareText(t.matched_flat, t.total)} by themselves`
        : undefined;
    return (
        <span class="search-totals" title={title} role="status">
            {text}
        </span>
    );
}

export function SearchBox() {
    const search = state.value.view.search;
    const [text, setText] = useState(search);
    const timer = useRef(0);
    useEffect(() => setText(search), [search]);
    const apply = (value: string) => {
        clearTimeout(timer.current);
        if (value !== state.value.view.search) patchView({ search: value }, { replace: true });
    };
    const onKey = (e: KeyboardEvent) => {
        if (e.key === "Enter" && text.trim()) {
            e.preventDefault();
            clearTimeout(timer.current);
            setText("");
            addFilter({ kind: "focus", value: searchRegex(text.trim()) }, { search: "" });
        } else if (e.key === "Escape") {
            e.stopPropagation();
            setText("");
            apply("");
            (e.target as HTMLElement).blur();
        }
    };
    return (
        <div class="search">
            <Icon name="search" size={16} />
            <input
                id={INPUT_ID}
                type="text"
                placeholder="Search  /"
                aria-label="Search functions; Enter keeps only stacks with them"
                title="Text, or /regex/. Enter keeps only stacks that match."
                spellcheck={false}
                autocomplete="off"
                value={text}
                onInput={(e) => {
                    const value = e.currentTarget.value;
                    setText(value);
                    clearTimeout(timer.current);
                    timer.current = window.setTimeout(() => apply(value.trim()), 200);
                }}
                onKeyDown={onKey}
            />
            <Totals />
        </div>
    );
}
