/*
 * Building the call graph in one walk over the stack trie: totals per stack first, then every stack
 * is entered once, below its caller, with the nodes and edges on the way to it marked as seen. So
 * recursion counts once, and the cost is that of the trie and not of the samples.
 */
#include "profile/graph.h"

#include "base/hash.h"
#include "profile/graph_internal.h"

/* Where the walk stands: the last frame that is a node, and whether frames were left out since. */
struct place {
    uint32_t node;
    bool is_residual;
};

struct level {
    uint32_t stack; /* trie node */
    struct place above;
    size_t undo; /* length of the undo list on entry */
};

/* The edge last taken into a node: callers repeat. */
struct last_edge {
    uint32_t src, edge;
};

struct walk {
    struct graph *g;
    struct dict *dict;
    const struct graph_options *o;
    const struct graph_totals *t;

    VEC(bool) seen_node, seen_edge;  /* on the way from the root */
    VEC(struct last_edge) last_edge; /* per node */
    VEC(uint32_t) undo;              /* node << 1, or edge << 1 | 1 */
    VEC(struct level) levels;
};

static void walk_done(struct walk *w)
{
    struct budget *b = w->g->budget;

    vec_done(b, &w->seen_node);
    vec_done(b, &w->seen_edge);
    vec_done(b, &w->last_edge);
    vec_done(b, &w->undo);
    vec_done(b, &w->levels);
}

static void add_samples(struct graph_totals *t, const struct profile *p,
                        const struct graph_options *o)
{
    const int64_t *values = p->values[o->type];
    const int64_t *divisors = o->mean ? p->values[0] : NULL;

    for (size_t i = 0; i < p->n_samples; i++) {
        uint32_t n = p->node[i];
        if (values[i] == 0 && (!divisors || divisors[i] == 0))
            continue;
        t->is_used.data[n] = true;
        graph_add(&t->self.data[n], values[i]);
        if (divisors)
            graph_add(&t->self_div.data[n], divisors[i]);
    }
}

/* Totals per stack and the lists of children, from the leaves up. */
static void add_up(struct graph_totals *t, const uint32_t *parent)
{
    for (uint32_t i = (uint32_t)t->self.len; i-- > 1;) {
        if (!t->is_used.data[i])
            continue;
        uint32_t up = parent[i];
        t->is_used.data[up] = true;
        graph_add(&t->total.data[i], t->self.data[i]);
        graph_add(&t->total.data[up], t->total.data[i]);
        if (t->self_div.len) {
            graph_add(&t->total_div.data[i], t->self_div.data[i]);
            graph_add(&t->total_div.data[up], t->total_div.data[i]);
        }
        t->next_sibling.data[i] = t->first_child.data[up];
        t->first_child.data[up] = i;
    }
}

bool graph_totals_build(const struct profile *p, const struct graph_options *o,
                        struct graph_totals *ret)
{
    struct budget *b = p->dict->budget;
    size_t n = dict_n_nodes(p->dict), n_div = o->mean ? n : 0;

    *ret = (struct graph_totals){.budget = b};
    if (!vec_resize(b, &ret->self, n) || !vec_resize(b, &ret->total, n) ||
        !vec_resize(b, &ret->self_div, n_div) || !vec_resize(b, &ret->total_div, n_div) ||
        !vec_resize(b, &ret->is_used, n) || !vec_resize(b, &ret->first_child, n) ||
        !vec_resize(b, &ret->next_sibling, n))
        return false;
    add_samples(ret, p, o);
    add_up(ret, p->dict->node_parent.data);
    return true;
}

void graph_totals_done(struct graph_totals *t)
{
    vec_done(t->budget, &t->self);
    vec_done(t->budget, &t->total);
    vec_done(t->budget, &t->self_div);
    vec_done(t->budget, &t->total_div);
    vec_done(t->budget, &t->is_used);
    vec_done(t->budget, &t->first_child);
    vec_done(t->budget, &t->next_sibling);
}

static bool need_nodes(struct graph *g, size_t n)
{
    size_t had = g->nodes.len;

    if (n <= had)
        return true;
    if (!vec_resize(g->budget, &g->nodes, n))
        return false;
    for (size_t i = had; i < n && !g->is_tree; i++)
        g->nodes.data[i].frame = (uint32_t)i;
    return true;
}

/* A call tree: the child of `parent` that is `frame`. The edge to it tells its parent. */
static uint32_t tree_child(struct graph *g, uint32_t parent, uint32_t frame)
{
    uint64_t hash = hash_mix((uint64_t)parent << 32 | frame, 2);
    uint32_t id = IDSET_FIND(&g->child_index, hash, i,
                             g->nodes.data[i].frame == frame && g->edges.data[i].src == parent);
    if (id != IDSET_NONE)
        return id;
    /* Node i has edge i into it, which for roots goes from 0 and counts as gone. */
    id = (uint32_t)g->nodes.len;
    if (id >= UINT32_MAX / 2 || !need_nodes(g, id + 1u) ||
        !vec_push(g->budget, &g->edges,
                  (struct graph_edge){
                      .src = parent, .dst = id, .is_inline = true, .is_gone = parent == 0}) ||
        !idset_add(g->budget, &g->child_index, hash, id)) {
        g->budget->failed = true;
        return 0;
    }
    g->nodes.data[id].frame = frame;
    return id;
}

uint32_t graph_node_of(struct graph *g, uint32_t parent, uint32_t frame, const bool *kept)
{
    if (kept && !kept[frame])
        return 0;
    if (g->is_tree)
        return tree_child(g, parent, frame);
    return need_nodes(g, frame + 1u) ? frame : 0;
}

static uint32_t edge_of(struct graph *g, uint32_t src, uint32_t dst)
{
    if (g->is_tree)
        return dst;
    uint64_t hash = hash_mix((uint64_t)src << 32 | dst, 3);
    uint32_t id = IDSET_FIND(&g->edge_index, hash, i,
                             g->edges.data[i].src == src && g->edges.data[i].dst == dst);
    if (id != IDSET_NONE)
        return id;
    id = (uint32_t)g->edges.len;
    if (id >= UINT32_MAX / 2 ||
        !vec_push(g->budget, &g->edges,
                  (struct graph_edge){.src = src, .dst = dst, .is_inline = true}) ||
        !idset_add(g->budget, &g->edge_index, hash, id)) {
        g->budget->failed = true;
        return 0;
    }
    return id;
}

static void count_node(struct walk *w, uint32_t node, uint32_t stack)
{
    struct graph *g = w->g;

    if (node >= w->seen_node.len && !vec_resize(g->budget, &w->seen_node, g->nodes.len))
        return;
    if (w->seen_node.data[node] || !vec_push(g->budget, &w->undo, node << 1))
        return;
    w->seen_node.data[node] = true;
    graph_add(&g->nodes.data[node].cum, w->t->total.data[stack]);
    if (w->t->total_div.len)
        graph_add(&g->nodes.data[node].cum_div, w->t->total_div.data[stack]);
}

static void count_edge(struct walk *w, struct place from, uint32_t node, uint32_t stack,
                       bool is_inline)
{
    struct graph *g = w->g;

    if (node >= w->last_edge.len && !vec_resize(g->budget, &w->last_edge, g->nodes.len))
        return;
    struct last_edge *last = &w->last_edge.data[node];
    uint32_t id = last->src == from.node ? last->edge : edge_of(g, from.node, node);
    *last = (struct last_edge){from.node, id};
    if (id >= w->seen_edge.len && !vec_resize(g->budget, &w->seen_edge, g->edges.len))
        return;
    if (budget_failed(g->budget))
        return;
    if (w->seen_edge.data[id] || !vec_push(g->budget, &w->undo, id << 1 | 1))
        return;
    struct graph_edge *e = &g->edges.data[id];
    w->seen_edge.data[id] = true;
    graph_add(&e->weight, w->t->total.data[stack]);
    if (w->t->total_div.len)
        graph_add(&e->weight_div, w->t->total_div.data[stack]);
    e->is_residual |= from.is_residual;
    e->is_inline &= is_inline;
}

static bool wants_edge(const struct walk *w, uint32_t node)
{
    const struct graph *g = w->g;

    if (w->o->edges == GRAPH_EDGES_INLINED)
        return g->frames->is_inlined.data[g->nodes.data[node].frame];
    return w->o->edges == GRAPH_EDGES_ALL;
}

/* Counts the frames of one more location, outermost first. */
static struct place enter(struct walk *w, uint32_t stack, struct place at)
{
    struct graph *g = w->g;
    uint32_t n;
    size_t first = frames_of(g->frames, w->dict->node_location.data[stack], &n);

    for (uint32_t i = n; i-- > 0;) {
        uint32_t node = graph_node_of(g, at.node, g->frames->ids.data[first + i], w->o->kept);
        if (node == 0) {
            at.is_residual = true;
            continue;
        }
        count_node(w, node, stack);
        if (at.node != 0 && at.node != node && wants_edge(w, node))
            count_edge(w, at, node, stack, i != n - 1);
        at = (struct place){node, false};
    }
    if (at.node != 0 && !at.is_residual) {
        graph_add(&g->nodes.data[at.node].flat, w->t->self.data[stack]);
        if (w->t->self_div.len)
            graph_add(&g->nodes.data[at.node].flat_div, w->t->self_div.data[stack]);
    }
    return at;
}

static void undo_to(struct walk *w, size_t len)
{
    while (w->undo.len > len) {
        uint32_t id = w->undo.data[--w->undo.len];
        if (id & 1)
            w->seen_edge.data[id >> 1] = false;
        else
            w->seen_node.data[id >> 1] = false;
    }
}

/* Enters every used stack below its caller. Depth is bounded by memory, not by the call stack. */
static bool walk_all(struct walk *w)
{
    struct budget *b = w->g->budget;
    uint32_t stack = w->t->first_child.data[0];
    struct place at = {0};

    while (stack != 0) {
        if (!vec_push(b, &w->levels, (struct level){stack, at, w->undo.len}) || budget_failed(b))
            return false;
        at = enter(w, stack, at);
        uint32_t next = w->t->first_child.data[stack];
        while (next == 0 && w->levels.len > 0) {
            struct level l = w->levels.data[--w->levels.len];
            undo_to(w, l.undo);
            at = l.above;
            next = w->t->next_sibling.data[l.stack];
        }
        stack = next;
    }
    return !budget_failed(b);
}

static bool is_negative(const struct graph_node *n)
{
    return n->flat < 0 || (n->flat == 0 && n->cum < 0);
}

static bool select_nodes(struct graph *g, bool drop_negative)
{
    for (uint32_t i = 1; i < g->nodes.len; i++) {
        const struct graph_node *n = &g->nodes.data[i];
        if ((n->cum == 0 && n->flat == 0) || (drop_negative && is_negative(n)))
            continue;
        if (!vec_push(g->budget, &g->order, i))
            return false;
    }
    return true;
}

/* A counting sort of the edges by one of their ends. */
static bool link_side(struct graph *g, bool is_in, uint32_t *first, uint32_t *list)
{
    size_t n = g->nodes.len;

    for (size_t e = 0; e < g->edges.len; e++)
        first[(is_in ? g->edges.data[e].dst : g->edges.data[e].src) + 1]++;
    for (size_t i = 0; i < n; i++)
        first[i + 1] += first[i];
    for (size_t e = g->edges.len; e-- > 0;) {
        uint32_t node = is_in ? g->edges.data[e].dst : g->edges.data[e].src;
        list[--first[node + 1]] = (uint32_t)e;
    }
    /* Each count was used up going down: what is left in first[n + 1] is where n starts. */
    memmove(first, first + 1, n * sizeof(*first));
    first[n] = (uint32_t)g->edges.len;
    return true;
}

bool graph_link(struct graph *g)
{
    struct budget *b = g->budget;
    size_t n = g->nodes.len + 1;

    vec_clear(&g->in_first);
    vec_clear(&g->out_first);
    return vec_resize(b, &g->in_first, n) && vec_resize(b, &g->out_first, n) &&
           vec_resize(b, &g->in, g->edges.len) && vec_resize(b, &g->out, g->edges.len) &&
           link_side(g, true, g->in_first.data, g->in.data) &&
           link_side(g, false, g->out_first.data, g->out.data);
}

int graph_build_from(const struct graph_totals *t, const struct profile *p, struct frames *f,
                     const struct graph_options *o, struct graph *ret, struct error *err)
{
    *ret = (struct graph){.frames = f, .budget = p->dict->budget, .is_tree = o->call_tree};
    struct walk w = {.g = ret, .dict = p->dict, .o = o, .t = t};

    bool ok = need_nodes(ret, ret->is_tree ? 1 : f->all.len) &&
              (!ret->is_tree ||
               vec_push(ret->budget, &ret->edges, (struct graph_edge){.is_gone = true})) &&
              walk_all(&w);
    walk_done(&w);
    ok = ok && select_nodes(ret, o->drop_negative) && graph_link(ret) &&
         (!o->with_tags || graph_add_tags(ret, p, o));
    return ok ? 0 : budget_error(ret->budget, err);
}

int graph_build(const struct profile *p, struct frames *f, const struct graph_options *o,
                struct graph *ret, struct error *err)
{
    struct graph_totals t;

    *ret = (struct graph){.frames = f, .budget = p->dict->budget};
    int r = graph_totals_build(p, o, &t) ? graph_build_from(&t, p, f, o, ret, err)
                                         : budget_error(p->dict->budget, err);
    graph_totals_done(&t);
    return r;
}

void graph_done(struct graph *g)
{
    struct budget *b = g->budget;

    vec_done(b, &g->nodes);
    vec_done(b, &g->edges);
    vec_done(b, &g->tags);
    idset_done(b, &g->edge_index);
    idset_done(b, &g->tag_index);
    idset_done(b, &g->child_index);
    vec_done(b, &g->order);
    vec_done(b, &g->in_first);
    vec_done(b, &g->in);
    vec_done(b, &g->out_first);
    vec_done(b, &g->out);
}

static int64_t divided(int64_t v, int64_t by)
{
    if (by == 0)
        return v;
    return by == -1 ? (int64_t) - (uint64_t)v : v / by;
}

int64_t graph_flat(const struct graph_node *n)
{
    return divided(n->flat, n->flat_div);
}

int64_t graph_cum(const struct graph_node *n)
{
    return divided(n->cum, n->cum_div);
}
