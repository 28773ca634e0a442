// The server in numbers: its store, what came in, what was refused.

import { askCounters } from "../../api/admin";
import type { Stat, StoreFacts } from "../../api/facts";
import { ticks } from "../../app";
import { type Counter, byLabel } from "../../core/counters";
import { agoText, clockText, spanText } from "../../core/time";
import { amountText, countText, shareText } from "../../core/units";
import { Amount } from "../../parts/figures";
import { ErrorBox, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";

export function Facts(props: { items: [string, string][] }) {
    return (
        <dl class="admin-facts">
            {props.items.map(([name, value]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                </div>
            ))}
        </dl>
    );
}

function keepText(ns: string | undefined): string {
    return ns && Number(ns) > 0 ? spanText(Number(ns) / 1e6) : "as configured";
}

export function About(props: { stat: Stat }) {
    const s = props.stat;
    const now = Number(s.now_ns) / 1e6;
    const skew = Date.now() - now;
    const items: [string, string][] = [
        ["Version", s.version],
        ["Tenant", s.tenant],
        ["You may", s.roles?.join(", ") || "–"],
        ["Running for", spanText(now - Number(s.start_ns) / 1e6)],
        ["State", s.is_draining ? "shutting down" : "takes and answers"],
        [
            "Server's clock",
            `${clockText(now, Date.now(), true)}${Math.abs(skew) > 5000 ? `, ${spanText(Math.abs(skew))} ${skew > 0 ? "behind" : "ahead of"} this browser` : ""}`,
        ],
    ];
    if (s.retention)
        items.push(
            ["Profiles are kept", keepText(s.retention.profiles_ns)],
            ["Spans are kept", keepText(s.retention.spans_ns)],
        );
    if (s.limits)
        items.push(
            ["Largest body", amountText(s.limits.body_bytes, "bytes")],
            ["Largest upload", amountText(s.limits.upload_bytes, "bytes")],
        );
    return (
        <section class="admin-box" aria-labelledby="admin-about">
            <h2 id="admin-about">This server</h2>
            <Facts items={items} />
            <p class="muted">
                Retention and limits are set in the configuration (<code>vesta config</code>{" "}
                explains every key), for one tenant under “Tenants and limits”.
            </p>
        </section>
    );
}

function Meter(props: { label: string; value: number; of: number }) {
    const share = props.of > 0 ? Math.min(1, props.value / props.of) : 0;
    return (
        <div class="admin-meter">
            <div>
                {props.label}: <Amount value={props.value} unit="bytes" /> of{" "}
                <Amount value={props.of} unit="bytes" />{" "}
                <span class="muted">({shareText(props.value, props.of)})</span>
            </div>
            <span class="admin-meter-bar" aria-hidden="true">
                <span class={share > 0.9 ? "is-full" : ""} style={{ width: `${100 * share}%` }} />
            </span>
        </div>
    );
}

function Store(props: { store: StoreFacts }) {
    const s = props.store;
    const first = Number(s.first_ns) / 1e6;
    const last = Number(s.last_ns) / 1e6;
    const now = Date.now();
    return (
        <section class="admin-box" aria-labelledby="admin-store">
            <h2 id="admin-store">Storage</h2>
            {(s.trouble || s.is_read_only) && (
                <p class="admin-bad" role="alert">
                    {s.is_read_only ? "The store is read-only. " : ""}
                    {s.trouble}
                </p>
            )}
            <Meter label="Disk" value={s.disk_bytes} of={s.limit_bytes} />
            <Meter label="Memory of the store" value={s.memory_bytes} of={s.memory_limit} />
            <Facts
                items={[
                    ["Profiles", countText(s.profiles)],
                    ["Samples", countText(s.samples)],
                    ["Spans", countText(s.spans)],
                    ["Series", countText(s.series)],
                    ["Tenants", countText(s.tenants)],
                    [
                        "Segments",
                        `${countText(s.segments)}, ${amountText(s.segment_bytes, "bytes")}`,
                    ],
                    ["Write-ahead log", amountText(s.wal_bytes, "bytes")],
                    ["Names", amountText(s.dict_bytes, "bytes")],
                    ["Free on disk", amountText(s.free_bytes, "bytes")],
                    ["Oldest", first ? agoText(first, now) : "–"],
                    ["Newest", last ? agoText(last, now) : "–"],
                    [
                        "Bytes a sample",
                        s.samples ? amountText(s.disk_bytes / s.samples, "bytes") : "–",
                    ],
                ]}
            />
            <p class="muted">
                Since the start: {countText(s.appended)} profiles stored, {countText(s.duplicates)}{" "}
                there already, {countText(s.rejected)} refused by the store,{" "}
                {countText(s.lost_records)} lost.
            </p>
        </section>
    );
}

const REASONS: Record<string, string> = {
    overload: "queues were full: senders were asked to wait",
    too_large: "larger than a limit",
    malformed: "not a profile, or damaged",
    unauthenticated: "no token, or a wrong one",
    forbidden: "the token lacks the role",
    not_found: "an address that is none",
    no_data: "a question about what is not stored",
    bad_parameter: "a question that was not understood",
    rate: "more than the tenant may send",
    series: "more label sets than the tenant may have",
    old: "older than profiles are kept",
};

function Counts(props: { title: string; rows: [string, number][]; empty: string }) {
    const rows = props.rows.filter(([, n]) => n > 0);
    return (
        <div>
            <h3>{props.title}</h3>
            {rows.length === 0 ? (
                <p class="muted">{props.empty}</p>
            ) : (
                <table class="table admin-counts">
                    <thead class="sr-only">
                        <tr>
                            <th scope="col">What</th>
                            <th scope="col">How many</th>
                        </tr>
                    </thead>
                    <tbody>
                        {rows.slice(0, 12).map(([name, n]) => (
                            <tr key={name}>
                                <td>
                                    {name || "all"}
                                    {REASONS[name] && <span class="muted"> {REASONS[name]}</span>}
                                </td>
                                <td class="number">{countText(n)}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            )}
        </div>
    );
}

function Ingest(props: { counters: Counter[] }) {
    const c = props.counters;
    return (
        <section class="admin-box" aria-labelledby="admin-ingest">
            <h2 id="admin-ingest">What came in, and what was refused</h2>
            <p class="muted">Since the server was started, of all tenants.</p>
            <div class="admin-columns">
                <Counts
                    title="Profiles stored, by format"
                    rows={byLabel(c, "vesta_ingest_profiles_total", "format")}
                    empty="None yet."
                />
                <Counts
                    title="Refused, by reason"
                    rows={byLabel(c, "vesta_rejects_total", "reason")}
                    empty="Nothing was refused."
                />
                <Counts
                    title="Failed logins"
                    rows={byLabel(c, "vesta_auth_failures_total", "reason")}
                    empty="None."
                />
                <Counts
                    title="Answers, by status"
                    rows={byLabel(c, "vesta_http_requests_total", "status")}
                    empty="None."
                />
            </div>
        </section>
    );
}

export function Overview(props: { stat: Stat }) {
    const counters = useQuery("admin.counters", askCounters, ticks.value);
    return (
        <div class="admin-sections">
            {props.stat.store && <Store store={props.stat.store} />}
            {counters.error && <ErrorBox error={counters.error} retry={counters.retry} />}
            {!counters.data && !counters.error && <Skeleton rows={4} />}
            {counters.data && <Ingest counters={counters.data} />}
            <About stat={props.stat} />
        </div>
    );
}
