// One finding.

import { href, state } from "../../app";
import { shareText } from "../../core/units";
import { emptyState, type State } from "../../core/url";
import { Amount } from "../../parts/figures";
import type { Finding } from "./evaluate";

function evidenceState(f: Finding): State {
    const s = emptyState("explore");
    const { from, until } = state.value.scope;
    s.scope = { ...s.scope, service: f.service, type: f.type, from, until };
    if (f.rule.match === "") {
        s.view.selected = f.functions[0]?.name ?? "";
        s.view.view = "callers";
    } else s.view.filters = [{ kind: "focus", value: f.rule.match }];
    return s;
}

export function Card(props: {
    finding: Finding;
    isMuted: boolean;
    mute: (f: Finding, isMuted: boolean) => void;
}) {
    const { finding: f, isMuted } = props;
    const name = f.rule.match === "" ? (f.functions[0]?.name ?? "") : "";
    return (
        <article
            class={`insights-card is-${f.severity}`}
            aria-label={`${f.rule.title}: ${f.service}`}
        >
            <header>
                <span class="insights-severity">
                    {f.severity === "high" ? "Severe" : "Worth a look"}
                </span>
                <h2>{f.rule.title}</h2>
                <span class="muted">{f.service}</span>
            </header>
            <div class="insights-evidence">
                <span class="insights-share">{shareText(f.value, f.total)}</span>
                <span class="insights-bar" aria-hidden="true">
                    <span style={{ width: `${Math.min(100, 100 * f.share)}%` }} />
                    <i style={{ left: `${100 * f.rule.from}%` }} />
                </span>
                <span>
                    <Amount value={f.value} unit={f.unit} /> of{" "}
                    <Amount value={f.total} unit={f.unit} /> {f.type}; a finding from{" "}
                    {shareText(f.rule.from, 1)}
                </span>
            </div>
            {f.functions.length > 0 && (
                <p class="insights-functions mono">
                    {name || f.functions.map((r) => r.name).join("  ·  ")}
                </p>
            )}
            <p>{f.rule.why}</p>
            <p>
                <b>What helps:</b> {f.rule.fix}
            </p>
            <footer>
                <a class="button" href={href(evidenceState(f))}>
                    Show in Explore
                </a>
                <button
                    type="button"
                    class="button quiet"
                    aria-label={`${isMuted ? "Unmute" : "Mute"} ${f.rule.title} for ${f.service}`}
                    onClick={() => props.mute(f, !isMuted)}
                >
                    {isMuted ? "Unmute" : "Mute"}
                </button>
            </footer>
        </article>
    );
}
