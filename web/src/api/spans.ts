// Questions about spans: groups of them, single ones, and those that samples were taken in.

import { type Scope, selectorText } from "../core/url";
import { getJson } from "./client";

export interface SpanRef {
    trace: string;
    span: string;
    start_ns: string;
    duration_ns: string;
}
export interface SpanGroup {
    service: string;
    name: string;
    count: number;
    errors: number;
    p50_ns: string;
    p95_ns: string;
    p99_ns: string;
    max_ns: string;
    total_ns: string;
    value?: number;
    newest: SpanRef;
    slowest: SpanRef;
}
export interface SpanGroups {
    spans: number;
    left_out: number;
    has_values: boolean;
    values_cut: boolean;
    all_groups: number;
    groups: SpanGroup[];
}
export type GroupOrder = "count" | "p99" | "total" | "errors" | "value";

export function askSpanGroups(
    s: Scope,
    order: GroupOrder,
    name: string,
    signal?: AbortSignal,
): Promise<SpanGroups> {
    const p = {
        service: s.service,
        name,
        type: s.type,
        from: s.from,
        until: s.until,
        order,
        limit: 500,
    };
    return getJson("span_groups", p, { signal });
}

export interface Span extends SpanRef {
    parent: string;
    service: string;
    name: string;
    kind: number;
    status: number; // 2: an error
    attributes: Record<string, string | number | boolean>;
}

export function askSpans(
    s: Scope,
    more: { name?: string; trace?: string; min_duration?: string; limit?: number },
    signal?: AbortSignal,
): Promise<{ spans: Span[]; is_cut: boolean }> {
    const p = { service: s.service, from: s.from, until: s.until, ...more };
    return getJson("spans", p, { signal });
}

export interface Exemplar {
    trace: string;
    span: string;
    value: number;
    start_ns: string;
    labels: Record<string, string>;
}

/** Spans that samples were taken in, the heaviest first. */
export async function askExemplars(
    s: Scope,
    limit: number,
    signal?: AbortSignal,
): Promise<Exemplar[]> {
    const p = { query: selectorText(s), from: s.from, until: s.until, trace: s.trace, limit };
    return (await getJson<{ exemplars: Exemplar[] }>("exemplars", p, { signal })).exemplars;
}
