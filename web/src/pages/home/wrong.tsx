// "What is wrong?": symptoms as links, each to the view that shows its cause.

import { href, patchScope, state } from "../../app";
import { type Deployment, type Service, askDeployments } from "../../api/questions";
import { SYMPTOMS, type Symptom, stepGap, stepState } from "../../core/symptoms";
import { emptyScope, emptyState, type State } from "../../core/url";
import { useQuery } from "../../parts/use_query";

function startState(service: Service | undefined, now: number): State {
    const s = emptyState();
    const isOld = service && now - Number(service.last_seen_ns) / 1e6 > 3600e3;
    s.scope = {
        ...emptyScope(),
        service: service?.service ?? "",
        from: isOld ? "now-24h" : "now-1h",
    };
    return s;
}

function SymptomLink(props: {
    symptom: Symptom;
    service: Service | undefined;
    types: string[];
    deployment?: Deployment;
    now: number;
}) {
    const { symptom, types, now } = props;
    const deployedAt = props.deployment ? Number(props.deployment.time_ns) / 1e6 : undefined;
    const to = stepState(startState(props.service, now), symptom, 0, types, { now, deployedAt });
    const gap = stepGap(symptom.steps[0], types);
    return (
        <li>
            <a class="home-symptom" href={href(to)}>
                <span class="home-symptom-title">{symptom.title}</span>
                <span class="home-symptom-hint">{symptom.hint}</span>
                {gap && <span class="home-symptom-gap">{gap.text}</span>}
            </a>
        </li>
    );
}

export function Wrong(props: { services: Service[]; now: number }) {
    const { services, now } = props;
    const name = state.value.scope.service;
    const service = services.find((s) => s.service === name);
    const of = service ? [service] : services;
    const types = [...new Set(of.flatMap((s) => s.types.map((t) => t.type)))];
    const deployments = useQuery(`home.deployed ${name}`, (signal) =>
        askDeployments(name, "now-30d", "now", signal),
    );
    return (
        <section class="home-wrong" aria-labelledby="home-wrong">
            <h2 id="home-wrong">What is wrong?</h2>
            <label class="home-service">
                <span>With</span>
                <select
                    value={service ? name : ""}
                    onChange={(e) =>
                        patchScope({ service: e.currentTarget.value }, { replace: true })
                    }
                >
                    <option value="">all services</option>
                    {[...services]
                        .sort((a, b) => a.service.localeCompare(b.service))
                        .map((s) => (
                            <option key={s.service} value={s.service}>
                                {s.service}
                            </option>
                        ))}
                </select>
            </label>
            <ul class="home-symptoms">
                {SYMPTOMS.map((s) => (
                    <SymptomLink
                        key={s.id}
                        symptom={s}
                        service={service}
                        types={types}
                        deployment={deployments.data?.[0]}
                        now={now}
                    />
                ))}
            </ul>
        </section>
    );
}
