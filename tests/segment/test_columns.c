#include <errno.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "segment/columns.h"

#define N_MAX 2000

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Round trip, every truncation, and how many bytes it took. */
static size_t check_u64(struct test *t, const uint64_t *values, size_t n)
{
    static uint64_t again[N_MAX];
    CLEANUP(buf_done) struct buf out = {0};

    column_encode_u64(values, n, &out);
    CLEANUP(freep) uint8_t *exact = malloc(out.len + 1);
    if (out.len)
        memcpy(exact, out.data, out.len);
    struct bytes in = {exact, out.len};
    CHECK_INT(t, column_decode_u64(&in, n, again), 0);
    CHECK_INT(t, in.len, 0);
    CHECK(t, memcmp(values, again, n * sizeof(*values)) == 0);
    for (size_t len = 0; len < out.len; len += 1 + out.len / 50) {
        CLEANUP(freep) uint8_t *cut = malloc(len + 1);
        memcpy(cut, exact, len);
        in = (struct bytes){cut, len};
        CHECK_INT(t, column_decode_u64(&in, n, again), -EBADMSG);
        CHECK(t, in.data == cut && in.len == len);
    }
    return out.len;
}

static void integers_of_any_kind_survive(struct test *t)
{
    static uint64_t v[N_MAX];

    for (unsigned round = 0; round < 600; round++) {
        size_t n = draw() % 5 ? draw() % 60 : draw() % N_MAX;
        uint64_t at = draw(), step = draw() >> draw() % 64;
        for (size_t i = 0; i < n; i++) {
            uint64_t kinds[] = {draw(),
                                draw() >> draw() % 64,
                                at,
                                at + i * step,
                                at + i * step + draw() % 1000,
                                i % 2 ? INT64_MAX : (uint64_t)INT64_MIN,
                                at + i * i * step};
            v[i] = kinds[round % 7];
        }
        check_u64(t, v, n);
    }
}

static void even_steps_cost_almost_nothing(struct test *t)
{
    static uint64_t v[1000];

    for (size_t i = 0; i < 1000; i++)
        v[i] = 1700000000000000000u + i * 10000000000u;
    CHECK(t, check_u64(t, v, 1000) <= 20);
    for (size_t i = 0; i < 1000; i++)
        v[i] = 7;
    CHECK_INT(t, check_u64(t, v, 1000), 3);
    for (size_t i = 0; i < 1000; i++)
        v[i] = 1700000000000000000u + i * 10000000000u + draw() % 1024 * 1000000;
    CHECK(t, check_u64(t, v, 1000) <= 1450);
    CHECK_INT(t, check_u64(t, v, 0), 0);
}

static void signed_numbers_survive(struct test *t)
{
    const int64_t v[] = {-1, 1, 0, -1, 1, INT64_MIN, INT64_MAX};
    int64_t again[7];
    CLEANUP(buf_done) struct buf out = {0};

    column_encode_i64(v, 5, &out);
    CHECK(t, out.len <= 5);
    buf_clear(&out);
    column_encode_i64(v, 7, &out);
    struct bytes in = buf_bytes(&out);
    CHECK_INT(t, column_decode_i64(&in, 7, again), 0);
    CHECK(t, memcmp(v, again, sizeof(v)) == 0);
}

static void headers_that_make_no_sense_are_refused(struct test *t)
{
    static const struct bytes bad[] = {
        BYTES("\x0c\x00\x00\x00\x00"),                 /* third differences */
        BYTES("\x08\x00"),                             /* two first values, one there */
        BYTES("\x01"),                                 /* no base */
        BYTES("\x02\xff\xff\xff\xff\xff\xff\xff\xff"), /* factor cut */
        BYTES("\x00\x62"),                             /* layout that does not exist */
    };
    uint64_t v[3];

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct bytes in = bad[i];
        CHECK_INT(t, column_decode_u64(&in, 3, v), -EBADMSG);
        CHECK(t, bytes_equal(in, bad[i]));
    }
    struct bytes in = BYTES("\x08\x02\x02\x00");
    CHECK_INT(t, column_decode_u64(&in, 1, v), -EBADMSG); /* more differences than values */
}

static void ids_are_kept_as_they_are(struct test *t)
{
    uint8_t ids[50][16], again[50][16];
    CLEANUP(buf_done) struct buf out = {0};

    for (size_t i = 0; i < sizeof(ids); i++)
        ids[i / 16][i % 16] = (uint8_t)draw();
    column_encode_fixed(ids, 16, 50, &out);
    CHECK_INT(t, out.len, 1 + sizeof(ids));
    struct bytes in = buf_bytes(&out), cut = bytes_head(in, out.len - 1);
    CHECK_INT(t, column_decode_fixed(&cut, 16, 50, again), -EBADMSG);
    CHECK_INT(t, column_decode_fixed(&in, 16, 50, again), 0);
    CHECK(t, in.len == 0 && memcmp(ids, again, sizeof(ids)) == 0);
    memset(ids, 0, sizeof(ids));
    buf_clear(&out);
    column_encode_fixed(ids, 16, 50, &out);
    CHECK_INT(t, out.len, 17);
    in = buf_bytes(&out);
    CHECK_INT(t, column_decode_fixed(&in, 16, 50, again), 0);
    CHECK(t, in.len == 0 && memcmp(ids, again, sizeof(ids)) == 0);
    buf_clear(&out);
    column_encode_fixed(ids, 16, 0, &out);
    CHECK_INT(t, out.len, 0);
    CHECK_INT(t, column_decode_fixed(&in, 16, 0, again), 0);
    in = BYTES("\x02");
    CHECK_INT(t, column_decode_fixed(&in, 1, 1, again), -EBADMSG);
    in = BYTES("");
    CHECK_INT(t, column_decode_fixed(&in, 1, 1, again), -EBADMSG);
    in = BYTES("\x00");
    CHECK_INT(t, column_decode_fixed(&in, 16, SIZE_MAX / 8, again), -EBADMSG);
}

static void strings_borrow_from_the_block(struct test *t)
{
    struct bytes strings[300], again[300];
    CLEANUP(buf_done) struct buf out = {0};
    static const char text[] = "GET /api/v1/checkout/of/some/length";

    for (size_t i = 0; i < 300; i++)
        strings[i] = (struct bytes){(const uint8_t *)text + i % 4, draw() % 20};
    for (size_t n = 0; n <= 300; n += n < 5 ? 1 : 59) {
        buf_clear(&out);
        column_encode_strings(strings, n, &out);
        struct bytes in = buf_bytes(&out);
        CHECK_INT(t, column_decode_strings(&in, n, again), 0);
        CHECK_INT(t, in.len, 0);
        for (size_t i = 0; i < n; i++)
            CHECK(t, bytes_equal(strings[i], again[i]));
        for (size_t len = 0; len < out.len; len++) {
            in = bytes_head(buf_bytes(&out), len);
            CHECK_INT(t, column_decode_strings(&in, n, again), -EBADMSG);
            CHECK_INT(t, in.len, len);
        }
    }
}

static void a_spent_budget_leaves_the_output_full(struct test *t)
{
    static uint64_t v[500];
    struct bytes strings[100] = {{0}};

    for (size_t i = 0; i < 500; i++)
        v[i] = draw();
    for (size_t limit = 0; limit < 30000; limit += 500) {
        struct budget b;
        budget_init(&b, limit);
        struct buf out = {.budget = &b};
        column_encode_u64(v, 500, &out);
        struct bytes in = buf_bytes(&out);
        static uint64_t again[500];
        CHECK(t, buf_full(&out) || column_decode_u64(&in, 500, again) == 0);
        buf_done(&out);
        out = (struct buf){.budget = &b};
        column_encode_strings(strings, 100, &out);
        CHECK(t, limit >= 5000 ? !buf_full(&out) : limit > 0 || buf_full(&out));
        buf_done(&out);
        CHECK_INT(t, b.used, 0);
    }
}

static const struct test_case cases[] = {
    TEST(integers_of_any_kind_survive),
    TEST(even_steps_cost_almost_nothing),
    TEST(signed_numbers_survive),
    TEST(headers_that_make_no_sense_are_refused),
    TEST(ids_are_kept_as_they_are),
    TEST(strings_borrow_from_the_block),
    TEST(a_spent_budget_leaves_the_output_full),
};
TEST_MAIN(cases)
