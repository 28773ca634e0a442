import { describe, expect, it } from "vitest";
import { SYMPTOMS, chooseType, findSymptom, stepGap, stepState } from "../src/core/symptoms";
import { KINDS, typeOfKind } from "../src/core/kinds";
import { emptyState, formatState, parseState } from "../src/core/url";

const NOW = Date.parse("2026-03-01T12:00:00Z");

// What typical senders have.
const SETS: Record<string, string[]> = {
    agent: ["cpu"],
    agentAll: ["cpu", "wall", "off_cpu", "lock", "faults", "threads"],
    go: [
        "samples",
        "cpu",
        "alloc_objects",
        "alloc_space",
        "inuse_objects",
        "inuse_space",
        "contentions",
        "delay",
        "goroutine",
    ],
    java: ["cpu", "wall", "alloc_in_new_tlab_objects", "alloc_in_new_tlab_bytes", "live_bytes"],
    perf: ["cycles"],
};

function state() {
    const s = emptyState();
    s.scope.service = "checkout";
    return s;
}

describe("symptoms", () => {
    it("have unique ids, and words for everything", () => {
        expect(new Set(SYMPTOMS.map((s) => s.id)).size).toBe(SYMPTOMS.length);
        for (const s of SYMPTOMS) {
            expect(s.title && s.hint).toBeTruthy();
            expect(s.steps.length).toBeGreaterThan(0);
            if (s.id !== "file") expect(s.steps.length).toBeGreaterThan(1);
        }
    });

    it("lead somewhere sensible whatever is collected", () => {
        for (const types of Object.values(SETS))
            for (const symptom of SYMPTOMS)
                symptom.steps.forEach((step, i) => {
                    const s = stepState(state(), symptom, i, types, { now: NOW });
                    expect(s.page).toBe(step.page);
                    expect(s.scope.service).toBe("checkout");
                    expect(s.symptom).toBe(symptom.id);
                    if (s.scope.type) expect(types).toContain(s.scope.type);
                    // What has no type says how to get one.
                    else if (step.wants.length > 0)
                        expect(stepGap(step, types)?.how.length).toBeGreaterThan(10);
                    if (step.page === "compare") expect(s.base).not.toBeNull();
                    // It is an address.
                    const [path, query] = formatState(s).split("?");
                    expect(parseState(path, query)).toEqual(s);
                });
    });

    it("go where the table says", () => {
        const first = (id: string, types: string[]) => {
            const s = stepState(state(), findSymptom(id)!, 0, types, { now: NOW });
            return [s.page, s.scope.type];
        };
        expect(first("latency", SETS.go)).toEqual(["compare", "cpu"]);
        expect(first("latency-waits", SETS.agentAll)).toEqual(["explore", "off_cpu"]);
        expect(first("tail", SETS.java)).toEqual(["explore", "wall"]);
        expect(first("cpu-spike", SETS.perf)).toEqual(["explore", "cycles"]);
        expect(first("memory", SETS.go)).toEqual(["memory", "inuse_space"]);
        expect(first("oom", SETS.go)).toEqual(["compare", "inuse_space"]);
        expect(first("gc", SETS.java)).toEqual(["explore", "alloc_in_new_tlab_bytes"]);
        expect(first("event-loop", SETS.go)).toEqual(["explore", "cpu"]);
        expect(first("locks", SETS.go)).toEqual(["explore", "delay"]);
        expect(first("file", SETS.go)).toEqual(["open", ""]);
    });

    it("say what is missing, what stands in, and how to get it", () => {
        const lock = findSymptom("locks")!.steps[0];
        const choice = chooseType(lock, SETS.agent);
        expect(choice).toMatchObject({ type: "cpu", missing: ["lock", "offcpu"] });
        expect(choice.want?.view?.filters?.[0].kind).toBe("focus");
        expect(stepGap(lock, SETS.agent)).toMatchObject({
            text: "Lock contention is not collected here: CPU time in functions that take locks stands in.",
            command: "vesta-agent --types cpu,offcpu,lock",
        });
        expect(stepGap(lock, SETS.agentAll)).toBeNull();
        const alloc = findSymptom("gc")!.steps[0];
        expect(stepGap(alloc, SETS.agent)?.text).toContain("nothing that could stand in");
    });

    it("compare with the period before, or with the time before a deployment", () => {
        const spike = stepState(state(), findSymptom("latency")!, 0, ["cpu"], { now: NOW });
        expect(spike.base).toMatchObject({
            from: "2026-03-01T10:00:00.000Z",
            until: "2026-03-01T11:00:00.000Z",
            service: "checkout",
        });
        const at = Date.parse("2026-03-01T09:00:00Z");
        const facts = { now: NOW, deployedAt: at };
        const deploy = stepState(state(), findSymptom("deploy")!, 0, ["cpu"], facts);
        expect(deploy.scope).toMatchObject({
            from: "2026-03-01T09:00:00.000Z",
            until: "2026-03-01T10:00:00.000Z",
        });
        expect(deploy.base).toMatchObject({
            from: "2026-03-01T08:00:00.000Z",
            until: "2026-03-01T09:00:00.000Z",
        });
        expect(deploy.diff).toBe("absolute");
        // Without one it is the period before.
        const none = stepState(state(), findSymptom("deploy")!, 0, ["cpu"], { now: NOW });
        expect(none.base?.until).toBe("2026-03-01T11:00:00.000Z");
    });

    it("widen the range where an hour shows nothing", () => {
        const rss = stepState(state(), findSymptom("memory")!, 0, SETS.go, { now: NOW });
        expect(rss.scope.from).toBe("now-24h");
        const s = state();
        s.scope.from = "now-7d";
        expect(stepState(s, findSymptom("memory")!, 0, SETS.go, { now: NOW }).scope.from).toBe(
            "now-7d",
        );
    });

    it("tell kinds by names of types", () => {
        expect(typeOfKind("cpu", ["off_cpu"])).toBe("");
        expect(typeOfKind("cpu", ["samples:count", "cpu:nanoseconds"])).toBe("cpu:nanoseconds");
        expect(typeOfKind("offcpu", ["cpu", "off_cpu"])).toBe("off_cpu");
        expect(typeOfKind("heap", SETS.java)).toBe("live_bytes");
        expect(Object.values(KINDS).every((k) => k.match.length > 0 && k.how)).toBe(true);
    });
});
