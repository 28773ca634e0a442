#include "lib/test.h"
#include "profile/summary.h"

static uint32_t frame(struct dict *d, uint32_t parent, const char *name)
{
    return dict_frame(d, parent, (struct function){.name = dict_cstring(d, name)}, 0, 0, 0);
}

/* Two profiles: types are united, totals added, equal stacks counted once. */
static void counts_over_all_profiles(struct test *t)
{
    struct profile_summary s;
    struct budget b;
    int64_t values[2] = {3, 30};
    budget_init(&b, 1 << 22);
    struct profile_set *set = profile_set_new(&b);
    struct dict *d = set->dict;
    uint32_t main = frame(d, 0, "main"), leaf = frame(d, main, "leaf");

    struct profile *p = profile_set_add(set);
    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    profile_add(p, &(struct sample){.node = leaf, .values = values});
    profile_add(p, &(struct sample){.node = main, .values = values, .time_ns = 7});
    p->time_unix_ns = 200;
    p->duration_ns = 10;
    struct profile *q = profile_set_add(set);
    profile_add_ctype(q, "cpu", "nanoseconds");
    profile_add_value(q, leaf, 5);
    q->time_unix_ns = 100;
    q->duration_ns = 5;

    profile_summarize(set, &s);
    CHECK_INT(t, s.samples, 3);
    CHECK_INT(t, s.stacks, 2);
    CHECK_INT(t, s.max_depth, 2);
    CHECK_INT(t, s.n_types, 2);
    CHECK_INT(t, s.totals[0], 6);
    CHECK_INT(t, s.totals[1], 65);
    CHECK_INT(t, s.time_unix_ns, 100);
    CHECK_INT(t, s.duration_ns, 10);
    CHECK(t, s.has_times && !s.has_links);
    CHECK_INT(t, s.label_keys.len, 0);
    profile_summary_done(set, &s);
    profile_set_free(set);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(counts_over_all_profiles),
};
TEST_MAIN(cases)
