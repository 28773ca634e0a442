#pragma once

#include "base/buf.h"
#include "query/flame_cut.h"
#include "query/significance.h"

/*
 * A profile as one HTML file: the viewer and the whole tree in it, so that it can be looked at
 * anywhere, without a server and without a network. The tree is query/flame_wire.h's, packed.
 */

/* Nodes beyond these, the lightest, are left out, which the page says. */
#define VIEWER_NODES_MAX 1000000

struct viewer_about {
    const char *title;
    const char *selection;   /* what was asked, or what was read; NULL: not known */
    int64_t time_ns;         /* when it was measured; 0: not known */
    const char *type, *unit; /* NULL: the column's own */
    const char *members;     /* of the tree's header, as the API's answers have them; NULL: few */
    /* Of two that are compared: which changes are more than chance; NULL: not known. */
    const struct significance *significance;
};

/*
 * Appends the page of one column, or of two compared. Of `o`, what says how many nodes and in which
 * order is this function's. Returns 0, -ENOSYS when this build has no viewer, or what
 * flame_cut_build() and flame_wire_write() return.
 */
int viewer_page_write(const struct profile *p, const struct flame_cut_options *o,
                      const struct viewer_about *about, struct buf *out, struct error *err);
