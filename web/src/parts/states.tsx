// The faces of a page that has nothing to show: loading, empty, wrong. Each says what to do next.

import type { ComponentChildren } from "preact";
import type { ApiError } from "../api/client";
import { copyText } from "../app";
import "./states.css";

export function Skeleton(props: { rows?: number; label?: string }) {
    const rows = Array.from({ length: props.rows ?? 8 });
    return (
        <div class="skeleton" role="status" aria-label={props.label ?? "Loading"}>
            {rows.map((_, i) => (
                <div key={i} class="skeleton-row" style={{ width: `${92 - ((i * 37) % 60)}%` }} />
            ))}
        </div>
    );
}

/** Dims what is old while the new is on its way, with a line on top. */
export function Loading(props: { isOld: boolean; children: ComponentChildren }) {
    return (
        <div class={props.isOld ? "loading is-old" : "loading"} aria-busy={props.isOld}>
            {props.isOld && <div class="loading-line" />}
            {props.children}
        </div>
    );
}

export function ErrorBox(props: {
    error: ApiError;
    retry?: () => void;
    children?: ComponentChildren;
}) {
    const e = props.error;
    const title =
        e.status === 0
            ? "No answer"
            : e.status === 404
              ? "Nothing found"
              : e.status === 429
                ? "The server is busy"
                : e.status === 403
                  ? "Not allowed"
                  : "That did not work";
    return (
        <div class="state" role="alert">
            <h2>{title}</h2>
            <p>{e.message}</p>
            {e.status === 429 && e.retryAfter > 0 && <p>It asks to wait {e.retryAfter} s.</p>}
            {props.children}
            {props.retry && (
                <button type="button" class="button" onClick={props.retry}>
                    Try again
                </button>
            )}
        </div>
    );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
    return (
        <div class="state">
            <h2>{props.title}</h2>
            {props.children}
        </div>
    );
}

/** A command that can be copied. */
export function Command(props: { text: string; label?: string }) {
    return (
        <div class="command">
            {props.label && <span class="command-label">{props.label}</span>}
            <code>{props.text}</code>
            <button
                type="button"
                class="button small"
                aria-label={`Copy: ${props.text}`}
                onClick={() => copyText(props.text, "Command")}
            >
                Copy
            </button>
        </div>
    );
}
