#pragma once

#include "profile/profile.h"

/*
 * What one part of a callgrind file says: functions, what each spent itself per place, and who
 * called whom at what inclusive cost. Costs are vectors of n_events numbers.
 */
#define CALLGRIND_EVENTS_MAX (PROFILE_TYPES_MAX - 1) /* one column is for the calls */

struct callgrind_function {
    uint32_t name, file, object; /* strings */
};

/* What a function spent itself at one location. */
struct callgrind_self {
    uint32_t function, location;
};

struct callgrind_call {
    uint32_t caller, callee;
    uint32_t site;  /* location of the call, in the caller */
    uint32_t entry; /* location that was called, in the callee */
    uint64_t count;
};

struct callgrind_graph {
    struct dict *dict;
    struct budget *budget;
    size_t n_events;
    VEC(struct callgrind_function) functions;
    VEC(struct callgrind_self) selfs;
    VEC(int64_t) self_costs; /* n_events per self */
    VEC(struct callgrind_call) calls;
    VEC(int64_t) call_costs; /* n_events per call */
    struct idset function_index, self_index, call_index;
};

void callgrind_graph_done(struct callgrind_graph *g);

/* Interning; IDSET_NONE when the budget is spent. */
uint32_t callgrind_graph_function(struct callgrind_graph *g, struct callgrind_function f);

/* Adds costs to what is there. False when the budget is spent. */
bool callgrind_graph_add_self(struct callgrind_graph *g, struct callgrind_self s,
                              const int64_t *costs);
bool callgrind_graph_add_call(struct callgrind_graph *g, struct callgrind_call c,
                              const int64_t *costs);

/*
 * Adds the graph to p as stacks. p has a column per event, then one for the calls; every row gets
 * `attrs`. *ret_cut says whether stacks were cut short because they carry next to nothing or
 * because there are too many, *ret_cycles whether recursion was folded. False when the budget is
 * spent.
 */
bool callgrind_graph_unfold(const struct callgrind_graph *g, struct profile *p, uint32_t attrs,
                            bool *ret_cut, bool *ret_cycles);
