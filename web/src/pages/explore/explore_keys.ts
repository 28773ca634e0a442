// The keys of Explore. Views have more of their own while they hold the focus.

import { useEffect } from "preact/hooks";
import { isTyping, type KeySection, useKeySection } from "../../parts/key_map";
import { patchView, state } from "../../app";
import { focusSearch } from "../../parts/search_box";
import { copyLink } from "../../parts/sentence_bar";
import { compareBefore, nextColour, TABS, withSelected } from "./tabs_line";

const section: KeySection = {
    title: "Explore",
    keys: [
        ["1 – 9", "views, as in the tabs"],
        ["t", "waits"],
        ["/", "search; Enter filters, Escape clears"],
        ["i", "invert"],
        ["r", "collapse recursion"],
        ["c", "next colours"],
        ["f", "keep stacks with the selected function"],
        ["h", "hide the selected function"],
        ["s", "callers and callees of it"],
        ["x", "compare with the period before"],
        ["y", "copy link"],
    ],
};

const actions: Record<string, () => void> = {
    "/": focusSearch,
    i: () => patchView({ invert: !state.value.view.invert, root: [] }),
    r: () => patchView({ recursion: !state.value.view.recursion, root: [] }),
    c: nextColour,
    f: () => withSelected("focus"),
    h: () => withSelected("hide"),
    s: () => withSelected("callers"),
    x: compareBefore,
    y: copyLink,
};

export function useExploreKeys() {
    useKeySection(section);
    useEffect(() => {
        const onKey = (e: KeyboardEvent) => {
            if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || isTyping(e)) return;
            const tab = TABS.find((t) => t.key === e.key);
            const action = tab ? () => patchView({ view: tab.view }) : actions[e.key];
            if (!action) return;
            e.preventDefault();
            action();
        };
        document.addEventListener("keydown", onKey);
        return () => document.removeEventListener("keydown", onKey);
    }, []);
}
