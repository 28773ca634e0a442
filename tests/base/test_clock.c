#include <time.h>

#include "base/clock.h"
#include "lib/set_clock.h"
#include "lib/test.h"

static void the_real_clock_agrees_with_the_machine(struct test *t)
{
    const struct clock *c = clock_real();
    int64_t before = (int64_t)time(NULL) - 1;
    int64_t wall = clock_wall_ns(c) / 1000000000;
    int64_t a = clock_monotonic_ns(c), b = clock_monotonic_ns(c);

    CHECK(t, wall >= before && wall <= before + 60);
    CHECK(t, a > 0 && b >= a && b - a < (int64_t)60 * 1000000000);
}

static void a_set_clock_moves_only_when_told(struct test *t)
{
    struct set_clock set;

    set_clock_init(&set, 5000);
    CHECK_INT(t, clock_wall_ns(&set.clock), 5000);
    CHECK_INT(t, clock_monotonic_ns(&set.clock), 0);
    set_clock_advance(&set, 7);
    CHECK_INT(t, clock_wall_ns(&set.clock), 5007);
    CHECK_INT(t, clock_monotonic_ns(&set.clock), 7);
    set.wall_ns = 1;
    CHECK_INT(t, clock_wall_ns(&set.clock), 1);
}

static const struct test_case cases[] = {
    TEST(the_real_clock_agrees_with_the_machine),
    TEST(a_set_clock_moves_only_when_told),
};
TEST_MAIN(cases)
