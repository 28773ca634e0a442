#pragma once

#include "query/query.h"

/* A selection added up: a profile of a set, or NULL when nothing was found. */
struct added {
    struct profile *profile;
    uint64_t n_profiles; /* how many were added up; 0: not known */
};

/*
 * A selection merged from its single profiles, so that samples keep their labels: the slow way, for
 * what sums over stacks cannot answer.
 */
int merge_samples(const struct query *q, struct profile_set *set, struct added *ret,
                  struct error *err);
