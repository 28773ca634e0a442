#include <errno.h>

#include "profile/diff.h"
#include "profile/measure.h"
#include "query/merge_samples.h"
#include "query/query.h"

static struct store_plan plan_of(const struct query *q)
{
    struct store_plan plan = {
        .tenant = q->tenant.len > 0 ? q->tenant : BYTES(STORE_DEFAULT_TENANT),
        .selector = q->selector,
        .from_ns = q->from_ns,
        .to_ns = q->to_ns,
        .what = PLAN_STACKS,
        .instant = q->instant,
        .threads = q->threads,
        .memory_limit = q->memory_limit,
        .cancelled = q->cancelled,
        .has_trace = q->has_trace,
        .has_span = q->has_span,
    };
    memcpy(plan.trace_id, q->trace_id, sizeof(plan.trace_id));
    memcpy(plan.span_id, q->span_id, sizeof(plan.span_id));
    return plan;
}

static bool has_filters(const struct query_filters *f)
{
    const char *const all[] = {f->focus, f->ignore, f->hide, f->show, f->show_from, f->prune_from};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i] && *all[i])
            return true;
    return query_filters_need_labels(f);
}

static int filter(const struct query *q, struct profile *p, struct buf *warnings, struct error *err)
{
    struct label_units units = {0};
    struct query_filters filters = q->filters;
    int r;
    if (!has_filters(&q->filters))
        return 0;
    filters.cancelled = q->cancelled;
    if (label_units_build(p, &units, NULL))
        r = query_filter(&filters, &units, p, warnings, err);
    else
        r = budget_error(p->dict->budget, err);
    label_units_done(&units);
    if (r == 0 && q->cancelled && atomic_load(q->cancelled))
        r = error_set(err, -ECANCELED, "the question was given up while names were matched");
    return r;
}

static bool needs_samples(const struct query *q)
{
    return q->has_id || q->with_labels || query_filters_need_labels(&q->filters);
}

static int ask_store(const struct query *q, struct store_answer *answer, struct added *ret,
                     struct error *err)
{
    if (needs_samples(q))
        return merge_samples(q, answer->set, ret, err);
    struct store_plan plan = plan_of(q);
    size_t before = answer->cells.len;
    int r = store_aggregate(q->store, &plan, answer, err);
    if (r < 0)
        return r;
    if (answer->is_incomplete && q->trouble)
        *q->trouble = answer->trouble;
    if (answer->cells.len > before) {
        const struct store_cell *cell = &answer->cells.data[before];
        /* Profiles that were looked at for a trace's samples need not have any. */
        *ret = (struct added){cell->profile, q->has_trace || q->has_span ? 0 : cell->n_profiles};
    }
    return 0;
}

/* Adds the selection to an answer: its profile, or NULL when nothing was found. */
static int ask(const struct query *q, struct store_answer *answer, struct added *ret,
               struct error *err)
{
    *ret = (struct added){0};
    if (q->supply)
        return q->supply(q->supply_ctx, q, answer->set, &ret->profile, &ret->n_profiles, err);
    int r = ask_store(q, answer, ret, err);
    return r == 0 && ret->profile && q->resolve ? q->resolve(q->resolve_ctx, answer->set, err) : r;
}

int query_merge_into(const struct query *q, struct profile_set *set, struct profile **ret,
                     struct error *err)
{
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_over(set);
    struct added added;
    int r = ask(q, answer, &added, err);
    if (r == 0 && answer->is_incomplete)
        profile_set_note(set, "incomplete: %s", answer->trouble.text);
    if (r < 0 || !added.profile)
        return r < 0 ? r : query_nothing(q, err);
    *ret = added.profile;
    return 0;
}

int query_merge(const struct query *q, struct merged *ret, struct error *err)
{
    *ret = (struct merged){
        .answer = store_answer_new(q->memory_limit > 0 ? q->memory_limit : QUERY_MEMORY)};
    struct added added;
    int r = ask(q, ret->answer, &added, err);
    if (r < 0)
        return r;
    ret->profile = added.profile;
    ret->n_profiles = added.n_profiles;
    if (!ret->profile)
        return query_nothing(q, err);
    return filter(q, ret->profile, &ret->warnings, err);
}

void merged_done(struct merged *m)
{
    buf_done(&m->warnings);
    store_answer_free(m->answer);
}

static int ask_side(const struct query *q, struct merged_pair *pair, int side, struct profile **ret,
                    struct error *err)
{
    struct added added;
    int r = ask(q, pair->answer, &added, err);
    if (r < 0)
        return r;
    *ret = added.profile;
    pair->n_profiles[side] = added.n_profiles;
    return *ret ? filter(q, *ret, NULL, err) : 0;
}

/* An empty profile of the other side's types stands in for a side without data. */
static struct profile *empty_like(struct store_answer *answer, const struct profile *other)
{
    struct profile *p = profile_set_add(answer->set);
    for (uint32_t i = 0; p && i < other->n_types; i++)
        profile_add_type(p, other->types[i].type, other->types[i].unit);
    return p;
}

/* The column of `p` to compare with column `type` of `other`: the same type, or each side's only
 * one. */
static uint32_t counterpart(const struct profile *p, const struct profile *other, uint32_t type)
{
    if (p->n_types == 1 && other->n_types == 1)
        return 0;
    for (uint32_t i = 0; i < p->n_types; i++)
        if (p->types[i].type == other->types[type].type)
            return i;
    return UINT32_MAX;
}

/* Milliseconds on one side and nanoseconds on the other are compared in the finer unit: in the
 * coarser one, rows would round to nothing. */
static void reconcile_units(struct profile *before, struct profile *after)
{
    const struct dict *d = before->dict;
    double ratios[PROFILE_TYPES_MAX], others[PROFILE_TYPES_MAX];

    for (uint32_t k = 0; k < after->n_types; k++)
        others[k] = 1;
    for (uint32_t i = 0; i < before->n_types; i++) {
        uint32_t k = counterpart(after, before, i);
        double ratio = 1;
        ratios[i] = 1;
        if (k == UINT32_MAX || !measure_ratio(dict_cstr(d, before->types[i].unit),
                                              dict_cstr(d, after->types[k].unit), &ratio))
            continue;
        if (ratio >= 1) {
            ratios[i] = ratio;
            before->types[i].unit = after->types[k].unit;
        } else {
            others[k] = 1 / ratio;
            after->types[k].unit = before->types[i].unit;
        }
    }
    profile_scale(before, ratios);
    profile_scale(after, others);
}

int query_pair(const struct query *before, const struct query *after, struct merged_pair *ret,
               struct error *err)
{
    size_t limit = after->memory_limit > 0 ? after->memory_limit : QUERY_MEMORY;
    *ret = (struct merged_pair){.answer = store_answer_new(limit)};
    int r = ask_side(before, ret, 0, &ret->before, err);
    if (r == 0)
        r = ask_side(after, ret, 1, &ret->after, err);
    if (r < 0)
        return r;
    if (!ret->before && !ret->after)
        return query_nothing(after, err);
    if (!ret->before)
        ret->before = empty_like(ret->answer, ret->after);
    if (!ret->after)
        ret->after = empty_like(ret->answer, ret->before);
    if (ret->before && ret->after)
        reconcile_units(ret->before, ret->after);
    return budget_failed(&ret->answer->budget) ? budget_error(&ret->answer->budget, err) : 0;
}

void merged_pair_done(struct merged_pair *m)
{
    store_answer_free(m->answer);
}
