// A dialog that asks before something is done that others would notice; for what cannot be undone, a
// word has to be typed.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "./confirm.css";

export function Confirm(props: {
    title: string;
    action: string; // on the button: "Revoke"
    word?: string; // to be typed
    isDanger?: boolean;
    isBlocked?: boolean; // the form inside is not complete
    onYes: () => Promise<void> | void;
    onClose: () => void;
    children?: ComponentChildren;
}) {
    const dialog = useRef<HTMLDialogElement>(null);
    const [typed, setTyped] = useState("");
    const [problem, setProblem] = useState("");
    const [isBusy, setBusy] = useState(false);
    useEffect(() => dialog.current?.showModal(), []);
    const yes = async (e: Event) => {
        e.preventDefault();
        setBusy(true);
        setProblem("");
        try {
            await props.onYes();
            props.onClose();
        } catch (e) {
            setProblem((e as Error).message);
            setBusy(false);
        }
    };
    const isLocked = props.isBlocked || (props.word !== undefined && typed.trim() !== props.word);
    return (
        <dialog class="confirm" ref={dialog} aria-label={props.title} onClose={props.onClose}>
            <form onSubmit={yes}>
                <h2>{props.title}</h2>
                {props.children}
                {props.word !== undefined && (
                    <label class="confirm-word">
                        <span>
                            Type <code>{props.word}</code> to go on
                        </span>
                        <input
                            value={typed}
                            autocomplete="off"
                            onInput={(e) => setTyped(e.currentTarget.value)}
                        />
                    </label>
                )}
                {problem && (
                    <p class="confirm-problem" role="alert">
                        {problem}
                    </p>
                )}
                <div class="confirm-buttons">
                    <button type="button" class="button" onClick={props.onClose}>
                        Cancel
                    </button>
                    <button
                        type="submit"
                        class={props.isDanger ? "button primary confirm-danger" : "button primary"}
                        disabled={isBusy || isLocked}
                    >
                        {props.action}
                    </button>
                </div>
            </form>
        </dialog>
    );
}
