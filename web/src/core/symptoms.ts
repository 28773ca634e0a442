// Where a symptom's steps lead, given what a service collects. The symptoms are in symptom_list.ts.

import { KINDS, type Kind, typeOfKind } from "./kinds";
import { SYMPTOMS, type Symptom, type SymptomStep, type Want } from "./symptom_list";
import { parseTime, periodBefore, timeParam } from "./time";
import { type State, emptyView } from "./url";

export { SYMPTOMS, type Symptom, type SymptomStep } from "./symptom_list";

export function findSymptom(id: string): Symptom | undefined {
    return SYMPTOMS.find((s) => s.id === id);
}

export interface StepChoice {
    type: string; // "": whatever the server chooses
    want: Want | null;
    missing: Kind[]; // what would have been better, and is not collected
}

export function chooseType(step: SymptomStep, available: readonly string[]): StepChoice {
    const missing: Kind[] = [];
    for (const want of step.wants) {
        const type = typeOfKind(want.kind, available);
        if (type) return { type, want, missing };
        missing.push(want.kind);
    }
    return { type: "", want: null, missing };
}

export interface StepGap {
    text: string; // what is missing, and what is shown in its place
    how: string; // how to get it
    command?: string;
}

/** What a step cannot show as it should because nobody collects it; null when all is there. */
export function stepGap(step: SymptomStep, available: readonly string[]): StepGap | null {
    const choice = chooseType(step, available);
    if (choice.missing.length === 0) return null;
    const wanted = KINDS[choice.missing[0]];
    const name = wanted.name[0].toUpperCase() + wanted.name.slice(1);
    const stands = choice.want
        ? (choice.want.stands ?? `${KINDS[choice.want.kind].name} stands in`)
        : "there is nothing that could stand in";
    return {
        text: `${name} is not collected here: ${stands}.`,
        how: wanted.how,
        command: wanted.command,
    };
}

function rangeLength(from: string, until: string, now: number): number {
    return parseTime(until, now) - parseTime(from, now);
}

export interface StepFacts {
    now?: number; // milliseconds
    deployedAt?: number; // the newest deployment of the service
}

function withBase(s: State, step: SymptomStep, facts: StepFacts) {
    const now = facts.now ?? Date.now();
    const { from, until } = s.scope;
    if (step.compare === "deploy" && facts.deployedAt) {
        const at = facts.deployedAt;
        const half = Math.min(Math.max(rangeLength(from, until, now), 15 * 60e3), 24 * 3600e3);
        s.scope.from = timeParam(at);
        s.scope.until = timeParam(Math.min(now, at + half));
        s.base = { ...s.scope, from: timeParam(at - half), until: timeParam(at) };
    } else if (step.compare) {
        const [a, b] = periodBefore(from, until, now);
        s.base = { ...s.scope, from: a, until: b };
    }
}

/** Where a step leads: the selection of `state`, with the preset of the step. */
export function stepState(
    state: State,
    symptom: Symptom,
    index: number,
    available: readonly string[],
    facts: StepFacts = {},
): State {
    const step = symptom.steps[Math.min(Math.max(index, 0), symptom.steps.length - 1)];
    const now = facts.now ?? Date.now();
    const { type, want } = chooseType(step, available);
    const s: State = {
        ...state,
        page: step.page,
        scope: { ...state.scope, type, id: "", trace: "", span: "", file: "" },
        base: null,
        view: { ...emptyView(), ...step.view, ...want?.view },
        diff: step.compare === "deploy" ? "absolute" : "share",
        symptom: symptom.id,
        step: index,
        extra: { ...step.extra },
    };
    const isShort =
        step.range &&
        rangeLength(s.scope.from, s.scope.until, now) < rangeLength(step.range, "now", now);
    if (isShort && s.scope.until === "now") s.scope.from = step.range as string;
    withBase(s, step, facts);
    return s;
}
