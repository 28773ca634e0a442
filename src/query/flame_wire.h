#pragma once

#include "base/buf.h"
#include "query/flame_cut.h"

/*
 * A cut flame tree as few bytes, for whoever draws it: a million nodes are about four megabytes,
 * and reading them is one pass. Nodes are in breadth-first order, so that nothing but the number
 * of each node's children says how they hang together, and totals need not be sent. The layout is
 * described in flame_wire.c and docs/api.md.
 */
#define FLAME_WIRE_MEDIA_TYPE "application/vnd.vesta.tree"

struct flame_wire_options {
    struct bytes members; /* of the header: "key":value,... */
    const bool *is_sure;  /* per place in the order: the change is significant; NULL: not known */
};

/* Appends a cut in level order to `out`. Returns 0, or -ENOBUFS naming the budget that is spent. */
int flame_wire_write(struct flame_cut *f, const struct flame_wire_options *o, struct buf *out,
                     struct error *err);
