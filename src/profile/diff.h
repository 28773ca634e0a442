#pragma once

#include "profile/profile.h"

/*
 * One profile minus another: every row of the base is taken off, so what grew is positive and what
 * shrank negative.
 */
struct diff_options {
    /* Rows of the base get the label pprof::base=true, by which reports know to take percentages
     * of the base instead of the sum of all changes. */
    bool is_diff_base;
    /* The source is first scaled to the base's total, type by type: only the distribution counts.
     */
    bool normalize;
};

/* The label that marks rows of a base. */
#define DIFF_BASE_KEY "pprof::base"

/*
 * A new profile. Only the types that both have take part, in the source's order; units that differ
 * in size are reconciled. Neither input is changed.
 *
 * Returns 0, -EINVAL when no type is in both, or -ENOBUFS.
 */
int profile_diff(const struct profile *source, const struct profile *base,
                 struct diff_options options, struct profile **ret, struct error *err);

/*
 * Multiplies each column with its ratio, rounding to whole numbers, and drops rows that become all
 * zero. Columns whose ratio is 1 are not touched.
 */
void profile_scale(struct profile *p, const double *ratios);
