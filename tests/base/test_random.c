#include "base/random.h"
#include "lib/test.h"

/* Seeds reproduce failures of the simulator, so a change of these numbers breaks old reports. */
static void a_seed_gives_the_same_numbers_everywhere(struct test *t)
{
    struct random r, again;

    random_init(&r, 1);
    random_init(&again, 1);
    CHECK(t, random_u64(&r) == 12966619160104079557u);
    random_u64(&again);
    for (int i = 0; i < 100; i++)
        CHECK(t, random_u64(&r) == random_u64(&again));
    random_init(&again, 2);
    CHECK(t, random_u64(&r) != random_u64(&again));
}

static void numbers_below_n_are_spread_evenly(struct test *t)
{
    struct random r;
    int seen[10] = {0};

    random_init(&r, 42);
    for (int i = 0; i < 100000; i++)
        seen[random_below(&r, 10)]++;
    for (int i = 0; i < 10; i++)
        CHECK(t, seen[i] > 9600 && seen[i] < 10400);
}

static void odd_limits_are_kept(struct test *t)
{
    struct random r;
    uint64_t large = ((uint64_t)1 << 63) + 1, in_upper_half = 0;

    random_init(&r, 7);
    CHECK_INT(t, random_below(&r, 0), 0);
    CHECK_INT(t, random_below(&r, 1), 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = random_below(&r, large);
        CHECK(t, x < large);
        in_upper_half += x > large / 2;
    }
    CHECK(t, in_upper_half > 400 && in_upper_half < 600);
}

static void the_kernel_gives_different_seeds(struct test *t)
{
    CHECK(t, random_seed_os() != random_seed_os());
}

static const struct test_case cases[] = {
    TEST(a_seed_gives_the_same_numbers_everywhere),
    TEST(numbers_below_n_are_spread_evenly),
    TEST(odd_limits_are_kept),
    TEST(the_kernel_gives_different_seeds),
};
TEST_MAIN(cases)
