// The call tree as a table: open what matters, see what each frame spends itself and below it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "../../../api/client";
import { flameBytes } from "../../../api/questions";
import { detail, openFrameMenu, patchView, say, state, ticks } from "../../../app";
import type { FrameTree } from "../../../core/frame_tree";
import { searchPattern } from "../../../core/text_match";
import { decodeTree } from "../../../core/tree_decode";
import {
    type Compare,
    heaviestPlaces,
    makePlaces,
    type Places,
    placesAbove,
    ROOT,
    rowPath,
    type TreeRow,
    treeRows,
} from "../../../core/tree_rows";
import { countText, shareText } from "../../../core/units";
import { type Column, DataTable } from "../../../parts/data_table";
import { Amount } from "../../../parts/figures";
import { FrameName } from "../../../parts/frame_name";
import { Loading } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { faceOf, NothingHere, openCallers, questionKey, RelativeToggle, useWhole } from "./common";
import "./tree.css";

const MOST_NODES = 20_000;
const DEEPEST_INDENT = 30;

const frameOf = (r: TreeRow) => r.tree.frame[r.node];
const nameOf = (r: TreeRow) => r.tree.frames.name[frameOf(r)];

function compareBy(order: string): Compare | null {
    const sign = order.startsWith("-") ? 1 : -1;
    switch (order.replace(/^-|_share$/g, "")) {
        case "self":
        case "flat":
            return (t, a, b) => sign * (t.self[a] - t.self[b]);
        case "total":
        case "cum":
            return sign > 0 ? (t, a, b) => t.total[a] - t.total[b] : null;
        case "name":
            return (t, a, b) =>
                t.frames.name[t.frame[a]] < t.frames.name[t.frame[b]] ? -sign : sign;
        default:
            return null;
    }
}

interface Look {
    unit: string;
    whole: number;
    pattern: RegExp | null;
    waiting: ReadonlySet<number>;
    toggle: (r: TreeRow) => void;
}

function NameCell(props: { row: TreeRow; look: Look }) {
    const { row, look } = props;
    const indent = Math.min(row.level - 1, DEEPEST_INDENT) * 12;
    return (
        <span class="tree-name" style={{ paddingLeft: `${indent}px` }}>
            <span
                class="tree-mark"
                aria-hidden="true"
                onClick={(e) => {
                    if (!row.canOpen) return;
                    e.stopPropagation();
                    look.toggle(row);
                }}
            >
                {row.canOpen ? (row.isOpen ? "▾" : "▸") : ""}
            </span>
            {row.level - 1 > DEEPEST_INDENT && <small class="tree-level">{row.level}</small>}
            {row.hidden ? (
                <span class="tree-more">
                    {look.waiting.has(row.id)
                        ? "asking…"
                        : `${countText(row.hidden.children)} more, ${shareText(row.hidden.value, look.whole)}`}
                </span>
            ) : (
                <FrameName name={nameOf(row)} pattern={look.pattern} />
            )}
        </span>
    );
}

function treeColumns(look: Look): Column<TreeRow>[] {
    const { unit, whole } = look;
    const total = (r: TreeRow) => (r.hidden ? r.hidden.value : r.tree.total[r.node]);
    const self = (r: TreeRow) => (r.hidden ? 0 : r.tree.self[r.node]);
    const figures = (key: string, title: string, hint: string, of: (r: TreeRow) => number) => {
        const columns: Column<TreeRow>[] = [
            {
                key,
                title,
                hint,
                kind: "number",
                width: "88px",
                onlyWide: true,
                sort: of,
                cell: (r) =>
                    r.hidden && key === "self" ? "" : <Amount value={of(r)} unit={unit} />,
                exact: (r) => `${countText(of(r))} ${unit}`,
            },
            {
                key: `${key}_share`,
                title: `${title} %`,
                hint,
                kind: "number",
                width: "80px",
                sort: of,
                cell: (r) => (r.hidden && key === "self" ? "" : shareText(of(r), whole)),
                bar: (r) => (whole === 0 ? 0 : of(r) / whole),
            },
        ];
        return columns;
    };
    return [
        {
            key: "name",
            title: "Function",
            kind: "text",
            width: "minmax(184px, 1fr)",
            sort: nameOf,
            cell: (r) => <NameCell row={r} look={look} />,
        },
        ...figures("total", "Total", "Spent in the frame and in all below it", total),
        ...figures("self", "Self", "Spent in the frame itself", self),
    ];
}

const keyOf = ({ scope, view }: typeof state.value) =>
    questionKey("tree", scope, view, view.invert, view.root);

/**
 * Subtrees that were asked for, by place. They are of one question: a newer tree asks for them again,
 * and what comes for a tree that is gone is dropped.
 */
function useGrafts(tree: FrameTree, question: string) {
    const [grafts, setGrafts] = useState<ReadonlyMap<number, FrameTree>>(new Map());
    const paths = useRef(new Map<number, string[]>());
    const shown = useRef({ tree, question });
    const ask = async (place: number, under: string[]) => {
        const { scope, view } = state.value;
        // Rows of the question before stand here until the next answer comes.
        if (keyOf(state.value) !== question) return;
        paths.current.set(place, under);
        const isGone = () => shown.current.tree !== tree;
        try {
            const bytes = await flameBytes({ scope, view, maxNodes: MOST_NODES, under });
            if (isGone()) return;
            const graft = decodeTree(bytes);
            setGrafts((old) => new Map([...old, [place, graft]]));
        } catch (e) {
            if (isGone()) return;
            paths.current.delete(place);
            setGrafts((old) => new Map([...old].filter(([id]) => id !== place)));
            throw e;
        }
    };
    useEffect(() => {
        const isSame = shown.current.question === question;
        shown.current = { tree, question };
        if (isSame) {
            // A path that is not there any more has no row either.
            for (const [place, under] of paths.current) ask(place, under).catch(() => {});
            return;
        }
        paths.current.clear();
        setGrafts(new Map());
    }, [tree, question]);
    return { grafts, ask };
}

/** What is open, and the subtrees that were asked for; both last while the question is the same. */
function useOpen(tree: FrameTree, key: string, isRooted: boolean) {
    const places = useRef<Places>(makePlaces());
    const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
    const { grafts, ask } = useGrafts(tree, key);
    const [chosen, setChosen] = useState(0);
    const started = useRef("");
    const { selected } = state.value.view;

    useEffect(() => {
        // The heaviest way is open at first, as far as it is most of what there is.
        if (started.current === key) return;
        started.current = key;
        const first = isRooted
            ? places.current.child(
                  ROOT,
                  tree.frames.name[tree.frame[0]],
                  tree.frames.file[tree.frame[0]],
              )
            : ROOT;
        const least = Math.abs(tree.total[0]) / 2;
        const way = heaviestPlaces(places.current, tree, 0, first, least);
        setOpen((old) => new Set([...old, first, ...way]));
    }, [tree, key]);
    useEffect(() => {
        // A function that was selected elsewhere is brought into sight.
        if (selected === "") return;
        const above = placesAbove(places.current, tree, isRooted, selected);
        if (!above) return;
        setOpen((old) => new Set([...old, ...above.open]));
        setChosen((old) => old || above.id);
    }, [tree, selected]);
    return { places: places.current, open, setOpen, grafts, ask, chosen, setChosen };
}

/** Opening and closing rows, by pointer and keys. */
function useActions(rows: readonly TreeRow[], o: ReturnType<typeof useOpen>) {
    const { view } = state.value;
    const [waiting, setWaiting] = useState<ReadonlySet<number>>(new Set());

    const openMore = async (r: TreeRow) => {
        if (waiting.has(r.id)) return;
        setWaiting((old) => new Set([...old, r.id]));
        try {
            const under = rowPath(rows, rows.indexOf(r), view.root.slice(0, -1));
            await o.ask(r.parent >= 0 ? rows[r.parent].id : ROOT, under);
        } catch (e) {
            say(e instanceof ApiError ? e.message : String(e));
        }
        setWaiting((old) => new Set([...old].filter((id) => id !== r.id)));
    };
    const toggle = (r: TreeRow) => {
        if (r.hidden) {
            openMore(r);
            return;
        }
        const next = new Set(o.open);
        if (!next.delete(r.id)) next.add(r.id);
        o.setOpen(next);
    };
    const openHeaviest = (r: TreeRow) => {
        const way = heaviestPlaces(o.places, r.tree, r.node, r.id, 0);
        o.setOpen(new Set([...o.open, r.id, ...way]));
    };
    const onKey = (key: string, r: TreeRow, at: number): number | boolean => {
        if (key === "ArrowRight" && r.isOpen) return at + 1;
        if (key === "ArrowLeft" && !r.isOpen) return r.parent >= 0 ? r.parent : true;
        if ((key === "ArrowRight" && r.canOpen) || key === "ArrowLeft") toggle(r);
        else if (key === "*" && !r.hidden) openHeaviest(r);
        else if (key === "Enter" && r.hidden) openMore(r);
        else return false;
        return true;
    };
    return { waiting, openMore, toggle, onKey };
}

function menuFor(rows: readonly TreeRow[]) {
    return (r: TreeRow, x: number, y: number) => {
        if (r.hidden) return;
        const f = frameOf(r);
        const { file, line, binary } = r.tree.frames;
        openFrameMenu(x, y, {
            name: nameOf(r),
            file: file[f],
            line: line[f],
            binary: binary[f] || undefined,
            path: rowPath(rows, rows.indexOf(r), state.value.view.root.slice(0, -1)),
        });
    };
}

function TreeTable(props: { tree: FrameTree; questioned: string }) {
    const { tree } = props;
    const { view } = state.value;
    const isRooted = view.root.length > 0;
    const all = useWhole(tree.head.total);
    const whole = view.relative ? tree.total[0] : all;
    const { unit } = tree.head;
    const o = useOpen(tree, props.questioned, isRooted);
    const { places, open, setOpen, grafts, chosen, setChosen } = o;
    const order = view.order || "total";
    const rows = useMemo(
        () => treeRows({ tree, isRooted, open, grafts, places, compare: compareBy(order) }),
        [tree, isRooted, open, grafts, order],
    );
    const { waiting, openMore, toggle, onKey } = useActions(rows, o);
    const pattern = useMemo(() => searchPattern(view.search), [view.search]);
    const columns = useMemo(
        () => treeColumns({ unit, whole, pattern, waiting, toggle }),
        [unit, whole, pattern, waiting, rows],
    );
    const selected =
        rows.find((r) => r.id === chosen && nameOf(r) === view.selected) ??
        rows.find((r) => !r.hidden && view.selected !== "" && nameOf(r) === view.selected);
    const select = (r: TreeRow) => {
        if (r.hidden) {
            openMore(r);
            return;
        }
        setChosen(r.id);
        patchView({ selected: nameOf(r) }, { replace: true });
    };
    return (
        <>
            <TreeBar
                tree={tree}
                whole={whole}
                openHeaviest={() => {
                    const id = isRooted ? rows[0].id : ROOT;
                    setOpen(new Set([...open, id, ...heaviestPlaces(places, tree, 0, id, 0)]));
                }}
                closeAll={() => setOpen(new Set())}
            />
            <DataTable
                label="Call tree"
                isTree
                columns={columns}
                rows={rows}
                order={order}
                onOrder={(next) => patchView({ order: next })}
                rowKey={(r) => String(r.id)}
                selected={selected && String(selected.id)}
                onSelect={select}
                onOpen={(r) => !r.hidden && openCallers(nameOf(r))}
                onMenu={menuFor(rows)}
                onHover={(r) => tell(r, rows, whole, unit)}
                onKey={onKey}
                rowProps={(r) => ({
                    "aria-level": r.level,
                    "aria-expanded": r.canOpen ? r.isOpen : undefined,
                })}
                end={`${countText(rows.length)} rows open`}
            />
        </>
    );
}

export default function TreeView() {
    const { scope, view } = state.value;
    const isRooted = view.root.length > 0;
    const key = keyOf(state.value);
    const q = useQuery<FrameTree>(
        key,
        async (signal) =>
            decodeTree(
                await flameBytes({ scope, view, maxNodes: MOST_NODES, under: view.root }, signal),
            ),
        ticks.value,
    );
    const answered = useRef(key);
    if (q.data && !q.isOld) answered.current = key;
    const face = faceOf(q);
    if (isRooted && q.error?.status === 404) return <NotThere message={q.error.message} />;
    if (face || !q.data) return face;
    if (q.data.n < 2 && q.data.hidden.size === 0 && !isRooted) return <NothingHere />;
    return (
        <Loading isOld={q.isOld}>
            <div class="view">
                <TreeTable tree={q.data} questioned={answered.current} />
            </div>
        </Loading>
    );
}

function TreeBar(props: {
    tree: FrameTree;
    whole: number;
    openHeaviest: () => void;
    closeAll: () => void;
}) {
    return (
        <div class="view-bar">
            <TreeFacts tree={props.tree} whole={props.whole} />
            <span class="view-space" />
            {state.value.view.root.length > 0 && (
                <button type="button" class="button small" onClick={() => patchView({ root: [] })}>
                    Whole tree
                </button>
            )}
            <button
                type="button"
                class="button small"
                title="Open the heaviest way down (*)"
                onClick={props.openHeaviest}
            >
                Heaviest path
            </button>
            <button type="button" class="button small" onClick={props.closeAll}>
                Close all
            </button>
            <RelativeToggle />
        </div>
    );
}

function tell(r: TreeRow | null, rows: readonly TreeRow[], whole: number, unit: string) {
    if (!r) {
        detail.value = null;
        return;
    }
    const f = frameOf(r);
    const { name, file, line, binary, build, kind } = r.tree.frames;
    const up = r.parent >= 0 ? rows[r.parent] : null;
    detail.value = {
        name: r.hidden ? `${countText(r.hidden.children)} more` : name[f],
        ...(r.hidden
            ? { total: r.hidden.value }
            : {
                  file: file[f],
                  line: line[f],
                  binary: binary[f],
                  build: build[f],
                  kind: kind[f],
                  self: r.tree.self[r.node],
                  total: r.tree.total[r.node],
              }),
        parent: up ? up.tree.total[up.node] : undefined,
        of: whole,
        unit,
    };
}

function TreeFacts(props: { tree: FrameTree; whole: number }) {
    const { head, n } = props.tree;
    return (
        <span role="status">
            {head.cut_nodes > 0
                ? `${countText(n - 1)} of ${countText(n - 1 + head.cut_nodes)} nodes here, ${shareText(head.cut, props.whole)} left out: rows that say “more” open it`
                : `${countText(n - 1)} nodes, all here`}
        </span>
    );
}

function NotThere(props: { message: string }) {
    return (
        <div class="state" role="alert">
            <h2>Not in this selection</h2>
            <p>{props.message}</p>
            <button type="button" class="button" onClick={() => patchView({ root: [] })}>
                Show the whole tree
            </button>
        </div>
    );
}
