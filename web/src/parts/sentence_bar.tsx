// The top bar: the question as one sentence, and at the right what can be done with the answer.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { serverNow } from "../api/client";
import { copyText, href, live, pageState, patchScope, refresh, setLive, state } from "../app";
import { isRelative, parseTime, periodBefore, timeParam } from "../core/time";
import type { Scope, State } from "../core/url";
import { ExportMenu } from "./export_menu";
import { Icon } from "./icons";
import { Popover } from "./popover";
import { ScopeSentence } from "./scope_sentence";
import "./sentence_bar.css";

/** "now" becomes the moment that it is: whoever opens the link sees the same. */
export function frozen(s: Scope): Scope {
    if (s.file || (!isRelative(s.from) && !isRelative(s.until))) return s;
    const now = serverNow();
    return {
        ...s,
        from: timeParam(parseTime(s.from, now)),
        until: timeParam(parseTime(s.until, now)),
    };
}

export function frozenState(s: State): State {
    return { ...s, scope: frozen(s.scope), base: s.base && frozen(s.base) };
}

/** This selection against the same length of time before it. */
export function beforeState(scope: Scope): State {
    const [from, until] = periodBefore(scope.from, scope.until, serverNow());
    const base = { ...scope, from, until };
    return pageState("compare", { scope: frozen(scope), base });
}

export function copyLink() {
    return copyText(href(frozenState(state.value)), "Link");
}

function Share() {
    const [isFrozen, setFrozen] = useState(true);
    const s = state.value;
    const link = href(isFrozen ? frozenState(s) : s);
    return (
        <Popover class="button icon" title="Share" align="right" label={<Icon name="share" />}>
            {(close) => (
                <div class="share-panel">
                    <input
                        readOnly
                        value={link}
                        aria-label="Link"
                        onFocus={(e) => e.currentTarget.select()}
                    />
                    <label class="share-freeze">
                        <input
                            type="checkbox"
                            checked={isFrozen}
                            onChange={(e) => setFrozen(e.currentTarget.checked)}
                        />
                        Freeze the times: the link shows what you see now
                    </label>
                    {s.scope.file && (
                        <p class="muted">
                            The file is only in this window. Keep it on the server to share it.
                        </p>
                    )}
                    <button
                        type="button"
                        class="button primary"
                        onClick={() => {
                            close();
                            copyText(link, "Link");
                        }}
                    >
                        Copy link
                    </button>
                </div>
            )}
        </Popover>
    );
}

const LIVE: [number, string][] = [
    [0, "Off"],
    [5, "5 s"],
    [15, "15 s"],
    [60, "60 s"],
];

function Refresh() {
    return (
        <span class="bar-group">
            <button
                type="button"
                class="button icon"
                title="Ask again"
                aria-label="Ask again"
                onClick={refresh}
            >
                <Icon name="refresh" />
            </button>
            <select
                class="bar-live"
                aria-label="Live refresh"
                title="Live refresh"
                value={live.value}
                onChange={(e) => setLive(Number(e.currentTarget.value))}
            >
                {LIVE.map(([seconds, text]) => (
                    <option key={seconds} value={seconds}>
                        {seconds ? `Live ${text}` : "Live off"}
                    </option>
                ))}
            </select>
        </span>
    );
}

export function SentenceBar(props: { types?: string[]; children?: ComponentChildren }) {
    const s = state.value.scope;
    return (
        <header class="bar">
            <ScopeSentence scope={s} types={props.types} onChange={(p) => patchScope(p)} />
            <span class="bar-space" />
            <span class="bar-tools">
                {props.children}
                {!s.file && <Refresh />}
                <Share />
                <ExportMenu />
                {!s.file && (
                    <a
                        class="button"
                        href={href(beforeState(s))}
                        title="Compare with the period before (x)"
                    >
                        <Icon name="compare" />
                        <span class="bar-name">Compare</span>
                    </a>
                )}
            </span>
        </header>
    );
}
