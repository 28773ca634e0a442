/* OTLP traces: spans, for telling what code ran in them. */
#include <errno.h>

#include "base/clock.h"
#include "server/mask.h"
#include "server/otlp_reply.h"
#include "server/otlp_spans.h"
#include "server/server_internal.h"
#include "server/tenant_limits.h"

/* Label rules hold for names and attributes; attributes lie in the call's arena and may change. */
static void mask_spans(struct call *c, struct otlp_spans *s)
{
    struct mask_memory *m = c->worker->masked;
    struct arena *arena = call_arena(c);

    for (size_t i = 0; m && i < s->n; i++) {
        struct store_span *span = &s->all[i];
        struct label *attributes = (struct label *)span->attributes;
        span->name = mask_value(m, span->name, arena);
        span->service = mask_value(m, span->service, arena);
        for (size_t k = 0; k < span->n_attributes; k++)
            attributes[k].value = mask_value(m, attributes[k].value, arena);
    }
}

static int keep_spans(struct call *c, struct otlp_spans *s, struct error *err)
{
    struct server *server = c->server;

    int r = server->limits ? limits_take_ingest(server->limits, c->tenant, c->body.len, 0,
                                                &c->retry_after_ms, err)
                           : 0;
    if (r < 0)
        return r;
    mask_spans(c, s);
    r = store_append_spans(server->store, c->tenant, s->all, s->n, err);
    if (r < 0)
        return r;
    metrics_add(server->metrics, METRIC_INGEST_SPANS, "", s->n);
    if (s->rejected > 0)
        metrics_add(server->metrics, METRIC_REJECTS, "spans", s->rejected);
    return 0;
}

static int export_traces(struct call *c, struct error *err)
{
    CLEANUP(otlp_spans_done) struct otlp_spans spans = {.arena = call_arena(c)};
    struct otlp_spans_options o = {.attributes = &c->server->config->span_attributes,
                                   .is_json = c->is_json,
                                   .now_ns = clock_wall_ns(clock_real())};

    c->format = "otlp_traces";
    int r = otlp_check_type(c, err);
    if (r == 0)
        r = otlp_spans_decode(c->body, &o, &spans, err);
    if (r == 0) {
        metrics_add(c->server->metrics, METRIC_INGEST_REQUESTS, "otlp_traces", 1);
        metrics_add(c->server->metrics, METRIC_INGEST_BYTES, "otlp_traces", c->body.len);
        r = keep_spans(c, &spans, err);
    }
    if (r < 0)
        return r;
    otlp_reply(c, "rejectedSpans", spans.rejected, spans.why.text);
    return 0;
}

const struct route traces_routes[] = {
    {.method = "POST",
     .path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
     .role = ROLE_INGEST,
     .lane = LANE_INGEST,
     .dialect = DIALECT_RPC,
     .handle = export_traces},
    {.method = "POST",
     .path = "/v1/traces",
     .role = ROLE_INGEST,
     .lane = LANE_INGEST,
     .dialect = DIALECT_OTLP,
     .handle = export_traces},
    {0},
};
