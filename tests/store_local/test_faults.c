/*
 * One scripted life of a store, in which every operation on the disk fails in turn, in every way it
 * can, once and for ever. Afterwards, without faults, what was acknowledged is there once, and what
 * was not can be sent again.
 *
 *     test_faults        a sample of the operations
 *     test_faults full   all of them
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "store_local/local_internal.h"
#include "store_local/sim_model.h"

#define SAMPLES 12 /* of each kind, unless all are asked for */

static bool is_full;

static void append_some(struct sim_world *w, unsigned n)
{
    struct sim_entry *entries[4];

    if (!w->store)
        return;
    bool was_stopped = sim_is_dead(w);
    for (unsigned i = 0; i < n; i++) {
        entries[i] = sim_draw(w, w->clock.wall_ns - (int64_t)i * 1000000000);
        entries[i]->tenant = entries[0]->tenant;
    }
    (void)sim_append(w, entries, n);
    for (unsigned i = 0; i < n && was_stopped; i++) {
        if (entries[i]->state == SIM_ACKED)
            sim_fail(w, "a profile was taken after writing had stopped");
    }
}

static void upkeep(struct sim_world *w, enum store_upkeep what)
{
    if (w->store)
        (void)store_upkeep(w->store, what, &w->err);
}

static void pass(struct sim_world *w, int64_t ns)
{
    set_clock_advance(&w->clock, ns);
    w->max_now_ns += ns;
}

static void open_again(struct sim_world *w)
{
    sim_close(w);
    if (sim_open(w) < 0)
        sim_close(w);
}

/* Ingest, flush, merges, rollups, an erasure, retention, spans, closing, recovery. */
static void live(struct sim_world *w)
{
    open_again(w);
    for (unsigned hour = 0; hour < 3; hour++) {
        append_some(w, 3);
        if (w->store)
            (void)sim_append_spans(w, 2);
        pass(w, SIM_HOUR / 3);
        append_some(w, 2);
        upkeep(w, UPKEEP_FLUSH);
        pass(w, SIM_HOUR);
        upkeep(w, UPKEEP_STEP);
        upkeep(w, UPKEEP_STEP);
    }
    append_some(w, 2);
    if (w->store)
        (void)sim_erase(w, 0, "{pod!=\"pod-3\"}", w->clock.wall_ns - SIM_HOUR,
                        w->clock.wall_ns - SIM_HOUR / 2);
    upkeep(w, UPKEEP_SETTLE);
    append_some(w, 2);
    open_again(w);
    if (w->store && !sim_is_dead(w) && !local_of(w->store)->is_unsettled)
        sim_check_all(w, true);
    append_some(w, 3);
    pass(w, 31 * SIM_DAY);
    append_some(w, 2);
    upkeep(w, UPKEEP_EXPIRE);
    upkeep(w, UPKEEP_SETTLE);
    append_some(w, 1);
    sim_close(w);
}

static void open_sound(struct sim_world *w)
{
    w->struck = sim_fs_struck(w->sim);
    if (sim_open(w) < 0)
        sim_fail(w, "could not open again: %s", w->err.text);
    else if (local_of(w->store)->is_unsettled && store_upkeep(w->store, UPKEEP_FLUSH, &w->err) < 0)
        sim_fail(w, "could not write what was recovered: %s", w->err.text);
    if (!w->is_failed)
        sim_check_all(w, true);
}

static void come_back(struct sim_world *w)
{
    sim_fs_clear_faults(w->sim);
    if (sim_fs_is_down(w->sim))
        sim_fs_restart(w->sim);
    open_sound(w);
    for (size_t i = 0; i < w->n_entries && !w->is_failed; i++) {
        struct sim_entry *e = &w->entries[i];
        if (e->state == SIM_ABSENT && sim_append(w, &e, 1) < 0)
            sim_fail(w, "could not send again: %s", w->err.text);
    }
    if (!w->is_failed)
        sim_check_all(w, false);
    if (w->is_failed)
        return;
    sim_fs_crash(w->sim);
    sim_close(w);
    sim_fs_restart(w->sim);
    open_sound(w);
}

/* Whether all went well; *ret_struck is whether the fault did strike. */
static bool live_with(struct sim_fault fault, bool *ret_struck)
{
    struct sim_world w = {0};

    sim_world_init(&w, 77);
    if (fault.nth > 0)
        sim_fs_fault(w.sim, fault);
    if (fault.what == SIM_LIE)
        w.is_lossy = w.is_reported = true;
    live(&w);
    *ret_struck = sim_fs_struck(w.sim) > 0;
    if (fault.what == SIM_LIE) {
        sim_fs_crash(w.sim);
        sim_close(&w);
    }
    come_back(&w);
    if (fault.what == SIM_LIE && fault.is_lasting && !w.store)
        w.is_failed = false; /* nothing was ever on disk, and that is said */
    if (w.is_failed)
        printf("# %s number %llu, kind %d, error %d%s: %s\n", sim_op_name(fault.op),
               (unsigned long long)fault.nth, (int)fault.what, fault.error,
               fault.is_lasting ? ", for ever" : "", w.failure);
    bool is_fine = !w.is_failed;
    if (sim_fs_is_down(w.sim)) {
        sim_close(&w);
        sim_fs_restart(w.sim);
    }
    sim_world_done(&w);
    return is_fine;
}

static void sweep(struct test *t, struct sim_fault fault, uint64_t n)
{
    uint64_t step = is_full || n < SAMPLES ? 1 : n / SAMPLES;

    for (uint64_t i = 1; i <= n && t->failures < 5; i += step) {
        bool struck;
        fault.nth = i;
        CHECK(t, live_with(fault, &struck));
        if (!struck)
            break;
    }
}

/* How many there are in a life without faults. */
static void count(struct test *t, uint64_t counts[SIM_OP_COUNT])
{
    struct sim_world w = {0};

    sim_world_init(&w, 77);
    live(&w);
    for (int op = 0; op < SIM_OP_COUNT; op++)
        counts[op] = sim_fs_count(w.sim, (enum sim_op)op);
    CHECK(t, !w.is_failed);
    if (w.is_failed)
        printf("# %s\n", w.failure);
    sim_world_done(&w);
}

static void sweep_errors(struct test *t, enum sim_op op, enum sim_fault_what what,
                         const int *errors)
{
    uint64_t counts[SIM_OP_COUNT];

    count(t, counts);
    for (int k = 0; errors[k]; k++) {
        for (int lasts = 0; lasts < 2; lasts++)
            sweep(
                t,
                (struct sim_fault){.op = op, .what = what, .error = errors[k], .is_lasting = lasts},
                counts[op]);
    }
}

static const int disk_errors[] = {EIO, ENOSPC, EDQUOT, 0}, eio[] = {EIO, 0},
                 few_files[] = {EMFILE, EIO, ENOMEM, 0};

static void each_write_fails(struct test *t)
{
    sweep_errors(t, SIM_WRITE, SIM_FAIL, disk_errors);
    sweep_errors(t, SIM_WRITE, SIM_SHORT, disk_errors);
    sweep_errors(t, SIM_WRITE, SIM_TORN, disk_errors);
}

static void each_sync_fails(struct test *t)
{
    sweep_errors(t, SIM_SYNC, SIM_FAIL, disk_errors);
    sweep_errors(t, SIM_SYNC_DIR, SIM_FAIL, eio);
}

static void each_sync_lies(struct test *t)
{
    sweep_errors(t, SIM_SYNC, SIM_LIE, eio);
    sweep_errors(t, SIM_SYNC_DIR, SIM_LIE, eio);
}

static void each_change_of_a_name_fails(struct test *t)
{
    sweep_errors(t, SIM_RENAME, SIM_FAIL, disk_errors);
    sweep_errors(t, SIM_UNLINK, SIM_FAIL, eio);
    sweep_errors(t, SIM_LINK, SIM_FAIL, disk_errors);
    sweep_errors(t, SIM_MKDIR, SIM_FAIL, disk_errors);
    sweep_errors(t, SIM_TRUNCATE, SIM_FAIL, disk_errors);
    sweep_errors(t, SIM_CREATE, SIM_FAIL, disk_errors);
}

static void each_look_fails(struct test *t)
{
    sweep_errors(t, SIM_READ, SIM_FAIL, eio);
    sweep_errors(t, SIM_OPEN, SIM_FAIL, few_files);
    sweep_errors(t, SIM_SIZE, SIM_FAIL, eio);
    sweep_errors(t, SIM_LIST, SIM_FAIL, eio);
    sweep_errors(t, SIM_SPACE, SIM_FAIL, eio);
    sweep_errors(t, SIM_LOCK, SIM_FAIL, eio);
}

static void each_change_is_the_last(struct test *t)
{
    uint64_t counts[SIM_OP_COUNT];

    count(t, counts);
    sweep(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_CRASH}, counts[SIM_CHANGE]);
    sweep(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_KILL}, counts[SIM_CHANGE]);
}

static const struct test_case cases[] = {
    TEST(each_write_fails), TEST(each_sync_fails),
    TEST(each_sync_lies),   TEST(each_change_of_a_name_fails),
    TEST(each_look_fails),  TEST(each_change_is_the_last),
};

int main(int argc, char **argv)
{
    size_t n = sizeof(cases) / sizeof(*cases), n_failed = 0;

    is_full = argc > 1 && strcmp(argv[1], "full") == 0;
    printf("1..%zu\n", n);
    for (size_t i = 0; i < n; i++) {
        struct test t = {.name = cases[i].name};
        cases[i].run(&t);
        printf("%s %zu - %s\n", t.failures ? "not ok" : "ok", i + 1, t.name);
        n_failed += t.failures > 0;
    }
    return n_failed > 0;
}
