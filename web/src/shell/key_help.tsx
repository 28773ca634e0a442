// All keys, by section: `?`.

import { useEffect, useRef } from "preact/hooks";
import { keySections } from "../parts/key_map";
import { isHelpOpen } from "./keys";

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
