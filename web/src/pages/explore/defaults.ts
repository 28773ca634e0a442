// A scope without a type gets a good one, and the address says which.

import { useEffect } from "preact/hooks";
import { askTypes } from "../../api/questions";
import { patchScope, state } from "../../app";
import { type Scope, selectorText } from "../../core/url";
import { useQuery } from "../../parts/use_query";
import { shown } from "./head";

const GOOD = ["cpu", "wall", "samples", "inuse_space", "alloc_space"];

/** The one most people look at first. */
export function bestType(types: readonly { type: string }[]): string {
    return GOOD.find((g) => types.some((t) => t.type === g)) ?? types[0]?.type ?? "";
}

function typesKey(s: Scope): string {
    return `types ${selectorText({ ...s, type: "" })} ${s.from} ${s.until}`;
}

/** What is asked while no type is chosen. */
export function useDefaultType() {
    const { scope } = state.value;
    const isOpen = scope.type === "" && scope.file === "";
    const q = useQuery(isOpen ? typesKey(scope) : null, (signal) => askTypes(scope, signal));
    const ownTypes = scope.file ? shown.value.head : undefined;
    const found = isOpen && !q.isOld ? bestType(q.data ?? []) : "";
    useEffect(() => {
        if (found) patchScope({ type: found }, { replace: true });
    }, [found]);
    useEffect(() => {
        // Of a file: what the server chose.
        if (ownTypes && scope.type === "") patchScope({ type: ownTypes.type }, { replace: true });
    }, [ownTypes, scope.type]);
    return { isEmpty: isOpen && !q.isOld && q.data?.length === 0, error: isOpen ? q.error : null };
}
