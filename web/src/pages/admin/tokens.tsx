// Tokens: who may send, ask and administer. A secret is shown once.

import { useState } from "preact/hooks";
import { type Token, askTokens, revokeToken } from "../../api/admin";
import type { Stat } from "../../api/facts";
import { refresh, say, ticks } from "../../app";
import { agoText, clockText } from "../../core/time";
import { Confirm } from "../../parts/confirm";
import { Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { NewToken } from "./new_token";

type TokenState = "valid" | "revoked" | "expired";

export function tokenState(t: Token, now: number): TokenState {
    if (t.revoked_ns !== "0") return "revoked";
    const expires = Number(t.expires_ns) / 1e6;
    return expires > 0 && expires <= now ? "expired" : "valid";
}

function Row(props: { token: Token; now: number; hasTenants: boolean; revoke: () => void }) {
    const { token: t, now } = props;
    const is = tokenState(t, now);
    const expires = Number(t.expires_ns) / 1e6;
    return (
        <tr class={is === "valid" ? "" : "muted"}>
            <td>{t.name || "(no name)"}</td>
            <td class="mono">{t.id}</td>
            {props.hasTenants && <td>{t.tenant === "*" ? "* (every tenant)" : t.tenant}</td>}
            <td>{t.roles.replaceAll(",", ", ")}</td>
            <td class="number">{agoText(Number(t.created_ns) / 1e6, now)}</td>
            <td class="number">{expires > 0 ? clockText(expires, now) : "never"}</td>
            <td>{is}</td>
            <td class="number">
                {is === "valid" && (
                    <button
                        type="button"
                        class="button small"
                        aria-label={`Revoke ${t.name || t.id}`}
                        onClick={props.revoke}
                    >
                        Revoke
                    </button>
                )}
            </td>
        </tr>
    );
}

export function Tokens(props: { stat: Stat; isOperator: boolean }) {
    const found = useQuery("admin.tokens", askTokens, ticks.value);
    const [revoking, setRevoking] = useState<Token | null>(null);
    const [isNew, setNew] = useState(false);
    if (found.error && !found.data) return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data) return <Skeleton rows={6} />;
    const now = Date.now();
    const all = found.data;
    const rank = (t: Token) => (tokenState(t, now) === "valid" ? 0 : 1);
    const sorted = [...all].sort(
        (a, b) => rank(a) - rank(b) || Number(b.created_ns) - Number(a.created_ns),
    );
    const hasTenants = props.isOperator;
    return (
        <Loading isOld={found.isOld}>
            <div class="admin-head">
                <p class="lead">
                    A token belongs to one tenant and has roles: <code>ingest</code> sends,{" "}
                    <code>read</code> asks, <code>admin</code> does both and looks after the tenant.
                </p>
                <button type="button" class="button primary" onClick={() => setNew(true)}>
                    New token
                </button>
            </div>
            {all.length === 0 ? (
                <Empty title="There are no tokens">
                    <p>
                        Everyone who can reach this server may send and ask, and callers on its own
                        machine may administer it. The first token closes it: from then on every
                        request needs one. Make one with the role “admin” first.
                    </p>
                </Empty>
            ) : (
                <div class="admin-scroll">
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">Name</th>
                                <th scope="col">Id</th>
                                {hasTenants && <th scope="col">Tenant</th>}
                                <th scope="col">Roles</th>
                                <th scope="col" class="number">
                                    Made
                                </th>
                                <th scope="col" class="number">
                                    Expires
                                </th>
                                <th scope="col">State</th>
                                <th scope="col">
                                    <span class="sr-only">Actions</span>
                                </th>
                            </tr>
                        </thead>
                        <tbody>
                            {sorted.map((t) => (
                                <Row
                                    key={t.id}
                                    token={t}
                                    now={now}
                                    hasTenants={hasTenants}
                                    revoke={() => setRevoking(t)}
                                />
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
            {isNew && (
                <NewToken
                    isFirst={all.length === 0}
                    isOperator={props.isOperator}
                    tenant={props.stat.tenant}
                    close={() => setNew(false)}
                />
            )}
            {revoking && (
                <Confirm
                    title={`Revoke ${revoking.name || revoking.id}?`}
                    action="Revoke"
                    isDanger
                    onYes={async () => {
                        await revokeToken(revoking.id);
                        say("Revoked");
                        refresh();
                    }}
                    onClose={() => setRevoking(null)}
                >
                    <p>
                        Whoever uses it is refused at once. It cannot be undone; a new token can be
                        made.
                    </p>
                </Confirm>
            )}
        </Loading>
    );
}
