// Capturing more for a while: by hand, now. What agents have been told and still holds is listed.

import { useEffect } from "preact/hooks";
import { type Fleet, type Order, askAgents, endOrder } from "../../api/agents";
import { href, pageState, refresh, say, ticks } from "../../app";
import { clockText, spanText } from "../../core/time";
import { emptyScope } from "../../core/url";
import { Command, Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { mayAdmin, useStat } from "../../parts/use_stat";
import { useQuery } from "../../parts/use_query";
import { ourWays } from "../../parts/ways";
import { Capture } from "./capture";
import "./triggers.css";

const REFRESH_MS = 5_000;

export function targetText(o: { agent: string; service: string; host: string }): string {
    const parts = [
        o.service && `service ${o.service}`,
        o.host && `host ${o.host}`,
        o.agent && `agent ${o.agent}`,
    ].filter(Boolean);
    return parts.join(", ") || "every agent";
}

function OrderRow(props: { order: Order; now: number; mayEnd: boolean }) {
    const { order: o, now } = props;
    const until = o.until ? Date.parse(o.until) : 0;
    const end = async () => {
        try {
            await endOrder(o);
            say("Ended");
        } catch (e) {
            say((e as Error).message);
        }
        refresh();
    };
    const scope = { ...emptyScope(), service: o.service, from: o.issued };
    return (
        <tr>
            <td>
                <b>{o.mode}</b>
            </td>
            <td>{targetText(o)}</td>
            <td>{(o.types ?? []).join(", ") || "as configured"}</td>
            <td class="number">{o.rate ? `${o.rate} /s` : "own"}</td>
            <td class="number" title={o.until}>
                {until ? `${spanText(Math.max(0, until - now))} left` : "no end"}
            </td>
            <td>{o.reason}</td>
            <td>
                {o.actor || "–"}, {clockText(Date.parse(o.issued), now, true)}
            </td>
            <td class="triggers-actions">
                {o.service && (
                    <a class="button small" href={href(pageState("explore", { scope }))}>
                        Look
                    </a>
                )}
                {props.mayEnd && (
                    <button
                        type="button"
                        class="button small"
                        aria-label={`End ${o.mode} of ${targetText(o)}`}
                        onClick={end}
                    >
                        End
                    </button>
                )}
            </td>
        </tr>
    );
}

function Orders(props: { fleet: Fleet; mayEnd: boolean }) {
    // An order to be normal is the end of another one.
    const orders = (props.fleet.directives ?? []).filter((o) => o.mode !== "normal");
    const now = Date.now();
    if (orders.length === 0)
        return <p class="muted">Nothing: all agents do as they are configured.</p>;
    return (
        <div class="triggers-scroll">
            <table class="table">
                <thead>
                    <tr>
                        <th scope="col">Mode</th>
                        <th scope="col">For</th>
                        <th scope="col">Types</th>
                        <th scope="col" class="number">
                            Rate
                        </th>
                        <th scope="col" class="number">
                            Lasts
                        </th>
                        <th scope="col">Why</th>
                        <th scope="col">By, at</th>
                        <th scope="col">
                            <span class="sr-only">Actions</span>
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {orders.map((o) => (
                        <OrderRow key={o.number} order={o} now={now} mayEnd={props.mayEnd} />
                    ))}
                </tbody>
            </table>
        </div>
    );
}

function NoAgents() {
    return (
        <Empty title="There is no agent that could capture more">
            <p>
                Captures are taken by agents. Start one on the host of the service; it announces
                itself here within a minute.
            </p>
            <Command text={`sudo vesta-agent --exporters ${ourWays().otlpHttp}`} />
        </Empty>
    );
}

export default function TriggersPage() {
    const found = useQuery("triggers.agents", askAgents, ticks.value);
    const stat = useStat();
    useEffect(() => {
        const timer = setInterval(() => !document.hidden && refresh(), REFRESH_MS);
        return () => clearInterval(timer);
    }, []);
    const isAdmin = mayAdmin(stat.data);
    return (
        <div class="page triggers">
            <h1>Triggers</h1>
            <p class="lead">
                Always-on profiling takes few samples. When something happens, capture more for a
                while: more samples, more types, from the agents that run the service.
            </p>
            {found.error && !found.data && <ErrorBox error={found.error} retry={found.retry} />}
            {!found.data && !found.error && <Skeleton rows={8} />}
            {found.data && (
                <Loading isOld={found.isOld}>
                    {found.data.agents.length === 0 ? (
                        <NoAgents />
                    ) : isAdmin ? (
                        <Capture agents={found.data.agents} />
                    ) : (
                        <p class="muted">
                            Starting a capture needs a token with the role “admin”; yours may look.
                        </p>
                    )}
                    <h2>What agents were told</h2>
                    <Orders fleet={found.data} mayEnd={isAdmin} />
                </Loading>
            )}
        </div>
    );
}
