#include "profile/graph.h"
#include "server/pyroscope_query.h"

#define DOT_NODES 100

static void add_name(struct buf *out, const char *name)
{
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            buf_add_byte(out, '\\');
        buf_add_byte(out, (uint8_t)*name);
    }
}

static double share(int64_t v, int64_t total)
{
    return total != 0 ? 100.0 * (double)v / (double)total : 0;
}

static void add_node(struct graph *g, uint32_t id, int64_t total, struct buf *out)
{
    const struct graph_node *n = &g->nodes.data[id];
    int64_t flat = graph_flat(n), cum = graph_cum(n);

    buf_addf(out, "N%u [label=\"", id);
    add_name(out, frames_name(g->frames, n->frame));
    buf_addf(out, "\\n%lld (%.2f%%)", (long long)flat, share(flat, total));
    if (cum != flat)
        buf_addf(out, "\\nof %lld (%.2f%%)", (long long)cum, share(cum, total));
    buf_add_str(out, "\" shape=box]\n");
}

static bool add_edges(struct graph *g, uint32_t id, struct buf *out)
{
    graph_ids edges = {0};
    bool ok = graph_callees(g, id, &edges);
    for (size_t i = 0; ok && i < edges.len; i++) {
        const struct graph_edge *e = &g->edges.data[edges.data[i]];
        buf_addf(out, "N%u -> N%u [label=\" %lld\"%s]\n", e->src, e->dst, (long long)e->weight,
                 e->is_residual ? " style=\"dotted\"" : "");
    }
    vec_done(g->budget, &edges);
    return ok;
}

int pyroscope_dot(const struct profile *p, int64_t max_nodes, struct buf *out, struct error *err)
{
    struct frames frames;
    struct graph g = {0};
    struct graph_options o = {0};
    struct graph_trim trim = {
        .node_fraction = 0.005,
        .edge_fraction = 0.001,
        .node_count = max_nodes > 0 && max_nodes < PYROSCOPE_NODES_MAX ? (int)max_nodes : DOT_NODES,
        .is_picture = true};
    int64_t total = profile_total(p, 0);

    frames_init(&frames, p->dict,
                (struct frame_options){.granularity = GRANULARITY_FUNCTIONS, .name_unknown = true});
    int r = graph_build_trimmed(p, &frames, &o, &trim, &g, err);
    if (r == 0) {
        bool ok = true;
        buf_add_str(out, "digraph \"profile\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n");
        for (size_t i = 0; i < g.order.len; i++)
            add_node(&g, g.order.data[i], total, out);
        for (size_t i = 0; ok && i < g.order.len; i++)
            ok = add_edges(&g, g.order.data[i], out);
        buf_add_str(out, "}\n");
        r = !ok ? budget_error(g.budget, err) : buf_full(out) ? buf_error(out, err) : 0;
    }
    graph_done(&g);
    frames_done(&frames);
    return r;
}
