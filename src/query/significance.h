#pragma once

#include "query/query.h"

/*
 * Whether a change is more than chance. Both sides are samples: of n that were taken, x were in a
 * function. That its share of the whole is another one is believed when a difference as large would
 * come about by chance in fewer than one of twenty cases (two proportions, pooled, two-sided at
 * 95 %), and with at least SIGNIFICANCE_MIN of its samples on both sides together.
 */
#define SIGNIFICANCE_MIN 10

struct significance {
    bool is_known;    /* how many samples both sides are */
    double weight[2]; /* the value of one sample, before and after */
    double n[2];
};

struct significance significance_of(const struct merged_pair *pair, const uint32_t type[2]);

/* `value` before and after. False, too, when nothing is known. */
bool is_significant(const struct significance *s, const int64_t value[2]);
