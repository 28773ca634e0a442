#include "query/merge_samples.h"

#include <errno.h>

#include "profile/merge.h"
#include "profile/translate.h"
#include "query/moments.h"

/* Read profiles are added up whenever there are so many. */
#define PROFILES_HELD 64

struct gathering {
    const struct query *q;
    struct profile_set *set;
    size_t first; /* of the set's profiles: those before are not ours */
    struct moments moments;
    uint64_t n_found;
    struct error *err;
};

static bool is_linked(const struct query *q, const struct profile *p, size_t row)
{
    const struct link *link = &p->dict->links.data[profile_link(p, row)];
    return (!q->has_trace || memcmp(link->trace_id, q->trace_id, sizeof(q->trace_id)) == 0) &&
           (!q->has_span || memcmp(link->span_id, q->span_id, sizeof(q->span_id)) == 0);
}

/* The columns that the selector takes: all of them when it names no type. */
static uint32_t take_types(const struct query *q, struct translate *t, const struct profile *from,
                           struct profile *to, uint32_t columns[PROFILE_TYPES_MAX])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < from->n_types; i++) {
        struct value_type type = from->types[i];
        if (!selector_takes(q->selector, dict_text(from->dict, type.type),
                            dict_text(from->dict, type.unit)))
            continue;
        columns[n++] = i;
        profile_add_type(to, translate_string(t, type.type), translate_string(t, type.unit));
    }
    return n;
}

static void take_rows(const struct gathering *g, struct translate *t, const struct profile *from,
                      struct profile *to)
{
    uint32_t columns[PROFILE_TYPES_MAX];
    int64_t values[PROFILE_TYPES_MAX];
    uint32_t n = take_types(g->q, t, from, to, columns);

    to->time_unix_ns = from->time_unix_ns;
    to->duration_ns = from->duration_ns;
    to->period = from->period;
    to->period_type = (struct value_type){translate_string(t, from->period_type.type),
                                          translate_string(t, from->period_type.unit)};
    for (size_t i = 0; i < from->n_samples && !budget_failed(g->set->budget); i++) {
        if (!is_linked(g->q, from, i))
            continue;
        for (uint32_t k = 0; k < n; k++)
            values[k] = from->values[columns[k]][i];
        profile_add(to, &(struct sample){.node = translate_node(t, from->node[i]),
                                         .attrs = translate_attrs(t, profile_attrs(from, i)),
                                         .values = values});
    }
}

/* What was read so far becomes one profile. */
static int add_up(struct gathering *g)
{
    struct profile_set *set = g->set;
    size_t n = set->profiles.len - g->first;
    struct profile *sum;

    if (n == 0)
        return 0;
    sum = profile_merge(set->dict, set->profiles.data + g->first, n, (struct merge_options){0});
    profile_set_truncate(set, g->first);
    if (!sum || !vec_push(set->budget, &set->profiles, sum)) {
        profile_free(sum);
        return budget_error(set->budget, g->err);
    }
    return 0;
}

static int on_found(void *ctx, const struct store_found *f)
{
    struct gathering *g = ctx;
    struct translate t;

    bool is_moment = moments_take(&g->moments, f);
    struct profile *to = is_moment ? moments_add(&g->moments, f) : profile_set_add(g->set);
    g->n_found++;
    if (to && translate_init(&t, f->profile->dict, g->set->dict)) {
        take_rows(g, &t, f->profile, to);
        translate_done(&t);
    }
    if (is_moment && !budget_failed(g->set->budget))
        (void)moments_filled(&g->moments, f);
    if (budget_failed(g->set->budget))
        return budget_error(g->set->budget, g->err);
    return g->set->profiles.len - g->first < PROFILES_HELD ? 0 : add_up(g);
}

int merge_samples(const struct query *q, struct profile_set *set, struct added *ret,
                  struct error *err)
{
    struct error own = {""}; /* a store may use its error for itself after we have stopped it */
    struct gathering g = {.q = q, .set = set, .first = set->profiles.len, .err = &own};
    struct store_find find = query_find(q);

    find.with_samples = true;
    find.instant = q->instant;
    moments_init(&g.moments, set, q);
    int r = store_profiles(q->store, &find, on_found, &g, err);
    if (r == 0)
        r = moments_finish(&g.moments) ? add_up(&g) : budget_error(set->budget, err);
    moments_done(&g.moments);
    if (r < 0 && own.text[0])
        *err = own;
    if (r < 0)
        return r;
    *ret =
        (struct added){set->profiles.len > g.first ? set->profiles.data[g.first] : NULL, g.n_found};
    return 0;
}
