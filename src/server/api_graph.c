#include <errno.h>
#include <stdlib.h>

#include "profile/graph.h"
#include "profile/measure.h"
#include "server/api_merged.h"
#include "server/server_internal.h"

/* Call graphs and whole stacks of a merged selection. */

#define NODES     80
#define NODES_MAX 100000

static int read_fraction(const struct api_query *q, const char *name, double fallback, double *ret,
                         struct error *err)
{
    const char *text = api_text(q, name);
    *ret = fallback;
    if (text && (!bytes_to_double(bytes_of(text), ret) || !(*ret >= 0 && *ret <= 1)))
        return error_set(err, -EINVAL, "%s takes a number from 0 to 1, not \"%.60s\"", name, text);
    return 0;
}

static int read_trim(const struct api_query *q, struct graph_trim *ret, struct error *err)
{
    uint64_t count;
    *ret = (struct graph_trim){.is_picture = true};
    int r = api_number(q, "limit", NODES_MAX, NODES, &count, err);
    if (r == 0)
        r = read_fraction(q, "node_fraction", 0.005, &ret->node_fraction, err);
    if (r == 0)
        r = read_fraction(q, "edge_fraction", 0.001, &ret->edge_fraction, err);
    ret->node_count = r == 0 ? (int)count : 0;
    return r;
}

/* Rows of nodes as they are shown, by the graph's own ids. */
typedef VEC(uint32_t) row_ids;

static bool number_nodes(const struct graph *g, struct budget *b, row_ids *ret)
{
    if (!vec_resize(b, ret, g->nodes.len))
        return false;
    for (size_t i = 0; i < g->nodes.len; i++)
        ret->data[i] = UINT32_MAX;
    for (uint32_t i = 0; i < g->order.len; i++)
        ret->data[g->order.data[i]] = i;
    return true;
}

static bool is_shown(const struct graph_edge *e, const row_ids *rows)
{
    return !e->is_gone && rows->data[e->src] != UINT32_MAX && rows->data[e->dst] != UINT32_MAX;
}

static void write_graph(struct graph *g, const row_ids *rows, struct sheet *s)
{
    sheet_table(s, "nodes", SHEET_ROWS);
    struct sheet_column *name = sheet_column(s, "name", COLUMN_TEXT);
    struct sheet_column *file = sheet_column(s, "file", COLUMN_TEXT);
    struct sheet_column *flat = sheet_column(s, "flat", COLUMN_I64);
    struct sheet_column *cum = sheet_column(s, "cum", COLUMN_I64);
    for (size_t i = 0; i < g->order.len; i++) {
        const struct graph_node *n = &g->nodes.data[g->order.data[i]];
        sheet_text(name, bytes_of(frames_name(g->frames, n->frame)));
        sheet_text(file, api_frame_file(g->frames, n->frame));
        sheet_i64(flat, graph_flat(n));
        sheet_i64(cum, graph_cum(n));
    }
    sheet_table(s, "edges", SHEET_ROWS);
    struct sheet_column *from = sheet_column(s, "caller", COLUMN_U32);
    struct sheet_column *to = sheet_column(s, "callee", COLUMN_U32);
    struct sheet_column *weight = sheet_column(s, "value", COLUMN_I64);
    struct sheet_column *inlined = sheet_column(s, "is_inline", COLUMN_U32);
    struct sheet_column *residual = sheet_column(s, "is_residual", COLUMN_U32);
    for (size_t i = 0; i < g->edges.len; i++) {
        const struct graph_edge *e = &g->edges.data[i];
        if (!is_shown(e, rows))
            continue;
        sheet_u32(from, rows->data[e->src]);
        sheet_u32(to, rows->data[e->dst]);
        sheet_i64(weight, e->weight);
        sheet_u32(inlined, e->is_inline);
        sheet_u32(residual, e->is_residual);
    }
}

/* ---- For Graphviz */

static void dot_text(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            buf_add_byte(out, '\\');
        buf_add_byte(out, (uint8_t)*text < 0x20 ? ' ' : (uint8_t)*text);
    }
}

static void write_dot(struct graph *g, const row_ids *rows, const char *unit, struct buf *out)
{
    char flat[MEASURE_TEXT_MAX], cum[MEASURE_TEXT_MAX];

    buf_add_str(out, "digraph \"vesta\" {\nnode [shape=box fontname=\"sans-serif\"]\n");
    for (size_t i = 0; i < g->order.len && !buf_full(out); i++) {
        const struct graph_node *n = &g->nodes.data[g->order.data[i]];
        measure_label(graph_flat(n), unit, "auto", flat);
        measure_label(graph_cum(n), unit, "auto", cum);
        buf_addf(out, "N%zu [label=\"", i);
        dot_text(out, frames_name(g->frames, n->frame));
        buf_add_str(out, "\\n");
        dot_text(out, flat);
        buf_add_str(out, " of ");
        dot_text(out, cum);
        buf_add_str(out, "\"]\n");
    }
    for (size_t i = 0; i < g->edges.len && !buf_full(out); i++) {
        const struct graph_edge *e = &g->edges.data[i];
        if (!is_shown(e, rows))
            continue;
        measure_label(e->weight, unit, "auto", cum);
        buf_addf(out, "N%u -> N%u [label=\"", rows->data[e->src], rows->data[e->dst]);
        dot_text(out, cum);
        buf_addf(out, "\"%s]\n", e->is_residual ? " style=dotted" : "");
    }
    buf_add_str(out, "}\n");
}

static int reply_dot(struct api_query *q, struct api_merged *m, struct graph *g,
                     const row_ids *rows, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &q->call->budget};
    const struct profile *p = m->profile;
    write_dot(g, rows, dict_cstr(p->dict, p->types[m->type].unit), &out);
    if (buf_full(&out))
        return buf_error(&out, err);
    api_reply(q, "text/vnd.graphviz", &out);
    return 0;
}

static int reply_graph(struct api_query *q, struct api_merged *m, struct graph *g,
                       struct error *err)
{
    struct budget *b = m->profile->dict->budget;
    row_ids rows = {0};
    int r;

    if (!number_nodes(g, b, &rows)) {
        r = budget_error(b, err);
    } else if (q->format == API_DOT) {
        r = reply_dot(q, m, g, &rows, err);
    } else {
        struct sheet s;
        sheet_init(&s, &q->call->budget);
        api_merged_head(q, m, &s.head);
        write_graph(g, &rows, &s);
        r = api_reply_sheet(q, &s, err);
        sheet_done(&s);
    }
    vec_done(b, &rows);
    return r;
}

static int run_graph(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    struct graph g = {0};
    struct graph_trim trim;
    struct frames frames;

    int r = read_trim(q, &trim, err);
    if (r == 0)
        r = api_merge(q, &m, err);
    if (r < 0)
        return r;
    frames_init(&frames, m.profile->dict, m.frames);
    struct graph_options o = {.type = m.type};
    r = graph_build_trimmed(m.profile, &frames, &o, &trim, &g, err);
    if (r == 0)
        r = reply_graph(q, &m, &g, err);
    graph_done(&g);
    frames_done(&frames);
    return r;
}

/* ---- Stacks */

#define STACKS     1000
#define STACKS_MAX 1000000

static int heavier_first(const void *a, const void *b, void *values)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int64_t u = graph_abs(((const int64_t *)values)[x]);
    int64_t v = graph_abs(((const int64_t *)values)[y]);
    return u != v ? (u < v) - (u > v) : (x > y) - (x < y);
}

static void write_stack(struct api_frame_table *t, const struct dict *d, uint32_t node,
                        struct sheet_column *frame)
{
    for (; node != 0; node = d->node_parent.data[node]) {
        uint32_t n;
        size_t first = frames_of(t->frames, d->node_location.data[node], &n);
        for (uint32_t i = 0; i < n; i++)
            sheet_u32(frame, api_frame_row(t, t->frames->ids.data[first + i]));
    }
}

/* A stack is stack_frames.frame[end of the one before .. its end), the innermost frame first. */
static void write_stacks(struct api_merged *m, struct frames *frames, const row_ids *order,
                         size_t limit, struct sheet *s)
{
    const struct profile *p = m->profile;
    struct api_frame_table table;

    api_frame_table_init(&table, frames, s);
    sheet_table(s, "stacks", SHEET_COLUMNS);
    struct sheet_column *value = sheet_column(s, "value", COLUMN_I64);
    struct sheet_column *end = sheet_column(s, "end", COLUMN_U32);
    sheet_table(s, "stack_frames", SHEET_COLUMNS);
    struct sheet_column *frame = sheet_column(s, "frame", COLUMN_U32);
    for (size_t i = 0; i < order->len && i < limit && !buf_full(&frame->data); i++) {
        uint32_t row = order->data[i];
        write_stack(&table, p->dict, p->node[row], frame);
        sheet_i64(value, p->values[m->type][row]);
        sheet_u32(end, (uint32_t)frame->n);
    }
    api_frame_table_done(&table);
}

static int reply_stacks(struct api_query *q, struct api_merged *m, const row_ids *order,
                        size_t limit, struct error *err)
{
    struct sheet s;
    struct frames frames;

    frames_init(&frames, m->profile->dict, m->frames);
    sheet_init(&s, &q->call->budget);
    api_merged_head(q, m, &s.head);
    json_key(&s.head, "all_stacks");
    json_u64(&s.head, order->len);
    write_stacks(m, &frames, order, limit, &s);
    int r = budget_failed(s.budget) ? budget_error(s.budget, err) : api_reply_sheet(q, &s, err);
    sheet_done(&s);
    frames_done(&frames);
    return r;
}

static int run_stacks(struct api_query *q, struct error *err)
{
    CLEANUP(api_merged_done) struct api_merged m = {0};
    row_ids order = {0};
    uint64_t limit;

    int r = api_number(q, "limit", STACKS_MAX, STACKS, &limit, err);
    if (r == 0)
        r = api_merge(q, &m, err);
    if (r < 0)
        return r;
    struct budget *b = m.profile->dict->budget;
    for (uint32_t i = 0; i < m.profile->n_samples; i++)
        if (m.profile->values[m.type][i] != 0 && !vec_push(b, &order, i))
            break;
    if (order.len > 1)
        qsort_r(order.data, order.len, sizeof(*order.data), heavier_first,
                m.profile->values[m.type]);
    r = budget_failed(b) ? budget_error(b, err) : reply_stacks(q, &m, &order, (size_t)limit, err);
    vec_done(b, &order);
    return r;
}

/* ---- Routes */

static const api_run runs[] = {run_graph, run_stacks};

static int handle(struct call *c, struct error *err)
{
    return api_answer(c, runs[c->route->argument], err);
}

const struct route api_graph_routes[] = {
    API_ROUTE("graph", 0, "The call graph of a selection, trimmed for drawing",
              API_P_MERGE API_P_FRAMES
              "limit: nodes, default 80; "
              "node_fraction: nodes of less than this share are left out, default 0.005; "
              "edge_fraction: the same for calls, default 0.001; "
              "format: json, columns or dot; "),
    API_ROUTE("stacks", 1, "Whole stacks of a selection, the heaviest first",
              API_P_MERGE API_P_GRAIN "limit: stacks, default 1000; " API_P_FORMAT),
    {0},
};
