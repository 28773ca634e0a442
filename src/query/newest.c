#include "query/newest.h"

#include <stdlib.h>

/* Lists are cut to their limit whenever they have this many times as much. */
#define SLACK 2

struct listing {
    const struct query *q;
    struct newest *out;
    size_t limit;
    int64_t floor; /* what is not above it is too old, or too light, once there was a cut */
    bool has_floor;
    struct error *err;
};

static struct bytes copy_text(struct newest *n, struct bytes s)
{
    return (struct bytes){(const uint8_t *)arena_strdup(&n->arena, s), s.len};
}

static void copy_labels(struct newest *n, const struct store_series *from, struct store_series *to)
{
    struct label *labels = arena_new(&n->arena, struct label, from->n_labels);
    for (size_t i = 0; labels && i < from->n_labels; i++)
        labels[i] =
            (struct label){copy_text(n, from->labels[i].name), copy_text(n, from->labels[i].value)};
    to->labels = labels;
}

static void copy_types(struct newest *n, const struct store_series *from, struct store_series *to)
{
    struct store_type *types = arena_new(&n->arena, struct store_type, from->n_types);
    for (size_t i = 0; types && i < from->n_types; i++)
        types[i] = (struct store_type){copy_text(n, from->types[i].name),
                                       copy_text(n, from->types[i].unit)};
    to->types = types;
}

/* The copy of a series, made when it is seen first. Rows of one come together, so the last ones are
 * looked at first. NULL when the budget is spent. */
static const struct store_series *keep_series(struct newest *n, const struct store_series *s)
{
    for (size_t i = n->series.len; i-- > 0;)
        if (n->series.data[i]->id == s->id)
            return n->series.data[i];
    struct store_series *copy = arena_new(&n->arena, struct store_series, 1);
    if (!copy)
        return NULL;
    *copy = *s;
    copy_labels(n, s, copy);
    copy_types(n, s, copy);
    copy->period_type =
        (struct store_type){copy_text(n, s->period_type.name), copy_text(n, s->period_type.unit)};
    if (budget_failed(&n->budget) || !vec_push(&n->budget, &n->series, copy))
        return NULL;
    return copy;
}

static void begin(struct listing *l, struct newest *n)
{
    *n = (struct newest){0};
    budget_init(&n->budget, l->q->memory_limit > 0 ? l->q->memory_limit : QUERY_MEMORY);
    arena_init(&n->arena, &n->budget);
    l->out = n;
}

void newest_done(struct newest *n)
{
    vec_done(&n->budget, &n->series);
    vec_done(&n->budget, &n->profiles);
    vec_done(&n->budget, &n->exemplars);
    arena_done(&n->arena);
}

static int find(struct listing *l, bool with_samples, store_found_fn sink, struct error *err)
{
    struct store_find f = query_find(l->q);

    f.with_samples = with_samples;
    int r = store_profiles(l->q->store, &f, sink, l, err);
    if (r == 0 && budget_failed(&l->out->budget))
        r = budget_error(&l->out->budget, err);
    return r;
}

/* ---- Profiles */

static int newer_first(const void *a, const void *b)
{
    const struct profile_entry *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? 1 : -1;
    return (x->series->id > y->series->id) - (x->series->id < y->series->id);
}

static void cut_profiles(struct listing *l)
{
    struct newest *n = l->out;
    if (n->profiles.len > 1)
        qsort(n->profiles.data, n->profiles.len, sizeof(*n->profiles.data), newer_first);
    if (n->profiles.len <= l->limit)
        return;
    n->profiles.len = l->limit;
    n->is_cut = true;
    l->floor = vec_last(&n->profiles).start_ns;
    l->has_floor = true;
}

static int on_profile(void *ctx, const struct store_found *f)
{
    struct listing *l = ctx;
    struct newest *n = l->out;

    if (l->has_floor && f->start_ns <= l->floor)
        return 0;
    struct profile_entry e = {.series = keep_series(n, f->series),
                              .start_ns = f->start_ns,
                              .duration_ns = f->duration_ns,
                              .period = f->period,
                              .has_id = f->has_id};
    int64_t *totals = arena_new(&n->arena, int64_t, f->series->n_types);
    if (!e.series || !totals)
        return budget_error(&n->budget, l->err);
    memcpy(e.id, f->id, sizeof(e.id));
    memcpy(totals, f->totals, f->series->n_types * sizeof(*totals));
    e.totals = totals;
    if (!vec_push(&n->budget, &n->profiles, e))
        return budget_error(&n->budget, l->err);
    if (n->profiles.len / SLACK >= l->limit)
        cut_profiles(l);
    return 0;
}

int query_newest_profiles(const struct query *q, size_t limit, struct newest *ret,
                          struct error *err)
{
    struct listing l = {.q = q, .limit = limit, .err = err};
    begin(&l, ret);
    int r = find(&l, false, on_profile, err);
    cut_profiles(&l);
    return r;
}

/* ---- Exemplars */

static int heavier_first(const void *a, const void *b)
{
    const struct exemplar *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? 1 : -1;
    return memcmp(&x->link, &y->link, sizeof(x->link));
}

static void cut_exemplars(struct listing *l)
{
    struct newest *n = l->out;
    if (n->exemplars.len > 1)
        qsort(n->exemplars.data, n->exemplars.len, sizeof(*n->exemplars.data), heavier_first);
    if (n->exemplars.len <= l->limit)
        return;
    n->exemplars.len = l->limit;
    n->is_cut = true;
    l->floor = vec_last(&n->exemplars).value;
    l->has_floor = true;
}

/* The column of the first type that is selected; n_types when there is none. */
static uint32_t column_of(const struct query *q, const struct profile *p)
{
    uint32_t i = 0;
    while (i < p->n_types && !selector_takes(q->selector, dict_text(p->dict, p->types[i].type),
                                             dict_text(p->dict, p->types[i].unit)))
        i++;
    return i;
}

static int add_exemplar(struct listing *l, const struct store_found *f, uint32_t link,
                        int64_t value)
{
    struct newest *n = l->out;
    struct exemplar e = {.series = keep_series(n, f->series),
                         .start_ns = f->start_ns,
                         .has_id = f->has_id,
                         .link = f->profile->dict->links.data[link],
                         .value = value};
    const struct query *q = l->q;

    if ((q->has_trace && memcmp(e.link.trace_id, q->trace_id, sizeof(q->trace_id)) != 0) ||
        (q->has_span && memcmp(e.link.span_id, q->span_id, sizeof(q->span_id)) != 0))
        return 0;
    memcpy(e.id, f->id, sizeof(e.id));
    if (!e.series || !vec_push(&n->budget, &n->exemplars, e))
        return budget_error(&n->budget, l->err);
    if (n->exemplars.len / SLACK >= l->limit)
        cut_exemplars(l);
    return 0;
}

static int on_samples(void *ctx, const struct store_found *f)
{
    struct listing *l = ctx;
    struct budget *b = &l->out->budget;
    const struct profile *p = f->profile;
    uint32_t column = column_of(l->q, p);
    VEC(int64_t) sums = {0}; /* per link */
    int r = 0;

    if (!p->link || column == p->n_types)
        return 0;
    if (!vec_resize(b, &sums, p->dict->links.len))
        return budget_error(b, l->err);
    for (size_t i = 0; i < p->n_samples; i++)
        sums.data[p->link[i]] += p->values[column][i];
    for (uint32_t i = 1; i < sums.len && r == 0; i++)
        if (sums.data[i] > 0 && (!l->has_floor || sums.data[i] > l->floor))
            r = add_exemplar(l, f, i, sums.data[i]);
    vec_done(b, &sums);
    return r;
}

int query_exemplars(const struct query *q, size_t limit, struct newest *ret, struct error *err)
{
    struct listing l = {.q = q, .limit = limit, .err = err};
    begin(&l, ret);
    int r = find(&l, true, on_samples, err);
    cut_exemplars(&l);
    return r;
}
