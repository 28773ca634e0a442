#include <errno.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "segment/run.h"

/* ---- data ---- */

#define ROWS_MAX 3000
#define COLS_MAX 4

struct rows {
    size_t n;
    unsigned n_cols;
    uint32_t keys[ROWS_MAX];
    int64_t values[COLS_MAX][ROWS_MAX];
};

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int64_t geometric(void)
{
    return 1 + __builtin_ctzll(draw() | (uint64_t)1 << 62);
}

/* Any number of bits, evenly. */
static uint64_t any_size(void)
{
    return draw() >> draw() % 64;
}

/* A Go CPU profile: half of 647 stacks, samples and nanoseconds. */
static void go_profile(struct rows *r, unsigned spread)
{
    uint64_t places = 7;
    uint32_t key = 1;

    *r = (struct rows){.n_cols = 2};
    for (unsigned i = 0; i < 647; i++) {
        places = places * 6364136223846793005u + 1442695040888963407u;
        key += 1 + (uint32_t)((places >> 33) % spread);
        if (draw() & 1)
            continue;
        r->keys[r->n] = key;
        r->values[0][r->n] = geometric();
        r->values[1][r->n] = r->values[0][r->n] * 10000000;
        r->n++;
    }
}

static void random_rows(struct rows *r)
{
    uint64_t key = draw() % 3 ? draw() % 100 : any_size() % UINT32_MAX;
    unsigned key_kind = (unsigned)(draw() % 5), kind[COLS_MAX];

    r->n = draw() % 4 ? draw() % 200 : draw() % ROWS_MAX;
    r->n_cols = 1 + (unsigned)(draw() % COLS_MAX);
    for (unsigned c = 0; c < r->n_cols; c++)
        kind[c] = (unsigned)(draw() % 7);
    for (size_t i = 0; i < r->n; i++) {
        r->keys[i] = (uint32_t)key;
        uint64_t step[] = {1, 1 + draw() % 3, (uint64_t)geometric(), 1 + any_size() % 100000,
                           draw() % 300 ? 1 : 100000};
        key += step[key_kind];
        for (unsigned c = 0; c < r->n_cols; c++) {
            int64_t before = c ? r->values[c - 1][i] : (int64_t)draw();
            int64_t v[] = {42,
                           geometric(),
                           (int64_t)any_size(),
                           (int64_t)draw(),
                           (int64_t)((uint64_t)before * 7919),
                           geometric() * -4096,
                           draw() % 500 ? 5 : INT64_MIN};
            r->values[c][i] = v[kind[c]];
        }
        if (key > UINT32_MAX)
            r->n = i + 1;
    }
}

static int encode(const struct rows *r, struct buf *out)
{
    const int64_t *values[COLS_MAX];

    for (unsigned c = 0; c < COLS_MAX; c++)
        values[c] = r->values[c];
    return run_encode(r->keys, values, r->n, r->n_cols, out);
}

/* ---- checks ---- */

static void check_same(struct test *t, const struct rows *want, const struct run *r)
{
    static uint32_t keys[ROWS_MAX];
    static int64_t values[ROWS_MAX];

    CHECK_INT(t, r->n, want->n);
    CHECK_INT(t, r->n_cols, want->n_cols);
    CHECK(t, run_keys(r, keys));
    CHECK(t, memcmp(keys, want->keys, want->n * sizeof(*keys)) == 0);
    for (unsigned c = 0; c < want->n_cols; c++) {
        uint64_t sum = 0;

        run_values(r, c, values);
        CHECK(t, memcmp(values, want->values[c], want->n * sizeof(*values)) == 0);
        for (size_t i = 0; i < want->n; i++)
            sum += (uint64_t)want->values[c][i];
        CHECK_INT(t, run_sum(r, c), (int64_t)sum);
    }
}

/* All readers, in memory that ends where the run does. */
static void check_round_trip(struct test *t, const struct rows *want)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct run r;

    CHECK_INT(t, encode(want, &out), 0);
    CLEANUP(freep) uint8_t *exact = malloc(out.len);
    memcpy(exact, out.data, out.len);
    struct bytes in = {exact, out.len};
    CHECK_INT(t, run_open(&in, &r), 0);
    CHECK_INT(t, in.len, 0);
    CHECK(t, r.encoded.data == exact && r.encoded.len == out.len);
    check_same(t, want, &r);
    /* With bytes behind it, as inside a block. */
    buf_add(&out, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
    in = buf_bytes(&out);
    CHECK_INT(t, run_open(&in, &r), 0);
    CHECK_INT(t, in.len, 16);
    check_same(t, want, &r);
}

static void every_value_survives(struct test *t)
{
    static struct rows r;

    for (unsigned i = 0; i < 2000; i++) {
        random_rows(&r);
        check_round_trip(t, &r);
    }
}

static void a_go_profile_takes_a_byte_per_sample(struct test *t)
{
    static struct rows r;
    CLEANUP(buf_done) struct buf out = {0};
    size_t n = 0;

    for (unsigned i = 0; i < 100; i++) {
        go_profile(&r, 4);
        CHECK_INT(t, encode(&r, &out), 0);
        n += r.n;
        check_round_trip(t, &r);
    }
    CHECK(t, out.len <= n);
    printf("# %.3f bytes per sample\n", (double)out.len / (double)n);
}

/* ---- adding up ---- */

#define KEYS_MAX 70000

static void small_keys(struct rows *r)
{
    do
        random_rows(r);
    while (r->n == 0 || r->keys[r->n - 1] >= KEYS_MAX);
}

static void open_rows(struct test *t, const struct rows *rows, struct buf *out, struct run *ret)
{
    buf_clear(out);
    CHECK_INT(t, encode(rows, out), 0);
    struct bytes in = buf_bytes(out);
    CHECK_INT(t, run_open(&in, ret), 0);
}

static void runs_add_up_as_plain_rows_do(struct test *t)
{
    static uint64_t want[COLS_MAX][KEYS_MAX];
    static int64_t one[KEYS_MAX], all[COLS_MAX][KEYS_MAX];
    static uint64_t want_marks[KEYS_MAX / 64 + 1], marks[2][KEYS_MAX / 64 + 1];
    int64_t *const sums[COLS_MAX] = {all[0], all[1], all[2], all[3]};
    static struct rows rows;
    CLEANUP(buf_done) struct buf out = {0};
    struct run r;

    for (unsigned round = 0; round < 200; round++) {
        small_keys(&rows);
        open_rows(t, &rows, &out, &r);
        for (size_t i = 0; i < rows.n; i++) {
            for (unsigned c = 0; c < rows.n_cols; c++)
                want[c][rows.keys[i]] += (uint64_t)rows.values[c][i];
            want_marks[rows.keys[i] / 64] |= (uint64_t)1 << rows.keys[i] % 64;
        }
        if (round % 2)
            CHECK(t, run_add(&r, 0, one, KEYS_MAX));
        else
            CHECK(t, run_add_marked(&r, 0, one, KEYS_MAX, marks[0]));
        CHECK(t, run_add_all(&r, sums, KEYS_MAX, marks[1]));
    }
    CHECK(t, memcmp(want[0], one, sizeof(one)) == 0);
    CHECK(t, memcmp(want, all, sizeof(all)) == 0);
    CHECK(t, memcmp(want_marks, marks[1], sizeof(want_marks)) == 0);
    for (size_t i = 0; i < ARRAY_SIZE(want_marks); i++)
        CHECK(t, (marks[0][i] & ~want_marks[i]) == 0);
}

/* Distances and values of up to so many bits, some of them rare; in memory that ends with the run.
 */
static void check_widths(struct test *t, unsigned key_bits, unsigned value_bits, size_t n)
{
    static struct rows rows;
    static int64_t sums[ROWS_MAX << 8], want[ROWS_MAX << 8];
    CLEANUP(buf_done) struct buf out = {0};
    uint32_t key = 0;
    bool is_rare = draw() & 1;
    struct run r;

    rows.n_cols = 1;
    rows.n = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t keep = is_rare && draw() % 40 ? 1 : UINT64_MAX;
        rows.keys[i] = key;
        rows.values[0][i] = (int64_t)(draw() & (((uint64_t)1 << value_bits) - 1) & keep);
        key += 1 + (uint32_t)(draw() & (((uint64_t)1 << key_bits) - 1) & keep);
    }
    CHECK_INT(t, encode(&rows, &out), 0);
    CLEANUP(freep) uint8_t *exact = malloc(out.len);
    memcpy(exact, out.data, out.len);
    struct bytes in = {exact, out.len};
    CHECK_INT(t, run_open(&in, &r), 0);
    for (size_t i = 0; i < n; i++)
        want[rows.keys[i]] += rows.values[0][i];
    CHECK(t, run_add(&r, 0, sums, rows.keys[n - 1] + (size_t)1));
    CHECK(t, memcmp(want, sums, (rows.keys[n - 1] + (size_t)1) * sizeof(*sums)) == 0);
}

static void runs_of_every_width_add_up(struct test *t)
{
    static const size_t counts[] = {1, 15, 16, 17, 511, 512, 513, 1100};

    for (unsigned key_bits = 0; key_bits <= 8; key_bits++)
        for (unsigned value_bits = 0; value_bits <= 18; value_bits++)
            for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
                check_widths(t, key_bits, value_bits, counts[i]);
}

static void columns_without_sums_are_skipped(struct test *t)
{
    static int64_t sums[1000];
    int64_t *const only_second[] = {NULL, sums};
    static struct rows rows;
    CLEANUP(buf_done) struct buf out = {0};
    struct run r;
    int64_t total = 0;

    go_profile(&rows, 1);
    open_rows(t, &rows, &out, &r);
    CHECK(t, run_add_all(&r, only_second, 1000, NULL));
    for (size_t i = 0; i < 1000; i++)
        total += sums[i];
    CHECK_INT(t, total, run_sum(&r, 1));
    CHECK(t, total > 0 && total == run_sum(&r, 0) * 10000000);
}

static void a_key_out_of_bounds_is_refused_and_touches_nothing(struct test *t)
{
    static struct rows rows;
    CLEANUP(buf_done) struct buf out = {0};
    struct run r;

    for (unsigned round = 0; round < 100; round++) {
        small_keys(&rows);
        open_rows(t, &rows, &out, &r);
        size_t n = rows.keys[rows.n - 1]; /* one too few */
        CLEANUP(freep) int64_t *sums = calloc(n + 1, sizeof(*sums));
        CLEANUP(freep) uint64_t *marks = calloc(n / 64 + 1, sizeof(*marks));
        int64_t *all[COLS_MAX] = {sums, sums, sums, sums};
        CHECK(t, !run_add(&r, 0, sums, n));
        CHECK(t, !run_add_marked(&r, 0, sums, n, marks));
        CHECK(t, !run_add_all(&r, all, n, marks));
        CHECK_INT(t, sums[n], 0);
        CHECK(t, run_add(&r, 0, sums, n + 1));
        CHECK_INT(t, sums[n], rows.values[0][rows.n - 1]);
    }
}

static void sums_can_be_masked(struct test *t)
{
    static uint64_t mask[KEYS_MAX / 64 + 1];
    static struct rows rows;
    CLEANUP(buf_done) struct buf out = {0};
    struct run r;

    for (size_t i = 0; i < ARRAY_SIZE(mask); i++)
        mask[i] = draw() & (draw() << 1); /* one bit in four */
    for (unsigned round = 0; round < 200; round++) {
        small_keys(&rows);
        open_rows(t, &rows, &out, &r);
        size_t n_bits = draw() % 3 ? KEYS_MAX : draw() % (rows.keys[rows.n - 1] + 1);
        uint64_t want = 0;
        int64_t got = 0;
        for (size_t i = 0; i < rows.n && rows.keys[i] < n_bits; i++)
            if (mask[rows.keys[i] / 64] >> rows.keys[i] % 64 & 1)
                want += (uint64_t)rows.values[0][i];
        CHECK(t, run_sum_masked(&r, 0, mask, n_bits, &got));
        CHECK_INT(t, got, (int64_t)want);
    }
}

/* ---- small, large, refused ---- */

static void small_runs_have_small_heads(struct test *t)
{
    static struct rows r = {.n = 10, .n_cols = 1};
    CLEANUP(buf_done) struct buf out = {0};

    for (unsigned i = 0; i < 10; i++) {
        r.keys[i] = 500 + i;
        r.values[0][i] = 3;
    }
    CHECK_INT(t, encode(&r, &out), 0);
    CHECK_INT(t, out.len, 8);
    r.values[0][4] = 4;
    buf_clear(&out);
    CHECK_INT(t, encode(&r, &out), 0);
    CHECK(t, out.len <= 11);
    r.n = 0;
    buf_clear(&out);
    CHECK_INT(t, encode(&r, &out), 0);
    CHECK_INT(t, out.len, 2);
    check_round_trip(t, &r);
}

static void an_empty_run_is_a_run(struct test *t)
{
    struct bytes in = BYTES("\x02\x00");
    int64_t sum = 7, *const none[2] = {NULL, NULL};
    uint32_t key;
    struct run r;

    CHECK_INT(t, run_open(&in, &r), 0);
    CHECK_INT(t, in.len, 0);
    CHECK_INT(t, r.n_cols, 2);
    CHECK(t, run_keys(&r, &key) && run_add(&r, 1, NULL, 0) && run_add_all(&r, none, 0, NULL));
    CHECK_INT(t, run_sum(&r, 1), 0);
    CHECK(t, run_sum_masked(&r, 1, NULL, 0, &sum));
    CHECK_INT(t, sum, 0);
    run_values(&r, 0, &sum);
}

static void rare_exceptions_are_bridged(struct test *t)
{
    static struct rows r;

    for (size_t gap = 200; gap < 1100; gap += 13) {
        r = (struct rows){.n = ROWS_MAX, .n_cols = 1};
        for (size_t i = 0; i < ROWS_MAX; i++) {
            r.keys[i] = (uint32_t)i * 2;
            r.values[0][i] = i % gap == gap - 1 ? INT64_MAX - (int64_t)i : 1;
        }
        check_round_trip(t, &r);
    }
}

static void every_width_survives(struct test *t)
{
    static struct rows r;

    for (unsigned width = 0; width <= 64; width++)
        for (size_t n = 1; n < 1100; n = n < 20 ? n + 1 : n * 2 - 7) {
            r = (struct rows){.n = n, .n_cols = 2};
            for (size_t i = 0; i < n; i++) {
                r.keys[i] = (uint32_t)(i * 3);
                uint64_t mask = width ? UINT64_MAX >> (64 - width) : 0;
                r.values[0][i] = (int64_t)(draw() & mask);
                r.values[1][i] = (int64_t)(draw() >> (draw() % 8 ? 63 : 64 - (width ? width : 1)));
            }
            check_round_trip(t, &r);
        }
}

static void wrong_arguments_are_refused(struct test *t)
{
    const uint32_t twice[] = {1, 2, 2}, down[] = {3, 2};
    const int64_t v[3] = {1, 2, 3}, *values[RUN_COLS_MAX + 1] = {v};
    CLEANUP(buf_done) struct buf out = {0};

    CHECK_INT(t, run_encode(twice, values, 3, 1, &out), -EINVAL);
    CHECK_INT(t, run_encode(down, values, 2, 1, &out), -EINVAL);
    CHECK_INT(t, run_encode(twice, values, 2, RUN_COLS_MAX + 1, &out), -EINVAL);
    CHECK_INT(t, out.len, 0);
}

static void more_rows_than_the_limit_are_refused(struct test *t)
{
    CLEANUP(freep) uint32_t *keys = malloc((RUN_ROWS_MAX + 1) * sizeof(*keys));
    CLEANUP(buf_done) struct buf out = {0};

    for (size_t i = 0; i <= RUN_ROWS_MAX; i++)
        keys[i] = (uint32_t)i;
    CHECK_INT(t, run_encode(keys, NULL, RUN_ROWS_MAX + 1, 0, &out), -E2BIG);
    CHECK_INT(t, out.len, 0);
}

static void a_spent_budget_leaves_whole_runs(struct test *t)
{
    static struct rows r;
    size_t n_fitted = 0;

    for (size_t limit = 0; limit < 12000; limit += 97) {
        struct budget b;
        struct run run;
        budget_init(&b, limit);
        struct buf out = {.budget = &b};
        int result = 0;
        for (unsigned i = 0; i < 4 && result == 0; i++) {
            go_profile(&r, 8);
            result = encode(&r, &out);
        }
        CHECK(t, result == 0 || result == -ENOBUFS);
        for (struct bytes in = buf_bytes(&out); in.len > 0; n_fitted++)
            if (run_open(&in, &run) < 0)
                break;
            else
                CHECK(t, run.n > 200);
        buf_done(&out);
        CHECK_INT(t, b.used, 0);
    }
    CHECK(t, n_fitted > 10);
}

/* Everything that can be done with a run, whatever is in it. */
static void use_all(const struct run *r)
{
    static int64_t sums[5000], values[ROWS_MAX];
    static uint64_t marks[5000 / 64 + 1];
    static uint32_t keys[ROWS_MAX];
    int64_t *all[RUN_COLS_MAX], sum;

    for (unsigned c = 0; c < RUN_COLS_MAX; c++)
        all[c] = sums;
    (void)run_add_all(r, all, 5000, marks);
    if (r->n <= ROWS_MAX)
        (void)run_keys(r, keys);
    for (unsigned c = 0; c < r->n_cols; c++) {
        (void)run_add(r, c, sums, 5000);
        (void)run_add_marked(r, c, sums, 5000, marks);
        (void)run_sum_masked(r, c, marks, 5000, &sum);
        (void)run_sum(r, c);
        if (r->n <= ROWS_MAX)
            run_values(r, c, values);
    }
}

static void every_truncation_is_refused(struct test *t)
{
    static struct rows rows;
    CLEANUP(buf_done) struct buf out = {0};
    struct run r;

    for (unsigned round = 0; round < 60; round++) {
        random_rows(&rows);
        buf_clear(&out);
        CHECK_INT(t, encode(&rows, &out), 0);
        for (size_t len = 0; len < out.len; len += out.len < 300 ? 1 : 1 + draw() % 97) {
            CLEANUP(freep) uint8_t *cut = malloc(len + 1);
            memcpy(cut, out.data, len);
            struct bytes in = {cut, len};
            CHECK_INT(t, run_open(&in, &r), -EBADMSG);
            CHECK(t, in.data == cut && in.len == len);
        }
    }
}

static void damage_is_refused_or_harmless(struct test *t)
{
    static struct rows rows;
    CLEANUP(buf_done) struct buf out = {0};
    size_t n_opened = 0;
    struct run r;

    for (unsigned round = 0; round < 2000; round++) {
        if (round % 20 == 0) {
            do
                random_rows(&rows);
            while (rows.n > 300 || rows.n == 0);
            buf_clear(&out);
            CHECK_INT(t, encode(&rows, &out), 0);
        }
        CLEANUP(freep) uint8_t *bad = malloc(out.len);
        memcpy(bad, out.data, out.len);
        size_t at = draw() % 2 ? draw() % out.len : draw() % (out.len < 12 ? out.len : 12);
        bad[at] = (uint8_t)(bad[at] ^ (1 + draw() % 255));
        struct bytes in = {bad, out.len};
        if (run_open(&in, &r) < 0)
            continue;
        n_opened++;
        use_all(&r);
    }
    CHECK(t, n_opened > 100);
}

static void heads_that_make_no_sense_are_refused(struct test *t)
{
    static const struct bytes bad[] = {
        BYTES("\x81\x01\x00"),                 /* 129 columns */
        BYTES("\x01\x81\x80\x80\x08\x00"),     /* more rows than the limit */
        BYTES("\x00\x01\xff\xff\xff\xff\x1f"), /* first key above 32 bits */
        BYTES("\x00\x01\x00\x62"),             /* layouts that do not exist */
        BYTES("\x00\x01\x00\x7f"),
        BYTES("\x00\x01\x00\x80\x00\x01"),             /* no exceptions where there should be */
        BYTES("\x00\x01\x00\x80\x02\x01"),             /* more exceptions than rows */
        BYTES("\x00\x01\x00\x80\x01\x00"),             /* exceptions of no bits */
        BYTES("\x00\x01\x00\xbf\x01\x02"),             /* 63 + 2 bits */
        BYTES("\x00\x01\x00\xff\x01\x01"),             /* 127 + 1 bits */
        BYTES("\x00\x01\x00\x42\x02\x01"),             /* unary cut short */
        BYTES("\x00\x01\x00\x41\x02\x01\x01"),         /* bytewise cut short */
        BYTES("\x00\x01\x00\x42\xff\xff\xff\xff\x7f"), /* longer than can be */
        BYTES("\x01\x01\x00\x00\x04\x02"),             /* a multiple of itself */
        BYTES("\x02\x01\x00\x00\x00\x00\x0c\x02"),     /* a multiple of a later column */
    };
    struct run r;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct bytes in = bad[i];
        CHECK_INT(t, run_open(&in, &r), -EBADMSG);
        CHECK(t, in.data == bad[i].data && in.len == bad[i].len);
    }
}

static void keys_that_overflow_are_refused_when_read(struct test *t)
{
    static const struct bytes bad[] = {
        BYTES("\x01\x02\xff\xff\xff\xff\x0f\x00\x00\x00"), /* the last key there is, and another */
        BYTES("\x01\x01\x00\x41\x08\x08\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00"),
    };
    int64_t sums[4] = {0}, *const all[1] = {sums}, sum = 5;
    uint64_t marks[1] = {0};
    uint32_t keys[2];
    struct run r;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct bytes in = bad[i];
        CHECK_INT(t, run_open(&in, &r), 0);
        CHECK(t, !run_keys(&r, keys));
        CHECK(t, !run_add(&r, 0, sums, 4));
        CHECK(t, !run_add_all(&r, all, 4, marks));
        CHECK(t, !run_sum_masked(&r, 0, marks, 4, &sum));
        CHECK_INT(t, sum, 5);
    }
}

static const struct test_case cases[] = {
    TEST(every_value_survives),
    TEST(a_go_profile_takes_a_byte_per_sample),
    TEST(runs_add_up_as_plain_rows_do),
    TEST(runs_of_every_width_add_up),
    TEST(columns_without_sums_are_skipped),
    TEST(a_key_out_of_bounds_is_refused_and_touches_nothing),
    TEST(sums_can_be_masked),
    TEST(small_runs_have_small_heads),
    TEST(an_empty_run_is_a_run),
    TEST(rare_exceptions_are_bridged),
    TEST(every_width_survives),
    TEST(wrong_arguments_are_refused),
    TEST(more_rows_than_the_limit_are_refused),
    TEST(a_spent_budget_leaves_whole_runs),
    TEST(every_truncation_is_refused),
    TEST(damage_is_refused_or_harmless),
    TEST(heads_that_make_no_sense_are_refused),
    TEST(keys_that_overflow_are_refused_when_read),
};
TEST_MAIN(cases)
