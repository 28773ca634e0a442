#pragma once

#include "profile/profile.h"

/*
 * What was counted between two profiles that both count since the process began: takes `before` off
 * those columns of p for which is_cumulative[] holds, row by row with the same stack, labels and
 * link. Nothing becomes negative: what shrank was counted anew. Other columns stay as they are;
 * rows that are all zero go. Columns are matched by type and unit; one that `before` does not have
 * stays as it is.
 *
 * Both are over one dictionary. Returns 0 or -ENOBUFS.
 */
int profile_subtract(struct profile *p, const struct profile *before, const bool *is_cumulative,
                     struct error *err);

/* Leaves out rows that are zero in every column. */
void profile_drop_zero_rows(struct profile *p);
