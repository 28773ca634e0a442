// Callers and callees of one function (the "sandwich"): all of the profile, from the server. A click
// on a row goes to that function.

import { useEffect, useMemo } from "preact/hooks";
import {
    askCallers,
    askTop,
    type Callers,
    type CallRow,
    type TopRow,
} from "../../../api/questions";
import { detail, href, openFrameMenu, pageState, patchView, state, ticks } from "../../../app";
import { isMatch, searchPattern } from "../../../core/text_match";
import { countText, shareText } from "../../../core/units";
import { type Column, DataTable, sortRows } from "../../../parts/data_table";
import { Amount } from "../../../parts/figures";
import { FileName, FrameName } from "../../../parts/frame_name";
import { Empty, ErrorBox, Loading } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { faceOf, NothingHere, openRowMenu, questionKey, RelativeToggle, useWhole } from "./common";
import { CallersFlames } from "./callers_flames";
import "./callers.css";

/** Goes to a function, a step that "back" undoes. */
function pivot(name: string) {
    detail.value = null;
    patchView({ selected: name });
}

interface Shares {
    unit: string;
    own: number; // cum of the function in the middle
    whole: number;
    pattern: RegExp | null;
}

function callColumns(side: string, s: Shares): Column<CallRow>[] {
    return [
        {
            key: "name",
            title: side,
            kind: "text",
            width: "minmax(168px, 3fr)",
            sort: (r) => r.name,
            cell: (r) => <FrameName name={r.name} pattern={s.pattern} />,
        },
        {
            key: "cum",
            title: "Cum",
            hint: "Spent in calls between the two functions",
            kind: "number",
            width: "88px",
            sort: (r) => r.cum,
            cell: (r) => <Amount value={r.cum} unit={s.unit} />,
            exact: (r) => `${countText(r.cum)} ${s.unit}`,
        },
        {
            key: "own_share",
            title: "% of it",
            hint: "Share of what the function in the middle spends in all",
            kind: "number",
            width: "88px",
            sort: (r) => r.cum,
            cell: (r) => shareText(r.cum, s.own),
            bar: (r) => (s.own === 0 ? 0 : r.cum / s.own),
        },
        {
            key: "share",
            title: "% of all",
            hint: "Share of the whole profile",
            kind: "number",
            width: "80px",
            onlyWide: true,
            cell: (r) => shareText(r.cum, s.whole),
        },
        {
            key: "file",
            title: "File",
            kind: "text",
            width: "minmax(160px, 2fr)",
            onlyWide: true,
            sort: (r) => r.file,
            cell: (r) => <FileName file={r.file} pattern={s.pattern} />,
        },
    ];
}

const callKey = (r: { name: string; file: string }) => `${r.name}\n${r.file}`;

function CallTable(props: {
    label: string;
    side: string;
    rows: readonly CallRow[];
    shares: Shares;
}) {
    const { unit, whole } = props.shares;
    const order = state.value.view.order || "cum";
    const columns = useMemo(
        () => callColumns(props.side, props.shares),
        [props.side, props.shares],
    );
    const known = columns.some((c) => c.key === order.replace(/^-/, "")) ? order : "cum";
    const rows = useMemo(() => sortRows(props.rows, columns, known), [props.rows, columns, known]);
    if (rows.length === 0) return null;
    return (
        <DataTable
            label={props.label}
            columns={columns}
            rows={rows}
            order={known}
            onOrder={(o) => patchView({ order: o }, { replace: true })}
            rowKey={callKey}
            onSelect={(r) => pivot(r.name)}
            onOpen={(r) => pivot(r.name)}
            onMenu={openRowMenu}
            onHover={(r) => {
                detail.value = r
                    ? { name: r.name, file: r.file, total: r.cum, of: whole, unit }
                    : null;
            }}
            isFitted
        />
    );
}

/** Without a function there is nothing between callers and callees: the heaviest are offered. */
function Picker() {
    const { scope, view } = state.value;
    const q = useQuery(
        questionKey("top", scope, view, "picker"),
        (signal) => askTop(scope, view, { limit: 1000, order: "cum" }, signal),
        ticks.value,
    );
    const whole = useWhole(q.data?.total);
    const unit = q.data?.unit ?? "";
    const pattern = useMemo(() => searchPattern(view.search), [view.search]);
    const columns = useMemo<Column<TopRow>[]>(
        () => [
            {
                key: "name",
                title: "Function",
                kind: "text",
                width: "minmax(168px, 3fr)",
                cell: (r) => <FrameName name={r.name} pattern={pattern} />,
            },
            {
                key: "cum",
                title: "Cum",
                kind: "number",
                width: "88px",
                cell: (r) => <Amount value={r.cum} unit={unit} />,
            },
            {
                key: "share",
                title: "Cum %",
                kind: "number",
                width: "88px",
                cell: (r) => shareText(r.cum, whole),
                bar: (r) => (whole === 0 ? 0 : r.cum / whole),
            },
        ],
        [unit, whole, pattern],
    );
    const face = faceOf(q);
    if (face || !q.data) return face;
    if (q.data.rows.length === 0) return <NothingHere />;
    const rows = pattern ? q.data.rows.filter((r) => isMatch(pattern, r.name)) : q.data.rows;
    return (
        <Loading isOld={q.isOld}>
            <div class="view">
                <div class="view-bar">
                    <h2>Whose callers and callees?</h2>
                    <span>
                        Choose a function; a function selected in any other view comes here, too.
                    </span>
                </div>
                <DataTable
                    label="Functions to choose from"
                    columns={columns}
                    rows={rows}
                    allRows={q.data.all_rows}
                    rowKey={callKey}
                    onSelect={(r) => pivot(r.name)}
                    onMenu={openRowMenu}
                />
            </div>
        </Loading>
    );
}

function Middle(props: { answer: Callers; whole: number }) {
    const { function: f, unit } = props.answer;
    return (
        <div class="callers-middle">
            <h2 class="callers-name">
                <FrameName name={f.name} />
            </h2>
            <dl class="callers-figures">
                <div title={`${countText(f.flat)} ${unit}`}>
                    <dt>Flat</dt>
                    <dd>
                        <Amount value={f.flat} unit={unit} /> {shareText(f.flat, props.whole)}
                    </dd>
                </div>
                <div title={`${countText(f.cum)} ${unit}`}>
                    <dt>Cum</dt>
                    <dd>
                        <Amount value={f.cum} unit={unit} /> {shareText(f.cum, props.whole)}
                    </dd>
                </div>
            </dl>
            <span class="view-space" />
            <button
                type="button"
                class="button small"
                aria-haspopup="menu"
                onClick={(e) => {
                    const at = e.currentTarget.getBoundingClientRect();
                    openFrameMenu(at.left, at.bottom, {
                        name: f.name,
                        file: "",
                        line: 0,
                        path: [],
                    });
                }}
            >
                More…
            </button>
            {!state.value.scope.file && (
                <a class="button small" href={href(pageState("function"))}>
                    History
                </a>
            )}
        </div>
    );
}

function Side(props: { title: string; none: string; rows: readonly CallRow[]; shares: Shares }) {
    return (
        <section class="callers-side" aria-label={props.title}>
            {props.rows.length > 0 ? (
                <CallTable
                    label={props.title}
                    side={props.title}
                    rows={props.rows}
                    shares={props.shares}
                />
            ) : (
                <p class="callers-none">{props.none}</p>
            )}
        </section>
    );
}

const countOf = (n: number, what: string) => `${countText(n)} ${what}${n === 1 ? "" : "s"}`;

function Sandwich(props: { name: string }) {
    const { scope, view } = state.value;
    const q = useQuery<Callers>(
        questionKey("callers", scope, view, props.name),
        (signal) => askCallers(scope, view, props.name, signal),
        ticks.value,
    );
    const whole = useWhole(q.data?.total);
    const pattern = useMemo(() => searchPattern(view.search), [view.search]);
    const shares = useMemo<Shares>(
        () => ({ unit: q.data?.unit ?? "", own: q.data?.function.cum ?? 0, whole, pattern }),
        [q.data, whole, pattern],
    );
    useEffect(
        () => () => {
            detail.value = null;
        },
        [],
    );
    if (q.error?.status === 404 && q.error.code === "not_found")
        return (
            <Empty title="Not in this selection">
                <p>
                    No sample here has the function{" "}
                    <bdi>{props.name.slice(0, 200) || "(no name)"}</bdi>. It may be in another
                    range, another service, or behind a filter.
                </p>
                <p class="view-buttons">
                    <button type="button" class="button" onClick={() => pivot("")}>
                        Choose another function
                    </button>
                </p>
            </Empty>
        );
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    const face = faceOf(q);
    if (face || !q.data) return face;
    return (
        <Loading isOld={q.isOld}>
            <div class="view">
                <div class="view-bar">
                    <span>
                        {countOf(q.data.callers.length, "caller")},{" "}
                        {countOf(q.data.callees.length, "callee")}, of the whole profile
                    </span>
                    <span class="view-space" />
                    <RelativeToggle />
                    <button type="button" class="button small" onClick={() => pivot("")}>
                        Other function
                    </button>
                </div>
                <div class="view-scroll">
                    <Side
                        title="Callers"
                        none="Nothing calls it: stacks begin with it."
                        rows={q.data.callers}
                        shares={shares}
                    />
                    <Middle answer={q.data} whole={whole} />
                    <Side
                        title="Callees"
                        none="It calls nothing: all of its time is its own."
                        rows={q.data.callees}
                        shares={shares}
                    />
                    {props.name !== "" && <CallersFlames name={props.name} />}
                </div>
            </div>
        </Loading>
    );
}

export default function CallersView() {
    const name = state.value.view.selected;
    return name === "" ? <Picker /> : <Sandwich name={name} />;
}
