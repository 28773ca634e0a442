#pragma once

#include "base/error.h"
#include "profile/tree.h"

/*
 * A flame tree cut for drawing: a screen has a few thousand pixels, a tree may have a million
 * nodes. The heaviest nodes are kept, each with its parent, and every kept node says how many of
 * its children are not here and what they weigh. Asking again with the path of such a node as
 * `under` shows them. Sums are always those of the whole tree.
 */
struct flame_cut_options {
    uint32_t type; /* the column */
    bool compares; /* with the column base_type: what is heavy in either stays */
    uint32_t base_type;
    struct frame_options frames;
    bool invert;
    size_t max_nodes;    /* 0: all */
    bool is_level_order; /* breadth first into `levels`, not depth first into `nodes` */

    /* Names from the outermost frame inwards: the tree below that node, which becomes the root. */
    const char *const *under;
    size_t n_under;
};

struct flame_cut_node {
    uint32_t parent; /* index; the root is its own */
    uint32_t tree_node;
    uint32_t depth;
    int64_t self, total;
    uint32_t n_hidden; /* children that were cut */
    int64_t hidden;    /* what they weigh */
    int64_t base_self, base_total, base_hidden;
};

/* What was cut of a node's children. */
struct flame_cut_hidden {
    uint32_t place; /* of the node, in `order` */
    uint32_t n;
    int64_t weight, base_weight;
};

/* The nodes breadth first, the heaviest child first: a third of the memory of `nodes`, for trees of
 * a million of them. */
struct flame_cut_levels {
    VEC(uint32_t) order;    /* nodes of the tree */
    VEC(uint32_t) children; /* how many of each are here: those that come next in order */
    VEC(struct flame_cut_hidden) hidden; /* by place; only those with something */
};

struct flame_cut {
    struct tree tree;
    struct tree base; /* self and total of base_type for the same nodes; empty unless it compares */
    struct flame_cut_levels levels;
    VEC(struct flame_cut_node) nodes; /* depth first, heaviest child first; the root is the first */
    uint64_t n_cut;                   /* nodes that are not here, at any depth... */
    int64_t cut;                      /* ...and what the outermost of them weigh */
    uint32_t max_depth;
};

/* Returns 0, -ENOENT when there is no such path (the text names the frame), -ENOBUFS, or -EINVAL
 * for a column that is not there. flame_cut_done() is due either way. */
int flame_cut_build(const struct profile *p, const struct flame_cut_options *o,
                    struct flame_cut *ret, struct error *err);
void flame_cut_done(struct flame_cut *f);

static inline const char *flame_cut_name(struct flame_cut *f, size_t i)
{
    return tree_name(&f->tree, f->nodes.data[i].tree_node);
}
