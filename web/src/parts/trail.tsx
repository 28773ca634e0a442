// The trail from a symptom: where one is, what it shows, and the next step as a link. Every page that
// a step leads to shows it.

import { serverNow } from "../api/client";
import { askDeployments, askTypes } from "../api/questions";
import { href, patchState, state } from "../app";
import { findSymptom, stepGap, stepState } from "../core/symptoms";
import { Icon } from "./icons";
import { useQuery } from "./use_query";
import "./trail.css";

export default function Trail() {
    const s = state.value;
    const symptom = findSymptom(s.symptom);
    const q = useQuery(
        symptom ? `types of ${s.scope.service} ${s.scope.from} ${s.scope.until}` : null,
        (signal) => askTypes({ ...s.scope, labels: [] }, signal),
    );
    const isOfDeploy = symptom?.steps.some((step) => step.compare === "deploy");
    const deploys = useQuery(
        isOfDeploy && s.scope.service ? `newest deployments of ${s.scope.service}` : null,
        (signal) => askDeployments(s.scope.service, "now-30d", "now", signal),
    );
    if (!symptom) return null;
    const newest = deploys.data?.[0];
    const facts = {
        now: serverNow(),
        deployedAt: newest ? Number(newest.time_ns) / 1e6 : undefined,
    };
    const available = q.data?.map((t) => t.type) ?? [];
    const here = symptom.steps[s.step] ?? symptom.steps[0];
    const gap = q.data ? stepGap(here, available) : null;
    return (
        <nav class="trail" aria-label="From the symptom to its cause">
            <b>{symptom.title}</b>
            {symptom.steps.map((step, i) => (
                <span key={step.title} class="trail-step">
                    <span class="trail-arrow" aria-hidden="true">
                        →
                    </span>
                    {i === s.step ? (
                        <span aria-current="step" class="trail-here" title={step.why}>
                            {step.title}
                        </span>
                    ) : (
                        <a href={href(stepState(s, symptom, i, available, facts))} title={step.why}>
                            {step.title}
                        </a>
                    )}
                </span>
            ))}
            <span class="muted trail-why" title={gap ? gap.how : here.why}>
                {gap ? `${gap.text} ${gap.how}` : here.why}
            </span>
            <button
                type="button"
                class="chip-close"
                aria-label="Leave the trail"
                onClick={() => patchState({ symptom: "", step: 0 })}
            >
                <Icon name="close" size={12} />
            </button>
        </nav>
    );
}
