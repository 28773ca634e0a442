// The heat map: how much was spent when, down to 20 ms. A cell, or a range of them, becomes the
// range that all views look at.

import { useMemo, useState } from "preact/hooks";
import { serverNow } from "../../../api/client";
import { askHeat, type HeatMap, isNarrow } from "../../../api/questions";
import { detail, patchScope, patchState, patchView, say, state, ticks } from "../../../app";
import {
    cellTimes,
    HEAT_ROWS,
    heatScale,
    heatScales,
    hottestCells,
} from "../../../core/heat_cells";
import { clockText, parseTime, spanText, timeParam } from "../../../core/time";
import { amountText, countText, shareText } from "../../../core/units";
import { Empty, ErrorBox, Loading, Skeleton } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { questionKey, WideNote } from "./common";
import { gridOf, HeatPicture } from "./heat_picture";
import "./heat.css";

const NAMES = { coarse: "5 s", middle: "100 ms", fine: "20 ms" } as Record<string, string>;

/** "14:03:05.120 – 14:03:05.140" */
function timesText([from, until]: [number, number]): string {
    const now = serverNow();
    const one = (ms: number) => {
        const part = Math.round(ms) % 1000;
        return clockText(ms, now, true) + (part ? `.${String(part).padStart(3, "0")}` : "");
    };
    const end = one(until);
    return `${one(from)} – ${end.slice(end.indexOf(" ") + 1)}`;
}

function useValues(heat: HeatMap | undefined) {
    return useMemo(() => {
        const values = new Map<number, number>();
        let sum = 0;
        heat?.cells.value.forEach((v, i) => {
            values.set(heat.cells.column[i] * heat.n_rows + heat.cells.row[i], v);
            sum += v;
        });
        return { values, sum };
    }, [heat]);
}

function Hottest(props: { heat: HeatMap; sum: number; choose: (a: number, b: number) => void }) {
    const { heat } = props;
    const grid = gridOf(heat);
    const rows = hottestCells(heat.cells, heat.n_rows, 10);
    return (
        <details class="heat-hottest">
            <summary>The {rows.length} hottest cells</summary>
            <p>
                Profiles that do not say when each sample was taken are one cell: the middle of
                their time.
            </p>
            <table class="table">
                <thead>
                    <tr>
                        <th>When</th>
                        <th class="number">Spent</th>
                        <th class="number">Share</th>
                    </tr>
                </thead>
                <tbody>
                    {rows.map((r) => (
                        <tr key={r.cell}>
                            <td>
                                <button
                                    type="button"
                                    class="button quiet small"
                                    onClick={() => props.choose(r.cell, r.cell)}
                                >
                                    {timesText(cellTimes(grid, r.cell, r.cell))}
                                </button>
                            </td>
                            <td class="number">{amountText(r.value, heat.unit)}</td>
                            <td class="number">{shareText(r.value, props.sum)}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </details>
    );
}

function Scales(props: { rangeMs: number; current: string }) {
    return (
        <fieldset class="heat-scales" aria-label="Length of a cell">
            {heatScales(props.rangeMs).map((s) => (
                <button
                    key={s.name}
                    type="button"
                    class="button small"
                    aria-pressed={props.current === s.name}
                    disabled={!s.fits}
                    title={
                        s.fits
                            ? `Cells of ${NAMES[s.name]}`
                            : `Needs a range of at most ${spanText(s.longestMs)}`
                    }
                    onClick={() => patchState({ extra: { ...state.value.extra, heat: s.name } })}
                >
                    {NAMES[s.name]}
                </button>
            ))}
        </fieldset>
    );
}

function Legend(props: { max: number; unit: string; cell: string }) {
    return (
        <span class="heat-legend">
            little <span class="heat-ramp" aria-hidden="true" /> {amountText(props.max, props.unit)}{" "}
            in {props.cell}
        </span>
    );
}

function HeatBody(props: { heat: HeatMap; scale: string; rangeMs: number }) {
    const { heat } = props;
    const { scope } = state.value;
    const isFile = scope.file !== "";
    const grid = gridOf(heat);
    const { values, sum } = useValues(heat);
    const [said, setSaid] = useState("");
    const cell = spanText(grid.columnMs / grid.rows);
    const choose = (a: number, b: number) => {
        if (isFile) {
            say("A file is looked at as a whole: store it to look at a part of its time");
            return;
        }
        const [from, until] = cellTimes(grid, a, b);
        detail.value = null;
        patchScope({ from: timeParam(from), until: timeParam(until) });
    };
    const onHover = (at: number) => {
        if (at < 0) {
            detail.value = null;
            return;
        }
        const name = timesText(cellTimes(grid, at, at));
        const total = values.get(at) ?? 0;
        detail.value = { name, total, of: sum, unit: heat.unit };
        setSaid(`${name}: ${amountText(total, heat.unit)}`);
    };
    return (
        <div class="view">
            <div class="view-bar">
                <span>
                    Each column is {spanText(grid.columnMs)}, read downwards: a row in it is {cell}.
                    {!isFile && " Click a cell or drag over several to look at that time only."}
                </span>
                {isNarrow(scope) && <WideNote />}
                <span class="view-space" />
                <Legend max={heat.max} unit={heat.unit} cell={cell} />
                {!isFile && <Scales rangeMs={props.rangeMs} current={props.scale} />}
                <button
                    type="button"
                    class="button small"
                    onClick={() => patchView({ view: "flame" })}
                >
                    Flame graph
                </button>
            </div>
            <HeatPicture
                heat={heat}
                label={`Heat map, ${countText(heat.cells.value.length)} cells of ${cell} with data. Arrows move, with Shift they choose a range, Enter looks at it.`}
                onHover={onHover}
                onChoose={choose}
            />
            <div class="sr-only" role="status">
                {said}
            </div>
            {state.value.view.search !== "" && (
                <p class="heat-note">
                    A search marks nothing here: cells hold sums, not functions. To see when a
                    function ran, turn the search into a filter or open the function's history.
                </p>
            )}
            <Hottest heat={heat} sum={sum} choose={choose} />
        </div>
    );
}

export default function HeatView() {
    const { scope, view, extra } = state.value;
    const now = serverNow();
    const rangeMs = parseTime(scope.until, now) - parseTime(scope.from, now);
    const scale = heatScale(rangeMs, extra.heat ?? "");
    // A file has its own range, which the server cuts into columns.
    const step = scope.file ? undefined : `${scale.cellMs * HEAT_ROWS}ms`;
    const q = useQuery<HeatMap>(
        questionKey("heat", scope, { ...view, filters: [] }, step),
        (signal) => askHeat(scope, { step, rows: HEAT_ROWS }, signal),
        ticks.value,
    );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={16} />;
    return (
        <Loading isOld={q.isOld}>
            {q.data.cells.value.length === 0 ? (
                <Empty title="Nothing in this range">
                    <p>No sample of this type was taken in it. Choose a wider range.</p>
                </Empty>
            ) : (
                <HeatBody heat={q.data} scale={scale.name} rangeMs={rangeMs} />
            )}
        </Loading>
    );
}
