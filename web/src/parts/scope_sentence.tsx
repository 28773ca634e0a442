// A scope as a sentence that can be edited: `cpu` of `checkout` where `env=prod` over `last 1 h`. Each
// part is a chip that opens a picker. Explore shows one, Compare two.

import { serverNow } from "../api/client";
import { findLocalFile } from "../api/files";
import { rangeText } from "../core/time";
import { matcherText, type Scope } from "../core/url";
import { Icon } from "./icons";
import { lazy } from "./lazy";
import { Popover } from "./popover";
import "./scope_sentence.css";

type Change = (p: Partial<Scope>) => void;

const ServicePicker = lazy(async () => (await import("./scope_pickers")).ServicePicker);
const TypePicker = lazy(async () => (await import("./scope_pickers")).TypePicker);
const LabelPicker = lazy(async () => (await import("./scope_pickers")).LabelPicker);
const RangePicker = lazy(async () => (await import("./scope_pickers")).RangePicker);

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
