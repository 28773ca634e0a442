// What the chips of a sentence open: lists of services, types and labels, as the server knows them.

import { useState } from "preact/hooks";
import { serverNow } from "../api/client";
import { askLabels, askLabelValues, askServices, askTypes } from "../api/questions";
import { agoText } from "../core/time";
import { type MatchOp, type Matcher, type Scope, selectorText } from "../core/url";
import { ListPicker } from "./list_picker";
import { useQuery } from "./use_query";

export { RangePicker } from "./range_picker";

export function ServicePicker(props: { scope: Scope; pick: (service: string) => void }) {
    const s = props.scope;
    const [isWide, setWide] = useState(false);
    const from = isWide ? "now-30d" : s.from;
    const until = isWide ? "now+1d" : s.until;
    const q = useQuery(`services ${from} ${until}`, (signal) => askServices(from, until, signal));
    const now = serverNow();
    const found = q.data?.map((x) => ({
        value: x.service,
        text: x.service || "(no name)",
        note: agoText(Number(x.last_seen_ns) / 1e6, now),
    }));
    const all = found && [{ value: "", text: "all services" }, ...found];
    return (
        <>
            <ListPicker
                options={q.error ? [] : all}
                current={s.service}
                placeholder="Service"
                isFree
                empty={q.error?.message}
                onPick={props.pick}
            />
            {!isWide && (
                <button type="button" class="button small quiet" onClick={() => setWide(true)}>
                    Those of the last 30 days
                </button>
            )}
        </>
    );
}

export function TypePicker(props: {
    scope: Scope;
    pick: (type: string) => void;
    types?: string[];
}) {
    const s = props.scope;
    const key = s.file ? null : `types ${selectorText({ ...s, type: "" })} ${s.from} ${s.until}`;
    const q = useQuery(key, (signal) => askTypes(s, signal));
    const own = props.types?.map((t) => ({ value: t }));
    const options = q.data?.map((t) => ({ value: t.type, note: t.unit }));
    return (
        <ListPicker
            options={s.file ? (own ?? []) : q.error ? [] : options}
            current={s.type}
            placeholder="What was measured"
            isFree={!s.file}
            empty={q.error?.message ?? "No types in this range."}
            onPick={props.pick}
        />
    );
}

const OPS: [MatchOp, string][] = [
    ["=", "is"],
    ["!=", "is not"],
    ["=~", "matches"],
    ["!~", "does not match"],
];

/** First the label, then how and what; an existing one begins with its values. */
export function LabelPicker(props: {
    scope: Scope;
    old?: Matcher;
    done: (m: Matcher | null) => void;
}) {
    const [name, setName] = useState(props.old?.name ?? "");
    const [op, setOp] = useState<MatchOp>(props.old?.op ?? "=");
    const s = props.scope;
    const labels = s.labels.filter((m) => m !== props.old);
    const asked = { ...s, labels };
    const where = `${selectorText(asked)} ${s.from} ${s.until}`;
    const names = useQuery(name ? null : `labels ${where}`, (signal) => askLabels(asked, signal));
    const values = useQuery(name ? `values ${name} ${where}` : null, (signal) =>
        askLabelValues(asked, name, signal),
    );
    if (!name)
        return (
            <ListPicker
                options={
                    names.error
                        ? []
                        : names.data?.filter((l) => l !== "service.name").map((l) => ({ value: l }))
                }
                placeholder="Label"
                isFree
                empty={names.error?.message}
                onPick={setName}
            />
        );
    const isRegex = op === "=~" || op === "!~";
    return (
        <>
            <div class="sentence-ops">
                <b>{name}</b>
                <select
                    aria-label="How it is compared"
                    value={op}
                    onChange={(e) => setOp(e.currentTarget.value as MatchOp)}
                >
                    {OPS.map(([value, text]) => (
                        <option key={value} value={value}>
                            {text}
                        </option>
                    ))}
                </select>
                {props.old && (
                    <button type="button" class="button small" onClick={() => props.done(null)}>
                        Remove
                    </button>
                )}
            </div>
            <ListPicker
                key={name}
                options={values.error ? [] : values.data?.map((v) => ({ value: v }))}
                current={props.old?.value}
                placeholder={isRegex ? "Regex, or a value" : "Value"}
                isFree
                empty={values.error?.message}
                onPick={(value) => props.done({ name, op, value })}
            />
        </>
    );
}

/** A label to split by; "": none. */
export function SplitPicker(props: { scope: Scope; by: string; pick: (by: string) => void }) {
    const s = props.scope;
    const q = useQuery(`labels ${selectorText(s)} ${s.from} ${s.until}`, (signal) =>
        askLabels(s, signal),
    );
    const none = { value: "", text: "not split" };
    return (
        <ListPicker
            options={q.error ? [] : q.data && [none, ...q.data.map((l) => ({ value: l }))]}
            current={props.by}
            placeholder="Split by label"
            empty={q.error?.message}
            onPick={props.pick}
        />
    );
}
