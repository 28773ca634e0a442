// The viewer of one profile in one file: flame graph, icicle, top, callers and callees, search and
// colours, all of it without a server.

import { useEffect, useRef } from "preact/hooks";
import { copyText, detail, setTheme, theme, type Theme, toast } from "../app";
import type { WidthMode } from "../core/flame_layout";
import type { FrameTree } from "../core/frame_tree";
import type { ColourMode, DiffMode } from "../core/url";
import { amountText, countText, shareText } from "../core/units";
import { DetailsBar, status } from "../parts/details_bar";
import { FlameView } from "../parts/flame_view";
import type { About } from "./load";
import {
    colour,
    diffMode,
    diffWidth,
    drawn,
    found,
    isInverted,
    menu,
    root,
    search,
    selected,
    showCallers,
    type Tab,
    tab,
    whole,
} from "./state";
import { Callers, TopTable } from "./tables";
import "./viewer.css";

const TABS: [Tab, string][] = [
    ["flame", "Flame"],
    ["icicle", "Icicle"],
    ["top", "Top"],
    ["callers", "Callers/Callees"],
];

function Tabs() {
    const onKey = (e: KeyboardEvent) => {
        const step = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
        if (step === 0) return;
        const at = TABS.findIndex(([name]) => name === tab.value);
        tab.value = TABS[(at + step + TABS.length) % TABS.length][0];
        const tabs = (e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]");
        tabs[(at + step + TABS.length) % TABS.length].focus();
    };
    return (
        <div class="viewer-tabs" role="tablist" aria-label="Views" onKeyDown={onKey}>
            {TABS.map(([name, title]) => (
                <button
                    key={name}
                    type="button"
                    role="tab"
                    id={`tab-${name}`}
                    class="viewer-tab"
                    aria-selected={tab.value === name}
                    aria-controls="view"
                    tabIndex={tab.value === name ? 0 : -1}
                    onClick={() => {
                        tab.value = name;
                    }}
                >
                    {title}
                </button>
            ))}
        </div>
    );
}

function Choice<T extends string>(props: {
    label: string;
    value: T;
    all: readonly (readonly [T, string])[];
    set: (value: T) => void;
}) {
    return (
        <select
            aria-label={props.label}
            title={props.label}
            value={props.value}
            onChange={(e) => props.set(e.currentTarget.value as T)}
        >
            {props.all.map(([value, text]) => (
                <option key={value} value={value}>
                    {text}
                </option>
            ))}
        </select>
    );
}

const COLOURS: readonly (readonly [ColourMode, string])[] = [
    ["package", "By package"],
    ["kind", "By kind"],
    ["binary", "By binary"],
    ["value", "By self value"],
    ["mono", "One colour"],
];
const MODES: readonly (readonly [DiffMode, string])[] = [
    ["share", "Change of share"],
    ["absolute", "Absolute change"],
    ["ratio", "Ratio"],
];
const WIDTHS: readonly (readonly [WidthMode, string])[] = [
    ["after", "Width: after"],
    ["before", "Width: before"],
    ["union", "Width: larger"],
];
const THEMES: readonly (readonly [Theme, string])[] = [
    ["auto", "System"],
    ["light", "Light"],
    ["dark", "Dark"],
];

function Search(props: { tree: FrameTree }) {
    const f = found.value;
    const of = props.tree.total[0];
    return (
        <span class="viewer-search">
            <input
                id="search"
                type="search"
                placeholder="Search  /"
                aria-label="Search functions: text, or /regex/"
                value={search.value}
                onInput={(e) => {
                    search.value = e.currentTarget.value;
                }}
            />
            <span role="status" class="viewer-found">
                {f &&
                    (f.functions === 0
                        ? "no match"
                        : `${shareText(f.cum, of)} in ${countText(f.functions)} functions, ${shareText(f.flat, of)} self`)}
            </span>
        </span>
    );
}

function Tools(props: { tree: FrameTree }) {
    const isPicture = tab.value === "flame" || tab.value === "icicle";
    return (
        <div class="viewer-tools">
            <Search tree={props.tree} />
            {isPicture && !props.tree.before && (
                <Choice
                    label="Colours"
                    value={colour.value}
                    all={COLOURS}
                    set={(v) => {
                        colour.value = v;
                    }}
                />
            )}
            {isPicture && props.tree.before && (
                <>
                    <Choice
                        label="What is compared"
                        value={diffMode.value}
                        all={MODES}
                        set={(v) => {
                            diffMode.value = v;
                        }}
                    />
                    <Choice
                        label="What widths say"
                        value={diffWidth.value}
                        all={WIDTHS}
                        set={(v) => {
                            diffWidth.value = v;
                        }}
                    />
                </>
            )}
            {isPicture && (
                <button
                    type="button"
                    class="button"
                    title="Functions that spend first, their callers next to them (i)"
                    aria-pressed={isInverted.value}
                    onClick={toggleInvert}
                >
                    Invert
                </button>
            )}
            <Choice label="Theme" value={theme.value} all={THEMES} set={setTheme} />
        </div>
    );
}

function toggleInvert() {
    isInverted.value = !isInverted.value;
    root.value = [];
}

function Crumbs() {
    const path = root.value;
    if (path.length === 0) return null;
    const shown = path.slice(-6);
    return (
        <nav class="viewer-crumbs" aria-label="Zoomed to">
            <button
                type="button"
                class="button quiet small"
                onClick={() => {
                    root.value = [];
                }}
            >
                all
            </button>
            {path.length > shown.length && <span>…</span>}
            {shown.map((name, i) => (
                <button
                    key={i}
                    type="button"
                    class="button quiet small"
                    title={name.slice(0, 1000)}
                    onClick={() => {
                        root.value = path.slice(0, path.length - shown.length + i + 1);
                    }}
                >
                    <bdi class="mono">{name.slice(0, 200) || "(no name)"}</bdi>
                </button>
            ))}
        </nav>
    );
}

function Menu() {
    const m = menu.value;
    const box = useRef<HTMLDivElement>(null);
    useEffect(() => box.current?.querySelector("button")?.focus(), [m]);
    if (!m) return null;
    const close = () => {
        menu.value = null;
    };
    const entries: [string, () => void][] = [
        ["Callers and callees", () => showCallers(m.name)],
        [
            "Search for it",
            () => {
                search.value = m.name;
            },
        ],
        ["Copy name", () => void copyText(m.name, "Name")],
    ];
    if (m.file) entries.push(["Copy file", () => void copyText(m.file, "File")]);
    const place = {
        left: `${Math.min(m.x, innerWidth - 200)}px`,
        top: `${Math.min(m.y, innerHeight - 32 * entries.length - 16)}px`,
    };
    const onKey = (e: KeyboardEvent) => {
        const all = [...(box.current?.querySelectorAll("button") ?? [])];
        const at = all.indexOf(document.activeElement as HTMLButtonElement);
        if (e.key === "Escape" || e.key === "Tab") close();
        else if (e.key === "ArrowDown") all[(at + 1) % all.length].focus();
        else if (e.key === "ArrowUp") all[(at - 1 + all.length) % all.length].focus();
        else return;
        e.preventDefault();
        e.stopPropagation();
    };
    return (
        <div
            class="viewer-menu-back"
            onPointerDown={(e) => e.target === e.currentTarget && close()}
        >
            <div class="viewer-menu" role="menu" style={place} ref={box} onKeyDown={onKey}>
                {entries.map(([text, act]) => (
                    <button
                        key={text}
                        type="button"
                        role="menuitem"
                        class="button quiet"
                        onClick={() => {
                            close();
                            act();
                        }}
                    >
                        {text}
                    </button>
                ))}
            </div>
        </div>
    );
}

function Picture(props: { unit: string }) {
    const t = drawn.value;
    if (!t) return null;
    return (
        <FlameView
            tree={t}
            isIcicle={tab.value === "icicle"}
            colour={colour.value}
            search={search.value}
            selected={selected.value}
            root={root.value}
            unit={props.unit}
            diff={t.before ? { mode: diffMode.value, width: diffWidth.value } : null}
            onHover={(d) => {
                detail.value = d;
            }}
            onSelect={(name) => {
                selected.value = name;
            }}
            onZoom={(path) => {
                root.value = path;
            }}
            onMenu={(x, y, f) => {
                menu.value = { x, y, name: f.name, file: f.file };
            }}
        />
    );
}

function useViewerKeys() {
    useEffect(() => {
        const onKey = (e: KeyboardEvent) => {
            const input = document.getElementById("search");
            if (e.key === "Escape" && e.target === input) {
                search.value = "";
                input?.blur();
            }
            const target = e.target as HTMLElement;
            if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey) return;
            if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
            const at = Number(e.key) - 1;
            if (e.key === "/") input?.focus();
            else if (e.key === "i") toggleInvert();
            else if (TABS[at]) tab.value = TABS[at][0];
            else return;
            e.preventDefault();
        };
        document.addEventListener("keydown", onKey);
        return () => document.removeEventListener("keydown", onKey);
    }, []);
}

export function ViewerPage(props: { about: About }) {
    const t = whole.value;
    useViewerKeys();
    const { about } = props;
    const unit = about.unit ?? t?.head.unit ?? "";
    useEffect(() => {
        if (!t) return;
        status.value = { total: t.total[0], unit, drawn: t.n, cutNodes: 0 };
    }, [t, unit]);
    if (!t) return null;
    const said = [about.type ?? t.head.type, amountText(t.total[0], unit), about.date];
    const isTable = tab.value === "top" || tab.value === "callers";
    return (
        <div class="viewer">
            <header class="viewer-head">
                <h1>
                    <bdi>{about.title || "Profile"}</bdi>
                </h1>
                <p class="muted">
                    {about.selection && about.selection !== about.title && (
                        <>
                            <bdi class="mono">{about.selection.slice(0, 500)}</bdi> ·{" "}
                        </>
                    )}
                    {said.filter(Boolean).join(" · ")}
                </p>
            </header>
            <main class="viewer-main">
                <div class="viewer-line">
                    <Tabs />
                    <Tools tree={t} />
                </div>
                {!isTable && <Crumbs />}
                <div
                    id="view"
                    class="viewer-view"
                    role="tabpanel"
                    aria-labelledby={`tab-${tab.value}`}
                >
                    {!isTable && <Picture unit={unit} />}
                    {tab.value === "top" && <TopTable tree={t} unit={unit} />}
                    {tab.value === "callers" && <Callers tree={t} unit={unit} />}
                </div>
            </main>
            <DetailsBar />
            <Menu />
            {toast.value && (
                <div class="viewer-toast" role="status">
                    {toast.value.text}
                </div>
            )}
        </div>
    );
}
