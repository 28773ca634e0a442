#pragma once

#include "profile/profile.h"

/*
 * Adds profiles over one dictionary up into one.
 *
 * - Sample types are united by (type, unit); a profile without a type adds 0 to it. Types of one
 *   name whose units differ only in size (ms and ns) become one type in the finer unit.
 * - Rows with the same stack, attributes and link become one, in the order in which they first
 *   appear. Times of single samples are dropped.
 * - Mappings that are one binary at different addresses (same size in 4 KiB pages, offset, and
 *   build id or else file) become the one seen first, and addresses move with it, so that address
 *   space randomization does not split stacks.
 * - Attributes of the resource that not all inputs share become attributes of their samples, so
 *   that tag filters see them; the shared ones stay with the resource.
 * - Start is the earliest known, duration the sum, period the largest, comments the union in order;
 *   of everything else the first that is known. What OTLP says around a profile (id, scope, profile
 *   attributes, original payload) survives only where all inputs agree.
 *
 * One profile alone needs no merging: its rows are fine as they are unless equal ones should be
 * joined.
 */
struct merge_options {
    bool drop_zero; /* leave out rows whose values are all zero, before and after adding up */
};

/* A new profile, or NULL when the budget is spent (also when there would be more than
 * PROFILE_TYPES_MAX types). All of in[0..n) are over `d` and are not changed. */
struct profile *profile_merge(struct dict *d, struct profile *const *in, size_t n,
                              struct merge_options options);

/*
 * Totals per stack: ret[node] becomes the sum of column `type` over all samples in that stack or
 * below it; ret[0] is the sum of all. `ret` has dict_n_nodes() elements, all overwritten.
 */
void profile_totals(const struct profile *p, uint32_t type, int64_t *ret);
