// Memory: is it leaking, what grows, who holds it, and what that means. Everything rests on the
// in-use types of heap profiles, over time.

import { useMemo } from "preact/hooks";
import { serverNow } from "../../api/client";
import { askDeployments, askServices, askTypes, scopeParams } from "../../api/questions";
import { href, navigate, pageState, patchScope, patchState, refresh, state } from "../../app";
import { asTimeline } from "../../core/instances";
import { memoryTypes, type MemoryTypes } from "../../core/memory_types";
import { aroundDeploy } from "../../core/starters";
import { parseTime, timeParam } from "../../core/time";
import { timelineColumns } from "../../core/timeline";
import type { Scope } from "../../core/url";
import { amountText, changeText, threeDigits } from "../../core/units";
import { DetailsBar } from "../../parts/details_bar";
import { FrameMenu } from "../../parts/frame_menu";
import { Icon } from "../../parts/icons";
import { Lazy } from "../../parts/lazy";
import { ScopeSentence } from "../../parts/scope_sentence";
import { Command, Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { TimelineChart } from "../../parts/timeline_chart";
import { TrendLine } from "../../parts/trend_line";
import { useQuery } from "../../parts/use_query";
import { type Judged, useAllocated, useGrowth, useInstances, windowsOf } from "./data";
import { GrowthTable } from "./growth_table";
import { Holders } from "./holders";
import { VerdictCard } from "./verdict";
import "./memory.css";

const loadTrail = () => import("../../parts/trail");

const WORDS = {
    leak: "grows",
    plateau: "levelled off",
    flat: "flat",
    shrinking: "shrinks",
    unclear: "unclear",
    unknown: "too few points",
};

function HowToGet(props: { service: string }) {
    const url = new URL(document.baseURI).origin;
    const name = props.service || "NAME";
    return (
        <Empty title="No heap profiles here">
            <p>
                {props.service ? <b>{props.service}</b> : "Nothing"} sent no type of in-use memory
                in this range. A longer range may have some; otherwise:
            </p>
            <Command
                label="Go"
                text={`curl -s http://HOST:6060/debug/pprof/heap | vesta push --url ${url} --service ${name} -moment -`}
            />
            <p>
                Better, let the server fetch it every minute: <code>scrape</code> with the profile{" "}
                <code>heap</code> in its configuration.
            </p>
            <Command
                label="Node"
                text={`node --heap-prof app.js; vesta push --url ${url} --service ${name} *.heapprofile`}
            />
            <Command
                label="Java"
                text={`asprof -e alloc --live -d 60 -f live.jfr PID; vesta push --url ${url} --service ${name} live.jfr`}
            />
            <Command
                label="C, C++"
                text={`HEAPPROFILE=/tmp/h LD_PRELOAD=libtcmalloc.so ./app; vesta push --url ${url} --service ${name} -moment /tmp/h.*.heap`}
            />
        </Empty>
    );
}

function PickService(props: { scope: Scope }) {
    const s = props.scope;
    const q = useQuery(`services ${s.from} ${s.until}`, (signal) =>
        askServices(s.from, s.until, signal),
    );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={4} label="Loading services" />;
    const fit = q.data.filter((x) => memoryTypes(x.types).held);
    if (fit.length === 0) return <HowToGet service="" />;
    return (
        <section class="mem-section">
            <h2>Whose memory?</h2>
            <ul class="mem-services">
                {fit.map((x) => (
                    <li key={x.service}>
                        <a
                            class="button"
                            href={href({ ...state.value, scope: { ...s, service: x.service } })}
                        >
                            {x.service || "(no name)"}
                        </a>
                    </li>
                ))}
            </ul>
            {q.data.length > fit.length && (
                <p class="muted">
                    {q.data.length - fit.length} other services sent no heap profiles in this range.
                </p>
            )}
        </section>
    );
}

function InstanceTable(props: { all: readonly Judged[]; unit: string; range: [number, number] }) {
    return (
        <div class="mem-scroll" tabIndex={0} role="region" aria-label="Instances">
            <table class="table mem-table">
                <thead>
                    <tr>
                        <th scope="col">Instance</th>
                        <th scope="col" class="number">
                            Now
                        </th>
                        <th scope="col" class="number">
                            Slope, per hour
                        </th>
                        <th
                            scope="col"
                            class="number"
                            title="How well a straight line fits: 1 is perfectly"
                        >
                            R²
                        </th>
                        <th scope="col" class="number">
                            Points
                        </th>
                        <th scope="col">It</th>
                        <th scope="col">Over time</th>
                    </tr>
                </thead>
                <tbody>
                    {props.all.slice(0, 20).map((i) => {
                        const t = i.judgement.trend;
                        return (
                            <tr key={i.name}>
                                <td class="mem-site" title={i.name}>
                                    {i.name || "all"}
                                </td>
                                <td class="number">
                                    {amountText(i.points[i.points.length - 1]?.v ?? 0, props.unit)}
                                </td>
                                <td class="number">
                                    {t && t.n > 1 ? changeText(t.slope, props.unit) : "–"}
                                </td>
                                <td class="number">{t && t.n > 2 ? threeDigits(t.r2) : "–"}</td>
                                <td class="number">{t?.n ?? 0}</td>
                                <td>{WORDS[i.judgement.verdict]}</td>
                                <td>
                                    <TrendLine
                                        points={i.points}
                                        unit={props.unit}
                                        label={i.name}
                                        from={props.range[0]}
                                        until={props.range[1]}
                                    />
                                </td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
            {props.all.length > 20 && (
                <p class="muted">The 20 steepest of {props.all.length} instances.</p>
            )}
        </div>
    );
}

function useMarkers(scope: Scope, range: [number, number], now: number) {
    const from = timeParam(Math.floor(range[0] / 60e3) * 60e3);
    const until = timeParam(Math.ceil(range[1] / 60e3) * 60e3);
    const q = useQuery(`deployments ${scope.service} ${from} ${until}`, (signal) =>
        askDeployments(scope.service, from, until, signal),
    );
    const times = (q.data ?? []).map((d) => Number(d.time_ns) / 1e6);
    return (q.data ?? []).map((d, i) => ({
        at: times[i],
        label: d.version || d.commit?.slice(0, 8) || "deploy",
        detail: `${d.service} ${d.version ?? ""}: compare before and after`,
        onPick: () => navigate(pageState("compare", aroundDeploy(scope, times[i], times, now))),
    }));
}

function Workflow(props: { scope: Scope; types: MemoryTypes }) {
    const { scope, types } = props;
    const { q, label, all, verdict } = useInstances(scope);
    const now = useMemo(serverNow, [q.data]);
    const range: [number, number] = [parseTime(scope.from, now), parseTime(scope.until, now)];
    const markers = useMarkers(scope, range, now);
    const step = Number(q.data?.step_ns ?? 0) / 1e6;
    const windows = useMemo(() => windowsOf(scope, all, step), [all, step]);
    const growth = useGrowth(windows, types.held);
    const objects = useGrowth(windows, types.objects);
    const allocated = useAllocated(scope, types.allocated);
    const columns = useMemo(
        () => (q.data ? timelineColumns(asTimeline(q.data, all)) : null),
        [q.data, all],
    );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data || !columns) return <Skeleton rows={12} label="Loading memory over time" />;
    if (all.length === 0 || !verdict) return <HowToGet service={scope.service} />;
    const steepest = all.find((i) => i.judgement === verdict) ?? all[0];
    const times = all.flatMap((i) => i.points.map((p) => p.t));
    const seen: [number, number] = [Math.min(...times), Math.max(...times) + step];
    return (
        <Loading isOld={q.isOld}>
            <VerdictCard
                verdict={verdict.verdict}
                of={steepest}
                n={all.length}
                growth={growth.data}
                windows={windows}
                held={types.held}
                allocated={types.allocated}
            />
            <section class="mem-section">
                <h2>1. Is it leaking?</h2>
                <p class="muted">
                    {types.held}{" "}
                    {label
                        ? `by ${label}`
                        : "of all instances together: none has a label of its own"}
                </p>
                <TimelineChart
                    columns={columns}
                    unit={q.data.unit}
                    height={180}
                    markers={markers}
                    label="In-use memory over time, by instance"
                    onBrush={(b) =>
                        patchScope({ from: timeParam(b.from), until: timeParam(b.until) })
                    }
                />
                <InstanceTable all={all} unit={q.data.unit} range={range} />
            </section>
            <section class="mem-section">
                <h2>2. What grows?</h2>
                {growth.error && <ErrorBox error={growth.error} retry={growth.retry} />}
                {!growth.data && !growth.error && windows && (
                    <Skeleton rows={5} label="Loading growth" />
                )}
                {!windows && (
                    <p class="muted">There is one moment only: nothing to compare it with.</p>
                )}
                {growth.data && (
                    <GrowthTable
                        scope={scope}
                        bytes={growth.data}
                        objects={types.objects ? objects.data : undefined}
                        allocated={types.allocated ? allocated.data : undefined}
                        range={seen}
                    />
                )}
            </section>
            {windows && growth.data && (
                <section class="mem-section">
                    <h2>3. Who holds it?</h2>
                    <Holders windows={windows} type={types.held} />
                </section>
            )}
        </Loading>
    );
}

function OfService(props: { scope: Scope }) {
    const { scope } = props;
    const plain = { ...scope, type: "" };
    const q = useQuery(`types ${JSON.stringify(scopeParams(plain))}`, (signal) =>
        askTypes(plain, signal),
    );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={12} label="Loading" />;
    const types = memoryTypes(q.data);
    if (!types.held) return <HowToGet service={scope.service} />;
    return <Workflow scope={{ ...scope, type: types.held }} types={types} />;
}

export default function MemoryPage() {
    const s = state.value;
    // Files are one moment: their place is Explore.
    const scope = { ...s.scope, file: "", id: "", trace: "", span: "" };
    return (
        <div class="mem">
            <header class="mem-bar">
                <span class="muted">memory of</span>
                <ScopeSentence
                    scope={scope}
                    withoutType
                    onChange={(p) => patchState({ scope: { ...scope, ...p } })}
                />
                <span class="mem-space" />
                <button
                    type="button"
                    class="button icon"
                    title="Ask again"
                    aria-label="Ask again"
                    onClick={refresh}
                >
                    <Icon name="refresh" />
                </button>
            </header>
            {s.symptom && <Lazy load={loadTrail} />}
            <div class="page mem-page">
                <h1>Memory</h1>
                {scope.service ? <OfService scope={scope} /> : <PickService scope={scope} />}
            </div>
            <DetailsBar />
            <FrameMenu />
        </div>
    );
}
