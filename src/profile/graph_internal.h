#pragma once

#include "profile/graph.h"

/* What the files of the graph share: graph.c builds, graph_tags.c adds labels, graph_trim.c sorts
 * and trims. */

/* Sums per stack (trie node), from which any number of graphs can be built. */
struct graph_totals {
    struct budget *budget;
    VEC(int64_t) self, total, self_div, total_div; /* the divisors are empty without means */
    VEC(bool) is_used;
    VEC(uint32_t) first_child, next_sibling; /* of used stacks; 0 ends a list */
};

bool graph_totals_build(const struct profile *p, const struct graph_options *o,
                        struct graph_totals *ret);
void graph_totals_done(struct graph_totals *t);

/* graph_build() from sums at hand. */
int graph_build_from(const struct graph_totals *t, const struct profile *p, struct frames *f,
                     const struct graph_options *o, struct graph *ret, struct error *err);

/* Makes the lists of edges per node. */
bool graph_link(struct graph *g);

/* The node that frame is when called from `parent` (0: a root). 0 when it is not kept. */
uint32_t graph_node_of(struct graph *g, uint32_t parent, uint32_t frame, const bool *kept);

/* Counts the labels of samples at the nodes of a built graph. */
bool graph_add_tags(struct graph *g, const struct profile *p, const struct graph_options *o);

static inline void graph_add(int64_t *sum, int64_t v)
{
    *sum = (int64_t)((uint64_t)*sum + (uint64_t)v);
}
