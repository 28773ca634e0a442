// Who calls the function, and whom it calls: of one service, over the whole profile.

import {
    askCallers,
    type CallRow,
    type Callers,
    plainView,
    scopeParams,
} from "../../api/questions";
import { href, state, ticks } from "../../app";
import type { Scope } from "../../core/url";
import { Amount, Share } from "../../parts/figures";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";

const SHOWN = 12;

function Rows(props: {
    title: string;
    rows: readonly CallRow[];
    of: number;
    unit: string;
    none: string;
}) {
    const rows = props.rows.slice(0, SHOWN);
    const left = props.rows.length - rows.length;
    return (
        <section class="fn-section">
            <h3>{props.title}</h3>
            {rows.length === 0 ? (
                <p class="muted">{props.none}</p>
            ) : (
                <table class="table fn-calls">
                    <thead>
                        <tr>
                            <th scope="col">Function</th>
                            <th scope="col" class="number">
                                Amount
                            </th>
                            <th scope="col" class="number">
                                Share
                            </th>
                        </tr>
                    </thead>
                    <tbody>
                        {rows.map((r) => (
                            <tr key={`${r.name} ${r.file}`}>
                                <td class="fn-clip" title={`${r.name}\n${r.file}`}>
                                    <a
                                        href={href({
                                            ...state.value,
                                            view: { ...state.value.view, selected: r.name },
                                        })}
                                    >
                                        <bdi>{r.name || "(no name)"}</bdi>
                                    </a>
                                </td>
                                <td class="number">
                                    <Amount value={r.cum} unit={props.unit} />
                                </td>
                                <td class="number">
                                    <Share part={r.cum} whole={props.of} />
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            )}
            {left > 0 && <p class="muted">and {left} more, in Explore</p>}
        </section>
    );
}

export function Neighbours(props: { scope: Scope; name: string }) {
    const { scope, name } = props;
    const q = useQuery<Callers>(
        `callers ${name} ${JSON.stringify(scopeParams(scope))}`,
        (signal) => askCallers(scope, plainView(), name, signal),
        ticks.value,
    );
    if (q.error?.status === 404) return <p class="muted">Nothing calls it here in this range.</p>;
    if (q.error) return <ErrorBox error={q.error} retry={q.retry} />;
    if (!q.data) return <Skeleton rows={4} label="Loading callers" />;
    const d = q.data;
    return (
        <Loading isOld={q.isOld}>
            <div class="fn-columns">
                <Rows
                    title="Callers"
                    rows={d.callers}
                    of={d.function.cum}
                    unit={d.unit}
                    none="Nobody: it is where stacks begin."
                />
                <Rows
                    title="Callees"
                    rows={d.callees}
                    of={d.function.cum}
                    unit={d.unit}
                    none="It calls nothing that was seen."
                />
            </div>
        </Loading>
    );
}
