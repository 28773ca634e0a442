#pragma once

#include "store_local/local_internal.h"
#include "store_local/memtable.h"
#include "store_local/records.h"

/*
 * Spans for correlation: what samples were taken in. They go through the same WAL and memtable as
 * profiles, as batches of columns (span_codec.h), and into segments of their own (span_file.h),
 * which are merged and expire by themselves. A span is stored once however often it is sent: it is
 * the same one when trace, id and start are.
 *
 * What is not of a series cannot be selected: store_erase() leaves spans alone.
 */
#define SPAN_NAME_MAX            1024
#define SPAN_SERVICE_MAX         1024
#define SPAN_ATTRIBUTE_NAME_MAX  256
#define SPAN_ATTRIBUTE_VALUE_MAX 4096

/* store_append_spans(). One bad span refuses the call, -EINVAL naming it and the limit; spans older
 * than they would be kept are left out. */
int local_append_spans(struct store *s, struct bytes tenant, const struct store_span *spans,
                       size_t n, struct error *err);

/* store_spans(): in the order of starts. */
int local_spans(struct store *s, const struct store_span_find *find, store_span_fn sink, void *ctx,
                struct error *err);

/* What a record of spans does (link.h): those that are not there yet go into the memtable. With the
 * lock held. */
int spans_link(struct local *l, uint64_t seq, const struct record_spans *rec, struct error *err);

/*
 * Writes the spans of a frozen memtable as segments of tier 0, one for each tenant and hour (of
 * spans older than SPANS_HOURS_MAX hours before the newest: each day). Each goes to add(ctx,
 * segment), which takes it over or fails. With upkeep_lock held and the lock not.
 */
#define SPANS_HOURS_MAX 32
struct spans_flush {
    const struct memtable *memtable;
    uint64_t tombstone_seq;
    int (*add)(void *ctx, struct segment *s);
    void *ctx;
};
int spans_flush(struct local *l, const struct spans_flush *f, struct error *err);

/*
 * Merges segments of spans of one hour or day when that is due at `now`; with `all`, whenever there
 * are several. 1 when it did and there may be more, 0 when nothing is due. After a failure nothing
 * has changed. With upkeep_lock held and the lock not.
 */
int spans_compact(struct local *l, int64_t now_ns, bool all, struct error *err);
