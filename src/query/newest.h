#pragma once

#include "query/query.h"

/*
 * Lists of single things of which there are many: the newest profiles of a selection, and the
 * samples of it that weigh most and say which span they were taken in. Memory follows `limit`, not
 * the range.
 */

/* A profile without its samples. */
struct profile_entry {
    const struct store_series *series;
    int64_t start_ns, duration_ns, period;
    bool has_id;
    uint8_t id[16];
    const int64_t *totals; /* per type of the series */
};

/* A span's share of one profile. */
struct exemplar {
    const struct store_series *series;
    int64_t start_ns; /* of the profile */
    bool has_id;
    uint8_t id[16]; /* of the profile */
    struct link link;
    int64_t value; /* of the first type that the selector takes */
};

struct newest {
    struct budget budget;
    struct arena arena;
    VEC(const struct store_series *) series; /* copies, in no order */
    VEC(struct profile_entry) profiles;      /* the newest first */
    VEC(struct exemplar) exemplars;          /* the heaviest first */
    bool is_cut;                             /* there are more */
};

/* Nothing found is an empty list. `limit` is not 0. newest_done() is due either way. */
int query_newest_profiles(const struct query *q, size_t limit, struct newest *ret,
                          struct error *err);
int query_exemplars(const struct query *q, size_t limit, struct newest *ret, struct error *err);
void newest_done(struct newest *n);
