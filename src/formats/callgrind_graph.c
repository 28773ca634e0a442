#include "formats/callgrind_graph.h"

#include <string.h>

#include "base/hash.h"

void callgrind_graph_done(struct callgrind_graph *g)
{
    vec_done(g->budget, &g->functions);
    vec_done(g->budget, &g->selfs);
    vec_done(g->budget, &g->self_costs);
    vec_done(g->budget, &g->calls);
    vec_done(g->budget, &g->call_costs);
    idset_done(g->budget, &g->function_index);
    idset_done(g->budget, &g->self_index);
    idset_done(g->budget, &g->call_index);
}

static uint64_t hash3(uint32_t a, uint32_t b, uint32_t c)
{
    return hash_mix((uint64_t)a << 32 | b, c);
}

uint32_t callgrind_graph_function(struct callgrind_graph *g, struct callgrind_function f)
{
    uint64_t hash = hash3(f.name, f.file, f.object);
    uint32_t found =
        IDSET_FIND(&g->function_index, hash, i, memcmp(&g->functions.data[i], &f, sizeof(f)) == 0);
    if (found != IDSET_NONE)
        return found;
    uint32_t id = (uint32_t)g->functions.len;
    if (!vec_push(g->budget, &g->functions, f) ||
        !idset_add(g->budget, &g->function_index, hash, id))
        return IDSET_NONE;
    return id;
}

/* Wraps like the machine does: costs of a hostile file are nobody's truth. */
static void add_costs(int64_t *to, const int64_t *costs, size_t n)
{
    for (size_t k = 0; k < n; k++)
        to[k] = (int64_t)((uint64_t)to[k] + (uint64_t)costs[k]);
}

bool callgrind_graph_add_self(struct callgrind_graph *g, struct callgrind_self s,
                              const int64_t *costs)
{
    uint64_t hash = hash3(s.function, s.location, 0);
    uint32_t at =
        IDSET_FIND(&g->self_index, hash, i, memcmp(&g->selfs.data[i], &s, sizeof(s)) == 0);
    if (at != IDSET_NONE) {
        add_costs(g->self_costs.data + at * g->n_events, costs, g->n_events);
        return true;
    }
    at = (uint32_t)g->selfs.len;
    return vec_append(g->budget, &g->self_costs, costs, g->n_events) &&
           vec_push(g->budget, &g->selfs, s) && idset_add(g->budget, &g->self_index, hash, at);
}

static bool call_equal(const struct callgrind_call *a, const struct callgrind_call *b)
{
    return a->caller == b->caller && a->callee == b->callee && a->site == b->site &&
           a->entry == b->entry;
}

bool callgrind_graph_add_call(struct callgrind_graph *g, struct callgrind_call c,
                              const int64_t *costs)
{
    uint64_t hash = hash_mix(hash3(c.caller, c.callee, c.site), c.entry);
    uint32_t at = IDSET_FIND(&g->call_index, hash, i, call_equal(&g->calls.data[i], &c));
    if (at != IDSET_NONE) {
        g->calls.data[at].count += c.count;
        add_costs(g->call_costs.data + at * g->n_events, costs, g->n_events);
        return true;
    }
    at = (uint32_t)g->calls.len;
    return vec_append(g->budget, &g->call_costs, costs, g->n_events) &&
           vec_push(g->budget, &g->calls, c) && idset_add(g->budget, &g->call_index, hash, at);
}
