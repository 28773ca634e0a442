// The keyboard map. Pages announce their own keys with useKeySection(); `?` shows all of them.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { PageName } from "../core/url";
import { isTyping, keySections } from "../parts/key_map";

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

export function KeyHelp() {
    const box = useRef<HTMLDivElement>(null);
    useEffect(() => box.current?.focus(), []);
    const close = () => {
        isHelpOpen.value = false;
    };
    return (
        <div class="overlay" onPointerDown={(e) => e.target === e.currentTarget && close()}>
            <div
                class="dialog"
                role="dialog"
                aria-modal="true"
                aria-label="Keys"
                tabIndex={-1}
                ref={box}
            >
                <div class="dialog-head">
                    <h1>Keys</h1>
                    <button type="button" class="button quiet" onClick={close}>
                        Close
                    </button>
                </div>
                <div class="key-sections">
                    {keySections.value.map((section) => (
                        <section key={section.title}>
                            <h2>{section.title}</h2>
                            <dl class="key-list">
                                {section.keys.map(([key, what]) => (
                                    <div key={key}>
                                        <dt>
                                            <kbd>{key}</kbd>
                                        </dt>
                                        <dd>{what}</dd>
                                    </div>
                                ))}
                            </dl>
                        </section>
                    ))}
                </div>
            </div>
        </div>
    );
}
