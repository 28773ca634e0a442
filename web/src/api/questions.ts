// Every question that pages ask, typed. A scope that is a local file asks about that file's bytes;
// pages need not care.

import {
    emptyScope,
    emptyView,
    type Granularity,
    type Scope,
    selectorText,
    type View,
} from "../core/url";
import { ApiError, type Asking, apiUrl, getJson, type Params, send } from "./client";
import { findLocalFile } from "./files";

// ---- Parameters

export function scopeParams(s: Scope): Params {
    if (s.file) return { type: s.type };
    return {
        query: selectorText(s),
        from: s.from,
        until: s.until,
        id: s.id,
        trace: s.trace,
        span: s.span,
    };
}

/** Sums over time and lists of what there is know no single profile, trace or span. */
const wide = (s: Scope): Scope => ({ ...s, id: "", trace: "", span: "" });

/** One profile, trace or span, which some questions cannot be asked about. */
export function isNarrow(s: Scope): boolean {
    return !s.file && (s.id !== "" || s.trace !== "" || s.span !== "");
}

export function filterParams(v: View): Params {
    const p: Record<string, string> = {};
    const tags: Record<string, string[]> = {};
    // The server takes several filters by attributes of samples, else one of a kind: several become
    // alternatives where that keeps their meaning (ignore, hide, show), or the last one counts.
    for (const f of v.filters) {
        if (f.kind === "tagfocus" || f.kind === "tagignore") {
            tags[f.kind] = [...(tags[f.kind] ?? []), f.value];
            continue;
        }
        const joins = f.kind === "ignore" || f.kind === "hide" || f.kind === "show";
        p[f.kind] = joins && p[f.kind] ? `${p[f.kind]}|${f.value}` : f.value;
    }
    return { ...p, ...tags };
}

export function frameParams(v: View): Params {
    return {
        granularity: v.group === "functions" ? undefined : v.group,
        collapse_recursion: v.recursion,
    };
}

function fileBody(key: string): Blob {
    const file = findLocalFile(key);
    if (file) return file.bytes;
    throw new ApiError(
        "This file was only in the tab that opened it: a reload or another window does not have it. Open it again; to share it, keep it on the server.",
        0,
        "no_file",
    );
}

/** Sends a question about a scope to where its data is. */
export async function ask(
    route: string,
    s: Scope,
    params: Params,
    how: Asking = {},
): Promise<Response> {
    const all = { ...scopeParams(s), ...params };
    if (!s.file) return send(apiUrl(route, all), how);
    return send(apiUrl(`file/${route}`, all), { ...how, method: "POST", body: fileBody(s.file) });
}

async function askJson<T>(
    route: string,
    s: Scope,
    params: Params,
    signal?: AbortSignal,
): Promise<T> {
    return (await (await ask(route, s, params, { signal })).json()) as T;
}

// ---- Answers

export interface TypeName {
    type: string;
    unit: string;
}

/** What every merged answer begins with. */
export interface MergedHead extends TypeName {
    types: TypeName[];
    total: number;
    samples?: number;
    profiles?: number;
    warnings?: string[];
    incomplete?: string;
    from_ns?: string;
    until_ns?: string;
}

export interface TopRow {
    name: string;
    file: string;
    line?: number;
    flat: number;
    cum: number;
}
export interface Top extends MergedHead {
    all_rows: number;
    rows: TopRow[];
}
export interface CallRow {
    name: string;
    file: string;
    cum: number;
}
export interface Callers extends MergedHead {
    function: { name: string; flat: number; cum: number };
    callers: CallRow[];
    callees: CallRow[];
}
export interface GraphNode {
    name: string;
    file: string;
    flat: number;
    cum: number;
}
export interface GraphEdge {
    caller: number;
    callee: number;
    value: number;
    is_inline: number;
    is_residual: number;
}
export interface Graph extends MergedHead {
    nodes: GraphNode[];
    edges: GraphEdge[];
}
/** An attribute of samples: total + not_set is the whole; values + other is total + repeated. */
export interface Tag {
    name: string;
    filter?: string; // what tagfocus takes for samples that have it
    total: number;
    not_set: number;
    other: number;
    repeated: number;
    all_values: number;
    values: { value: string; total: number; filter?: string }[];
}
export interface Tags extends MergedHead {
    all_tags: number;
    tags: Tag[];
}
export interface SearchTotals {
    total: number;
    matched_cum: number;
    matched_flat: number;
    functions: number;
}
export interface Service {
    service: string;
    types: TypeName[];
    series: number;
    profiles: number;
    last_seen_ns: string;
}
export interface Timeline extends TypeName {
    from_ns: string;
    until_ns: string;
    step_ns: string;
    all_groups: number;
    groups: { labels: Record<string, string>; total: number }[];
    points: {
        group: number[];
        start_ns: string[];
        value: number[];
        profiles: number[];
        flat?: number[];
    };
}
export interface HeatMap extends TypeName {
    start_ns: string;
    column_ns: string;
    n_columns: number;
    n_rows: number;
    max: number;
    cells: { column: number[]; row: number[]; value: number[] };
}
/** One side of a comparison. */
export interface DiffSide {
    query: string;
    from_ns: string;
    until_ns: string;
    type?: string;
    unit?: string;
    total: number;
    samples?: number;
    profiles?: number;
}
export interface DiffRow {
    name: string;
    file?: string;
    before_flat: number;
    after_flat: number;
    flat_change: number;
    flat_share_change: number;
    flat_ratio: number | null;
    before_cum: number;
    after_cum: number;
    cum_change: number;
    cum_share_change: number;
    cum_ratio: number | null;
    flat_significant?: number;
    cum_significant?: number;
}
export interface DiffTable extends TypeName {
    before: DiffSide;
    after: DiffSide;
    has_statistics?: boolean;
    all_rows: number;
    rows: DiffRow[];
}
export interface Deployment {
    id: string;
    service: string;
    version?: string;
    environment?: string;
    commit?: string;
    branch?: string;
    time_ns: string;
}

// ---- Questions about merged profiles

export const TREE_TYPE = "application/vnd.vesta.tree";

export interface TreeQuestion {
    scope: Scope;
    view: View;
    maxNodes?: number;
    under?: readonly string[];
    more?: Params;
}

/** The bytes of a flame tree: core/tree_decode.ts reads them. */
export async function flameBytes(q: TreeQuestion, signal?: AbortSignal): Promise<ArrayBuffer> {
    const params = {
        ...filterParams(q.view),
        ...frameParams(q.view),
        invert: q.view.invert,
        max_nodes: q.maxNodes,
        under: q.under,
        ...q.more,
        format: "tree",
    };
    return (await ask("flame", q.scope, params, { signal, accept: TREE_TYPE })).arrayBuffer();
}

export function askTop(s: Scope, v: View, more: Params = {}, signal?: AbortSignal): Promise<Top> {
    return askJson("top", s, { ...filterParams(v), ...frameParams(v), ...more }, signal);
}

export function askCallers(
    s: Scope,
    v: View,
    name: string,
    signal?: AbortSignal,
): Promise<Callers> {
    const p = { ...filterParams(v), ...frameParams(v), function: name };
    return askJson("callers", s, p, signal);
}

export function askGraph(
    s: Scope,
    v: View,
    more: Params = {},
    signal?: AbortSignal,
): Promise<Graph> {
    return askJson("graph", s, { ...filterParams(v), ...frameParams(v), ...more }, signal);
}

export function askLines(s: Scope, v: View, file: string, signal?: AbortSignal): Promise<Top> {
    return askJson("lines", s, { ...filterParams(v), file }, signal);
}

export function askTags(s: Scope, v: View, more: Params = {}, signal?: AbortSignal): Promise<Tags> {
    return askJson("tags", s, { ...filterParams(v), ...more }, signal);
}

/** The text of a source file, where somebody gave it to the server; a link to it where known. */
export interface Source {
    file: string;
    found: "uploaded" | "map" | "none";
    service?: string;
    version?: string;
    commit?: string;
    path?: string;
    is_exact?: boolean;
    text?: string;
    link?: string;
    line_anchor?: string;
}

export function askSource(s: Scope, file: string, signal?: AbortSignal): Promise<Source> {
    const of = s.file ? {} : { query: selectorText(s), from: s.from, until: s.until };
    return getJson("source", { ...of, file }, { signal });
}

/** The regex that a search means: plain text is a substring in any case, /x/ a regex. */
export function searchRegex(search: string): string {
    const regex = /^\/(.*)\/$/.exec(search);
    if (regex) return regex[1];
    return `(?i)${search.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`;
}

export function askSearch(
    s: Scope,
    v: View,
    search: string,
    signal?: AbortSignal,
): Promise<SearchTotals> {
    const p = { ...filterParams(v), ...frameParams(v), match: searchRegex(search) };
    return askJson("search", s, p, signal);
}

// ---- Over time, and what there is

export function askTimeline(s: Scope, more: Params = {}, signal?: AbortSignal): Promise<Timeline> {
    return askJson("timeline", wide(s), more, signal);
}

export function askFunction(
    s: Scope,
    name: string,
    more: Params = {},
    signal?: AbortSignal,
): Promise<Timeline> {
    return askJson("function", wide(s), { function: name, ...more }, signal);
}

export function askHeat(s: Scope, more: Params = {}, signal?: AbortSignal): Promise<HeatMap> {
    return askJson("heatmap", wide(s), more, signal);
}

export async function askServices(
    from: string,
    until: string,
    signal?: AbortSignal,
): Promise<Service[]> {
    const a = await getJson<{ services: Service[] }>("services", { from, until }, { signal });
    return a.services;
}

export async function askTypes(s: Scope, signal?: AbortSignal): Promise<TypeName[]> {
    const p = scopeParams({ ...wide(s), type: "" });
    return (await getJson<{ types: TypeName[] }>("types", p, { signal })).types;
}

export async function askLabels(s: Scope, signal?: AbortSignal): Promise<string[]> {
    const p = scopeParams(wide(s));
    return (await getJson<{ labels: string[] }>("labels", p, { signal })).labels;
}

export async function askLabelValues(
    s: Scope,
    label: string,
    signal?: AbortSignal,
): Promise<string[]> {
    const p = { ...scopeParams(wide(s)), label };
    return (await getJson<{ values: string[] }>("label_values", p, { signal })).values;
}

/** Deployments of a service (of all: ""), the newest first. */
export async function askDeployments(
    service: string,
    from: string,
    until: string,
    signal?: AbortSignal,
): Promise<Deployment[]> {
    const p = { service, from, until };
    const a = await getJson<{ deployments: Deployment[] }>("deployments", p, { signal });
    return a.deployments.sort((x, y) => Number(y.time_ns) - Number(x.time_ns));
}

/** What a file is, without storing it. */
export interface FileInfo {
    format: string;
    types: { type: string; unit: string; total: number }[];
    notes?: string[];
    [other: string]: unknown;
}

export function askFileInfo(key: string, signal?: AbortSignal): Promise<FileInfo> {
    return askJson("info", { ...emptyScope(), file: key }, {}, signal);
}

// ---- Comparing

/** Both sides of a comparison as parameters, and the body when a side is a file. */
export function diffParams(before: Scope, after: Scope): { params: Params; body?: Blob } {
    if (isNarrow(before) || isNarrow(after))
        throw new ApiError(
            "A comparison is of whole selections, not of one profile, trace or span: drop that chip on both sides.",
            400,
            "bad_parameter",
        );
    const a = before.file ? fileBody(before.file) : null;
    const b = after.file ? fileBody(after.file) : null;
    const side = (s: Scope, prefix: string): Params =>
        s.file
            ? {}
            : {
                  [`${prefix}query`]: selectorText(s),
                  [`${prefix}from`]: s.from,
                  [`${prefix}until`]: s.until,
              };
    const params: Params = { ...side(before, "before_"), ...side(after, "after_") };
    if (!a && !b) return { params };
    params.before_bytes = String(a?.size ?? 0);
    params.after_bytes = String(b?.size ?? 0);
    if (after.type) params.type = after.type;
    return { params, body: new Blob([a ?? "", b ?? ""]) };
}

export async function askDiff(
    before: Scope,
    after: Scope,
    route: "diff" | "diff/table" | "diff.html",
    params: Params,
    how: Asking = {},
): Promise<Response> {
    const sides = diffParams(before, after);
    const all = { ...sides.params, ...params };
    if (!sides.body) return send(apiUrl(route, all), how);
    return send(apiUrl(`file/${route}`, all), { ...how, method: "POST", body: sides.body });
}

/** A view that asks for nothing special. */
export function plainView(group: Granularity = "functions"): View {
    return { ...emptyView(), group };
}
