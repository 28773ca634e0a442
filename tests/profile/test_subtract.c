#include <errno.h>

#include "lib/stacks.h"
#include "profile/subtract.h"

static const bool first_only[PROFILE_TYPES_MAX] = {true};

static void add_two(struct fixture *f, struct profile *p, const char *text, int64_t a, int64_t b)
{
    int64_t values[2] = {a, b};
    profile_add(p, &(struct sample){.node = stack(f->set->dict, text), .values = values});
}

static struct profile *heap(struct fixture *f)
{
    struct profile *p = profile_set_add(f->set);
    profile_add_ctype(p, "alloc_space", "bytes");
    profile_add_ctype(p, "inuse_space", "bytes");
    return p;
}

static void takes_off_what_was_there_before(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);
    struct profile *now = heap(&f), *before = heap(&f);

    add_two(&f, now, "main;a", 100, 7);
    add_two(&f, now, "main;new", 5, 5);
    add_two(&f, now, "main;same", 9, 0);
    add_two(&f, now, "main;shrunk", 3, 1);
    add_two(&f, before, "main;same", 9, 2);
    add_two(&f, before, "main;a", 60, 50);
    add_two(&f, before, "main;shrunk", 10, 0);
    add_two(&f, before, "main;gone", 10, 10);
    CHECK_INT(t, profile_subtract(now, before, first_only, &err), 0);
    CHECK_INT(t, now->n_samples, 3);
    CHECK_INT(t, now->values[0][0], 40);
    CHECK_INT(t, now->values[1][0], 7);
    CHECK_INT(t, now->values[0][1], 5);
    CHECK_INT(t, now->values[0][2], 0);
    CHECK_INT(t, now->values[1][2], 1);
    fixture_done(&f);
}

static void rows_of_one_stack_share_what_is_taken_off(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);
    struct profile *now = heap(&f), *before = heap(&f);

    add_two(&f, before, "a", 4, 0);
    add_two(&f, before, "a", 3, 0);
    add_two(&f, now, "a", 5, 0);
    add_two(&f, now, "a", 5, 0);
    CHECK_INT(t, profile_subtract(now, before, first_only, &err), 0);
    CHECK_INT(t, profile_total(now, 0), 3);
    fixture_done(&f);
}

static void labels_tell_rows_apart(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);
    struct dict *d = f.set->dict;
    struct profile *now = heap(&f), *before = heap(&f);
    int64_t values[2] = {8, 0};
    uint32_t label = dict_string_attribute(d, dict_cstring(d, "k"), dict_cstring(d, "v"));
    uint32_t attrs = dict_attrs(d, &label, 1);

    profile_add(now, &(struct sample){.node = stack(d, "a"), .attrs = attrs, .values = values});
    add_two(&f, before, "a", 8, 0);
    CHECK_INT(t, profile_subtract(now, before, first_only, &err), 0);
    CHECK_INT(t, profile_total(now, 0), 8);
    fixture_done(&f);
}

static void a_column_that_was_not_there_stays(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);
    struct profile *now = heap(&f);

    add_two(&f, now, "a", 8, 0);
    add(&f, "a", 3);
    CHECK_INT(t, profile_subtract(now, f.p, first_only, &err), 0);
    CHECK_INT(t, profile_total(now, 0), 8);
    struct profile *empty = heap(&f);
    CHECK_INT(t, profile_subtract(now, empty, first_only, &err), 0);
    CHECK_INT(t, profile_total(now, 0), 8);
    fixture_done(&f);
}

static void sums_do_not_overflow(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);
    struct profile *now = heap(&f), *before = heap(&f);

    add_two(&f, before, "a", INT64_MAX, 0);
    add_two(&f, before, "a", INT64_MAX, 0);
    add_two(&f, before, "b", INT64_MIN, 0);
    add_two(&f, now, "a", 5, 1);
    add_two(&f, now, "b", INT64_MAX, 1);
    CHECK_INT(t, profile_subtract(now, before, first_only, &err), 0);
    CHECK_INT(t, now->values[0][0], 0);
    CHECK_INT(t, now->values[0][1], INT64_MAX);
    fixture_done(&f);
}

static void says_when_memory_is_spent(struct test *t)
{
    struct fixture f;
    struct error err;
    fixture_init(&f);
    struct profile *now = heap(&f), *before = heap(&f);

    for (int i = 0; i < 100; i++)
        add_two(&f, before, "a", 1, 1);
    f.budget.limit = f.budget.used;
    CHECK_INT(t, profile_subtract(now, before, first_only, &err), -ENOBUFS);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(takes_off_what_was_there_before),
    TEST(rows_of_one_stack_share_what_is_taken_off),
    TEST(labels_tell_rows_apart),
    TEST(a_column_that_was_not_there_stays),
    TEST(sums_do_not_overflow),
    TEST(says_when_memory_is_spent),
};
TEST_MAIN(cases)
