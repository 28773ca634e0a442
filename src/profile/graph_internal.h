#pragma once

#include "profile/graph.h"

/* What the files of the graph share: graph.c builds, graph_tags.c adds labels, graph_trim.c sorts
 * and trims. */

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
