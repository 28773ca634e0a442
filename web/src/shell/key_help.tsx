// All keys, by section: `?`.

import { useEffect, useRef } from "preact/hooks";
import { keySections } from "../parts/key_map";
import { isHelpOpen } from "./keys";

export function KeyHelp() {
    const box = useRef<HTMLDialogElement>(null);
    useEffect(() => {
        // Modal: Tab stays inside, and closing gives the focus back.
        const dialog = box.current;
        dialog?.showModal();
        return () => dialog?.close();
    }, []);
    const close = () => {
        isHelpOpen.value = false;
    };
    return (
        <dialog
            class="dialog"
            aria-label="Keys"
            ref={box}
            onClose={close}
            onPointerDown={(e) => e.target === e.currentTarget && close()}
        >
            <div class="dialog-body">
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
        </dialog>
    );
}
