#include <errno.h>

#include "lib/test.h"
#include "store_local/sums.h"

#define KEYS 1000

static uint64_t state = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* A random run of two columns, also added to want[col][key]. */
static void add_random(struct buf *out, int64_t want[2][KEYS], uint32_t one_in)
{
    uint32_t keys[KEYS];
    int64_t a[KEYS], b[KEYS];
    size_t n = 0;

    for (uint32_t k = 0; k < KEYS; k++) {
        if (rnd(one_in) != 0)
            continue;
        keys[n] = k;
        a[n] = (int64_t)rnd(5) - 2;
        b[n] = (int64_t)rnd(1000000);
        want[0][k] += a[n];
        want[1][k] += b[n++];
    }
    run_encode(keys, (const int64_t *const[]){a, b}, n, 2, out);
}

static void check_taken(struct test *t, const struct sums_taken *got, int64_t want[2][KEYS])
{
    size_t at = 0;

    for (uint32_t k = 0; k < KEYS; k++) {
        if (want[0][k] == 0 && want[1][k] == 0)
            continue;
        CHECK(t, at < got->n && got->keys[at] == k);
        if (at >= got->n)
            return;
        CHECK_INT(t, got->values[at], want[0][k]);
        CHECK_INT(t, got->values[got->n + at], want[1][k]);
        at++;
    }
    CHECK_INT(t, got->n, at);
}

static void adds_runs_up_however_many_rows_were_expected(struct test *t)
{
    static const uint8_t straight[] = {0, 1};
    struct budget b;
    struct sums s;
    budget_init(&b, BUDGET_DEFAULT_BYTES);
    CHECK(t, sums_init(&s, &b, KEYS, 2));

    for (int round = 0; round < 60; round++) {
        int64_t want[2][KEYS] = {{0}};
        struct buf out = {0};
        struct sums_taken got;

        sums_expect(&s, round % 2 ? 3 : 100000);
        for (int i = 0; i < 5; i++)
            add_random(&out, want, round % 3 ? 90 : 2);
        struct bytes in = {(const uint8_t *)out.data, out.len};
        while (in.len > 0) {
            struct run run;
            CHECK_INT(t, run_open(&in, &run), 0);
            CHECK(t, sums_add_run(&s, &run, straight, 2));
        }
        CHECK(t, sums_add(&s, 7, 1, 5));
        want[1][7] += 5;
        CHECK(t, sums_take(&s, &got));
        check_taken(t, &got, want);
        sums_taken_done(&b, &got);
        buf_done(&out);
    }
    sums_done(&s);
    CHECK_INT(t, b.used, 0);
}

static void leaves_out_columns_that_are_not_wanted(struct test *t)
{
    static const uint8_t second[] = {SUMS_SKIP, 0};
    int64_t want[2][KEYS] = {{0}};
    struct buf out = {0};
    struct budget b;
    struct sums s;
    struct sums_taken got;
    struct run run;

    budget_init(&b, BUDGET_DEFAULT_BYTES);
    CHECK(t, sums_init(&s, &b, KEYS, 1));
    add_random(&out, want, 3);
    struct bytes in = {(const uint8_t *)out.data, out.len};
    CHECK_INT(t, run_open(&in, &run), 0);
    CHECK(t, sums_add_run(&s, &run, second, 2));
    CHECK(t, sums_take(&s, &got));
    for (size_t i = 0; i < got.n; i++)
        CHECK_INT(t, got.values[i], want[1][got.keys[i]]);
    CHECK(t, got.n > 200);
    sums_taken_done(&b, &got);
    sums_done(&s);
    buf_done(&out);
}

static void refuses_keys_that_are_not_there(struct test *t)
{
    static const uint8_t straight[] = {0, 1};
    int64_t want[2][KEYS] = {{0}};
    struct buf out = {0};
    struct budget b;
    struct sums s;
    struct run run;

    budget_init(&b, BUDGET_DEFAULT_BYTES);
    CHECK(t, sums_init(&s, &b, 10, 2));
    add_random(&out, want, 3);
    struct bytes in = {(const uint8_t *)out.data, out.len};
    CHECK_INT(t, run_open(&in, &run), 0);
    CHECK(t, !sums_add_run(&s, &run, straight, 2));
    CHECK(t, !sums_add(&s, 10, 0, 1));
    CHECK(t, !sums_add(&s, 1, 2, 1));
    sums_done(&s);
    buf_done(&out);
}

static void fails_cleanly_when_the_budget_is_spent(struct test *t)
{
    struct budget b;
    struct sums s;
    struct sums_taken got;
    struct error err = {0};

    budget_init(&b, 100);
    CHECK(t, !sums_init(&s, &b, KEYS, 2));
    sums_done(&s);
    budget_init(&b, KEYS * 8 + 200);
    CHECK(t, sums_init(&s, &b, KEYS, 1));
    for (uint32_t k = 0; k < KEYS; k++)
        sums_add(&s, k, 0, 1);
    CHECK(t, !sums_take(&s, &got));
    CHECK_INT(t, budget_error(&b, &err), -ENOBUFS);
    CHECK(t, strstr(err.text, "limit") != NULL);
    CHECK_INT(t, s.cols[0][5], 0);
    sums_done(&s);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(adds_runs_up_however_many_rows_were_expected),
    TEST(leaves_out_columns_that_are_not_wanted),
    TEST(refuses_keys_that_are_not_there),
    TEST(fails_cleanly_when_the_budget_is_spent),
};
TEST_MAIN(cases)
