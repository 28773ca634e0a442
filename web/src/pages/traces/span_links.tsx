// From a span to profiles: of the span, of its trace, of the whole service at that time.

import { href } from "../../app";
import { timeParam } from "../../core/time";
import { emptyState, type Scope, type State } from "../../core/url";

// Profiles are windows of some seconds: a shorter range would miss the one that holds the span.
const MARGIN_MS = 30_000;

export interface SpanPlace {
    trace: string;
    span: string;
    start_ns: string;
    duration_ns?: string;
}

export function spanStates(scope: Scope, at: SpanPlace, service: string) {
    const start = Number(at.start_ns) / 1e6;
    const end = start + Number(at.duration_ns ?? 0) / 1e6;
    const around: Scope = {
        ...scope,
        service,
        labels: [],
        from: timeParam(start - MARGIN_MS),
        until: timeParam(end + MARGIN_MS),
        id: "",
        trace: "",
        span: "",
        file: "",
    };
    const to = (s: Scope): State => ({ ...emptyState("explore"), scope: s });
    return {
        span: to({ ...around, trace: at.trace, span: at.span }),
        trace: to({ ...around, service: "", trace: at.trace }),
        period: to(around),
    };
}

export function SpanLinks(props: {
    scope: Scope;
    span: SpanPlace;
    service: string;
    hasSamples: boolean;
}) {
    const to = spanStates(props.scope, props.span, props.service);
    return (
        <span class="traces-links">
            {props.hasSamples && (
                <>
                    <a href={href(to.span)}>this span</a>
                    <a href={href(to.trace)}>this trace</a>
                </>
            )}
            <a href={href(to.period)}>the service then</a>
        </span>
    );
}
