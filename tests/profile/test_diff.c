#include <errno.h>

#include "lib/test.h"
#include "profile/diff.h"

struct fixture {
    struct budget budget;
    struct profile_set *set;
    struct profile *source, *base;
    uint32_t x, y, z;
};

static uint32_t stack(struct dict *d, const char *name)
{
    return dict_frame(d, 0, (struct function){.name = dict_cstring(d, name)}, 0, 0, 0);
}

/* source: x 10, y 30; base: x 10, z 10. In milliseconds and nanoseconds when asked. */
static void fixture_init(struct fixture *f, const char *base_unit)
{
    budget_init(&f->budget, BUDGET_DEFAULT_BYTES);
    f->set = profile_set_new(&f->budget);
    struct dict *d = f->set->dict;
    f->source = profile_set_add(f->set);
    f->base = profile_set_add(f->set);
    f->x = stack(d, "x"), f->y = stack(d, "y"), f->z = stack(d, "z");
    profile_add_ctype(f->source, "samples", "count");
    profile_add_ctype(f->source, "cpu", "ms");
    profile_add_ctype(f->base, "cpu", base_unit);
    profile_add(f->source, &(struct sample){.node = f->x, .values = (const int64_t[]){1, 10}});
    profile_add(f->source, &(struct sample){.node = f->y, .values = (const int64_t[]){1, 30}});
    profile_add_value(f->base, f->x, 10);
    profile_add_value(f->base, f->z, 10);
}

static void fixture_done(struct fixture *f)
{
    profile_set_free(f->set);
}

static int64_t value_of(const struct profile *p, uint32_t node)
{
    for (size_t i = 0; i < p->n_samples; i++) {
        if (p->node[i] == node)
            return p->values[0][i];
    }
    return INT64_MIN;
}

static void what_is_equal_in_both_disappears(struct test *t)
{
    struct fixture f;
    struct profile *p = NULL;

    fixture_init(&f, "ms");
    CHECK_INT(t, profile_diff(f.source, f.base, (struct diff_options){0}, &p, NULL), 0);
    CHECK_INT(t, p->n_types, 1);
    CHECK_INT(t, p->n_samples, 2);
    CHECK_INT(t, value_of(p, f.y), 30);
    CHECK_INT(t, value_of(p, f.z), -10);
    CHECK_INT(t, f.base->values[0][0], 10);
    profile_free(p);
    fixture_done(&f);
}

static void rows_of_a_diff_base_are_marked(struct test *t)
{
    struct fixture f;
    struct profile *p = NULL;

    fixture_init(&f, "ms");
    struct dict *d = f.set->dict;
    CHECK_INT(t,
              profile_diff(f.source, f.base, (struct diff_options){.is_diff_base = true}, &p, NULL),
              0);
    CHECK_INT(t, p->n_samples, 4);
    uint32_t key = dict_cstring(d, DIFF_BASE_KEY);
    for (size_t i = 0; i < p->n_samples; i++)
        CHECK(t, (dict_attrs_get(d, profile_attrs(p, i), key) != 0) == (p->values[0][i] < 0));
    profile_free(p);
    fixture_done(&f);
}

static void normalizing_scales_the_source_to_the_base(struct test *t)
{
    struct fixture f;
    struct profile *p = NULL;

    fixture_init(&f, "ms");
    CHECK_INT(t, profile_diff(f.source, f.base, (struct diff_options){.normalize = true}, &p, NULL),
              0);
    CHECK_INT(t, value_of(p, f.x), -5);
    CHECK_INT(t, value_of(p, f.y), 15);
    CHECK_INT(t, value_of(p, f.z), -10);
    CHECK_INT(t, profile_total(p, 0), 0);
    profile_free(p);
    fixture_done(&f);
}

static void units_are_reconciled(struct test *t)
{
    struct fixture f;
    struct profile *p = NULL;

    fixture_init(&f, "us");
    CHECK_INT(t, profile_diff(f.source, f.base, (struct diff_options){0}, &p, NULL), 0);
    CHECK_STR(t, dict_cstr(p->dict, p->types[0].unit), "us");
    CHECK_INT(t, value_of(p, f.x), 9990);
    profile_free(p);
    CHECK_INT(t, profile_diff(f.source, f.base, (struct diff_options){.normalize = true}, &p, NULL),
              0);
    CHECK_INT(t, value_of(p, f.z), -10);
    profile_free(p);
    fixture_done(&f);
}

static void profiles_with_nothing_in_common_are_refused(struct test *t)
{
    struct fixture f;
    struct profile *p = NULL;
    struct error err;

    fixture_init(&f, "ms");
    f.base->types[0].type = dict_cstring(f.set->dict, "space");
    CHECK_INT(t, profile_diff(f.source, f.base, (struct diff_options){0}, &p, &err), -EINVAL);
    CHECK_STR(t, err.text,
              "could not compare: the profiles have no sample type in common (samples against "
              "space)");
    fixture_done(&f);
}

static void scaling_rounds_and_drops_what_vanishes(struct test *t)
{
    struct fixture f;

    fixture_init(&f, "ms");
    profile_scale(f.source, (const double[]){1, 1});
    CHECK_INT(t, f.source->n_samples, 2);
    profile_scale(f.source, (const double[]){0, 0.03});
    CHECK_INT(t, f.source->n_samples, 1);
    CHECK_INT(t, f.source->node[0], f.y);
    CHECK_INT(t, f.source->values[1][0], 1);
    profile_scale(f.source, (const double[]){1, 1e30});
    CHECK_INT(t, f.source->values[1][0], INT64_MAX);
    profile_scale(f.source, (const double[]){1, -1e30});
    CHECK_INT(t, f.source->values[1][0], INT64_MIN);
    fixture_done(&f);
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    int r = -ENOBUFS;
    for (size_t extra = 0; r < 0 && extra < 100000; extra += 8) {
        struct fixture f;
        struct profile *p = NULL;
        struct error err = {0};
        fixture_init(&f, "ms");
        f.budget.limit = f.budget.used + extra;
        r = profile_diff(f.source, f.base, (struct diff_options){.is_diff_base = true}, &p, &err);
        CHECK(t, r == 0 || (r == -ENOBUFS && err.text[0]));
        profile_free(p);
        fixture_done(&f);
        CHECK_INT(t, f.budget.used, 0);
    }
    CHECK_INT(t, r, 0);
}

static void the_column_shown_is_found_by_number_or_name(struct test *t)
{
    struct fixture f;
    struct error err;
    uint32_t i = 9;

    fixture_init(&f, "ms");
    CHECK_INT(t, profile_find_index(f.source, NULL, &i, NULL), 0);
    CHECK_INT(t, i, 1);
    CHECK_INT(t, profile_find_index(f.source, "0", &i, NULL), 0);
    CHECK_INT(t, i, 0);
    CHECK_INT(t, profile_find_index(f.source, "inuse_cpu", &i, NULL), 0);
    CHECK_INT(t, i, 1);
    CHECK_INT(t, profile_find_index(f.source, "2", &i, &err), -EINVAL);
    CHECK_STR(t, err.text, "sample_index 2 is outside the range [0..1]");
    CHECK_INT(t, profile_find_index(f.source, "wall", &i, &err), -EINVAL);
    CHECK_STR(t, err.text, "sample_index \"wall\" must be one of: samples, cpu");
    f.source->n_types = 0;
    CHECK_INT(t, profile_find_index(f.source, "", &i, &err), -ENODATA);
    f.source->n_types = 2;
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(what_is_equal_in_both_disappears),
    TEST(rows_of_a_diff_base_are_marked),
    TEST(normalizing_scales_the_source_to_the_base),
    TEST(units_are_reconciled),
    TEST(profiles_with_nothing_in_common_are_refused),
    TEST(scaling_rounds_and_drops_what_vanishes),
    TEST(survives_running_out_of_memory_anywhere),
    TEST(the_column_shown_is_found_by_number_or_name),
};
TEST_MAIN(cases)
