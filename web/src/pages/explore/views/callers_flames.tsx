// Callers and callees of a function as two small flame graphs: all ways that lead to it, upwards,
// and all that it leads to, downwards.

import { useMemo } from "preact/hooks";
import { flameBytes } from "../../../api/questions";
import { detail, openFrameMenu, state, ticks } from "../../../app";
import { frameRegex } from "../../../core/regex";
import type { FrameTree } from "../../../core/frame_tree";
import { decodeTree } from "../../../core/tree_decode";
import type { Filter, View } from "../../../core/url";
import { FlameView } from "../../../parts/flame_view";
import { ErrorBox, Loading, Skeleton } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { questionKey } from "./common";

const MOST_NODES = 4000;

function Half(props: { title: string; view: View }) {
    const { scope, view } = state.value;
    const q = useQuery<FrameTree>(
        questionKey("half", scope, props.view, props.view.invert),
        async (signal) =>
            decodeTree(await flameBytes({ scope, view: props.view, maxNodes: MOST_NODES }, signal)),
        ticks.value,
    );
    return (
        <section class="callers-flame" aria-label={props.title}>
            <h3>{props.title}</h3>
            {q.error ? (
                <ErrorBox error={q.error} retry={q.retry} />
            ) : !q.data ? (
                <Skeleton rows={6} />
            ) : (
                <Loading isOld={q.isOld}>
                    <FlameView
                        tree={q.data}
                        isIcicle
                        colour={view.colour}
                        search={view.search}
                        onHover={(d) => {
                            detail.value = d;
                        }}
                        onMenu={(x, y, frame) => openFrameMenu(x, y, { ...frame, path: [] })}
                    />
                </Loading>
            )}
        </section>
    );
}

/** Filters that are taken once stay only where ours do not need their place. */
function withFilters(view: View, own: Filter[], invert: boolean): View {
    const kept = view.filters.filter((f) => !own.some((o) => o.kind === f.kind));
    return { ...view, filters: [...kept, ...own], invert, root: [] };
}

export function CallersFlames(props: { name: string }) {
    const { view } = state.value;
    const exact = frameRegex(props.name, view.group);
    const halves = useMemo(
        () => ({
            callers: withFilters(
                view,
                [
                    { kind: "focus", value: exact },
                    { kind: "prune_from", value: exact },
                ],
                true,
            ),
            callees: withFilters(view, [{ kind: "show_from", value: exact }], false),
        }),
        [view, exact],
    );
    return (
        <div class="callers-flames">
            <Half title="Ways to it" view={halves.callers} />
            <Half title="Below it" view={halves.callees} />
        </div>
    );
}
