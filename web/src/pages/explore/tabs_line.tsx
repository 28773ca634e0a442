// The views as tabs, search on the same line, and how the picture is made.

import { addFilter, navigate, patchView, state } from "../../app";
import type { ColourMode, ViewName } from "../../core/url";
import { AddFilter } from "../../parts/filter_chips";
import { lazy } from "../../parts/lazy";
import { Popover } from "../../parts/popover";
import { SearchBox } from "../../parts/search_box";
import { frameRegex } from "../../core/regex";
import { beforeState } from "../../parts/sentence_bar";
import "./tabs_line.css";

const OptionsPanel = lazy(async () => (await import("./options_panel")).OptionsPanel);

export const TABS: readonly { view: ViewName; name: string; key: string }[] = [
    { view: "flame", name: "Flame", key: "1" },
    { view: "icicle", name: "Icicle", key: "2" },
    { view: "top", name: "Top", key: "3" },
    { view: "tree", name: "Tree", key: "4" },
    { view: "callers", name: "Callers/Callees", key: "5" },
    { view: "graph", name: "Graph", key: "6" },
    { view: "source", name: "Source", key: "7" },
    { view: "heat", name: "Heat map", key: "8" },
    { view: "labels", name: "Labels", key: "9" },
    { view: "waits", name: "Waits", key: "t" },
];

export const COLOURS: [ColourMode, string][] = [
    ["package", "package"],
    ["kind", "kind of frame"],
    ["binary", "binary"],
    ["value", "own time"],
    ["mono", "one colour"],
];

export function nextColour() {
    const at = COLOURS.findIndex(([c]) => c === state.value.view.colour);
    patchView({ colour: COLOURS[(at + 1) % COLOURS.length][0] }, { replace: true });
}

/** What keys and menus do with the function that is selected. */
export function withSelected(what: "focus" | "hide" | "callers") {
    const { selected, group } = state.value.view;
    if (!selected) return;
    if (what === "callers") patchView({ view: "callers" });
    else addFilter({ kind: what, value: frameRegex(selected, group) });
}

export function compareBefore() {
    navigate(beforeState(state.value.scope));
}

function Options() {
    const v = state.value.view;
    const changed = [v.group !== "functions", v.invert, v.recursion, v.relative].filter(
        Boolean,
    ).length;
    return (
        <Popover
            title="How it is shown"
            label={changed > 0 ? `Options · ${changed}` : "Options"}
            align="right"
        >
            {() => <OptionsPanel />}
        </Popover>
    );
}

export function TabsLine() {
    const here = state.value.view.view;
    const onKey = (e: KeyboardEvent) => {
        const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
        if (!step) return;
        e.preventDefault();
        e.stopPropagation();
        const at = TABS.findIndex((t) => t.view === here);
        const next = TABS[(at + step + TABS.length) % TABS.length];
        patchView({ view: next.view });
        document.getElementById(`tab-${next.view}`)?.focus();
    };
    return (
        <div class="tabs-line">
            <div class="tabs" role="tablist" aria-label="Views" onKeyDown={onKey}>
                {TABS.map((t) => (
                    <button
                        key={t.view}
                        id={`tab-${t.view}`}
                        type="button"
                        role="tab"
                        class="tab"
                        aria-selected={t.view === here}
                        aria-controls="view"
                        tabIndex={t.view === here ? 0 : -1}
                        title={`${t.name} (${t.key})`}
                        onClick={() => patchView({ view: t.view })}
                    >
                        {t.name}
                    </button>
                ))}
            </div>
            <div class="tabs-tools">
                <SearchBox />
                <AddFilter />
                <Options />
            </div>
        </div>
    );
}
