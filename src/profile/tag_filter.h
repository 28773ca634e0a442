#pragma once

#include "base/cleanup.h"
#include "profile/labels.h"
#include "profile/profile.h"

/*
 * Choosing samples by label, in pprof's notation:
 *
 *     regex            some label "key:value" matches; several joined by commas must all match
 *     key=regex        some value of that key matches any of the (comma-separated) patterns
 *     [key=]32kb       a numeric label equals 32 kB; :64kb, 4mb: and 12kb:64mb are ranges
 */
struct tag_filter;

/* `units` must outlive the filter. *ret_is_range, when asked for, says that numbers are compared.
 * Returns 0 or -EINVAL with the pattern and the reason. */
int tag_filter_new(const char *text, const struct label_units *units, struct tag_filter **ret,
                   bool *ret_is_range, struct error *err);
void tag_filter_free(struct tag_filter *f); /* NULL is fine */
DEFINE_CLEANUP(struct tag_filter *, tag_filter_free)

/*
 * Filters that mean exactly what is shown of a label: one text; numbers from `least` to `most` of a
 * unit; any text. False, and nothing written, for what the notation has no words for.
 */
void tag_filter_for_text(struct bytes key, struct bytes value, struct buf *out);
bool tag_filter_for_numbers(struct bytes key, int64_t least, int64_t most, const char *unit,
                            struct buf *out);
bool tag_filter_for_any_text(struct bytes key, struct buf *out);

/* Keeps the samples that match `focus` and not `ignore`; either may be NULL. False when the budget
 * is spent. */
bool profile_filter_tags(struct profile *p, const struct tag_filter *focus,
                         const struct tag_filter *ignore, bool *ret_focused, bool *ret_ignored);

struct regex;

/* Takes labels off whose key does not match `show` or matches `hide`; either may be NULL. */
bool profile_filter_tag_keys(struct profile *p, const struct regex *show, const struct regex *hide,
                             bool *ret_shown, bool *ret_hidden);

/*
 * Adds frames named after labels: those of the keys in `roots` as outermost callers, the first key
 * outermost, those in `leaves` as innermost, the last key innermost. Both are comma-separated lists
 * or NULL; numbers are written in `unit`. Says which of the lists found any label.
 */
bool profile_add_tag_frames(struct profile *p, const char *roots, const char *leaves,
                            const char *unit, bool *ret_root, bool *ret_leaf);
