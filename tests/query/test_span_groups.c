#include "lib/test.h"
#include "query/span_groups.h"

static struct store_span span(const char *service, const char *name, int64_t start, int64_t ns)
{
    return (struct store_span){.service = bytes_of(service),
                               .name = bytes_of(name),
                               .span_id = {(uint8_t)start},
                               .start_ns = start,
                               .duration_ns = ns};
}

static void groups_by_service_and_name(struct test *t)
{
    struct budget b;
    struct span_groups g;
    budget_init(&b, 1 << 22);
    span_groups_init(&g, &b, 100);

    struct store_span spans[] = {span("shop", "GET /", 1, 100), span("shop", "GET /", 3, 300),
                                 span("shop", "GET /", 2, 200), span("till", "GET /", 4, 5000),
                                 span("shop", "pay", 5, -7)};
    spans[1].status = 2;
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++)
        CHECK(t, span_groups_add(&g, &spans[i], (int64_t)i));
    span_groups_rank(&g, SPANS_BY_COUNT);
    CHECK_INT(t, g.groups.len, 3);
    CHECK_INT(t, g.n_spans, 5);
    const struct span_group *first = &g.groups.data[0];
    CHECK(t, bytes_are(first->service, "shop") && bytes_are(first->name, "GET /"));
    CHECK_INT(t, first->count, 3);
    CHECK_INT(t, first->errors, 1);
    CHECK_INT(t, first->total_ns, 600);
    CHECK_INT(t, first->p50_ns, 200);
    CHECK_INT(t, first->p99_ns, 300);
    CHECK_INT(t, first->value, 3);
    CHECK_INT(t, first->newest.span_id[0], 3);
    CHECK_INT(t, first->slowest.duration_ns, 300);
    span_groups_rank(&g, SPANS_BY_P99);
    CHECK(t, bytes_are(g.groups.data[0].service, "till"));
    CHECK(t, bytes_are(g.groups.data[2].name, "pay"));
    span_groups_done(&g);
    CHECK_INT(t, b.used, 0);
}

static void percentiles_of_many_are_close(struct test *t)
{
    struct budget b;
    struct span_groups g;
    budget_init(&b, 1 << 20);
    span_groups_init(&g, &b, 1);

    for (int64_t i = 1; i <= 100000; i++) {
        struct store_span s = span("shop", "x", i, i * 1000);
        CHECK(t, span_groups_add(&g, &s, 0));
    }
    struct store_span other = span("shop", "y", 1, 1);
    CHECK(t, span_groups_add(&g, &other, 0));
    CHECK_INT(t, g.n_left_out, 1);
    span_groups_rank(&g, SPANS_BY_TOTAL);
    CHECK_INT(t, g.groups.len, 1);
    const struct span_group *x = &g.groups.data[0];
    CHECK(t, x->p50_ns > 47000000 && x->p50_ns < 53000000);
    CHECK(t, x->p95_ns > 89300000 && x->p95_ns < 100000000);
    CHECK(t, x->p99_ns > 93000000 && x->p99_ns <= 100000000);
    CHECK_INT(t, x->slowest.duration_ns, 100000000);
    span_groups_done(&g);
    CHECK_INT(t, b.used, 0);
}

static void the_longest_and_the_budget(struct test *t)
{
    struct budget b;
    struct span_groups g;
    budget_init(&b, 1 << 16);
    span_groups_init(&g, &b, 1000000);

    struct store_span s = span("a", "b", 1, INT64_MAX);
    CHECK(t, span_groups_add(&g, &s, INT64_MAX) && span_groups_add(&g, &s, 1));
    span_groups_rank(&g, SPANS_BY_VALUE);
    CHECK_INT(t, g.groups.data[0].p50_ns, INT64_MAX);
    CHECK_INT(t, g.groups.data[0].total_ns, INT64_MAX);
    char name[32];
    bool has_room = true;
    for (int i = 0; has_room && i < 100000; i++) {
        snprintf(name, sizeof(name), "span %d", i);
        s = span("a", name, 1, i);
        has_room = span_groups_add(&g, &s, 0);
    }
    CHECK(t, !has_room && budget_failed(&b));
    span_groups_done(&g);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(groups_by_service_and_name),
    TEST(percentiles_of_many_are_close),
    TEST(the_longest_and_the_budget),
};
TEST_MAIN(cases)
