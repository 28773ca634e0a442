// One agent: all that it tells, and what it can be told.

import { useState } from "preact/hooks";
import { type Agent, MODES, type Mode, direct } from "../../api/agents";
import { boot } from "../../api/client";
import { href, pageState, refresh, say, state } from "../../app";
import { troublesOf } from "../../core/agent_health";
import { agoText, clockText } from "../../core/time";
import { amountText, countText, shareText, threeDigits } from "../../core/units";
import { emptyScope } from "../../core/url";
import { Confirm } from "../../parts/confirm";
import { mayAdmin, useStat } from "../../parts/use_stat";
import { Troubles } from "./agents";

const MODE_TEXT: Record<Mode, string> = {
    off: "Collects nothing until it is told otherwise.",
    low: "A quarter of the usual rate.",
    normal: "As it is configured.",
    burst: "Many more samples, for a while.",
};
const DURATIONS = ["30s", "1m", "5m", "15m", "1h"];

function TellDialog(props: { agent: Agent; mode: Mode; close: () => void }) {
    const { agent, mode } = props;
    const [duration, setDuration] = useState(mode === "burst" ? "1m" : "");
    const [reason, setReason] = useState("");
    const name = agent.host || agent.id;
    const tell = async () => {
        await direct({
            mode,
            agent: agent.id,
            duration: duration || undefined,
            reason: reason || undefined,
        });
        say(`${name} is told: ${mode}`);
        refresh();
    };
    return (
        <Confirm
            title={`Tell ${name}: ${mode}`}
            action="Tell it"
            isDanger={mode === "off"}
            onYes={tell}
            onClose={props.close}
        >
            <p>{MODE_TEXT[mode]} It hears it within seconds. The audit log notes who said so.</p>
            <label class="confirm-field">
                For how long
                <select value={duration} onChange={(e) => setDuration(e.currentTarget.value)}>
                    {mode !== "burst" && <option value="">until told otherwise</option>}
                    {DURATIONS.map((d) => (
                        <option key={d} value={d}>
                            {d}
                        </option>
                    ))}
                </select>
            </label>
            <label class="confirm-field">
                Why (for others)
                <input
                    value={reason}
                    maxLength={120}
                    onInput={(e) => setReason(e.currentTarget.value)}
                />
            </label>
        </Confirm>
    );
}

function factsOf(a: Agent, now: number): [string, string][] {
    const all = a.samples + a.lost;
    const facts: [string, string][] = [
        ["Kind", a.kind],
        ["Version", a.version],
        ["Id", a.id],
        ["Mode", a.mode],
        ["Rate", `${threeDigits(a.rate)} /s`],
        ["Types", (a.types ?? []).join(", ") || "–"],
        ["Samples", countText(a.samples)],
        ["Dropped", `${countText(a.lost)} (${shareText(a.lost, all)})`],
    ];
    if (a.cpu_percent !== undefined) facts.push(["Own CPU", `${threeDigits(a.cpu_percent)} %`]);
    if (a.memory_bytes !== undefined)
        facts.push(["Own memory", amountText(a.memory_bytes, "bytes")]);
    if (a.skew_ns !== undefined)
        facts.push(["Clock", `${amountText(Number(a.skew_ns), "nanoseconds")} off`]);
    facts.push(
        ["First seen", agoText(Date.parse(a.first_seen), now)],
        ["Last seen", agoText(Date.parse(a.last_seen), now)],
    );
    return facts;
}

export function AgentDetail(props: { agent: Agent }) {
    const { agent: a } = props;
    const [telling, setTelling] = useState<Mode | null>(null);
    const stat = useStat();
    const s = state.value;
    const now = Date.now();
    const d = a.directive;
    return (
        <article class="fleet-detail">
            <nav aria-label="Where you are">
                <a href={href({ ...s, extra: { ...s.extra, agent: "" } })}>All agents</a>
            </nav>
            <h2>{a.host || a.id}</h2>
            <Troubles list={troublesOf(a, now, boot.version ?? "")} />
            <dl class="fleet-facts">
                {factsOf(a, now).map(([name, value]) => (
                    <div key={name}>
                        <dt>{name}</dt>
                        <dd>{value}</dd>
                    </div>
                ))}
            </dl>
            <h3>What it was told</h3>
            <p class="fleet-told">
                {d.number === 0
                    ? "Nothing: it does as it is configured."
                    : `${d.mode}${d.until ? ` until ${clockText(Date.parse(d.until), now, true)}` : ""}${d.reason ? `: ${d.reason}` : ""}`}
            </p>
            {mayAdmin(stat.data) ? (
                <div class="fleet-tabs" role="group" aria-label="Tell it">
                    {MODES.map((m) => (
                        <button
                            key={m}
                            type="button"
                            class="button"
                            title={MODE_TEXT[m]}
                            onClick={() => setTelling(m)}
                        >
                            {m}
                        </button>
                    ))}
                </div>
            ) : (
                <p class="muted">Telling it something else needs a token with the role “admin”.</p>
            )}
            <h3>Services</h3>
            {a.services.length === 0 && <p class="muted">It has named none yet.</p>}
            <ul class="fleet-services">
                {a.services.map((name) => (
                    <li key={name}>
                        <a
                            href={href(
                                pageState("explore", { scope: { ...emptyScope(), service: name } }),
                            )}
                        >
                            {name}
                        </a>
                    </li>
                ))}
            </ul>
            {telling && <TellDialog agent={a} mode={telling} close={() => setTelling(null)} />}
        </article>
    );
}
