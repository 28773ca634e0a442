// Making a token. The first one closes an open server, which is said before it happens.

import { useEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { createToken } from "../../api/admin";
import { setToken } from "../../api/client";
import { copyText, refresh } from "../../app";

const ROLES: [string, string][] = [
    ["ingest", "send profiles, spans, deployments, debug files"],
    ["read", "ask"],
    ["admin", "all of that, and tokens, limits, erasing"],
];
const LIVES: [string, string][] = [
    ["", "never"],
    ["1d", "in a day"],
    ["30d", "in 30 days"],
    ["90d", "in 90 days"],
    ["365d", "in a year"],
];

function Secret(props: { text: string; isUsed: boolean; close: () => void }) {
    return (
        <>
            <h2>The new token</h2>
            <p>
                It is shown this once: copy it now. The server keeps only its hash.
                {props.isUsed && " This browser uses it from now on."}
            </p>
            <div class="command">
                <code>{props.text}</code>
                <button
                    type="button"
                    class="button small"
                    onClick={() => copyText(props.text, "Token")}
                >
                    Copy
                </button>
            </div>
            <div class="confirm-buttons">
                <button type="button" class="button primary" onClick={props.close}>
                    Done
                </button>
            </div>
        </>
    );
}

export function NewToken(props: {
    isFirst: boolean;
    isOperator: boolean;
    tenant: string;
    close: () => void;
}) {
    const dialog = useRef<HTMLDialogElement>(null);
    const name = useSignal("");
    const roles = useSignal<ReadonlySet<string>>(new Set(props.isFirst ? ["admin"] : ["ingest"]));
    const life = useSignal("");
    // An operator's token is of every tenant: the first one should be that.
    const tenant = useSignal(props.isFirst && props.isOperator ? "*" : props.tenant);
    const use = useSignal(props.isFirst);
    const problem = useSignal("");
    const made = useSignal("");
    useEffect(() => dialog.current?.showModal(), []);

    const make = async (e: Event) => {
        e.preventDefault();
        problem.value = "";
        try {
            const t = await createToken({
                name: name.value.trim(),
                roles: [...roles.value],
                tenant: tenant.value.trim() || undefined,
                expires_in: life.value || undefined,
            });
            made.value = t.token;
            if (use.value) setToken(t.token);
            refresh();
        } catch (e) {
            problem.value = (e as Error).message;
        }
    };
    const locksOut = props.isFirst && !(use.value && roles.value.has("admin"));
    return (
        <dialog class="confirm" ref={dialog} aria-label="New token" onClose={props.close}>
            {made.value ? (
                <Secret text={made.value} isUsed={use.value} close={props.close} />
            ) : (
                <form onSubmit={make}>
                    <h2>New token</h2>
                    <label class="confirm-field">
                        Name: what it is for
                        <input
                            value={name.value}
                            maxLength={100}
                            required
                            onInput={(e) => {
                                name.value = e.currentTarget.value;
                            }}
                        />
                    </label>
                    <fieldset class="admin-roles">
                        <legend>It may</legend>
                        {ROLES.map(([id, text]) => (
                            <label key={id}>
                                <input
                                    type="checkbox"
                                    checked={roles.value.has(id)}
                                    onChange={(e) => {
                                        const next = new Set(roles.value);
                                        if (e.currentTarget.checked) next.add(id);
                                        else next.delete(id);
                                        roles.value = next;
                                    }}
                                />
                                {id} <span class="muted">{text}</span>
                            </label>
                        ))}
                    </fieldset>
                    <label class="confirm-field">
                        It expires
                        <select
                            value={life.value}
                            onChange={(e) => {
                                life.value = e.currentTarget.value;
                            }}
                        >
                            {LIVES.map(([v, t]) => (
                                <option key={v} value={v}>
                                    {t}
                                </option>
                            ))}
                        </select>
                    </label>
                    {props.isOperator && (
                        <label class="confirm-field">
                            Tenant (* is every tenant)
                            <input
                                value={tenant.value}
                                maxLength={64}
                                required
                                onInput={(e) => {
                                    tenant.value = e.currentTarget.value;
                                }}
                            />
                        </label>
                    )}
                    <label class="admin-use">
                        <input
                            type="checkbox"
                            checked={use.value}
                            onChange={(e) => {
                                use.value = e.currentTarget.checked;
                            }}
                        />
                        Use it in this browser
                    </label>
                    {props.isFirst && (
                        <p class={locksOut ? "admin-bad" : "muted"}>
                            This is the first token: from then on every request needs one, also
                            those of agents and SDKs that send now.
                            {locksOut &&
                                " Without the role “admin” and using it here, you could not administer this server from this page any more."}
                        </p>
                    )}
                    {problem.value && (
                        <p class="confirm-problem" role="alert">
                            {problem.value}
                        </p>
                    )}
                    <div class="confirm-buttons">
                        <button type="button" class="button" onClick={props.close}>
                            Cancel
                        </button>
                        <button
                            type="submit"
                            class="button primary"
                            disabled={roles.value.size === 0 || name.value.trim() === ""}
                        >
                            Make
                        </button>
                    </div>
                </form>
            )}
        </dialog>
    );
}
