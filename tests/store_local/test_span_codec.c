#include <errno.h>

#include "lib/test.h"
#include "store_local/span_codec.h"
#include "store_local/span_maker.h"

#define T0 INT64_C(1700000000000000000)

static int by_order(const void *a, const void *b)
{
    return span_compare(a, b);
}

/* Encodes, decodes and compares; *out has the bytes. */
static void check_round_trip(struct test *t, struct store_span *spans, size_t n, struct buf *out)
{
    struct budget b;
    struct arena arena;
    struct span_rows rows = {0};
    struct error err = {0};

    budget_init(&b, SIZE_MAX / 2);
    arena_init(&arena, &b);
    CHECK_INT(t, span_encode(spans, n, &b, out, &err), 0);
    CHECK_INT(t, b.used, 0);
    CHECK_INT(t, span_decode(buf_bytes(out), &arena, &rows, &err), 0);
    CHECK_STR(t, err.text, "");
    CHECK_INT(t, rows.n, n);
    qsort(spans, n, sizeof(*spans), by_order);
    size_t n_bad = 0;
    for (size_t i = 0; i < n && i < rows.n; i++)
        n_bad += !span_equal(&spans[i], &rows.spans[i]);
    CHECK_INT(t, n_bad, 0);
    arena_done(&arena);
}

static void gives_back_what_it_was_given_in_order(struct test *t)
{
    for (size_t n = 1; n <= 3000; n = n * 3 + 1) {
        CLEANUP(span_maker_done) struct span_maker m;
        CLEANUP(buf_done) struct buf out = {0};
        span_maker_init(&m, n, T0);
        span_maker_add(&m, n);
        check_round_trip(t, m.spans.data, n, &out);
    }
}

static void takes_thirty_bytes_a_span_beside_the_ids(struct test *t)
{
    CLEANUP(span_maker_done) struct span_maker m;
    CLEANUP(buf_done) struct buf out = {0};
    struct span_head head;
    const size_t n = 4096;

    span_maker_init(&m, 1, T0);
    span_maker_add(&m, n);
    check_round_trip(t, m.spans.data, n, &out);
    CHECK_INT(t, span_head(buf_bytes(&out), &head), 0);
    double ids = (double)head.n_traces * 16 + (double)n * 8;
    printf("# %.1f bytes a span, of which ids are %.1f\n", (double)out.len / (double)n,
           ids / (double)n);
    CHECK(t, ((double)out.len - ids) / (double)n <= 30);
}

static void keeps_odd_spans(struct test *t)
{
    struct label odd[] = {
        {BYTES("k"), BYTES("v")},
        {BYTES("k"), BYTES("w")},
        {BYTES(""), BYTES("")},
        {BYTES("a\0b"), BYTES("\xff")},
    };
    struct store_span spans[] = {
        {.start_ns = 0},
        {.start_ns = 0, .span_id = {1}, .parent_id = {1}}, /* its own parent */
        {.start_ns = INT64_MAX - 1, .duration_ns = 1, .kind = 255, .status = 255},
        {.start_ns = 5, .name = BYTES("x"), .attributes = odd, .n_attributes = 4},
        {.start_ns = 6, .name = BYTES("x"), .attributes = odd, .n_attributes = 1},
        {.start_ns = 7, .trace_id = {1}, .span_id = {2}, .parent_id = {3}}, /* child first */
        {.start_ns = 8, .trace_id = {1}, .span_id = {3}},
        {.start_ns = 9, .trace_id = {2}, .span_id = {4}, .parent_id = {3}}, /* another trace's */
        {.start_ns = 9, .trace_id = {1}, .span_id = {5}, .parent_id = {3}},
        {.start_ns = -5, .trace_id = {9}},
    };
    CLEANUP(buf_done) struct buf out = {0};

    check_round_trip(t, spans, ARRAY_SIZE(spans), &out);
    spans[0].duration_ns = INT64_MAX - 1;
    buf_clear(&out);
    check_round_trip(t, spans, 1, &out);
}

static void tells_ids_without_unpacking(struct test *t)
{
    CLEANUP(span_maker_done) struct span_maker m;
    CLEANUP(buf_done) struct buf out = {0};
    struct span_head head;
    static const uint8_t none[16] = {1};

    span_maker_init(&m, 7, T0);
    span_maker_add(&m, 100);
    check_round_trip(t, m.spans.data, 100, &out);
    CHECK_INT(t, span_head(buf_bytes(&out), &head), 0);
    CHECK_INT(t, head.n, 100);
    CHECK_INT(t, head.min_ns, m.spans.data[0].start_ns);
    CHECK_INT(t, head.max_ns, m.spans.data[99].start_ns);
    for (size_t i = 0; i < 100; i++) {
        CHECK(t, span_head_has_trace(&head, m.spans.data[i].trace_id));
        CHECK(t, span_head_has_span(&head, m.spans.data[i].span_id));
    }
    CHECK(t, !span_head_has_trace(&head, none));
    CHECK(t, !span_head_has_span(&head, none));
}

static void refuses_no_spans_and_too_many(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct budget b;
    struct error err = {0};

    budget_init(&b, SIZE_MAX / 2);
    CHECK_INT(t, span_encode(NULL, 0, &b, &out, &err), -EINVAL);
    CHECK_STR(t, err.text, "a batch of spans has 0 of them, not 1 to 65536");
    CHECK_INT(t, span_encode(NULL, SPAN_BATCH_MAX + 1, &b, &out, &err), -EINVAL);
}

/* Any change: an error with words, or other spans; never a crash. The sanitizers watch. */
static void survives_any_damage(struct test *t)
{
    CLEANUP(span_maker_done) struct span_maker m;
    CLEANUP(buf_done) struct buf out = {0}, bad = {0};
    struct random random;

    random_init(&random, 3);
    span_maker_init(&m, 2, T0);
    span_maker_add(&m, 40);
    check_round_trip(t, m.spans.data, 40, &out);
    for (size_t i = 0; i < 4000; i++) {
        struct budget b;
        struct arena arena;
        struct span_rows rows;
        struct error err = {0};
        struct span_head head;
        buf_clear(&bad);
        buf_add_bytes(&bad, bytes_head(buf_bytes(&out), i < out.len ? i : out.len));
        for (size_t k = 0; i >= out.len && k < 1 + i % 3; k++)
            bad.data[random_below(&random, bad.len)] ^= (uint8_t)(1u << random_below(&random, 8));
        budget_init(&b, 1 << 20);
        arena_init(&arena, &b);
        int r = span_decode(buf_bytes(&bad), &arena, &rows, &err);
        CHECK(t, r == 0 || ((r == -EBADMSG || r == -ENOBUFS) && err.text[0]));
        CHECK(t, i >= out.len || r < 0);
        span_head(buf_bytes(&bad), &head);
        arena_done(&arena);
    }
}

static void survives_running_out_of_memory_anywhere(struct test *t)
{
    CLEANUP(span_maker_done) struct span_maker m;
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {0};
    struct budget b;
    int r = -ENOBUFS;

    span_maker_init(&m, 2, T0);
    span_maker_add(&m, 20);
    for (size_t limit = 0; r == -ENOBUFS && limit < 1 << 20; limit += 97) {
        budget_init(&b, limit);
        buf_clear(&out);
        r = span_encode(m.spans.data, 20, &b, &out, &err);
        CHECK_INT(t, b.used, 0);
        CHECK(t, r == 0 || err.text[0]);
    }
    CHECK_INT(t, r, 0);
    r = -ENOBUFS;
    for (size_t limit = 0; r == -ENOBUFS && limit < 1 << 20; limit += 97) {
        struct arena arena;
        struct span_rows rows;
        budget_init(&b, limit);
        arena_init(&arena, &b);
        r = span_decode(buf_bytes(&out), &arena, &rows, &err);
        arena_done(&arena);
    }
    CHECK_INT(t, r, 0);
}

static const struct test_case cases[] = {
    TEST(gives_back_what_it_was_given_in_order),
    TEST(takes_thirty_bytes_a_span_beside_the_ids),
    TEST(keeps_odd_spans),
    TEST(tells_ids_without_unpacking),
    TEST(refuses_no_spans_and_too_many),
    TEST(survives_any_damage),
    TEST(survives_running_out_of_memory_anywhere),
};
TEST_MAIN(cases)
