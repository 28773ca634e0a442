// Compare: any two selections, as a flame graph, side by side, as a table, and as what explains the
// change. All figures are the server's.

import { useEffect } from "preact/hooks";
import { askTypes, type DiffTable, scopeParams } from "../../api/questions";
import { detail, patchState, patchView, state } from "../../app";
import { isGauge } from "../../core/diff";
import { DetailsBar, status } from "../../parts/details_bar";
import { FrameMenu } from "../../parts/frame_menu";
import { isBusyElsewhere, useKeySection } from "../../parts/key_map";
import { Lazy } from "../../parts/lazy";
import { Empty, ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { DiffFlame, SideBySide } from "./diff_flame";
import { DiffTableView } from "./diff_table";
import { Explain } from "./explain";
import { Figures, warnings } from "./figures";
import { answeredType, sameType, setExtra, type Sides, useDiffTable, useMode } from "./sides";
import { SidesBar, swapSides } from "./sides_bar";
import { Starters } from "./starters";
import { Timelines } from "./timelines";
import type { Scope } from "../../core/url";
import { COMPARE_VIEWS, currentView, Legend, ViewBar } from "./view_bar";
import "./compare.css";

const loadTrail = () => import("../../parts/trail");

const KEYS = {
    title: "Compare",
    keys: [
        ["1 – 4", "flame, side by side, table, what explains it"],
        ["w", "swap the sides"],
        ["i", "invert"],
        ["/", "search"],
    ] as [string, string][],
};

function useCompareKeys() {
    useKeySection(KEYS);
    useEffect(() => {
        const onKey = (e: KeyboardEvent) => {
            if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey) return;
            if (isBusyElsewhere(e)) return;
            const s = state.value;
            const view = COMPARE_VIEWS.find((v) => v.key === e.key);
            if (view) setExtra("view", view.view === "flame" ? "" : view.view);
            else if (e.key === "w" && s.base) swapSides();
            else if (e.key === "i") patchView({ invert: !s.view.invert, root: [] });
            else if (e.key === "/") document.getElementById("cmp-search")?.focus();
            else return;
            e.preventDefault();
        };
        document.addEventListener("keydown", onKey);
        return () => document.removeEventListener("keydown", onKey);
    }, []);
}

/** Types of a side that names none: CPU where there is one, as elsewhere. */
function useType(sides: Sides): string | null | undefined {
    const named = sameType(sides.before, sides.after);
    const s = sides.after.file ? sides.before : sides.after;
    const key = named !== "" || s.file ? null : `types ${JSON.stringify(scopeParams(s))}`;
    const q = useQuery(key, (signal) => askTypes(s, signal));
    if (named !== "") return named;
    if (!key || q.error) return "";
    const names = q.data?.map((t) => t.type);
    return (
        names && (["cpu", "wall", "inuse_space"].find((t) => names.includes(t)) ?? names[0] ?? "")
    );
}

function TypesDiffer(props: Sides) {
    const { before, after } = props;
    return (
        <Empty title="These have no difference">
            <p>
                Side A is <b>{before.type}</b>, side B is <b>{after.type}</b>: their units are not
                the same thing. Compare one type on both sides.
            </p>
            <div class="start-row">
                {[after.type, before.type].map((type) => (
                    <button
                        key={type}
                        type="button"
                        class="button"
                        onClick={() =>
                            patchState({ base: { ...before, type }, scope: { ...after, type } })
                        }
                    >
                        {type} on both
                    </button>
                ))}
            </div>
        </Empty>
    );
}

function NoSides() {
    return (
        <div class="cmp-start">
            <h1>Compare</h1>
            <p class="lead">
                What changed, and is it real? Say what B is in the sentence above, then what to
                compare it with.
            </p>
            <Starters />
        </div>
    );
}

/** Pictures say what they draw; tables what stands behind them. */
function useTableStatus(t: DiffTable | undefined) {
    useEffect(() => {
        if (!t) return;
        status.value = {
            total: t.after.total,
            unit: t.unit,
            samples: t.after.samples,
            profiles: t.after.profiles,
            note: "side B",
        };
        return () => {
            status.value = null;
            detail.value = null;
        };
    }, [t]);
}

function Answer(props: { sides: Sides; type: string; isMixed: boolean }) {
    const { sides } = props;
    const mode = useMode(props.type);
    const view = currentView();
    const q = useDiffTable(sides, state.value.view, { limit: 500 });
    useEffect(() => {
        answeredType.value = q.data?.type ?? "";
    }, [q.data]);
    useTableStatus(view === "table" || view === "why" ? q.data : undefined);
    if (q.error)
        return (
            <ErrorBox error={q.error} retry={q.retry}>
                {q.error.status === 404 && (
                    <p>Nothing is stored for either side. Choose another time, or other labels.</p>
                )}
                <p>
                    <button type="button" class="button" onClick={() => patchState({ base: null })}>
                        Choose what to compare
                    </button>
                </p>
            </ErrorBox>
        );
    if (!q.data) return <Skeleton rows={14} label="Loading the comparison" />;
    if (props.isMixed && q.data.before.unit !== q.data.after.unit)
        return <TypesDiffer {...sides} />;
    const isFile = sides.before.file !== "" || sides.after.file !== "";
    const notes = warnings(q.data, isGauge(props.type || q.data.type), isFile);
    return (
        <Loading isOld={q.isOld}>
            <Figures totals={q.data} />
            {notes.length > 0 && (
                <ul class="cmp-warnings">
                    {notes.map((n) => (
                        <li key={n}>{n}</li>
                    ))}
                </ul>
            )}
            <ViewBar current={view} mode={mode} sides={sides} />
            <div class="cmp-view" id="cmp-view" role="tabpanel" aria-labelledby={`cmp-tab-${view}`}>
                {view === "flame" && <DiffFlame sides={sides} mode={mode} />}
                {view === "side" && <SideBySide sides={sides} />}
                {view === "table" && <DiffTableView sides={sides} mode={mode} />}
                {view === "why" && <Explain table={q.data} mode={mode} />}
            </div>
            {(view === "flame" || view === "why") && (
                <Legend hasStatistics={q.data.has_statistics === true} mode={mode} />
            )}
        </Loading>
    );
}

function TwoSides(props: Sides) {
    const type = useType(props);
    if (type === undefined) return <Skeleton rows={14} label="Loading the comparison" />;
    // Two types may have one unit: wall and CPU time. The server knows.
    const isMixed = type === null;
    const side = (s: Scope) => (type === null ? s : { ...s, type });
    const sides = { before: side(props.before), after: side(props.after) };
    return (
        <>
            <Timelines before={sides.before} after={sides.after} />
            <Answer sides={sides} type={type ?? props.after.type} isMixed={isMixed} />
        </>
    );
}

export default function ComparePage() {
    const { base, scope, symptom } = state.value;
    useCompareKeys();
    return (
        <div class="cmp">
            {base && <h1 class="sr-only">Compare</h1>}
            <SidesBar />
            {symptom && <Lazy load={loadTrail} />}
            {base ? <TwoSides before={base} after={scope} /> : <NoSides />}
            {base && <DetailsBar />}
            <FrameMenu />
        </div>
    );
}
