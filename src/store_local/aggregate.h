#pragma once

#include "store/store.h"

/*
 * store_ops.aggregate of the embedded store. PLAN_FUNCTIONS answers for the first selected type,
 * in columns named "flat" and "cum"; frames without a function share the name "".
 *
 * The memory limit of a plan is for the work; the answer has a budget of its own.
 */
int local_aggregate(struct store *s, const struct store_plan *plan, struct store_answer *ret,
                    struct error *err);
