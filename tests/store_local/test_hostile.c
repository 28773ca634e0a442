#include "store_fixture.h"

/*
 * What a client, a clock or an operator may do wrong: it is refused by name or kept exactly, and
 * the store stays usable.
 */
static struct profile *make_values(struct fixture *f, int64_t start_ns, const int64_t *values,
                                   unsigned n)
{
    struct profile *p = profile_set_add(f->source->set);
    char name[16];

    profile_add_ctype(p, "cpu", "nanoseconds");
    p->time_unix_ns = start_ns;
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "f%u", i);
        struct function func = {.name = dict_cstring(p->dict, name)};
        profile_add_value(p, dict_frame(p->dict, 0, func, 1, 0, 0), values[i]);
    }
    return p;
}

static int ask(struct fixture *f, struct store_plan plan, struct store_answer **ret)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;

    *ret = store_answer_new((size_t)1 << 26);
    int r = selector_parse(bytes_of("cpu"), &selector, &f->err);
    plan.tenant = bytes_of("default");
    plan.selector = selector;
    return r < 0 ? r : store_aggregate(f->store, &plan, *ret, &f->err);
}

static void times_of_any_size_are_judged(struct test *t)
{
    static const int64_t starts[] = {0,         -1,         INT64_MIN,     1,
                                     INT64_MAX, NOW_NS * 2, INT64_MAX - 1, (int64_t)1 << 62};
    struct fixture f;

    fixture_init(t, &f);
    for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
        CHECK_APPEND(t, &f, make_profile(f.source, starts[i], 0, 1), "a", NULL, STORE_REJECTED);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 1);
    p->duration_ns = INT64_MAX;
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_REJECTED);
    p->duration_ns = -1;
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_REJECTED);
    p->duration_ns = INT64_MAX - NOW_NS; /* ends at the end of time */
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_STORED);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    fixture_done(&f);
}

static void a_clock_may_show_any_time(struct test *t)
{
    static const int64_t clocks[] = {
        0, SEC_NS, (int64_t)2147483648 * SEC_NS, INT64_MAX - SEC_NS, INT64_MAX, NOW_NS};
    struct fixture f;

    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 3), "a", NULL, STORE_STORED);
    for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
        struct store_outcome outcome;
        f.clock.wall_ns = clocks[i];
        f.clock.monotonic_ns += SEC_NS;
        struct profile *p = make_profile(f.source, clocks[i] / 2 + 1, 0, 1);
        CHECK(t, append_profile(&f, p, "b", NULL, &outcome) <= 0);
        CHECK(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err) >= 0);
        CHECK(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err) >= 0);
        fixture_reopen(t, &f);
    }
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 1, 0, 3), "a", NULL, STORE_STORED);
    CHECK(t, find_everything(t, &f).n >= 1);
    fixture_done(&f);
}

static void labels_hold_any_bytes_and_services_text(struct test *t)
{
    struct fixture f;
    struct store_outcome outcome;
    struct label nul[] = {{{(const uint8_t *)"a\0b", 3}, {(const uint8_t *)"x\0\xff\n", 4}},
                          test_label(LABEL_SERVICE, "checkout")};
    struct label twice[] = {test_label("pod", "a"), test_label("pod", "b"),
                            test_label(LABEL_SERVICE, "checkout")};
    struct label service[] = {{bytes_of(LABEL_SERVICE), {(const uint8_t *)"a/../\0b", 7}}};

    fixture_init(t, &f);
    struct store_incoming in = {
        .profile = make_profile(f.source, NOW_NS, 0, 2), .labels = twice, .n_labels = 3};
    CHECK_INT(t, store_append(f.source, bytes_of("default"), &in, 1, &outcome, &f.err), 0);
    CHECK_INT(t, outcome.verdict, STORE_REJECTED);
    CHECK_STR(t, outcome.why.text, "labels are not sorted at \"pod\"");
    in.labels = nul;
    in.n_labels = 2;
    CHECK_INT(t, store_append(f.source, bytes_of("default"), &in, 1, &outcome, &f.err), 0);
    CHECK_INT(t, outcome.verdict, STORE_STORED);
    in.labels = service;
    in.n_labels = 1;
    CHECK_INT(t, store_append(f.source, bytes_of("default"), &in, 1, &outcome, &f.err), 0);
    CHECK_INT(t, outcome.verdict, STORE_REJECTED);
    CHECK_STR(t, outcome.why.text, "the label service.name has a NUL byte in it");
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    CHECK_INT(t, find_everything(t, &f).total, 21);
    fixture_done(&f);
}

static void a_selector_with_a_nul_erases_nothing(struct test *t)
{
    static const char text[] = "{pod!=\"a\0b\"}";
    CLEANUP(selector_freep) struct selector *selector = NULL;
    struct fixture f;

    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 3), "a", NULL, STORE_STORED);
    struct bytes raw = {(const uint8_t *)text, sizeof(text) - 1};
    if (selector_parse(raw, &selector, &f.err) == 0) {
        struct store_scope scope = {bytes_of("default"), selector, 0, INT64_MAX};
        int r = store_erase(f.store, &scope, &f.err);
        CHECK_INT(t, r, -EINVAL);
        CHECK_STR(t, f.err.text, "could not erase: the selector has a NUL byte in it");
    }
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    fixture_done(&f);
}

static void values_of_any_size_come_back(struct test *t)
{
    static const int64_t values[] = {INT64_MIN, INT64_MAX, -1, 0, 1, INT64_MIN, INT64_MIN + 1};
    struct fixture f;
    struct store_answer *answer;

    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_values(&f, NOW_NS, values, 7), "a", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, make_values(&f, NOW_NS + 1, values, 7), "b", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, make_values(&f, NOW_NS + 2, NULL, 0), "b", NULL, STORE_STORED);
    for (int i = 0; i < 2; i++) {
        for (enum plan_what what = PLAN_STACKS; what <= PLAN_FUNCTION; what++) {
            CHECK_INT(t, ask(&f, (struct store_plan){.to_ns = INT64_MAX, .what = what}, &answer),
                      0);
            store_answer_free(answer);
        }
        CHECK_INT(t, find_everything(t, &f).n, 3);
        CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
        f.clock.wall_ns += 86400 * 2 * SEC_NS;
    }
    fixture_done(&f);
}

static void ranges_and_steps_of_any_size_are_answered(struct test *t)
{
    static const int64_t steps[] = {0, 1, 2, 7, SEC_NS, INT64_MAX - 1, INT64_MAX};
    static const int64_t ends[][2] = {
        {INT64_MIN, INT64_MAX}, {0, INT64_MAX}, {INT64_MAX, INT64_MIN},
        {NOW_NS, NOW_NS + 1},   {-1, 0},        {NOW_NS, NOW_NS}};
    struct fixture f;
    struct store_answer *answer;

    fixture_init(t, &f);
    for (int i = 0; i < 20; i++)
        CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + i, 0, 3), "a", NULL, STORE_STORED);
    for (int flushed = 0; flushed < 2; flushed++) {
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
            for (size_t k = 0; k < ARRAY_SIZE(ends); k++) {
                struct store_plan plan = {.from_ns = ends[k][0],
                                          .to_ns = ends[k][1],
                                          .step_ns = steps[i],
                                          .what = PLAN_TOTALS,
                                          .by_sample_time = i % 2};
                int r = ask(&f, plan, &answer);
                int64_t sum = 0, want = k < 2 ? 20 * 33 : k == 3 ? 33 : 0;
                for (size_t c = 0; c < answer->cells.len; c++)
                    sum += answer->cells.data[c].value;
                CHECK(t, r == 0 || strstr(f.err.text, "at most 100000 are allowed") ||
                             strstr(f.err.text, "the range is empty"));
                if (r == 0)
                    CHECK_INT(t, sum, want);
                store_answer_free(answer);
            }
        }
        CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
        f.clock.wall_ns += 7200 * SEC_NS;
    }
    fixture_done(&f);
}

static void a_limit_of_one_mebibyte_refuses_and_recovers(struct test *t)
{
    struct fixture f;
    unsigned n_stored = 0;

    fixture_init(t, &f);
    fixture_close(&f);
    f.options.memory_limit = (size_t)1 << 20;
    CHECK_INT(t, fixture_open(&f), 0);
    for (unsigned i = 0; i < 300; i++) {
        struct store_outcome outcome = {0};
        int r =
            append_profile(&f, make_profile(f.source, NOW_NS + i, i * 50, 50), "a", NULL, &outcome);
        n_stored += r == 0 && outcome.verdict == STORE_STORED;
        CHECK(t, r == 0 || r == -EAGAIN);
        if (r == -EAGAIN)
            CHECK(t, strstr(f.err.text, "memory limit of 1.0 MiB reached") != NULL);
        store_source_reset(f.source);
        if (i % 10 == 0)
            CHECK(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err) >= 0);
    }
    CHECK(t, n_stored > 10);
    CHECK_INT(t, find_everything(t, &f).n, n_stored);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(times_of_any_size_are_judged),
    TEST(a_clock_may_show_any_time),
    TEST(labels_hold_any_bytes_and_services_text),
    TEST(a_selector_with_a_nul_erases_nothing),
    TEST(values_of_any_size_come_back),
    TEST(ranges_and_steps_of_any_size_are_answered),
    TEST(a_limit_of_one_mebibyte_refuses_and_recovers),
};
TEST_MAIN(cases)
