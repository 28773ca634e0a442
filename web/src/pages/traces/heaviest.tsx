// Spans by what was sampled in them: where the CPU (or the waiting) of single requests went.

import { askExemplars } from "../../api/spans";
import { ticks } from "../../app";
import { clockText } from "../../core/time";
import type { Scope } from "../../core/url";
import { Amount } from "../../parts/figures";
import { ErrorBox, Loading, Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { NoSpans } from "./no_spans";
import { SpanLinks } from "./span_links";

export function Heaviest(props: { scope: Scope }) {
    const { scope } = props;
    const key = JSON.stringify(["heaviest", scope]);
    const found = useQuery(key, (signal) => askExemplars(scope, 200, signal), ticks.value);
    if (found.error && found.error.status !== 404)
        return <ErrorBox error={found.error} retry={found.retry} />;
    if (!found.data && !found.error) return <Skeleton rows={10} />;
    const list = found.data ?? [];
    if (list.length === 0) return <NoSpans service={scope.service} linksOnly />;
    const most = Math.max(...list.map((e) => e.value), 1);
    const unit = /cpu|wall|lock|delay|time/.test(scope.type) ? "nanoseconds" : "";
    return (
        <Loading isOld={found.isOld}>
            <div class="traces-scroll">
                <table class="table">
                    <thead>
                        <tr>
                            <th scope="col" class="number">
                                {scope.type.split(":")[0]} in it
                            </th>
                            <th scope="col">Service</th>
                            <th scope="col">Start</th>
                            <th scope="col">Trace</th>
                            <th scope="col">Profile of</th>
                        </tr>
                    </thead>
                    <tbody>
                        {list.map((e) => (
                            <tr key={e.trace + e.span + e.start_ns}>
                                <td class="number traces-bar-cell traces-duration">
                                    <span
                                        class="traces-bar"
                                        style={{ width: `${(100 * e.value) / most}%` }}
                                    />
                                    <span class="traces-bar-text">
                                        <Amount value={e.value} unit={unit} />
                                    </span>
                                </td>
                                <td>{e.labels["service.name"] ?? ""}</td>
                                <td class="traces-when">
                                    {clockText(Number(e.start_ns) / 1e6, Date.now(), true)}
                                </td>
                                <td class="mono" title={e.trace}>
                                    {e.trace.slice(0, 16)}…
                                </td>
                                <td>
                                    <SpanLinks
                                        scope={scope}
                                        span={e}
                                        service={e.labels["service.name"] ?? ""}
                                        hasSamples
                                    />
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
        </Loading>
    );
}
