#pragma once

#include "profile/profile.h"

/*
 * How many samples stand behind a value. Profiles keep sums, and a sum says nothing about chance:
 * ten seconds may be a thousand samples or one. What one sample stands for is known where values
 * count samples themselves, where another column of the same rows does ("samples" in "count"), or
 * from the period (10 ms of CPU time, 512 KiB of allocations).
 */

/* The value of one sample of a column, on average; 0 when that is not known. */
double profile_sample_weight(const struct profile *p, uint32_t type);

/* An estimate, rounded: |value| / weight. `weight` is not 0. */
uint64_t sample_count(int64_t value, double weight);
