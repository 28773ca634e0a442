#pragma once

#include "formats/heap_graph.h"
#include "profile/profile.h"
#include "wire/input.h"

/*
 * V8 heap snapshots. Nothing a program's strings hold is ever kept: of a node's name, only those of
 * objects (their constructor), native objects and the engine's roots are read at all, without the
 * attributes of an element and without the address of a window.
 */

/* What DevTools calls a class: a constructor's name, or a label such as "(string)". */
struct heap_class {
    uint32_t name;    /* string */
    uint32_t type;    /* string: V8's node type: "object", "closure", "string"... */
    bool is_detached; /* its name begins with "Detached " */
};

/* A snapshot in memory: columns by node, in the order of the file. 51 bytes per node and 8 per
 * edge at the highest point, under the dictionary's budget. */
struct heap {
    struct dict *dict;
    struct heap_graph graph;
    VEC(struct heap_class) classes;
    VEC(uint32_t) class_of;
    VEC(uint64_t) self_size;
    VEC(uint8_t) is_detached;

    struct heap_dominators dominators;
    VEC(uint64_t) retained_size;
};

/* Reads a snapshot and computes retained sizes. On failure *ret is empty. */
int heap_load(struct input *in, struct dict *dict, struct heap *ret, struct error *err);
void heap_done(struct heap *h);

/*
 * The summary by constructor, from a profile that a snapshot was decoded into (or several, merged).
 *
 * Retained is, as in DevTools, the sum over those instances that no other instance of the same
 * constructor dominates: what would be freed without all of them. Sums over constructors overlap.
 * Unlike DevTools, objects of size 0 are counted.
 */
struct heap_row {
    uint32_t constructor, type; /* strings */
    int64_t count, shallow, retained, detached;
};

struct heap_summary {
    struct budget *budget;
    VEC(struct heap_row) rows; /* largest retained first */
};

/* False when p is not of a heap snapshot, or the budget is spent (budget_failed() tells which). */
bool heap_summarize(const struct profile *p, struct heap_summary *ret);
void heap_summary_done(struct heap_summary *s);
