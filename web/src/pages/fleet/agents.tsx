// All agents, those with trouble first.

import type { Agent } from "../../api/agents";
import { boot } from "../../api/client";
import { href, state } from "../../app";
import { type Trouble, troublesOf } from "../../core/agent_health";
import { agoText } from "../../core/time";
import { countText, threeDigits } from "../../core/units";
import { Amount } from "../../parts/figures";

export function Troubles(props: { list: Trouble[] }) {
    if (props.list.length === 0) return <span class="fleet-good">fine</span>;
    return (
        <span class="fleet-troubles">
            {props.list.map((t) => (
                <span key={t.id} class={t.isBad ? "fleet-bad" : "fleet-warn"}>
                    {t.text}
                </span>
            ))}
        </span>
    );
}

function Row(props: { agent: Agent; now: number; troubles: Trouble[] }) {
    const { agent: a, now } = props;
    const s = state.value;
    const directive = a.directive.number > 0 ? a.directive : null;
    return (
        <tr>
            <td>
                <a href={href({ ...s, extra: { ...s.extra, agent: a.id } })}>{a.host || a.id}</a>
                <span class="muted"> {a.kind}</span>
            </td>
            <td>
                <Troubles list={props.troubles} />
            </td>
            <td>{a.version}</td>
            <td>
                {a.mode}
                {directive && directive.mode !== a.mode && (
                    <span class="fleet-warn"> told: {directive.mode}</span>
                )}
            </td>
            <td class="number" title={a.last_seen}>
                {agoText(Date.parse(a.last_seen), now)}
            </td>
            <td class="number">
                {threeDigits(a.rate)}
                <small> /s</small>
            </td>
            <td class="number">{countText(a.samples)}</td>
            <td class="number">{countText(a.lost)}</td>
            <td class="number">
                {a.cpu_percent === undefined ? (
                    "–"
                ) : (
                    <>
                        {threeDigits(a.cpu_percent)}
                        <small> %</small>
                    </>
                )}
            </td>
            <td class="number">
                {a.memory_bytes === undefined ? (
                    "–"
                ) : (
                    <Amount value={a.memory_bytes} unit="bytes" />
                )}
            </td>
            <td>{(a.types ?? []).join(", ") || "–"}</td>
            <td class="number">{a.services.length}</td>
        </tr>
    );
}

const HEAD: [string, boolean, string][] = [
    ["Host", false, "Where it runs, and what it is"],
    ["Health", false, "What is not as it should be"],
    ["Version", false, ""],
    ["Mode", false, "What it does now"],
    ["Last seen", true, "Its last heartbeat"],
    ["Rate", true, "Samples a second and CPU"],
    ["Samples", true, "Since it was started"],
    ["Dropped", true, "Since it was started"],
    ["CPU", true, "What it takes itself, of one CPU"],
    ["Memory", true, "What it takes itself"],
    ["Types", false, "What it collects"],
    ["Services", true, "How many it profiles"],
];

export function Agents(props: { agents: Agent[] }) {
    const now = Date.now();
    const rows = props.agents
        .map((agent) => ({ agent, troubles: troublesOf(agent, now, boot.version ?? "") }))
        .sort(
            (a, b) =>
                b.troubles.filter((t) => t.isBad).length -
                    a.troubles.filter((t) => t.isBad).length ||
                a.agent.host.localeCompare(b.agent.host),
        );
    const bad = rows.filter((r) => r.troubles.some((t) => t.isBad)).length;
    return (
        <>
            <p class="muted">
                {countText(rows.length)} {rows.length === 1 ? "agent" : "agents"},{" "}
                {bad === 0 ? "all fine" : `${bad} with trouble`}.
            </p>
            <div class="fleet-scroll">
                <table class="table">
                    <thead>
                        <tr>
                            {HEAD.map(([name, isNumber, title]) => (
                                <th
                                    key={name}
                                    scope="col"
                                    class={isNumber ? "number" : ""}
                                    title={title || undefined}
                                >
                                    {name}
                                </th>
                            ))}
                        </tr>
                    </thead>
                    <tbody>
                        {rows.map((r) => (
                            <Row key={r.agent.id} agent={r.agent} now={now} troubles={r.troubles} />
                        ))}
                    </tbody>
                </table>
            </div>
        </>
    );
}
