// A list to choose from, with a line to type into that narrows it. Arrow keys move, Enter takes; what
// is typed can be taken as it is where that makes sense (labels of other times).

import { Fragment } from "preact";
import { useState } from "preact/hooks";
import "./list_picker.css";

export interface Option {
    value: string;
    note?: string;
    text?: string; // what is shown instead of the value
    group?: string; // a heading above the first of those that follow each other
}

export function ListPicker(props: {
    options: readonly Option[] | undefined; // undefined: on their way
    current?: string;
    placeholder: string;
    isFree?: boolean;
    empty?: string;
    onPick: (value: string) => void;
}) {
    const [typed, setTyped] = useState("");
    const [at, setAt] = useState(0);
    const wanted = typed.trim().toLowerCase();
    const found = (props.options ?? []).filter((o) =>
        (o.text ?? o.value).toLowerCase().includes(wanted),
    );
    const isNew =
        props.isFree && typed.trim() !== "" && !found.some((o) => o.value === typed.trim());
    const rows: Option[] = isNew ? [...found, { value: typed.trim(), note: "as typed" }] : found;
    const shown = rows.slice(0, 200);
    const marked = Math.min(at, shown.length - 1);

    const onKey = (e: KeyboardEvent) => {
        if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            const next = marked + (e.key === "ArrowDown" ? 1 : -1);
            setAt(Math.max(0, Math.min(shown.length - 1, next)));
        } else if (e.key === "Enter" && shown[marked]) {
            e.preventDefault();
            props.onPick(shown[marked].value);
        }
    };
    return (
        <div class="pick">
            <input
                class="pick-input"
                placeholder={props.placeholder}
                aria-label={props.placeholder}
                role="combobox"
                aria-expanded="true"
                aria-controls="pick-list"
                aria-activedescendant={shown[marked] ? `pick-${marked}` : undefined}
                value={typed}
                onInput={(e) => {
                    setTyped(e.currentTarget.value);
                    setAt(0);
                }}
                onKeyDown={onKey}
            />
            <div class="pick-list" id="pick-list" role="listbox" aria-label={props.placeholder}>
                {shown.map((o, i) => (
                    <Fragment key={o.value}>
                        {o.group && o.group !== shown[i - 1]?.group && (
                            <div class="pick-group" role="presentation">
                                {o.group}
                            </div>
                        )}
                        <div
                            id={`pick-${i}`}
                            role="option"
                            tabIndex={-1}
                            aria-selected={o.value === props.current}
                            class={i === marked ? "pick-row is-marked" : "pick-row"}
                            onPointerEnter={() => setAt(i)}
                            onClick={() => props.onPick(o.value)}
                            onKeyDown={onKey}
                        >
                            <span class="pick-name">{o.text ?? o.value}</span>
                            {o.note && <small>{o.note}</small>}
                        </div>
                    </Fragment>
                ))}
            </div>
            {props.options && shown.length === 0 && (
                <p class="muted pick-empty">{props.empty ?? "Nothing like that."}</p>
            )}
            {!props.options && <p class="muted pick-empty">Looking…</p>}
            {rows.length > shown.length && (
                <p class="muted pick-empty">{rows.length - shown.length} more: type to narrow.</p>
            )}
        </div>
    );
}
