#pragma once

#include "store_local/cover.h"
#include "store_local/local_internal.h"
#include "store_local/tombstone.h"

/*
 * The store as it was at one moment: what a question is answered from, however long that takes and
 * whatever is appended, flushed, compacted or deleted meanwhile. Taken under the store's lock in
 * the time it takes to look at the series in memory; reading needs the lock no more, but for epochs
 * that were not needed before.
 *
 * One thread builds and releases it; once everything needed has been asked of it, any thread may
 * read.
 */
#define SNAPSHOT_MEMTABLES 2 /* the head, and what is being flushed */

/* A series that matches. */
struct snapshot_series {
    const struct series *series;
    const struct row *newest[SNAPSHOT_MEMTABLES]; /* of each memtable, linked through `older` */
};

struct snapshot_epoch {
    struct epoch *epoch;
    struct dict view; /* read only, and no lookups */
};

struct snapshot {
    struct local *local;
    struct budget *budget;
    uint32_t tenant; /* 0: there is no such tenant, and nothing in it */
    struct version *version;
    struct memtable *memtables[SNAPSHOT_MEMTABLES];
    VEC(struct snapshot_series) series;
    VEC(uint32_t) index;       /* by series id: place in `series` + 1, or 0 */
    struct series *const *all; /* by series id - 1, groups too */
    uint32_t n_all;
    VEC(struct snapshot_epoch *) epochs; /* they do not move */
    struct arena arena;
    VEC(uint64_t) wanted;   /* ids of epochs that may have rows of them, ascending */
    struct hidden *hidden;  /* tombstone.h; NULL: nothing is */
    int64_t cutoff_ns;      /* what starts before it has expired */
    int64_t min_ns, max_ns; /* of the starts of all rows of the tenant; min > max: none */
};

/*
 * Takes a snapshot of a tenant's series that match: labels, and at least one type that the selector
 * takes. NULL selects everything. -ENOBUFS past the budget, which must outlive the snapshot.
 */
int snapshot_take(struct local *l, struct bytes tenant, const struct selector *selector,
                  struct budget *budget, struct snapshot *ret, struct error *err);
void snapshot_done(struct snapshot *s); /* zeroed is fine */

/* The place in `epochs` of an epoch, made resident first. It stays so until snapshot_done().
 * Negative when its dictionary cannot be read. */
int snapshot_epoch(struct snapshot *s, uint64_t id, uint32_t *ret, struct error *err);

/* Whether rows of the series that match can be in this epoch, and in this segment: told from the
 * services that epochs are of, so that other services' files need not be looked into. */
bool snapshot_wants_epoch(const struct snapshot *s, uint64_t id);
bool snapshot_wants_segment(const struct snapshot *s, const struct segment *segment);

/* Whether rows of this series in this segment can be hidden by a tombstone. */
bool snapshot_has_holes(const struct snapshot *s, const struct series *series,
                        const struct segment *segment);

/*
 * What of [from, to) may be seen of a series in a segment: without what has expired and what
 * tombstones hide. `ret` has room for snapshot_ranges_max(). Returns how many.
 */
size_t snapshot_visible(const struct snapshot *s, const struct series *series,
                        const struct segment *segment, struct cover_range range,
                        struct cover_range *ret);

static inline size_t snapshot_ranges_max(const struct snapshot *s)
{
    return s->version ? s->version->tombstones.len + 1 : 1;
}
