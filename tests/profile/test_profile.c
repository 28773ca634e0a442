#include "lib/test.h"
#include "profile/profile.h"

static void keeps_each_note_once_and_no_more_than_a_hundred(struct test *t)
{
    struct budget b;
    budget_init(&b, 1 << 20);
    struct profile_set *set = profile_set_new(&b);

    for (int i = 0; i < 300; i++)
        profile_set_note(set, "note %d", i / 2);
    CHECK_INT(t, set->notes.len, 100);
    CHECK_STR(t, set->notes.data[98], "note 98");
    CHECK_STR(t, set->notes.data[99], "more was noted than is shown");
    profile_set_free(set);
    CHECK_INT(t, b.used, 0);
}

static void a_type_added_late_is_zero_in_the_samples_before_it(struct test *t)
{
    struct budget b;
    budget_init(&b, 1 << 20);
    struct profile_set *set = profile_set_new(&b);
    struct profile *p = profile_set_add(set);

    CHECK_INT(t, profile_add_ctype(p, "samples", "count"), 0);
    CHECK(t, profile_add_value(p, 0, 5));
    CHECK_INT(t, profile_add_ctype(p, "cpu", "nanoseconds"), 1);
    CHECK_INT(t, profile_add_ctype(p, "samples", "count"), 0);
    CHECK(t, profile_add(p, &(struct sample){.values = (int64_t[]){1, 7}}));
    CHECK_INT(t, profile_total(p, 0), 6);
    CHECK_INT(t, profile_total(p, 1), 7);
    CHECK_INT(t, p->values[1][0], 0);
    CHECK_INT(t, profile_default_index(p), 1);
    p->default_type = dict_cstring(set->dict, "samples");
    CHECK_INT(t, profile_default_index(p), 0);
    profile_set_truncate(set, 0);
    CHECK_INT(t, set->profiles.len, 0);
    profile_set_free(set);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(keeps_each_note_once_and_no_more_than_a_hundred),
    TEST(a_type_added_late_is_zero_in_the_samples_before_it),
};
TEST_MAIN(cases)
