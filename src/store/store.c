#include "store/store.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/must.h"

void store_close(struct store *s)
{
    if (s)
        s->ops->close(s);
}

/* ---- Sources */

#define SOURCE_MEMORY ((size_t)64 << 20)

int store_source_new(struct store *store, size_t memory_limit, struct store_source **ret,
                     struct error *err)
{
    struct store_source *source = calloc(1, sizeof(*source));
    if (!source)
        return error_set(err, -ENOMEM, "no memory for a source of profiles");
    budget_init(&source->budget, memory_limit > 0 ? memory_limit : SOURCE_MEMORY);
    source->store = store;
    source->generation = 1;
    source->set = profile_set_new(&source->budget);

    int r = store->ops->source_attach(source, err);
    if (r < 0) {
        profile_set_free(source->set);
        free(source);
        return r;
    }
    *ret = source;
    return 0;
}

/* Past half of its memory a dictionary makes room: what is still in use comes back with the next
 * profile. A decode that ran out of memory leaves a dictionary that cannot be trusted. */
void store_source_reset(struct store_source *source)
{
    profile_set_truncate(source->set, 0);
    if (source->budget.used <= source->budget.limit / 2 && !budget_failed(&source->budget) &&
        source->set->notes.len == 0 && !source->is_too_large) {
        source->store->ops->source_was_reset(source);
        return;
    }
    source->is_too_large = false;
    profile_set_free(source->set);
    budget_init(&source->budget, source->budget.limit);
    source->set = profile_set_new(&source->budget);
    source->generation++;
    source->store->ops->source_was_reset(source);
}

void store_source_free(struct store_source *source)
{
    if (!source)
        return;
    source->store->ops->source_detach(source);
    profile_set_free(source->set);
    free(source);
}

int store_append(struct store_source *source, struct bytes tenant, const struct store_incoming *in,
                 size_t n, struct store_outcome *ret, struct error *err)
{
    return source->store->ops->append(source, tenant, in, n, ret, err);
}

int store_append_spans(struct store *s, struct bytes tenant, const struct store_span *spans,
                       size_t n, struct error *err)
{
    return s->ops->append_spans(s, tenant, spans, n, err);
}

/* ---- Answers */

struct store_answer *store_answer_new(size_t memory_limit)
{
    struct store_answer *answer = must_calloc(1, sizeof(*answer));
    budget_init(&answer->budget, memory_limit);
    answer->set = profile_set_new(&answer->budget);
    return answer;
}

struct store_answer *store_answer_over(struct profile_set *set)
{
    struct store_answer *answer = must_calloc(1, sizeof(*answer));
    budget_init(&answer->budget, set->budget->limit - set->budget->used);
    answer->set = set;
    answer->borrows_set = true;
    return answer;
}

void store_answer_free(struct store_answer *answer)
{
    if (!answer)
        return;
    vec_done(&answer->budget, &answer->groups);
    vec_done(&answer->budget, &answer->cells);
    if (!answer->borrows_set)
        profile_set_free(answer->set);
    free(answer);
}

int store_series(struct store *s, const struct store_scope *scope, store_series_fn sink, void *ctx,
                 struct error *err)
{
    return s->ops->series(s, scope, sink, ctx, err);
}

int store_estimate(struct store *s, const struct store_plan *plan, struct store_estimate *ret,
                   struct error *err)
{
    return s->ops->estimate(s, plan, ret, err);
}

/* Steps that no screen shows and no memory holds. */
#define STEPS_MAX 100000

int store_aggregate(struct store *s, const struct store_plan *plan, struct store_answer *ret,
                    struct error *err)
{
    if (plan->from_ns >= plan->to_ns)
        return error_set(err, -EINVAL, "the range is empty: it ends before it starts");
    if (plan->step_ns < 0)
        return error_set(err, -EINVAL, "the step is negative");
    uint64_t range = (uint64_t)plan->to_ns - (uint64_t)plan->from_ns;
    char step[DURATION_TEXT_MAX];
    if (plan->step_ns > 0 && range / (uint64_t)plan->step_ns >= STEPS_MAX)
        return error_set(err, -EINVAL,
                         "a step of %s cuts the range into %llu steps: at most %d are allowed",
                         duration_text(plan->step_ns, step),
                         (unsigned long long)(range / (uint64_t)plan->step_ns), STEPS_MAX);
    return s->ops->aggregate(s, plan, ret, err);
}

int store_profiles(struct store *s, const struct store_find *find, store_found_fn sink, void *ctx,
                   struct error *err)
{
    return s->ops->profiles(s, find, sink, ctx, err);
}

int store_spans(struct store *s, const struct store_span_find *find, store_span_fn sink, void *ctx,
                struct error *err)
{
    return s->ops->spans(s, find, sink, ctx, err);
}

/* ---- Keeping */

int store_erase(struct store *s, const struct store_scope *scope, struct error *err)
{
    return s->ops->erase(s, scope, err);
}

int store_set_policy(struct store *s, struct bytes tenant, const struct store_policy *policy,
                     struct error *err)
{
    return s->ops->set_policy(s, tenant, policy, err);
}

void store_get_policy(struct store *s, struct bytes tenant, struct store_policy *ret)
{
    s->ops->get_policy(s, tenant, ret);
}

int store_upkeep(struct store *s, enum store_upkeep what, struct error *err)
{
    return s->ops->upkeep(s, what, err);
}

int store_verify(struct store *s, store_report_fn report, void *ctx, struct error *err)
{
    return s->ops->verify(s, report, ctx, err);
}

int store_backup(struct store *s, const char *to_dir, struct error *err)
{
    return s->ops->backup(s, to_dir, err);
}

void store_stat(struct store *s, struct store_stat *ret)
{
    s->ops->stat(s, ret);
}

uint64_t store_changes(struct store *s, const struct store_scope *scope)
{
    return s->ops->changes(s, scope);
}
