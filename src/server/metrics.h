#pragma once

#include <stdint.h>

#include "base/buf.h"

/*
 * Counters of the server, for /metrics. Any thread may count; nothing waits. Each family has one
 * label, whose values are static strings (at most METRIC_VALUES_MAX: the rest is "other").
 */
enum metric {
    METRIC_INGEST_REQUESTS, /* by format */
    METRIC_INGEST_PROFILES, /* by format: stored */
    METRIC_INGEST_SAMPLES,  /* by format */
    METRIC_INGEST_BYTES,    /* by format, unpacked */
    METRIC_INGEST_SPANS,
    METRIC_DUPLICATES, /* by format */
    METRIC_REJECTS, /* by reason: "malformed", "too_large", "rate", "series", "labels", "time"... */
    METRIC_HTTP_REQUESTS, /* by status class and reason of refusal: "2xx", "401"... */
    METRIC_AUTH_FAILURES, /* by reason */
    METRIC_QUERIES,       /* by route */
    METRIC_SYMBOLS,       /* by outcome */
    METRIC_MASKED,        /* by kind */
    METRIC_CONTROL,       /* by kind */
    METRIC_COUNT,
};

enum metric_time {
    METRIC_INGEST_SECONDS, /* by format: request complete to answer */
    METRIC_APPEND_SECONDS, /* store_append(), sync included */
    METRIC_QUERY_SECONDS,  /* by route */
    METRIC_QUEUE_SECONDS,  /* by lane: waiting for a worker */
    METRIC_TIME_COUNT,
};

#define METRIC_VALUES_MAX 48

struct metrics;
struct metrics *metrics_new(void);
void metrics_free(struct metrics *m); /* NULL is fine */

/* `value` is the label's, a static string; "" for none. */
void metrics_add(struct metrics *m, enum metric which, const char *value, uint64_t n);
void metrics_observe(struct metrics *m, enum metric_time which, const char *value, int64_t ns);
uint64_t metrics_get(const struct metrics *m, enum metric which, const char *value);

/* As Prometheus reads it. */
void metrics_write(const struct metrics *m, struct buf *out);
