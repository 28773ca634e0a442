#include <errno.h>

#include "lib/set_clock.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "store_local/local.h"
#include "store_local/local_internal.h"

/*
 * A short life of a store, with appends, flushes, merges and an erasure, on a simulated disk where
 * one change after the other fails or is the last one before a crash. After each, all that was
 * acknowledged is there exactly once, also when the client sends again what it got no answer to.
 */
#define SEC_NS ((int64_t)1000000000)
#define NOW_NS ((int64_t)1700000000 * SEC_NS)
#define STEPS  10
#define ROWS   6 /* of each pod and step that appends */

struct life {
    struct sim_fs *sim;
    struct set_clock clock;
    struct store *store;
    struct store_source *source;
    bool is_stored[STEPS]; /* acknowledged */
    bool is_erased;
    unsigned n_failures;
    struct error err;
};

static bool open_store(struct life *f)
{
    struct local_options options = {.fs = sim_fs_fs(f->sim),
                                    .clock = &f->clock.clock,
                                    .seed = 1,
                                    .threads = 1,
                                    .disk_reserve = 1};

    if (local_open(&options, &f->store, &f->err) < 0)
        return false;
    return store_source_new(f->store, 0, &f->source, &f->err) == 0;
}

/* As a process that was killed. */
static void drop_store(struct life *f)
{
    store_source_free(TAKE_PTR(f->source));
    if (f->store)
        local_of(f->store)->is_dead = true;
    store_close(TAKE_PTR(f->store));
}

static struct profile *make_profile(struct life *f, int64_t start_ns, unsigned i)
{
    struct profile *p = profile_set_add(f->source->set);
    struct dict *d = p->dict;
    char name[16];

    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    p->time_unix_ns = start_ns;
    p->duration_ns = 10 * SEC_NS;
    p->period = 10000000;
    uint32_t root = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "main")}, 1, 0, 0);
    for (unsigned j = 0; j < 5; j++) {
        snprintf(name, sizeof(name), "f%u", i + j);
        profile_add_value(
            p, dict_frame(d, root, (struct function){.name = dict_cstring(d, name)}, 1, 0, 0),
            1 + j);
    }
    return p;
}

/* The rows of step k: late ones in every third. */
static int append(struct life *f, unsigned k)
{
    struct label labels[2][2] = {{{BYTES("pod"), BYTES("a")}, {BYTES("service.name"), BYTES("s")}},
                                 {{BYTES("pod"), BYTES("b")}, {BYTES("service.name"), BYTES("s")}}};
    struct store_incoming in[2 * ROWS];
    struct store_outcome outcomes[2 * ROWS];
    int64_t start = NOW_NS - 5 * HOUR_NS + (int64_t)(k % 3 == 2 ? k - 2 : k) * 20 * MINUTE_NS + k;

    for (unsigned i = 0; i < 2 * ROWS; i++)
        in[i] = (struct store_incoming){
            .profile = make_profile(f, start + (int64_t)(i / 2) * 10 * SEC_NS, k + i / 2),
            .labels = labels[i % 2],
            .n_labels = 2};
    int r = store_append(f->source, bytes_of("default"), in, 2 * ROWS, outcomes, &f->err);
    store_source_reset(f->source);
    f->is_stored[k] |= r == 0;
    return r;
}

static int erase(struct life *f)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;

    if (selector_parse(bytes_of("{pod=\"b\"}"), &selector, &f->err) < 0)
        return -EINVAL;
    int r = store_erase(
        f->store, &(struct store_scope){bytes_of("default"), selector, 0, NOW_NS - 4 * HOUR_NS},
        &f->err);
    f->is_erased |= r == 0;
    return r;
}

static int step(struct life *f, unsigned k)
{
    switch (k) {
    case 3:
        return store_upkeep(f->store, UPKEEP_FLUSH, &f->err);
    case 5:
    case 9:
        return store_upkeep(f->store, UPKEEP_SETTLE, &f->err);
    case 7:
        return erase(f);
    default:
        return append(f, k);
    }
}

static bool appends(unsigned k)
{
    return k != 3 && k != 5 && k != 7 && k != 9;
}

/* ---- Checking */

struct seen {
    unsigned n[STEPS][2]; /* by step and pod */
    int64_t bad;
};

static int see(void *ctx, const struct store_found *found)
{
    struct seen *s = ctx;
    unsigned k = (unsigned)(found->start_ns % SEC_NS); /* as append() made it */
    bool is_b = false;

    for (size_t i = 0; i < found->series->n_labels; i++)
        is_b |= bytes_are(found->series->labels[i].value, "b");
    s->bad += k >= STEPS || found->totals[0] != 15 || profile_total(found->profile, 0) != 15;
    if (k < STEPS)
        s->n[k][is_b]++;
    return 0;
}

static int64_t total(struct test *t, struct life *f, bool raw_only)
{
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new(1 << 26);
    CLEANUP(selector_freep) struct selector *selector = NULL;
    int64_t sum = 0;

    CHECK_INT(t, selector_parse(bytes_of("cpu"), &selector, &f->err), 0);
    struct store_plan plan = {.tenant = bytes_of("default"),
                              .selector = selector,
                              .to_ns = INT64_MAX,
                              .raw_only = raw_only};
    CHECK_INT(t, store_aggregate(f->store, &plan, answer, &f->err), 0);
    CHECK(t, !answer->is_incomplete);
    for (size_t i = 0; i < answer->cells.len; i++)
        sum += profile_total(answer->cells.data[i].profile, 0);
    return sum;
}

/* Batches that were acknowledged are there, what was erased is not; of others each row is there
 * once or not at all. */
static void check(struct test *t, struct life *f, const char *when, unsigned nth)
{
    struct seen seen = {0};
    struct store_find find = {
        .tenant = bytes_of("default"), .to_ns = INT64_MAX, .with_samples = true};
    int failures = t->failures;
    int64_t n = 0;

    CHECK_INT(t, store_profiles(f->store, &find, see, &seen, &f->err), 0);
    CHECK_INT(t, seen.bad, 0);
    for (unsigned k = 0; k < STEPS; k++) {
        bool may_be_erased = f->is_erased || seen.n[k][1] == 0;
        n += seen.n[k][0] + seen.n[k][1];
        if (!appends(k)) {
            CHECK_INT(t, seen.n[k][0] + seen.n[k][1], 0);
            continue;
        }
        if (!f->is_stored[k]) {
            CHECK(t, seen.n[k][0] <= ROWS && seen.n[k][1] <= ROWS);
            continue;
        }
        CHECK_INT(t, seen.n[k][0], ROWS);
        CHECK(t, seen.n[k][1] == seen.n[k][0] || (may_be_erased && seen.n[k][1] == 0));
        if (f->is_erased && k < 3)
            CHECK_INT(t, seen.n[k][1], 0);
        if (k >= 4) /* too young to be erased */
            CHECK_INT(t, seen.n[k][1], seen.n[k][0]);
    }
    CHECK_INT(t, total(t, f, true), 15 * n);
    CHECK_INT(t, total(t, f, false), 15 * n);
    if (t->failures > failures)
        printf("# %s, fault at change %u\n", when, nth);
}

/* Goes through all steps; one that fails is done again, on a store that is opened again. */
static void live(struct test *t, struct life *f, unsigned nth)
{
    for (unsigned k = 0; k < STEPS; k++) {
        int r = f->store ? step(f, k) : -EIO;
        if (r >= 0 && !sim_fs_is_down(f->sim))
            continue;
        if (++f->n_failures > 20) {
            CHECK_INT(t, f->n_failures, 0);
            return;
        }
        drop_store(f);
        sim_fs_restart(f->sim);
        if (open_store(f))
            check(t, f, "after reopening", nth);
        else
            drop_store(f);
        k--; /* unsigned: wraps to where ++ brings it back */
    }
    check(t, f, "at the end", nth);
}

static void run(struct test *t, struct sim_fault fault, uint64_t *ret_changes)
{
    struct life f = {.sim = sim_fs_new(fault.nth)};

    set_clock_init(&f.clock, NOW_NS);
    f.clock.monotonic_ns = SEC_NS;
    if (fault.nth > 0)
        sim_fs_fault(f.sim, fault);
    if (!open_store(&f)) {
        drop_store(&f);
        sim_fs_restart(f.sim);
        CHECK(t, open_store(&f));
    }
    live(t, &f, (unsigned)fault.nth);
    if (ret_changes)
        *ret_changes = sim_fs_count(f.sim, SIM_CHANGE);
    drop_store(&f);
    sim_fs_restart(f.sim);
    CHECK(t, open_store(&f));
    check(t, &f, "after a last crash", (unsigned)fault.nth);
    drop_store(&f);
    sim_fs_free(f.sim);
}

static void each_change_in_turn(struct test *t, struct sim_fault fault)
{
    uint64_t n = 0;

    run(t, (struct sim_fault){0}, &n);
    CHECK(t, n > 50);
    for (fault.nth = 1; fault.nth <= n && t->failures < 20; fault.nth++)
        run(t, fault, NULL);
}

static void survives_a_crash_at_each_change(struct test *t)
{
    each_change_in_turn(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_CRASH});
}

static void survives_a_kill_at_each_change(struct test *t)
{
    each_change_in_turn(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_KILL});
}

static void survives_each_change_failing_with_eio(struct test *t)
{
    each_change_in_turn(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_FAIL, .error = EIO});
}

static void survives_each_write_not_fitting(struct test *t)
{
    each_change_in_turn(t,
                        (struct sim_fault){.op = SIM_CHANGE, .what = SIM_SHORT, .error = ENOSPC});
}

static const struct test_case cases[] = {
    TEST(survives_a_crash_at_each_change),
    TEST(survives_a_kill_at_each_change),
    TEST(survives_each_change_failing_with_eio),
    TEST(survives_each_write_not_fitting),
};
TEST_MAIN(cases)
