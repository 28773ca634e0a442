#pragma once

#include "base/idset.h"
#include "query/query.h"

/*
 * Moments of instant series (live heap, goroutines) whose samples keep their labels. Each series
 * becomes one profile first: the average of its moments, or one that is chosen, as a store makes
 * sums without labels. Averages are rounded row by row.
 */
struct moment_series {
    uint64_t id;
    uint64_t n;                 /* moments seen */
    VEC(struct profile *) held; /* of an average: to be added up; else the one that is chosen */
    int64_t start_ns, peak;     /* of the chosen one */
    uint8_t profile_id[16];     /* decides between equals */
};

struct moments {
    struct profile_set *set; /* whose dictionary profiles are over */
    const struct query *q;
    VEC(struct moment_series) series;
    struct idset index;
};

void moments_init(struct moments *m, struct profile_set *set, const struct query *q);
void moments_done(struct moments *m);

/* Whether what was found is one: otherwise it is simply added. */
bool moments_take(const struct moments *m, const struct store_found *f);

/* The profile to fill with what was found, NULL when another one is chosen already or the budget is
 * spent. */
struct profile *moments_add(struct moments *m, const struct store_found *f);

/* Joins what was filled in, to hold less. False when the budget is spent. */
bool moments_filled(struct moments *m, const struct store_found *f);

/* Adds a profile for each series to the set. False when the budget is spent. */
bool moments_finish(struct moments *m);
