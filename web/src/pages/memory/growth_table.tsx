// What grows, by allocation site: the first sixth of the range against the last, largest growth
// first. The ten that grow most have their line over time.

import { askFunction, type DiffTable, scopeParams } from "../../api/questions";
import { href, openFrameMenu, pageState, state } from "../../app";
import { spanText } from "../../core/time";
import type { Scope } from "../../core/url";
import { amountText, changeText, shareText } from "../../core/units";
import { TrendLine } from "../../parts/trend_line";
import { useQuery } from "../../parts/use_query";

const LINES = 10;
const SHOWN = 30;

function SiteLine(props: { scope: Scope; name: string; from: number; until: number }) {
    const { scope, name } = props;
    const q = useQuery(`function ${name} ${JSON.stringify(scopeParams(scope))}`, (signal) =>
        askFunction(scope, name, {}, signal),
    );
    if (!q.data) return <span class="muted">{q.error ? "–" : "…"}</span>;
    const p = q.data.points;
    const points = p.start_ns
        .map((ns, i) => ({ t: Number(ns) / 1e6, v: (p.flat ?? p.value)[i] }))
        .sort((a, b) => a.t - b.t);
    return (
        <TrendLine
            points={points}
            unit={q.data.unit}
            label={name}
            from={props.from}
            until={props.until}
        />
    );
}

export function GrowthTable(props: {
    scope: Scope;
    bytes: DiffTable;
    objects: DiffTable | undefined;
    allocated: Map<string, number> | undefined;
    range: [number, number]; // ms
}) {
    const t = props.bytes;
    const [from, until] = props.range;
    const hours = (until - from) / 3600e3;
    const apart = (until - from) * (5 / 6); // between the middles of both sixths
    const rows = [...t.rows]
        .filter((r) => r.flat_change !== 0)
        .sort((a, b) => b.flat_change - a.flat_change);
    const grown = rows.filter((r) => r.flat_change > 0);
    const shown = [...grown.slice(0, SHOWN), ...rows.slice(grown.length).slice(-5)];
    const change = t.after.total - t.before.total;
    const growth = grown.reduce((sum, r) => sum + r.flat_change, 0);
    const counts = new Map(props.objects?.rows.map((r) => [r.name, r.flat_change]));
    const link = (name: string) =>
        href(
            pageState("function", {
                view: { ...state.value.view, selected: name },
                scope: props.scope,
            }),
        );
    if (shown.length === 0)
        return <p class="muted">No site holds more or less at the end than at the beginning.</p>;
    return (
        <>
            <p class="muted">
                The last sixth of the range against the first ({spanText((until - from) / 6)} each):{" "}
                {changeText(change, t.unit)} in all, {amountText(t.before.total, t.unit)} to{" "}
                {amountText(t.after.total, t.unit)}.
            </p>
            <div class="mem-scroll" tabIndex={0} role="region" aria-label="What grows">
                <table class="table mem-table">
                    <thead>
                        <tr>
                            <th scope="col">Allocation site</th>
                            <th scope="col" class="number">
                                Growth
                            </th>
                            <th scope="col" class="number">
                                Of what grew
                            </th>
                            <th scope="col" class="number">
                                Per hour
                            </th>
                            {props.objects && (
                                <th scope="col" class="number">
                                    Objects
                                </th>
                            )}
                            <th scope="col" class="number">
                                Held now
                            </th>
                            {props.allocated && (
                                <th
                                    scope="col"
                                    class="number"
                                    title="Allocated per hour, freed or not"
                                >
                                    Allocated / h
                                </th>
                            )}
                            <th scope="col">Over time</th>
                        </tr>
                    </thead>
                    <tbody>
                        {shown.map((r, i) => (
                            <tr
                                key={r.name}
                                onContextMenu={(e) => {
                                    e.preventDefault();
                                    openFrameMenu(e.clientX, e.clientY, {
                                        name: r.name,
                                        file: "",
                                        line: 0,
                                        path: [],
                                    });
                                }}
                            >
                                <td class="mem-site" title={r.name}>
                                    <a href={link(r.name)}>
                                        <bdi>{r.name || "(no name)"}</bdi>
                                    </a>
                                </td>
                                <td class="number">
                                    <span aria-hidden="true">
                                        {r.flat_change > 0 ? "▲ " : "▼ "}
                                    </span>
                                    {changeText(r.flat_change, t.unit)}
                                </td>
                                <td class="number">
                                    {r.flat_change > 0 ? shareText(r.flat_change, growth) : "–"}
                                </td>
                                <td class="number">
                                    {changeText((r.flat_change * 3600e3) / apart, t.unit)}
                                </td>
                                {props.objects && (
                                    <td class="number">
                                        {changeText(counts.get(r.name) ?? 0, "count")}
                                    </td>
                                )}
                                <td class="number">{amountText(r.after_flat, t.unit)}</td>
                                {props.allocated && (
                                    <td class="number">
                                        {props.allocated.has(r.name)
                                            ? amountText(
                                                  (props.allocated.get(r.name) ?? 0) / hours,
                                                  "bytes",
                                              )
                                            : "–"}
                                    </td>
                                )}
                                <td>
                                    {i < LINES && (
                                        <SiteLine
                                            scope={props.scope}
                                            name={r.name}
                                            from={from}
                                            until={until}
                                        />
                                    )}
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
            {rows.length > shown.length && (
                <p class="muted">
                    {rows.length - shown.length} smaller changes are not listed; Compare has all of
                    them.
                </p>
            )}
        </>
    );
}
