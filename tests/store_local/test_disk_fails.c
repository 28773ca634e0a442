/* Every operation on the disk fails once, and for ever, while a store is read, verified, copied,
 * repaired: there is an answer, or an error that says why not, and afterwards all is as it was. */
#include "store_local/backup.h"
#include "store_local/disk_bytes.h"
#include "store_local/small_store.h"

struct work {
    struct test *t;
    size_t damaged; /* which file */
    size_t n_files;
    struct sim_fs *sim;
    struct fixture f;
};

static int open_and_ask(struct work *w)
{
    int r = kept_open(&w->f, w->sim, true);

    if (r == 0)
        r = ask_all(&w->f);
    fixture_close(&w->f);
    return r;
}

static int open_and_verify(struct work *w)
{
    struct findings found;
    int r = kept_open(&w->f, w->sim, true);

    if (r == 0)
        r = kept_verify(&w->f, &found);
    fixture_close(&w->f);
    return r;
}

static int copy(struct work *w)
{
    CLEANUP(sim_fs_freep) struct sim_fs *to = sim_fs_new(9);

    return backup_copy(sim_fs_fs(w->sim), &w->f.clock.clock, sim_fs_fs(to), &w->f.err);
}

static int repair(struct work *w)
{
    struct findings found = {0};

    return local_repair(sim_fs_fs(w->sim), note_finding, &found, &w->f.err);
}

static int damage_and_repair(struct work *w)
{
    struct names all;

    list_files(w->sim, &all);
    w->n_files = all.n;
    flip(w->sim, all.files[w->damaged].path, all.files[w->damaged].size / 2, 0xff);
    return repair(w);
}

static int lose_and_repair(struct work *w)
{
    (void)fs_unlink(sim_fs_fs(w->sim), "MANIFEST", NULL);
    (void)fs_unlink(sim_fs_fs(w->sim), "MANIFEST.old", NULL);
    return repair(w);
}

static int upgrade(struct work *w)
{
    struct findings found = {0};

    return local_upgrade(sim_fs_fs(w->sim), note_finding, &found, &w->f.err);
}

static int open_and_settle(struct work *w)
{
    CLEANUP(selector_freep) struct selector *some = NULL;
    struct store_policy policy = {.max_age_ns = HOUR_NS};
    int r = kept_open(&w->f, w->sim, false);

    if (r == 0)
        r = selector_parse(bytes_of("{pod=\"a\"}"), &some, &w->f.err);
    if (r == 0)
        r = store_erase(w->f.store,
                        &(struct store_scope){bytes_of("default"), some, 0, NOW_NS - HOUR_NS},
                        &w->f.err);
    if (r == 0)
        r = store_set_policy(w->f.store, bytes_of("other"), &policy, &w->f.err);
    for (r = r == 0 ? 1 : r; r > 0;)
        r = store_upkeep(w->f.store, UPKEEP_SETTLE, &w->f.err);
    w->f.clock.wall_ns += 6 * HOUR_NS;
    w->f.clock.monotonic_ns += 6 * HOUR_NS;
    for (r = r == 0 ? 1 : r; r > 0;)
        r = store_upkeep(w->f.store, UPKEEP_EXPIRE, &w->f.err);
    fixture_close(&w->f);
    return r;
}

/* Until the operations that fail are beyond what it does. A store that is changed is made anew. */
static size_t sweep_damaged(struct test *t, struct sim_fault fault, int (*op)(struct work *w),
                            bool changes, size_t damaged)
{
    struct work w = {.t = t, .damaged = damaged};
    bool struck = true;

    for (fault.nth = 1; struck && t->failures < 5; fault.nth++) {
        if (!w.sim) {
            w.sim = sim_fs_new(fault.nth);
            make_small(t, &w.f, w.sim);
        }
        uint64_t before = sim_fs_struck(w.sim);
        w.f.err.text[0] = '\0';
        sim_fs_fault(w.sim, fault);
        int r = op(&w);
        struck = sim_fs_struck(w.sim) > before;
        sim_fs_clear_faults(w.sim);
        CHECK(t, struck ? r >= 0 || w.f.err.text[0] != '\0' : r == 0);
        if (!struck && r < 0)
            printf("# %s\n", w.f.err.text);
        if (changes) {
            sim_fs_free(w.sim);
            w.sim = NULL;
        }
    }
    CHECK(t, fault.nth > 4);
    sim_fs_free(w.sim);
    return w.n_files;
}

static void sweep(struct test *t, struct sim_fault fault, int (*op)(struct work *w), bool changes)
{
    (void)sweep_damaged(t, fault, op, changes, 0);
}

static const struct sim_fault once = {.op = SIM_ANY, .what = SIM_FAIL, .error = EIO},
                              ever = {.op = SIM_ANY,
                                      .what = SIM_FAIL,
                                      .error = EIO,
                                      .is_lasting = true},
                              change = {.op = SIM_CHANGE, .what = SIM_FAIL, .error = EIO},
                              few_files = {.op = SIM_OPEN, .what = SIM_FAIL, .error = EMFILE};

static void questions_outlive_it(struct test *t)
{
    sweep(t, once, open_and_ask, false);
    sweep(t, ever, open_and_ask, false);
    sweep(t, few_files, open_and_ask, false);
}

static void verifying_outlives_it(struct test *t)
{
    sweep(t, once, open_and_verify, false);
    sweep(t, ever, open_and_verify, false);
    sweep(t, few_files, open_and_verify, false);
}

static void copying_outlives_it(struct test *t)
{
    sweep(t, once, copy, false);
    sweep(t, ever, copy, false);
    sweep(t, few_files, copy, false);
}

static void repairing_outlives_it(struct test *t)
{
    sweep(t, once, repair, true);
    sweep(t, ever, repair, true);
    sweep(t, few_files, lose_and_repair, true);
    sweep(t, once, lose_and_repair, true);
    sweep(t, once, upgrade, true);
}

static void repairing_damage_outlives_it(struct test *t)
{
    for (size_t i = 0, n = 1; i < n && t->failures < 5; i++) {
        n = sweep_damaged(t, change, damage_and_repair, true, i);
        (void)sweep_damaged(t, few_files, damage_and_repair, true, i);
    }
}

static void upkeep_outlives_it(struct test *t)
{
    sweep(t, once, open_and_settle, true);
    sweep(t, few_files, open_and_settle, true);
}

static const struct test_case cases[] = {
    TEST(questions_outlive_it),  TEST(verifying_outlives_it),        TEST(copying_outlives_it),
    TEST(repairing_outlives_it), TEST(repairing_damage_outlives_it), TEST(upkeep_outlives_it),
};
TEST_MAIN(cases)
