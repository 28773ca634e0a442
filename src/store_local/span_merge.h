#pragma once

#include "base/vec.h"
#include "store_local/local_internal.h"
#include "store_local/span_codec.h"
#include "store_local/span_file.h"

/*
 * Spans of many batches as one list in order (span_compare()), the same span once. Each batch is in
 * order, so only those that overlap in time are unpacked at once. For one thread.
 *
 *     span_merge_init(&m, l, budget, from_ns, to_ns);
 *     span_merge_add...();
 *     while ((r = span_merge_next(&m, &span, err)) > 0) ...
 *     span_merge_done(&m);
 */
struct span_source {
    int64_t min_ns, max_ns;
    struct bytes payload;    /* in memory, or... */
    struct span_file *file;  /* ...NULL, or a block of this... */
    struct segment *segment; /* ...segment */
    struct block_ref ref;
};

struct span_open; /* a batch that was unpacked */

struct span_merge {
    struct local *l;
    struct budget *budget;
    int64_t from_ns, to_ns;
    const uint8_t *trace_id; /* NULL: any; others may turn up all the same */
    bool stops_at_damage;    /* else what is damaged is named in the log and left out */
    struct segment *damaged; /* the last segment in which something was damaged */
    bool is_incomplete;      /* something was left out: `trouble` says what */
    struct error trouble;
    struct budget own; /* of the lists */
    VEC(struct span_source) sources;
    size_t next_source;
    VEC(struct span_open *) heap; /* by their current spans */
    struct store_span last;       /* what was yielded last: only its ids and start are there */
    bool has_last, is_yielded, is_sorted;
};

/* Spans that start in [from, to). What is unpacked is charged to the budget. */
void span_merge_init(struct span_merge *m, struct local *l, struct budget *budget, int64_t from_ns,
                     int64_t to_ns);
void span_merge_done(struct span_merge *m);

/* False when there is no memory. Batches outside the range are left out. Payloads and segments must
 * live until the end. */
bool span_merge_add_bytes(struct span_merge *m, struct bytes payload);
bool span_merge_add_block(struct span_merge *m, struct segment *s, struct span_file *f,
                          const struct span_block *b);

/* 1 and a span, valid until the next call; 0 at the end; -ENOBUFS past the budget; what prevented
 * reading (-EIO...), or with stops_at_damage -EBADMSG. */
int span_merge_next(struct span_merge *m, const struct store_span **ret, struct error *err);
