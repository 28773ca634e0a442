#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/error.h"

/*
 * What must not be kept or sent is replaced. A rule says where it looks, what for, and what stands
 * there instead ($1 ... $9 are groups, $$ is a dollar):
 *
 *     labels: /(?i)(secret-)\w+/$1xxx/
 *     paths|functions: #^/build/[^/]+/#/build/#
 *
 * The character behind the colon and spaces divides the parts; a backslash before it makes it one
 * of the pattern. All rules apply, in order, to each text, each wherever it matches. The built-in
 * ones go first: they hide tokens, passwords in URLs, and the names of home directories, in labels
 * and paths.
 *
 * A text that is too long, or on which a pattern is given up, is hidden as a whole.
 */
enum mask_role { MASK_FUNCTIONS, MASK_PATHS, MASK_LABELS, MASK_ROLES };

#define MASK_HIDDEN    "***"
#define MASK_RULES_MAX 64 /* beside the built-in ones */

/* Rules as they were read. Counted: whoever uses them holds them, from any thread. */
struct mask_rules;

/* -EINVAL names the rule and what is wrong with it; -E2BIG past MASK_RULES_MAX. */
int mask_rules_new(bool with_built_in, const char *const *texts, size_t n, struct mask_rules **ret,
                   struct error *err);
struct mask_rules *mask_rules_ref(struct mask_rules *r);
void mask_rules_unref(struct mask_rules *r); /* NULL is fine */
DEFINE_CLEANUP(struct mask_rules *, mask_rules_unref)

/* Rules that can be applied; belongs to one thread. Takes the reference. */
struct mask_matcher;
struct mask_matcher *mask_matcher_new(struct mask_rules *rules);
void mask_matcher_free(struct mask_matcher *m); /* NULL is fine */
DEFINE_CLEANUP(struct mask_matcher *, mask_matcher_free)

/* Whether there is a rule for such texts at all. */
bool mask_matcher_has(const struct mask_matcher *m, enum mask_role role);

/* The text with all rules of a role applied: true when it is another, borrowed until the next
 * call. */
bool mask_matcher_apply(struct mask_matcher *m, enum mask_role role, struct bytes text,
                        struct bytes *ret);
