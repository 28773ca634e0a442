// Service and range as two plain lists, for pages that need no more of the question than that.

import { askServices } from "../api/questions";
import { patchScope, refresh, state, ticks } from "../app";
import { rangeText } from "../core/time";
import { Icon } from "./icons";
import { useQuery } from "./use_query";
import "./plain_scope.css";

const RANGES: [string, string][] = [
    ["now-15m", "last 15 min"],
    ["now-1h", "last 1 h"],
    ["now-3h", "last 3 h"],
    ["now-12h", "last 12 h"],
    ["now-24h", "last 24 h"],
    ["now-7d", "last 7 d"],
    ["now-30d", "last 30 d"],
];

export function PlainScope(props: { all?: string }) {
    const { service, from, until } = state.value.scope;
    const services = useQuery(
        "plain.services",
        (signal) => askServices("now-30d", "now", signal),
        ticks.value,
    );
    const names = (services.data ?? []).map((s) => s.service).sort();
    if (service && !names.includes(service)) names.unshift(service);
    const isKnown = until === "now" && RANGES.some(([r]) => r === from);
    return (
        <div class="plain-scope">
            <label>
                <span class="muted">of</span>
                <select
                    value={service}
                    onChange={(e) => patchScope({ service: e.currentTarget.value })}
                >
                    <option value="">{props.all ?? "all services"}</option>
                    {names.map((n) => (
                        <option key={n} value={n}>
                            {n}
                        </option>
                    ))}
                </select>
            </label>
            <label>
                <span class="muted">over</span>
                <select
                    value={isKnown ? from : ""}
                    onChange={(e) => {
                        if (e.currentTarget.value)
                            patchScope({ from: e.currentTarget.value, until: "now" });
                    }}
                >
                    {!isKnown && <option value="">{rangeText(from, until, Date.now())}</option>}
                    {RANGES.map(([value, text]) => (
                        <option key={value} value={value}>
                            {text}
                        </option>
                    ))}
                </select>
            </label>
            <button
                type="button"
                class="button icon"
                onClick={refresh}
                title="Ask again"
                aria-label="Ask again"
            >
                <Icon name="refresh" />
            </button>
        </div>
    );
}
