#pragma once

#include "base/regex.h"
#include "profile/frames.h"

/*
 * What a pattern finds in a profile as a whole, with the rules of a focus (filter.h): it is
 * searched in the function name, the source file and the binary of each frame.
 */
struct name_search {
    int64_t cum;        /* of samples with a frame that matches: what a focus would keep */
    int64_t flat;       /* of samples whose innermost frame does */
    uint64_t functions; /* how many frames of the granularity do */
};

/* False when the budget is spent. */
bool profile_search(const struct profile *p, uint32_t type, struct frames *f,
                    const struct regex *re, struct name_search *ret);
