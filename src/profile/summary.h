#pragma once

#include "profile/profile.h"

/* What a file holds, counted over all its profiles. */
struct profile_summary {
    size_t samples, stacks, max_depth, max_frames;
    uint32_t n_types;
    struct value_type types[PROFILE_TYPES_MAX];
    uint64_t totals[PROFILE_TYPES_MAX]; /* wrap like the machine does */
    int64_t time_unix_ns;               /* the first start that is known; 0: none is */
    int64_t duration_ns;                /* of the longest */
    bool has_times, has_links;          /* samples that say when, and in which span */
    VEC(uint32_t) label_keys;           /* of samples: strings */
};

/* What does not fit the set's budget is missing: ask budget_failed(). */
void profile_summarize(const struct profile_set *set, struct profile_summary *ret);
void profile_summary_done(const struct profile_set *set, struct profile_summary *s);

/* Whether the i-th profile has a resource that the one before it has not. */
bool profile_has_new_resource(const struct profile_set *set, size_t i);
