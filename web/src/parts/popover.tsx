// A small panel that opens beside a button: pickers, menus, help. Escape and a click elsewhere close
// it, the focus goes in and comes back.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "./popover.css";

/** What asks for the focus, else the first that takes it. */
export function focusFirst(panel: HTMLElement | null | undefined) {
    const first = (what: string) => panel?.querySelector<HTMLElement>(what);
    (first("[data-focus]") ?? first("input, select, button, a") ?? panel)?.focus();
}

export function Popover(props: {
    label: ComponentChildren;
    title: string; // for screen readers, and the tooltip
    class?: string;
    panelClass?: string;
    align?: "left" | "right";
    children: (close: () => void) => ComponentChildren;
}) {
    const [isOpen, setOpen] = useState(false);
    const root = useRef<HTMLSpanElement>(null);
    const button = useRef<HTMLButtonElement>(null);
    // A name beside a text of one's own would hide it from who says it aloud.
    const isIcon = props.class?.includes("icon") ?? false;
    const close = () => {
        setOpen(false);
        button.current?.focus();
    };

    useEffect(() => {
        if (!isOpen) return;
        const panel = root.current?.querySelector<HTMLElement>(".popover-panel");
        focusFirst(panel);
        const onDown = (e: PointerEvent) => {
            if (!root.current?.contains(e.target as Node)) setOpen(false);
        };
        document.addEventListener("pointerdown", onDown);
        return () => document.removeEventListener("pointerdown", onDown);
    }, [isOpen]);

    const onKey = (e: JSX.TargetedKeyboardEvent<HTMLSpanElement>) => {
        if (e.key !== "Escape" || !isOpen) return;
        e.stopPropagation();
        close();
    };
    return (
        <span class="popover" ref={root} onKeyDown={onKey}>
            <button
                type="button"
                ref={button}
                class={props.class ?? "button"}
                title={props.title}
                aria-label={isIcon ? props.title : undefined}
                aria-haspopup="dialog"
                aria-expanded={isOpen}
                onClick={() => setOpen(!isOpen)}
            >
                {props.label}
            </button>
            {isOpen && (
                <div
                    class={`popover-panel ${props.align ?? "left"} ${props.panelClass ?? ""}`}
                    role="dialog"
                    aria-label={props.title}
                    tabIndex={-1}
                >
                    {props.children(close)}
                </div>
            )}
        </span>
    );
}
