#pragma once

#include "cli/options.h"
#include "profile/profile.h"
#include "query/query.h"

/*
 * Sums of a store are over stacks and have no labels of samples. What asks for those reads the
 * profiles of a selection one by one: slower, and bounded by --max-memory.
 */

/* Whether a report (enum report_kind, or -1 for what is none) needs them with these options. */
bool labelled_needed(const struct options *o, int report);

/* Adds every profile of the selection to the set, or one that stands for all where moments are to
 * be averaged, or one of them chosen. -ENODATA when there is none. */
int labelled_read(const struct query *q, struct profile_set *set, struct error *err);
