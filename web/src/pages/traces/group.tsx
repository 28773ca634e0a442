// One operation: its slow spans (or the newest), each with the ways to its profile.

import { type Exemplar, type Span, askExemplars, askSpanGroups, askSpans } from "../../api/spans";
import { patchState, state, ticks } from "../../app";
import { clockText } from "../../core/time";
import { countText } from "../../core/units";
import type { Scope } from "../../core/url";
import { Amount } from "../../parts/figures";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { SpanLinks } from "./span_links";

const LIMIT = 200;

async function askGroup(scope: Scope, name: string, which: string, signal: AbortSignal) {
    const groups = await askSpanGroups(scope, "count", name, signal);
    const group = groups.groups.find((g) => g.name === name);
    const slow = which === "newest" || !group ? undefined : `${group.p95_ns}ns`;
    const [spans, exemplars] = await Promise.all([
        askSpans(scope, { name, min_duration: slow, limit: LIMIT }, signal),
        // Samples need not know their spans: without them the list is just as good.
        askExemplars(scope, 1000, signal).catch(() => [] as Exemplar[]),
    ]);
    const values = new Map(exemplars.map((e) => [e.trace + e.span, e.value]));
    const list = [...spans.spans];
    if (slow) list.sort((a, b) => Number(b.duration_ns) - Number(a.duration_ns));
    return { group, spans: list, isCut: spans.is_cut, values };
}

function Numbers(props: { items: [string, string | number, boolean][] }) {
    return (
        <dl class="traces-numbers">
            {props.items.map(([name, value, isTime]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>
                        {isTime ? (
                            <Amount value={Number(value)} unit="nanoseconds" />
                        ) : (
                            countText(Number(value))
                        )}
                    </dd>
                </div>
            ))}
        </dl>
    );
}

function SpanRow(props: { span: Span; longest: number; value: number | undefined; scope: Scope }) {
    const { span } = props;
    const start = Number(span.start_ns) / 1e6;
    const attributes = Object.entries(span.attributes ?? {});
    return (
        <tr>
            <td class="traces-when" title={new Date(start).toISOString()}>
                {clockText(start, Date.now(), true)}
            </td>
            <td class="number traces-bar-cell traces-duration">
                <span
                    class="traces-bar"
                    style={{ width: `${(100 * Number(span.duration_ns)) / props.longest}%` }}
                />
                <span class="traces-bar-text">
                    <Amount value={Number(span.duration_ns)} unit="nanoseconds" />
                </span>
            </td>
            <td>{span.status === 2 ? <span class="traces-bad">error</span> : "ok"}</td>
            <td class="number">
                {props.value ? (
                    <Amount
                        value={props.value}
                        unit={props.scope.type.includes("cpu") ? "nanoseconds" : ""}
                    />
                ) : (
                    <span class="muted">none</span>
                )}
            </td>
            <td>
                <SpanLinks
                    scope={props.scope}
                    span={span}
                    service={span.service}
                    hasSamples={props.value !== undefined}
                />
            </td>
            <td
                class="traces-attributes muted"
                title={attributes.map(([k, v]) => `${k}=${v}`).join("\n")}
            >
                {attributes.map(([k, v]) => `${k}=${v}`).join("  ")}
            </td>
        </tr>
    );
}

export function Group(props: { scope: Scope; name: string }) {
    const { scope, name } = props;
    const which = state.value.extra.which === "newest" ? "newest" : "slowest";
    const key = JSON.stringify(["group", scope, name, which]);
    const found = useQuery(key, (signal) => askGroup(scope, name, which, signal), ticks.value);
    if (found.error) return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data) return <Skeleton rows={10} />;
    const { group, spans, values, isCut } = found.data;
    const longest = Math.max(...spans.map((s) => Number(s.duration_ns)), 1);
    return (
        <Loading isOld={found.isOld}>
            <h1 class="traces-title">{name}</h1>
            {group && (
                <Numbers
                    items={[
                        ["Spans", group.count, false],
                        ["Errors", group.errors, false],
                        ["p50", group.p50_ns, true],
                        ["p95", group.p95_ns, true],
                        ["p99", group.p99_ns, true],
                        ["Slowest", group.max_ns, true],
                    ]}
                />
            )}
            <div class="traces-tabs" role="group" aria-label="Which spans">
                {(["slowest", "newest"] as const).map((w) => (
                    <button
                        key={w}
                        type="button"
                        class="button"
                        aria-pressed={which === w}
                        onClick={() =>
                            patchState({
                                extra: { ...state.value.extra, which: w === "slowest" ? "" : w },
                            })
                        }
                    >
                        {w === "slowest" ? "Slowest 5 %" : "Newest"}
                    </button>
                ))}
            </div>
            {spans.length === 0 ? (
                <p class="muted">No spans of this operation in this range.</p>
            ) : (
                <div class="traces-scroll">
                    <table class="table">
                        <thead>
                            <tr>
                                <th scope="col">Start</th>
                                <th scope="col" class="number">
                                    Duration
                                </th>
                                <th scope="col">Status</th>
                                <th scope="col" class="number">
                                    {scope.type.split(":")[0] || "samples"} in it
                                </th>
                                <th scope="col">Profile of</th>
                                <th scope="col">Attributes</th>
                            </tr>
                        </thead>
                        <tbody>
                            {spans.map((s) => (
                                <SpanRow
                                    key={s.trace + s.span}
                                    span={s}
                                    longest={longest}
                                    value={values.get(s.trace + s.span)}
                                    scope={scope}
                                />
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
            {isCut && (
                <p class="muted">Only {LIMIT} are listed: choose a shorter range for others.</p>
            )}
            {values.size === 0 && (
                <p class="muted traces-hint">
                    No samples of this service say which span they were taken in, so only the
                    profile of the service at that time can be shown: all that ran then, this span
                    or not.
                </p>
            )}
        </Loading>
    );
}
