// The frame of every page: the rail, the page itself, and what lies above all of it.

import { useEffect } from "preact/hooks";
import { boot, needsLogin, setToken, token } from "../api/client";
import {
    applyTheme,
    href,
    navigate,
    pageState,
    refresh,
    setTheme,
    state,
    theme,
    themeChanges,
    toast,
} from "../app";
import type { PageName } from "../core/url";
import { Icon } from "../parts/icons";
import Explore from "../pages/explore/explore";
import { Lazy, lazy } from "../parts/lazy";
import { isHelpOpen, useKeys } from "./keys";
import "./shell.css";

const Login = lazy(async () => (await import("./login")).Login);
const KeyHelp = lazy(async () => (await import("./key_help")).KeyHelp);

const pages: Record<Exclude<PageName, "explore">, Parameters<typeof Lazy>[0]["load"]> = {
    home: () => import("../pages/home/home"),
    compare: () => import("../pages/compare/compare"),
    function: () => import("../pages/function/function"),
    open: () => import("../pages/open/open"),
    traces: () => import("../pages/traces/traces"),
    memory: () => import("../pages/memory/memory"),
    insights: () => import("../pages/insights/insights"),
    fleet: () => import("../pages/fleet/fleet"),
    triggers: () => import("../pages/triggers/triggers"),
    admin: () => import("../pages/admin/admin"),
};

export const RAIL: { page: PageName; name: string; key: string }[] = [
    { page: "home", name: "Home", key: "h" },
    { page: "explore", name: "Explore", key: "e" },
    { page: "compare", name: "Compare", key: "c" },
    { page: "traces", name: "Traces", key: "t" },
    { page: "memory", name: "Memory", key: "m" },
    { page: "insights", name: "Insights", key: "i" },
    { page: "fleet", name: "Fleet", key: "f" },
    { page: "triggers", name: "Triggers", key: "r" },
    { page: "admin", name: "Admin", key: "a" },
    { page: "open", name: "Open file", key: "o" },
];

/** Without a token: the login where the server wants one, else what everybody may see. */
function signOut() {
    setToken("");
    refresh();
}

function Rail() {
    const here = state.value.page;
    const next = theme.value === "auto" ? "light" : theme.value === "light" ? "dark" : "auto";
    return (
        <nav class="rail" aria-label="Pages">
            {RAIL.map((r) => (
                <a
                    key={r.page}
                    class="rail-item"
                    href={href(pageState(r.page, { base: null }))}
                    aria-current={here === r.page ? "page" : undefined}
                    title={`${r.name} (g ${r.key})`}
                >
                    <Icon name={r.page} />
                    <span>{r.name}</span>
                </a>
            ))}
            <span class="rail-space" />
            <button
                type="button"
                class="rail-item"
                onClick={() => setTheme(next)}
                title={`Colours: ${theme.value}`}
                aria-label={`Colours: ${theme.value}; change to ${next}`}
            >
                <Icon name="theme" />
                <span>
                    {theme.value === "auto" ? "Auto" : theme.value === "light" ? "Light" : "Dark"}
                </span>
            </button>
            <button
                type="button"
                class="rail-item"
                onClick={() => {
                    isHelpOpen.value = true;
                }}
                title="Keys (?)"
                aria-label="Keys"
            >
                <Icon name="help" />
                <span>Keys</span>
            </button>
            {token.value !== "" && (
                <button
                    type="button"
                    class="rail-item"
                    onClick={signOut}
                    title="Sign out: forget the token"
                    aria-label="Sign out"
                >
                    <Icon name="leave" />
                    <span>Sign out</span>
                </button>
            )}
        </nav>
    );
}

export function Shell() {
    const s = state.value;
    useKeys(RAIL, (page) => navigate(pageState(page, { base: null })));
    useEffect(() => {
        const dark = matchMedia("(prefers-color-scheme: dark)");
        const onChange = () => {
            themeChanges.value++;
        };
        applyTheme();
        dark.addEventListener("change", onChange);
        return () => dark.removeEventListener("change", onChange);
    }, []);
    useEffect(() => {
        const name = RAIL.find((r) => r.page === s.page)?.name ?? "Function";
        document.title = `${[s.scope.type, s.scope.service].filter(Boolean).join(" · ") || name} – Vesta`;
    }, [s]);
    if (needsLogin.value) return <Login version={boot.version ?? ""} />;
    return (
        <div class="shell">
            <button
                type="button"
                class="skip"
                onClick={() => document.getElementById("main")?.focus()}
            >
                Skip to content
            </button>
            <Rail />
            <main class="main" id="main" tabIndex={-1}>
                {s.page === "explore" ? <Explore /> : <Lazy load={pages[s.page]} />}
            </main>
            {isHelpOpen.value && <KeyHelp />}
            <div class="toast" role="status" aria-live="polite">
                {toast.value && <span class="toast-text">{toast.value.text}</span>}
            </div>
        </div>
    );
}
