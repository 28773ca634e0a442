// The call graph, trimmed by the server as pprof does; what was trimmed is said and can be changed.

import {
    ask,
    askGraph,
    askTop,
    filterParams,
    frameParams,
    type Graph,
} from "../../../api/questions";
import { ApiError } from "../../../api/client";
import { patchState, say, state, ticks } from "../../../app";
import { clipText } from "../../../core/text_match";
import { amountText, countText, shareText } from "../../../core/units";
import { Popover } from "../../../parts/popover";
import { Loading } from "../../../parts/states";
import { useQuery } from "../../../parts/use_query";
import { faceOf, NothingHere, openCallers, questionKey, RelativeToggle, useWhole } from "./common";
import { GraphPicture } from "./graph_picture";
import "./graph.css";

const LIMITS = ["20", "40", "80", "150"];
const FRACTIONS: [string, string][] = [
    ["0.05", "5 %"],
    ["0.01", "1 %"],
    ["0.005", "0.5 %"],
    ["0.001", "0.1 %"],
    ["0", "nothing"],
];

/** How the graph is trimmed, from the address; pprof's own numbers otherwise. */
function trimming() {
    const { extra } = state.value;
    return {
        limit: extra.nodes ?? "80",
        node_fraction: extra.node_fraction ?? "0.005",
        edge_fraction: extra.edge_fraction ?? "0.001",
    };
}

function setTrim(name: string, value: string) {
    patchState({ extra: { ...state.value.extra, [name]: value } });
}

function Choice(props: {
    label: string;
    name: string;
    value: string;
    options: readonly [string, string][];
}) {
    const isKnown = props.options.some(([v]) => v === props.value);
    return (
        <label class="graph-choice">
            {props.label}
            <select
                value={props.value}
                onChange={(e) => setTrim(props.name, e.currentTarget.value)}
            >
                {!isKnown && <option value={props.value}>{props.value}</option>}
                {props.options.map(([value, text]) => (
                    <option key={value} value={value}>
                        {text}
                    </option>
                ))}
            </select>
        </label>
    );
}

function Trim(props: { trim: ReturnType<typeof trimming> }) {
    const { limit, node_fraction, edge_fraction } = props.trim;
    return (
        <Popover label="Trim…" title="What the graph leaves out" class="button small" align="right">
            {() => (
                <div class="graph-trim">
                    <Choice
                        label="At most"
                        name="nodes"
                        value={limit}
                        options={LIMITS.map((l) => [l, `${l} functions`])}
                    />
                    <Choice
                        label="Without functions below"
                        name="node_fraction"
                        value={node_fraction}
                        options={FRACTIONS}
                    />
                    <Choice
                        label="Without calls below"
                        name="edge_fraction"
                        value={edge_fraction}
                        options={FRACTIONS}
                    />
                </div>
            )}
        </Popover>
    );
}

/** The graph for Graphviz, as a file. Not a plain link: the token would not be sent with it. */
async function saveDot() {
    const { scope, view } = state.value;
    const params = { ...filterParams(view), ...frameParams(view), ...trimming(), format: "dot" };
    try {
        const blob = await (await ask("graph", scope, params)).blob();
        const a = document.createElement("a");
        a.href = URL.createObjectURL(blob);
        a.download = `${scope.service || "profile"}.dot`;
        a.click();
        setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
    } catch (e) {
        say(e instanceof ApiError ? e.message : String(e));
    }
}

/** The same as text: each function with whom it calls. */
function GraphList(props: { graph: Graph; whole: number }) {
    const { graph } = props;
    const name = (i: number) => clipText(graph.nodes[i].name, 200) || "(no name)";
    return (
        <details class="graph-list">
            <summary>As a list</summary>
            <ol>
                {graph.nodes.map((n, i) => (
                    <li key={i}>
                        <button
                            type="button"
                            class="graph-link"
                            onClick={() => openCallers(n.name)}
                        >
                            <bdi>{name(i)}</bdi>
                        </button>
                        : {shareText(n.flat, props.whole)} itself, {shareText(n.cum, props.whole)}{" "}
                        in all
                        {graph.edges
                            .filter((e) => e.caller === i)
                            .map((e, k) => (
                                <span key={k}>
                                    {k === 0 ? "; calls " : ", "}
                                    <bdi>{name(e.callee)}</bdi> ({amountText(e.value, graph.unit)}
                                    {e.is_residual ? ", through others" : ""})
                                </span>
                            ))}
                    </li>
                ))}
            </ol>
        </details>
    );
}

export default function GraphView() {
    const { scope, view } = state.value;
    const trim = trimming();
    const q = useQuery<Graph>(
        questionKey("graph", scope, view, trim),
        (signal) => askGraph(scope, view, trim, signal),
        ticks.value,
    );
    const all = useQuery(
        questionKey("rows", scope, view),
        (signal) => askTop(scope, view, { limit: 1 }, signal),
        ticks.value,
    );
    const whole = useWhole(q.data?.total);
    const face = faceOf(q);
    if (face || !q.data) return face;
    const n = q.data.nodes.length;
    const rows = all.data?.all_rows;
    return (
        <Loading isOld={q.isOld}>
            <div class="view">
                <div class="view-bar">
                    <span role="status">
                        {rows === undefined
                            ? countText(n)
                            : `${countText(n)} of ${countText(rows)}`}{" "}
                        functions, {countText(q.data.edges.length)} calls. Left out: functions below{" "}
                        {shareText(Number(trim.node_fraction), 1)}, calls below{" "}
                        {shareText(Number(trim.edge_fraction), 1)}; dashed calls go through them.
                    </span>
                    <span class="view-space" />
                    <Trim trim={trim} />
                    <RelativeToggle />
                    <button type="button" class="button small" onClick={saveDot}>
                        Save .dot
                    </button>
                </div>
                {n === 0 ? (
                    <NothingHere />
                ) : (
                    <>
                        <GraphPicture graph={q.data} whole={whole} />
                        <GraphList graph={q.data} whole={whole} />
                    </>
                )}
            </div>
        </Loading>
    );
}
