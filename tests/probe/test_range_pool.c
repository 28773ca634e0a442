#include "lib/test.h"
#include "probe/range_pool.h"

#define SECOND INT64_C(1000000000)

static void gives_out_the_smallest_that_fits(struct test *t)
{
    struct range_pool p;
    struct range a, b, c, d;
    range_pool_init(&p, 10, 100);
    CHECK(t, range_pool_take(&p, 20, 0, &a) && a.first == 10 && a.n == 20);
    CHECK(t, range_pool_take(&p, 5, 0, &b) && b.first == 30);
    CHECK(t, range_pool_take(&p, 30, 0, &c) && c.first == 35);
    range_pool_undo(&p, a);
    CHECK(t, range_pool_take(&p, 15, 0, &d) && d.first == 10); /* of 20, not of 45 */
    CHECK_INT(t, p.used, 50);
    range_pool_done(&p);
}

static void refuses_what_does_not_fit(struct test *t)
{
    struct range_pool p;
    struct range r = {7, 7};
    range_pool_init(&p, 0, 100);
    CHECK(t, !range_pool_take(&p, 101, 0, &r));
    CHECK_INT(t, r.first, 7); /* untouched */
    CHECK(t, range_pool_take(&p, 100, 0, &r));
    CHECK(t, !range_pool_take(&p, 1, 0, &r));
    CHECK(t, range_pool_take(&p, 0, 0, &r) && r.n == 0); /* nothing is always there */
    range_pool_give(&p, r, 0);
    CHECK_INT(t, p.used, 100);
    range_pool_done(&p);
}

static void waits_before_giving_out_again(struct test *t)
{
    struct range_pool p;
    struct range r;
    range_pool_init(&p, 0, 100);
    CHECK(t, range_pool_take(&p, 100, 5 * SECOND, &r));
    range_pool_give(&p, r, 6 * SECOND);
    CHECK_INT(t, p.used, 0);
    CHECK(t, !range_pool_take(&p, 1, 7 * SECOND - 1, &r));
    CHECK(t, range_pool_take(&p, 100, 7 * SECOND, &r));
    range_pool_done(&p);
}

static void joins_what_comes_back(struct test *t)
{
    struct range_pool p;
    struct range r[10], all;
    range_pool_init(&p, 0, 100);
    for (int i = 0; i < 10; i++)
        CHECK(t, range_pool_take(&p, 10, 0, &r[i]));
    static const int order[] = {3, 1, 2, 9, 0, 7, 8, 5, 4, 6};
    for (int i = 0; i < 10; i++)
        range_pool_give(&p, r[order[i]], i);
    CHECK(t, range_pool_take(&p, 100, 2 * SECOND, &all));
    CHECK_INT(t, all.first, 0);
    range_pool_done(&p);
}

/* Whatever comes and goes, no element is given out twice, and all are there in the end. */
static void never_gives_out_twice(struct test *t)
{
    enum { N = 1000, HELD = 64 };
    static uint8_t is_taken[N];
    struct range held[HELD] = {{0}};
    struct range_pool p;
    uint64_t x = 88172645463325252ull;
    range_pool_init(&p, 0, N);
    for (int64_t now = 0; now < 20000 * (SECOND / 50); now += SECOND / 50) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        struct range *h = &held[x % HELD];
        for (uint32_t i = 0; i < h->n; i++)
            is_taken[h->first + i] = 0;
        range_pool_give(&p, *h, now);
        *h = (struct range){0};
        if (!range_pool_take(&p, (uint32_t)(x >> 16) % 40, now, h))
            continue;
        for (uint32_t i = 0; i < h->n; i++)
            CHECK(t, !is_taken[h->first + i]++);
    }
    for (int i = 0; i < HELD; i++)
        range_pool_give(&p, held[i], 500 * SECOND);
    struct range all;
    CHECK(t, range_pool_take(&p, N, 502 * SECOND, &all));
    range_pool_done(&p);
}

static const struct test_case cases[] = {
    TEST(gives_out_the_smallest_that_fits),
    TEST(refuses_what_does_not_fit),
    TEST(waits_before_giving_out_again),
    TEST(joins_what_comes_back),
    TEST(never_gives_out_twice),
};
TEST_MAIN(cases)
