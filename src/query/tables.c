#include "query/tables.h"

#include <errno.h>
#include <stdlib.h>

#include "profile/graph.h"

static int start(const struct profile *p, const struct table_options *o, struct table *t,
                 struct error *err)
{
    *t = (struct table){.budget = p->dict->budget};
    if (o->type >= p->n_types)
        return error_set(err, -EINVAL, "there is no sample type %u: the profile has %u", o->type,
                         p->n_types);
    frames_init(&t->frames, p->dict, o->frames);
    t->total = profile_total(p, o->type);
    return 0;
}

void table_done(struct table *t)
{
    if (!t->frames.dict)
        return;
    vec_done(t->budget, &t->rows);
    frames_done(&t->frames);
}

static int by_flat(const void *a, const void *b)
{
    const struct table_row *x = a, *y = b;
    int64_t u = graph_abs(x->flat), v = graph_abs(y->flat);
    if (u == v) {
        u = graph_abs(x->cum);
        v = graph_abs(y->cum);
    }
    return u != v ? (u < v) - (u > v) : (x->frame > y->frame) - (x->frame < y->frame);
}

static int by_cum(const void *a, const void *b)
{
    const struct table_row *x = a, *y = b;
    int64_t u = graph_abs(x->cum), v = graph_abs(y->cum);
    return u != v ? (u < v) - (u > v) : by_flat(a, b);
}

static int by_name(const void *a, const void *b, void *frames)
{
    const struct table_row *x = a, *y = b;
    int order = strcmp(frames_name(frames, x->frame), frames_name(frames, y->frame));
    return order != 0 ? order : by_flat(a, b);
}

static int by_line(const void *a, const void *b)
{
    const struct table_row *x = a, *y = b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : by_flat(a, b);
}

static void order_and_limit(struct table *t, struct frames *frames, const struct table_options *o)
{
    t->n_all = t->rows.len;
    if (t->rows.len > 1) {
        if (o->order == TABLE_BY_NAME)
            qsort_r(t->rows.data, t->rows.len, sizeof(*t->rows.data), by_name, frames);
        else
            qsort(t->rows.data, t->rows.len, sizeof(*t->rows.data),
                  o->order == TABLE_BY_CUM ? by_cum : by_flat);
    }
    if (o->limit > 0 && t->rows.len > o->limit)
        t->rows.len = o->limit;
}

static int finish(struct table *t, int r, struct error *err)
{
    if (r == 0 && budget_failed(t->budget))
        return budget_error(t->budget, err);
    return r;
}

int table_top(const struct profile *p, const struct table_options *o, struct table *ret,
              struct error *err)
{
    struct graph g = {0};
    int r = start(p, o, ret, err);
    if (r < 0)
        return r;
    r = graph_build(p, &ret->frames,
                    &(struct graph_options){.type = o->type, .edges = GRAPH_EDGES_NONE}, &g, err);
    for (size_t i = 1; r == 0 && i < g.nodes.len; i++) {
        const struct graph_node *n = &g.nodes.data[i];
        if (n->flat != 0 || n->cum != 0)
            (void)vec_push(ret->budget, &ret->rows,
                           (struct table_row){n->frame, n->flat, n->cum, 0});
    }
    graph_done(&g);
    order_and_limit(ret, &ret->frames, o);
    return finish(ret, r, err);
}

static bool is_file(struct bytes name, struct bytes wanted)
{
    if (name.len < wanted.len || !bytes_equal(bytes_from(name, name.len - wanted.len), wanted))
        return false;
    return name.len == wanted.len || name.data[name.len - wanted.len - 1] == '/';
}

int table_lines(const struct profile *p, const struct table_options *o, const char *file,
                struct table *ret, struct error *err)
{
    struct table_options lines = *o;
    lines.frames.granularity = GRANULARITY_LINES;
    lines.limit = 0;
    int r = table_top(p, &lines, ret, err);
    if (r < 0)
        return r;

    size_t kept = 0;
    for (size_t i = 0; i < ret->rows.len; i++) {
        struct table_row row = ret->rows.data[i];
        const struct frame *f = &ret->frames.all.data[row.frame];
        if (!is_file(dict_text(p->dict, f->file), bytes_of(file)))
            continue;
        row.line = f->line;
        ret->rows.data[kept++] = row;
    }
    ret->rows.len = ret->n_all = kept;
    if (kept == 0)
        return error_set(err, -ENOENT, "no frame is of a file \"%.200s\"", file);
    qsort(ret->rows.data, kept, sizeof(*ret->rows.data), by_line);
    return 0;
}

/* Adds a call to the row of its other end; callers of one name may be many frames. */
static void add_call(struct table *t, const struct graph *g, uint32_t node, int64_t weight)
{
    uint32_t frame = g->nodes.data[node].frame;
    for (size_t i = 0; i < t->rows.len; i++) {
        if (t->rows.data[i].frame == frame) {
            t->rows.data[i].cum += weight;
            return;
        }
    }
    (void)vec_push(t->budget, &t->rows,
                   (struct table_row){frame, g->nodes.data[node].flat, weight, 0});
}

static void add_calls(struct sandwich *s, struct graph *g, uint32_t node)
{
    graph_ids in = {0}, out = {0};
    if (graph_callers(g, node, &in) && graph_callees(g, node, &out)) {
        for (size_t i = 0; i < in.len; i++)
            add_call(&s->callers, g, g->edges.data[in.data[i]].src,
                     g->edges.data[in.data[i]].weight);
        for (size_t i = 0; i < out.len; i++)
            add_call(&s->callees, g, g->edges.data[out.data[i]].dst,
                     g->edges.data[out.data[i]].weight);
    }
    vec_done(g->budget, &in);
    vec_done(g->budget, &out);
}

static bool is_named(struct sandwich *s, uint32_t frame, const char *function)
{
    const struct frame *f = &s->callers.frames.all.data[frame];
    return bytes_are(dict_text(s->callers.frames.dict, f->name), function) ||
           strcmp(frames_name(&s->callers.frames, frame), function) == 0;
}

int table_sandwich(const struct profile *p, const struct table_options *o, const char *function,
                   struct sandwich *ret, struct error *err)
{
    struct graph g = {0};
    bool found = false;

    *ret = (struct sandwich){0};
    int r = start(p, o, &ret->callers, err);
    if (r == 0)
        r = start(p, o, &ret->callees, err);
    if (r < 0)
        return r;
    r = graph_build(p, &ret->callers.frames, &(struct graph_options){.type = o->type}, &g, err);
    for (uint32_t i = 1; r == 0 && i < g.nodes.len; i++) {
        const struct graph_node *n = &g.nodes.data[i];
        if (!is_named(ret, n->frame, function))
            continue;
        found = true;
        ret->self.frame = n->frame;
        ret->self.flat += n->flat;
        ret->self.cum += n->cum;
        add_calls(ret, &g, i);
    }
    graph_done(&g);
    order_and_limit(&ret->callers, &ret->callers.frames, o);
    order_and_limit(&ret->callees, &ret->callers.frames, o);
    r = finish(&ret->callers, r, err);
    if (r == 0 && !found)
        return error_set(err, -ENOENT, "no function is called \"%.200s\"", function);
    return r;
}

void sandwich_done(struct sandwich *s)
{
    table_done(&s->callers);
    table_done(&s->callees);
}
