// What all pages share: the state (which is the address), ways to change it, the hover details, the
// theme, and what is said in passing.

import { signal } from "@preact/signals";
import { basePath } from "./api/client";
import { filterRefusal } from "./core/filter_limits";
import {
    emptyState,
    type Filter,
    formatState,
    type PageName,
    parseState,
    type Scope,
    type State,
    type View,
} from "./core/url";

// ---- State

function readAddress(): State {
    if (typeof location === "undefined") return emptyState();
    const base = basePath();
    const path = location.pathname.startsWith(base)
        ? location.pathname.slice(base.length)
        : location.pathname;
    return parseState(path, location.search.slice(1));
}

export const state = signal<State>(readAddress());

/** The address of a state, for links: `<a href=...>` works with the middle button, too. */
export function href(s: State): string {
    return new URL(formatState(s), document.baseURI).href;
}

/** Goes somewhere. `replace` is for gestures that go on (typing, dragging): no step back for each. */
export function navigate(s: State, how: { replace?: boolean } = {}) {
    const url = href(s);
    if (url !== location.href) {
        if (how.replace) history.replaceState(null, "", url);
        else history.pushState(null, "", url);
    }
    state.value = s;
}

export function patchState(p: Partial<State>, how?: { replace?: boolean }) {
    navigate({ ...state.value, ...p }, how);
}

export function patchView(p: Partial<View>, how?: { replace?: boolean }) {
    patchState({ view: { ...state.value.view, ...p } }, how);
}

/** A new selection: what was zoomed to is gone, filters and search stay. */
export function patchScope(p: Partial<Scope>, how?: { replace?: boolean }) {
    patchState({ scope: { ...state.value.scope, ...p } }, how);
}

/** Several of these kinds make sense; of the others the server takes one, so the new one counts. */
const JOINING = ["ignore", "hide", "show", "tagfocus", "tagignore"];

/** `more` changes with it, in the same step. */
export function addFilter(f: Filter, more: Partial<View> = {}) {
    const v = state.value.view;
    if (v.filters.some((x) => x.kind === f.kind && x.value === f.value)) {
        if (Object.keys(more).length > 0) patchView(more);
        return;
    }
    const rest = v.filters.filter((x) => x.kind !== f.kind || JOINING.includes(f.kind));
    const refusal = filterRefusal(rest, f);
    if (refusal) {
        say(refusal);
        return;
    }
    if (rest.length < v.filters.length)
        say(`The earlier ${f.kind} was replaced: the server takes one`);
    patchView({ filters: [...rest, f], root: [], ...more });
}

/** Another filter in place of the one at this index. */
export function changeFilter(index: number, f: Filter) {
    const { filters } = state.value.view;
    const refusal = filterRefusal(
        filters.filter((_, i) => i !== index),
        f,
    );
    if (refusal) say(refusal);
    else patchView({ filters: filters.map((x, i) => (i === index ? f : x)), root: [] });
}

/** Pages that can look at a file, a single profile, a trace or a span. */
const NARROW_PAGES: readonly PageName[] = ["explore", "compare", "open"];

/** Another page with the same scope; what only this page had, and what that one cannot look at, goes. */
export function pageState(page: PageName, p: Partial<State> = {}): State {
    const s = { ...state.value, page, extra: {}, symptom: "", step: 0, ...p };
    if (NARROW_PAGES.includes(page)) return s;
    return { ...s, scope: { ...s.scope, file: "", id: "", trace: "", span: "" } };
}

if (typeof window !== "undefined") {
    window.addEventListener("popstate", () => {
        state.value = readAddress();
    });
    // Links within the pages do not load them again.
    document.addEventListener("click", (e) => {
        const a = (e.target as Element | null)?.closest?.("a");
        if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey)
            return;
        const base = new URL(document.baseURI);
        const url = new URL(a.href, base);
        const isOurs = url.origin === base.origin && url.pathname.startsWith(base.pathname);
        const path = url.pathname.slice(base.pathname.length);
        if (!isOurs || a.target || a.hasAttribute("download") || path.startsWith("api/")) return;
        e.preventDefault();
        navigate(parseState(path, url.search.slice(1)));
        window.scrollTo(0, 0);
    });
}

// ---- What is under the pointer or the keyboard's focus: the bar at the bottom says it at once

export interface Detail {
    name: string;
    file?: string;
    line?: number;
    binary?: string;
    build?: string;
    kind?: string;
    self?: number;
    total?: number;
    of?: number; // the whole, for shares
    parent?: number; // the parent's total, for shares of it
    unit?: string;
    before?: number; // of diffs
    note?: string; // anything else, as text
}

export const detail = signal<Detail | null>(null);

// ---- The frame that a menu is about: parts/frame_menu.tsx shows it

export interface FrameTarget {
    name: string;
    file: string;
    line: number;
    path: string[]; // from the outermost frame; []: not from a tree
    binary?: string;
}

export const menuAt = signal<{ x: number; y: number; frame: FrameTarget } | null>(null);

export function openFrameMenu(x: number, y: number, frame: FrameTarget) {
    menuAt.value = { x, y, frame };
}

// ---- Theme

export type Theme = "auto" | "light" | "dark";

function storedTheme(): Theme {
    try {
        const t = localStorage.getItem("vesta.theme");
        return t === "light" || t === "dark" ? t : "auto";
    } catch {
        return "auto";
    }
}

export const theme = signal<Theme>(storedTheme());
/** Counts up when colours change: canvases draw again. */
export const themeChanges = signal(0);

export function setTheme(t: Theme) {
    theme.value = t;
    try {
        localStorage.setItem("vesta.theme", t);
    } catch {
        // It lives as long as the page then.
    }
    applyTheme();
}

export function applyTheme() {
    const root = document.documentElement;
    if (theme.value === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme.value);
    themeChanges.value++;
}

export function isDark(): boolean {
    if (theme.value !== "auto") return theme.value === "dark";
    return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** A token of tokens.css as the canvas needs it. */
export function cssToken(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// ---- Said in passing: "link copied"

export const toast = signal<{ text: string; id: number } | null>(null);
let toasts = 0;

export function say(text: string) {
    const id = ++toasts;
    toast.value = { text, id };
    setTimeout(() => {
        if (toast.value?.id === id) toast.value = null;
    }, 4000);
}

export async function copyText(text: string, what: string) {
    try {
        await navigator.clipboard.writeText(text);
        say(`${what} copied`);
    } catch {
        // Without https there is no clipboard; a selection of our own is.
        const area = document.createElement("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        const ok = document.execCommand("copy");
        area.remove();
        say(ok ? `${what} copied` : "The browser does not let pages copy here");
    }
}

// ---- Live refresh: counts up; pages that show "now" ask again and keep what is looked at

export const ticks = signal(0);
export const live = signal(0); // seconds between; 0: off
let timer = 0;

export function setLive(seconds: number) {
    live.value = seconds;
    clearInterval(timer);
    if (seconds > 0)
        timer = window.setInterval(() => {
            if (!document.hidden) ticks.value++;
        }, seconds * 1000);
}

export function refresh() {
    ticks.value++;
}
