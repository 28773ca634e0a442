// "What changed?": services by what they cost, and the newest deployments.

import { href, pageState, ticks } from "../../app";
import {
    type Deployment,
    type Service,
    askDeployments,
    askTimeline,
    type Timeline,
} from "../../api/questions";
import { type Cost, changeShare, costsOf } from "../../core/cost";
import { typeOfKind } from "../../core/kinds";
import { findSymptom, stepState } from "../../core/symptoms";
import { agoText, clockText } from "../../core/time";
import { emptyScope } from "../../core/url";
import { Amount } from "../../parts/figures";
import { Sparkline } from "../../parts/sparkline";
import { ErrorBox, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";

const DAY = 86400e3;

/** What a service is measured by: CPU time where there is any. */
export function mainType(s: Service): { type: string; unit: string } {
    const cpu = typeOfKind(
        "cpu",
        s.types.map((t) => t.type),
    );
    return s.types.find((t) => t.type === cpu) ?? s.types[0] ?? { type: "", unit: "" };
}

async function askCosts(services: Service[], now: number, signal: AbortSignal) {
    const kinds = new Map<string, string>();
    for (const s of services) {
        const t = mainType(s);
        kinds.set(`${t.type}:${t.unit}`, t.type);
    }
    const range = { from: "now-48h", until: "now" };
    const all = new Map<string, Cost>();
    await Promise.all(
        [...kinds.keys()].slice(0, 6).map(async (type) => {
            const more = { by: "service.name", step: "30m", limit: 200 };
            const scope = { ...emptyScope(), ...range, type };
            let t: Timeline;
            try {
                t = await askTimeline(scope, more, signal);
            } catch (e) {
                if (signal.aborted) throw e;
                return;
            }
            for (const c of costsOf(t, now - 2 * DAY, now, 24)) all.set(`${type}/${c.service}`, c);
        }),
    );
    return all;
}

function ServiceRow(props: { service: Service; cost?: Cost; now: number }) {
    const { service: s, cost, now } = props;
    const main = mainType(s);
    const seen = Number(s.last_seen_ns) / 1e6;
    const isOld = now - seen > 3600e3;
    const scope = {
        ...emptyScope(),
        service: s.service,
        type: main.type,
        from: isOld ? "now-24h" : "now-1h",
    };
    const types = s.types.map((t) => t.type);
    const change = cost ? changeShare(cost.now, cost.before) : "";
    const rising = cost && cost.before > 0 && cost.now > cost.before * 1.1;
    return (
        <tr>
            <td>
                <a href={href(pageState("explore", { scope }))}>{s.service || "(no name)"}</a>
                <div class="home-types muted" title={types.join(", ")}>
                    {types.slice(0, 4).join(" · ")}
                    {types.length > 4 && ` · ${types.length - 4} more`}
                </div>
            </td>
            <td class="number">{cost ? <Amount value={cost.now} unit={main.unit} /> : "–"}</td>
            <td class="home-spark">{cost && <Sparkline values={cost.bars} />}</td>
            <td class={rising ? "number home-more" : "number"}>{change || "–"}</td>
            <td class="number muted" title={new Date(seen).toISOString()}>
                {agoText(seen, now)}
            </td>
        </tr>
    );
}

export function Services(props: { services: Service[]; now: number }) {
    const { services, now } = props;
    const key = services.map((s) => s.service).join("\n");
    const costs = useQuery(`home.costs ${key}`, (signal) => askCosts(services, now, signal));
    const costOf = (s: Service) => {
        const t = mainType(s);
        return costs.data?.get(`${t.type}:${t.unit}/${s.service}`);
    };
    const rows = [...services].sort((a, b) => (costOf(b)?.now ?? 0) - (costOf(a)?.now ?? 0));
    return (
        <section aria-labelledby="home-services">
            <h3 id="home-services">Services by cost</h3>
            <p class="muted home-note">
                CPU time (or the first type) of the last 24 h, and against the 24 h before.
            </p>
            <div class="home-scroll">
                <table class="table">
                    <thead>
                        <tr>
                            <th scope="col">Service</th>
                            <th scope="col" class="number">
                                24 h
                            </th>
                            <th scope="col" class="home-spark">
                                By hour
                            </th>
                            <th scope="col" class="number">
                                Change
                            </th>
                            <th scope="col" class="number">
                                Last seen
                            </th>
                        </tr>
                    </thead>
                    <tbody>
                        {rows.slice(0, 50).map((s) => (
                            <ServiceRow key={s.service} service={s} cost={costOf(s)} now={now} />
                        ))}
                    </tbody>
                </table>
            </div>
            {rows.length > 50 && <p class="muted">And {rows.length - 50} more.</p>}
        </section>
    );
}

/** One entry for a version that went to several environments. */
function versionsOf(all: Deployment[]): (Deployment & { environments: string })[] {
    const found = new Map<string, Deployment & { environments: string }>();
    for (const d of all) {
        const key = `${d.service}\n${d.version}\n${d.commit}`;
        const same = found.get(key);
        if (!same) found.set(key, { ...d, environments: d.environment ?? "" });
        else if (d.environment) same.environments += `, ${d.environment}`;
    }
    return [...found.values()];
}

export function Deployments(props: { services: Service[]; now: number }) {
    const { now } = props;
    const found = useQuery(
        "home.deployments",
        (signal) => askDeployments("", "now-30d", "now", signal),
        ticks.value,
    );
    const symptom = findSymptom("deploy");
    const link = (service: string, at: number) => {
        const types = props.services.find((s) => s.service === service)?.types ?? [];
        const start = pageState("home", { scope: { ...emptyScope(), service } });
        return symptom
            ? href(
                  stepState(
                      start,
                      symptom,
                      0,
                      types.map((t) => t.type),
                      { now, deployedAt: at },
                  ),
              )
            : "";
    };
    return (
        <section aria-labelledby="home-deployments">
            <h3 id="home-deployments">Newest deployments</h3>
            {found.error && <ErrorBox error={found.error} retry={found.retry} />}
            {!found.data && !found.error && <Skeleton rows={3} />}
            {found.data?.length === 0 && (
                <p class="muted home-note">
                    None in the last 30 days. A service that sends <code>service.version</code> with
                    its profiles is noted by itself; others can be told of with{" "}
                    <code>POST /api/v1/deployments</code>.
                </p>
            )}
            <ul class="home-deployments">
                {versionsOf(found.data ?? [])
                    .slice(0, 8)
                    .map((d) => {
                        const at = Number(d.time_ns) / 1e6;
                        const what = d.version || d.commit?.slice(0, 10) || d.id;
                        return (
                            <li key={d.id}>
                                <span class="home-deployment">
                                    <b>{d.service}</b> <code>{what}</code>
                                    {d.environments && <span class="muted"> {d.environments}</span>}
                                </span>
                                <span class="muted" title={clockText(at, now)}>
                                    {agoText(at, now)}
                                </span>
                                <a
                                    class="button small"
                                    href={link(d.service, at)}
                                    aria-label={`Before / after ${d.service} ${what}`}
                                >
                                    Before / after
                                </a>
                            </li>
                        );
                    })}
            </ul>
        </section>
    );
}
