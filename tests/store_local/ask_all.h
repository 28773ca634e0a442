#pragma once

#include "store/selector.h"
#include "store_local/kept_store.h"

/*
 * Every kind of question to a kept store. What is answered does not matter here: only whether there
 * is an answer, or an error that says why not.
 */
static inline int see_span(void *ctx, const struct store_span *span)
{
    (void)span;
    ++*(uint64_t *)ctx;
    return 0;
}

static inline int see_series(void *ctx, const struct store_series *series)
{
    (void)series;
    ++*(uint64_t *)ctx;
    return 0;
}

static inline int ask_plan(struct fixture *f, const char *selector, struct store_plan plan)
{
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new(1 << 26);
    CLEANUP(selector_freep) struct selector *parsed = NULL;
    int r = selector_parse(bytes_of(selector), &parsed, &f->err);

    plan.tenant = bytes_of("default");
    plan.selector = parsed;
    if (plan.to_ns == 0)
        plan.to_ns = INT64_MAX;
    if (r == 0)
        r = store_aggregate(f->store, &plan, answer, &f->err);
    return r;
}

static inline int ask_sums(struct fixture *f)
{
    const struct bytes by[] = {bytes_of("pod"), bytes_of(LABEL_SERVICE)};
    const struct matcher thread = {bytes_of("thread.name"), MATCH_EQUAL, bytes_of("t"), NULL};
    const struct store_plan plans[] = {
        {.what = PLAN_STACKS},
        {.what = PLAN_STACKS, .raw_only = true, .group_by = by, .n_group_by = 2},
        {.what = PLAN_STACKS, .attributes = &thread, .n_attributes = 1},
        {.what = PLAN_STACKS, .has_trace = true, .trace_id = {7}},
        {.what = PLAN_STACKS, .instant = INSTANT_LAST},
        {.what = PLAN_STACKS, .instant = INSTANT_PEAK, .group_by = by, .n_group_by = 1},
        {.what = PLAN_TOTALS,
         .step_ns = HOUR_NS,
         .from_ns = NOW_NS - 24 * HOUR_NS,
         .to_ns = NOW_NS},
        {.what = PLAN_TOTALS,
         .step_ns = HOUR_NS,
         .by_sample_time = true,
         .from_ns = NOW_NS - 24 * HOUR_NS,
         .to_ns = NOW_NS},
        {.what = PLAN_FUNCTIONS, .group_by = by, .n_group_by = 1},
        {.what = PLAN_FUNCTIONS, .raw_only = true},
        {.what = PLAN_FUNCTION, .function = bytes_of("work")},
        {.what = PLAN_FUNCTION, .function = bytes_of("work"), .raw_only = true},
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(plans) && r == 0; i++)
        r = ask_plan(f, i % 2 ? "{pod=~\"a|b|h\"}" : "", plans[i]);
    return r;
}

static inline int ask_lists(struct fixture *f)
{
    CLEANUP(selector_freep) struct selector *some = NULL;
    struct everything e = {0};
    struct store_estimate cost;
    uint64_t n = 0;
    int r = selector_parse(bytes_of("{pod!=\"a\"}"), &some, &f->err);
    struct store_find find = {
        .tenant = bytes_of("default"), .to_ns = INT64_MAX, .with_samples = true};
    struct store_find linked = {.tenant = bytes_of("default"),
                                .selector = some,
                                .to_ns = INT64_MAX,
                                .has_trace = true,
                                .trace_id = {7}};
    struct store_span_find spans = {.tenant = bytes_of("default"), .to_ns = INT64_MAX};
    struct store_span_find traced = spans;
    struct store_plan plan = {.tenant = bytes_of("default"), .to_ns = INT64_MAX, .selector = some};

    traced.has_trace = true;
    traced.trace_id[0] = 7;
    if (r == 0)
        r = store_profiles(f->store, &find, count_found, &e, &f->err);
    if (r == 0)
        r = store_profiles(f->store, &linked, count_found, &e, &f->err);
    if (r == 0)
        r = store_spans(f->store, &spans, see_span, &n, &f->err);
    if (r == 0)
        r = store_spans(f->store, &traced, see_span, &n, &f->err);
    if (r == 0)
        r = store_series(
            f->store,
            &(struct store_scope){bytes_of("default"), some, NOW_NS - 3 * HOUR_NS, NOW_NS},
            see_series, &n, &f->err);
    if (r == 0)
        r = store_estimate(f->store, &plan, &cost, &f->err);
    return r;
}

static inline int ask_all(struct fixture *f)
{
    int r = ask_sums(f);

    return r < 0 ? r : ask_lists(f);
}
