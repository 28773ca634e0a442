// Who sends profiles: agents and SDKs with their health, and the debug files that name addresses.

import { useEffect } from "preact/hooks";
import { askAgents } from "../../api/agents";
import { patchState, refresh, state, ticks } from "../../app";
import { Icon } from "../../parts/icons";
import { Command, Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { ourWays } from "../../parts/ways";
import { AgentDetail } from "./agent_detail";
import { Agents } from "./agents";
import { DebugFiles } from "./debug_files";
import "./fleet.css";

const REFRESH_MS = 15_000;

function NoAgents() {
    const ways = ourWays();
    return (
        <Empty title="No agent has announced itself">
            <p>
                The agent profiles every process of a Linux machine and tells this server how it
                fares. Start it on a host, as root:
            </p>
            <Command text={`sudo vesta-agent --exporters ${ways.otlpHttp}`} />
            <p>Whether that host has all it needs, and how to mend what is missing:</p>
            <Command text="sudo vesta-agent doctor" />
            <p>
                Collectors, SDKs and files need no agent; they do not show up here, but their
                services do on Home.
            </p>
        </Empty>
    );
}

function AgentsTab() {
    const found = useQuery("fleet.agents", askAgents, ticks.value);
    useEffect(() => {
        const timer = setInterval(() => !document.hidden && refresh(), REFRESH_MS);
        return () => clearInterval(timer);
    }, []);
    if (found.error && !found.data) return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data) return <Skeleton rows={8} />;
    const { agents } = found.data;
    if (agents.length === 0) return <NoAgents />;
    const open = agents.find((a) => a.id === state.value.extra.agent);
    return (
        <Loading isOld={found.isOld}>
            {found.error && (
                <p class="fleet-bad" role="alert">
                    {found.error.message} What is shown is older.
                </p>
            )}
            {open ? <AgentDetail agent={open} /> : <Agents agents={agents} />}
        </Loading>
    );
}

export default function FleetPage() {
    const tab = state.value.extra.tab === "debug" ? "debug" : "agents";
    const go = (to: string) => patchState({ extra: to === "agents" ? {} : { tab: to } });
    return (
        <div class="page fleet">
            <h1>Fleet</h1>
            <div class="fleet-tabs" role="group" aria-label="What to list">
                <button
                    type="button"
                    class="button"
                    aria-pressed={tab === "agents"}
                    onClick={() => go("agents")}
                >
                    Agents
                </button>
                <button
                    type="button"
                    class="button"
                    aria-pressed={tab === "debug"}
                    onClick={() => go("debug")}
                >
                    Debug files
                </button>
                <button
                    type="button"
                    class="button icon"
                    onClick={refresh}
                    title="Ask again"
                    aria-label="Ask again"
                >
                    <Icon name="refresh" />
                </button>
            </div>
            {tab === "agents" ? <AgentsTab /> : <DebugFiles />}
        </div>
    );
}
