// The strip above the views: the chosen type over time, and what can be done with a part of it.

import { useEffect, useState } from "preact/hooks";
import { serverNow } from "../../api/client";
import { askDeployments, askTimeline } from "../../api/questions";
import { navigate, pageState, patchScope, patchView, state, themeChanges, ticks } from "../../app";
import { clockText, parseTime, timeParam } from "../../core/time";
import { timelineColumns, type TimelineColumns } from "../../core/timeline";
import { type Scope, selectorText } from "../../core/url";
import { Icon } from "../../parts/icons";
import { lazy } from "../../parts/lazy";
import { Popover } from "../../parts/popover";
import { frozen } from "../../parts/sentence_bar";
import { lineColour } from "../../parts/line_colour";
import { type Brush, type Marker, TimelineChart } from "../../parts/timeline_chart";
import { useQuery } from "../../parts/use_query";
import "./timeline_strip.css";

const SplitPicker = lazy(async () => (await import("../../parts/scope_pickers")).SplitPicker);
const BrushBar = lazy(async () => (await import("./brush_bar")).BrushBar);

const GROUPS = 500; // beyond the seven that are drawn, only their sum is
const FOLD_KEY = "vesta.timeline";

function storedFold(): boolean {
    try {
        const kept = localStorage.getItem(FOLD_KEY);
        if (kept) return kept === "folded";
    } catch {
        // As wide as the window says.
    }
    return typeof innerWidth === "number" && innerWidth <= 720;
}

function setRange(from: number, until: number) {
    patchScope({ from: timeParam(from), until: timeParam(until) });
}

/** Where the range lies now, by the server's clock. */
function rangeOf(s: Scope): [number, number] {
    const now = serverNow();
    return [parseTime(s.from, now), parseTime(s.until, now)];
}

function zoomBy(factor: number) {
    const [a, b] = rangeOf(state.value.scope);
    const half = ((b - a) / 2) * factor;
    const middle = (a + b) / 2;
    const until = Math.min(middle + half, Math.max(b, serverNow()));
    setRange(until - 2 * half, until);
}

function shiftBy(share: number) {
    const [a, b] = rangeOf(state.value.scope);
    setRange(a + share * (b - a), b + share * (b - a));
}

function useMarkers(s: Scope, columns: TimelineColumns | undefined): Marker[] {
    const key = s.service && !s.file ? `deployments ${s.service} ${s.from} ${s.until}` : null;
    const q = useQuery(
        key,
        (signal) => askDeployments(s.service, s.from, s.until, signal),
        ticks.value,
    );
    if (!q.data || !columns || key === null) return [];
    const times = q.data.map((d) => Number(d.time_ns) / 1e6).sort((a, b) => a - b);
    return q.data.map((d) => {
        const at = Number(d.time_ns) / 1e6;
        const last = times.filter((t) => t < at - 1000).pop() ?? columns.from * 1e3;
        const next = times.find((t) => t > at + 1000) ?? columns.until * 1e3;
        // The same length on both sides, without what another deployment changed.
        const span = Math.max(60e3, Math.min(3600e3, at - last, next - at));
        const label = d.version ?? d.commit?.slice(0, 8) ?? "deploy";
        return {
            at,
            label,
            detail: `${d.service} ${label} deployed ${clockText(at, serverNow())}: compare before and after`,
            onPick: () => {
                const scope = { ...s, from: timeParam(at), until: timeParam(at + span) };
                const base = { ...s, from: timeParam(at - span), until: timeParam(at) };
                navigate(pageState("compare", { scope, base }));
            },
        };
    });
}

function Tool(props: { name: string; icon: string; onClick: () => void; isOn?: boolean }) {
    return (
        <button
            type="button"
            class="strip-tool"
            title={props.name}
            aria-label={props.name}
            aria-expanded={props.isOn}
            onClick={props.onClick}
        >
            <Icon name={props.icon} size={16} />
        </button>
    );
}

function SplitBy() {
    const { scope, view } = state.value;
    const pick = (close: () => void) => (by: string) => {
        close();
        patchView({ by });
    };
    return (
        <Popover
            class="button small quiet"
            title={view.by ? `Split by ${view.by}` : "Split by a label"}
            label={view.by ? `by ${view.by}` : "Split"}
            align="right"
        >
            {(close) => <SplitPicker scope={scope} by={view.by} pick={pick(close)} />}
        </Popover>
    );
}

function Legend(props: { columns: TimelineColumns }) {
    const lines = props.columns.lines;
    if (lines.length < 2 && !lines[0]?.label) return null;
    return (
        <ul key={themeChanges.value} class="strip-legend" aria-label="Lines">
            {lines.map((l) => (
                <li key={l.label} title={l.label}>
                    <span
                        class="strip-key"
                        style={{ background: lineColour(l.slot, lines.length) }}
                    />
                    {l.label}
                </li>
            ))}
        </ul>
    );
}

function Tools(props: { isFolded: boolean; fold: () => void }) {
    return (
        <div class="strip-tools" role="toolbar" aria-label="Timeline">
            {!props.isFolded && <SplitBy />}
            <Tool name="Earlier" icon="left" onClick={() => shiftBy(-0.5)} />
            <Tool name="Later" icon="right" onClick={() => shiftBy(0.5)} />
            <Tool name="Zoom in" icon="plus" onClick={() => zoomBy(0.5)} />
            <Tool name="Zoom out" icon="minus" onClick={() => zoomBy(2)} />
            <Tool
                name={props.isFolded ? "Show the timeline" : "Fold the timeline"}
                icon={props.isFolded ? "down" : "up"}
                isOn={!props.isFolded}
                onClick={props.fold}
            />
        </div>
    );
}

export function TimelineStrip() {
    const { scope, view } = state.value;
    const [isFolded, setFolded] = useState(storedFold);
    const [brush, setBrush] = useState<Brush | null>(null);
    // A part of what was shown before is no part of this.
    useEffect(() => setBrush(null), [scope.file, scope.service, scope.from, scope.until]);
    const key = scope.type
        ? `timeline ${selectorText(scope)} ${scope.from} ${scope.until} ${view.by}`
        : null;
    const q = useQuery(
        key,
        async (signal) => {
            const more = view.by ? { by: view.by, limit: GROUPS } : {};
            const t = await askTimeline(scope, more, signal);
            return { columns: timelineColumns(t), unit: t.unit };
        },
        ticks.value,
    );
    const markers = useMarkers(scope, q.data?.columns);
    const fold = () => {
        setFolded(!isFolded);
        try {
            localStorage.setItem(FOLD_KEY, isFolded ? "open" : "folded");
        } catch {
            // It lives as long as the page then.
        }
    };
    const onBrush = (b: Brush) => {
        if (!b.isShift) return setBrush(b);
        const s = { ...scope, from: timeParam(b.from), until: timeParam(b.until) };
        navigate(pageState("compare", { scope: s, base: frozen(scope) }));
    };
    return (
        <section class={isFolded ? "strip is-folded" : "strip"} aria-label="Timeline">
            {q.data && !q.error ? (
                <TimelineChart
                    columns={q.data.columns}
                    unit={q.data.unit}
                    height={isFolded ? 32 : 104}
                    isBare={isFolded}
                    markers={markers}
                    brush={brush}
                    label={`${scope.type} over time`}
                    onBrush={onBrush}
                />
            ) : (
                <p class="strip-note muted">{q.error ? "Nothing over time here." : ""}</p>
            )}
            {q.data && !isFolded && <Legend columns={q.data.columns} />}
            <Tools isFolded={isFolded} fold={fold} />
            {brush && <BrushBar brush={brush} clear={() => setBrush(null)} />}
        </section>
    );
}
