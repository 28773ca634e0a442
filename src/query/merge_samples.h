#pragma once

#include "query/query.h"

/*
 * A selection merged from its single profiles, so that samples keep their labels: the slow way, for
 * what sums over stacks cannot answer. *ret is in the set, or NULL when nothing was found.
 */
int merge_samples(const struct query *q, struct profile_set *set, struct profile **ret,
                  struct error *err);
