#pragma once

#include "store_local/cover.h"
#include "store_local/local_internal.h"

/*
 * Deleting by selector. A tombstone hides, at once and for good, all rows that start in its range
 * and belong to series it selects, in segments whose tombstone_seq is smaller than its own:
 * erasing flushes first, so that all rows that were there are in such segments, and rows appended
 * later never are. Compaction leaves hidden rows out and stamps what it writes; a tombstone that
 * has been applied everywhere goes.
 *
 * A selector with a type takes the series that measure it, whole: the values of a row stay
 * together.
 */

/* The tombstones of a version for one tenant, parsed. For one thread. */
struct hidden;

/* *ret is NULL, which everything below takes, when there are none. */
int hidden_new(const struct version *v, uint32_t tenant, struct hidden **ret, struct error *err);
void hidden_free(struct hidden *h); /* NULL is fine */
DEFINE_CLEANUP(struct hidden *, hidden_free)

/*
 * The times at which rows of a series are hidden in a segment of this tombstone_seq: not sorted,
 * may overlap; borrowed until the next call. Returns how many.
 */
size_t hidden_ranges(struct hidden *h, const struct series *series, uint64_t tombstone_seq,
                     const struct cover_range **ret);

/* Whether one row is hidden. */
bool hidden_has(struct hidden *h, const struct series *series, uint64_t tombstone_seq,
                int64_t start_ns);

/* store_erase(). Takes upkeep_lock. */
int local_erase(struct store *s, const struct store_scope *scope, struct error *err);
