// What the views of Explore share: the key of a question, shares of the whole or of what is shown,
// notes about an answer, and moving from a row to its function.

import type { ComponentChildren } from "preact";
import type { Query } from "../../../parts/use_query";
import { useQuery } from "../../../parts/use_query";
import { askTop } from "../../../api/questions";
import { detail, openFrameMenu, patchView, state, ticks } from "../../../app";
import { emptyView, type Scope, type View } from "../../../core/url";
import { Empty, ErrorBox, Skeleton } from "../../../parts/states";
import "./common.css";

/** Equal questions have equal keys; what only changes the picture is not in them. */
export function questionKey(what: string, s: Scope, v: View, ...more: unknown[]): string {
    return JSON.stringify([what, s, v.filters, v.group, v.recursion, ...more]);
}

/**
 * What shares are of: the whole selection, as pprof does by itself, or what is left after filters
 * (view.relative). `shown` is the answer's own total, which is after filters.
 */
export function useWhole(shown: number | undefined): number {
    const { scope, view } = state.value;
    const needsAsking = !view.relative && view.filters.length > 0;
    const plain = { ...emptyView(), group: view.group };
    const whole = useQuery(
        needsAsking ? questionKey("whole", scope, plain) : null,
        (signal) => askTop(scope, plain, { limit: 1 }, signal),
        ticks.value,
    );
    return (needsAsking ? whole.data?.total : shown) ?? shown ?? 0;
}

/** Where a chip of one profile, trace or span cannot count. */
export function WideNote() {
    const { service } = state.value.scope;
    return (
        <span>
            Sums over time: this is all of {service || "the selection"} in the range, not only the
            profile, trace or span.
        </span>
    );
}

/** Marks a function in all views. */
export function selectFunction(name: string) {
    patchView({ selected: name }, { replace: true });
}

export function openCallers(name: string) {
    detail.value = null;
    patchView({ selected: name, view: "callers" });
}

export function openRowMenu(
    r: { name: string; file: string; line?: number },
    x: number,
    y: number,
) {
    openFrameMenu(x, y, { name: r.name, file: r.file, line: r.line ?? 0, path: [] });
}

/** What every view does before it has an answer; null: it has one. */
export function faceOf<T>(q: Query<T>): ComponentChildren | null {
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={16} />;
    return null;
}

/** Filters that leave nothing are Explore's to explain; this is a profile without values. */
export function NothingHere() {
    return (
        <Empty title="Nothing here">
            <p>
                The profiles of this selection hold no samples of this type. Choose another type or
                a wider range.
            </p>
        </Empty>
    );
}

/** Shares of the whole, or of what is left after filters. */
export function RelativeToggle() {
    const { view } = state.value;
    return (
        <button
            type="button"
            class="button small"
            aria-pressed={view.relative}
            title="Shares of what is left after filters, instead of the whole profile"
            onClick={() => patchView({ relative: !view.relative })}
        >
            Relative shares
        </button>
    );
}
