#include <errno.h>

#include "base/cleanup.h"
#include "catalog/catalog.h"
#include "lib/set_clock.h"
#include "lib/test.h"
#include "server/tenant_limits.h"

#define SECOND_NS ((int64_t)1000000000)
#define A         BYTES("acme")
#define B         BYTES("beta")

struct world {
    struct server_config config;
    struct set_clock clock;
    struct tenant_limits *l;
    int64_t retry_ms;
    struct error err;
};

static void world_done(struct world *w)
{
    tenant_limits_free(w->l);
}

static void world_init(struct world *w, const struct server_config *config)
{
    *w = (struct world){.config = *config};
    set_clock_init(&w->clock, 1);
    w->l = tenant_limits_new(&w->config, &w->clock.clock);
}

#define WORLD(w, ...)                                                                              \
    CLEANUP(world_done) struct world w;                                                            \
    world_init(&w, &(struct server_config){__VA_ARGS__})

static int take(struct world *w, struct bytes tenant, uint64_t bytes, uint64_t profiles)
{
    w->retry_ms = 0;
    return limits_take_ingest(w->l, tenant, bytes, profiles, &w->retry_ms, &w->err);
}

static void without_limits_everything_passes(struct test *t)
{
    WORLD(w, .data_dir = "");

    for (int i = 0; i < 100; i++)
        CHECK_INT(t, take(&w, A, UINT64_MAX, UINT64_MAX), 0);
    for (int i = 0; i < 100; i++)
        CHECK_INT(t, limits_begin_query(w.l, A, &w.err), 0);
}

static void ten_seconds_worth_may_come_at_once_and_no_more(struct test *t)
{
    WORLD(w, .tenant_bytes_per_s = 1000);

    CHECK_INT(t, take(&w, A, 9000, 1), 0);
    CHECK_INT(t, take(&w, A, 1000, 1), 0);
    CHECK_INT(t, take(&w, A, 500, 1), -EAGAIN);
    CHECK_INT(t, w.retry_ms, 500);
    CHECK_STR(t, w.err.text,
              "the tenant \"acme\" sends more than its 1000 bytes a second "
              "(tenant.bytes_per_second); 500 more came");
    CHECK_INT(t, take(&w, B, 10000, 1), 0); /* others have theirs */
    set_clock_advance(&w.clock, SECOND_NS / 2);
    CHECK_INT(t, take(&w, A, 500, 1), 0);
    CHECK_INT(t, take(&w, A, 1, 1), -EAGAIN);
    set_clock_advance(&w.clock, 100 * SECOND_NS);
    CHECK_INT(t, take(&w, A, 10000, 1), 0);
    CHECK_INT(t, take(&w, A, 1, 1), -EAGAIN);
}

static void what_is_larger_than_the_bucket_is_paid_for_afterwards(struct test *t)
{
    WORLD(w, .tenant_bytes_per_s = 100);

    CHECK_INT(t, take(&w, A, 5000, 1), 0);
    CHECK_INT(t, take(&w, A, 1, 1), -EAGAIN);
    CHECK_INT(t, w.retry_ms, 40010);
    set_clock_advance(&w.clock, 40 * SECOND_NS);
    CHECK_INT(t, take(&w, A, 1, 1), -EAGAIN);
    set_clock_advance(&w.clock, SECOND_NS / 100);
    CHECK_INT(t, take(&w, A, 1, 1), 0);
}

static void refused_requests_use_up_nothing(struct test *t)
{
    WORLD(w, .tenant_bytes_per_s = 1000, .tenant_profiles_per_s = 1);

    CHECK_INT(t, take(&w, A, 1, 10), 0);
    for (int i = 0; i < 100; i++)
        CHECK_INT(t, take(&w, A, 5000, 1), -EAGAIN);
    CHECK_STR(t, w.err.text,
              "the tenant \"acme\" sends more than its 1 profiles a second "
              "(tenant.profiles_per_second); 1 more came");
    CHECK_INT(t, w.retry_ms, 1000);
    set_clock_advance(&w.clock, SECOND_NS);
    CHECK_INT(t, take(&w, A, 9999, 1), 0);
}

/* A request every 100 ms against 3 a second: thirds of a unit must not be lost. */
static void slow_rates_lose_nothing_to_rounding(struct test *t)
{
    WORLD(w, .tenant_profiles_per_s = 3);
    int passed = 0;

    CHECK_INT(t, take(&w, A, 0, 30), 0);
    for (int i = 0; i < 100; i++) {
        set_clock_advance(&w.clock, SECOND_NS / 10);
        passed += take(&w, A, 0, 1) == 0;
    }
    CHECK_INT(t, passed, 30);
}

static void queries_at_once_are_counted_by_tenant(struct test *t)
{
    WORLD(w, .tenant_queries_max = 2);

    CHECK_INT(t, limits_begin_query(w.l, A, &w.err), 0);
    CHECK_INT(t, limits_begin_query(w.l, A, &w.err), 0);
    CHECK_INT(t, limits_begin_query(w.l, A, &w.err), -EAGAIN);
    CHECK_STR(t, w.err.text,
              "the tenant \"acme\" has 2 queries running, as many as it may (tenant.queries_max)");
    CHECK_INT(t, limits_begin_query(w.l, B, &w.err), 0);
    limits_end_query(w.l, A);
    CHECK_INT(t, limits_begin_query(w.l, A, &w.err), 0);
}

static void the_catalog_may_say_otherwise_for_a_tenant(struct test *t)
{
    WORLD(w, .tenant_bytes_per_s = 1000, .tenant_queries_max = 1, .tenant_series_max = 5);
    CLEANUP(catalog_closep) struct catalog *c = NULL;
    struct catalog_tenant row = {.name = A, .bytes_per_s = 10, .queries_max = 2};

    CHECK_INT(t, catalog_open(":memory:", &c, &w.err), 0);
    CHECK_INT(t, catalog_put_tenant(c, &row, &w.err), 0);
    CHECK_INT(t, tenant_limits_reload(w.l, NULL, c, &w.err), 0);
    CHECK_INT(t, tenant_limits_of(w.l, A).bytes_per_s, 10);
    CHECK_INT(t, tenant_limits_of(w.l, A).series_max, 5);
    CHECK_INT(t, tenant_limits_of(w.l, B).bytes_per_s, 1000);
    CHECK_INT(t, take(&w, A, 100, 1), 0);
    CHECK_INT(t, take(&w, A, 100, 1), -EAGAIN);
    CHECK_INT(t, take(&w, B, 10000, 1), 0);

    row.bytes_per_s = 0;
    CHECK_INT(t, catalog_put_tenant(c, &row, &w.err), 0);
    w.config.tenant_bytes_per_s = 7;
    CHECK_INT(t, tenant_limits_reload(w.l, &w.config, c, &w.err), 0);
    CHECK_INT(t, tenant_limits_of(w.l, A).bytes_per_s, 7);
    CHECK_INT(t, tenant_limits_of(w.l, A).queries_max, 2);
}

/* More tenants than there are places: memory stays the same, limits hold, queries end. */
static void any_number_of_tenants_is_bounded(struct test *t)
{
    WORLD(w, .tenant_bytes_per_s = 10, .tenant_queries_max = 100000);
    char name[32];
    int refused = 0;

    for (int i = 0; i < 20000; i++) {
        struct bytes tenant = {(const uint8_t *)name,
                               (size_t)snprintf(name, sizeof(name), "tenant-%d", i)};
        CHECK_INT(t, limits_begin_query(w.l, tenant, &w.err), 0);
        refused += take(&w, tenant, 100, 1) != 0;
    }
    CHECK(t, refused > 10000);
    for (int i = 0; i < 20000; i++) {
        struct bytes tenant = {(const uint8_t *)name,
                               (size_t)snprintf(name, sizeof(name), "tenant-%d", i)};
        limits_end_query(w.l, tenant);
    }
    /* Idle ones give their places up. */
    set_clock_advance(&w.clock, 60 * SECOND_NS);
    CHECK_INT(t, take(&w, A, 100, 1), 0);
    CHECK_INT(t, take(&w, A, 100, 1), -EAGAIN);
    CHECK_INT(t, take(&w, (struct bytes){0}, 100, 1), 0);
}

static const struct test_case cases[] = {
    TEST(without_limits_everything_passes),
    TEST(ten_seconds_worth_may_come_at_once_and_no_more),
    TEST(what_is_larger_than_the_bucket_is_paid_for_afterwards),
    TEST(refused_requests_use_up_nothing),
    TEST(slow_rates_lose_nothing_to_rounding),
    TEST(queries_at_once_are_counted_by_tenant),
    TEST(the_catalog_may_say_otherwise_for_a_tenant),
    TEST(any_number_of_tenants_is_bounded),
};
TEST_MAIN(cases)
