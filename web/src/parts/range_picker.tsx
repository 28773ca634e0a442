// The time range: presets that end now, or two moments of the local clock.

import { useState } from "preact/hooks";
import { serverNow } from "../api/client";
import { parseTime, timeParam } from "../core/time";
import "./range_picker.css";

const PRESETS: [string, string][] = [
    ["5m", "5 min"],
    ["15m", "15 min"],
    ["1h", "1 h"],
    ["3h", "3 h"],
    ["6h", "6 h"],
    ["12h", "12 h"],
    ["1d", "1 d"],
    ["2d", "2 d"],
    ["7d", "7 d"],
    ["30d", "30 d"],
];

/** As <input type="datetime-local"> takes it. */
function localText(ms: number): string {
    const d = new Date(ms - new Date(ms).getTimezoneOffset() * 60e3);
    return Number.isNaN(d.getTime()) ? "" : d.toISOString().slice(0, 19);
}

export function RangePicker(props: {
    from: string;
    until: string;
    onPick: (from: string, until: string) => void;
}) {
    const now = serverNow();
    const [from, setFrom] = useState(localText(parseTime(props.from, now)));
    const [until, setUntil] = useState(localText(parseTime(props.until, now)));
    const a = Date.parse(from);
    const b = Date.parse(until);
    const isGood = a < b;
    return (
        <div class="range">
            <div class="range-presets">
                {PRESETS.map(([value, text]) => (
                    <button
                        key={value}
                        type="button"
                        class="button small"
                        aria-pressed={props.from === `now-${value}` && props.until === "now"}
                        onClick={() => props.onPick(`now-${value}`, "now")}
                    >
                        {text}
                    </button>
                ))}
            </div>
            <form
                class="range-exact"
                onSubmit={(e) => {
                    e.preventDefault();
                    if (isGood) props.onPick(timeParam(a), timeParam(b));
                }}
            >
                <label>
                    From
                    <input
                        type="datetime-local"
                        step="1"
                        value={from}
                        onInput={(e) => setFrom(e.currentTarget.value)}
                    />
                </label>
                <label>
                    Until
                    <input
                        type="datetime-local"
                        step="1"
                        value={until}
                        onInput={(e) => setUntil(e.currentTarget.value)}
                    />
                </label>
                <button type="submit" class="button primary" disabled={!isGood}>
                    Use these times
                </button>
                {!isGood && <p class="range-wrong">The end must lie after the beginning.</p>}
            </form>
        </div>
    );
}
