#pragma once

#include "profile/frames.h"
#include "profile/profile.h"

/*
 * The call graph of a profile: who spends, and who calls whom. A node is a frame (or, as a call
 * tree, a frame in one calling context); flat is what it spends itself, cum what it and everything
 * it calls spend. A function that recurses counts once per stack, and so does a call between two
 * functions.
 *
 * The numbers, the trimming and the orders are pprof's, so that every report agrees with it.
 */
struct graph_node {
    uint32_t frame;
    int64_t flat, flat_div; /* the divisors are 0 unless means are asked for */
    int64_t cum, cum_div;
};

struct graph_edge {
    uint32_t src, dst; /* nodes: caller and callee */
    int64_t weight, weight_div;
    bool is_residual; /* goes over frames that were left out */
    bool is_inline;   /* every such call was inlined */
    bool is_gone;     /* trimmed away */
};

/* Samples of a node that carry a label. */
struct graph_tag {
    uint32_t node;
    uint32_t labels; /* string: "key:value" of all text labels, joined by "\n" written out; or 0 */
    uint32_t number; /* string: a formatted numeric label, or 0: then it is the labels' own tag */
    uint32_t unit;   /* string, of the number */
    int64_t value;   /* of the number */
    int64_t flat, flat_div, cum, cum_div;
    bool is_gone;
};

/* Which edges are wanted: counting them is what building a graph mostly costs. */
enum graph_edges {
    GRAPH_EDGES_ALL,
    GRAPH_EDGES_INLINED, /* those into frames that are inlined somewhere */
    GRAPH_EDGES_NONE,
};

struct graph_options {
    uint32_t type;      /* the column to count */
    bool mean;          /* divide by column 0 */
    bool call_tree;     /* a node per calling context */
    bool drop_negative; /* leave out nodes that spend less than nothing */
    enum graph_edges edges;
    bool with_tags;
    const char *unit;            /* what numbers in tags are written in */
    const uint32_t *label_units; /* per string: the unit of a numeric label; see labels.h */
    const bool *kept;            /* per frame: whether it may be a node; NULL is all */
};

/* What trimming left out. */
struct graph_trimmed {
    size_t n_nodes_before; /* after the fractions, before node_count */
    size_t dropped_nodes, dropped_edges;
};

struct graph {
    struct frames *frames;
    struct budget *budget;
    bool is_tree;
    VEC(struct graph_node) nodes; /* without is_tree, a node's id is its frame's; 0 is none */
    VEC(struct graph_edge) edges;
    VEC(struct graph_tag) tags;
    struct idset edge_index, tag_index, child_index;

    /* Nodes that count for something, in the order of the last graph_sort(). */
    VEC(uint32_t) order;

    /* Edges of node n: in.data[in_first.data[n] .. in_first.data[n + 1]), gone ones included;
     * graph_link() makes them. */
    VEC(uint32_t) in_first, in, out_first, out;

    struct graph_trimmed trimmed; /* by graph_build_trimmed() */
};

/* 0 or -ENOBUFS; graph_done() is due either way. `f` must outlive the graph. */
int graph_build(const struct profile *p, struct frames *f, const struct graph_options *o,
                struct graph *ret, struct error *err);
void graph_done(struct graph *g);

enum graph_order {
    GRAPH_BY_FLAT,
    GRAPH_BY_CUM,
    GRAPH_BY_ENTROPY, /* prefers nodes where something is decided: for pictures */
};

/* How much of a graph a report shows. */
struct graph_trim {
    double node_fraction, edge_fraction; /* of the total; less than that is left out */
    int node_count;                      /* 0 is all */
    bool by_cum;
    bool is_picture; /* choose and order as is best for a drawing */
};

/* Builds a graph and trims it, building it anew where frames are left out. Sorted on return. */
int graph_build_trimmed(const struct profile *p, struct frames *f, const struct graph_options *o,
                        const struct graph_trim *trim, struct graph *ret, struct error *err);

/* Means are divided here. */
int64_t graph_flat(const struct graph_node *n);
int64_t graph_cum(const struct graph_node *n);

/*
 * The edges into (or out of) a node that are not gone, heaviest first, as ids in *ret, which the
 * caller frees with vec_done(g->budget, ...). False when the budget is spent.
 */
typedef VEC(uint32_t) graph_ids;
bool graph_callers(struct graph *g, uint32_t node, graph_ids *ret);
bool graph_callees(struct graph *g, uint32_t node, graph_ids *ret);

/* |v|, wrapping like the machine. */
static inline int64_t graph_abs(int64_t v)
{
    return v < 0 ? (int64_t) - (uint64_t)v : v;
}

/* A whole number from a real one, as amd64 does it: what does not fit is the smallest number. */
static inline int64_t graph_truncate(double v)
{
    return v > -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
}
