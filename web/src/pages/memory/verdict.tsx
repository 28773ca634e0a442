// The verdict, with what it rests on and what to do next.

import type { DiffTable } from "../../api/questions";
import { href, pageState, patchScope } from "../../app";
import { spanText } from "../../core/time";
import type { Verdict } from "../../core/trend";
import { amountText, changeText, shareText, threeDigits } from "../../core/units";
import type { Judged, Windows } from "./data";

const TITLES: Record<Verdict, string> = {
    leak: "Leak suspected",
    plateau: "Grew, then levelled off",
    flat: "Flat",
    shrinking: "Shrinking",
    unclear: "No clear direction",
    unknown: "Not enough data",
};

const MEANING: Record<Verdict, string> = {
    leak: "Memory grows steadily and does not slow down. Either something is kept that should go, or a cache has no limit.",
    plateau:
        "Growth stopped within the range: this is what a cache that fills up, or warming up, looks like.",
    flat: "In-use memory changes by less than 5 % over the range. If the process still grows, it is not this heap: look at fragmentation, native memory, stacks.",
    shrinking: "Memory went down over the range.",
    unclear:
        "It moves up and down more than it grows: likely traffic. A longer range shows whether there is a slope below.",
    unknown: "A slope needs at least 6 points over 10 minutes.",
};

const SIGNS: Record<Verdict, string> = {
    leak: "▲",
    plateau: "◢",
    flat: "▬",
    shrinking: "▼",
    unclear: "≈",
    unknown: "?",
};

function evidence(of: Judged, n: number, growth: DiffTable | undefined): string[] {
    const t = of.judgement.trend;
    const name = of.name || "In all, it";
    const all: string[] = [];
    if (t && t.n > 1) {
        all.push(
            `${name}${n > 1 ? ` (the steepest of ${n} instances)` : ""}: ${changeText(t.slope, "bytes")} per hour, R² ${threeDigits(t.r2)}, from ${amountText(t.first, "bytes")} to ${amountText(t.last, "bytes")} in ${spanText(t.spanMs)} (${t.n} points).`,
        );
    } else if (t) {
        all.push(`${name}: one point, ${amountText(t.mean, "bytes")}.`);
    }
    if (growth) {
        const grown = growth.rows.filter((r) => r.flat_change > 0);
        const sum = grown.reduce((s, r) => s + r.flat_change, 0);
        const top = grown.sort((a, b) => b.flat_change - a.flat_change)[0];
        if (top)
            all.push(
                `${shareText(top.flat_change, sum)} of what grew (${changeText(top.flat_change, growth.unit)} between the ends of the range) was allocated in ${top.name}.`,
            );
    }
    return all;
}

function Wider() {
    return (
        <>
            {[
                ["now-6h", "Last 6 h"],
                ["now-1d", "Last day"],
                ["now-7d", "Last week"],
            ].map(([from, text]) => (
                <button
                    key={from}
                    type="button"
                    class="button"
                    onClick={() => patchScope({ from, until: "now" })}
                >
                    {text}
                </button>
            ))}
        </>
    );
}

export function compareGrowth(w: Windows, type: string, invert: boolean): string {
    const s = pageState("compare");
    return href({
        ...s,
        base: { ...w.before, type },
        scope: { ...w.after, type },
        diff: "absolute",
        view: { ...s.view, invert, root: [], search: "" },
    });
}

export function VerdictCard(props: {
    verdict: Verdict;
    of: Judged;
    n: number;
    growth: DiffTable | undefined;
    windows: Windows | null;
    held: string;
    allocated: string;
}) {
    const { verdict, windows } = props;
    const says = evidence(props.of, props.n, props.growth);
    const s = pageState("explore");
    const allocations = href({
        ...s,
        scope: { ...s.scope, type: props.allocated },
        view: { ...s.view, view: "flame", root: [] },
    });
    return (
        <section class={`mem-verdict is-${verdict}`} aria-labelledby="mem-verdict-title">
            <h2 id="mem-verdict-title">
                <span class="mem-sign" aria-hidden="true">
                    {SIGNS[verdict]}
                </span>{" "}
                {TITLES[verdict]}
            </h2>
            <p>{MEANING[verdict]}</p>
            {says.length > 0 && (
                <ul>
                    {says.map((t) => (
                        <li key={t}>{t}</li>
                    ))}
                </ul>
            )}
            <div class="mem-next">
                <span class="muted">Next:</span>
                {windows && verdict !== "unknown" && (
                    <a class="button" href={compareGrowth(windows, props.held, false)}>
                        Beginning against end, in Compare
                    </a>
                )}
                {props.allocated && (
                    <a class="button" href={allocations}>
                        Who allocates
                    </a>
                )}
                {(verdict === "unknown" || verdict === "unclear" || verdict === "flat") && (
                    <Wider />
                )}
            </div>
        </section>
    );
}
