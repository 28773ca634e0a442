// Both sides over time, above everything else: one strip with two bands when only the time differs,
// two strips otherwise. Deployments are flags; pressing one compares before and after it.

import { useMemo } from "preact/hooks";
import { serverNow } from "../../api/client";
import {
    askDeployments,
    askTimeline,
    type Deployment,
    scopeParams,
    type Timeline,
} from "../../api/questions";
import { patchState, state, ticks } from "../../app";
import { aroundDeploy, differsByTimeOnly } from "../../core/starters";
import { clockText, parseTime, timeParam } from "../../core/time";
import type { Point } from "../../core/trend";
import type { Scope } from "../../core/url";
import { Strip, type StripMark } from "../../parts/trend_line";
import { useQuery } from "../../parts/use_query";

export function useTimeline(s: Scope, type: string) {
    const asked = { ...s, type };
    const key = s.file || !type ? null : `timeline ${JSON.stringify(scopeParams(asked))}`;
    return useQuery(key, (signal) => askTimeline(asked, {}, signal), ticks.value);
}

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

export function pointsOf(t: Timeline | undefined, group?: number): Point[] {
    const points = t?.points;
    if (!points) return [];
    const all: Point[] = [];
    points.start_ns.forEach((ns, i) => {
        if (group === undefined || points.group[i] === group)
            all.push({ t: Number(ns) / 1e6, v: points.value[i] });
    });
    return all.sort((x, y) => x.t - y.t);
}

function useMarks(service: string, from: number, until: number, now: number): StripMark[] {
    const q = useDeployments(service, from, until);
    return useMemo(() => {
        const all = q.data ?? [];
        const times = all.map((d) => Number(d.time_ns) / 1e6);
        return all.map((d, i) => ({
            at: times[i],
            label: service ? deployName(d) : `${d.service} ${deployName(d)}`,
            title: `${d.service} ${deployName(d)}, ${clockText(times[i], now)}: compare before and after`,
            onPick: () => {
                const scope = { ...state.value.scope, service: d.service };
                patchState(aroundDeploy(scope, times[i], times, now));
            },
        }));
    }, [q.data, service]);
}

function OneStrip(props: { name: "A" | "B"; scope: Scope; type: string; now: number }) {
    const { scope, now } = props;
    const q = useTimeline(scope, props.type);
    const from = parseTime(scope.from, now);
    const until = parseTime(scope.until, now);
    const marks = useMarks(scope.service, from, until, now);
    if (scope.file) return <p class="cmp-note">Side {props.name} is a file: it has no history.</p>;
    return (
        <div class="cmp-strip">
            <Strip
                label={`Side ${props.name} over time`}
                series={[{ name: props.name, points: pointsOf(q.data) }]}
                unit={q.data?.unit ?? ""}
                from={from}
                until={until}
                bands={[{ from, until, name: props.name, kind: props.name === "A" ? "a" : "b" }]}
                marks={marks}
                now={now}
            />
        </div>
    );
}

function SharedStrip(props: { before: Scope; after: Scope; type: string; now: number }) {
    const { before, after, now } = props;
    const times = [before.from, before.until, after.from, after.until].map((t) =>
        parseTime(t, now),
    );
    const length = Math.max(...times) - Math.min(...times);
    const from = Math.min(...times) - length * 0.04;
    const until = Math.min(Math.max(...times) + length * 0.04, Math.max(now, Math.max(...times)));
    const scope = {
        ...after,
        from: timeParam(Math.floor(from / 1e3) * 1e3),
        until: timeParam(Math.ceil(until / 1e3) * 1e3),
    };
    const q = useTimeline(scope, props.type);
    const marks = useMarks(after.service, from, until, now);
    return (
        <div class="cmp-strip">
            <Strip
                label="Both sides over time"
                series={[{ name: props.type, points: pointsOf(q.data) }]}
                unit={q.data?.unit ?? ""}
                from={from}
                until={until}
                bands={[
                    { from: times[0], until: times[1], name: "A", kind: "a" },
                    { from: times[2], until: times[3], name: "B", kind: "b" },
                ]}
                marks={marks}
                now={now}
            />
        </div>
    );
}

/** Bands that are slivers on a common axis say nothing: then each side has its own. */
function fitsOneStrip(a: Scope, b: Scope, now: number): boolean {
    const t = [a.from, a.until, b.from, b.until].map((x) => parseTime(x, now));
    const length = Math.max(...t) - Math.min(...t);
    return t[1] - t[0] > length * 0.04 && t[3] - t[2] > length * 0.04;
}

export function Timelines(props: { before: Scope; after: Scope; type: string }) {
    const { before, after, type } = props;
    // "now" stands still while nothing is asked again.
    const now = useMemo(serverNow, [before, after, ticks.value]);
    if (before.file && after.file) return null;
    if (differsByTimeOnly(before, after) && fitsOneStrip(before, after, now))
        return <SharedStrip before={before} after={after} type={type} now={now} />;
    return (
        <div class="cmp-strips">
            <OneStrip name="A" scope={before} type={type} now={now} />
            <OneStrip name="B" scope={after} type={type} now={now} />
        </div>
    );
}
