// What each version of a service spent in the function, as a share of what it spent at all: versions
// ran unequally long, so amounts would mislead.

import { useMemo } from "preact/hooks";
import { askFunction, askTimeline, scopeParams } from "../../api/questions";
import { href, pageState, ticks } from "../../app";
import { isGauge, pointsText } from "../../core/diff";
import { labelValues } from "../../core/starters";
import { agoText } from "../../core/time";
import type { Scope } from "../../core/url";
import { Amount, Share } from "../../parts/figures";
import { Skeleton } from "../../parts/states";
import { useQuery } from "../../parts/use_query";
import { groupFigures } from "./figures";

const BY = "service.version";

export function Versions(props: { scope: Scope; name: string }) {
    const { scope, name } = props;
    const key = JSON.stringify([scopeParams(scope), BY]);
    const fn = useQuery(
        `function ${name} ${key}`,
        (signal) => askFunction(scope, name, { by: BY, limit: 50 }, signal),
        ticks.value,
    );
    const whole = useQuery(
        `timeline ${key}`,
        (signal) => askTimeline(scope, { by: BY, limit: 50 }, signal),
        ticks.value,
    );
    const rows = useMemo(() => {
        if (!fn.data || !whole.data) return [];
        const all = groupFigures(fn.data, whole.data, BY, isGauge(scope.type));
        // The newest first: by when it was first seen.
        return all.sort((a, b) => (b.points[0]?.t ?? 0) - (a.points[0]?.t ?? 0));
    }, [fn.data, whole.data, scope.type]);
    const compare = (a: string, b: string) =>
        href(pageState("compare", labelValues(scope, BY, a, b)));
    const share = (i: number) => (rows[i].of === 0 ? Number.NaN : rows[i].cum / rows[i].of);
    const isNameless = rows.length === 1 && rows[0].name === "";
    return (
        <section class="fn-section">
            <h3>Versions</h3>
            {(fn.error ?? whole.error) && <p class="muted">{(fn.error ?? whole.error)?.message}</p>}
            {!fn.data && !fn.error && <Skeleton rows={3} label="Loading versions" />}
            {isNameless && (
                <p class="muted">
                    No versions are known. Services that send <code>service.version</code> are told
                    apart here.
                </p>
            )}
            {rows.length > 0 && !isNameless && (
                <table class="table fn-calls">
                    <thead>
                        <tr>
                            <th scope="col">Version</th>
                            <th scope="col" class="number">
                                Total
                            </th>
                            <th scope="col" class="number">
                                Of the version
                            </th>
                            <th scope="col" class="number">
                                Change
                            </th>
                            <th scope="col">
                                <span class="sr-only">Compare</span>
                            </th>
                        </tr>
                    </thead>
                    <tbody>
                        {rows.map((r, i) => {
                            const older = rows[i + 1];
                            return (
                                <tr key={r.name}>
                                    <td
                                        class="fn-clip"
                                        title={
                                            r.points[0] &&
                                            `first seen ${agoText(r.points[0].t, Date.now())}`
                                        }
                                    >
                                        {r.name || "(none)"}
                                    </td>
                                    <td class="number">
                                        <Amount value={r.cum} unit={fn.data?.unit ?? ""} />
                                    </td>
                                    <td class="number">
                                        <Share part={r.cum} whole={r.of} />
                                    </td>
                                    <td class="number">
                                        {older ? pointsText(share(i) - share(i + 1)) : "–"}
                                    </td>
                                    <td class="number">
                                        {older && (
                                            <a href={compare(older.name, r.name)}>
                                                Compare with {older.name || "none"}
                                            </a>
                                        )}
                                    </td>
                                </tr>
                            );
                        })}
                    </tbody>
                </table>
            )}
        </section>
    );
}
