// Ways into a comparison: each makes both sides out of the selection that is there. The same list is
// the empty page and the menu of the bar.

import { useRef, useState } from "preact/hooks";
import { serverNow } from "../../api/client";
import { addLocalFile, localFiles } from "../../api/files";
import { askLabels, askLabelValues, askServices, scopeParams } from "../../api/questions";
import { patchState, state } from "../../app";
import {
    aroundDeploy,
    earlierBy,
    labelAndRest,
    labelValues,
    previousPeriod,
    type Sides,
} from "../../core/starters";
import { agoText, clockText, parseTime } from "../../core/time";
import type { Scope } from "../../core/url";
import { useQuery } from "../../parts/use_query";
import { deployName, useDeployments } from "./timelines";

const DAY = 86400e3;

type Go = (s: Sides) => void;

function storedKey(s: Scope, what: string): string | null {
    return s.file ? null : `${what} ${JSON.stringify(scopeParams(s))}`;
}

function Times(props: { scope: Scope; go: Go }) {
    const { scope, go } = props;
    const now = serverNow();
    return (
        <section class="start-card">
            <h2>Another time</h2>
            <p>The same selection, earlier.</p>
            <div class="start-row">
                <button type="button" class="button" onClick={() => go(previousPeriod(scope, now))}>
                    Previous period
                </button>
                <button type="button" class="button" onClick={() => go(earlierBy(scope, DAY, now))}>
                    Yesterday
                </button>
                <button
                    type="button"
                    class="button"
                    onClick={() => go(earlierBy(scope, 7 * DAY, now))}
                >
                    Last week
                </button>
            </div>
        </section>
    );
}

function Deploys(props: { scope: Scope; go: Go }) {
    const { scope, go } = props;
    const now = serverNow();
    const from = Math.min(parseTime(scope.from, now), now - 14 * DAY);
    const q = useDeployments(scope.service, from, now);
    const all = [...(q.data ?? [])].sort((a, b) => Number(b.time_ns) - Number(a.time_ns));
    const times = (service: string) =>
        all.filter((d) => d.service === service).map((d) => Number(d.time_ns) / 1e6);
    return (
        <section class="start-card">
            <h2>Before and after a deployment</h2>
            {q.error && <p>{q.error.message}</p>}
            {!q.data && !q.error && <p>Looking for deployments…</p>}
            {q.data && all.length === 0 && (
                <p>
                    None is known{scope.service ? ` of ${scope.service}` : ""} in two weeks.
                    Services that send <code>service.version</code> are noticed; pipelines can tell:{" "}
                    <code>POST /api/v1/deployments</code>.
                </p>
            )}
            <ul class="start-list">
                {all.slice(0, 6).map((d) => {
                    const at = Number(d.time_ns) / 1e6;
                    return (
                        <li key={d.id}>
                            <button
                                type="button"
                                class="button quiet"
                                title={clockText(at, now)}
                                onClick={() =>
                                    go(
                                        aroundDeploy(
                                            { ...scope, service: d.service },
                                            at,
                                            times(d.service),
                                            now,
                                        ),
                                    )
                                }
                            >
                                <b>{deployName(d)}</b> {!scope.service && `of ${d.service} `}
                                <small>{agoText(at, now)}</small>
                            </button>
                        </li>
                    );
                })}
            </ul>
        </section>
    );
}

function Pick(props: {
    label: string;
    value: string;
    options: readonly string[];
    set: (v: string) => void;
}) {
    return (
        <label class="start-pick">
            <span>{props.label}</span>
            <select
                value={props.value}
                onChange={(e) => props.set(e.currentTarget.value)}
                disabled={props.options.length === 0}
            >
                <option value="">choose…</option>
                {props.options.map((o) => (
                    <option key={o} value={o}>
                        {o || "(empty)"}
                    </option>
                ))}
            </select>
        </label>
    );
}

function Versions(props: { scope: Scope; go: Go }) {
    const plain = {
        ...props.scope,
        labels: props.scope.labels.filter((m) => m.name !== "service.version"),
    };
    const q = useQuery(storedKey(plain, "versions"), (signal) =>
        askLabelValues(plain, "service.version", signal),
    );
    const all = q.data ?? [];
    const [a, setA] = useState("");
    const [b, setB] = useState("");
    const before = a || (all.length > 1 ? all[all.length - 2] : "");
    const after = b || (all.length > 1 ? all[all.length - 1] : "");
    if (q.data && all.length < 2)
        return (
            <section class="start-card">
                <h2>Version against version</h2>
                <p>
                    {all.length === 0 ? "No versions" : `Only version ${all[0]}`} in this range.
                    Choose a longer one, or send <code>service.version</code>.
                </p>
            </section>
        );
    return (
        <section class="start-card">
            <h2>Version against version</h2>
            <div class="start-row">
                <Pick label="A" value={before} options={all} set={setA} />
                <Pick label="B" value={after} options={all} set={setB} />
                <button
                    type="button"
                    class="button"
                    disabled={!before || !after || before === after}
                    onClick={() => props.go(labelValues(plain, "service.version", before, after))}
                >
                    Compare
                </button>
            </div>
        </section>
    );
}

function Labels(props: { scope: Scope; go: Go }) {
    const { scope } = props;
    const [name, setName] = useState("");
    const [value, setValue] = useState("");
    const plain = { ...scope, labels: scope.labels.filter((m) => m.name !== name) };
    const names = useQuery(storedKey(scope, "labels"), (signal) => askLabels(scope, signal));
    const values = useQuery(name ? storedKey(plain, `values ${name}`) : null, (signal) =>
        askLabelValues(plain, name, signal),
    );
    return (
        <section class="start-card">
            <h2>One label value against the rest</h2>
            <div class="start-row">
                <Pick
                    label="Label"
                    value={name}
                    options={(names.data ?? []).filter((n) => n !== "service.name")}
                    set={(n) => {
                        setName(n);
                        setValue("");
                    }}
                />
                <Pick
                    label="Value (B)"
                    value={value}
                    options={name && !values.isOld ? (values.data ?? []) : []}
                    set={setValue}
                />
                <button
                    type="button"
                    class="button"
                    disabled={!name || !value}
                    onClick={() => props.go(labelAndRest(plain, name, value))}
                >
                    Compare
                </button>
            </div>
        </section>
    );
}

function Services(props: { scope: Scope; go: Go }) {
    const { scope } = props;
    const [a, setA] = useState("");
    const [b, setB] = useState(scope.service);
    const q = useQuery(`services ${scope.from} ${scope.until}`, (signal) =>
        askServices(scope.from, scope.until, signal),
    );
    const all = (q.data ?? []).map((s) => s.service);
    return (
        <section class="start-card">
            <h2>Service against service</h2>
            <div class="start-row">
                <Pick label="A" value={a} options={all} set={setA} />
                <Pick label="B" value={b} options={all} set={setB} />
                <button
                    type="button"
                    class="button"
                    disabled={!a || !b || a === b}
                    onClick={() =>
                        props.go({
                            base: { ...scope, service: a },
                            scope: { ...scope, service: b },
                        })
                    }
                >
                    Compare
                </button>
            </div>
        </section>
    );
}

/** A file for a side: dropped, chosen, or one that is open already. */
function FileSlot(props: {
    name: "A" | "B";
    value: string;
    stored: Scope;
    set: (key: string) => void;
}) {
    const input = useRef<HTMLInputElement>(null);
    const [isOver, setOver] = useState(false);
    const take = (list: FileList | null | undefined) => {
        const file = list?.[0];
        if (file) props.set(addLocalFile(file.name, file).key);
    };
    const open = localFiles.value;
    return (
        <div
            class={isOver ? "start-drop is-over" : "start-drop"}
            onDragOver={(e) => {
                e.preventDefault();
                setOver(true);
            }}
            onDragLeave={() => setOver(false)}
            onDrop={(e) => {
                e.preventDefault();
                setOver(false);
                take(e.dataTransfer?.files);
            }}
        >
            <b>{props.name}</b>
            <select
                aria-label={`Side ${props.name}`}
                value={props.value}
                onChange={(e) => props.set(e.currentTarget.value)}
            >
                <option value="">
                    stored: {props.stored.type || "profiles"} of{" "}
                    {props.stored.service || "all services"}
                </option>
                {open.map((f) => (
                    <option key={f.key} value={f.key}>
                        {f.name}
                    </option>
                ))}
            </select>
            <button type="button" class="button small" onClick={() => input.current?.click()}>
                Open file
            </button>
            <input
                type="file"
                class="sr-only"
                tabIndex={-1}
                aria-label={`File for side ${props.name}`}
                ref={input}
                onChange={(e) => take(e.currentTarget.files)}
            />
            <small>or drop one here</small>
        </div>
    );
}

function Files(props: { scope: Scope; go: Go }) {
    const { scope } = props;
    const [a, setA] = useState("");
    const [b, setB] = useState(scope.file);
    const base = state.value.base;
    const stored = scope.file && base && !base.file ? base : { ...scope, file: "" };
    const side = (key: string) => (key ? { ...scope, labels: [], file: key } : stored);
    return (
        <section class="start-card">
            <h2>Files</h2>
            <p>Two files, or a file against what is stored. Files stay in this window.</p>
            <FileSlot name="A" value={a} stored={stored} set={setA} />
            <FileSlot name="B" value={b} stored={stored} set={setB} />
            <div class="start-row">
                <button
                    type="button"
                    class="button"
                    disabled={!a && !b}
                    onClick={() => props.go({ base: side(a), scope: side(b) })}
                >
                    Compare
                </button>
            </div>
        </section>
    );
}

export function Starters(props: { done?: () => void }) {
    const scope = state.value.scope;
    const go = (s: Sides) => {
        props.done?.();
        patchState({ ...s, view: { ...state.value.view, root: [] } });
    };
    const stored = !scope.file;
    return (
        <div class="starters">
            {stored && <Times scope={scope} go={go} />}
            {stored && <Deploys scope={scope} go={go} />}
            {stored && <Versions scope={scope} go={go} />}
            {stored && <Labels scope={scope} go={go} />}
            {stored && <Services scope={scope} go={go} />}
            <Files scope={scope} go={go} />
        </div>
    );
}
