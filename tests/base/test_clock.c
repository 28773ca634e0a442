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

static void durations_are_told_in_their_two_largest_units(struct test *t)
{
    const int64_t second = 1000000000, hour = 3600 * second;
    char text[DURATION_TEXT_MAX];

    CHECK_STR(t, duration_text(0, text), "0s");
    CHECK_STR(t, duration_text(1, text), "1ns");
    CHECK_STR(t, duration_text(250000000, text), "250ms");
    CHECK_STR(t, duration_text(90 * second, text), "1m30s");
    CHECK_STR(t, duration_text(hour + second, text), "1h1s");
    CHECK_STR(t, duration_text(30 * 24 * hour, text), "30d");
    CHECK_STR(t, duration_text(25 * hour + 61 * second, text), "1d1h");
    CHECK_STR(t, duration_text(-1500000, text), "-1ms500us");
    CHECK_STR(t, duration_text(INT64_MIN, text), "-106751d23h");
}

static const struct test_case cases[] = {
    TEST(the_real_clock_agrees_with_the_machine),
    TEST(a_set_clock_moves_only_when_told),
    TEST(durations_are_told_in_their_two_largest_units),
};
TEST_MAIN(cases)
