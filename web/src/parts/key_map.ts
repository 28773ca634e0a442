// Which keys there are, by section: pages add theirs while they are shown, the help lists them.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";

export interface KeySection {
    title: string;
    keys: [string, string][];
}

/** True while somebody types: single letters are text then. */
export function isTyping(e: KeyboardEvent): boolean {
    const t = e.target as HTMLElement | null;
    return !!t && (/^(INPUT|TEXTAREA|SELECT)$/.test(t.tagName) || t.isContentEditable);
}

/** True while single keys are not the page's: somebody types, or is in a dialog, popover or menu. */
export function isBusyElsewhere(e: KeyboardEvent): boolean {
    const t = e.target;
    const isInside = t instanceof Element && t.closest("dialog, [role=dialog], [role=menu]");
    return isTyping(e) || !!isInside;
}

const everywhere: KeySection = {
    title: "Everywhere",
    keys: [
        ["?", "this list"],
        ["g h", "Home"],
        ["g e", "Explore"],
        ["g c", "Compare"],
        ["g t", "Traces"],
        ["g m", "Memory"],
        ["g i", "Insights"],
        ["g f", "Fleet"],
        ["g r", "Triggers"],
        ["g a", "Admin"],
        ["g o", "Open file"],
    ],
};

export const keySections = signal<readonly KeySection[]>([everywhere]);

export function useKeySection(section: KeySection) {
    useEffect(() => {
        keySections.value = [...keySections.value, section];
        return () => {
            keySections.value = keySections.value.filter((s) => s !== section);
        };
    }, [section]);
}
