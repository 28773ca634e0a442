// Spans and what ran in them: operations with their latencies, the slow spans of one, and from each
// the profile of that span, of its trace, or of the service at that time.

import { askServices } from "../../api/questions";
import { href, patchState, state, ticks } from "../../app";
import { typeOfKind } from "../../core/kinds";
import type { Scope } from "../../core/url";
import { Lazy } from "../../parts/lazy";
import { PlainScope } from "../../parts/plain_scope";
import { useQuery } from "../../parts/use_query";
import { Group } from "./group";
import { Groups } from "./groups";
import { Heaviest } from "./heaviest";
import "./traces.css";

const loadTrail = () => import("../../parts/trail");

/** The scope with a type that samples are weighed by: the one of the address, or CPU time. */
function useTypedScope(): Scope | null {
    const { scope } = state.value;
    const services = useQuery(
        `traces.types ${scope.from} ${scope.until}`,
        (signal) => askServices(scope.from, scope.until, signal),
        ticks.value,
    );
    if (scope.type) return scope;
    if (!services.data) return services.error ? scope : null;
    const of = services.data.filter((s) => !scope.service || s.service === scope.service);
    const types = [...new Set(of.flatMap((s) => s.types.map((t) => t.type)))];
    return { ...scope, type: typeOfKind("cpu", types) || types[0] || "" };
}

export default function TracesPage() {
    const s = state.value;
    const scope = useTypedScope();
    const group = s.extra.group ?? "";
    const tab = s.extra.tab === "heaviest" ? "heaviest" : "operations";
    return (
        <div class="page traces">
            {group ? (
                <nav aria-label="Where you are" class="traces-crumbs">
                    <a href={href({ ...s, extra: { ...s.extra, group: "" } })}>Traces</a>
                    <span aria-hidden="true"> › </span>
                    <span class="mono">{group}</span>
                </nav>
            ) : (
                <h1>Traces</h1>
            )}
            <PlainScope />
            {s.symptom && (
                <div class="traces-trail">
                    <Lazy load={loadTrail} />
                </div>
            )}
            {!group && (
                <div class="traces-tabs" role="group" aria-label="What to list">
                    {(
                        [
                            ["operations", "Operations"],
                            ["heaviest", "Heaviest spans"],
                        ] as const
                    ).map(([id, name]) => (
                        <button
                            key={id}
                            type="button"
                            class="button"
                            aria-pressed={tab === id}
                            onClick={() =>
                                patchState({
                                    extra: { ...s.extra, tab: id === "operations" ? "" : id },
                                })
                            }
                        >
                            {name}
                        </button>
                    ))}
                </div>
            )}
            {scope && group && <Group scope={scope} name={group} />}
            {scope && !group && tab === "operations" && <Groups scope={scope} />}
            {scope && !group && tab === "heaviest" && <Heaviest scope={scope} />}
        </div>
    );
}
