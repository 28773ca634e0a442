#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "base/error.h"
#include "profile/labels.h"
#include "profile/profile.h"

#define QUERY_TAGS_MAX 8 /* filters by labels, of a kind */

/* What to keep of a merged profile: pprof's filters, as text, applied in pprof's order. All may be
 * NULL or empty. */
struct query_filters {
    /* Regular expressions over function, file and binary names. */
    const char *focus, *ignore, *hide, *show, *show_from, *prune_from;
    /* Tag filters: regex, key=regex, or numeric ranges with units. A sample must match all of
     * `tagfocus` and none of `tagignore`. Both end with a NULL. */
    const char *tagfocus[QUERY_TAGS_MAX + 1], *tagignore[QUERY_TAGS_MAX + 1];
    const char *taghide, *tagshow; /* regexes of tag keys */

    const atomic_bool *cancelled; /* may be NULL; once true, patterns match nothing more */
};

/* Whether samples must have their labels for these filters. */
bool query_filters_need_labels(const struct query_filters *f);

/*
 * Changes the rows of p in place. `units` are p's. One line for each pattern that matched nothing
 * goes to `warnings`, which may be NULL. Returns 0, -EINVAL with the pattern and the reason, or
 * -ENOBUFS: p is then not of use.
 */
int query_filter(const struct query_filters *f, const struct label_units *units, struct profile *p,
                 struct buf *warnings, struct error *err);
