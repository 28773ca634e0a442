#pragma once

#include "store_local/part.h"
#include "store_local/snapshot.h"

/*
 * Visits the parts of a snapshot's segments that may have rows of its series in [from, to), newest
 * segments first.
 */
struct walk {
    struct snapshot *snap;
    int64_t from_ns, to_ns;
    const atomic_bool *cancelled;
    const uint8_t *trace_id; /* NULL: any; else segments without it are left out */
    void *ctx;

    /* 0 to go on. -EBADMSG and other trouble with one file is kept in `trouble` and the walk goes
     * on; -ENOBUFS, -ENOMEM, -ECANCELED and what is positive end it. */
    int (*each)(struct walk *w, const struct segment *segment, const struct part *part,
                struct error *err);

    struct segment *segment;    /* being visited */
    struct cover_range *ranges; /* room for snapshot_ranges_max() */
    size_t n_ranges;            /* for whoever fills them in */
    bool is_incomplete;
    struct error trouble; /* the first */
};

/* 0, or what ended it. */
int walk_parts(struct walk *w, struct error *err);

/* The place of a strip's series in the snapshot, or UINT32_MAX: not wanted, or not raw rows. */
uint32_t walk_wanted(const struct walk *w, const struct strip *strip);
