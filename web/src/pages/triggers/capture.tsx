// A capture by hand: which service, what, for how long.

import { useSignal } from "@preact/signals";
import { type Agent, direct } from "../../api/agents";
import { href, pageState, refresh, state } from "../../app";
import { emptyScope } from "../../core/url";

const TYPES: [string, string][] = [
    ["cpu", "what runs"],
    ["offcpu", "where threads wait"],
    ["wall", "all threads, running or not"],
    ["lock", "waiting for locks"],
];
const DURATIONS: [string, string][] = [
    ["30s", "30 s"],
    ["1m", "1 min"],
    ["5m", "5 min"],
    ["15m", "15 min"],
    ["1h", "1 h"],
];
const RATES: [string, string][] = [
    ["", "the agent's own for bursts"],
    ["49", "49 /s"],
    ["99", "99 /s"],
    ["199", "199 /s"],
    ["499", "499 /s"],
];

export function Capture(props: { agents: Agent[] }) {
    const services = [...new Set(props.agents.flatMap((a) => a.services))].sort();
    const service = useSignal(
        services.includes(state.value.scope.service) ? state.value.scope.service : "",
    );
    const types = useSignal<ReadonlySet<string>>(new Set(["cpu"]));
    const duration = useSignal("1m");
    const rate = useSignal("");
    const reason = useSignal("");
    const problem = useSignal("");
    const started = useSignal<{ service: string; at: string } | null>(null);
    const meant = props.agents.filter((a) => !service.value || a.services.includes(service.value));

    const toggle = (t: string, isOn: boolean) => {
        const next = new Set(types.value);
        if (isOn) next.add(t);
        else next.delete(t);
        types.value = next;
    };
    const start = async (e: Event) => {
        e.preventDefault();
        problem.value = "";
        try {
            await direct({
                mode: "burst",
                service: service.value || undefined,
                types: [...types.value],
                duration: duration.value,
                rate: rate.value ? Number(rate.value) : undefined,
                reason: reason.value.trim() || undefined,
            });
            started.value = { service: service.value, at: new Date().toISOString() };
            refresh();
        } catch (e) {
            problem.value = (e as Error).message;
        }
    };
    return (
        <form class="triggers-form" onSubmit={start} aria-label="Capture more">
            <h2>Capture more now</h2>
            <div class="triggers-fields">
                <label>
                    Service
                    <select
                        value={service.value}
                        onChange={(e) => {
                            service.value = e.currentTarget.value;
                        }}
                    >
                        <option value="">all services of all agents</option>
                        {services.map((s) => (
                            <option key={s} value={s}>
                                {s}
                            </option>
                        ))}
                    </select>
                </label>
                <label>
                    For
                    <select
                        value={duration.value}
                        onChange={(e) => {
                            duration.value = e.currentTarget.value;
                        }}
                    >
                        {DURATIONS.map(([v, t]) => (
                            <option key={v} value={v}>
                                {t}
                            </option>
                        ))}
                    </select>
                </label>
                <label>
                    Rate
                    <select
                        value={rate.value}
                        onChange={(e) => {
                            rate.value = e.currentTarget.value;
                        }}
                    >
                        {RATES.map(([v, t]) => (
                            <option key={v} value={v}>
                                {t}
                            </option>
                        ))}
                    </select>
                </label>
                <label>
                    Why (for others)
                    <input
                        value={reason.value}
                        maxLength={120}
                        onInput={(e) => {
                            reason.value = e.currentTarget.value;
                        }}
                    />
                </label>
            </div>
            <fieldset class="triggers-types">
                <legend>Types</legend>
                {TYPES.map(([id, text]) => (
                    <label key={id}>
                        <input
                            type="checkbox"
                            checked={types.value.has(id)}
                            onChange={(e) => toggle(id, e.currentTarget.checked)}
                        />
                        {id} <span class="muted">{text}</span>
                    </label>
                ))}
            </fieldset>
            <div class="triggers-go">
                <button
                    type="submit"
                    class="button primary"
                    disabled={types.value.size === 0 || meant.length === 0}
                >
                    Capture
                </button>
                <span class="muted">
                    {meant.length === 1 ? "1 agent is" : `${meant.length} agents are`} meant. The
                    audit log notes who started it.
                </span>
            </div>
            {problem.value && (
                <p class="triggers-problem" role="alert">
                    {problem.value}
                </p>
            )}
            {started.value && (
                <p role="status">
                    Started.{" "}
                    <a
                        href={href(
                            pageState("explore", {
                                scope: {
                                    ...emptyScope(),
                                    service: started.value.service,
                                    from: started.value.at,
                                },
                            }),
                        )}
                    >
                        Look at what it captures
                    </a>{" "}
                    (the first profile arrives after some 10 s).
                </p>
            )}
        </form>
    );
}
