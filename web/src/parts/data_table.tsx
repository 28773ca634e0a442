// A table of any length: only rows in sight exist, the header stays, figures are at the right with
// their share behind them. Everything works with the keyboard: arrows, Home, End and the page keys
// move, Enter opens, Space selects, `.` opens the menu; headers are buttons that sort.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { countText } from "../core/units";
import { useNarrow } from "./use_narrow";
import "./data_table.css";

export interface Column<R> {
    key: string;
    title: string;
    hint?: string;
    kind: "text" | "number";
    width: string; // a track of a CSS grid: "88px", "minmax(160px, 1fr)"
    onlyWide?: boolean; // left out on narrow screens
    sort?: (r: R) => number | string; // without it, the column does not sort
    cell: (r: R, index: number) => ComponentChildren;
    exact?: (r: R) => string; // the exact figure, as a tooltip
    bar?: (r: R) => number; // 0..1, drawn behind the figure
}

export interface DataTableProps<R> {
    label: string;
    columns: readonly Column<R>[];
    rows: readonly R[];
    allRows?: number; // how many there are in all, when more than rows
    end?: ComponentChildren; // instead of "N of M rows"
    order?: string; // a column's key, "-" in front for rising
    onOrder?: (order: string) => void;
    rowKey: (r: R) => string;
    selected?: string; // key of the marked row
    onSelect?: (r: R) => void;
    onOpen?: (r: R) => void;
    onMenu?: (r: R, x: number, y: number) => void;
    onHover?: (r: R | null) => void;
    onKey?: (key: string, r: R, index: number) => number | boolean; // a number: the row to go to
    rowProps?: (r: R) => JSX.HTMLAttributes<HTMLDivElement>;
    isTree?: boolean;
    isFitted?: boolean; // as high as its rows, up to a limit, instead of filling its place
}

export const ROW_HEIGHT = 24;
const HEAD_HEIGHT = 28;
const BESIDE = 8; // rows that exist above and below those in sight

/** Rows in an order: "cum" falling, "-cum" rising; equal rows stay as they came. */
export function sortRows<R>(rows: readonly R[], columns: readonly Column<R>[], order: string): R[] {
    const isRising = order.startsWith("-");
    const column = columns.find((c) => c.key === order.replace(/^-/, ""));
    const by = column?.sort;
    if (!by) return [...rows];
    const sign = isRising ? 1 : -1;
    const keyed = rows.map((row) => ({ row, key: by(row) }));
    keyed.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : 0));
    return keyed.map((k) => k.row);
}

/** What a click on a header asks for: figures fall first, texts rise first, then the other way. */
export function nextOrder(column: { key: string; kind: string }, order: string): string {
    const first = column.kind === "number" ? column.key : `-${column.key}`;
    const second = column.kind === "number" ? `-${column.key}` : column.key;
    return order === first ? second : first;
}

type Tracks = {
    gridTemplateColumns: string;
    minWidth: string;
};

/** The smallest width of a track in pixels. */
function leastWidth(track: string): number {
    return Number(/(\d+)px/.exec(track)?.[1] ?? 0);
}

function Header<R>(props: {
    columns: readonly Column<R>[];
    order: string;
    onOrder?: (order: string) => void;
    tracks: Tracks;
}) {
    return (
        <div class="dt-head" role="row" aria-rowindex={1} style={props.tracks}>
            {props.columns.map((c, i) => {
                const isSorted = props.order.replace(/^-/, "") === c.key;
                const isRising = isSorted && props.order.startsWith("-");
                const sorts = c.sort && props.onOrder;
                const state = !sorts
                    ? undefined
                    : !isSorted
                      ? "none"
                      : isRising
                        ? "ascending"
                        : "descending";
                return (
                    <div
                        key={c.key}
                        class={`dt-cell dt-${c.kind}`}
                        role="columnheader"
                        aria-colindex={i + 1}
                        aria-sort={state}
                        title={c.hint}
                    >
                        {sorts ? (
                            <button
                                type="button"
                                class="dt-sort"
                                onClick={() => props.onOrder!(nextOrder(c, props.order))}
                            >
                                {c.title}
                                <span class="dt-arrow" aria-hidden="true">
                                    {isSorted ? (isRising ? "▴" : "▾") : ""}
                                </span>
                            </button>
                        ) : (
                            c.title
                        )}
                    </div>
                );
            })}
        </div>
    );
}

function Cell<R>(props: { column: Column<R>; row: R; index: number; at: number }) {
    const c = props.column;
    const bar = c.bar ? Math.max(0, Math.min(1, Math.abs(c.bar(props.row)))) : 0;
    return (
        <div
            class={`dt-cell dt-${c.kind}`}
            role={props.at === 0 ? "rowheader" : "gridcell"}
            aria-colindex={props.at + 1}
            title={c.exact?.(props.row)}
        >
            {bar > 0 && <span class="dt-bar" style={{ width: `${100 * bar}%` }} />}
            <span class="dt-content">{c.cell(props.row, props.index)}</span>
        </div>
    );
}

/** Which rows are in sight. */
function useWindow(box: { current: HTMLDivElement | null }, n: number) {
    const [seen, setSeen] = useState({ top: 0, height: 600 });
    useEffect(() => {
        const el = box.current;
        if (!el) return;
        const look = () =>
            setSeen((old) =>
                old.top === el.scrollTop && old.height === el.clientHeight
                    ? old
                    : { top: el.scrollTop, height: el.clientHeight },
            );
        look();
        const watch = new ResizeObserver(look);
        watch.observe(el);
        el.addEventListener("scroll", look, { passive: true });
        return () => {
            watch.disconnect();
            el.removeEventListener("scroll", look);
        };
    }, []);
    const first = Math.max(0, Math.floor(seen.top / ROW_HEIGHT) - BESIDE);
    const last = Math.min(n, Math.ceil((seen.top + seen.height) / ROW_HEIGHT) + BESIDE);
    return { first: Math.min(first, Math.max(0, n - 1)), last };
}

function showRow(el: HTMLDivElement | null, index: number, inMiddle = false) {
    if (!el) return;
    const top = index * ROW_HEIGHT;
    const height = el.clientHeight - HEAD_HEIGHT;
    const isSeen = top >= el.scrollTop && top + ROW_HEIGHT <= el.scrollTop + height;
    if (isSeen) return;
    if (inMiddle) el.scrollTop = Math.max(0, top - height / 2);
    else el.scrollTop = top < el.scrollTop ? top : top + ROW_HEIGHT - height;
}

/** The row that a key leads to; -1 when the key does not move. */
export function rowAfterKey(key: string, at: number, n: number, page: number): number {
    const to: Record<string, number> = {
        ArrowDown: at + 1,
        ArrowUp: at - 1,
        PageDown: at + page,
        PageUp: at - page,
        Home: 0,
        End: n - 1,
    };
    if (!(key in to) || n === 0) return -1;
    return Math.max(0, Math.min(n - 1, to[key]));
}

/** What keys do while the table has the focus. */
function keyHandler<R>(
    props: DataTableProps<R>,
    box: { current: HTMLDivElement | null },
    active: number,
    setActive: (at: number) => void,
    start: number, // where the keys begin when no row is active
) {
    const { rows } = props;
    const openMenu = (at: number) => {
        const row = box.current?.querySelector(`[data-row="${at}"]`)?.getBoundingClientRect();
        if (row) props.onMenu?.(rows[at], row.left + 24, row.bottom);
    };
    return (e: JSX.TargetedKeyboardEvent<HTMLDivElement>) => {
        if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey || e.altKey) return;
        if (rows.length === 0) return;
        const at = Math.max(0, Math.min(active < 0 ? start : active, rows.length - 1));
        const own = props.onKey?.(e.key, rows[at], at) ?? false;
        const inSight = Math.floor((box.current!.clientHeight - HEAD_HEIGHT) / ROW_HEIGHT);
        const from = active < 0 && start < 0 ? -1 : at;
        const to =
            typeof own === "number"
                ? own
                : rowAfterKey(e.key, from, rows.length, Math.max(1, inSight - 1));
        if (own === true) setActive(at);
        else if (to >= 0) {
            setActive(to);
            showRow(box.current, to);
            props.onHover?.(rows[to]);
        } else if (e.key === "Enter") (props.onOpen ?? props.onSelect)?.(rows[at]);
        else if (e.key === " ") props.onSelect?.(rows[at]);
        else if ((e.key === "." || e.key === "ContextMenu") && props.onMenu) openMenu(at);
        else return;
        e.preventDefault();
        e.stopPropagation();
    };
}

function Row<R>(props: {
    table: DataTableProps<R>;
    columns: readonly Column<R>[];
    index: number;
    id: string;
    tracks: Tracks;
    isSelected: boolean;
    isActive: boolean;
    activate: (at: number) => void;
}) {
    const { table, index } = props;
    const r = table.rows[index];
    return (
        <div
            id={props.id}
            data-row={index}
            class={`dt-row${props.isSelected ? " is-selected" : ""}${props.isActive ? " is-active" : ""}`}
            role="row"
            aria-rowindex={index + 2}
            aria-selected={table.onSelect ? props.isSelected : undefined}
            style={{ ...props.tracks, transform: `translateY(${index * ROW_HEIGHT}px)` }}
            onClick={() => {
                props.activate(index);
                table.onSelect?.(r);
            }}
            onDblClick={() => table.onOpen?.(r)}
            onContextMenu={(e) => {
                if (!table.onMenu) return;
                e.preventDefault();
                props.activate(index);
                table.onMenu(r, e.clientX, e.clientY);
            }}
            onPointerEnter={() => table.onHover?.(r)}
            {...table.rowProps?.(r)}
        >
            {props.columns.map((c, k) => (
                <Cell key={c.key} column={c} row={r} index={index} at={k} />
            ))}
        </div>
    );
}

function endText(shown: number, all: number): string {
    if (all > shown) return `${countText(shown)} of ${countText(all)} rows`;
    return `${countText(all)} ${all === 1 ? "row" : "rows"}`;
}

export function DataTable<R>(props: DataTableProps<R>) {
    const { rows, rowKey } = props;
    const box = useRef<HTMLDivElement>(null);
    const id = useId();
    const isNarrow = useNarrow();
    const [active, setActive] = useState(-1);
    const columns = useMemo(
        () => props.columns.filter((c) => !isNarrow || !c.onlyWide),
        [props.columns, isNarrow],
    );
    const tracks = {
        gridTemplateColumns: columns.map((c) => c.width).join(" "),
        minWidth: `${columns.reduce((sum, c) => sum + leastWidth(c.width), 0)}px`,
    };
    const seen = useWindow(box, rows.length);
    const order = props.order ?? "";
    const selectedAt = useMemo(
        () => (props.selected ? rows.findIndex((r) => rowKey(r) === props.selected) : -1),
        [rows, props.selected],
    );
    useEffect(() => {
        if (selectedAt >= 0) showRow(box.current, selectedAt, true);
        // Not when rows change: a refresh must not move what is looked at.
    }, [props.selected, order, selectedAt >= 0]);
    const shown: number[] = [];
    for (let i = seen.first; i < seen.last; i++) shown.push(i);
    const isActiveShown = active >= seen.first && active < seen.last && active < rows.length;
    return (
        <div
            class={props.isFitted ? "dt is-fitted" : "dt"}
            role={props.isTree ? "treegrid" : "grid"}
            ref={box}
            tabIndex={0}
            aria-label={props.label}
            aria-rowcount={rows.length + (props.isFitted ? 1 : 2)}
            aria-colcount={columns.length}
            aria-activedescendant={isActiveShown ? `${id}-${active}` : undefined}
            onKeyDown={keyHandler(props, box, active, setActive, selectedAt)}
            onPointerLeave={() => props.onHover?.(null)}
        >
            <Header columns={columns} order={order} onOrder={props.onOrder} tracks={tracks} />
            <div
                class="dt-body"
                role="rowgroup"
                style={{ height: `${rows.length * ROW_HEIGHT}px` }}
            >
                {shown.map((i) => (
                    <Row
                        key={rowKey(rows[i])}
                        table={props}
                        columns={columns}
                        index={i}
                        id={`${id}-${i}`}
                        tracks={tracks}
                        isSelected={i === selectedAt}
                        isActive={i === active}
                        activate={setActive}
                    />
                ))}
            </div>
            {!props.isFitted && (
                <div class="dt-end" role="row">
                    <div role="gridcell" aria-colspan={columns.length}>
                        {props.end ??
                            endText(rows.length, Math.max(props.allRows ?? 0, rows.length))}
                    </div>
                </div>
            )}
        </div>
    );
}
