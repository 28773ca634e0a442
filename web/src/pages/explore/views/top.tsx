// The top table, as pprof's: what each function spends itself (flat) and with what it calls (cum).
// Rows are the server's, of the whole profile; a search only leaves rows out on screen.

import { useMemo, useRef } from "preact/hooks";
import { askTop, type Top, type TopRow } from "../../../api/questions";
import { detail, patchView, state, ticks } from "../../../app";
import { isMatch, searchPattern } from "../../../core/text_match";
import { countText, shareText } from "../../../core/units";
import { type Column, DataTable, sortRows } from "../../../parts/data_table";
import { Amount } from "../../../parts/figures";
import { FileName, FrameName } from "../../../parts/frame_name";
import { Loading } from "../../../parts/states";
import { useNarrow } from "../../../parts/use_narrow";
import { useQuery } from "../../../parts/use_query";
import {
    faceOf,
    NothingHere,
    openCallers,
    openRowMenu,
    questionKey,
    RelativeToggle,
    selectFunction,
    useWhole,
} from "./common";

const MOST_ROWS = 10_000;

interface Row extends TopRow {
    sum: number; // flat of all rows down to this one
}

const exactText = (value: number, unit: string) => `${countText(value)} ${unit}`;

function topColumns(
    unit: string,
    whole: number,
    pattern: RegExp | null,
    isNarrow: boolean,
): Column<Row>[] {
    const amount = (key: "flat" | "cum", title: string, hint: string): Column<Row> => ({
        key,
        title,
        hint,
        kind: "number",
        width: isNarrow ? "72px" : "88px",
        onlyWide: key === "cum",
        sort: (r) => r[key],
        cell: (r) => <Amount value={r[key]} unit={unit} />,
        exact: (r) => exactText(r[key], unit),
    });
    const share = (key: "flat" | "cum" | "sum", title: string, hint: string): Column<Row> => ({
        key: `${key}_share`,
        title,
        hint,
        kind: "number",
        width: isNarrow || key === "sum" ? "72px" : "88px",
        onlyWide: key === "sum",
        sort: key === "sum" ? undefined : (r) => r[key],
        cell: (r) => shareText(r[key], whole),
        bar: key === "sum" ? undefined : (r) => (whole === 0 ? 0 : r[key] / whole),
    });
    return [
        {
            key: "name",
            title: "Function",
            kind: "text",
            width: "minmax(136px, 3fr)",
            sort: (r) => r.name,
            cell: (r) => <FrameName name={r.name} pattern={pattern} />,
        },
        amount("flat", "Flat", "Spent in the function itself"),
        share("flat", "Flat %", "Share of the function itself"),
        share("sum", "Sum %", "Flat shares of all rows down to this one"),
        amount("cum", "Cum", "Spent in the function and in all that it calls"),
        share("cum", "Cum %", "Share of the function with all that it calls"),
        {
            key: "file",
            title: "File",
            kind: "text",
            width: "minmax(160px, 2fr)",
            onlyWide: true,
            sort: (r) => r.file,
            cell: (r) => <FileName file={r.file} line={r.line} pattern={pattern} />,
        },
    ];
}

function sumUp(rows: readonly TopRow[]): Row[] {
    let sum = 0;
    return rows.map((r) => {
        sum += r.flat;
        return { ...r, sum };
    });
}

/** The server sorts. When it gave every row, other orders are made of them here, at once. */
function useTop(order: string) {
    const { scope, view } = state.value;
    const base = questionKey("top", scope, view);
    const whole = useRef({ base: "", order: "" });
    const column = order.replace(/^-|_share$/g, "");
    const wanted = column === "cum" || column === "name" ? column : "flat";
    const asked = whole.current.base === base ? whole.current.order : wanted;
    const q = useQuery<Top>(
        `${base} ${asked}`,
        (signal) => askTop(scope, view, { limit: MOST_ROWS, order: asked }, signal),
        ticks.value,
    );
    if (q.data && !q.isOld && q.data.rows.length >= q.data.all_rows)
        whole.current = { base, order: asked };
    return q;
}

const rowKey = (r: Row) => `${r.name}\n${r.file}\n${r.line ?? 0}`;

function onHover(r: Row | null, unit: string, whole: number) {
    detail.value = r
        ? { name: r.name, file: r.file, line: r.line, self: r.flat, total: r.cum, of: whole, unit }
        : null;
}

export default function TopView() {
    const { view } = state.value;
    const order = view.order || "flat";
    const q = useTop(order);
    const whole = useWhole(q.data?.total);
    const unit = q.data?.unit ?? "";
    const pattern = useMemo(() => searchPattern(view.search), [view.search]);
    const isNarrow = useNarrow();
    const columns = useMemo(
        () => topColumns(unit, whole, pattern, isNarrow),
        [unit, whole, pattern, isNarrow],
    );
    const sorted = useMemo(
        () => sumUp(sortRows((q.data?.rows ?? []) as Row[], columns, order)),
        [q.data, order],
    );
    const rows = useMemo(
        () =>
            pattern
                ? sorted.filter((r) => isMatch(pattern, r.name) || isMatch(pattern, r.file))
                : sorted,
        [sorted, pattern],
    );
    const selected = useMemo(
        () => rows.find((r) => r.name === view.selected),
        [rows, view.selected],
    );

    const face = faceOf(q);
    if (face || !q.data) return face;
    if (q.data.rows.length === 0)
        return (
            <div class="view">
                <NothingHere />
            </div>
        );
    const all = q.data.all_rows;
    const nHere = q.data.rows.length;
    const searched = `${countText(rows.length)} of ${nHere < all ? "the " : ""}${countText(nHere)}${nHere < all ? " heaviest" : ""}`;
    const end = pattern
        ? `${searched} rows match the search`
        : all > rows.length
          ? `${countText(rows.length)} of ${countText(all)} rows: the rest weighs less. Filter to see it.`
          : `${countText(all)} of ${countText(all)} rows`;
    return (
        <Loading isOld={q.isOld}>
            <div class="view">
                <div class="view-bar">
                    <span role="status">
                        {pattern
                            ? `${searched} functions match`
                            : `${countText(all)} ${all === 1 ? "function" : "functions"}`}
                    </span>
                    <span>
                        total <Amount value={q.data.total} unit={unit} />
                        {whole !== q.data.total && ` (${shareText(q.data.total, whole)} of all)`}
                    </span>
                    <span class="view-space" />
                    <RelativeToggle />
                </div>
                <DataTable
                    label="Functions by what they spend"
                    columns={columns}
                    rows={rows}
                    order={order}
                    onOrder={(o) => patchView({ order: o })}
                    rowKey={rowKey}
                    selected={selected && rowKey(selected)}
                    onSelect={(r) => selectFunction(r.name)}
                    onOpen={(r) => openCallers(r.name)}
                    onMenu={openRowMenu}
                    onHover={(r) => onHover(r, unit, whole)}
                    end={end}
                />
            </div>
        </Loading>
    );
}
