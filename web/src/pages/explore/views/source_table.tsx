// The lines of one file: number, figures, text. Cold runs are folded; a click opens them.

import { useMemo, useState } from "preact/hooks";
import { detail, patchView, state } from "../../../app";
import { languageOf, lexText, type Token } from "../../../core/highlight";
import { type LineCost, type SourceRow, sourceRows } from "../../../core/source_rows";
import { clipText, searchPattern } from "../../../core/text_match";
import { countText, shareText } from "../../../core/units";
import { type Column, DataTable } from "../../../parts/data_table";
import { Amount } from "../../../parts/figures";
import { FrameName } from "../../../parts/frame_name";

const SHOWN_MAX = 2000; // of a line

function Code(props: { text: string; tokens: readonly Token[] }) {
    const text = props.text.slice(0, SHOWN_MAX);
    const parts = [];
    let at = 0;
    for (const t of props.tokens) {
        if (t.start >= text.length) break;
        if (t.start > at) parts.push(text.slice(at, t.start));
        parts.push(
            <span key={t.start} class={`code-${t.kind}`}>
                {text.slice(t.start, t.end)}
            </span>,
        );
        at = t.end;
    }
    parts.push(text.slice(at));
    return <bdi class="source-code">{parts}</bdi>;
}

interface Look {
    lines: readonly string[] | null;
    tokens: readonly Token[][];
    unit: string;
    whole: number;
    most: number; // cum of the hottest line
    pattern: RegExp | null;
}

function TextCell(props: { row: SourceRow; look: Look }) {
    const { row, look } = props;
    if (row.isFold)
        return <span class="source-fold">{countText(row.until - row.line + 1)} lines</span>;
    const text = look.lines?.[row.line - 1];
    if (text !== undefined) return <Code text={text} tokens={look.tokens[row.line - 1] ?? []} />;
    return <FrameName name={row.cost?.functions.join(", ") ?? ""} pattern={look.pattern} />;
}

function sourceColumns(look: Look): Column<SourceRow>[] {
    const { unit, whole } = look;
    const figure = (key: "flat" | "cum", title: string, hint: string): Column<SourceRow> => ({
        key,
        title,
        hint,
        kind: "number",
        width: "80px",
        onlyWide: key === "cum",
        cell: (r) =>
            r.cost && r.cost[key] !== 0 ? <Amount value={r.cost[key]} unit={unit} /> : "",
        exact: (r) =>
            r.cost ? `${countText(r.cost[key])} ${unit}, ${shareText(r.cost[key], whole)}` : "",
        bar: (r) => (r.cost && look.most !== 0 ? r.cost[key] / look.most : 0),
    });
    return [
        {
            key: "line",
            title: "Line",
            kind: "number",
            width: "56px",
            cell: (r) => <span class="muted">{r.isFold ? "⋯" : r.line || "?"}</span>,
        },
        figure("flat", "Flat", "Spent on the line itself"),
        figure("cum", "Cum", "Spent on the line and in what it calls"),
        {
            key: "share",
            title: "Cum %",
            hint: "Share of the whole profile",
            kind: "number",
            width: "72px",
            cell: (r) => (r.cost ? shareText(r.cost.cum, whole) : ""),
        },
        {
            key: "text",
            title: look.lines ? "Source" : "Function",
            kind: "text",
            width: "minmax(200px, 1fr)",
            cell: (r) => <TextCell row={r} look={look} />,
        },
    ];
}

const keyOf = (r: SourceRow) => `${r.isFold ? "fold" : "line"} ${r.line}`;

export function SourceTable(props: {
    file: string;
    text: string | undefined;
    costs: readonly LineCost[];
    unit: string;
    whole: number;
    line: number;
}) {
    const { file, text, costs, unit, whole, line } = props;
    const [opened, setOpened] = useState<{ file: string; lines: ReadonlySet<number> }>({
        file,
        lines: new Set(),
    });
    const open = opened.file === file ? opened.lines : new Set<number>();
    const lines = useMemo(() => (text === undefined ? null : text.split(/\r?\n/)), [text]);
    const tokens = useMemo(() => (lines ? lexText(languageOf(file), lines) : []), [lines, file]);
    const pattern = useMemo(
        () => searchPattern(state.value.view.search),
        [state.value.view.search],
    );
    const most = Math.max(0, ...costs.map((c) => Math.abs(c.cum)));
    const rows = useMemo(
        () => sourceRows(costs, lines?.length ?? 0, open, line),
        [costs, lines, opened, file, line],
    );
    const columns = useMemo(
        () => sourceColumns({ lines, tokens, unit, whole, most, pattern }),
        [lines, tokens, unit, whole, most, pattern],
    );
    const select = (r: SourceRow) => {
        if (r.isFold) setOpened({ file, lines: new Set([...open, r.line]) });
        else patchView({ line: r.line }, { replace: true });
    };
    return (
        <DataTable
            label="Lines of the file"
            columns={columns}
            rows={rows}
            rowKey={keyOf}
            selected={`line ${line}`}
            onSelect={select}
            onHover={(r) => {
                detail.value = r?.cost
                    ? {
                          name: clipText(r.cost.functions.join(", ")),
                          file,
                          line: r.line,
                          self: r.cost.flat,
                          total: r.cost.cum,
                          of: whole,
                          unit,
                      }
                    : null;
            }}
            end={
                lines
                    ? `${countText(costs.length)} of ${countText(lines.length)} lines have figures`
                    : `${countText(costs.length)} lines have figures`
            }
        />
    );
}
