// Asks the server what each rule needs to know of one service, in as few questions as that takes:
// rules that match no function of the whole list need no answer.

import { type Service, type TopRow, askSearch, askTop, plainView } from "../../api/questions";
import { typeOfKind } from "../../core/kinds";
import { RULES, type Rule, type Severity, matches, severityOf } from "../../core/insight_rules";
import type { Scope } from "../../core/url";

export interface Finding {
    rule: Rule;
    service: string;
    type: string;
    unit: string;
    severity: Severity | null;
    share: number;
    value: number;
    total: number;
    functions: TopRow[]; // the heaviest that match
}

export interface Checked {
    service: string;
    findings: Finding[]; // of all rules that could be checked
    skipped: { rule: Rule; why: string }[];
    samples: number | undefined;
}

const ALL_ROWS = 5000;
const AT_ONCE = 4;

async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
    const out: R[] = [];
    let next = 0;
    const worker = async () => {
        while (next < items.length) {
            const i = next++;
            out[i] = await work(items[i]);
        }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    return out;
}

async function checkType(scope: Scope, rules: Rule[], signal: AbortSignal) {
    const top = await askTop(scope, plainView(), { limit: ALL_ROWS, order: "flat" }, signal);
    const names = top.rows.map((r) => r.name);
    const isWhole = top.all_rows <= top.rows.length;
    const findings = await inTurns(rules, async (rule): Promise<Finding> => {
        const base = {
            rule,
            service: scope.service,
            type: top.type,
            unit: top.unit,
            total: top.total,
        };
        const done = (value: number, functions: TopRow[]): Finding => {
            const share = top.total > 0 ? value / top.total : 0;
            return { ...base, value, share, functions, severity: severityOf(rule, share) };
        };
        if (rule.match === "") {
            const first = top.rows[0];
            return done(first?.flat ?? 0, first ? [first] : []);
        }
        const found = matches(rule, names);
        if (found.length === 0 && isWhole) return done(0, []);
        const by = rule.measure;
        const functions = found.map((i) => top.rows[i]).sort((a, b) => b[by] - a[by]);
        const totals = await askSearch(scope, plainView(), `/${rule.match}/`, signal);
        return done(by === "cum" ? totals.matched_cum : totals.matched_flat, functions.slice(0, 3));
    });
    return { findings, samples: top.samples };
}

export async function checkService(
    service: Service,
    scope: Scope,
    signal: AbortSignal,
): Promise<Checked> {
    const types = service.types.map((t) => t.type);
    const byType = new Map<string, Rule[]>();
    const checked: Checked = {
        service: service.service,
        findings: [],
        skipped: [],
        samples: undefined,
    };
    for (const rule of RULES) {
        const type = typeOfKind(rule.kind, types);
        if (type) byType.set(type, [...(byType.get(type) ?? []), rule]);
        else checked.skipped.push({ rule, why: "not collected" });
    }
    for (const [type, rules] of byType) {
        const s: Scope = { ...scope, service: service.service, type };
        try {
            const { findings, samples } = await checkType(s, rules, signal);
            checked.findings.push(...findings);
            checked.samples ??= samples;
        } catch (e) {
            if (signal.aborted) throw e;
            for (const rule of rules) checked.skipped.push({ rule, why: (e as Error).message });
        }
    }
    return checked;
}
