#include <errno.h>
#include <stdint.h>

#include "base/vec.h"
#include "lib/test.h"

static void grows_and_keeps_what_was_pushed(struct test *t)
{
    struct budget b;
    budget_init(&b, 1 << 20);
    VEC(uint32_t) v = {0};
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(t, vec_push(&b, &v, i * 3));
    CHECK_INT(t, v.len, 1000);
    CHECK_INT(t, v.data[999], 2997);
    vec_done(&b, &v);
    CHECK_INT(t, b.used, 0);
}

static void stops_at_the_budget_and_says_so(struct test *t)
{
    struct budget b;
    struct error err;
    budget_init(&b, 1000);
    VEC(uint64_t) v = {0};
    while (vec_push(&b, &v, 1))
        ;
    CHECK_INT(t, v.len, 125);
    CHECK(t, budget_failed(&b));
    CHECK_INT(t, budget_error(&b, &err), -ENOBUFS);
    CHECK_STR(t, err.text, "memory limit of 1000 B reached: 1000 B in use and 8 B more needed");
    vec_done(&b, &v);
}

static const struct test_case cases[] = {
    TEST(grows_and_keeps_what_was_pushed),
    TEST(stops_at_the_budget_and_says_so),
};
TEST_MAIN(cases)
