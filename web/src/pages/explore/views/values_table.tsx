// Values of a label or an attribute as a table: what both tables of the Labels view share.

import { useMemo } from "preact/hooks";
import { detail, patchView, state } from "../../../app";
import { isMatch, searchPattern } from "../../../core/text_match";
import { countText, shareText } from "../../../core/units";
import { type Column, DataTable, sortRows } from "../../../parts/data_table";
import { Amount } from "../../../parts/figures";

interface Valued {
    total: number;
}

/** What is spent, and the share of the whole with its bar. */
export function amountColumns<R extends Valued>(
    unit: string,
    whole: number,
    how: { isTotalWide?: boolean; shareWidth?: string } = {},
): Column<R>[] {
    return [
        {
            key: "total",
            title: "Total",
            kind: "number",
            width: "72px",
            sort: (r) => r.total,
            cell: (r) => <Amount value={r.total} unit={unit} />,
            exact: (r) => `${countText(r.total)} ${unit}`,
            onlyWide: how.isTotalWide,
        },
        {
            key: "share",
            title: "Share",
            kind: "number",
            width: how.shareWidth ?? "minmax(72px, 1fr)",
            sort: (r) => r.total,
            cell: (r) => shareText(r.total, whole),
            bar: (r) => (whole === 0 ? 0 : r.total / whole),
        },
    ];
}

/** What is searched for: names are marked with it, and rows without it left out. */
export function usePattern(): RegExp | null {
    const { search } = state.value.view;
    return useMemo(() => searchPattern(search), [search]);
}

export function ValuesTable<R extends Valued>(props: {
    name: string; // the label's
    columns: readonly Column<R>[];
    rows: readonly R[];
    allRows?: number;
    pattern: RegExp | null;
    whole: number;
    unit: string;
    nameOf: (r: R) => string;
    rowKey: (r: R) => string;
    onOpen: (r: R) => void;
}) {
    const { columns, rows, pattern, nameOf } = props;
    const { view } = state.value;
    const isKnown = columns.some((c) => c.key === view.order.replace(/^-/, ""));
    const order = isKnown ? view.order : "total";
    const shown = useMemo(() => {
        const sorted = sortRows(rows, columns, order);
        return pattern ? sorted.filter((r) => isMatch(pattern, nameOf(r))) : sorted;
    }, [rows, columns, order, pattern]);
    return (
        <DataTable
            label={`Values of ${props.name}`}
            columns={columns}
            rows={shown}
            allRows={props.allRows}
            order={order}
            onOrder={(o) => patchView({ order: o })}
            rowKey={props.rowKey}
            onOpen={props.onOpen}
            onHover={(r) => {
                detail.value = r && {
                    name: `${props.name}=${nameOf(r)}`,
                    total: r.total,
                    of: props.whole,
                    unit: props.unit,
                };
            }}
        />
    );
}
