// pprof's filters as chips that can be edited and dropped, and the menu that adds them.

import { useState } from "preact/hooks";
import { addFilter, changeFilter, patchView, state } from "../app";
import { FILTER_WORDS, filterText, PRESETS } from "../core/filter_presets";
import type { Filter, FilterKind } from "../core/url";
import { Icon } from "./icons";
import { Popover } from "./popover";

function setFilters(filters: Filter[]) {
    patchView({ filters, root: [] });
}

function FilterForm(props: { old?: Filter; done: (f: Filter) => void }) {
    const [kind, setKind] = useState<FilterKind>(props.old?.kind ?? "focus");
    const [value, setValue] = useState(props.old?.value ?? "");
    const words = FILTER_WORDS.find((w) => w.kind === kind);
    return (
        <form
            class="filter-form"
            onSubmit={(e) => {
                e.preventDefault();
                if (value.trim()) props.done({ kind, value: value.trim() });
            }}
        >
            <select
                aria-label="What the filter does"
                value={kind}
                onChange={(e) => setKind(e.currentTarget.value as FilterKind)}
            >
                {FILTER_WORDS.map((w) => (
                    <option key={w.kind} value={w.kind}>
                        {w.title}
                    </option>
                ))}
            </select>
            <small>{words?.note}</small>
            <input
                class="mono"
                data-focus
                aria-label="Regex"
                placeholder={kind.startsWith("tag") ? "key=regex" : "regex: function, file, binary"}
                value={value}
                spellcheck={false}
                onInput={(e) => setValue(e.currentTarget.value)}
            />
            <button type="submit" class="button primary" disabled={!value.trim()}>
                {props.old ? "Change" : "Add"}
            </button>
        </form>
    );
}

export function FilterMenu(props: { close: () => void }) {
    return (
        <div class="filter-menu">
            <FilterForm
                done={(f) => {
                    props.close();
                    addFilter(f);
                }}
            />
            <hr />
            {PRESETS.map((p) => (
                <button
                    key={p.title}
                    type="button"
                    class="menu-row"
                    title={`${p.filter.kind}: ${p.filter.value}`}
                    onClick={() => {
                        props.close();
                        addFilter(p.filter);
                    }}
                >
                    {p.title}
                </button>
            ))}
        </div>
    );
}

export function FilterList() {
    const filters = state.value.view.filters;
    return (
        <div class="filters" role="group" aria-label="Filters">
            {filters.map((f, i) => (
                <span class="filter" key={`${f.kind} ${f.value}`}>
                    <Popover
                        class="filter-text mono"
                        title={`Change: ${f.kind}: ${f.value}`}
                        label={filterText(f)}
                    >
                        {(close) => (
                            <FilterForm
                                old={f}
                                done={(next) => {
                                    close();
                                    changeFilter(i, next);
                                }}
                            />
                        )}
                    </Popover>
                    <button
                        type="button"
                        class="chip-close"
                        aria-label={`Drop ${filterText(f)}`}
                        onClick={() => setFilters(filters.filter((_, k) => k !== i))}
                    >
                        <Icon name="close" size={12} />
                    </button>
                </span>
            ))}
            {filters.length > 1 && (
                <button type="button" class="button small quiet" onClick={() => setFilters([])}>
                    Drop all
                </button>
            )}
        </div>
    );
}
