// A scope as a sentence that can be edited: `cpu` of `checkout` where `env=prod` over `last 1 h`. Each
// part is a chip that opens a picker. Explore shows one, Compare two.

import { useState } from "preact/hooks";
import { serverNow } from "../api/client";
import { askLabels, askLabelValues, askServices, askTypes } from "../api/questions";
import { findLocalFile } from "../api/files";
import { agoText, rangeText } from "../core/time";
import { type MatchOp, type Matcher, matcherText, type Scope, selectorText } from "../core/url";
import { Icon } from "./icons";
import { ListPicker } from "./list_picker";
import { Popover } from "./popover";
import { RangePicker } from "./range_picker";
import { useQuery } from "./use_query";
import "./scope_sentence.css";

type Change = (p: Partial<Scope>) => void;

function ServicePicker(props: { scope: Scope; pick: (service: string) => void }) {
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

function TypePicker(props: { scope: Scope; pick: (type: string) => void; types?: string[] }) {
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
function LabelPicker(props: { scope: Scope; old?: Matcher; done: (m: Matcher | null) => void }) {
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

function LabelChips(props: { scope: Scope; change: Change }) {
    const { scope, change } = props;
    return (
        <>
            {scope.labels.length > 0 && <span class="sentence-word">where</span>}
            {scope.labels.map((m) => (
                <span class="sentence-label" key={matcherText(m)}>
                    <Popover class="chip" title={`Label ${matcherText(m)}`} label={matcherText(m)}>
                        {(close) => (
                            <LabelPicker
                                scope={scope}
                                old={m}
                                done={(next) => {
                                    close();
                                    const labels = scope.labels
                                        .map((x) => (x === m ? next : x))
                                        .filter((x) => x !== null);
                                    change({ labels });
                                }}
                            />
                        )}
                    </Popover>
                    <button
                        type="button"
                        class="chip-close"
                        aria-label={`Remove ${matcherText(m)}`}
                        onClick={() => change({ labels: scope.labels.filter((x) => x !== m) })}
                    >
                        <Icon name="close" size={12} />
                    </button>
                </span>
            ))}
            <Popover
                class="chip is-add"
                title={`${scope.labels.length > 0 ? "+" : "+ where"}: add a label`}
                label={scope.labels.length > 0 ? "+" : "+ where"}
            >
                {(close) => (
                    <LabelPicker
                        scope={scope}
                        done={(m) => {
                            close();
                            if (m) change({ labels: [...scope.labels, m] });
                        }}
                    />
                )}
            </Popover>
        </>
    );
}

/** Parts of a scope that no picker makes: one profile, a trace, a span. Each can be dropped. */
function SpecialChips(props: { scope: Scope; change: Change }) {
    const all = (["id", "trace", "span"] as const).filter((k) => props.scope[k]);
    return (
        <>
            {all.map((k) => (
                <span class="sentence-label" key={k}>
                    <span class="chip is-plain" title={props.scope[k]}>
                        {k === "id" ? "profile" : k} {props.scope[k].slice(0, 8)}…
                    </span>
                    <button
                        type="button"
                        class="chip-close"
                        aria-label={`Remove the ${k}`}
                        onClick={() => props.change({ [k]: "" })}
                    >
                        <Icon name="close" size={12} />
                    </button>
                </span>
            ))}
        </>
    );
}

export function ScopeSentence(props: {
    scope: Scope;
    onChange: Change;
    types?: string[]; // of a file: the server is not asked
    withoutType?: boolean;
}) {
    const { scope: s, onChange } = props;
    const file = s.file ? findLocalFile(s.file) : undefined;
    return (
        <div class="sentence">
            {!props.withoutType && (
                <>
                    <Popover
                        class="chip"
                        title={`Type: ${s.type || "any type"}`}
                        label={s.type || "any type"}
                    >
                        {(close) => (
                            <TypePicker
                                scope={s}
                                types={props.types}
                                pick={(type) => {
                                    close();
                                    onChange({ type });
                                }}
                            />
                        )}
                    </Popover>
                    <span class="sentence-word">of</span>
                </>
            )}
            {s.file ? (
                <span class="chip is-plain" title={file?.name}>
                    {file?.name ?? "a file that is not here"}
                </span>
            ) : (
                <>
                    <Popover
                        class="chip"
                        title={`Service: ${s.service || "all services"}`}
                        label={s.service || "all services"}
                    >
                        {(close) => (
                            <ServicePicker
                                scope={s}
                                pick={(service) => {
                                    close();
                                    onChange({ service });
                                }}
                            />
                        )}
                    </Popover>
                    <LabelChips scope={s} change={onChange} />
                    <SpecialChips scope={s} change={onChange} />
                    <span class="sentence-word">over</span>
                    <Popover
                        class="chip"
                        title={`Time: ${rangeText(s.from, s.until, serverNow())}`}
                        label={rangeText(s.from, s.until, serverNow())}
                    >
                        {(close) => (
                            <RangePicker
                                from={s.from}
                                until={s.until}
                                onPick={(from, until) => {
                                    close();
                                    onChange({ from, until });
                                }}
                            />
                        )}
                    </Popover>
                </>
            )}
        </div>
    );
}
