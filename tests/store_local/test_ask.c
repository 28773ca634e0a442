#include <errno.h>

#include "lib/test.h"
#include "store_local/ask.h"
#include "store_local/sums.h"

#define SERIES 9
#define TYPES  8

/* Series of one label and eight types each. */
struct fixture {
    struct budget budget;
    struct snapshot snap;
    struct series series[SERIES];
    struct label labels[SERIES];
    struct store_type types[SERIES][TYPES];
    char names[SERIES][TYPES][16];
    char values[SERIES][8];
};

static void fixture_init(struct fixture *f, int n_series, bool own_types)
{
    memset(f, 0, sizeof(*f));
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->snap = (struct snapshot){
        .budget = &f->budget, .tenant = 1, .min_ns = 100, .max_ns = 200, .cutoff_ns = INT64_MIN};
    for (int i = 0; i < n_series; i++) {
        for (int k = 0; k < TYPES; k++) {
            snprintf(f->names[i][k], 16, "type-%d-%d", own_types ? i : 0, k);
            f->types[i][k] = (struct store_type){bytes_of(f->names[i][k]), BYTES("count")};
        }
        snprintf(f->values[i], 8, "v%d", i % 3);
        f->labels[i] = (struct label){BYTES("x"), bytes_of(f->values[i])};
        f->series[i] = (struct series){.id = (uint32_t)i + 1,
                                       .labels = &f->labels[i],
                                       .n_labels = 1,
                                       .types = f->types[i],
                                       .n_types = TYPES};
        vec_push(&f->budget, &f->snap.series, (struct snapshot_series){.series = &f->series[i]});
    }
}

static void fixture_done(struct fixture *f)
{
    vec_done(&f->budget, &f->snap.series);
}

static void unites_types_and_groups_by_labels(struct test *t)
{
    struct fixture f;
    struct ask a;
    struct bytes by[] = {BYTES("x"), BYTES("not there")};
    struct selector *selector = NULL;

    fixture_init(&f, 5, false);
    CHECK_INT(t, selector_parse(BYTES("type-0-3"), &selector, NULL), 0);
    struct store_plan plan = {.from_ns = 0, .to_ns = 1000, .group_by = by, .n_group_by = 2};
    CHECK_INT(t, ask_init(&a, &plan, &f.snap, &f.budget, NULL), 0);
    CHECK_INT(t, a.columns.len, TYPES);
    CHECK_INT(t, a.groups.len, 3);
    CHECK_INT(t, a.series.data[4].group, 1);
    CHECK_INT(t, a.series.data[4].to[7], 7);
    CHECK_INT(t, a.from_ns, 100);
    CHECK_INT(t, a.to_ns, 201);
    ask_done(&a);
    plan.selector = selector;
    CHECK_INT(t, ask_init(&a, &plan, &f.snap, &f.budget, NULL), 0);
    CHECK_INT(t, a.columns.len, 1);
    CHECK_INT(t, a.series.data[0].first, 3);
    CHECK_INT(t, a.series.data[0].to[3], 0);
    CHECK_INT(t, a.series.data[0].to[0], SUMS_SKIP);
    ask_done(&a);
    ask_done(&a);
    selector_free(selector);
    fixture_done(&f);
    CHECK_INT(t, f.budget.used, 0);
}

static void refuses_more_types_than_a_profile_has(struct test *t)
{
    struct fixture f;
    struct ask a;
    struct store_plan plan = {.from_ns = 0, .to_ns = 1000};
    struct error err = {{0}};

    fixture_init(&f, SERIES, true);
    CHECK_INT(t, ask_init(&a, &plan, &f.snap, &f.budget, &err), -EINVAL);
    CHECK_STR(t, err.text, "the selected series have more than 64 types: name one of them");
    ask_done(&a);
    fixture_done(&f);
}

static void cuts_time_into_steps_that_hold_the_data(struct test *t)
{
    struct fixture f;
    struct ask a;
    struct store_plan plan = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .step_ns = 30};

    fixture_init(&f, 1, false);
    CHECK_INT(t, ask_init(&a, &plan, &f.snap, &f.budget, NULL), 0);
    CHECK_INT(t, a.first_step_ns, 90);
    CHECK_INT(t, a.n_steps, 4);
    CHECK_INT(t, ask_step(&a, 119), 0);
    CHECK_INT(t, ask_step(&a, 120), 1);
    CHECK_INT(t, ask_step(&a, 80), 0);
    CHECK_INT(t, ask_step(&a, 5000), 3);
    CHECK_INT(t, ask_step_start(&a, 2), 150);
    uint32_t cell = ask_cell(&a, 0, 1), moment = ask_moment(&a, 0, 2);
    CHECK_INT(t, cell, 1);
    CHECK_INT(t, a.moments.data[moment].cell, 2);
    CHECK_INT(t, ask_moment(&a, 0, 3), moment + 1);
    ask_done(&a);
    plan.step_ns = 0;
    CHECK_INT(t, ask_init(&a, &plan, &f.snap, &f.budget, NULL), 0);
    CHECK_INT(t, ask_step(&a, 119), 0);
    CHECK_INT(t, ask_step_start(&a, 0), INT64_MIN);
    ask_done(&a);
    fixture_done(&f);
}

static void rounds_averages_to_the_nearest(struct test *t)
{
    static const struct {
        int64_t sum;
        uint64_t n;
        int64_t want;
    } cases[] = {
        {7, 0, 7},          {7, 1, 7},
        {7, 2, 4},          {-7, 2, -4},
        {10, 3, 3},         {11, 3, 4},
        {-10, 3, -3},       {-11, 3, -4},
        {0, 5, 0},          {INT64_MAX, 2, INT64_MAX / 2 + 1},
        {5, UINT64_MAX, 5},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        CHECK_INT(t, ask_average(cases[i].sum, cases[i].n), cases[i].want);
}

static void fails_cleanly_at_every_memory_limit(struct test *t)
{
    struct fixture f;
    struct bytes by = BYTES("x");
    struct store_plan plan = {
        .from_ns = 0, .to_ns = 1000, .step_ns = 1, .group_by = &by, .n_group_by = 1};
    bool ok = false;

    fixture_init(&f, 8, true);
    for (size_t limit = 0; !ok; limit += 53) {
        struct budget small;
        struct ask a;
        struct error err = {{0}};

        CHECK(t, limit < 1 << 20);
        budget_init(&small, limit);
        int r = ask_init(&a, &plan, &f.snap, &small, &err);
        ok = r == 0 && ask_moment(&a, 7, 3) != ASK_NONE && ask_cell(&a, 2, 3) != ASK_NONE;
        if (!ok)
            CHECK(t, budget_failed(&small) && (r == 0 || strstr(err.text, "limit") != NULL));
        ask_done(&a);
        CHECK_INT(t, small.used, 0);
    }
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(unites_types_and_groups_by_labels),       TEST(refuses_more_types_than_a_profile_has),
    TEST(cuts_time_into_steps_that_hold_the_data), TEST(rounds_averages_to_the_nearest),
    TEST(fails_cleanly_at_every_memory_limit),
};
TEST_MAIN(cases)
