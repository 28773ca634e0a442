#pragma once

#include "profile/frames.h"
#include "profile/profile.h"

/*
 * The call tree of a profile at a granularity, whole: what a flame graph draws. Node 0 is the root
 * and holds everything; every parent has a smaller id than its children, so one pass forward visits
 * parents first and one backward children first.
 *
 * Children of a node are a list ordered by name. Where a value is negative (a difference), totals
 * may be smaller than the sum of their parts.
 */
struct tree {
    struct frames frames; /* frame ids below are its */

    VEC(uint32_t) parent;
    VEC(uint32_t) frame; /* 0 for the root */
    VEC(int64_t) self;
    VEC(int64_t) total;                      /* self and all below */
    VEC(uint32_t) first_child, next_sibling; /* 0 ends a list */
    uint32_t max_depth;                      /* of the deepest node; the root has 0 */
};

/*
 * Builds the tree of column `type`. Set options.name_unknown to keep what has no name apart.
 * Returns 0 or -ENOBUFS; tree_done() is due either way.
 */
int tree_build(const struct profile *p, uint32_t type, struct frame_options options,
               struct tree *ret, struct error *err);
void tree_done(struct tree *t); /* a zeroed tree is fine */

/* The same with the values of a second column, types[1], for the same nodes: of `values` only self
 * and total are filled in. tree_done() is due for both. */
int tree_build_both(const struct profile *p, const uint32_t types[2], struct frame_options options,
                    struct tree *ret, struct tree *values, struct error *err);

/*
 * Turns the tree upside down: the first level holds the frames that have values of their own, below
 * each its callers. Every value of a stack counts in the node of its outermost frame, so totals
 * still add up. Returns 0 or -ENOBUFS.
 */
int tree_invert(struct tree *t, struct error *err);

/* The same for the trees of two columns of one profile, built alike or together, which therefore
 * have the same nodes; and have afterwards. */
int tree_invert_both(struct tree *t, struct tree *other, struct error *err);

static inline size_t tree_len(const struct tree *t)
{
    return t->parent.len;
}

/* The name of a node's frame, as reports print it; "root" for the root. */
const char *tree_name(struct tree *t, uint32_t node);
