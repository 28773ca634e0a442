// Both sides over time, above everything else: one chart with two bands when only the time differs,
// two charts otherwise. Deployments are flags; pressing one compares before and after it. Dragging
// chooses B's time, with Shift A's.

import { useMemo } from "preact/hooks";
import { serverNow } from "../../api/client";
import { askDeployments, askTimeline, type Deployment, scopeParams } from "../../api/questions";
import { patchState, state, ticks } from "../../app";
import { aroundDeploy, differsByTimeOnly } from "../../core/starters";
import { clockText, parseTime, timeParam } from "../../core/time";
import { timelineColumns } from "../../core/timeline";
import type { Scope } from "../../core/url";
import { type Band, type Brush, type Marker, TimelineChart } from "../../parts/timeline_chart";
import { useQuery } from "../../parts/use_query";

const HEIGHT = 88;

export function useDeployments(service: string, from: number, until: number) {
    // Whole minutes: "now" moves, and the answer does not.
    const a = timeParam(Math.floor(from / 60e3) * 60e3);
    const b = timeParam(Math.ceil(until / 60e3) * 60e3);
    return useQuery(`deployments ${service} ${a} ${b}`, (signal) =>
        askDeployments(service, a, b, signal),
    );
}

export function deployName(d: Deployment): string {
    return d.version || d.commit?.slice(0, 10) || "deploy";
}

function useMarkers(service: string, from: number, until: number, now: number): Marker[] {
    const q = useDeployments(service, from, until);
    return useMemo(() => {
        const all = q.data ?? [];
        const times = all.map((d) => Number(d.time_ns) / 1e6);
        return all.map((d, i) => ({
            at: times[i],
            label: service ? deployName(d) : `${d.service} ${deployName(d)}`,
            detail: `${d.service} ${deployName(d)}, ${clockText(times[i], now)}: compare before and after`,
            onPick: () => {
                const scope = { ...state.value.scope, service: d.service };
                patchState(aroundDeploy(scope, times[i], times, now));
            },
        }));
    }, [q.data, service]);
}

function setSide(side: "A" | "B", b: Brush) {
    const s = state.value;
    const time = { from: timeParam(b.from), until: timeParam(b.until) };
    if (side === "A") patchState({ base: { ...(s.base ?? s.scope), ...time } });
    else patchState({ scope: { ...s.scope, ...time } });
}

function Chart(props: {
    label: string;
    scope: Scope; // with absolute times
    service: string;
    now: number;
    bands: Band[];
    onBrush: (b: Brush) => void;
}) {
    const { scope, now } = props;
    const key = scope.type ? `timeline ${JSON.stringify(scopeParams(scope))}` : null;
    const q = useQuery(key, (signal) => askTimeline(scope, {}, signal), ticks.value);
    const markers = useMarkers(
        props.service,
        parseTime(scope.from, now),
        parseTime(scope.until, now),
        now,
    );
    const columns = useMemo(() => q.data && timelineColumns(q.data), [q.data]);
    return (
        <div class="cmp-strip">
            {columns && q.data ? (
                <TimelineChart
                    columns={columns}
                    unit={q.data.unit}
                    height={HEIGHT}
                    label={props.label}
                    markers={markers}
                    bands={props.bands}
                    brush={null}
                    onBrush={props.onBrush}
                />
            ) : (
                <div class="cmp-strip-wait">{q.error?.message}</div>
            )}
        </div>
    );
}

/** Absolute, in whole seconds: the same question for a while. */
function fixed(s: Scope, from: number, until: number): Scope {
    return {
        ...s,
        from: timeParam(Math.floor(from / 1e3) * 1e3),
        until: timeParam(Math.ceil(until / 1e3) * 1e3),
    };
}

function OneSide(props: { name: "A" | "B"; scope: Scope; now: number }) {
    const { scope, now, name } = props;
    if (scope.file) return <p class="cmp-note">Side {name} is a file: it has no history.</p>;
    const from = parseTime(scope.from, now);
    const until = parseTime(scope.until, now);
    return (
        <Chart
            label={`Side ${name} over time`}
            scope={fixed(scope, from, until)}
            service={scope.service}
            now={now}
            bands={[{ from, until, label: `Side ${name}`, side: name }]}
            onBrush={(b) => setSide(name, b)}
        />
    );
}

function BothSides(props: { before: Scope; after: Scope; now: number }) {
    const { before, after, now } = props;
    const t = [before.from, before.until, after.from, after.until].map((x) => parseTime(x, now));
    const room = (Math.max(...t) - Math.min(...t)) * 0.04;
    const from = Math.min(...t) - room;
    const until = Math.min(Math.max(...t) + room, Math.max(now, ...t));
    return (
        <Chart
            label="Both sides over time. Drag to choose side B, with Shift side A."
            scope={fixed(after, from, until)}
            service={after.service}
            now={now}
            bands={[
                { from: t[0], until: t[1], label: "Side A", side: "A" },
                { from: t[2], until: t[3], label: "Side B", side: "B" },
            ]}
            onBrush={(b) => setSide(b.isShift ? "A" : "B", b)}
        />
    );
}

/** Bands that are slivers on a common axis say nothing: then each side has its own. */
function fitsOneChart(a: Scope, b: Scope, now: number): boolean {
    const t = [a.from, a.until, b.from, b.until].map((x) => parseTime(x, now));
    const length = Math.max(...t) - Math.min(...t);
    return t[1] - t[0] > length * 0.04 && t[3] - t[2] > length * 0.04;
}

export function Timelines(props: { before: Scope; after: Scope }) {
    const { before, after } = props;
    // "now" stands still while nothing is asked again.
    const now = useMemo(serverNow, [JSON.stringify([before, after]), ticks.value]);
    if (before.file && after.file) return null;
    if (differsByTimeOnly(before, after) && fitsOneChart(before, after, now))
        return <BothSides before={before} after={after} now={now} />;
    return (
        <div class="cmp-strips">
            <OneSide name="A" scope={before} now={now} />
            <OneSide name="B" scope={after} now={now} />
        </div>
    );
}
