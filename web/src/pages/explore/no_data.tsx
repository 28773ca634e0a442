// Nothing to show, and why: no data at all (how to send some), none in the range (when there was),
// none of this type, or labels that nothing has. Each offers the way out.

import { boot, serverNow } from "../../api/client";
import { askServices, type Service } from "../../api/questions";
import { patchScope, state, ticks } from "../../app";
import { recipes, waysTo } from "../../core/addresses";
import { agoText, timeParam } from "../../core/time";
import { matcherText, type Scope } from "../../core/url";
import { Command, Empty, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { shown } from "./head";
import "./no_data.css";

function Teach() {
    const ways = waysTo({ ...boot, origin: location.origin + new URL(document.baseURI).pathname });
    return (
        <Empty title="No profiles yet">
            <p>Send some to this server; the page can stay open. Any of these will do:</p>
            {recipes(ways).map((r) => (
                <section key={r.id} class="no-data-way">
                    <h3>{r.title}</h3>
                    {r.commands.map((c) => (
                        <Command key={c.text} label={c.label} text={c.text} />
                    ))}
                </section>
            ))}
        </Empty>
    );
}

/** An hour that ends with what was seen last: found whatever the clocks say. */
function lastHour(s: Service): Partial<Scope> {
    const seen = Number(s.last_seen_ns) / 1e6;
    // Over so long a range the server knows it to the hour.
    return { from: timeParam(seen - 1800e3), until: timeParam(seen + 3720e3) };
}

function Pick(props: { text: string; scope: Partial<Scope> }) {
    return (
        <button type="button" class="button" onClick={() => patchScope(props.scope)}>
            {props.text}
        </button>
    );
}

function OtherTime(props: { service: Service }) {
    const s = props.service;
    const seen = Number(s.last_seen_ns) / 1e6;
    const now = serverNow();
    return (
        <Empty title="Nothing in this range">
            <p>
                {s.service} sent its last profile {agoText(seen, now)}
                {seen > now + 60e3 ? ": its clock runs ahead of the server's." : "."}
            </p>
            <p class="no-data-ways">
                <Pick text="Show the hour of its last profile" scope={lastHour(s)} />
                <Pick text="Last 7 days" scope={{ from: "now-7d", until: "now" }} />
            </p>
        </Empty>
    );
}

function OtherType(props: { service: Service }) {
    return (
        <Empty title={`${props.service.service} has no ${state.value.scope.type}`}>
            <p>It has sent these; choose one:</p>
            <p class="no-data-ways">
                {props.service.types.map((t) => (
                    <Pick key={t.type} text={t.type} scope={{ type: t.type }} />
                ))}
            </p>
        </Empty>
    );
}

function OtherLabels() {
    const { labels } = state.value.scope;
    return (
        <Empty title="No profile has these labels">
            <p>{shown.value.error?.message}</p>
            <p class="no-data-ways">
                {labels.map((m) => (
                    <Pick
                        key={matcherText(m)}
                        text={`Drop ${matcherText(m)}`}
                        scope={{ labels: labels.filter((x) => x !== m) }}
                    />
                ))}
                {labels.length > 1 && <Pick text="Drop all labels" scope={{ labels: [] }} />}
            </p>
        </Empty>
    );
}

function OtherService(props: { services: Service[] }) {
    const wanted = state.value.scope.service;
    return (
        <Empty title={wanted ? `Nothing from ${wanted}` : "Nothing in this range"}>
            <p>These services have sent something in the last 30 days:</p>
            <p class="no-data-ways">
                {props.services.slice(0, 30).map((s) => (
                    <Pick
                        key={s.service}
                        text={`${s.service || "(no name)"}, ${agoText(Number(s.last_seen_ns) / 1e6, serverNow())}`}
                        scope={{ service: s.service, labels: [], ...lastHour(s) }}
                    />
                ))}
            </p>
        </Empty>
    );
}

export default function NoData() {
    const { scope } = state.value;
    // Into the future as well: clocks of senders may run ahead.
    const wide = useQuery(
        "services now-30d now+30d",
        (signal) => askServices("now-30d", "now+30d", signal),
        ticks.value,
    );
    const here = useQuery(
        `services ${scope.from} ${scope.until}`,
        (signal) => askServices(scope.from, scope.until, signal),
        ticks.value,
    );
    if (!wide.data || (!here.data && !here.error)) return <Skeleton />;
    if (wide.data.length === 0) return <Teach />;
    const inRange = here.data?.find((s) => s.service === scope.service);
    const type = scope.type.split(":")[0];
    if (inRange && !inRange.types.some((t) => t.type === type))
        return <OtherType service={inRange} />;
    if (scope.labels.length > 0 && (inRange || !scope.service)) return <OtherLabels />;
    const known = wide.data.find((s) => s.service === scope.service);
    if (known) return <OtherTime service={known} />;
    return <OtherService services={wide.data} />;
}
