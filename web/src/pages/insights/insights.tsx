// What rules find in the profiles of a service, or of the most expensive ones: cards with evidence,
// why it matters, what usually helps; and a list of all that was checked.

import { useSignal } from "@preact/signals";
import { type Service, askServices } from "../../api/questions";
import { state, ticks } from "../../app";
import { KINDS } from "../../core/kinds";
import { RULES } from "../../core/insight_rules";
import { readMuted, writeMuted } from "../../core/muted";
import { shareText } from "../../core/units";
import { emptyScope, type Scope } from "../../core/url";
import { PlainScope } from "../../parts/plain_scope";
import { Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { Card } from "./card";
import { type Checked, type Finding, checkService } from "./evaluate";
import "./insights.css";

const TOP_SERVICES = 5;
const THIN = 200;
const STORE = "vesta.muted";

function stored(): Set<string> {
    try {
        return readMuted(localStorage.getItem(STORE));
    } catch {
        return new Set();
    }
}

const keyOf = (f: Finding) => `${f.service}/${f.rule.id}`;

/** The services to look at: the one that was chosen, or those with the most profiles. */
function chosen(all: Service[], name: string): Service[] {
    if (name) return all.filter((s) => s.service === name);
    return [...all].sort((a, b) => b.profiles - a.profiles).slice(0, TOP_SERVICES);
}

/** Rules are about services in a range: nothing else of the scope narrows them. */
function plainScope(): Scope {
    const { service, from, until } = state.value.scope;
    return { ...emptyScope(), service, from, until };
}

async function askAll(signal: AbortSignal) {
    const scope = plainScope();
    const all = await askServices(scope.from, scope.until, signal);
    const some = chosen(all, scope.service);
    const checked: Checked[] = [];
    for (const s of some) checked.push(await checkService(s, scope, signal));
    return { all: all.length, checked };
}

function CheckedList(props: { checked: Checked[] }) {
    return (
        <details class="insights-checked">
            <summary>
                What was checked: {RULES.length} rules on{" "}
                {props.checked.map((c) => c.service).join(", ")}
            </summary>
            {props.checked.map((c) => (
                <section key={c.service}>
                    <h3>{c.service}</h3>
                    <div class="insights-scroll">
                        <table class="table">
                            <thead>
                                <tr>
                                    <th scope="col">Rule</th>
                                    <th scope="col">Type</th>
                                    <th scope="col" class="number">
                                        Found
                                    </th>
                                    <th scope="col" class="number">
                                        Finding from
                                    </th>
                                </tr>
                            </thead>
                            <tbody>
                                {c.findings.map((f) => (
                                    <tr key={f.rule.id}>
                                        <td>{f.rule.title}</td>
                                        <td>{f.type}</td>
                                        <td class="number">{shareText(f.value, f.total)}</td>
                                        <td class="number">{shareText(f.rule.from, 1)}</td>
                                    </tr>
                                ))}
                                {c.skipped.map((s) => (
                                    <tr key={s.rule.id} class="muted">
                                        <td>{s.rule.title}</td>
                                        <td>{KINDS[s.rule.kind].name}</td>
                                        <td class="number">{s.why}</td>
                                        <td class="number">{shareText(s.rule.from, 1)}</td>
                                    </tr>
                                ))}
                            </tbody>
                        </table>
                    </div>
                </section>
            ))}
        </details>
    );
}

function Thin(props: { checked: Checked[] }) {
    const thin = props.checked.filter((c) => c.samples !== undefined && c.samples < THIN);
    if (thin.length === 0) return null;
    return (
        <p class="insights-thin">
            Thin data:{" "}
            {thin.map((c) => `${c.service} has ${Math.round(c.samples ?? 0)} samples`).join(", ")}{" "}
            in this range. Shares are rough; a longer range says more.
        </p>
    );
}

export default function InsightsPage() {
    const { scope } = state.value;
    const muted = useSignal(stored());
    const showMuted = useSignal(false);
    const key = JSON.stringify(["insights", scope.service, scope.from, scope.until]);
    const found = useQuery(key, askAll, ticks.value);

    const mute = (f: Finding, isMuted: boolean) => {
        const next = new Set(muted.value);
        if (isMuted) next.add(keyOf(f));
        else next.delete(keyOf(f));
        muted.value = next;
        try {
            localStorage.setItem(STORE, writeMuted(next));
        } catch {
            // It holds as long as the page then.
        }
    };

    const all = (found.data?.checked ?? []).flatMap((c) => c.findings).filter((f) => f.severity);
    all.sort((a, b) => b.share / b.rule.from - a.share / a.rule.from);
    const loud = all.filter((f) => !muted.value.has(keyOf(f)));
    const quiet = all.filter((f) => muted.value.has(keyOf(f)));
    return (
        <div class="page insights">
            <h1>Insights</h1>
            <p class="lead">
                Fixed rules over whole profiles: the same data always gives the same findings.
            </p>
            <PlainScope all={`the ${TOP_SERVICES} busiest services`} />
            {found.error && <ErrorBox error={found.error} retry={found.retry} />}
            {!found.data && !found.error && <Skeleton rows={10} label="Checking" />}
            {found.data && !found.error && (
                <Loading isOld={found.isOld}>
                    {found.data.checked.length === 0 ? (
                        <Empty title="Nothing to check in this range">
                            <p>
                                No profiles of {scope.service || "any service"}. A longer range may
                                hold some.
                            </p>
                        </Empty>
                    ) : (
                        <>
                            <Thin checked={found.data.checked} />
                            {loud.length === 0 && (
                                <p class="insights-fine" role="status">
                                    {all.length === 0
                                        ? "No rule found anything. That is good news, or the cause is one that no rule knows: the flame graph knows all of them."
                                        : "All findings are muted."}
                                </p>
                            )}
                            <ul class="insights-cards">
                                {loud.map((f) => (
                                    <li key={keyOf(f)}>
                                        <Card finding={f} isMuted={false} mute={mute} />
                                    </li>
                                ))}
                            </ul>
                            {quiet.length > 0 && (
                                <button
                                    type="button"
                                    class="button"
                                    aria-expanded={showMuted.value}
                                    onClick={() => {
                                        showMuted.value = !showMuted.value;
                                    }}
                                >
                                    {showMuted.value ? "Hide" : "Show"} {quiet.length} muted
                                </button>
                            )}
                            {showMuted.value && (
                                <ul class="insights-cards is-muted">
                                    {quiet.map((f) => (
                                        <li key={keyOf(f)}>
                                            <Card finding={f} isMuted mute={mute} />
                                        </li>
                                    ))}
                                </ul>
                            )}
                            <CheckedList checked={found.data.checked} />
                        </>
                    )}
                </Loading>
            )}
        </div>
    );
}
