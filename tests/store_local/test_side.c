#include <errno.h>

#include "lib/test.h"
#include "store_local/side.h"

#define START_NS ((int64_t)1700000000 * 1000000000)

static struct side_row rows[] = {
    {.node = 3, .attrs = 1, .time_ns = (uint64_t)START_NS + 5, .link = {{1}, {2}}},
    {.node = 9, .attrs = 0, .time_ns = 0, .link = {{1}, {3}}},
    {.node = 4, .attrs = 2, .time_ns = (uint64_t)START_NS - 7},
    {.node = UINT32_MAX, .attrs = UINT32_MAX, .time_ns = UINT64_MAX, .link = {{7}, {0}}},
};
static int64_t values[] = {1, -2, INT64_MAX, INT64_MIN, 5, 6, 7, 8};
static const struct side_rows all = {rows, values, 4, 2};

static void comes_back_as_it_was(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct budget b;
    struct side_vecs vecs = {0};
    struct side_rows got;

    budget_init(&b, 1 << 20);
    side_encode(&all, START_NS, &out);
    CHECK_INT(t, side_count(buf_bytes(&out)), 4);
    CHECK_INT(t, side_decode(buf_bytes(&out), START_NS, 2, &b, &vecs, &got), 0);
    CHECK_INT(t, got.n, 4);
    CHECK_INT(t, got.n_values, 2);
    for (size_t i = 0; i < 4; i++)
        CHECK(t, got.rows[i].node == rows[i].node && got.rows[i].attrs == rows[i].attrs &&
                     got.rows[i].time_ns == rows[i].time_ns &&
                     memcmp(&got.rows[i].link, &rows[i].link, sizeof(struct link)) == 0);
    CHECK(t, memcmp(got.values, values, sizeof(values)) == 0);
    side_vecs_done(&b, &vecs);
    CHECK_INT(t, b.used, 0);
}

static void columns_that_nobody_needs_are_left_out(struct test *t)
{
    CLEANUP(buf_done) struct buf links = {0};
    CLEANUP(buf_done) struct buf times = {0};
    struct side_row row = {.node = 1, .link = {{1}, {2}}}, timed = {.node = 1, .time_ns = 5};
    int64_t value = 1;

    side_encode(&(struct side_rows){&row, &value, 1, 1}, 0, &links);
    side_encode(&(struct side_rows){&timed, &value, 1, 1}, 0, &times);
    CHECK_INT(t, links.len, 3 + 1 + 16 + 9 + 3);
    CHECK_INT(t, times.len, 3 + 1 + 3);
    CHECK(t, !side_has_trace(buf_bytes(&times), row.link.trace_id));
}

static void traces_are_found_without_reading_rows(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    uint8_t other[16] = {9};

    side_encode(&all, START_NS, &out);
    CHECK(t, side_has_trace(buf_bytes(&out), rows[0].link.trace_id));
    CHECK(t, side_has_trace(buf_bytes(&out), rows[3].link.trace_id));
    CHECK(t, !side_has_trace(buf_bytes(&out), other));
    CHECK(t, !side_has_trace((struct bytes){0}, other));
    CHECK_INT(t, side_count((struct bytes){0}), 0);
    CHECK_INT(t, side_traces(bytes_head(buf_bytes(&out), 9), NULL, NULL), -EBADMSG);
}

static void many_traces_survive(struct test *t)
{
    enum { N = 300 };
    static struct side_row many[N];
    static int64_t ones[N];
    CLEANUP(buf_done) struct buf out = {0};
    struct budget b;
    struct side_vecs vecs = {0};
    struct side_rows got;

    budget_init(&b, 1 << 20);
    for (size_t i = 0; i < N; i++)
        many[i] = (struct side_row){.node = 1, .link = {{1, (uint8_t)(i % 150)}, {(uint8_t)i, 1}}};
    side_encode(&(struct side_rows){many, ones, N, 1}, 0, &out);
    CHECK_INT(t, side_decode(buf_bytes(&out), 0, 1, &b, &vecs, &got), 0);
    for (size_t i = 0; i < N; i++)
        CHECK(t, memcmp(&got.rows[i].link, &many[i].link, sizeof(struct link)) == 0);
    side_vecs_done(&b, &vecs);
}

static void damage_is_refused(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct budget b;
    struct side_vecs vecs = {0};
    struct side_rows got;

    side_encode(&all, START_NS, &out);
    budget_init(&b, 1 << 20);
    CHECK_INT(t, side_decode(buf_bytes(&out), START_NS, 3, &b, &vecs, &got), -EBADMSG);
    for (size_t n = 0; n < out.len; n++) {
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, out.data, n);
        CHECK_INT(t, side_decode((struct bytes){cut, n}, START_NS, 2, &b, &vecs, &got), -EBADMSG);
        free(cut);
    }
    for (size_t n = 0; n < out.len; n++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            out.data[n] ^= (uint8_t)(1u << bit);
            int r = side_decode(buf_bytes(&out), START_NS, 2, &b, &vecs, &got);
            CHECK(t, r == 0 || r == -EBADMSG);
            out.data[n] ^= (uint8_t)(1u << bit);
        }
    }
    side_vecs_done(&b, &vecs);
    budget_init(&b, 10);
    CHECK_INT(t, side_decode(buf_bytes(&out), START_NS, 2, &b, &vecs, &got), -ENOBUFS);
    side_vecs_done(&b, &vecs);
}

static const struct test_case cases[] = {
    TEST(comes_back_as_it_was),
    TEST(columns_that_nobody_needs_are_left_out),
    TEST(traces_are_found_without_reading_rows),
    TEST(many_traces_survive),
    TEST(damage_is_refused),
};
TEST_MAIN(cases)
