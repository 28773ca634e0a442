// The keyboard map. Pages announce their own keys with useKeySection(); `?` shows all of them.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { PageName } from "../core/url";
import { isTyping } from "../parts/key_map";

export const isHelpOpen = signal(false);

export function useKeys(rail: { page: PageName; key: string }[], go: (page: PageName) => void) {
    const going = useRef(0);
    useEffect(() => {
        const onKey = (e: KeyboardEvent) => {
            if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey) return;
            if (e.key === "Escape" && isHelpOpen.value) {
                isHelpOpen.value = false;
                return;
            }
            if (isTyping(e)) return;
            if (e.key === "?") {
                isHelpOpen.value = !isHelpOpen.value;
            } else if (e.key === "g") {
                going.current = Date.now();
                return;
            } else if (Date.now() - going.current < 1200) {
                const found = rail.find((r) => r.key === e.key);
                if (found) {
                    e.preventDefault();
                    e.stopImmediatePropagation();
                    go(found.page);
                }
            }
            going.current = 0;
        };
        document.addEventListener("keydown", onKey, true);
        return () => document.removeEventListener("keydown", onKey, true);
    }, []);
}
