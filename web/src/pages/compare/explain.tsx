// What explains the change: each function's own part of it, largest first, as bars to both sides.
// Own parts count nothing twice, so that with the rest they add up to the whole.

import type { DiffTable } from "../../api/questions";
import { href, openFrameMenu, pageState, state } from "../../app";
import { contributions, pointsText } from "../../core/diff";
import type { DiffMode } from "../../core/url";
import { changeText } from "../../core/units";

const MOST = 24;

/** With its history behind it where both sides are stored. */
function FunctionName(props: { name: string }) {
    const { name } = props;
    const { base, scope, view } = state.value;
    const onContextMenu = (e: MouseEvent) => {
        e.preventDefault();
        openFrameMenu(e.clientX, e.clientY, { name, file: "", line: 0, path: [] });
    };
    const text = <bdi>{name || "(no name)"}</bdi>;
    if (scope.file || base?.file) return <span onContextMenu={onContextMenu}>{text}</span>;
    return (
        <a
            href={href(pageState("function", { view: { ...view, selected: name } }))}
            title={`${name}: over time`}
            onContextMenu={onContextMenu}
        >
            {text}
        </a>
    );
}

export function Explain(props: { table: DiffTable; mode: DiffMode }) {
    const t = props.table;
    const isShare = props.mode === "share";
    const total = isShare ? 0 : t.after.total - t.before.total;
    const rows = t.rows.map((r) => ({
        name: r.name,
        value: isShare ? r.flat_share_change : r.flat_change,
    }));
    const shown = contributions(rows, total, MOST);
    const text = (v: number) => (isShare ? pointsText(v) : changeText(v, t.unit));
    const max = Math.max(...shown.map((c) => Math.abs(c.value)), 0) || 1;
    const isSure = new Map(t.rows.map((r) => [r.name, r.flat_significant]));
    const named = shown.filter((c) => !c.isRest).length;
    if (shown.length === 0)
        return <p class="cmp-note">No function changed what it spends by itself.</p>;
    return (
        <div class="cmp-why">
            <p class="cmp-note">
                {isShare
                    ? "Points of share that each function won or lost by itself. They add up to nothing: what one wins, others lose."
                    : `What each function added or saved by itself. Together: ${text(total)}.`}
            </p>
            <ol class="cmp-bars">
                {shown.map((c) => {
                    const width = `${(50 * Math.abs(c.value)) / max}%`;
                    const isMore = c.value > 0;
                    const unsure = !c.isRest && isSure.get(c.name) === 0;
                    const rest = `${Math.max(0, t.all_rows - named)} other functions`;
                    return (
                        <li
                            key={c.isRest ? "rest" : `f ${c.name}`}
                            class={unsure ? "cmp-bar-row is-unsure" : "cmp-bar-row"}
                        >
                            <span class="cmp-bar-name">
                                {c.isRest ? (
                                    <span class="muted">{rest}</span>
                                ) : (
                                    <FunctionName name={c.name} />
                                )}
                            </span>
                            <span class="cmp-bar" aria-hidden="true">
                                <span
                                    class={`cmp-bar-fill ${unsure ? "is-unsure" : isMore ? "is-more" : "is-less"}`}
                                    style={
                                        isMore ? { left: "50%", width } : { right: "50%", width }
                                    }
                                />
                            </span>
                            <span class="cmp-bar-figure">
                                {text(c.value)}
                                {unsure && <small title="not significant"> ≈</small>}
                            </span>
                        </li>
                    );
                })}
                <li class="cmp-bar-row is-sum">
                    <span class="cmp-bar-name">Together</span>
                    <span class="cmp-bar" aria-hidden="true">
                        <span
                            class={`cmp-bar-fill ${total > 0 ? "is-more" : "is-less"}`}
                            style={
                                total > 0
                                    ? { left: "50%", width: `${Math.min(50, (50 * total) / max)}%` }
                                    : {
                                          right: "50%",
                                          width: `${Math.min(50, (-50 * total) / max)}%`,
                                      }
                            }
                        />
                    </span>
                    <span class="cmp-bar-figure">{text(total)}</span>
                </li>
            </ol>
        </div>
    );
}
