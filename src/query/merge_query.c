#include <errno.h>

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
    const char *const all[] = {f->focus,      f->ignore,   f->hide,      f->show,    f->show_from,
                               f->prune_from, f->tagfocus, f->tagignore, f->taghide, f->tagshow};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (all[i] && *all[i])
            return true;
    return false;
}

static int filter(const struct query *q, struct profile *p, struct buf *warnings, struct error *err)
{
    struct label_units units = {0};
    int r;
    if (!has_filters(&q->filters))
        return 0;
    if (label_units_build(p, &units, NULL))
        r = query_filter(&q->filters, &units, p, warnings, err);
    else
        r = budget_error(p->dict->budget, err);
    label_units_done(&units);
    return r;
}

static bool needs_samples(const struct query *q)
{
    const char *const tags[] = {q->filters.tagfocus, q->filters.tagignore, q->filters.taghide,
                                q->filters.tagshow};
    for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
        if (tags[i] && *tags[i])
            return true;
    return q->has_id || q->with_labels;
}

static int ask_store(const struct query *q, struct store_answer *answer, struct profile **ret,
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
    *ret = answer->cells.len > before ? answer->cells.data[before].profile : NULL;
    return 0;
}

/* Adds the selection to an answer: its profile, or NULL when nothing was found. */
static int ask(const struct query *q, struct store_answer *answer, struct profile **ret,
               struct error *err)
{
    if (q->supply)
        return q->supply(q->supply_ctx, q, answer->set, ret, err);
    int r = ask_store(q, answer, ret, err);
    return r == 0 && *ret && q->resolve ? q->resolve(q->resolve_ctx, answer->set, err) : r;
}

int query_merge_into(const struct query *q, struct profile_set *set, struct profile **ret,
                     struct error *err)
{
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_over(set);
    struct profile *p = NULL;
    int r = ask(q, answer, &p, err);
    if (r == 0 && answer->is_incomplete)
        profile_set_note(set, "incomplete: %s", answer->trouble.text);
    if (r < 0 || !p)
        return r < 0 ? r : query_nothing(q, err);
    *ret = p;
    return 0;
}

int query_merge(const struct query *q, struct merged *ret, struct error *err)
{
    *ret = (struct merged){
        .answer = store_answer_new(q->memory_limit > 0 ? q->memory_limit : QUERY_MEMORY)};
    int r = ask(q, ret->answer, &ret->profile, err);
    if (r < 0)
        return r;
    if (!ret->profile)
        return query_nothing(q, err);
    return filter(q, ret->profile, &ret->warnings, err);
}

void merged_done(struct merged *m)
{
    buf_done(&m->warnings);
    store_answer_free(m->answer);
}

static int ask_side(const struct query *q, struct store_answer *answer, struct profile **ret,
                    struct error *err)
{
    int r = ask(q, answer, ret, err);
    return r == 0 && *ret ? filter(q, *ret, NULL, err) : r;
}

/* An empty profile of the other side's types stands in for a side without data. */
static struct profile *empty_like(struct store_answer *answer, const struct profile *other)
{
    struct profile *p = profile_set_add(answer->set);
    for (uint32_t i = 0; p && i < other->n_types; i++)
        profile_add_type(p, other->types[i].type, other->types[i].unit);
    return p;
}

int query_pair(const struct query *before, const struct query *after, struct merged_pair *ret,
               struct error *err)
{
    size_t limit = after->memory_limit > 0 ? after->memory_limit : QUERY_MEMORY;
    *ret = (struct merged_pair){.answer = store_answer_new(limit)};
    int r = ask_side(before, ret->answer, &ret->before, err);
    if (r == 0)
        r = ask_side(after, ret->answer, &ret->after, err);
    if (r < 0)
        return r;
    if (!ret->before && !ret->after)
        return query_nothing(after, err);
    if (!ret->before)
        ret->before = empty_like(ret->answer, ret->after);
    if (!ret->after)
        ret->after = empty_like(ret->answer, ret->before);
    return budget_failed(&ret->answer->budget) ? budget_error(&ret->answer->budget, err) : 0;
}

void merged_pair_done(struct merged_pair *m)
{
    store_answer_free(m->answer);
}
