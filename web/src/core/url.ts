// The whole state of a page, as its address holds it. Everything that a person can set here survives
// a reload, the back button and being sent to a colleague. The version (`v`) is in every address:
// old ones are brought up to date when they are read.

export type PageName =
    | "home"
    | "explore"
    | "compare"
    | "function"
    | "open"
    | "traces"
    | "memory"
    | "insights"
    | "fleet"
    | "triggers"
    | "admin";

export const PAGES: readonly PageName[] = [
    "home",
    "explore",
    "compare",
    "function",
    "open",
    "traces",
    "memory",
    "insights",
    "fleet",
    "triggers",
    "admin",
];

export type ViewName =
    | "flame"
    | "icicle"
    | "top"
    | "tree"
    | "callers"
    | "graph"
    | "source"
    | "heat"
    | "labels"
    | "waits";

export const VIEWS: readonly ViewName[] = [
    "flame",
    "icicle",
    "top",
    "tree",
    "callers",
    "graph",
    "source",
    "heat",
    "labels",
    "waits",
];

export type MatchOp = "=" | "!=" | "=~" | "!~";

export interface Matcher {
    name: string;
    op: MatchOp;
    value: string;
}

/** What is looked at: a selection of stored profiles, or a file that was opened. */
export interface Scope {
    service: string; // "": all
    type: string; // "cpu", "cpu:nanoseconds"; "": the server's default
    labels: Matcher[];
    from: string; // as the server takes times: "now-1h", RFC 3339, a number
    until: string; // "now"
    id: string; // one profile
    trace: string;
    span: string;
    file: string; // the key of a local file (api/files.ts); "": the store
}

/** pprof's filters, in pprof's words. */
export type FilterKind =
    | "focus"
    | "ignore"
    | "hide"
    | "show"
    | "show_from"
    | "prune_from"
    | "tagfocus"
    | "tagignore";

export const FILTERS: readonly FilterKind[] = [
    "focus",
    "ignore",
    "hide",
    "show",
    "show_from",
    "prune_from",
    "tagfocus",
    "tagignore",
];

export interface Filter {
    kind: FilterKind;
    value: string; // a regex
}

export type Granularity =
    | "functions"
    | "lines"
    | "files"
    | "packages"
    | "binaries"
    | "addresses"
    | "filefunctions";
export type ColourMode = "package" | "kind" | "binary" | "value" | "mono";
export type DiffMode = "share" | "absolute" | "ratio";

export interface View {
    view: ViewName;
    search: string; // substring, or /regex/
    filters: Filter[];
    group: Granularity;
    invert: boolean;
    recursion: boolean; // collapse it
    colour: ColourMode;
    root: string[]; // names from the outermost frame inwards: what the picture is zoomed to
    selected: string; // the function that all views mark
    by: string; // the label that timeline and breakdown are split by
    tag: string; // the attribute of samples that the breakdown is by instead
    source: string; // file of the source view
    line: number;
    order: string; // of tables: a column, "-" in front for rising
    relative: boolean; // shares of what is shown instead of the whole
}

export interface State {
    page: PageName;
    scope: Scope; // of Compare: the side after (B)
    base: Scope | null; // Compare: the side before (A)
    view: View;
    diff: DiffMode;
    symptom: string; // the trail from Home
    step: number;
    extra: Record<string, string>; // what single pages add: names begin with "x."
}

export function emptyScope(): Scope {
    return {
        service: "",
        type: "",
        labels: [],
        from: "now-1h",
        until: "now",
        id: "",
        trace: "",
        span: "",
        file: "",
    };
}

export function emptyView(): View {
    return {
        view: "flame",
        search: "",
        filters: [],
        group: "functions",
        invert: false,
        recursion: false,
        colour: "package",
        root: [],
        selected: "",
        by: "",
        tag: "",
        source: "",
        line: 0,
        order: "",
        relative: false,
    };
}

export function emptyState(page: PageName = "home"): State {
    return {
        page,
        scope: emptyScope(),
        base: null,
        view: emptyView(),
        diff: "share",
        symptom: "",
        step: 0,
        extra: {},
    };
}

/** "env=prod", "pod=~a.*" */
export function matcherText(m: Matcher): string {
    return m.name + m.op + m.value;
}

/**
 * A matcher as the address holds it: as people read it, but for names and values that begin like an
 * operator. "==" is "=" with such a value behind it.
 */
export function matcherParam(m: Matcher): string {
    const name = m.name.replace(/[%=!~]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
    const op = m.op === "=" && /^[~=]/.test(m.value) ? "==" : m.op;
    return name + op + m.value;
}

export function parseMatcher(text: string): Matcher | null {
    const found = /^([^=!~]+)(=~|!=|!~|==|=)([\s\S]*)$/.exec(text);
    if (!found) return null;
    const name = found[1].replace(/%(25|3d|21|7e)/gi, (_, hex) =>
        String.fromCharCode(Number.parseInt(hex, 16)),
    );
    return { name, op: (found[2] === "==" ? "=" : found[2]) as MatchOp, value: found[3] };
}

/** A scope as the selector that the server, the CLI and people read: cpu{service.name="x"}. */
export function selectorText(s: Scope): string {
    const quote = (v: string) => `"${v.replace(/["\\]/g, "\\$&").replace(/\n/g, "\\n")}"`;
    const nameOf = (name: string) => (/^[\w./-]+$/.test(name) ? name : quote(name));
    const parts = s.labels.map((m) => `${nameOf(m.name)}${m.op}${quote(m.value)}`);
    if (s.service) parts.unshift(`service.name=${quote(s.service)}`);
    return parts.length > 0 ? `${s.type}{${parts.join(", ")}}` : s.type;
}

// ---- Reading

function readScope(p: URLSearchParams, prefix: string): Scope {
    const one = (name: string, otherwise = "") => p.get(prefix + name) ?? otherwise;
    return {
        service: one("s"),
        type: one("t"),
        labels: p
            .getAll(`${prefix}l`)
            .map(parseMatcher)
            .filter((m) => m !== null),
        from: one("from", "now-1h"),
        until: one("until", "now"),
        id: one("id"),
        trace: one("trace"),
        span: one("span"),
        file: one("file"),
    };
}

function oneOf<T extends string>(value: string | null, all: readonly T[], otherwise: T): T {
    return all.find((x) => x === value) ?? otherwise;
}

function readView(p: URLSearchParams): View {
    const v = emptyView();
    v.view = oneOf(p.get("view"), VIEWS, v.view);
    v.search = p.get("search") ?? "";
    // Order matters to a reader of chips, not to the server.
    for (const [name, value] of p) {
        const kind = FILTERS.find((k) => k === name);
        if (kind && value) v.filters.push({ kind, value });
    }
    const groups: Granularity[] = [
        "functions",
        "lines",
        "files",
        "packages",
        "binaries",
        "addresses",
        "filefunctions",
    ];
    v.group = oneOf(p.get("group"), groups, v.group);
    v.invert = p.get("invert") === "1";
    v.recursion = p.get("recursion") === "1";
    v.colour = oneOf(p.get("colour"), ["package", "kind", "binary", "value", "mono"], v.colour);
    v.root = p.getAll("root");
    v.selected = p.get("sel") ?? "";
    v.by = p.get("by") ?? "";
    v.tag = p.get("tag") ?? "";
    v.source = p.get("source") ?? "";
    v.line = Number.parseInt(p.get("line") ?? "0", 10) || 0;
    v.order = p.get("order") ?? "";
    v.relative = p.get("relative") === "1";
    return v;
}

/** `path` is below the base of the pages: "explore", "". */
export function parseState(path: string, query: string): State {
    const p = new URLSearchParams(query);
    const name = path.replace(/^\/+|\/+$/g, "");
    const s = emptyState(name === "" ? "home" : oneOf(name, PAGES, "home"));
    s.scope = readScope(p, "");
    const hasBase = [...p.keys()].some((k) => k.startsWith("a."));
    s.base = hasBase ? readScope(p, "a.") : null;
    s.view = readView(p);
    s.diff = oneOf(p.get("diff"), ["share", "absolute", "ratio"], "share");
    s.symptom = p.get("symptom") ?? "";
    s.step = Number.parseInt(p.get("step") ?? "0", 10) || 0;
    for (const [k, v] of p) if (k.startsWith("x.")) s.extra[k.slice(2)] = v;
    return s;
}

// ---- Writing: only what differs from the defaults, so that addresses stay readable

function writeScope(p: URLSearchParams, prefix: string, s: Scope) {
    const plain = emptyScope();
    const put = (name: string, value: string, otherwise: string) => {
        if (value !== otherwise) p.append(prefix + name, value);
    };
    put("s", s.service, plain.service);
    put("t", s.type, plain.type);
    for (const m of s.labels) p.append(`${prefix}l`, matcherParam(m));
    put("from", s.from, plain.from);
    put("until", s.until, plain.until);
    put("id", s.id, "");
    put("trace", s.trace, "");
    put("span", s.span, "");
    put("file", s.file, "");
}

function writeView(p: URLSearchParams, v: View) {
    const plain = emptyView();
    if (v.view !== plain.view) p.append("view", v.view);
    if (v.search) p.append("search", v.search);
    for (const f of v.filters) p.append(f.kind, f.value);
    if (v.group !== plain.group) p.append("group", v.group);
    if (v.invert) p.append("invert", "1");
    if (v.recursion) p.append("recursion", "1");
    if (v.colour !== plain.colour) p.append("colour", v.colour);
    for (const name of v.root) p.append("root", name);
    if (v.selected) p.append("sel", v.selected);
    if (v.by) p.append("by", v.by);
    if (v.tag) p.append("tag", v.tag);
    if (v.source) p.append("source", v.source);
    if (v.line) p.append("line", String(v.line));
    if (v.order) p.append("order", v.order);
    if (v.relative) p.append("relative", "1");
}

/** "explore?v=1&s=checkout&t=cpu", relative to the base of the pages. */
export function formatState(s: State): string {
    const p = new URLSearchParams();
    p.append("v", "1");
    writeScope(p, "", s.scope);
    if (s.base) {
        const before = [...p.keys()].length;
        writeScope(p, "a.", s.base);
        if ([...p.keys()].length === before) p.append("a.until", s.base.until);
    }
    writeView(p, s.view);
    if (s.diff !== "share") p.append("diff", s.diff);
    if (s.symptom) p.append("symptom", s.symptom);
    if (s.step) p.append("step", String(s.step));
    for (const [k, v] of Object.entries(s.extra)) if (v) p.append(`x.${k}`, v);
    const path = s.page === "home" ? "" : s.page;
    const query = p.toString();
    return query === "v=1" ? path || "./" : `${path}?${query}`;
}
