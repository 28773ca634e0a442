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

/* Adds every profile of the selection to the set. -ENODATA when there is none. Moments cannot be
 * averaged this way: -EINVAL unless they are to be summed. */
int labelled_read(const struct query *q, struct profile_set *set, struct error *err);
