// The viewer's tables, computed here from the whole tree.

import { useMemo, useState } from "preact/hooks";
import { detail } from "../app";
import { matcherOf } from "../core/flame_search";
import type { FrameTree } from "../core/frame_tree";
import { callersOf, type TableRow, topOf } from "../core/tree_tables";
import { changeText, shareText } from "../core/units";
import { type Column, DataTable, sortRows } from "../parts/data_table";
import { Amount } from "../parts/figures";
import { FrameName } from "../parts/frame_name";
import { Empty } from "../parts/states";
import { menu, search, selected, showCallers } from "./state";

function figure(
    key: string,
    title: string,
    of: number,
    unit: string,
    value: (r: TableRow) => number,
): Column<TableRow> {
    return {
        key,
        title,
        kind: "number",
        width: "136px",
        sort: value,
        cell: (r) => (
            <>
                <Amount value={value(r)} unit={unit} /> <small>{shareText(value(r), of)}</small>
            </>
        ),
        bar: (r) => (of === 0 ? 0 : value(r) / of),
    };
}

function columnsOf(t: FrameTree, unit: string): Column<TableRow>[] {
    const of = t.total[0];
    const columns: Column<TableRow>[] = [
        {
            key: "name",
            title: "Function",
            kind: "text",
            width: "minmax(160px, 1fr)",
            sort: (r) => r.name,
            cell: (r) => <FrameName name={r.name} />,
        },
        figure("flat", "Self", of, unit, (r) => r.flat),
        figure("cum", "Total", of, unit, (r) => r.cum),
    ];
    if (t.before)
        columns.push({
            key: "change",
            title: "Change of self",
            kind: "number",
            width: "112px",
            sort: (r) => r.flat - r.beforeFlat,
            cell: (r) => changeText(r.flat - r.beforeFlat, unit),
        });
    return columns;
}

function tell(r: TableRow | null, t: FrameTree, unit: string) {
    detail.value = r && {
        name: r.name,
        file: r.file,
        line: r.line,
        self: r.flat,
        total: r.cum,
        of: t.total[0],
        unit,
        before: t.before ? r.beforeCum : undefined,
    };
}

export function TopTable(props: { tree: FrameTree; unit: string }) {
    const { tree, unit } = props;
    const [order, setOrder] = useState("flat");
    const all = useMemo(() => topOf(tree), [tree]);
    const columns = useMemo(() => columnsOf(tree, unit), [tree, unit]);
    const text = search.value;
    const rows = useMemo(() => {
        const matches = matcherOf(text);
        return sortRows(matches ? all.filter((r) => matches(r.name)) : all, columns, order);
    }, [all, text, order, columns]);
    if (rows.length === 0) return <Empty title="No function matches" />;
    return (
        <DataTable
            label="Functions"
            columns={columns}
            rows={rows}
            allRows={all.length}
            order={order}
            onOrder={setOrder}
            rowKey={(r) => r.name}
            selected={selected.value}
            onSelect={(r) => {
                selected.value = r.name;
            }}
            onOpen={(r) => showCallers(r.name)}
            onMenu={(r, x, y) => {
                menu.value = { x, y, name: r.name, file: r.file };
            }}
            onHover={(r) => tell(r, tree, unit)}
        />
    );
}

interface CallRow {
    name: string;
    cum: number;
}

function CallTable(props: { title: string; rows: CallRow[]; of: number; unit: string }) {
    const columns: Column<CallRow>[] = [
        {
            key: "name",
            title: props.title,
            kind: "text",
            width: "minmax(120px, 1fr)",
            cell: (r) => <FrameName name={r.name} />,
        },
        {
            key: "cum",
            title: "Total",
            kind: "number",
            width: "136px",
            cell: (r) => (
                <>
                    <Amount value={r.cum} unit={props.unit} />{" "}
                    <small>{shareText(r.cum, props.of)}</small>
                </>
            ),
            bar: (r) => (props.of === 0 ? 0 : r.cum / props.of),
        },
    ];
    return (
        <section class="viewer-calls">
            <DataTable
                label={props.title}
                columns={columns}
                rows={props.rows}
                rowKey={(r) => r.name}
                onOpen={(r) => showCallers(r.name)}
                end={props.rows.length === 0 ? "none" : undefined}
            />
        </section>
    );
}

export function Callers(props: { tree: FrameTree; unit: string }) {
    const { tree, unit } = props;
    const name = selected.value;
    const calls = useMemo(() => callersOf(tree, name), [tree, name]);
    if (!name)
        return (
            <Empty title="No function is selected">
                <p>Click a frame, or open a row of Top, to see who calls it and whom it calls.</p>
            </Empty>
        );
    return (
        <div class="viewer-sandwich">
            <p class="viewer-function">
                <strong class="mono">
                    <bdi>{name.slice(0, 1000)}</bdi>
                </strong>{" "}
                <span>
                    <small>total</small> <Amount value={calls.cum} unit={unit} /> ·{" "}
                    {shareText(calls.cum, tree.total[0])}
                </span>{" "}
                <span>
                    <small>self</small> <Amount value={calls.flat} unit={unit} /> ·{" "}
                    {shareText(calls.flat, tree.total[0])}
                </span>
            </p>
            <div class="viewer-pair">
                <CallTable title="Callers" rows={calls.callers} of={calls.cum} unit={unit} />
                <CallTable title="Callees" rows={calls.callees} of={calls.cum} unit={unit} />
            </div>
        </div>
    );
}
