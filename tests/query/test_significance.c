#include "lib/test.h"
#include "query/significance.h"

static void believes_what_is_more_than_chance(struct test *t)
{
    struct significance s = {.is_known = true, .weight = {10, 1}, .n = {100, 200}};
    CHECK(t, is_significant(&s, (int64_t[]){0, 80}));
    CHECK(t, is_significant(&s, (int64_t[]){500, 60}));    /* 50 % to 30 % */
    CHECK(t, !is_significant(&s, (int64_t[]){400, 70}));   /* 40 % to 35 % */
    CHECK(t, !is_significant(&s, (int64_t[]){1000, 200})); /* the whole */
    CHECK(t, !is_significant(&s, (int64_t[]){90, 0}));     /* nine samples are too few */
    CHECK(t, is_significant(&s, (int64_t[]){100, 0}));
    /* Values below zero, or above the whole, are no proportions. */
    CHECK(t, !is_significant(&s, (int64_t[]){-500, -500}));
    CHECK(t, !is_significant(&s, (int64_t[]){INT64_MAX, INT64_MAX}));
    s.is_known = false;
    CHECK(t, !is_significant(&s, (int64_t[]){0, 80}));
}

static void knows_nothing_without_counts(struct test *t)
{
    struct store_answer *answer = store_answer_new(BUDGET_DEFAULT_BYTES);
    struct profile *before = profile_set_add(answer->set), *after = profile_set_add(answer->set);
    struct merged_pair pair = {.answer = answer, .before = before, .after = after};
    const uint32_t types[2] = {0, 0};

    profile_add_ctype(before, "cpu", "nanoseconds");
    profile_add_ctype(after, "samples", "count");
    profile_add_value(before, 0, 1000);
    profile_add_value(after, 0, 20);
    CHECK(t, !significance_of(&pair, types).is_known);
    before->period_type.unit = dict_cstring(before->dict, "nanoseconds");
    before->period = 10;
    struct significance s = significance_of(&pair, types);
    CHECK(t, s.is_known && s.n[0] == 100 && s.n[1] == 20);
    after->n_samples = 0;
    CHECK(t, !significance_of(&pair, types).is_known);
    merged_pair_done(&pair);
}

static const struct test_case cases[] = {TEST(believes_what_is_more_than_chance),
                                         TEST(knows_nothing_without_counts)};
TEST_MAIN(cases)
