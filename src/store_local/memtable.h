#pragma once

#include "base/idset.h"
#include "store_local/local_internal.h"
#include "store_local/records.h"

/*
 * What was appended and is not in a segment yet. Rows are added under local->lock and never change:
 * a reader that took `newest` of a series under the lock, and a reference to the memtable, walks
 * the list without it. Everything below wants the lock held.
 */
struct memtable_series {
    uint32_t tenant, series;
    const struct row *newest;
    uint32_t n_rows;
    int64_t min_start_ns, max_start_ns;
};

/* Spans of one append, as their record has them. */
struct span_batch {
    const struct span_batch *older;
    uint64_t seq;
    uint32_t tenant;
    struct bytes payload;
};

/* What makes two spans the same one; the first is a hash of all but the id. */
struct span_key {
    uint64_t trace_and_start, span_id;
};

struct memtable {
    uint32_t refs; /* the store's and those of snapshots */
    struct budget budget;
    struct arena arena;
    VEC(struct memtable_series) series; /* in the order of their first rows */
    struct idset series_index;
    VEC(const struct row *) rows;   /* all, in the order they were linked... */
    VEC(uint32_t) row_series;       /* ...and the series each belongs to, an index into `series` */
    struct idset row_index;         /* for finding the same profile again */
    VEC(struct epoch *) epochs;     /* that rows refer to; each has this memtable counted */
    const struct span_batch *spans; /* newest first */
    VEC(struct span_key) span_keys; /* of all spans... */
    struct idset span_index;        /* ...and where to find them */
    uint64_t n_samples, n_span_batches;
    int64_t min_start_ns, max_start_ns; /* of rows; min > max while there are none */
    uint64_t max_seq;                   /* of all that is in it */
};

struct memtable *memtable_new(void);
struct memtable *memtable_ref(struct memtable *m);
void memtable_unref(struct memtable *m); /* NULL is fine */

static inline size_t memtable_bytes(const struct memtable *m)
{
    return m ? m->budget.used : 0;
}

static inline bool memtable_is_empty(const struct memtable *m)
{
    return m->rows.len == 0 && !m->spans;
}

/* Copies a profile into the table and links it. NULL when there is no memory: nothing changed. */
const struct row *memtable_add(struct memtable *m, uint64_t seq, struct epoch *epoch,
                               const struct record_profile *p);

/* Copies a batch, whose spans are `rows`, into the table. False when there is no memory: nothing
 * changed. */
struct span_rows; /* span_codec.h */
bool memtable_add_spans(struct memtable *m, uint64_t seq, const struct record_spans *s,
                        const struct span_rows *rows);
bool memtable_has_span(const struct memtable *m, uint32_t tenant, const struct store_span *span);

/* What makes two profiles the same one. */
struct row_key {
    uint32_t tenant, series;
    int64_t start_ns;
    bool has_id;
    const uint8_t *id;
    uint64_t content_hash; /* counts when there is no id */
};
bool memtable_has(const struct memtable *m, const struct row_key *key);
