// The lines of the function that cost something; each leads into its source.

import { askTop, plainView, scopeParams } from "../../api/questions";
import { href, pageState, ticks } from "../../app";
import { exactRegex } from "../../core/regex";
import type { Scope } from "../../core/url";
import { Amount, Share } from "../../parts/figures";
import { Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { linesOf } from "./figures";

const SHOWN = 15;

export function Lines(props: { scope: Scope; name: string }) {
    const { scope, name } = props;
    const q = useQuery(
        `lines ${name} ${JSON.stringify(scopeParams(scope))}`,
        (signal) => {
            const view = plainView("lines");
            view.filters = [{ kind: "focus", value: exactRegex(name) }];
            return askTop(scope, view, { limit: 10000, order: "cum" }, signal);
        },
        ticks.value,
    );
    const lines = q.data ? linesOf(q.data.rows, name) : [];
    const whole = lines.reduce((sum, l) => sum + l.cum, 0);
    const source = (file: string, line: number) => {
        const s = pageState("explore");
        return href({
            ...s,
            scope,
            view: { ...s.view, view: "source", source: file, line, selected: name },
        });
    };
    return (
        <section class="fn-section">
            <h3>Lines</h3>
            {q.error && <p class="muted">{q.error.message}</p>}
            {!q.data && !q.error && <Skeleton rows={3} label="Loading lines" />}
            {q.data && lines.length === 0 && (
                <p class="muted">
                    No line numbers are known: the binary has no debug information here.
                </p>
            )}
            {lines.length > 0 && (
                <table class="table fn-calls">
                    <thead>
                        <tr>
                            <th scope="col">Line</th>
                            <th scope="col" class="number">
                                Self
                            </th>
                            <th scope="col" class="number">
                                Total
                            </th>
                            <th scope="col" class="number">
                                Share
                            </th>
                        </tr>
                    </thead>
                    <tbody>
                        {lines.slice(0, SHOWN).map((l) => (
                            <tr key={`${l.file}:${l.line}`}>
                                <td class="fn-clip" title={`${l.file}:${l.line}`}>
                                    <a class="mono" href={source(l.file, l.line)}>
                                        <bdi>
                                            {l.file.split("/").pop()}:{l.line}
                                        </bdi>
                                    </a>
                                </td>
                                <td class="number">
                                    <Amount value={l.flat} unit={q.data?.unit ?? ""} />
                                </td>
                                <td class="number">
                                    <Amount value={l.cum} unit={q.data?.unit ?? ""} />
                                </td>
                                <td class="number">
                                    <Share part={l.cum} whole={whole} />
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            )}
            {lines.length > SHOWN && <p class="muted">and {lines.length - SHOWN} more lines</p>}
        </section>
    );
}
