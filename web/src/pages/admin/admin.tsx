// Looking after the server: what it holds and refuses, who may do what, what was changed, erasing.

import { token } from "../../api/client";
import { href, state } from "../../app";
import { ErrorBox, Skeleton } from "../../parts/states";
import { useStat } from "../../parts/use_stat";
import { About, Overview } from "./overview";
import { Audit } from "./audit";
import { Erase } from "./erase";
import { Tenants } from "./tenants";
import { Tokens } from "./tokens";
import "./admin.css";

const TABS: [string, string][] = [
    ["", "Overview"],
    ["tokens", "Tokens"],
    ["tenants", "Tenants and limits"],
    ["audit", "Audit log"],
    ["erase", "Erase"],
];

export default function AdminPage() {
    const stat = useStat();
    const tab = state.value.extra.tab ?? "";
    if (stat.error && !stat.data) return <ErrorBox error={stat.error} retry={stat.retry} />;
    if (!stat.data) return <Skeleton rows={12} />;
    const s = stat.data;
    const isAdmin = s.roles ? s.roles.includes("admin") : s.store !== undefined;
    const isOperator = s.roles?.includes("operator") ?? isAdmin;
    if (!isAdmin)
        return (
            <div class="page admin">
                <h1>Admin</h1>
                <div class="admin-box" role="status">
                    <h2>The role “admin” is missing</h2>
                    <p>
                        {token.value
                            ? `Your token may: ${s.roles?.join(", ") || "read"}. Tokens, limits, the audit log and erasing need one with the role “admin”.`
                            : "Without tokens, only callers on the server's own machine may administer it. Open this page there, or make a token with the role “admin” on it."}
                    </p>
                </div>
                <About stat={s} />
            </div>
        );
    return (
        <div class="page admin">
            <h1>Admin</h1>
            <nav class="admin-tabs" aria-label="Administration">
                {TABS.map(([id, name]) => (
                    <a
                        key={id}
                        class="button"
                        href={href({ ...state.value, extra: id ? { tab: id } : {} })}
                        aria-current={tab === id ? "page" : undefined}
                    >
                        {name}
                    </a>
                ))}
            </nav>
            {tab === "tokens" && <Tokens stat={s} isOperator={isOperator} />}
            {tab === "tenants" && <Tenants stat={s} isOperator={isOperator} />}
            {tab === "audit" && <Audit />}
            {tab === "erase" && <Erase stat={s} />}
            {!TABS.some(([id]) => id !== "" && id === tab) && <Overview stat={s} />}
        </div>
    );
}
