#include <math.h>

#include "lib/test.h"
#include "profile/sample_weight.h"

struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *p;
};

static void setup(struct fixture *f)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->set = profile_set_new(&f->budget);
    f->p = profile_set_add(f->set);
}

static void set_period(struct profile *p, const char *unit, int64_t period)
{
    p->period_type.unit = dict_cstring(p->dict, unit);
    p->period = period;
}

static void counts_by_the_period_in_any_unit_of_its_kind(struct test *t)
{
    struct fixture f;
    setup(&f);
    uint32_t cpu = profile_add_ctype(f.p, "cpu", "nanoseconds");
    profile_add_value(f.p, 0, 70000000);
    CHECK(t, profile_sample_weight(f.p, cpu) == 0);
    set_period(f.p, "bytes", 512);
    CHECK(t, profile_sample_weight(f.p, cpu) == 0);
    set_period(f.p, "milliseconds", 10);
    CHECK(t, fabs(profile_sample_weight(f.p, cpu) - 1e7) < 1);
    CHECK_INT(t, sample_count(70000000, 1e7), 7);
    CHECK_INT(t, sample_count(-70000000, 1e7), 7);
    CHECK_INT(t, sample_count(INT64_MIN, 1), INT64_MAX);
    profile_set_free(f.set);
}

static void counts_by_a_column_that_counts_the_same_rows(struct test *t)
{
    struct fixture f;
    setup(&f);
    uint32_t samples = profile_add_ctype(f.p, "samples", "count");
    uint32_t cpu = profile_add_ctype(f.p, "cpu", "nanoseconds");
    profile_add(f.p, &(struct sample){.values = (int64_t[]){3, 30}});
    profile_add(f.p, &(struct sample){.values = (int64_t[]){1, 20}});
    set_period(f.p, "nanoseconds", 10);
    CHECK(t, profile_sample_weight(f.p, samples) == 1);
    CHECK(t, profile_sample_weight(f.p, cpu) == 12.5);
    /* A row of another profile has time but no count: the period is what remains. */
    profile_add(f.p, &(struct sample){.values = (int64_t[]){0, 20}});
    CHECK(t, profile_sample_weight(f.p, cpu) == 10);
    profile_set_free(f.set);
}

static const struct test_case cases[] = {TEST(counts_by_the_period_in_any_unit_of_its_kind),
                                         TEST(counts_by_a_column_that_counts_the_same_rows)};
TEST_MAIN(cases)
