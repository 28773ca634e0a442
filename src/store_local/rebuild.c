#include "store_local/rebuild.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"
#include "segment/run.h"
#include "segment/varint.h"

void rebuild_init(struct rebuild *r, size_t memory_limit)
{
    *r = (struct rebuild){0};
    budget_init(&r->budget, memory_limit);
    r->set = profile_set_new(&r->budget);
}

static void drop_sources(struct rebuild *r)
{
    for (size_t i = 0; i < r->sources.len; i++)
        translate_done(&r->sources.data[i].translate);
    vec_clear(&r->sources);
}

void rebuild_done(struct rebuild *r)
{
    if (!r->set)
        return;
    drop_sources(r);
    vec_done(&r->budget, &r->sources);
    vec_done(&r->budget, &r->keys);
    vec_done(&r->budget, &r->values);
    vec_done(&r->budget, &r->is_touched);
    vec_done(&r->budget, &r->nodes);
    vec_done(&r->budget, &r->column);
    side_vecs_done(&r->budget, &r->side);
    profile_set_free(r->set);
    *r = (struct rebuild){0};
}

/* Past half of the memory the dictionary begins anew: then one profile always has the other. */
static void recycle(struct rebuild *r)
{
    profile_set_truncate(r->set, 0);
    if (r->budget.used < r->budget.limit / 2 && !budget_failed(&r->budget))
        return;
    size_t limit = r->budget.limit;
    rebuild_done(r);
    rebuild_init(r, limit);
}

static struct translate *source_of(struct rebuild *r, const struct dict *view)
{
    for (size_t i = r->sources.len; i > 0; i--) {
        if (r->sources.data[i - 1].view == view)
            return &r->sources.data[i - 1].translate;
    }
    if (!vec_push(&r->budget, &r->sources, (struct rebuild_source){.view = view}))
        return NULL;
    struct translate *t = &vec_last(&r->sources).translate;
    (void)translate_init(t, view, r->set->dict);
    return t;
}

/* ---- Samples */

static int load_run(struct rebuild *r, const struct run *run, uint64_t attrs, uint32_t n_types)
{
    size_t first = r->keys.len;

    if (!vec_resize(&r->budget, &r->nodes, run->n) || !vec_resize(&r->budget, &r->column, run->n) ||
        !vec_resize(&r->budget, &r->keys, first + run->n) ||
        !vec_resize(&r->budget, &r->is_touched, first + run->n) ||
        !vec_resize(&r->budget, &r->values, (first + run->n) * n_types))
        return -ENOBUFS;
    if (attrs > UINT32_MAX || !run_keys(run, r->nodes.data))
        return -EBADMSG;
    for (size_t i = 0; i < run->n; i++) {
        r->keys.data[first + i] = attrs << 32 | r->nodes.data[i];
        r->is_touched.data[first + i] = false;
    }
    for (unsigned c = 0; c < run->n_cols && c < n_types; c++) {
        run_values(run, c, r->column.data);
        for (size_t i = 0; i < run->n; i++)
            r->values.data[(first + i) * n_types + c] = r->column.data[i];
    }
    return 0;
}

static int load_samples(struct rebuild *r, struct bytes in, uint32_t n_types)
{
    struct run run;
    int result = 0;

    vec_clear(&r->keys);
    vec_clear(&r->values);
    vec_clear(&r->is_touched);
    while (in.len > 0 && result == 0) {
        uint64_t attrs;
        if (!take_varint(&in, &attrs) || run_open(&in, &run) < 0)
            return -EBADMSG;
        result = load_run(r, &run, attrs, n_types);
    }
    return result;
}

/* A side row stands for itself: what the samples count of it is taken out there. */
static void take_out(struct rebuild *r, const struct side_rows *rows, size_t i, uint32_t n_types)
{
    uint64_t key = (uint64_t)rows->rows[i].attrs << 32 | rows->rows[i].node;
    size_t at = BISECT(r->keys.len, k, r->keys.data[k] < key);

    if (at == r->keys.len || r->keys.data[at] != key)
        return;
    r->is_touched.data[at] = true;
    for (unsigned t = 0; t < rows->n_values && t < n_types; t++) {
        int64_t *v = &r->values.data[at * n_types + t];
        *v = (int64_t)((uint64_t)*v - (uint64_t)rows->values[t * rows->n + i]);
    }
}

static bool is_zero(const int64_t *values, uint32_t n)
{
    for (uint32_t t = 0; t < n; t++) {
        if (values[t])
            return false;
    }
    return true;
}

static void add_samples(struct rebuild *r, struct translate *t, struct profile *p)
{
    for (size_t i = 0; i < r->keys.len; i++) {
        const int64_t *values = r->values.data + i * p->n_types;
        if (r->is_touched.data[i] && is_zero(values, p->n_types))
            continue;
        struct sample s = {.node = translate_node(t, (uint32_t)r->keys.data[i]),
                           .attrs = translate_attrs(t, (uint32_t)(r->keys.data[i] >> 32)),
                           .values = values};
        (void)profile_add(p, &s);
    }
}

static void add_side(struct translate *t, const struct side_rows *rows, struct profile *p)
{
    static const struct link none;
    int64_t values[PROFILE_TYPES_MAX] = {0};

    for (size_t i = 0; i < rows->n; i++) {
        const struct side_row *row = &rows->rows[i];
        struct sample s = {.node = translate_node(t, row->node),
                           .attrs = translate_attrs(t, row->attrs),
                           .time_ns = row->time_ns,
                           .values = values};
        if (memcmp(&row->link, &none, sizeof(none)) != 0)
            s.link = dict_link(p->dict, row->link);
        for (unsigned c = 0; c < rows->n_values && c < p->n_types; c++)
            values[c] = rows->values[c * rows->n + i];
        (void)profile_add(p, &s);
    }
}

static struct profile *new_profile(struct rebuild *r, const struct rebuild_row *row)
{
    struct profile *p = profile_set_add(r->set);
    const struct series *s = row->series;

    if (!p)
        return NULL;
    for (uint32_t t = 0; t < s->n_types && t < PROFILE_TYPES_MAX; t++)
        profile_add_type(p, dict_string(p->dict, s->types[t].name),
                         dict_string(p->dict, s->types[t].unit));
    p->period_type.type = dict_string(p->dict, s->period_type.name);
    p->period_type.unit = dict_string(p->dict, s->period_type.unit);
    p->period = row->period;
    p->time_unix_ns = row->start_ns;
    p->duration_ns = row->duration_ns;
    if (row->id)
        memcpy(p->profile_id, row->id, sizeof(p->profile_id));
    /* Labels are what is left of the resource: with them an exported profile can come back. */
    for (uint32_t i = 0; i < s->n_labels; i++)
        p->resource_attrs =
            dict_attrs_with(p->dict, p->resource_attrs,
                            dict_string_attribute(p->dict, dict_string(p->dict, s->labels[i].name),
                                                  dict_string(p->dict, s->labels[i].value)));
    return p;
}

int rebuild_profile(struct rebuild *r, const struct rebuild_row *row, const struct profile **ret,
                    struct error *err)
{
    struct side_rows side = {0};

    recycle(r);
    struct translate *t = source_of(r, row->view);
    struct profile *p = new_profile(r, row);
    if (!t || !p || p->n_types != row->series->n_types)
        return budget_error(&r->budget, err);
    int result = load_samples(r, row->payload, p->n_types);
    if (result == 0 && row->side.len > 0)
        result = side_decode(row->side, row->start_ns, p->n_types, &r->budget, &r->side, &side);
    if (result == -ENOBUFS || budget_failed(&r->budget))
        return budget_error(&r->budget, err);
    if (result < 0)
        return error_set(err, result, "samples of the profile at %lld are damaged",
                         (long long)row->start_ns);
    for (size_t i = 0; i < side.n; i++)
        take_out(r, &side, i, p->n_types);
    add_samples(r, t, p);
    add_side(t, &side, p);
    if (budget_failed(&r->budget))
        return budget_error(&r->budget, err);
    *ret = p;
    return 0;
}
