#include "formats/perf_maps.h"
#include "lib/test.h"

static uint32_t map_at(const struct perf_maps *m, uint32_t root, uint64_t address)
{
    const struct perf_range *r = perf_maps_find(m, root, address);

    return r ? r->map : 0;
}

static void the_latest_mapping_of_an_address_counts(struct test *t)
{
    struct budget b;
    struct perf_maps m;
    budget_init(&b, 1 << 24);
    perf_maps_init(&m, &b);

    uint32_t one = perf_maps_add(&m, 0, (struct perf_range){100, 200, 1});
    uint32_t two = perf_maps_add(&m, one, (struct perf_range){140, 150, 2});
    CHECK_INT(t, map_at(&m, two, 139), 1);
    CHECK_INT(t, map_at(&m, two, 140), 2);
    CHECK_INT(t, map_at(&m, two, 149), 2);
    CHECK_INT(t, map_at(&m, two, 150), 1);
    CHECK_INT(t, map_at(&m, two, 99), 0);
    CHECK_INT(t, map_at(&m, two, 200), 0);
    CHECK_INT(t, map_at(&m, one, 145), 1); /* the older state is what it was */
    CHECK_INT(t, map_at(&m, 0, 145), 0);
    CHECK_INT(t, perf_maps_add(&m, two, (struct perf_range){5, 5, 3}), two);
    uint32_t all = perf_maps_add(&m, two, (struct perf_range){0, UINT64_MAX, 4});
    CHECK_INT(t, map_at(&m, all, 145), 4);
    perf_maps_done(&m);
    CHECK_INT(t, b.used, 0);
}

/* Against an array that has an entry for every address. */
static void agrees_with_the_obvious_way(struct test *t)
{
    struct budget b;
    struct perf_maps m;
    uint32_t want[512] = {0}, root = 0, seed = 1;
    budget_init(&b, (size_t)1 << 26);
    perf_maps_init(&m, &b);

    for (uint32_t i = 1; i <= 3000; i++) {
        seed = seed * 1664525 + 1013904223;
        uint32_t start = seed >> 23, len = (seed >> 8) % 40;
        uint32_t end = start + len < 512 ? start + len : 512;
        root = perf_maps_add(&m, root, (struct perf_range){start, end, i});
        for (uint32_t a = start; a < end; a++)
            want[a] = i;
        if (i % 100 == 0) {
            for (uint32_t a = 0; a < 512; a++)
                CHECK_INT(t, map_at(&m, root, a), want[a]);
        }
    }
    perf_maps_done(&m);
}

static void mappings_in_any_order_cost_little(struct test *t)
{
    struct budget b;
    struct perf_maps m;
    uint32_t root = 0;
    budget_init(&b, (size_t)1 << 28);
    perf_maps_init(&m, &b);

    for (uint64_t i = 0; i < 50000; i++)
        root = perf_maps_add(&m, root, (struct perf_range){i * 16, i * 16 + 8, (uint32_t)i + 1});
    CHECK_INT(t, map_at(&m, root, 49999 * 16), 50000);
    CHECK(t, m.nodes.len < 50000 * 64);
    CHECK(t, !budget_failed(&b));
    perf_maps_done(&m);
}

static void survives_running_out_of_memory(struct test *t)
{
    for (size_t limit = 0; limit < 20000; limit += 100) {
        struct budget b;
        struct perf_maps m;
        uint32_t root = 0;
        budget_init(&b, limit);
        perf_maps_init(&m, &b);
        for (uint64_t i = 0; i < 200; i++)
            root = perf_maps_add(&m, root, (struct perf_range){i * 7 % 100, i * 7 % 100 + 9, 1});
        map_at(&m, root, 50);
        perf_maps_done(&m);
        CHECK_INT(t, b.used, 0);
    }
}

static const struct test_case cases[] = {
    TEST(the_latest_mapping_of_an_address_counts),
    TEST(agrees_with_the_obvious_way),
    TEST(mappings_in_any_order_cost_little),
    TEST(survives_running_out_of_memory),
};
TEST_MAIN(cases)
