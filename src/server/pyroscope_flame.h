#pragma once

#include "query/flame_cut.h"
#include "wire/json.h"

/*
 * Flame graphs as Pyroscope's clients draw them: levels of bars, each with its distance from the
 * end of the bar before it, its total, its self value and its name; of two profiles, the first
 * three for either side. The root is called "total", and below a node that lost children stands a
 * bar "other" that weighs as much as they did.
 */
struct flame_bar {
    uint32_t level, name;
    int64_t x[2], total[2], self[2];
};

struct flame_bars {
    struct budget *budget;
    unsigned n_sides;
    struct flame_cut cut;
    struct tree sides[2]; /* of two: the same tree, each with its own values */
    VEC(struct bytes) names;
    VEC(struct flame_bar) bars;   /* depth first */
    VEC(uint32_t) by_level;       /* the same, level after level, from left to right */
    VEC(uint32_t) first_of_level; /* into by_level, and one for the end */
    int64_t total[2], max_self;
};

/* Of one profile, at most max_nodes nodes (0: all). -ENOBUFS; flame_bars_done() is due either way.
 */
int flame_bars_build(const struct profile *p, size_t max_nodes, struct flame_bars *ret,
                     struct error *err);

/* Of two over one dictionary, column 0 of each. */
int flame_bars_compare(const struct profile *left, const struct profile *right, size_t max_nodes,
                       struct flame_bars *ret, struct error *err);
void flame_bars_done(struct flame_bars *f);

/* querier.v1.FlameGraph, or FlameGraphDiff. */
void flame_bars_put(const struct flame_bars *f, struct buf *out);

/* {"names":[...],"levels":[[...]],"numTicks":1,"maxSelf":1}; f may be NULL: nothing is there. */
void flame_bars_json(const struct flame_bars *f, struct json_writer *w);

/* Pyroscope's own encoding of a tree: PROFILE_FORMAT_TREE. */
void flame_bars_tree(const struct flame_bars *f, struct buf *out);
