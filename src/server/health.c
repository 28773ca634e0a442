/* What machines and people ask first: is it alive, is it ready, what does it count. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/jobs.h"
#include "server/routes.h"
#include "server/server_internal.h"

static int reply_text(struct call *c, const char *text)
{
    CLEANUP(buf_done) struct buf body = {0};
    buf_add_str(&body, text);
    call_reply(c, "text/plain; charset=utf-8", &body);
    return 0;
}

static int handle_health(struct call *c, struct error *err)
{
    (void)err;
    return reply_text(c, "ok\n");
}

/* Ready is: profiles that are sent now would be kept. */
static int handle_ready(struct call *c, struct error *err)
{
    struct store_stat st;

    if (atomic_load(&c->server->is_draining))
        return error_set(err, -ESHUTDOWN, "the server is being shut down");
    store_stat(c->server->store, &st);
    if (st.trouble[0])
        return error_set(err, -EROFS, "%s", st.trouble);
    return reply_text(c, "ready\n");
}

static void gauge(struct buf *out, const char *name, const char *help, uint64_t value)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %" PRIu64 "\n", name, help, name, name, value);
}

static void counter(struct buf *out, const char *name, const char *help, uint64_t value)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s counter\n%s %" PRIu64 "\n", name, help, name, name,
             value);
}

static void add_store(struct server *s, struct buf *out)
{
    struct store_stat st;

    store_stat(s->store, &st);
    gauge(out, "vesta_store_segments", "Files of samples", st.segments);
    gauge(out, "vesta_store_series", "Series", st.series);
    gauge(out, "vesta_store_profiles", "Profiles kept", st.profiles);
    gauge(out, "vesta_store_samples", "Samples kept", st.samples);
    gauge(out, "vesta_store_spans", "Spans kept", st.spans);
    gauge(out, "vesta_store_disk_bytes", "Bytes on disk", st.disk_bytes);
    gauge(out, "vesta_store_disk_limit_bytes", "Bytes it may take", st.limit_bytes);
    gauge(out, "vesta_store_disk_free_bytes", "Bytes free on its disk", st.free_bytes);
    gauge(out, "vesta_store_wal_bytes", "Bytes of the log", st.wal_bytes);
    gauge(out, "vesta_store_head_bytes", "Bytes in memory, not yet in segments", st.head_bytes);
    gauge(out, "vesta_store_head_limit_bytes", "Bytes it may hold there", st.head_limit);
    gauge(out, "vesta_store_cache_bytes", "Bytes of cached blocks", st.cache_bytes);
    counter(out, "vesta_store_rejected_total", "Profiles the store did not take", st.rejected);
    counter(out, "vesta_store_lost_records_total", "Damaged records found when it was opened",
            st.lost_records);
    gauge(out, "vesta_store_writable", "1 while profiles can be stored",
          !st.is_read_only && !st.trouble[0]);
}

static void add_http(struct server *s, struct buf *out)
{
    struct http_server_stat st = {0};

    if (s->http)
        http_server_stat(s->http, &st);
    gauge(out, "vesta_http_connections", "Connections now", st.connections);
    counter(out, "vesta_http_accepted_total", "Connections accepted", st.accepted);
    counter(out, "vesta_http_refused_total", "Connections refused: too many", st.refused);
    counter(out, "vesta_http_timeouts_total", "Connections that were too slow", st.timeouts);
    counter(out, "vesta_http_protocol_errors_total", "Connections that spoke no sound HTTP",
            st.protocol_errors);
    gauge(out, "vesta_http_body_bytes", "Bytes of bodies being received", st.body_memory);
    counter(out, "vesta_http_received_bytes_total", "Bytes received", st.bytes_in);
    counter(out, "vesta_http_sent_bytes_total", "Bytes sent", st.bytes_out);
}

static void add_process(struct server *s, struct buf *out)
{
    unsigned long total = 0, resident = 0;
    CLEANUP(fclosep) FILE *f = fopen("/proc/self/statm", "re");

    /* NOLINTNEXTLINE(cert-err34-c): the kernel wrote them */
    if (f && fscanf(f, "%lu %lu", &total, &resident) == 2)
        gauge(out, "process_resident_memory_bytes", "Memory in use",
              resident * (uint64_t)sysconf(_SC_PAGESIZE));
    buf_addf(out,
             "# HELP process_start_time_seconds When it was started\n"
             "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.3f\n",
             (double)s->start_ns / 1e9);
    buf_addf(out,
             "# HELP vesta_build_info The version that runs\n# TYPE vesta_build_info gauge\n"
             "vesta_build_info{version=\"%s\"} 1\n",
             VESTA_VERSION);
    if (!s->jobs)
        return;
    buf_addf(out,
             "# HELP vesta_queue_length Requests that wait for a worker\n"
             "# TYPE vesta_queue_length gauge\nvesta_queue_length{lane=\"ingest\"} %zu\n"
             "vesta_queue_length{lane=\"query\"} %zu\n",
             jobs_waiting(s->jobs, LANE_INGEST), jobs_waiting(s->jobs, LANE_QUERY));
}

static int handle_metrics(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};

    (void)err;
    metrics_write(c->server->metrics, &out);
    add_store(c->server, &out);
    add_http(c->server, &out);
    add_process(c->server, &out);
    call_reply(c, "text/plain; version=0.0.4; charset=utf-8", &out);
    return 0;
}

const struct route status_routes[] = {
    {"GET", "/healthz", ROLE_ANYONE, LANE_QUICK, .handle = handle_health,
     .summary = "The process is alive"},
    {"GET", "/readyz", ROLE_ANYONE, LANE_QUERY, .handle = handle_ready,
     .summary = "What is sent now would be kept"},
    {"GET", "/ready", ROLE_ANYONE, LANE_QUERY, .handle = handle_ready},
    {"GET", "/metrics", ROLE_ANYONE, LANE_QUERY, .handle = handle_metrics,
     .summary = "Counters as Prometheus reads them"},
    {0},
};
