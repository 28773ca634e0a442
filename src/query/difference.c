#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "profile/graph.h"
#include "query/query.h"

/* Which row, + 1, a name (a string) has. */
struct row_index {
    VEC(uint32_t) of;
};

static struct difference_row *row_for(struct difference *d, struct row_index *index, uint32_t name)
{
    if (name >= index->of.len && !vec_resize(d->budget, &index->of, (size_t)name + 1))
        return NULL;
    if (index->of.data[name] == 0) {
        if (!vec_push(d->budget, &d->rows, (struct difference_row){.name = name}))
            return NULL;
        index->of.data[name] = (uint32_t)d->rows.len;
    }
    return &d->rows.data[index->of.data[name] - 1];
}

/* The name that a row goes by. Where frames are functions that is the name alone: between two
 * versions a function's file and line may change. */
static uint32_t row_name(struct frames *frames, uint32_t frame)
{
    const char *name = frames_name(frames, frame);
    uint32_t id = frames->all.data[frame].name;
    return name == dict_cstr(frames->dict, id) ? id : dict_cstring(frames->dict, name);
}

/* Adds one side's functions. */
static int add_side(const struct profile *p, struct frames *frames, int side, struct difference *d,
                    struct row_index *index, struct error *err)
{
    struct graph g = {0};
    int r = graph_build(p, frames,
                        &(struct graph_options){.type = d->type[side], .edges = GRAPH_EDGES_NONE},
                        &g, err);
    for (size_t i = 1; r == 0 && i < g.nodes.len; i++) {
        const struct graph_node *n = &g.nodes.data[i];
        if (n->flat == 0 && n->cum == 0)
            continue;
        const struct frame *frame = &frames->all.data[n->frame];
        struct difference_row *row = row_for(d, index, row_name(frames, n->frame));
        if (!row)
            break;
        row->file = frame->file ? frame->file : frame->source;
        row->flat[side] += n->flat;
        row->cum[side] += n->cum;
    }
    graph_done(&g);
    return r;
}

/* How much a value has changed, in the sense of an order. */
static double extent(const struct difference *d, enum difference_order order,
                     const int64_t value[2])
{
    struct change c = difference_change(d, value);
    if (order == DIFFERENCE_BY_SHARE)
        return fabs(c.share);
    if (order == DIFFERENCE_BY_CHANGE)
        return fabs((double)c.absolute);
    if (value[0] == 0 || value[1] == 0 || c.ratio <= 0)
        return value[0] == value[1] ? 0 : (double)INFINITY;
    return fabs(log(c.ratio));
}

struct sorting {
    const struct difference *d;
    enum difference_order order;
};

static int by_extent(const void *a, const void *b, void *ctx)
{
    const struct difference_row *x = a, *y = b;
    const struct sorting *s = ctx;
    const enum difference_order orders[] = {s->order, DIFFERENCE_BY_CHANGE};

    for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
        double u = extent(s->d, orders[i], x->flat), v = extent(s->d, orders[i], y->flat);
        if (u != v)
            return u < v ? 1 : -1;
        u = extent(s->d, orders[i], x->cum);
        v = extent(s->d, orders[i], y->cum);
        if (u != v)
            return u < v ? 1 : -1;
    }
    return strcmp(dict_cstr(s->d->dict, x->name), dict_cstr(s->d->dict, y->name));
}

static int compare_names(const void *a, const void *b, void *ctx)
{
    const struct difference_row *x = a, *y = b;
    const struct sorting *s = ctx;
    return strcmp(dict_cstr(s->d->dict, x->name), dict_cstr(s->d->dict, y->name));
}

static void keep_only(struct difference *d, enum difference_only only)
{
    size_t kept = 0;
    int absent = only == DIFFERENCE_ONLY_BEFORE ? 1 : 0;

    for (size_t i = 0; i < d->rows.len; i++) {
        const struct difference_row *row = &d->rows.data[i];
        if (row->flat[absent] == 0 && row->cum[absent] == 0)
            d->rows.data[kept++] = *row;
    }
    d->rows.len = kept;
}

int query_pair_types(const struct merged_pair *pair, const char *type, uint32_t ret[2],
                     struct error *err)
{
    const struct profile *sides[2] = {pair->before, pair->after};

    for (int i = 0; i < 2; i++) {
        int r = profile_find_index(sides[i], type, &ret[i], err);
        if (r < 0)
            return error_prefix(err, r, i == 0 ? "before" : "after");
    }
    return 0;
}

int query_pair_join(const struct merged_pair *pair, const char *type, struct profile **ret,
                    struct error *err)
{
    const struct profile *sides[2] = {pair->before, pair->after};
    struct dict *dict = pair->after->dict;
    uint32_t types[2];

    int r = query_pair_types(pair, type, types, err);
    struct profile *both = r == 0 ? profile_set_add(pair->answer->set) : NULL;
    for (uint32_t i = 0; both && i < 2; i++)
        profile_add_type(both, dict_cstring(dict, i == 0 ? "before" : "after"),
                         sides[i]->types[types[i]].unit);
    for (uint32_t i = 0; both && i < 2; i++) {
        for (size_t k = 0; k < sides[i]->n_samples; k++) {
            int64_t values[2] = {0};
            values[i] = sides[i]->values[types[i]][k];
            profile_add(both, &(struct sample){.node = sides[i]->node[k], .values = values});
        }
    }
    if (r == 0 && budget_failed(dict->budget))
        r = budget_error(dict->budget, err);
    if (r == 0)
        *ret = both;
    return r;
}

int query_difference(const struct merged_pair *pair, const struct difference_options *o,
                     struct difference *ret, struct error *err)
{
    const struct profile *sides[2] = {pair->before, pair->after};
    struct dict *dict = pair->after->dict;

    *ret = (struct difference){.budget = dict->budget, .dict = dict};
    int r = query_pair_types(pair, o->type, ret->type, err);
    if (r < 0)
        return r;
    for (int i = 0; i < 2; i++)
        ret->total[i] = profile_total(sides[i], ret->type[i]);
    struct row_index index = {0};
    struct frames frames;
    struct frame_options by_name = o->frames;
    by_name.by_name = true; /* rows are names: what is called the same must be one frame */
    frames_init(&frames, dict, by_name);
    for (int i = 0; i < 2 && r == 0; i++)
        r = add_side(sides[i], &frames, i, ret, &index, err);
    frames_done(&frames);
    vec_done(ret->budget, &index.of);
    if (r == 0 && budget_failed(ret->budget))
        r = budget_error(ret->budget, err);
    if (r == 0 && o->only != DIFFERENCE_ALL)
        keep_only(ret, o->only);
    struct sorting sorting = {ret, o->order};
    if (r == 0 && ret->rows.len > 1)
        qsort_r(ret->rows.data, ret->rows.len, sizeof(*ret->rows.data),
                o->order == DIFFERENCE_BY_NAME ? compare_names : by_extent, &sorting);
    return r;
}

void difference_done(struct difference *d)
{
    if (d->budget)
        vec_done(d->budget, &d->rows);
}

struct change difference_change(const struct difference *d, const int64_t value[2])
{
    double share[2];
    for (int i = 0; i < 2; i++)
        share[i] = d->total[i] != 0 ? (double)value[i] / (double)d->total[i] : 0;
    return (struct change){
        .absolute = (int64_t)((uint64_t)value[1] - (uint64_t)value[0]),
        .share = share[1] - share[0],
        .ratio = value[0] != 0   ? (double)value[1] / (double)value[0]
                 : value[1] != 0 ? (double)INFINITY
                                 : (double)NAN,
    };
}
