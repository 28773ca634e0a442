#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * A user's regular expression, searched anywhere in a text. The syntax is PCRE2's, which agrees
 * with Go's wherever pprof users tread. Matching is bounded: a pattern that would backtrack without
 * end simply does not match. Not thread-safe: a regex belongs to one thread.
 */
struct regex;

/* Returns 0, or -EINVAL with the pattern, the place and the reason. */
int regex_new(struct bytes pattern, struct regex **ret, struct error *err);
void regex_free(struct regex *re); /* NULL is fine */
DEFINE_CLEANUP(struct regex *, regex_free)

/* Once this is true, matching is given up at once: one match is bounded, a million of them are not.
 * NULL: never. */
void regex_set_cancel(struct regex *re, const atomic_bool *cancelled);

bool regex_matches(const struct regex *re, struct bytes text);

/* Whether there is no match for certain: false also when matching was given up. Who acts on what
 * does not match asks this, so that a pattern without end selects nothing either way. */
bool regex_misses(const struct regex *re, struct bytes text);

/* The first match at or behind byte `from`: 1 with groups[0] all of it and groups[1 ... n) its
 * groups (len 0 and data NULL when unset), 0 when there is none, -EOVERFLOW when matching was given
 * up. What is before `from` counts for \b and the like. */
int regex_search(const struct regex *re, struct bytes text, size_t from, struct bytes *groups,
                 size_t n);

/* The span of the first match and of its first group (len 0 and data NULL when unset). False when
 * there is no match. */
bool regex_capture(const struct regex *re, struct bytes text, struct bytes *ret_match,
                   struct bytes *ret_group);
