// The head of a comparison: how much there is on each side, what changed in all, and how many samples
// say so.

import { changeOf, kindOf, KIND_SIGNS, KIND_WORDS, ratioText } from "../../core/diff";
import { spanText } from "../../core/time";
import { countText } from "../../core/units";
import { Amount } from "../../parts/figures";
import type { Totals } from "./sides";

const THIN = 100; // samples: below it, small differences are chance

function lengthOf(side: Totals["before"]): number {
    return (Number(side.until_ns) - Number(side.from_ns)) / 1e6;
}

/** What a reader must know before believing the figures. */
export function warnings(t: Totals, isGauge: boolean, isFile: boolean): string[] {
    const all: string[] = [];
    const a = lengthOf(t.before);
    const b = lengthOf(t.after);
    if (t.before.total === 0 && t.after.total === 0)
        all.push("Both sides are zero: there is nothing to compare.");
    else if (t.before.total === 0)
        all.push("Side A is empty: everything below is only in B, and shares of A do not exist.");
    else if (t.after.total === 0)
        all.push("Side B is empty: everything below is only in A, and shares of B do not exist.");
    if (t.before.total < 0 || t.after.total < 0)
        all.push("A total is negative: this profile is a difference itself. Shares are of it.");
    if (!isGauge && !isFile && a > 0 && b > 0 && Math.max(a, b) / Math.min(a, b) > 1.02)
        all.push(
            `A is ${spanText(a)} long and B ${spanText(b)}: amounts differ for that alone. Shares do not.`,
        );
    if (t.has_statistics === false && t.before.total !== 0 && t.after.total !== 0)
        all.push(
            "No sample counts are known for this type: what is significant cannot be said, and nothing is greyed out.",
        );
    const few = [t.before, t.after].filter(
        (s) => s.samples !== undefined && s.samples < THIN && s.total !== 0,
    );
    if (few.length > 0)
        all.push(
            `Thin data: fewer than ${THIN} samples on ${few.length === 2 ? "both sides" : few[0] === t.before ? "side A" : "side B"}. A ${isFile ? "longer recording" : "wider range"} says more.`,
        );
    return all;
}

function Figure(props: { name: string; class?: string; children: preact.ComponentChildren }) {
    return (
        <div class={`cmp-figure ${props.class ?? ""}`}>
            <dt>{props.name}</dt>
            <dd>{props.children}</dd>
        </div>
    );
}

function samplesText(n: number | undefined): string {
    return n === undefined ? "unknown" : countText(n);
}

export function Figures(props: { totals: Totals }) {
    const t = props.totals;
    const c = changeOf(t.before.total, t.after.total, 0, 0);
    const kind = kindOf(c, "absolute", undefined);
    return (
        <dl class="cmp-figures">
            <Figure name="A, before" class="is-a">
                <Amount value={t.before.total} unit={t.unit} />
            </Figure>
            <Figure name="B, after" class="is-b">
                <Amount value={t.after.total} unit={t.unit} />
            </Figure>
            <Figure name="Change">
                <span class={`cmp-kind is-${kind}`} title={KIND_WORDS[kind]}>
                    <span aria-hidden="true">{KIND_SIGNS[kind]} </span>
                    <Amount value={c.change} unit={t.unit} sign />
                </span>
            </Figure>
            <Figure name="Ratio">{c.ratio === null ? "– (A is zero)" : ratioText(c.ratio)}</Figure>
            <Figure name="Samples, A and B">
                <span title="How many samples stand behind the totals">
                    {samplesText(t.before.samples)} <small>and</small>{" "}
                    {samplesText(t.after.samples)}
                </span>
            </Figure>
        </dl>
    );
}
