#include "store_local/compact.h"
#include "store_local/flush.h"
#include "store_local/part.h"
#include "store_local/retention.h"
#include "store_local/store_fixture.h"
#include "store_local/tombstone.h"
#include "store_local/version.h"

/*
 * What flushing, merging, expiring and erasing do to a whole store: nothing that was stored may
 * change by the first two, and nothing else may go by the others.
 */

/* Profiles of two pods, every ten seconds from `start`, n of each, in one append. */
static void fill(struct test *t, struct fixture *f, int64_t start_ns, unsigned n)
{
    struct label labels[2][2] = {{test_label("pod", "a"), test_label(LABEL_SERVICE, "checkout")},
                                 {test_label("pod", "b"), test_label(LABEL_SERVICE, "checkout")}};
    struct store_incoming *in = calloc(2 * n, sizeof(*in));
    struct store_outcome *outcomes = calloc(2 * n, sizeof(*outcomes));

    for (unsigned i = 0; i < 2 * n; i++) {
        int64_t start = start_ns + (int64_t)(i / 2) * 10 * SEC_NS;
        in[i] = (struct store_incoming){.profile = make_profile(f->source, start, i / 2 % 7, 20),
                                        .labels = labels[i % 2],
                                        .n_labels = 2};
    }
    int r = store_append(f->source, bytes_of("default"), in, 2 * n, outcomes, &f->err);
    CHECK_INT(t, r, 0);
    for (unsigned i = 0; i < 2 * n; i++)
        CHECK_INT(t, outcomes[i].verdict, STORE_STORED);
    store_source_reset(f->source);
    free(in);
    free(outcomes);
}

static int upkeep(struct fixture *f, enum store_upkeep what)
{
    f->err.text[0] = '\0';
    return store_upkeep(f->store, what, &f->err);
}

static size_t n_segments(struct fixture *f)
{
    return local_of(f->store)->version->segments.len;
}

static const struct segment *segment_at(struct fixture *f, size_t i)
{
    return local_of(f->store)->version->segments.data[i];
}

/* The total of a question, raw rows only or not. */
static int64_t total(struct test *t, struct fixture *f, const char *text, int64_t from, int64_t to,
                     bool raw_only, enum plan_what what)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new(1 << 26);
    struct error err = {{0}};
    int64_t sum = 0;

    CHECK_INT(t, selector_parse(bytes_of(text), &selector, &err), 0);
    struct store_plan plan = {.tenant = bytes_of("default"),
                              .selector = selector,
                              .from_ns = from,
                              .to_ns = to,
                              .what = what,
                              .function = bytes_of("work"),
                              .raw_only = raw_only};
    CHECK_INT(t, store_aggregate(f->store, &plan, answer, &err), 0);
    CHECK_STR(t, err.text, "");
    CHECK(t, !answer->is_incomplete);
    for (size_t i = 0; i < answer->cells.len; i++)
        sum += what == PLAN_STACKS ? profile_total(answer->cells.data[i].profile, 0)
                                   : answer->cells.data[i].value;
    return sum;
}

struct totals {
    int64_t values[12];
};

/* A number of questions, aligned and not, whose answers must never change. */
static struct totals ask(struct test *t, struct fixture *f, int64_t start_ns)
{
    struct totals r = {0};
    size_t n = 0;

    for (int raw = 0; raw < 2; raw++) {
        r.values[n++] = total(t, f, "cpu", 0, INT64_MAX, raw, PLAN_STACKS);
        r.values[n++] = total(t, f, "cpu{pod=\"a\"}", 0, INT64_MAX, raw, PLAN_TOTALS);
        r.values[n++] =
            total(t, f, "cpu", start_ns + 95 * SEC_NS, start_ns + HOUR_NS, raw, PLAN_STACKS);
        r.values[n++] =
            total(t, f, "cpu{pod=\"b\"}", start_ns + 7, start_ns + 777 * SEC_NS, raw, PLAN_STACKS);
        r.values[n++] = total(t, f, "cpu", start_ns, start_ns + HOUR_NS, raw, PLAN_FUNCTION);
        r.values[n++] = total(t, f, "cpu{pod=\"a\"}", 0, INT64_MAX, raw, PLAN_FUNCTION);
    }
    for (size_t i = 0; i < 6; i++)
        CHECK_INT(t, r.values[i], r.values[i + 6]);
    CHECK(t, r.values[0] > 0 && r.values[4] > 0);
    return r;
}

static void check_same(struct test *t, const struct totals *a, const struct totals *b)
{
    for (size_t i = 0; i < 12; i++)
        CHECK_INT(t, b->values[i], a->values[i]);
}

#define START (NOW_NS - 3 * HOUR_NS)

static void answers_do_not_change_by_upkeep(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 500);
    struct totals before = ask(t, &f, START), after;

    CHECK_INT(t, upkeep(&f, UPKEEP_FLUSH), 1);
    CHECK_INT(t, upkeep(&f, UPKEEP_FLUSH), 0);
    CHECK_INT(t, n_segments(&f), 2); /* an hour each */
    after = ask(t, &f, START);
    check_same(t, &before, &after);

    while (upkeep(&f, UPKEEP_STEP) > 0)
        continue;
    CHECK_STR(t, f.err.text, "");
    CHECK_INT(t, n_segments(&f), 2);
    CHECK_INT(t, segment_at(&f, 0)->tier, 1);
    after = ask(t, &f, START);
    check_same(t, &before, &after);

    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK_STR(t, f.err.text, "");
    CHECK_INT(t, n_segments(&f), 1);
    CHECK_INT(t, segment_at(&f, 0)->tier, 2);
    CHECK_INT(t, segment_at(&f, 0)->n_rows, 1000);
    after = ask(t, &f, START);
    check_same(t, &before, &after);

    fixture_reopen(t, &f);
    CHECK_INT(t, n_segments(&f), 1);
    after = ask(t, &f, START);
    check_same(t, &before, &after);
    fixture_done(&f);
}

static void writes_rollups_of_series_groups_and_functions(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 720);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);

    struct local *l = local_of(f.store);
    struct segment_file *file;
    CLEANUP(part_done) struct part p = {0};
    bool has[LEVEL_COUNT] = {0};
    CHECK_INT(t, segment_file_get(l, l->version->segments.data[0], &file, &f.err), 0);
    CHECK_INT(t, part_open(l, file, 0, &p, &f.err), 0);
    for (uint32_t i = 0; i < p.n_strips; i++)
        has[p.strips[i].level] = true;
    for (int level = LEVEL_RAW; level < LEVEL_COUNT; level++)
        CHECK(t, has[level] || level == LEVEL_DAY || level == LEVEL_FUNCTIONS_DAY);
    part_done(&p);
    fixture_done(&f);
}

/* Late data lies beside the big file until there is enough of it. */
static void takes_late_data(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 100);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK_INT(t, n_segments(&f), 1);
    uint64_t big = segment_at(&f, 0)->id;

    for (unsigned i = 1; i <= 3; i++) {
        struct profile *p = make_profile(f.source, START + i, 3, 1);
        CHECK_APPEND(t, &f, p, "c", NULL, STORE_STORED);
        CHECK_APPEND(t, &f, p, "c", NULL, STORE_DUPLICATE);
        CHECK_INT(t, upkeep(&f, UPKEEP_FLUSH), 1);
        CHECK_APPEND(t, &f, p, "c", NULL, STORE_DUPLICATE);
        store_source_reset(f.source);
    }
    struct totals before = ask(t, &f, START);
    CHECK_INT(t, n_segments(&f), 4);
    CHECK_INT(t, segment_at(&f, 0)->id, big);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK_INT(t, n_segments(&f), 1);
    struct totals after = ask(t, &f, START);
    check_same(t, &before, &after);
    struct profile *p = make_profile(f.source, START + 2, 3, 1);
    CHECK_APPEND(t, &f, p, "c", NULL, STORE_DUPLICATE);
    fixture_done(&f);
}

/* ---- Erasing */

static int erase(struct fixture *f, const char *text, int64_t from, int64_t to)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;

    if (selector_parse(bytes_of(text), &selector, &f->err) < 0)
        return -EINVAL;
    return store_erase(f->store, &(struct store_scope){bytes_of("default"), selector, from, to},
                       &f->err);
}

static void erases_at_once_and_for_good(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 300);
    f.err.text[0] = '\0';
    int64_t a = total(t, &f, "cpu{pod=\"a\"}", 0, INT64_MAX, true, PLAN_TOTALS);
    int64_t kept = total(t, &f, "cpu{pod=\"b\"}", 0, START + 1000 * SEC_NS, true, PLAN_TOTALS);

    CHECK_INT(t, erase(&f, "{pod=\"b\"}", START + 1000 * SEC_NS, INT64_MAX), 0);
    CHECK_STR(t, f.err.text, "");
    CHECK_INT(t, total(t, &f, "cpu{pod=\"a\"}", 0, INT64_MAX, false, PLAN_TOTALS), a);
    CHECK_INT(t, total(t, &f, "cpu{pod=\"b\"}", 0, INT64_MAX, false, PLAN_TOTALS), kept);
    CHECK_INT(t, total(t, &f, "cpu", 0, INT64_MAX, false, PLAN_STACKS), a + kept);

    /* What comes again is new. */
    struct profile *p = make_profile(f.source, START + 2000 * SEC_NS, 200 % 7, 20);
    int64_t more = profile_total(p, 0);
    CHECK_APPEND(t, &f, p, "b", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, p, "b", NULL, STORE_DUPLICATE);
    store_source_reset(f.source);
    CHECK_INT(t, total(t, &f, "cpu", 0, INT64_MAX, false, PLAN_STACKS), a + kept + more);

    fixture_reopen(t, &f);
    CHECK_INT(t, total(t, &f, "cpu", 0, INT64_MAX, false, PLAN_STACKS), a + kept + more);
    CHECK_INT(t, local_of(f.store)->version->tombstones.len, 1);
    uint64_t rows = 0;
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    for (size_t i = 0; i < n_segments(&f); i++)
        rows += segment_at(&f, i)->n_rows;
    CHECK_INT(t, rows, 300 + 100 + 1);
    CHECK_INT(t, local_of(f.store)->version->tombstones.len, 0);
    CHECK_INT(t, total(t, &f, "cpu", 0, INT64_MAX, false, PLAN_STACKS), a + kept + more);
    fixture_done(&f);
}

static void erasing_everything_leaves_no_file(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 50);
    CHECK_INT(t, erase(&f, "", 0, INT64_MAX), 0);
    CHECK_INT(t, find_everything(t, &f).n, 0);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK_INT(t, n_segments(&f), 0);
    CHECK_INT(t, erase(&f, "", 5, 5), 0);
    fixture_done(&f);
}

/* ---- Retention */

static void advance(struct fixture *f, int64_t ns)
{
    f->clock.wall_ns += ns;
    f->clock.monotonic_ns += ns;
}

static void forgets_what_is_too_old(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    f.options.max_age_ns = 10 * DAY_NS;
    fixture_reopen(t, &f);
    fill(t, &f, NOW_NS - 2 * HOUR_NS, 10);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK_INT(t, n_segments(&f), 1);
    for (int i = 0; i < 10 * 24 - 2; i++) {
        advance(&f, HOUR_NS / 2);
        CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 0);
        advance(&f, HOUR_NS / 2);
    }
    CHECK_INT(t, n_segments(&f), 1);
    advance(&f, HOUR_NS / 2);
    CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 1);
    CHECK_INT(t, n_segments(&f), 0);
    CHECK(t, strstr(f.log, "retention removed 1 segments"));
    /* The dictionary goes when nobody can be about to add to it. */
    CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 0);
    CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 1);
    CHECK_INT(t, local_of(f.store)->version->epochs.len, 0);
    CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 0);
    fixture_done(&f);
}

static void does_not_believe_a_clock_that_jumps(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    for (int day = 8; day > 0; day--)
        fill(t, &f, NOW_NS - day * DAY_NS, 2);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK_INT(t, n_segments(&f), 8);

    f.clock.wall_ns += 3650 * DAY_NS;
    for (int pass = 1; pass < RETENTION_JUMP_PASSES; pass++) {
        CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 0);
        advance(&f, MINUTE_NS);
    }
    CHECK_INT(t, n_segments(&f), 8);
    /* It stays so: believed, and still no more than a quarter goes at a time. */
    CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 1);
    CHECK_INT(t, n_segments(&f), 6);
    CHECK(t, strstr(f.log, "the clock has jumped"));
    fixture_done(&f);
}

static void a_clock_that_comes_back_costs_nothing(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, NOW_NS - HOUR_NS, 2);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    for (int i = 0; i < 30; i++) {
        f.clock.wall_ns += (i % 5 == 4 ? -4 : 1) * 40 * DAY_NS;
        CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 0);
        advance(&f, MINUTE_NS);
    }
    CHECK_INT(t, n_segments(&f), 1);
    fixture_done(&f);
}

static void keeps_within_the_disk_limit(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    for (int day = 8; day > 0; day--)
        fill(t, &f, NOW_NS - day * DAY_NS, 20);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK_INT(t, n_segments(&f), 8);
    uint64_t one = segment_at(&f, 0)->bytes;

    local_of(f.store)->options.disk_limit = one * 4 + one / 2;
    CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 1);
    CHECK(t, n_segments(&f) >= 1 && n_segments(&f) <= 4);
    CHECK(t, segment_at(&f, 0)->min_ns > NOW_NS - 6 * DAY_NS);
    CHECK_INT(t, upkeep(&f, UPKEEP_EXPIRE), 0);
    fixture_done(&f);
}

/* ---- Trouble */

static void a_damaged_input_is_left_alone(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 100);
    CHECK_INT(t, upkeep(&f, UPKEEP_FLUSH), 1);
    uint64_t bad = segment_at(&f, 0)->id;
    fill(t, &f, START + 1000 * SEC_NS, 100);
    CHECK_INT(t, upkeep(&f, UPKEEP_FLUSH), 1);
    fill(t, &f, START + 2000 * SEC_NS, 50);
    CHECK_INT(t, upkeep(&f, UPKEEP_FLUSH), 1);

    char path[64];
    uint8_t x = 0x55;
    struct fs_file *file = NULL;
    snprintf(path, sizeof(path), "seg/%010llu.seg", (unsigned long long)bad);
    CHECK_INT(t, fs_open(f.fs->under, path, FS_WRITE, &file, NULL), 0);
    CHECK_INT(t, fs_pwrite(file, &x, 1, 200, NULL), 0);
    fs_close(file);
    fixture_reopen(t, &f);
    size_t n = n_segments(&f);
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    CHECK(t, strstr(f.log, "cannot be merged"));
    CHECK(t, n_segments(&f) == 2 && n > 2);
    CHECK_INT(t, segment_at(&f, 0)->id, bad);
    fixture_done(&f);
}

static void waits_for_space(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 20);
    CHECK_INT(t, upkeep(&f, UPKEEP_FLUSH), 1);
    f.fs->free_bytes = 1000;
    CHECK_INT(t, upkeep(&f, UPKEEP_STEP), -ENOSPC);
    CHECK(t, strstr(f.err.text, "could not merge segments: 1000 bytes are free"));
    f.fs->free_bytes = 0;
    CHECK_INT(t, upkeep(&f, UPKEEP_STEP), 1);
    fixture_done(&f);
}

/* Each write of flush and merge fails in turn: nothing is lost, and it goes on afterwards. */
static void survives_a_full_disk_anywhere(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill(t, &f, START, 30);
    struct totals before = ask(t, &f, START);
    f.fs->fail_write = ENOSPC;
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), -ENOSPC);
    CHECK(t, strstr(f.err.text, "could not"));
    struct totals during = ask(t, &f, START);
    check_same(t, &before, &during);
    f.fs->fail_write = 0;
    CHECK_INT(t, upkeep(&f, UPKEEP_SETTLE), 0);
    struct totals after = ask(t, &f, START);
    check_same(t, &before, &after);
    fixture_reopen(t, &f);
    after = ask(t, &f, START);
    check_same(t, &before, &after);
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(answers_do_not_change_by_upkeep),
    TEST(writes_rollups_of_series_groups_and_functions),
    TEST(takes_late_data),
    TEST(erases_at_once_and_for_good),
    TEST(erasing_everything_leaves_no_file),
    TEST(forgets_what_is_too_old),
    TEST(does_not_believe_a_clock_that_jumps),
    TEST(a_clock_that_comes_back_costs_nothing),
    TEST(keeps_within_the_disk_limit),
    TEST(a_damaged_input_is_left_alone),
    TEST(waits_for_space),
    TEST(survives_a_full_disk_anywhere),
};
TEST_MAIN(cases)
