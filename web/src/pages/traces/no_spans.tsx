// No spans: where they come from, and how samples learn which span they belong to.

import { ourWays } from "../../parts/ways";
import { Command, Empty } from "../../parts/states";

export function NoSpans(props: { service: string; linksOnly?: boolean }) {
    const ways = ourWays();
    const of = props.service ? ` of ${props.service}` : "";
    return (
        <Empty
            title={
                props.linksOnly
                    ? `No samples${of} are linked to spans`
                    : `No spans${of} in this range`
            }
        >
            {!props.linksOnly && (
                <>
                    <p>
                        Send traces to this server by OTLP, beside where they go now. It keeps
                        names, times and status of spans; nothing else.
                    </p>
                    <Command
                        text={`export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=${ways.otlpHttp}/v1/traces`}
                    />
                </>
            )}
            <p>
                Samples know their span when the program says which one it is in. SDKs that publish
                the OpenTelemetry thread context are understood by the agent as they are; Go
                programs say it with labels:
            </p>
            <Command
                text={
                    'pprof.Do(ctx, pprof.Labels("trace_id", sc.TraceID().String(), "span_id", sc.SpanID().String()), handle)'
                }
            />
            <p>
                Until then every span still leads to the profile of its service at that time. A
                longer range may hold some.
            </p>
        </Empty>
    );
}
