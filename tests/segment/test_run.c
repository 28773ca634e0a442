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

static const struct test_case cases[] = {
    TEST(every_value_survives),
    TEST(a_go_profile_takes_a_byte_per_sample),
};
TEST_MAIN(cases)
