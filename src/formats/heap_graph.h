#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

/*
 * The references between the objects of a heap, node 0 being the root. Weak references retain
 * nothing and are not kept. The edges of node i are edges.data[first_edge.data[i] ..
 * first_edge.data[i + 1]): the target's index, with HEAP_SHORTCUT set where the engine added the
 * edge for convenience only. Fewer than HEAP_NODES_MAX nodes.
 */
#define HEAP_SHORTCUT  0x80000000u
#define HEAP_NODES_MAX 0x7fffffffu

struct heap_graph {
    VEC(uint32_t) first_edge; /* number of nodes + 1 */
    VEC(uint32_t) edges;
};

/* Who dominates whom: a node's dominator is the closest one without which it could be freed. */
struct heap_dominators {
    VEC(uint32_t) of;    /* per node; the root's is the root */
    VEC(uint32_t) order; /* all nodes, every dominator before those it dominates; the root first */
};

/*
 * Dominators as memlab computes them (and DevTools, but for the notes in heap_dominators.c), in
 * time nearly linear in the edges and without recursion. `dom_trees` is the root's child that holds
 * detached documents, or 0. Costs 37 bytes per node and 4 per edge while it runs. False when the
 * budget is spent.
 */
bool heap_dominators_find(const struct heap_graph *g, uint32_t dom_trees, struct budget *b,
                          struct heap_dominators *ret);
void heap_dominators_done(struct budget *b, struct heap_dominators *d);
