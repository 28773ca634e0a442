#include "lib/test.h"
#include "store_local/cover.h"

#define S   ((int64_t)1000000000)
#define MIN (60 * S)
#define H   (3600 * S)
#define D   (24 * H)

#define ALL_LEVELS ((1u << COVER_LEVELS) - 1)
#define STACKS     (1u << COVER_MINUTE | 1u << COVER_HOUR | 1u << COVER_DAY)

static uint64_t state = 88172645463325252u;

static uint64_t rnd(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void check_piece(struct test *t, const struct cover_piece *p, enum cover_level level,
                        int64_t from, int64_t to)
{
    CHECK_INT(t, p->level, level);
    CHECK_INT(t, p->from_ns, from);
    CHECK_INT(t, p->to_ns, to);
}

static void takes_the_widest_buckets_that_fit_and_rows_for_the_rest(struct test *t)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover_ask ask = {.levels = STACKS,
                            .from_ns = 22 * H + 30 * S,
                            .to_ns = 3 * D + 61 * MIN + 5 * S,
                            .min_ns = INT64_MIN,
                            .max_ns = INT64_MAX};

    CHECK_INT(t, cover(&ask, p), 7);
    check_piece(t, &p[0], COVER_RAW, 22 * H + 30 * S, 22 * H + MIN);
    check_piece(t, &p[1], COVER_MINUTE, 22 * H + MIN, 23 * H);
    check_piece(t, &p[2], COVER_HOUR, 23 * H, D);
    check_piece(t, &p[3], COVER_DAY, D, 3 * D);
    check_piece(t, &p[4], COVER_HOUR, 3 * D, 3 * D + H);
    check_piece(t, &p[5], COVER_MINUTE, 3 * D + H, 3 * D + 61 * MIN);
    check_piece(t, &p[6], COVER_RAW, 3 * D + 61 * MIN, 3 * D + 61 * MIN + 5 * S);
}

static void prefers_function_sums_of_the_same_width(struct test *t)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover_ask ask = {.levels = ALL_LEVELS, .from_ns = 0, .to_ns = D + H, .max_ns = 9 * D};

    CHECK_INT(t, cover(&ask, p), 2);
    check_piece(t, &p[0], COVER_FUNCTIONS_DAY, 0, D);
    check_piece(t, &p[1], COVER_FUNCTIONS_HOUR, D, D + H);
}

static void reads_no_raw_rows_where_the_range_goes_beyond_the_data(struct test *t)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover_ask ask = {.levels = STACKS,
                            .from_ns = 5,
                            .to_ns = 7 * D + 1,
                            .min_ns = D + 77,
                            .max_ns = D + 5 * H + 3};

    CHECK_INT(t, cover(&ask, p), 1);
    check_piece(t, &p[0], COVER_DAY, D, 2 * D);
}

static void keeps_steps_apart(struct test *t)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover_ask ask = {.levels = STACKS, .to_ns = 2 * D, .step_ns = 15 * MIN, .max_ns = 3 * D};

    CHECK_INT(t, cover(&ask, p), 1);
    check_piece(t, &p[0], COVER_MINUTE, 0, 2 * D);
    ask.step_ns = 90 * S;
    CHECK_INT(t, cover(&ask, p), 1);
    check_piece(t, &p[0], COVER_RAW, 0, 2 * D);
}

static void finds_nothing_where_there_is_nothing(struct test *t)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover_ask ask = {
        .levels = STACKS, .from_ns = 10, .to_ns = 20, .min_ns = 20, .max_ns = 30};

    CHECK_INT(t, cover(&ask, p), 0);
    ask.min_ns = 0, ask.max_ns = 9;
    CHECK_INT(t, cover(&ask, p), 0);
    ask.max_ns = 30, ask.to_ns = 10;
    CHECK_INT(t, cover(&ask, p), 0);
    ask.to_ns = 20, ask.min_ns = 31;
    CHECK_INT(t, cover(&ask, p), 0);
}

static void holds_at_the_ends_of_time(struct test *t)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover_ask ask = {.levels = ALL_LEVELS,
                            .from_ns = INT64_MIN,
                            .to_ns = INT64_MAX,
                            .min_ns = INT64_MIN,
                            .max_ns = INT64_MAX};
    size_t n = cover(&ask, p);

    CHECK(t, n > 0);
    CHECK_INT(t, p[0].from_ns, INT64_MIN);
    CHECK_INT(t, p[n - 1].to_ns, INT64_MAX);
    CHECK_INT(t, cover_floor(INT64_MIN, D), INT64_MIN);
    CHECK_INT(t, cover_ceil(INT64_MAX, D), INT64_MAX);
    CHECK_INT(t, cover_floor(-1, D), -D);
    CHECK_INT(t, cover_ceil(-1, D), 0);
}

/* The oracle: rows, and for each level its buckets as the sums of them. */
#define ROWS 200
static int64_t starts[ROWS];

static int64_t any_time(void)
{
    static const int64_t units[] = {1, S, MIN, H, D};
    int64_t unit = units[rnd(5)];
    return (int64_t)rnd((uint64_t)(4 * D / unit)) * unit - D;
}

/* How often a row is counted by the pieces: raw by its start, else by its bucket's. */
static int times_counted(int64_t start, const struct cover_piece *p, size_t n, int64_t *ret_bucket)
{
    int count = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t width = cover_width_ns[p[i].level];
        int64_t at = width ? cover_floor(start, width) : start;
        if (at >= p[i].from_ns && at < p[i].to_ns) {
            count++;
            *ret_bucket = at;
        }
    }
    return count;
}

static void counts_every_row_exactly_once(struct test *t)
{
    static const int64_t steps[] = {0, 0, S, 30 * S, MIN, 7 * MIN, 90 * MIN, H, 5 * H, D};

    for (int round = 0; round < 4000 && t->failures == 0; round++) {
        struct cover_ask ask = {.levels = (uint32_t)rnd(1u << COVER_LEVELS),
                                .from_ns = any_time(),
                                .to_ns = any_time(),
                                .step_ns = steps[rnd(10)],
                                .min_ns = INT64_MAX,
                                .max_ns = INT64_MIN};
        int n_rows = (int)rnd(ROWS);
        struct cover_piece p[COVER_PIECES_MAX];

        for (int i = 0; i < n_rows; i++) {
            starts[i] = any_time();
            ask.min_ns = starts[i] < ask.min_ns ? starts[i] : ask.min_ns;
            ask.max_ns = starts[i] > ask.max_ns ? starts[i] : ask.max_ns;
        }
        size_t n = cover(&ask, p);
        CHECK(t, n <= COVER_PIECES_MAX);
        for (int i = 0; i < n_rows; i++) {
            int64_t at = starts[i];
            int want = starts[i] >= ask.from_ns && starts[i] < ask.to_ns;
            CHECK_INT(t, times_counted(starts[i], p, n, &at), want);
            if (ask.step_ns > 0 && want)
                CHECK_INT(t, cover_floor(at, ask.step_ns), cover_floor(starts[i], ask.step_ns));
        }
        for (size_t i = 0; i < n; i++)
            CHECK(t, p[i].level == COVER_RAW || (ask.levels >> p[i].level & 1));
    }
}

static void takes_times_out_of_a_set_of_ranges(struct test *t)
{
    for (int round = 0; round < 2000 && t->failures == 0; round++) {
        struct cover_range r[24] = {{0, 60}};
        bool in[60];
        size_t n = 1;

        memset(in, true, sizeof(in));
        for (int k = 0; k < 8; k++) {
            int64_t from = (int64_t)rnd(60), to = from + (int64_t)rnd(15) - 2;
            n = cover_cut(r, n, from, to);
            for (int64_t i = from; i < to && i < 60; i++)
                in[i] = false;
        }
        bool got[60] = {false};
        for (size_t i = 0; i < n; i++) {
            CHECK(t, r[i].from_ns < r[i].to_ns && (i == 0 || r[i - 1].to_ns <= r[i].from_ns));
            for (int64_t j = r[i].from_ns; j < r[i].to_ns; j++)
                got[j] = true;
        }
        CHECK(t, memcmp(in, got, sizeof(in)) == 0);
    }
}

static const struct test_case cases[] = {
    TEST(takes_the_widest_buckets_that_fit_and_rows_for_the_rest),
    TEST(prefers_function_sums_of_the_same_width),
    TEST(reads_no_raw_rows_where_the_range_goes_beyond_the_data),
    TEST(keeps_steps_apart),
    TEST(finds_nothing_where_there_is_nothing),
    TEST(holds_at_the_ends_of_time),
    TEST(counts_every_row_exactly_once),
    TEST(takes_times_out_of_a_set_of_ranges),
};
TEST_MAIN(cases)
