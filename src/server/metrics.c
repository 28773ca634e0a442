#include "server/metrics.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"

/* A family's values, in the order they were first seen. A slot is taken by setting its name. */
struct values {
    _Atomic(const char *) names[METRIC_VALUES_MAX];
    atomic_uint_fast64_t counts[METRIC_VALUES_MAX];
};

/* Upper bounds of the buckets, in microseconds; one more for what is above. */
static const uint32_t bounds_us[] = {100,   250,   500,    1000,   2500,    5000,    10000,
                                     25000, 50000, 100000, 250000, 1000000, 5000000, 30000000};
#define BUCKETS (ARRAY_SIZE(bounds_us) + 1)

struct times {
    _Atomic(const char *) names[METRIC_VALUES_MAX];
    atomic_uint_fast64_t buckets[METRIC_VALUES_MAX][BUCKETS];
    atomic_uint_fast64_t sum_us[METRIC_VALUES_MAX];
};

struct metrics {
    struct values values[METRIC_COUNT];
    struct times times[METRIC_TIME_COUNT];
};

struct family {
    const char *name, *label, *help;
};

static const struct family counters[METRIC_COUNT] = {
    [METRIC_INGEST_REQUESTS] = {"vesta_ingest_requests_total", "format",
                                "Requests that brought profiles"},
    [METRIC_INGEST_PROFILES] = {"vesta_ingest_profiles_total", "format", "Profiles stored"},
    [METRIC_INGEST_SAMPLES] = {"vesta_ingest_samples_total", "format", "Samples stored"},
    [METRIC_INGEST_BYTES] = {"vesta_ingest_bytes_total", "format", "Bytes received, unpacked"},
    [METRIC_INGEST_SPANS] = {"vesta_ingest_spans_total", "", "Spans stored"},
    [METRIC_DUPLICATES] = {"vesta_ingest_duplicates_total", "format",
                           "Profiles that were stored already"},
    [METRIC_REJECTS] = {"vesta_rejects_total", "reason", "What was refused, and why"},
    [METRIC_HTTP_REQUESTS] = {"vesta_http_requests_total", "status", "Requests answered"},
    [METRIC_AUTH_FAILURES] = {"vesta_auth_failures_total", "reason",
                              "Requests without the right to ask"},
    [METRIC_QUERIES] = {"vesta_queries_total", "route", "Questions answered"},
    [METRIC_SYMBOLS] = {"vesta_symbols_total", "outcome", "Names looked up for addresses"},
    [METRIC_MASKED] = {"vesta_masked_total", "kind", "Texts changed by masking rules"},
    [METRIC_CONTROL] = {"vesta_control_total", "kind", "Heartbeats and directives"},
};

static const struct family durations[METRIC_TIME_COUNT] = {
    [METRIC_INGEST_SECONDS] = {"vesta_ingest_seconds", "format",
                               "From a complete request to its answer"},
    [METRIC_APPEND_SECONDS] = {"vesta_append_seconds", "", "Appending to the store, sync included"},
    [METRIC_QUERY_SECONDS] = {"vesta_query_seconds", "route", "Answering a question"},
    [METRIC_QUEUE_SECONDS] = {"vesta_queue_seconds", "lane", "Waiting for a worker"},
};

struct metrics *metrics_new(void)
{
    return must_calloc(1, sizeof(struct metrics));
}

void metrics_free(struct metrics *m)
{
    free(m);
}

/* The slot of a value; the last one is for all that did not fit. */
static size_t slot_of(_Atomic(const char *) names[METRIC_VALUES_MAX], const char *value)
{
    for (size_t i = 0; i + 1 < METRIC_VALUES_MAX; i++) {
        const char *there = NULL;
        if (atomic_compare_exchange_strong(&names[i], &there, value) || there == value ||
            strcmp(there, value) == 0)
            return i;
    }
    atomic_store(&names[METRIC_VALUES_MAX - 1], "other");
    return METRIC_VALUES_MAX - 1;
}

void metrics_add(struct metrics *m, enum metric which, const char *value, uint64_t n)
{
    struct values *v = &m->values[which];
    atomic_fetch_add_explicit(&v->counts[slot_of(v->names, value)], n, memory_order_relaxed);
}

void metrics_observe(struct metrics *m, enum metric_time which, const char *value, int64_t ns)
{
    struct times *t = &m->times[which];
    uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
    size_t slot = slot_of(t->names, value), bucket = 0;

    while (bucket < ARRAY_SIZE(bounds_us) && us > bounds_us[bucket])
        bucket++;
    atomic_fetch_add_explicit(&t->buckets[slot][bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->sum_us[slot], us, memory_order_relaxed);
}

uint64_t metrics_get(const struct metrics *m, enum metric which, const char *value)
{
    const struct values *v = &m->values[which];
    for (size_t i = 0; i < METRIC_VALUES_MAX; i++) {
        const char *name = atomic_load(&v->names[i]);
        if (name && strcmp(name, value) == 0)
            return atomic_load_explicit(&v->counts[i], memory_order_relaxed);
    }
    return 0;
}

/* Values are our own words: nothing in them needs escaping. */
static void add_labels(const struct family *f, const char *value, const char *le, struct buf *out)
{
    bool has_label = f->label[0] && value[0];
    if (!has_label && !le)
        return;
    buf_add_byte(out, '{');
    if (has_label)
        buf_addf(out, "%s=\"%s\"", f->label, value);
    if (le)
        buf_addf(out, "%sle=\"%s\"", has_label ? "," : "", le);
    buf_add_byte(out, '}');
}

static void write_counter(const struct values *v, const struct family *f, struct buf *out)
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s counter\n", f->name, f->help, f->name);
    for (size_t i = 0; i < METRIC_VALUES_MAX; i++) {
        const char *value = atomic_load(&v->names[i]);
        if (!value)
            continue;
        buf_add_str(out, f->name);
        add_labels(f, value, NULL, out);
        buf_addf(out, " %" PRIuFAST64 "\n", atomic_load(&v->counts[i]));
    }
}

static void write_histogram(const struct times *t, const struct family *f, size_t slot,
                            struct buf *out)
{
    const char *value = atomic_load(&t->names[slot]);
    uint64_t n = 0;

    for (size_t b = 0; b < BUCKETS; b++) {
        char le[24] = "+Inf";
        if (b < ARRAY_SIZE(bounds_us))
            snprintf(le, sizeof(le), "%g", bounds_us[b] / 1e6);
        n += atomic_load(&t->buckets[slot][b]);
        buf_addf(out, "%s_bucket", f->name);
        add_labels(f, value, le, out);
        buf_addf(out, " %" PRIu64 "\n", n);
    }
    buf_addf(out, "%s_sum", f->name);
    add_labels(f, value, NULL, out);
    buf_addf(out, " %.6f\n", (double)atomic_load(&t->sum_us[slot]) / 1e6);
    buf_addf(out, "%s_count", f->name);
    add_labels(f, value, NULL, out);
    buf_addf(out, " %" PRIu64 "\n", n);
}

void metrics_write(const struct metrics *m, struct buf *out)
{
    for (size_t i = 0; i < METRIC_COUNT; i++)
        write_counter(&m->values[i], &counters[i], out);
    for (size_t i = 0; i < METRIC_TIME_COUNT; i++) {
        const struct family *f = &durations[i];
        buf_addf(out, "# HELP %s %s\n# TYPE %s histogram\n", f->name, f->help, f->name);
        for (size_t slot = 0; slot < METRIC_VALUES_MAX; slot++)
            if (atomic_load(&m->times[i].names[slot]))
                write_histogram(&m->times[i], f, slot, out);
    }
}
