#pragma once

#include "store_local/local_internal.h"

/*
 * Throwing away what is old, or too much. By age: segments whose last row is older than its tenant
 * keeps things go whole; until then reads leave such rows out (retention_cutoff_ns). By size: the
 * oldest segments go, first of tenants over their own limit, then of all.
 *
 * What goes is all that starts before a tenant's floor, which the manifest holds and which only
 * rises: rows below it do not come back when the clock goes back, and are not taken again. By age
 * it rises to the cutoff, by size to the end of the oldest window; never beyond what is stored.
 *
 * A wall clock that jumps must not cost data. Time goes by the monotonic clock from what the wall
 * clock said first; a wall clock that differs by more than an hour is believed when it has done so
 * for RETENTION_JUMP_PASSES passes, a minute apart at least. And of segments that did not expire
 * just now, no more than a quarter goes in one pass.
 */
#define RETENTION_JUMP_NS     HOUR_NS
#define RETENTION_JUMP_PASSES 10
#define RETENTION_PASS_NS     MINUTE_NS

/* A floor that rises by less, without a file to remove, is not worth writing a manifest. */
#define RETENTION_FLOOR_STEP_NS (10 * MINUTE_NS)

/* The time, as far as it is believed. With the lock held. */
int64_t retention_now_ns(struct local *l);

/* Rows of a tenant that start before this are not there any more, whether or not their files are.
 * With the lock held. */
int64_t retention_cutoff_ns(struct local *l, const struct tenant *t);
/* The same of spans; a tenant that is not there (NULL) has the defaults. */
int64_t retention_span_cutoff_ns(struct local *l, const struct tenant *t);

/* One pass. With upkeep_lock held and the lock not. 1 when something went, 0 when not. */
int retention_run(struct local *l, struct error *err);
