// The line above the view: which view, in which mode, and what is searched, grouped and filtered.

import { patchView, state } from "../../app";
import type { DiffMode, Granularity } from "../../core/url";
import { AddFilter, FilterChips } from "../../parts/filter_chips";
import { SearchTotals } from "./search_totals";
import { type CompareView, setExtra, setMode, type Sides, type Width } from "./sides";

export const COMPARE_VIEWS: { view: CompareView; name: string; key: string }[] = [
    { view: "flame", name: "Flame", key: "1" },
    { view: "side", name: "Side by side", key: "2" },
    { view: "table", name: "Table", key: "3" },
    { view: "why", name: "What explains it", key: "4" },
];

const MODES: { mode: DiffMode; name: string; title: string }[] = [
    { mode: "share", name: "Share", title: "Each side as shares of its own whole" },
    { mode: "absolute", name: "Absolute", title: "Amounts as they are" },
    { mode: "ratio", name: "Ratio", title: "How many times as much" },
];

const WIDTHS: { width: Width; name: string; title: string }[] = [
    { width: "after", name: "B", title: "Boxes as wide as side B" },
    { width: "before", name: "A", title: "Boxes as wide as side A" },
    {
        width: "union",
        name: "A or B",
        title: "Boxes as wide as the larger side: nothing is hidden",
    },
];

const GROUPS: { value: Granularity; name: string }[] = [
    { value: "functions", name: "functions" },
    { value: "lines", name: "lines" },
    { value: "files", name: "files" },
    { value: "packages", name: "packages" },
    { value: "binaries", name: "binaries" },
];

export function currentView(): CompareView {
    return COMPARE_VIEWS.find((v) => v.view === state.value.extra.view)?.view ?? "flame";
}

export function currentWidth(): Width {
    return WIDTHS.find((w) => w.width === state.value.extra.width)?.width ?? "after";
}

function Tabs(props: { current: CompareView }) {
    const pick = (view: CompareView) => setExtra("view", view === "flame" ? "" : view);
    const onKey = (e: KeyboardEvent) => {
        const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
        if (step === 0) return;
        e.preventDefault();
        const at = COMPARE_VIEWS.findIndex((v) => v.view === props.current);
        const next = COMPARE_VIEWS[(at + step + COMPARE_VIEWS.length) % COMPARE_VIEWS.length];
        pick(next.view);
        document.getElementById(`cmp-tab-${next.view}`)?.focus();
    };
    return (
        <div class="cmp-tabs" role="tablist" aria-label="Views" onKeyDown={onKey}>
            {COMPARE_VIEWS.map((v) => (
                <button
                    key={v.view}
                    id={`cmp-tab-${v.view}`}
                    type="button"
                    role="tab"
                    class="cmp-tab"
                    aria-selected={props.current === v.view}
                    aria-controls="cmp-view"
                    tabIndex={props.current === v.view ? 0 : -1}
                    title={`${v.name} (${v.key})`}
                    onClick={() => pick(v.view)}
                >
                    {v.name}
                </button>
            ))}
        </div>
    );
}

function Toggle<T extends string>(props: {
    label: string;
    current: T;
    all: readonly { value: T; name: string; title: string }[];
    pick: (value: T) => void;
}) {
    return (
        <div class="cmp-group" role="group" aria-label={props.label}>
            {props.all.map((o) => (
                <button
                    key={o.value}
                    type="button"
                    class="button small"
                    aria-pressed={props.current === o.value}
                    title={o.title}
                    onClick={() => props.pick(o.value)}
                >
                    {o.name}
                </button>
            ))}
        </div>
    );
}

export function ViewBar(props: { current: CompareView; mode: DiffMode; sides: Sides }) {
    const v = state.value.view;
    const isPicture = props.current === "flame" || props.current === "side";
    return (
        <>
            <div class="cmp-view-bar">
                <Tabs current={props.current} />
                <Toggle
                    label="How changes are measured"
                    current={props.mode}
                    all={MODES.map((m) => ({ value: m.mode, name: m.name, title: m.title }))}
                    pick={setMode}
                />
                {props.current === "flame" && (
                    <div class="cmp-labelled">
                        <span class="muted">Width</span>
                        <Toggle
                            label="Width of boxes"
                            current={currentWidth()}
                            all={WIDTHS.map((w) => ({
                                value: w.width,
                                name: w.name,
                                title: w.title,
                            }))}
                            pick={(w) => setExtra("width", w === "after" ? "" : w)}
                        />
                    </div>
                )}
                {isPicture && (
                    <button
                        type="button"
                        class="button small"
                        aria-pressed={v.invert}
                        title="The functions that spend first, their callers below (i)"
                        onClick={() => patchView({ invert: !v.invert, root: [] })}
                    >
                        Invert
                    </button>
                )}
                <span class="cmp-space" />
                <label class="cmp-labelled">
                    <span class="muted">by</span>
                    <select
                        value={v.group}
                        aria-label="Group by"
                        onChange={(e) =>
                            patchView({ group: e.currentTarget.value as Granularity, root: [] })
                        }
                    >
                        {GROUPS.map((g) => (
                            <option key={g.value} value={g.value}>
                                {g.name}
                            </option>
                        ))}
                    </select>
                </label>
                <AddFilter />
                <SearchTotals {...props.sides} />
                <input
                    type="search"
                    id="cmp-search"
                    class="cmp-search"
                    placeholder="Search  /"
                    aria-label="Search functions; text, or /regex/"
                    spellcheck={false}
                    value={v.search}
                    onInput={(e) => patchView({ search: e.currentTarget.value }, { replace: true })}
                />
            </div>
            <FilterChips />
        </>
    );
}

export function Legend(props: { hasStatistics: boolean; mode: DiffMode }) {
    const same = !props.hasStatistics
        ? "unchanged"
        : props.mode === "absolute"
          ? "share unchanged or not significant: it moved with everything else"
          : "unchanged or not significant";
    return (
        <ul class="cmp-legend" aria-label="Colours">
            <li>
                <span class="cmp-swatch is-less" /> less in B
            </li>
            <li>
                <span class="cmp-swatch is-more" /> more in B
            </li>
            <li>
                <span class="cmp-swatch is-gone" /> only in A
            </li>
            <li>
                <span class="cmp-swatch is-new" /> only in B
            </li>
            <li>
                <span class="cmp-swatch is-same" /> {same}
            </li>
        </ul>
    );
}
