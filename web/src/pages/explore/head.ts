// What the answer on screen is made of, whichever view asked: views that have it say so here, for
// others Explore asks. The bar at the bottom, the note about thin data and the faces of "nothing"
// come from it.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { ApiError } from "../../api/client";
import { askTop, type MergedHead } from "../../api/questions";
import { state, ticks } from "../../app";
import type { ViewName } from "../../core/url";
import { status } from "../../parts/details_bar";
import { queryKey } from "../../parts/query_key";
import { useQuery } from "../../parts/use_query";

export interface Shown {
    head: MergedHead | undefined;
    error: ApiError | null;
}

export const shown = signal<Shown>({ head: undefined, error: null });

/** Views that bring the head along with their picture. */
const TELLING: readonly ViewName[] = ["flame", "icicle", "waits"];

/**
 * What shares are of: the whole selection, as pprof does by itself, or what filters leave of it
 * (view.relative), which is what an answer's own total says.
 */
export function useWholeTotal(left: number | undefined): number {
    const { scope, view } = state.value;
    const isAsked = !view.relative && view.filters.length > 0;
    const plain = { ...view, filters: [] };
    const q = useQuery(
        isAsked ? `head ${queryKey(scope, plain)}` : null,
        (signal) => askTop(scope, plain, { limit: 1 }, signal),
        ticks.value,
    );
    return (isAsked ? q.data?.total : left) ?? left ?? 0;
}

export function useHead() {
    const { scope, view } = state.value;
    const isAsked = !TELLING.includes(view.view) && (scope.type !== "" || scope.file !== "");
    const q = useQuery(
        isAsked ? `head ${queryKey(scope, view)}` : null,
        (signal) => askTop(scope, view, { limit: 1 }, signal),
        ticks.value,
    );
    const head = q.isOld ? undefined : q.data;
    useEffect(() => {
        if (!isAsked) return;
        shown.value = { head, error: q.error };
        status.value = head
            ? {
                  total: head.total,
                  unit: head.unit,
                  samples: head.samples,
                  profiles: head.profiles,
                  incomplete: head.incomplete,
                  warnings: head.warnings,
              }
            : null;
    }, [isAsked, head, q.error]);
}
