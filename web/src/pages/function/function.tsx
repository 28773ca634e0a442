// One function across all services and time: where it runs, what it costs, who calls it, which of its
// lines, and whether a version made it dearer.

import { useMemo, useState } from "preact/hooks";
import { serverNow } from "../../api/client";
import {
    askDeployments,
    askFunction,
    askTimeline,
    askTypes,
    scopeParams,
} from "../../api/questions";
import { href, navigate, pageState, patchScope, patchState, state, ticks } from "../../app";
import { isGauge } from "../../core/diff";
import { exactRegex } from "../../core/regex";
import { aroundDeploy } from "../../core/starters";
import { parseTime, timeParam } from "../../core/time";
import { timelineColumns } from "../../core/timeline";
import type { Scope } from "../../core/url";
import { DetailsBar } from "../../parts/details_bar";
import { Amount, Share } from "../../parts/figures";
import { SentenceBar } from "../../parts/sentence_bar";
import { Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { TimelineChart } from "../../parts/timeline_chart";
import { TrendLine } from "../../parts/trend_line";
import { useQuery } from "../../parts/use_query";
import { type GroupFigures, groupFigures } from "./figures";
import { FindFunction } from "./find";
import { Neighbours } from "./neighbours";
import { Lines } from "./lines";
import { Versions } from "./versions";
import "./function.css";

/** Services: the page begins with all of them, whatever was looked at before. */
function fleetScope(s: Scope): Scope {
    return { ...s, service: "", file: "", id: "", trace: "", span: "" };
}

export function useTypeOf(scope: Scope): string | undefined {
    const q = useQuery(
        scope.type ? null : `types ${JSON.stringify(scopeParams(scope))}`,
        (signal) => askTypes(scope, signal),
    );
    if (scope.type) return scope.type;
    const names = q.data?.map((t) => t.type);
    if (q.error) return "cpu";
    return (
        names &&
        (["cpu", "wall", "inuse_space"].find((t) => names.includes(t)) ?? names[0] ?? "cpu")
    );
}

function useHistory(scope: Scope, name: string, by: string) {
    const key = JSON.stringify([scopeParams(scope), by]);
    const fn = useQuery(
        `function ${name} ${key}`,
        (signal) => askFunction(scope, name, { by, limit: 100 }, signal),
        ticks.value,
    );
    const whole = useQuery(
        `timeline ${key}`,
        (signal) => askTimeline(scope, { by, limit: 100 }, signal),
        ticks.value,
    );
    return { fn, whole };
}

function focused(scope: Scope, name: string) {
    const s = pageState("explore");
    return href({
        ...s,
        scope,
        view: {
            ...s.view,
            view: "flame",
            selected: name,
            root: [],
            filters: [
                ...s.view.filters.filter((f) => f.kind !== "focus"),
                { kind: "focus", value: exactRegex(name) },
            ],
        },
    });
}

function ServiceTable(props: {
    rows: readonly GroupFigures[];
    unit: string;
    scope: Scope;
    name: string;
    picked: string;
    range: [number, number];
}) {
    const pick = (service: string) => patchState({ extra: { ...state.value.extra, of: service } });
    return (
        <div class="fn-scroll" role="region" aria-label="By service" tabIndex={0}>
            <table class="table">
                <thead>
                    <tr>
                        <th scope="col">Service</th>
                        <th scope="col" class="number">
                            Self
                        </th>
                        <th scope="col" class="number">
                            Total
                        </th>
                        <th scope="col" class="number" title="Total, of all that the service spent">
                            Of the service
                        </th>
                        <th scope="col">Over time</th>
                        <th scope="col">
                            <span class="sr-only">Look</span>
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {props.rows.map((r) => (
                        <tr key={r.name} aria-selected={r.name === props.picked}>
                            <td>
                                <button
                                    type="button"
                                    class="button quiet small"
                                    aria-pressed={r.name === props.picked}
                                    title="Callers, lines and versions of this service"
                                    onClick={() => pick(r.name)}
                                >
                                    {r.name || "(no service)"}
                                </button>
                            </td>
                            <td class="number">
                                <Amount value={r.flat} unit={props.unit} />
                            </td>
                            <td class="number">
                                <Amount value={r.cum} unit={props.unit} />
                            </td>
                            <td class="number">
                                <Share part={r.cum} whole={r.of} />
                            </td>
                            <td>
                                <TrendLine
                                    points={r.points}
                                    unit={props.unit}
                                    label={r.name}
                                    from={props.range[0]}
                                    until={props.range[1]}
                                />
                            </td>
                            <td class="number">
                                <a href={focused({ ...props.scope, service: r.name }, props.name)}>
                                    Explore
                                </a>
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

function Chart(props: {
    scope: Scope;
    service: string; // whose deployments are flags
    fn: ReturnType<typeof useHistory>["fn"];
}) {
    const { scope, fn, service } = props;
    const now = useMemo(serverNow, [fn.data]);
    const isFlat = state.value.extra.flat === "1";
    const from = parseTime(scope.from, now);
    const until = parseTime(scope.until, now);
    const range = [
        timeParam(Math.floor(from / 60e3) * 60e3),
        timeParam(Math.ceil(until / 60e3) * 60e3),
    ];
    const deploys = useQuery(`deployments ${service} ${range.join(" ")}`, (signal) =>
        askDeployments(service, range[0], range[1], signal),
    );
    const columns = useMemo(() => {
        if (!fn.data) return null;
        const p = fn.data.points;
        // Services without it would only be lines at zero.
        const seen = fn.data.groups.map((g) => g.total !== 0);
        const at = p.group.map((_, i) => i).filter((i) => seen[p.group[i]]);
        const value = isFlat ? (p.flat ?? p.value) : p.value;
        return timelineColumns({
            ...fn.data,
            all_groups: seen.filter(Boolean).length,
            groups: fn.data.groups.map((g, i) => (seen[i] ? g : { ...g, total: -1 })),
            points: {
                group: at.map((i) => p.group[i]),
                start_ns: at.map((i) => p.start_ns[i]),
                value: at.map((i) => value[i]),
            },
        });
    }, [fn.data, isFlat]);
    const shown = columns && {
        ...columns,
        lines: columns.lines.filter((l) => l.values.some((v) => v !== undefined)),
    };
    const times = (deploys.data ?? []).map((d) => Number(d.time_ns) / 1e6);
    const markers = (deploys.data ?? []).map((d, i) => ({
        at: times[i],
        label: d.version || d.commit?.slice(0, 8) || "deploy",
        detail: `${d.service} ${d.version ?? ""}: compare before and after`,
        onPick: () =>
            navigate(
                pageState(
                    "compare",
                    aroundDeploy({ ...scope, service: d.service }, times[i], times, now),
                ),
            ),
    }));
    if (!shown || !fn.data) return null;
    return (
        <section class="fn-section">
            <div class="fn-head">
                <h2>Over time</h2>
                <div class="fn-toggle" role="group" aria-label="What is drawn">
                    {[false, true].map((flat) => (
                        <button
                            key={String(flat)}
                            type="button"
                            class="button small"
                            aria-pressed={isFlat === flat}
                            onClick={() =>
                                patchState({
                                    extra: { ...state.value.extra, flat: flat ? "1" : "" },
                                })
                            }
                        >
                            {flat ? "Self" : "Total"}
                        </button>
                    ))}
                </div>
                <span class="muted">
                    Drag to choose a time; press a flag to compare before and after.
                </span>
            </div>
            <TimelineChart
                columns={shown}
                unit={fn.data.unit}
                height={200}
                markers={markers}
                label={`${isFlat ? "Self" : "Total"} of this function over time, by service`}
                onBrush={(b) => patchScope({ from: timeParam(b.from), until: timeParam(b.until) })}
            />
        </section>
    );
}

function OfService(props: { scope: Scope; name: string; service: string }) {
    const scope = { ...props.scope, service: props.service };
    return (
        <>
            <h2 class="fn-of">
                In {props.service || "all services"}{" "}
                <a class="fn-link" href={focused(scope, props.name)}>
                    Explore it
                </a>
            </h2>
            <Neighbours scope={scope} name={props.name} />
            <div class="fn-columns">
                <Lines scope={scope} name={props.name} />
                <Versions scope={scope} name={props.name} />
            </div>
        </>
    );
}

function About(props: { name: string; scope: Scope }) {
    const { name, scope } = props;
    const { fn, whole } = useHistory(scope, name, "service.name");
    const now = useMemo(serverNow, [fn.data]);
    const gauge = isGauge(scope.type);
    const rows = useMemo(
        () => (fn.data ? groupFigures(fn.data, whole.data, "service.name", gauge) : []),
        [fn.data, whole.data, gauge],
    );
    if (fn.error) return <ErrorBox error={fn.error} retry={fn.retry} />;
    if (!fn.data) return <Skeleton rows={10} label="Loading the function" />;
    if (rows.length === 0)
        return (
            <Empty title="Not seen here">
                <p>
                    No service spent any <b>{scope.type}</b> in a function of exactly this name in
                    this range. Choose another type or a longer range above, or look for a similar
                    name.
                </p>
                <FindFunction scope={scope} text={name} />
            </Empty>
        );
    const asked = state.value.extra.of ?? state.value.scope.service;
    const picked = rows.find((r) => r.name === asked) ?? rows[0];
    const range: [number, number] = [parseTime(scope.from, now), parseTime(scope.until, now)];
    return (
        <Loading isOld={fn.isOld}>
            <section class="fn-section">
                <h2>Services</h2>
                <ServiceTable
                    rows={rows}
                    unit={fn.data.unit}
                    scope={scope}
                    name={name}
                    picked={picked.name}
                    range={range}
                />
                {gauge && (
                    <p class="muted">
                        Averages over the range: this type is what is there at a moment.
                    </p>
                )}
            </section>
            <Chart scope={scope} service={picked.name} fn={fn} />
            <OfService scope={scope} name={name} service={picked.name} />
        </Loading>
    );
}

export default function FunctionPage() {
    const s = state.value;
    const name = s.view.selected;
    const type = useTypeOf(s.scope);
    const [isSearching, setSearching] = useState(false);
    const fleet = { ...fleetScope(s.scope), type: type ?? "" };
    return (
        <div class="fn">
            <SentenceBar />
            <div class="page fn-page">
                <p class="fn-kicker">
                    Function{" "}
                    {name && (
                        <button
                            type="button"
                            class="button small quiet"
                            aria-expanded={isSearching}
                            onClick={() => setSearching(!isSearching)}
                        >
                            Another one…
                        </button>
                    )}
                </p>
                {name ? (
                    <h1 class="fn-name">
                        <bdi>{name}</bdi>
                    </h1>
                ) : (
                    <h1>Find a function</h1>
                )}
                {(isSearching || !name) && type !== undefined && (
                    <FindFunction scope={fleet} text="" done={() => setSearching(false)} />
                )}
                {name &&
                    (type === undefined ? (
                        <Skeleton rows={10} />
                    ) : (
                        <About name={name} scope={fleet} />
                    ))}
            </div>
            <DetailsBar />
        </div>
    );
}
