// The keys of Explore. Views have more of their own while they hold the focus.

import { useEffect } from "preact/hooks";
import { isBusyElsewhere, type KeySection, useKeySection } from "../../parts/key_map";
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

const flameSection: KeySection = {
    title: "Flame graph, while it has the focus",
    keys: [
        ["← → ↑ ↓", "from frame to frame"],
        ["Enter", "zoom to the frame"],
        ["Backspace", "zoom out to its caller"],
        ["0", "all of it"],
        ["+ -", "closer, farther (w is +)"],
        ["a d", "to the left, to the right"],
        ["PgUp PgDn", "scroll"],
        ["Space", "select the function"],
        [".", "menu of the frame"],
        ["o", "open what was left out under it"],
        ["n N", "next match, the one before"],
        ["f h s", "as above, of the frame with the focus"],
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
    useKeySection(flameSection);
    useEffect(() => {
        const onKey = (e: KeyboardEvent) => {
            if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey) return;
            if (isBusyElsewhere(e)) return;
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
