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
    size_t max_nodes; /* 0: all */

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
    int64_t base_self, base_total;
};

struct flame_cut {
    struct tree tree;
    struct tree base; /* the same nodes with the values of base_type; empty unless it compares */
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
