// The differences as a table. The server sorts and counts all functions; a click on a head asks it
// again. Signs and words say what colours say.

import { useMemo, useState } from "preact/hooks";
import { type DiffRow, searchRegex } from "../../api/questions";
import { detail, navigate, openFrameMenu, pageState, patchView, state } from "../../app";
import {
    type Change,
    changeOf,
    type ChangeKind,
    inMode,
    KIND_SIGNS,
    KIND_WORDS,
    kindOf,
    passes,
    pointsText,
    ratioText,
    type SideFilter,
} from "../../core/diff";
import type { DiffMode } from "../../core/url";
import { amountText, changeText, countText } from "../../core/units";
import { type Column, DataTable } from "../../parts/data_table";
import { FrameName } from "../../parts/frame_name";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { setExtra, type Sides, type Totals, useDiffTable } from "./sides";

interface Row {
    name: string;
    change: Change;
    other: Change; // of the other column: cum beside flat
    isSure: boolean | undefined;
    kind: ChangeKind;
}

const FILTERS: { value: SideFilter; name: string }[] = [
    { value: "", name: "All" },
    { value: "before", name: "Only in A" },
    { value: "after", name: "Only in B" },
    { value: "sure", name: "Significant" },
];

function rowOf(r: DiffRow, isCum: boolean, mode: DiffMode, t: Totals): Row {
    const flat = changeOf(r.before_flat, r.after_flat, t.before.total, t.after.total);
    const cum = changeOf(r.before_cum, r.after_cum, t.before.total, t.after.total);
    const told = isCum ? r.cum_significant : r.flat_significant;
    const isSure = told === undefined ? undefined : told === 1;
    const change = isCum ? cum : flat;
    return {
        name: r.name,
        change,
        other: isCum ? flat : cum,
        isSure,
        kind: kindOf(change, mode, isSure),
    };
}

function columnsOf(unit: string, mode: DiffMode, max: number): Column<Row>[] {
    const amount = (v: number) => amountText(v, unit);
    const exact = (v: number) => `${countText(v)} ${unit}`;
    return [
        {
            key: "kind",
            title: "Kind",
            kind: "text",
            width: "132px",
            onlyWide: true,
            cell: (r) => (
                <span class={`cmp-kind is-${r.kind}`}>
                    <span aria-hidden="true">{KIND_SIGNS[r.kind]} </span>
                    {KIND_WORDS[r.kind]}
                </span>
            ),
        },
        {
            key: "name",
            title: "Function",
            kind: "text",
            width: "minmax(120px, 1fr)",
            sort: (r) => r.name,
            cell: (r) => <FrameName name={r.name} />,
        },
        {
            key: "before",
            title: "A",
            hint: "Before",
            kind: "number",
            width: "88px",
            onlyWide: true,
            cell: (r) => amount(r.change.before),
            exact: (r) => exact(r.change.before),
        },
        {
            key: "after",
            title: "B",
            hint: "After",
            kind: "number",
            width: "88px",
            onlyWide: true,
            cell: (r) => amount(r.change.after),
            exact: (r) => exact(r.change.after),
        },
        {
            key: "change",
            title: "Change",
            hint: "B − A",
            kind: "number",
            width: "104px",
            onlyWide: mode !== "absolute",
            sort: (r) => Math.abs(r.change.change),
            bar: mode === "absolute" ? (r) => r.change.change / max : undefined,
            cell: (r) => changeText(r.change.change, unit),
            exact: (r) => exact(r.change.change),
        },
        {
            key: "share",
            title: "Share",
            hint: "Change of the share of the whole, in points",
            kind: "number",
            width: "96px",
            onlyWide: mode !== "share",
            sort: (r) => Math.abs(r.change.shareChange),
            bar: mode === "share" ? (r) => inMode(r.change, "share") / max : undefined,
            cell: (r) => pointsText(r.change.shareChange),
        },
        {
            key: "ratio",
            title: "Ratio",
            hint: "B / A",
            kind: "number",
            width: "80px",
            onlyWide: mode !== "ratio",
            sort: (r) => r.change.ratio ?? Number.POSITIVE_INFINITY,
            cell: (r) => ratioText(r.change.ratio),
        },
    ];
}

/** Server-side orders, by column; cum is sorted here over what came. */
const ORDERS: Record<string, string> = {
    change: "change",
    share: "share",
    ratio: "ratio",
    name: "name",
};
const BY_MODE: Record<DiffMode, string> = { absolute: "change", share: "share", ratio: "ratio" };

function pattern(search: string): RegExp | null {
    if (!search) return null;
    const text = searchRegex(search);
    try {
        return text.startsWith("(?i)") ? new RegExp(text.slice(4), "i") : new RegExp(text);
    } catch {
        return null;
    }
}

function Filters(props: { filter: SideFilter; isCum: boolean; hasStatistics: boolean }) {
    return (
        <div class="cmp-table-bar">
            <div class="cmp-group" role="group" aria-label="Rows">
                {FILTERS.map((f) => (
                    <button
                        key={f.value}
                        type="button"
                        class="button small"
                        aria-pressed={props.filter === f.value}
                        disabled={f.value === "sure" && !props.hasStatistics}
                        title={
                            f.value === "sure" && !props.hasStatistics
                                ? "No sample counts are known: nothing can be said"
                                : undefined
                        }
                        onClick={() => setExtra("only", f.value)}
                    >
                        {f.name}
                    </button>
                ))}
            </div>
            <div class="cmp-group" role="group" aria-label="What is counted">
                <button
                    type="button"
                    class="button small"
                    aria-pressed={!props.isCum}
                    title="What functions spend themselves"
                    onClick={() => setExtra("cum", "")}
                >
                    Self
                </button>
                <button
                    type="button"
                    class="button small"
                    aria-pressed={props.isCum}
                    title="With everything they call"
                    onClick={() => setExtra("cum", "1")}
                >
                    Total
                </button>
            </div>
        </div>
    );
}

function openFunction(r: Row) {
    navigate(pageState("function", { view: { ...state.value.view, selected: r.name } }));
}

export function DiffTableView(props: { sides: Sides; mode: DiffMode }) {
    const { view, extra } = state.value;
    const [limit, setLimit] = useState(500);
    const isCum = extra.cum === "1";
    const filter = (FILTERS.find((f) => f.value === extra.only)?.value ?? "") as SideFilter;
    const order = view.order.replace(/^-/, "") in ORDERS ? view.order : BY_MODE[props.mode];
    const q = useDiffTable(props.sides, view, {
        limit: view.search || filter === "sure" || isCum ? 10000 : limit,
        order: ORDERS[order.replace(/^-/, "")],
        only: filter === "before" || filter === "after" ? filter : undefined,
    });
    const rows = useMemo(() => {
        const t = q.data;
        if (!t) return [];
        const find = pattern(view.search);
        const isThere = (r: Row) => r.change.before !== 0 || r.change.after !== 0;
        const all = t.rows
            .map((r) => rowOf(r, isCum, props.mode, t))
            .filter(isThere)
            .filter((r) => passes(r.change, r.isSure, filter) && (!find || find.test(r.name)));
        const column = order.replace(/^-/, "");
        if (isCum && column !== "name") {
            const by = column as "change" | "share" | "ratio";
            const mode = by === "change" ? "absolute" : by;
            const size = (r: Row) => Math.abs(inMode(r.change, mode) - (mode === "ratio" ? 1 : 0));
            all.sort(
                (a, b) =>
                    size(b) - size(a) || Math.abs(b.change.change) - Math.abs(a.change.change),
            );
        }
        return order.startsWith("-") ? all.reverse() : all;
    }, [q.data, isCum, filter, view.search, props.mode, order]);
    const max =
        Math.max(
            ...rows.map((r) =>
                props.mode === "share"
                    ? Math.abs(inMode(r.change, "share"))
                    : Math.abs(r.change.change),
            ),
            0,
        ) || 1;
    const unit = q.data?.unit ?? "";
    const columns = useMemo(() => columnsOf(unit, props.mode, max), [unit, props.mode, max]);
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={12} label="Loading the table" />;
    // The history of a function is that of stored profiles.
    const isFile = props.sides.before.file !== "" || props.sides.after.file !== "";
    const isWhole = q.data.rows.length >= q.data.all_rows;
    return (
        <Loading isOld={q.isOld}>
            <Filters filter={filter} isCum={isCum} hasStatistics={q.data.has_statistics === true} />
            <DataTable
                label="Differences by function"
                columns={columns}
                rows={rows}
                order={order}
                onOrder={(o) => patchView({ order: o })}
                rowKey={(r) => r.name}
                selected={view.selected}
                onSelect={(r) => patchView({ selected: r.name }, { replace: true })}
                onOpen={isFile ? undefined : openFunction}
                onMenu={(r, x, y) =>
                    openFrameMenu(x, y, { name: r.name, file: "", line: 0, path: [] })
                }
                onHover={(r) => {
                    detail.value = r && {
                        name: r.name,
                        total: r.change.after,
                        before: r.change.before,
                        of: q.data!.after.total,
                        unit,
                        note: KIND_WORDS[r.kind],
                    };
                }}
                end={
                    isWhole || view.search || filter === "sure" ? (
                        `${countText(rows.length)} of ${countText(q.data.all_rows)} functions${isCum || view.search || filter ? "" : "; the others spend nothing by themselves"}`
                    ) : (
                        <button
                            type="button"
                            class="button small"
                            onClick={() => setLimit((n) => n * 4)}
                        >
                            {countText(q.data.rows.length)} of {countText(q.data.all_rows)}: show
                            more
                        </button>
                    )
                }
            />
        </Loading>
    );
}
