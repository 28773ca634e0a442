/* Sorting a graph and leaving out what does not matter, exactly as pprof does. */
#include <math.h>
#include <stdlib.h>

#include "profile/graph_internal.h"

/* Nodes that a picture shows at most for the labels of one node. */
#define TAGS_SHOWN_MAX 4

struct scored {
    uint32_t node;
    int64_t score;
    const char *name;
};

/* Information is where a node's weight spreads over its edges. */
static double edge_entropy(const struct graph *g, const uint32_t *edges, size_t n, int64_t self)
{
    int64_t total = self;
    double score = 0;

    for (size_t i = 0; i < n; i++) {
        const struct graph_edge *e = &g->edges.data[edges[i]];
        if (!e->is_gone && e->weight > 0)
            graph_add(&total, e->weight);
    }
    if (total == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct graph_edge *e = &g->edges.data[edges[i]];
        double part = (double)graph_abs(e->weight) / (double)total;
        if (!e->is_gone)
            score += -part * log2(part);
    }
    if (self > 0) {
        double part = (double)self / (double)total;
        score += -part * log2(part);
    }
    return score;
}

static size_t live_edges(const struct graph *g, const uint32_t *edges, size_t n)
{
    size_t live = 0;
    for (size_t i = 0; i < n; i++)
        live += !g->edges.data[edges[i]].is_gone;
    return live;
}

static int64_t entropy_score(const struct graph *g, uint32_t id)
{
    const struct graph_node *n = &g->nodes.data[id];
    const uint32_t *in = g->in.data + g->in_first.data[id];
    const uint32_t *out = g->out.data + g->out_first.data[id];
    size_t n_in = g->in_first.data[id + 1] - g->in_first.data[id];
    size_t n_out = g->out_first.data[id + 1] - g->out_first.data[id];
    double score = 0;

    /* Where everything starts, and where it ends, matters most. */
    score += live_edges(g, in, n_in) == 0 ? 1 : edge_entropy(g, in, n_in, 0);
    score += live_edges(g, out, n_out) == 0 ? 1 : edge_entropy(g, out, n_out, n->flat);
    int64_t ret = graph_truncate(score * (double)n->cum);
    graph_add(&ret, n->flat);
    return ret;
}

static int descending(int64_t a, int64_t b)
{
    return (a < b) - (a > b);
}

static int compare_scored(const void *a, const void *b, void *context)
{
    const struct scored *x = a, *y = b;
    const struct graph_node *nodes = context;
    int c = descending(x->score, y->score);

    if (c == 0)
        c = strcmp(x->name, y->name);
    /* Entries of one name and value: any order is pprof's, so take a stable one. */
    if (c == 0)
        c = descending(graph_abs(nodes[x->node].cum), graph_abs(nodes[y->node].cum));
    if (c == 0)
        c = descending(graph_abs(nodes[x->node].flat), graph_abs(nodes[y->node].flat));
    return c ? c : (x->node > y->node) - (x->node < y->node);
}

static void graph_sort(struct graph *g, enum graph_order order)
{
    VEC(struct scored) all = {0};

    if (!vec_resize(g->budget, &all, g->order.len))
        return;
    for (size_t i = 0; i < g->order.len; i++) {
        uint32_t id = g->order.data[i];
        const struct graph_node *n = &g->nodes.data[id];
        int64_t score = order == GRAPH_BY_FLAT  ? n->flat
                        : order == GRAPH_BY_CUM ? n->cum
                                                : entropy_score(g, id);
        all.data[i] = (struct scored){id, graph_abs(score), frames_name(g->frames, n->frame)};
    }
    if (all.len > 0)
        qsort_r(all.data, all.len, sizeof(*all.data), compare_scored, g->nodes.data);
    for (size_t i = 0; i < g->order.len; i++)
        g->order.data[i] = all.data[i].node;
    vec_done(g->budget, &all);
}

struct edge_names {
    const struct graph *g;
    struct frames *frames;
};

static int compare_edges(const void *a, const void *b, void *context)
{
    const struct edge_names *names = context;
    const struct graph *g = names->g;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct graph_edge *x = &g->edges.data[i], *y = &g->edges.data[j];
    int c = descending(graph_abs(x->weight), graph_abs(y->weight));

    if (c == 0)
        c = strcmp(frames_name(names->frames, g->nodes.data[x->src].frame),
                   frames_name(names->frames, g->nodes.data[y->src].frame));
    if (c == 0)
        c = strcmp(frames_name(names->frames, g->nodes.data[x->dst].frame),
                   frames_name(names->frames, g->nodes.data[y->dst].frame));
    return c ? c : (i > j) - (i < j);
}

static bool sorted_edges(struct graph *g, const uint32_t *edges, size_t n, graph_ids *ret)
{
    struct edge_names names = {g, g->frames};

    vec_clear(ret);
    for (size_t i = 0; i < n; i++) {
        if (!g->edges.data[edges[i]].is_gone && !vec_push(g->budget, ret, edges[i]))
            return false;
    }
    if (ret->len > 1)
        qsort_r(ret->data, ret->len, sizeof(*ret->data), compare_edges, &names);
    return true;
}

bool graph_callers(struct graph *g, uint32_t node, graph_ids *ret)
{
    uint32_t first = g->in_first.data[node];
    return sorted_edges(g, g->in.data + first, g->in_first.data[node + 1] - first, ret);
}

bool graph_callees(struct graph *g, uint32_t node, graph_ids *ret)
{
    uint32_t first = g->out_first.data[node];
    return sorted_edges(g, g->out.data + first, g->out_first.data[node + 1] - first, ret);
}

static void trim_tags(struct graph *g, int64_t cutoff)
{
    for (size_t i = 0; i < g->tags.len; i++) {
        struct graph_tag *t = &g->tags.data[i];
        t->is_gone |= graph_abs(t->flat) < cutoff && graph_abs(t->cum) < cutoff;
    }
}

static size_t trim_edges(struct graph *g, int64_t cutoff)
{
    size_t dropped = 0;

    for (size_t i = 0; i < g->order.len; i++) {
        uint32_t n = g->order.data[i];
        for (uint32_t k = g->in_first.data[n]; k < g->in_first.data[n + 1]; k++) {
            struct graph_edge *e = &g->edges.data[g->in.data[k]];
            if (!e->is_gone && graph_abs(e->weight) < cutoff) {
                e->is_gone = true;
                dropped++;
            }
        }
    }
    return dropped;
}

/* Whether e.dst can be reached from e.src without e. `seen` is zeroed, one per node. */
static bool is_redundant(struct graph *g, uint32_t edge, bool *seen, graph_ids *queue)
{
    const struct graph_edge *e = &g->edges.data[edge];

    vec_clear(queue);
    seen[e->dst] = true;
    if (!vec_push(g->budget, queue, e->dst))
        return false;
    for (size_t at = 0; at < queue->len; at++) {
        uint32_t n = queue->data[at];
        for (uint32_t k = g->in_first.data[n]; k < g->in_first.data[n + 1]; k++) {
            uint32_t id = g->in.data[k], src = g->edges.data[id].src;
            if (id == edge || g->edges.data[id].is_gone || seen[src])
                continue;
            if (src == e->src)
                return true;
            seen[src] = true;
            if (!vec_push(g->budget, queue, src))
                return false;
        }
    }
    return false;
}

/* Removes residual edges whose ends are connected otherwise; lightest first. */
static bool remove_redundant_edges(struct graph *g)
{
    struct budget *b = g->budget;
    VEC(bool) seen = {0};
    graph_ids in = {0}, queue = {0};
    bool ok = vec_resize(b, &seen, g->nodes.len);

    for (size_t i = g->order.len; ok && i-- > 0;) {
        ok = graph_callers(g, g->order.data[i], &in);
        for (size_t k = in.len; ok && k-- > 0;) {
            if (!g->edges.data[in.data[k]].is_residual)
                break;
            g->edges.data[in.data[k]].is_gone = is_redundant(g, in.data[k], seen.data, &queue);
            for (size_t q = 0; q < queue.len; q++)
                seen.data[queue.data[q]] = false;
        }
    }
    vec_done(b, &seen);
    vec_done(b, &in);
    vec_done(b, &queue);
    return ok && !budget_failed(b);
}

/* Keeps only the given nodes of a call tree; others hang below the closest caller that is left. */
static bool trim_tree(struct graph *g, const bool *kept)
{
    struct budget *b = g->budget;
    VEC(bool) is_out = {0};
    size_t n_kept = 0;
    bool ok = vec_resize(b, &is_out, g->nodes.len);

    for (size_t i = 0; ok && i < g->order.len; i++) {
        uint32_t n = g->order.data[i];
        is_out.data[n] = !kept[n];
        if (kept[n])
            g->order.data[n_kept++] = n;
    }
    if (ok)
        g->order.len = n_kept;
    /* Callers have smaller ids, so the edge into a caller is settled when its callee asks. */
    for (uint32_t n = 1; ok && n < g->nodes.len; n++) {
        struct graph_edge *e = &g->edges.data[n];
        if (e->is_gone || !is_out.data[e->src])
            continue;
        const struct graph_edge *above = &g->edges.data[e->src];
        e->is_gone = above->is_gone;
        if (e->is_gone)
            continue;
        e->src = above->src;
        e->is_residual = true;
        e->is_inline &= above->is_inline;
    }
    for (uint32_t n = 1; ok && n < g->nodes.len; n++) {
        if (is_out.data[n])
            g->edges.data[n].is_gone = true;
    }
    vec_done(b, &is_out);
    return ok && graph_link(g) && remove_redundant_edges(g);
}

/* How many of the first nodes to show; in a picture labels take room too. */
static size_t choose_count(struct graph *g, size_t wanted, bool is_picture)
{
    VEC(uint32_t) tags = {0};
    size_t used = 0, ret = wanted;

    if (is_picture && vec_resize(g->budget, &tags, g->nodes.len)) {
        for (size_t i = 0; i < g->tags.len; i++)
            tags.data[g->tags.data[i].node] +=
                !g->tags.data[i].is_gone && g->tags.data[i].flat != 0;
        for (size_t i = 0; i < g->order.len; i++) {
            uint32_t n_tags = tags.data[g->order.data[i]];
            used += (n_tags < TAGS_SHOWN_MAX ? n_tags : TAGS_SHOWN_MAX) + 1;
            if (used >= wanted) {
                ret = i + 1;
                break;
            }
        }
    }
    vec_done(g->budget, &tags);
    return ret < g->order.len ? ret : g->order.len;
}

struct trimming {
    struct graph_totals totals;
    const struct profile *p;
    struct frames *frames;
    struct graph_options options;
    const struct graph_trim *trim;
    struct graph *g;
};

static enum graph_order order_of(const struct graph_trim *t)
{
    if (t->is_picture)
        return GRAPH_BY_ENTROPY;
    return t->by_cum ? GRAPH_BY_CUM : GRAPH_BY_FLAT;
}

/* Reduces the graph to the nodes marked in `kept` (NULL is all): a graph is built anew, since edges
 * then go over the frames left out; a tree is cut. */
static int keep_only(struct trimming *t, const bool *kept, struct error *err)
{
    if (t->g->is_tree)
        return trim_tree(t->g, kept) ? 0 : budget_error(t->g->budget, err);
    graph_done(t->g);
    t->options.kept = kept;
    int r = graph_build_from(&t->totals, t->p, t->frames, &t->options, t->g, err);
    t->options.kept = NULL;
    return r;
}

static int drop_light_nodes(struct trimming *t, int64_t cutoff, size_t *ret_dropped,
                            struct error *err)
{
    struct graph *g = t->g;
    VEC(bool) kept = {0};
    size_t n_kept = 0, before = g->order.len;

    if (cutoff <= 0)
        return 0;
    if (!vec_resize(g->budget, &kept, g->nodes.len))
        return budget_error(g->budget, err);
    for (size_t i = 0; i < g->order.len; i++) {
        uint32_t n = g->order.data[i];
        kept.data[n] = graph_abs(g->nodes.data[n].cum) >= cutoff;
        n_kept += kept.data[n];
    }
    int r = 0;
    if (n_kept != before) {
        *ret_dropped = before - n_kept;
        r = keep_only(t, kept.data, err);
    }
    vec_done(g->budget, &kept);
    return r;
}

static int limit_nodes(struct trimming *t, int64_t node_cutoff, int64_t edge_cutoff,
                       struct error *err)
{
    struct graph *g = t->g;
    VEC(bool) kept = {0};
    int r = 0;

    if (t->trim->node_count <= 0)
        return 0;
    trim_tags(g, node_cutoff);
    (void)trim_edges(g, edge_cutoff);
    size_t n = choose_count(g, (size_t)t->trim->node_count, t->trim->is_picture);
    if (n == g->order.len)
        return 0;
    if (!vec_resize(g->budget, &kept, g->nodes.len))
        return budget_error(g->budget, err);
    for (size_t i = 0; i < n; i++)
        kept.data[g->order.data[i]] = true;
    r = keep_only(t, kept.data, err);
    if (r == 0)
        graph_sort(g, order_of(t->trim));
    vec_done(g->budget, &kept);
    return r;
}

/* The nodes of a picture depend on its edges, and those of a tree hang on them, so that each step
 * is taken on a whole graph. */
static int trim_whole(struct trimming *t, struct graph_trimmed *ret, int64_t node_cutoff,
                      int64_t edge_cutoff, struct error *err)
{
    struct graph *g = t->g;
    int r = drop_light_nodes(t, node_cutoff, &ret->dropped_nodes, err);

    if (r < 0)
        return r;
    ret->n_nodes_before = g->order.len;
    graph_sort(g, order_of(t->trim));
    r = limit_nodes(t, node_cutoff, edge_cutoff, err);
    if (r < 0)
        return r;
    trim_tags(g, node_cutoff);
    ret->dropped_edges = trim_edges(g, edge_cutoff);
    return remove_redundant_edges(g) ? 0 : budget_error(g->budget, err);
}

/* Keeps the entries of the order that are heavy enough and among the first. */
static void trim_order(struct trimming *t, struct graph_trimmed *ret, int64_t node_cutoff)
{
    struct graph *g = t->g;
    size_t kept = 0, count = (size_t)t->trim->node_count;

    for (size_t i = 0; i < g->order.len; i++) {
        uint32_t n = g->order.data[i];
        if (graph_abs(g->nodes.data[n].cum) >= node_cutoff)
            g->order.data[kept++] = n;
    }
    ret->dropped_nodes = g->order.len - kept;
    ret->n_nodes_before = g->order.len = kept;
    graph_sort(g, order_of(t->trim));
    if (t->trim->node_count > 0 && count < g->order.len)
        g->order.len = count;
}

/*
 * A node's own numbers do not depend on which others are kept: they are chosen without any edges,
 * and the edges are counted once, between those that are left.
 */
static int trim_list(struct trimming *t, struct graph_trimmed *ret, int64_t node_cutoff,
                     int64_t edge_cutoff, enum graph_edges edges, struct error *err)
{
    struct graph *g = t->g;
    VEC(bool) kept = {0};
    graph_ids order = {0};

    trim_order(t, ret, node_cutoff);
    if (edges == GRAPH_EDGES_NONE)
        return 0;
    if (!vec_resize(g->budget, &kept, g->nodes.len) ||
        !vec_append(g->budget, &order, g->order.data, g->order.len)) {
        vec_done(g->budget, &kept);
        return budget_error(g->budget, err);
    }
    for (size_t i = 0; i < order.len; i++)
        kept.data[order.data[i]] = true;
    t->options.edges = edges;
    /* Nodes that come to nothing are passed through as long as no other is left out: so pprof. */
    bool is_cut = ret->dropped_nodes > 0 || order.len < ret->n_nodes_before;
    int r = keep_only(t, is_cut ? kept.data : NULL, err);
    vec_clear(&g->order);
    if (r == 0 && !vec_append(g->budget, &g->order, order.data, order.len))
        r = budget_error(g->budget, err);
    vec_done(g->budget, &kept);
    vec_done(g->budget, &order);
    if (r == 0)
        ret->dropped_edges = trim_edges(g, edge_cutoff);
    return r;
}

static bool has_inlined(const struct frames *f)
{
    for (size_t i = 0; i < f->is_inlined.len; i++) {
        if (f->is_inlined.data[i])
            return true;
    }
    return false;
}

static int build_trimmed(struct trimming *t, struct graph_trimmed *ret, struct error *err)
{
    enum graph_edges edges = t->options.edges;
    bool is_whole = t->trim->is_picture || t->options.call_tree;
    int64_t total = 0;

    t->options.edges = is_whole ? GRAPH_EDGES_ALL : GRAPH_EDGES_NONE;
    int r = graph_build_from(&t->totals, t->p, t->frames, &t->options, t->g, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < t->g->order.len; i++)
        graph_add(&total, t->g->nodes.data[t->g->order.data[i]].flat);
    int64_t node_cutoff = graph_abs(graph_truncate((double)total * t->trim->node_fraction));
    int64_t edge_cutoff = graph_abs(graph_truncate((double)total * t->trim->edge_fraction));
    if (edges == GRAPH_EDGES_INLINED && !has_inlined(t->frames))
        edges = GRAPH_EDGES_NONE;
    r = is_whole ? trim_whole(t, ret, node_cutoff, edge_cutoff, err)
                 : trim_list(t, ret, node_cutoff, edge_cutoff, edges, err);
    return r == 0 && budget_failed(t->g->budget) ? budget_error(t->g->budget, err) : r;
}

int graph_build_trimmed(const struct profile *p, struct frames *f, const struct graph_options *o,
                        const struct graph_trim *trim, struct graph *ret, struct error *err)
{
    struct trimming t = {.p = p, .frames = f, .options = *o, .trim = trim, .g = ret};
    struct graph_trimmed trimmed = {0};

    *ret = (struct graph){.frames = f, .budget = p->dict->budget};
    int r = graph_totals_build(p, o, &t.totals) ? build_trimmed(&t, &trimmed, err)
                                                : budget_error(p->dict->budget, err);
    graph_totals_done(&t.totals);
    ret->trimmed = trimmed;
    return r;
}
