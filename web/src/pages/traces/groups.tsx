// Operations: spans of one service and name, with how long they take.

import { type GroupOrder, type SpanGroup, askSpanGroups } from "../../api/spans";
import { href, patchState, state, ticks } from "../../app";
import { countText, shareText } from "../../core/units";
import type { Scope } from "../../core/url";
import { Amount } from "../../parts/figures";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { NoSpans } from "./no_spans";

const COLUMNS: { name: string; order?: GroupOrder; title: string }[] = [
    { name: "Spans", order: "count", title: "How many there were" },
    { name: "Errors", order: "errors", title: "How many failed" },
    { name: "p50", title: "Half of them took less" },
    { name: "p95", title: "1 of 20 took longer" },
    { name: "p99", order: "p99", title: "1 of 100 took longer" },
    { name: "Max", title: "The slowest" },
    { name: "Total", order: "total", title: "All of them added up" },
];

function Row(props: { group: SpanGroup; scope: Scope; hasValues: boolean; slowest: number }) {
    const { group: g, scope } = props;
    const s = state.value;
    const to = {
        ...s,
        scope: { ...s.scope, service: g.service },
        extra: { ...s.extra, group: g.name },
    };
    const time = (ns: string) => <Amount value={Number(ns)} unit="nanoseconds" />;
    return (
        <tr>
            <td class="traces-name">
                <a href={href(to)}>{g.name || "(no name)"}</a>
                <span class="muted"> {g.service}</span>
            </td>
            <td class="number">{countText(g.count)}</td>
            <td class={g.errors > 0 ? "number traces-bad" : "number muted"}>
                {g.errors > 0 ? `${countText(g.errors)} (${shareText(g.errors, g.count)})` : "0"}
            </td>
            <td class="number">{time(g.p50_ns)}</td>
            <td class="number">{time(g.p95_ns)}</td>
            <td class="number traces-bar-cell">
                <span
                    class="traces-bar"
                    style={{ width: `${(100 * Number(g.p99_ns)) / props.slowest}%` }}
                />
                <span class="traces-bar-text">{time(g.p99_ns)}</span>
            </td>
            <td class="number">{time(g.max_ns)}</td>
            <td class="number">{time(g.total_ns)}</td>
            {props.hasValues && (
                <td class="number">
                    {g.value ? (
                        <Amount
                            value={g.value}
                            unit={scope.type.includes("cpu") ? "nanoseconds" : ""}
                        />
                    ) : (
                        <span class="muted">–</span>
                    )}
                </td>
            )}
        </tr>
    );
}

function Head(props: { order: GroupOrder; hasValues: boolean; type: string }) {
    const columns = props.hasValues
        ? [
              ...COLUMNS,
              {
                  name: `${props.type.split(":")[0]} in them`,
                  order: "value" as const,
                  title: "What samples taken in these spans add up to",
              },
          ]
        : COLUMNS;
    return (
        <thead>
            <tr>
                <th scope="col">Operation</th>
                {columns.map((c) => (
                    <th
                        key={c.name}
                        scope="col"
                        class="number"
                        aria-sort={c.order === props.order ? "descending" : undefined}
                    >
                        {c.order ? (
                            <button
                                type="button"
                                class="traces-sort"
                                title={`${c.title}; largest first`}
                                onClick={() =>
                                    patchState({
                                        extra: { ...state.value.extra, sort: c.order as string },
                                    })
                                }
                            >
                                {c.name}
                                {c.order === props.order ? " ↓" : ""}
                            </button>
                        ) : (
                            <span title={c.title}>{c.name}</span>
                        )}
                    </th>
                ))}
            </tr>
        </thead>
    );
}

export function orderOf(text: string | undefined): GroupOrder {
    const all: GroupOrder[] = ["count", "p99", "total", "errors", "value"];
    return all.find((o) => o === text) ?? "total";
}

export function Groups(props: { scope: Scope }) {
    const { scope } = props;
    const order = orderOf(state.value.extra.sort);
    const key = JSON.stringify([
        "groups",
        scope.service,
        scope.type,
        scope.from,
        scope.until,
        order,
    ]);
    const found = useQuery(key, (signal) => askSpanGroups(scope, order, "", signal), ticks.value);
    if (found.error) return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data) return <Skeleton rows={10} />;
    const { groups, has_values: hasValues } = found.data;
    if (groups.length === 0) return <NoSpans service={scope.service} />;
    const slowest = Math.max(...groups.map((g) => Number(g.p99_ns)), 1);
    return (
        <Loading isOld={found.isOld}>
            <div class="traces-scroll">
                <table class="table">
                    <Head order={order} hasValues={hasValues} type={scope.type} />
                    <tbody>
                        {groups.map((g) => (
                            <Row
                                key={`${g.service}\n${g.name}`}
                                group={g}
                                scope={scope}
                                hasValues={hasValues}
                                slowest={slowest}
                            />
                        ))}
                    </tbody>
                </table>
            </div>
            <p class="muted">
                {countText(found.data.spans)} spans in {countText(found.data.all_groups)} groups
                {groups.length < found.data.all_groups && `, of which ${groups.length} are listed`}
                {found.data.left_out > 0 &&
                    `; ${countText(found.data.left_out)} spans of further groups are not told apart`}
                {found.data.values_cut && "; values are those of the 10,000 heaviest spans"}.
            </p>
        </Loading>
    );
}
