/*
 * Stacks of C++ while an exception is on its way.
 *
 * Links: walk_thrown.cpp.
 */
#include "preload/walk_world.h"

int thrown_in_destructor(shape_fn *at, void *ctx);
int thrown_in_handler(shape_fn *at, void *ctx);
int thrown_on(shape_fn *at, void *ctx);

static struct two_stacks s;

static void check(struct test *t, int (*run)(shape_fn *, void *), int want)
{
    memset(&s, 0, sizeof(s));
    CHECK_INT(t, run(take_stacks, &s), want);
    CHECK(t, s.n_ours >= 5);
    CHECK_INT(t, s.flags, 0);
    CHECK_SAME(t, &s);
}

static void in_a_destructor(struct test *t)
{
    walk_start();
    check(t, thrown_in_destructor, 5);
    CHECK(t, strstr(names_of(&s), " thrown_in_destructor ") != NULL);
    check(t, thrown_in_destructor, 5);
}

static void in_a_handler(struct test *t)
{
    check(t, thrown_in_handler, 6);
}

static void thrown_again(struct test *t)
{
    check(t, thrown_on, 7);
}

static const struct test_case cases[] = {
    TEST(in_a_destructor),
    TEST(in_a_handler),
    TEST(thrown_again),
};
TEST_MAIN(cases)
