/*
 * From a call graph to stacks.
 *
 * Callgrind knows what each function spent itself and what each call spent in all, but not which
 * chain of callers a cost belongs to. As gprof does, a function's cost is shared out among its
 * callers in proportion to the inclusive cost of their calls, per event; a context of a function is
 * a chain of callers with the shares that it carries.
 *
 * - Self costs are exact, per location, whatever the shares: they are rounded so that the parts add
 *   up to the whole.
 * - Inclusive costs of functions and of calls come out as the file states them (but for rounding)
 *   as long as there is no recursion.
 * - A longer chain is an estimate: when two callers reach a function, both see its callees in the
 *   same proportions.
 * - A call that closes a cycle is not followed: the cost stays with the frames that led into the
 *   cycle, so recursion appears once.
 * - A context that carries less than CUT of the program's cost starts at its direct caller, as do
 *   all once there are CONTEXTS_MAX; so direct callers are always right.
 */
#include <assert.h>
#include <string.h>

#include "formats/callgrind_graph.h"

#define CUT          1e-7
#define CONTEXTS_MAX ((size_t)1 << 18)
#define WORK_MAX     ((size_t)16 << 20) /* contexts x (locations + calls) before everything is cut */

#define NONE UINT32_MAX

/* A function while being unfolded. */
struct place {
    uint32_t first_self, first_call, first_context;
    uint32_t n_contexts, n_items; /* items: selfs and calls */
    uint32_t order;               /* 1.. as the search met it, 0 before that */
    uint32_t low;                 /* the earliest place that can be reached and is not settled */
    bool on_path, settled, in_cycle;
};

struct context {
    uint32_t next;
    uint32_t parent; /* node: the stack of the callers */
};

struct unfolding {
    const struct callgrind_graph *g;
    struct profile *p;
    struct budget *budget;
    size_t n; /* events */
    uint32_t attrs;
    VEC(struct place) places;
    VEC(uint32_t) next_self; /* lists of a function's selfs and calls, by function */
    VEC(uint32_t) next_call;
    VEC(uint8_t) is_back; /* per call: it closes a cycle */
    VEC(uint32_t) order;  /* functions, callees first */
    VEC(double) incoming; /* n per function: what its callers say it cost */
    VEC(double) whole;    /* n per function: that, or what it says itself where that is more */
    VEC(struct context) contexts;
    VEC(double) shares;  /* n per context */
    VEC(double) running; /* n per context of the function at hand: sums of shares */
    double total[CALLGRIND_EVENTS_MAX];
    size_t work;
    bool cut, cycles;
};

static void unfolding_done(struct unfolding *u)
{
    vec_done(u->budget, &u->places);
    vec_done(u->budget, &u->next_self);
    vec_done(u->budget, &u->next_call);
    vec_done(u->budget, &u->is_back);
    vec_done(u->budget, &u->order);
    vec_done(u->budget, &u->incoming);
    vec_done(u->budget, &u->whole);
    vec_done(u->budget, &u->contexts);
    vec_done(u->budget, &u->shares);
    vec_done(u->budget, &u->running);
}

/* Lists in file order, hence from the back. */
static bool link_lists(struct unfolding *u)
{
    const struct callgrind_graph *g = u->g;

    if (!vec_resize(u->budget, &u->places, g->functions.len) ||
        !vec_resize(u->budget, &u->next_self, g->selfs.len) ||
        !vec_resize(u->budget, &u->next_call, g->calls.len) ||
        !vec_resize(u->budget, &u->is_back, g->calls.len) ||
        !vec_resize(u->budget, &u->incoming, g->functions.len * u->n) ||
        !vec_resize(u->budget, &u->whole, g->functions.len * u->n))
        return false;
    for (size_t i = 0; i < u->places.len; i++)
        u->places.data[i].first_self = u->places.data[i].first_call =
            u->places.data[i].first_context = NONE;
    for (size_t i = g->selfs.len; i-- > 0;) {
        struct place *f = &u->places.data[g->selfs.data[i].function];
        u->next_self.data[i] = f->first_self;
        f->first_self = (uint32_t)i;
        f->n_items++;
    }
    for (size_t i = g->calls.len; i-- > 0;) {
        struct place *f = &u->places.data[g->calls.data[i].caller];
        u->next_call.data[i] = f->first_call;
        f->first_call = (uint32_t)i;
        f->n_items++;
    }
    return true;
}

/* One step of a depth-first search: a function and the next of its calls to follow. */
struct step {
    uint32_t function, call;
};

struct search {
    VEC(struct step) path;
    VEC(uint32_t) unsettled;
    uint32_t met;
};

static bool enter(struct unfolding *u, struct search *s, uint32_t function)
{
    struct place *f = &u->places.data[function];

    f->order = f->low = ++s->met;
    f->on_path = true;
    return vec_push(u->budget, &s->path, (struct step){function, f->first_call}) &&
           vec_push(u->budget, &s->unsettled, function);
}

/* Leaves the last function of the path; when no earlier one can be reached from it, all that was
 * met since is one cycle, or it alone none. */
static bool leave(struct unfolding *u, struct search *s)
{
    uint32_t function = vec_last(&s->path).function;
    struct place *f = &u->places.data[function];

    s->path.len--;
    f->on_path = false;
    if (s->path.len > 0) {
        struct place *caller = &u->places.data[vec_last(&s->path).function];
        if (f->low < caller->low)
            caller->low = f->low;
    }
    if (f->low == f->order) {
        bool alone = vec_last(&s->unsettled) == function;
        for (bool last = false; !last;) {
            uint32_t member = s->unsettled.data[--s->unsettled.len];
            u->places.data[member].settled = true;
            u->places.data[member].in_cycle |= !alone;
            last = member == function;
        }
    }
    return vec_push(u->budget, &u->order, function);
}

/* Follows one call. */
static bool follow(struct unfolding *u, struct search *s, uint32_t call)
{
    const struct callgrind_call *c = &u->g->calls.data[call];
    struct place *caller = &u->places.data[c->caller], *callee = &u->places.data[c->callee];

    if (callee->order == 0)
        return enter(u, s, c->callee);
    if (callee->on_path) {
        u->is_back.data[call] = 1;
        u->cycles = true;
        caller->in_cycle |= caller == callee;
    }
    if (!callee->settled && callee->order < caller->low)
        caller->low = callee->order;
    return true;
}

static bool search_from(struct unfolding *u, struct search *s, uint32_t root)
{
    if (u->places.data[root].order != 0)
        return true;
    bool ok = enter(u, s, root);
    while (ok && s->path.len > 0) {
        struct step *at = &vec_last(&s->path);
        if (at->call == NONE) {
            ok = leave(u, s);
            continue;
        }
        uint32_t call = at->call;
        at->call = u->next_call.data[call];
        ok = follow(u, s, call);
    }
    return ok;
}

/* Orders the functions so that callees come first, finding the calls that close cycles. Functions
 * that nobody calls are where a program starts: the search starts there too. */
static bool order_functions(struct unfolding *u)
{
    const struct callgrind_graph *g = u->g;
    struct search s = {.met = 0};
    VEC(uint8_t) is_called = {0};
    bool ok = vec_resize(u->budget, &is_called, g->functions.len);

    assert(!ok || g->calls.len == 0 || is_called.data);
    for (size_t i = 0; ok && i < g->calls.len; i++)
        is_called.data[g->calls.data[i].callee] = 1;
    for (uint32_t i = 0; ok && i < g->functions.len; i++)
        ok = is_called.data[i] || search_from(u, &s, i);
    for (uint32_t i = 0; ok && i < g->functions.len; i++)
        ok = search_from(u, &s, i);
    vec_done(u->budget, &is_called);
    vec_done(u->budget, &s.path);
    vec_done(u->budget, &s.unsettled);
    return ok;
}

static double weight(int64_t cost)
{
    return cost > 0 ? (double)cost : 0;
}

static void sum_costs(struct unfolding *u)
{
    const struct callgrind_graph *g = u->g;

    for (size_t i = 0; i < g->selfs.len; i++) {
        for (size_t k = 0; k < u->n; k++) {
            double w = weight(g->self_costs.data[i * u->n + k]);
            u->whole.data[g->selfs.data[i].function * u->n + k] += w;
            u->total[k] += w;
        }
    }
    for (size_t i = 0; i < g->calls.len; i++) {
        if (u->is_back.data[i])
            continue;
        for (size_t k = 0; k < u->n; k++) {
            double w = weight(g->call_costs.data[i * u->n + k]);
            u->whole.data[g->calls.data[i].caller * u->n + k] += w;
            u->incoming.data[g->calls.data[i].callee * u->n + k] += w;
        }
    }
    /* Within a cycle what a function says of itself counts costs more than once: its callers are
     * believed then, where there are any. */
    for (size_t i = 0; i < g->functions.len * u->n; i++) {
        bool in_cycle = u->places.data[i / u->n].in_cycle;
        if (u->incoming.data[i] > u->whole.data[i] || (in_cycle && u->incoming.data[i] > 0))
            u->whole.data[i] = u->incoming.data[i];
    }
}

static bool add_context(struct unfolding *u, uint32_t function, uint32_t parent,
                        const double *shares)
{
    struct place *f = &u->places.data[function];
    uint32_t id = (uint32_t)u->contexts.len;

    if (!vec_append(u->budget, &u->shares, shares, u->n) ||
        !vec_push(u->budget, &u->contexts, (struct context){f->first_context, parent}))
        return false;
    f->first_context = id;
    f->n_contexts++;
    return true;
}

/* The share that no caller accounts for: all of it for a function that nobody calls. */
static bool add_root_context(struct unfolding *u, uint32_t function)
{
    double shares[CALLGRIND_EVENTS_MAX];
    bool any = false;

    for (size_t k = 0; k < u->n; k++) {
        double whole = u->whole.data[function * u->n + k];
        double incoming = u->incoming.data[function * u->n + k];
        shares[k] = whole > 0 ? (whole - incoming) / whole : incoming > 0 ? 0 : 1;
        any |= whole > 0 && whole > incoming;
    }
    if (any || u->places.data[function].n_contexts == 0)
        return add_context(u, function, 0, shares);
    return true;
}

/*
 * Deals an amount out in parts: the running share says how much is to be given by now, and the last
 * part takes what is left, so that the parts always add up. *given is 0 at the start.
 */
static int64_t deal(int64_t amount, double share, bool is_last, int64_t *given)
{
    if (amount == 0)
        return 0;
    long double exact = (long double)amount * share;
    int64_t by_now = is_last ? amount : (int64_t)(amount < 0 ? exact - 0.5L : exact + 0.5L);
    int64_t part = by_now - *given;
    *given = by_now;
    return part;
}

/* The running sums of a function's shares, context by context, at most 1. */
static bool sum_shares(struct unfolding *u, const struct place *f)
{
    double sum[CALLGRIND_EVENTS_MAX] = {0};
    bool ok = true;

    vec_clear(&u->running);
    for (uint32_t c = f->first_context; ok && c != NONE; c = u->contexts.data[c].next) {
        for (size_t k = 0; k < u->n; k++) {
            sum[k] += u->shares.data[c * u->n + k];
            sum[k] = sum[k] < 1 ? sum[k] : 1;
        }
        ok = vec_append(u->budget, &u->running, sum, u->n);
    }
    return ok;
}

static bool add_row(struct unfolding *u, uint32_t parent, uint32_t location, const int64_t *values)
{
    bool any = false;

    for (size_t k = 0; k <= u->n; k++)
        any |= values[k] != 0;
    if (!any)
        return true;
    struct sample s = {
        .node = dict_node(u->p->dict, parent, location), .attrs = u->attrs, .values = values};
    return profile_add(u->p, &s);
}

static bool emit_self(struct unfolding *u, const struct place *f, uint32_t self)
{
    const int64_t *costs = u->g->self_costs.data + self * u->n;
    const double *running = u->running.data;
    int64_t values[CALLGRIND_EVENTS_MAX + 1] = {0}, given[CALLGRIND_EVENTS_MAX] = {0};
    bool ok = true;

    for (uint32_t c = f->first_context; ok && c != NONE; c = u->contexts.data[c].next) {
        bool is_last = u->contexts.data[c].next == NONE;
        for (size_t k = 0; k < u->n; k++)
            values[k] = deal(costs[k], running[k], is_last, &given[k]);
        running += u->n;
        ok = add_row(u, u->contexts.data[c].parent, u->g->selfs.data[self].location, values);
    }
    return ok;
}

/* The callee's shares when it is called from one context of its caller, and whether that carries
 * enough to be worth a stack of its own. */
static bool callee_shares(struct unfolding *u, uint32_t call, const double *shares, double *ret)
{
    const struct callgrind_call *c = &u->g->calls.data[call];
    bool matters = false;

    for (size_t k = 0; k < u->n; k++) {
        double whole = u->whole.data[c->callee * u->n + k];
        double cost = weight(u->g->call_costs.data[call * u->n + k]) * shares[k];
        ret[k] = whole > 0 ? cost / whole : 0;
        matters |= cost > CUT * u->total[k];
    }
    return matters && u->contexts.len < CONTEXTS_MAX;
}

/*
 * Follows one call from every context of its caller. Contexts that do not matter, and those that
 * have no caller anyway, become one that starts at the call itself.
 */
static bool follow_call(struct unfolding *u, const struct place *f, uint32_t call)
{
    const struct callgrind_call *e = &u->g->calls.data[call];
    struct dict *dict = u->p->dict;
    double rest[CALLGRIND_EVENTS_MAX] = {0}, shares[CALLGRIND_EVENTS_MAX];
    int64_t values[CALLGRIND_EVENTS_MAX + 1] = {0}, rest_count = 0, given = 0;
    const double *running = u->running.data;
    bool ok = true, any_rest = false;

    for (uint32_t c = f->first_context; ok && c != NONE; c = u->contexts.data[c].next) {
        uint32_t parent = u->contexts.data[c].parent;
        bool matters = callee_shares(u, call, u->shares.data + c * u->n, shares);
        int64_t count = deal((int64_t)e->count, *running, u->contexts.data[c].next == NONE, &given);
        running += u->n;
        if (!matters || parent == 0) {
            u->cut |= parent != 0;
            for (size_t k = 0; k < u->n; k++)
                rest[k] += shares[k];
            rest_count += count;
            any_rest = true;
            continue;
        }
        parent = dict_node(dict, parent, e->site);
        values[u->n] = count;
        ok = add_row(u, parent, e->entry, values) &&
             (u->is_back.data[call] || add_context(u, e->callee, parent, shares));
    }
    if (!ok || !any_rest)
        return ok;
    uint32_t parent = dict_node(dict, 0, e->site);
    values[u->n] = rest_count;
    return add_row(u, parent, e->entry, values) &&
           (u->is_back.data[call] || add_context(u, e->callee, parent, rest));
}

/* Forgets who called a function of too many callers and too many lines. */
static bool cut_contexts(struct unfolding *u, uint32_t function)
{
    struct place *f = &u->places.data[function];
    double all[CALLGRIND_EVENTS_MAX];

    for (size_t k = 0; k < u->n; k++)
        all[k] = 1;
    f->first_context = NONE;
    f->n_contexts = 0;
    u->cut = true;
    return add_context(u, function, 0, all);
}

static bool unfold_function(struct unfolding *u, uint32_t function)
{
    const struct place *f = &u->places.data[function];

    if (!add_root_context(u, function))
        return false;
    size_t work = (size_t)f->n_contexts * f->n_items;
    if (f->n_contexts > 1 && (u->work >= WORK_MAX || work > WORK_MAX - u->work)) {
        if (!cut_contexts(u, function))
            return false;
        work = f->n_items;
    }
    u->work += work;
    if (!sum_shares(u, f))
        return false;
    for (uint32_t s = f->first_self; s != NONE; s = u->next_self.data[s]) {
        if (!emit_self(u, f, s))
            return false;
    }
    for (uint32_t c = f->first_call; c != NONE; c = u->next_call.data[c]) {
        if (!follow_call(u, f, c))
            return false;
    }
    return !budget_failed(u->budget);
}

bool callgrind_graph_unfold(const struct callgrind_graph *g, struct profile *p, uint32_t attrs,
                            bool *ret_cut, bool *ret_cycles)
{
    struct unfolding u = {.g = g, .p = p, .budget = g->budget, .n = g->n_events, .attrs = attrs};
    bool ok = link_lists(&u) && order_functions(&u);

    if (ok)
        sum_costs(&u);
    for (size_t i = u.order.len; ok && i-- > 0;)
        ok = unfold_function(&u, u.order.data[i]);
    *ret_cut = u.cut;
    *ret_cycles = u.cycles;
    unfolding_done(&u);
    return ok;
}
