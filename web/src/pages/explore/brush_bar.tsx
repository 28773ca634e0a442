// What can be done with a part of the timeline.

import { serverNow } from "../../api/client";
import { navigate, pageState, patchScope, patchState, state } from "../../app";
import { periodBefore, rangeText, spanText, timeParam } from "../../core/time";
import type { Scope } from "../../core/url";
import { Icon } from "../../parts/icons";
import type { Brush } from "../../parts/timeline_chart";

function compareRange(s: Scope, from: number, until: number) {
    const scope = { ...s, from: timeParam(from), until: timeParam(until) };
    const [a, b] = periodBefore(scope.from, scope.until, serverNow());
    navigate(pageState("compare", { scope, base: { ...s, from: a, until: b } }));
}

export function BrushBar(props: { brush: Brush; clear: () => void }) {
    const { from, until } = props.brush;
    const now = serverNow();
    const then = (run: () => void) => () => {
        props.clear();
        run();
    };
    return (
        <div class="strip-brush" role="toolbar" aria-label="The selected time">
            <span class="muted">
                {rangeText(timeParam(from), timeParam(until), now)}, {spanText(until - from)}
            </span>
            <button
                type="button"
                class="button small primary"
                onClick={then(() => patchScope({ from: timeParam(from), until: timeParam(until) }))}
            >
                Zoom
            </button>
            <button
                type="button"
                class="button small"
                onClick={then(() => compareRange(state.value.scope, from, until))}
            >
                Compare with the period before
            </button>
            <button
                type="button"
                class="button small"
                onClick={then(() =>
                    patchState({
                        scope: {
                            ...state.value.scope,
                            from: timeParam(from),
                            until: timeParam(until),
                        },
                        view: { ...state.value.view, view: "heat" },
                    }),
                )}
            >
                Heat map
            </button>
            <button
                type="button"
                class="strip-tool"
                aria-label="Clear the selection"
                onClick={props.clear}
            >
                <Icon name="close" size={14} />
            </button>
        </div>
    );
}
