// What each tenant may use and how long its data is kept. Operators (tokens of every tenant) set it.

import { useState } from "preact/hooks";
import { type Tenant, askTenants, putTenant } from "../../api/admin";
import type { Stat } from "../../api/facts";
import { refresh, say, ticks } from "../../app";
import { amountText, countText } from "../../core/units";
import { Confirm } from "../../parts/confirm";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";

type Key = Exclude<keyof Tenant, "name">;

const FIELDS: { key: Key; name: string; hint: string; isBytes?: boolean }[] = [
    { key: "max_age", name: "Profiles are kept", hint: "7d, 720h; 0 is the server's default" },
    { key: "max_span_age", name: "Spans are kept", hint: "7d; 0 is the default" },
    { key: "max_bytes", name: "Most on disk", hint: "10GiB; 0 is no own limit", isBytes: true },
    {
        key: "bytes_per_second",
        name: "Bytes a second",
        hint: "5MiB; 0 is the default",
        isBytes: true,
    },
    { key: "profiles_per_second", name: "Profiles a second", hint: "100; 0 is the default" },
    { key: "series_max", name: "Label sets", hint: "100000; 0 is the default" },
    { key: "queries_max", name: "Questions at once", hint: "32; 0 is the default" },
];

function shown(t: Tenant, f: (typeof FIELDS)[number]): string {
    const v = t[f.key];
    if (v === 0 || v === "0") return "default";
    if (typeof v === "string") return v;
    return f.isBytes ? amountText(v, "bytes") : countText(v);
}

/** Only what was changed is sent; sizes are text that the server reads. */
export function changesOf(
    old: Tenant | null,
    typed: Record<string, string>,
): Record<string, string | number> {
    const out: Record<string, string | number> = {};
    for (const f of FIELDS) {
        const text = (typed[f.key] ?? "").trim();
        const before = old ? String(old[f.key]) : "0";
        if (text === "" || text === before) continue;
        const isNumber = /^\d+$/.test(text) && !/age$/.test(f.key);
        out[f.key] = isNumber ? Number(text) : text;
    }
    return out;
}

function EditTenant(props: { tenant: Tenant | null; close: () => void }) {
    const old = props.tenant;
    const [name, setName] = useState(old?.name ?? "");
    const [typed, setTyped] = useState<Record<string, string>>(
        Object.fromEntries(FIELDS.map((f) => [f.key, String(old?.[f.key] ?? 0)])),
    );
    return (
        <Confirm
            title={old ? `Limits of ${old.name}` : "Limits of a tenant"}
            action="Set"
            isBlocked={name.trim() === ""}
            onYes={async () => {
                await putTenant(name.trim(), changesOf(old, typed));
                say(`Limits of ${name.trim()} are set`);
                refresh();
            }}
            onClose={props.close}
        >
            {!old && (
                <label class="confirm-field">
                    Name
                    <input value={name} onInput={(e) => setName(e.currentTarget.value)} />
                </label>
            )}
            <div class="admin-fields">
                {FIELDS.map((f) => (
                    <label key={f.key} class="confirm-field">
                        {f.name}
                        <input
                            value={typed[f.key]}
                            title={f.hint}
                            onInput={(e) => setTyped({ ...typed, [f.key]: e.currentTarget.value })}
                        />
                        <small>{f.hint}</small>
                    </label>
                ))}
            </div>
            <p class="muted">A shorter time, or less disk, deletes what is beyond it.</p>
        </Confirm>
    );
}

export function Tenants(props: { stat: Stat; isOperator: boolean }) {
    const found = useQuery("admin.tenants", askTenants, ticks.value);
    const [editing, setEditing] = useState<{ tenant: Tenant | null } | null>(null);
    if (found.error && !found.data) return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data) return <Skeleton rows={6} />;
    const tenants = found.data;
    return (
        <Loading isOld={found.isOld}>
            <div class="admin-head">
                <p class="lead">
                    Tenants with limits of their own. All others have those of the configuration.
                    {!props.isOperator &&
                        " Setting them needs a token of every tenant (*) with the role “admin”."}
                </p>
                {props.isOperator && (
                    <button
                        type="button"
                        class="button primary"
                        onClick={() => setEditing({ tenant: null })}
                    >
                        Set limits
                    </button>
                )}
            </div>
            {tenants.length === 0 ? (
                <p class="muted">
                    None: every tenant, also yours (<code>{props.stat.tenant}</code>), has the
                    limits of the configuration.
                </p>
            ) : (
                <div class="admin-scroll">
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">Tenant</th>
                                {FIELDS.map((f) => (
                                    <th key={f.key} scope="col" class="number">
                                        {f.name}
                                    </th>
                                ))}
                                <th scope="col">
                                    <span class="sr-only">Actions</span>
                                </th>
                            </tr>
                        </thead>
                        <tbody>
                            {tenants.map((t) => (
                                <tr key={t.name}>
                                    <td>{t.name}</td>
                                    {FIELDS.map((f) => (
                                        <td key={f.key} class="number">
                                            {shown(t, f)}
                                        </td>
                                    ))}
                                    <td class="number">
                                        {props.isOperator && (
                                            <button
                                                type="button"
                                                class="button small"
                                                aria-label={`Change limits of ${t.name}`}
                                                onClick={() => setEditing({ tenant: t })}
                                            >
                                                Change
                                            </button>
                                        )}
                                    </td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
            {editing && <EditTenant tenant={editing.tenant} close={() => setEditing(null)} />}
        </Loading>
    );
}
