// A function by a part of its name: the heaviest that match, of all services.

import { useEffect, useState } from "preact/hooks";
import { askTop, plainView, scopeParams, searchRegex } from "../../api/questions";
import { href, state } from "../../app";
import type { Scope } from "../../core/url";
import { Amount } from "../../parts/figures";
import { useQuery } from "../../parts/use_query";

const SHOWN = 20;

function useLater(text: string): string {
    const [late, setLate] = useState(text);
    useEffect(() => {
        const timer = setTimeout(() => setLate(text), 250);
        return () => clearTimeout(timer);
    }, [text]);
    return late;
}

export function FindFunction(props: { scope: Scope; text: string; done?: () => void }) {
    // The last word of a long name finds its relatives.
    const [text, setText] = useState(props.text.split(/[./:]+/).pop() ?? "");
    const asked = useLater(text.trim());
    const { scope } = props;
    const q = useQuery(`find ${asked} ${JSON.stringify(scopeParams(scope))}`, (signal) => {
        const view = plainView();
        if (asked) view.filters = [{ kind: "focus", value: searchRegex(asked) }];
        return askTop(scope, view, { limit: 2000, order: asked ? "cum" : "flat" }, signal);
    });
    const low = asked.toLowerCase();
    const rows = (q.data?.rows ?? []).filter((r) => r.name.toLowerCase().includes(low));
    const to = (name: string) =>
        href({
            ...state.value,
            page: "function",
            view: { ...state.value.view, selected: name },
            extra: {},
        });
    return (
        <div class="fn-find">
            <input
                type="search"
                value={text}
                placeholder="Part of a name"
                aria-label="Part of a function's name"
                spellcheck={false}
                onInput={(e) => setText(e.currentTarget.value)}
            />
            {q.error && <p class="muted">{q.error.message}</p>}
            {q.data && rows.length === 0 && <p class="muted">No function has that in its name.</p>}
            <ul>
                {rows.slice(0, SHOWN).map((r) => (
                    <li key={`${r.name} ${r.file}`}>
                        <a href={to(r.name)} onClick={props.done}>
                            <bdi>{r.name || "(no name)"}</bdi>
                        </a>
                        <Amount value={asked ? r.cum : r.flat} unit={q.data?.unit ?? ""} />
                    </li>
                ))}
            </ul>
            {rows.length > SHOWN && (
                <p class="muted">
                    The {SHOWN} heaviest of {rows.length}. Say more of the name.
                </p>
            )}
        </div>
    );
}
