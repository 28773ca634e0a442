// Breakdown by a label of series: what each of its values spends, over time, and the ways to go on
// with one: only it, all but it, it against the rest. Attributes of samples: sample_values.tsx.

import { useMemo } from "preact/hooks";
import { askLabels, askTimeline, isNarrow, type Timeline } from "../../../api/questions";
import { href, pageState, patchScope, state, ticks } from "../../../app";
import type { Matcher, Scope, State } from "../../../core/url";
import type { Column } from "../../../parts/data_table";
import { FrameName } from "../../../parts/frame_name";
import { Sparkline } from "../../../parts/sparkline";
import { ErrorBox, Loading, Skeleton } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { questionKey, WideNote } from "./common";
import { SampleValues } from "./sample_values";
import { SplitChoice, useTags } from "./split_choice";
import { amountColumns, usePattern, ValuesTable } from "./values_table";
import "./labels.css";

const MOST_VALUES = 500;
const POINTS = 48;

interface Row {
    value: string;
    total: number;
    points: number[]; // over the range, oldest first
}

/** Rows of a timeline that is grouped by one label; its points gathered into a fixed number. */
export function labelRows(t: Timeline, label: string): Row[] {
    const from = Number(t.from_ns);
    const span = Math.max(1, Number(t.until_ns) - from);
    const rows: Row[] = t.groups.map((g) => ({
        value: g.labels[label] ?? "",
        total: g.total,
        points: new Array<number>(POINTS).fill(0),
    }));
    t.points.group.forEach((g, i) => {
        const part = (Number(t.points.start_ns[i]) - from) / span;
        const at = Math.max(0, Math.min(POINTS - 1, Math.floor(part * POINTS)));
        rows[g].points[at] += t.points.value[i];
    });
    return rows;
}

/** The scope with one more condition; an older one about the same label and value goes. */
function withMatcher(s: Scope, m: Matcher): Scope {
    if (m.name === "service.name" && m.op === "=") return { ...s, service: m.value };
    const kept = s.labels.filter((x) => !(x.name === m.name && x.value === m.value));
    return { ...s, labels: [...kept, m] };
}

/** Compare: the rest before, this value after. */
function againstRest(label: string, value: string): State {
    const scope: Scope = { ...state.value.scope, id: "", trace: "", span: "" };
    const rest: Scope =
        label === "service.name"
            ? { ...scope, service: "", labels: [...scope.labels, { name: label, op: "!=", value }] }
            : withMatcher(scope, { name: label, op: "!=", value });
    const only = withMatcher(scope, { name: label, op: "=", value });
    return pageState("compare", { base: rest, scope: only });
}

function Actions(props: { label: string; value: string; isAlone: boolean }) {
    const { scope } = state.value;
    const { label, value } = props;
    const name = value.slice(0, 80) || "(none)";
    const act = (op: "=" | "!=") => (e: Event) => {
        e.stopPropagation();
        patchScope(withMatcher(scope, { name: label, op, value }));
    };
    return (
        <span class="labels-actions">
            <button
                type="button"
                class="button quiet small"
                aria-label={`Only ${name}`}
                onClick={act("=")}
            >
                Only
            </button>
            <button
                type="button"
                class="button quiet small"
                aria-label={`Without ${name}`}
                disabled={props.isAlone}
                onClick={act("!=")}
            >
                Without
            </button>
            {!props.isAlone && (
                <a
                    class="button quiet small"
                    href={href(againstRest(label, value))}
                    title={`${name} against all other values`}
                    onClick={(e) => e.stopPropagation()}
                >
                    Compare<span class="labels-rest"> with the rest</span>
                </a>
            )}
        </span>
    );
}

function labelColumns(
    label: string,
    unit: string,
    whole: number,
    n: number,
    pattern: RegExp | null,
) {
    const columns: Column<Row>[] = [
        {
            key: "name",
            title: label,
            kind: "text",
            width: "minmax(104px, 2fr)",
            sort: (r) => r.value,
            cell: (r) =>
                r.value === "" ? (
                    <span class="muted">(not set)</span>
                ) : (
                    <FrameName name={r.value} pattern={pattern} />
                ),
        },
        ...amountColumns<Row>(unit, whole, { isTotalWide: true, shareWidth: "80px" }),
        {
            key: "time",
            title: "Over time",
            kind: "text",
            width: "minmax(160px, 1fr)",
            onlyWide: true,
            cell: (r) => <Sparkline values={r.points} width={144} height={16} />,
        },
        {
            key: "actions",
            title: "Go on with",
            kind: "text",
            width: "minmax(196px, 1fr)",
            cell: (r) => <Actions label={label} value={r.value} isAlone={n < 2} />,
        },
    ];
    return columns;
}

function Breakdown(props: { label: string; scope: Scope }) {
    const { scope, label } = props;
    const { view } = state.value;
    const q = useQuery<Timeline>(
        questionKey("labels", scope, { ...view, filters: [] }, label),
        (signal) => askTimeline(scope, { by: label, limit: MOST_VALUES }, signal),
        ticks.value,
    );
    const pattern = usePattern();
    const rows = useMemo(() => (q.data ? labelRows(q.data, label) : []), [q.data, label]);
    const whole = rows.reduce((sum, r) => sum + r.total, 0);
    const unit = q.data?.unit ?? "";
    const columns = useMemo(
        () => labelColumns(label, unit, whole, rows.length, pattern),
        [label, unit, whole, rows.length, pattern],
    );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={8} />;
    return (
        <Loading isOld={q.isOld}>
            <ValuesTable
                name={label}
                columns={columns}
                rows={rows}
                allRows={q.data.all_groups}
                pattern={pattern}
                whole={whole}
                unit={unit}
                nameOf={(r) => r.value}
                rowKey={(r) => r.value}
                onOpen={(r) =>
                    patchScope(withMatcher(scope, { name: label, op: "=", value: r.value }))
                }
            />
        </Loading>
    );
}

/** Labels that tell most come first; the service's own name splits only what is not one service. */
const LIKELY = ["service.version", "version", "pod", "k8s.pod.name", "host.name", "service.name"];

function firstLabel(labels: readonly string[], service: string): string {
    const useful = labels.filter((l) => !(service && l === "service.name"));
    return LIKELY.find((l) => useful.includes(l)) ?? useful[0] ?? "service.name";
}

/** The labels of series, and what of them is shown. */
function useLabels() {
    const { scope, view } = state.value;
    const isAsked = !scope.file;
    return useQuery<string[]>(
        isAsked ? questionKey("label names", scope, { ...view, filters: [] }) : null,
        (signal) => askLabels(scope, signal),
    );
}

function BySamples(props: { labels: readonly string[] }) {
    const asked = useTags(true);
    const tag = state.value.view.tag || (asked.data?.tags[0]?.name ?? "");
    return (
        <div class="view">
            <div class="view-bar">
                <SplitChoice labels={props.labels} label="" tag={tag} />
                <span>
                    Attributes of samples, read from single profiles: short ranges are quick.
                </span>
            </div>
            <SampleValues tag={tag} asked={asked} />
        </div>
    );
}

export default function LabelsView() {
    const { scope, view } = state.value;
    const labels = useLabels();
    // A file is of no series.
    if (scope.file || view.tag) return <BySamples labels={labels.data ?? []} />;
    if (labels.error) return <ErrorBox error={labels.error} retry={labels.retry} />;
    if (!labels.data) return <Skeleton rows={8} />;
    const label = view.by || firstLabel(labels.data, scope.service);
    const all = labels.data.includes(label) ? labels.data : [label, ...labels.data];
    return (
        <div class="view">
            <div class="view-bar">
                <SplitChoice labels={all} label={label} tag="" />
                {isNarrow(scope) && <WideNote />}
                {view.filters.length > 0 && (
                    <span>
                        Sums over time know no functions and no attributes of samples: filters do
                        not count here.
                    </span>
                )}
            </div>
            <Breakdown label={label} scope={scope} />
        </div>
    );
}
