// What the views of Explore share: the key of a question, shares of the whole or of what is shown,
// notes about an answer, and moving from a row to its function.

import type { ComponentChildren } from "preact";
import type { Query } from "../../../parts/use_query";
import { useQuery } from "../../../parts/use_query";
import { askTop, type MergedHead } from "../../../api/questions";
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

/**
 * Questions over time are about one sample type: the scope's, or the one that the server takes by
 * itself for this selection.
 */
export function useOneType(): { scope: Scope | null; query: Query<unknown> } {
    const { scope } = state.value;
    const q = useQuery(
        scope.type === "" ? questionKey("type", scope, emptyView()) : null,
        (signal) => askTop(scope, emptyView(), { limit: 1 }, signal),
    );
    if (scope.type !== "") return { scope, query: q };
    return { scope: q.data && !q.isOld ? { ...scope, type: q.data.type } : null, query: q };
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
    if (q.error && (!q.data || !q.isOld)) return <ErrorBox error={q.error} retry={q.retry} />;
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={16} />;
    return null;
}

/** Filters that matched nothing, parts of the store that could not be read. */
export function Notes(props: { head: MergedHead }) {
    const texts = [...(props.head.warnings ?? [])];
    if (props.head.incomplete) texts.push(`Not all data could be read: ${props.head.incomplete}`);
    if (texts.length === 0) return null;
    return (
        <ul class="view-notes" role="status">
            {texts.map((t) => (
                <li key={t}>{t}</li>
            ))}
        </ul>
    );
}

/** Nothing is left: says which filters to drop, and drops them. */
export function NothingLeft() {
    const { filters } = state.value.view;
    return (
        <Empty title="Nothing is left">
            {filters.length > 0 ? (
                <>
                    <p>
                        The profile has data, but no sample passes the filters. Drop one of them, or
                        all.
                    </p>
                    <p class="view-buttons">
                        {filters.map((f) => (
                            <button
                                key={`${f.kind} ${f.value}`}
                                type="button"
                                class="button"
                                onClick={() =>
                                    patchView({ filters: filters.filter((x) => x !== f) })
                                }
                            >
                                Drop {f.kind}: <bdi class="view-clip">{f.value.slice(0, 200)}</bdi>
                            </button>
                        ))}
                        {filters.length > 1 && (
                            <button
                                type="button"
                                class="button"
                                onClick={() => patchView({ filters: [] })}
                            >
                                Drop all filters
                            </button>
                        )}
                    </p>
                </>
            ) : (
                <p>
                    The profiles of this selection hold no samples of this type. Choose another type
                    or a wider range.
                </p>
            )}
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
