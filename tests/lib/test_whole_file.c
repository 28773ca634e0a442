/* Files that are replaced whole, through every failure of the simulated disk. */
#include <errno.h>

#include "base/fs.h"
#include "lib/sim_fs.h"
#include "lib/test.h"

#define OLD "the old one"
#define NEW "the new one, which is longer"

/* What "d/f" holds: 'o'ld, 'n'ew, or '?' for anything else. */
static char holds(struct fs *fs)
{
    CLEANUP(buf_done) struct buf b = {0};

    if (fs_read_all(fs, "d/f", 1000, &b, NULL) < 0)
        return '?';
    return bytes_are(buf_bytes(&b), OLD) ? 'o' : bytes_are(buf_bytes(&b), NEW) ? 'n' : '?';
}

static struct sim_fs *with_old(struct test *t, uint64_t seed)
{
    struct sim_fs *sim = sim_fs_new(seed);
    struct fs *fs = sim_fs_fs(sim);

    CHECK_INT(t, fs_mkdir(fs, "d", NULL), 0);
    CHECK_INT(t, fs_sync_dir(fs, ".", NULL), 0);
    CHECK_INT(t, fs_write_whole(fs, "d/f", BYTES(OLD), NULL), 0);
    return sim;
}

/* How many changes a replacement takes: create, truncate, write, sync, rename, sync the name. */
#define N_CHANGES 6

static void after_a_failure_it_is_old_or_new(struct test *t)
{
    static const enum sim_fault_what whats[] = {SIM_FAIL, SIM_SHORT, SIM_TORN};

    for (uint64_t i = 0; i < N_CHANGES * ARRAY_SIZE(whats) * 20; i++) {
        uint64_t nth = i % N_CHANGES + 1;
        CLEANUP(sim_fs_freep) struct sim_fs *sim = with_old(t, i);
        struct fs *fs = sim_fs_fs(sim);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_CHANGE,
                                             .nth = nth,
                                             .what = whats[i % ARRAY_SIZE(whats)],
                                             .error = ENOSPC});
        CHECK_INT(t, fs_write_whole(fs, "d/f", BYTES(NEW), NULL), -ENOSPC);
        CHECK_INT(t, holds(fs), nth == N_CHANGES ? 'n' : 'o');
        CHECK_INT(t, fs_exists(fs, "d/f.tmp", NULL), 0);
        sim_fs_restart(sim);
        CHECK(t, holds(fs) == 'o' || (nth == N_CHANGES && holds(fs) == 'n'));
    }
}

static void after_a_crash_it_is_old_or_new(struct test *t)
{
    int n_old = 0, n_new = 0;

    for (uint64_t seed = 0; seed < N_CHANGES * 50; seed++) {
        CLEANUP(sim_fs_freep) struct sim_fs *sim = with_old(t, seed);
        struct fs *fs = sim_fs_fs(sim);
        sim_fs_fault(sim, (struct sim_fault){
                              .op = SIM_CHANGE, .nth = seed % N_CHANGES + 1, .what = SIM_CRASH});
        CHECK_INT(t, fs_write_whole(fs, "d/f", BYTES(NEW), NULL), -EIO);
        sim_fs_restart(sim);
        n_old += holds(fs) == 'o';
        n_new += holds(fs) == 'n';
    }
    CHECK_INT(t, n_old + n_new, N_CHANGES * 50);
    CHECK(t, n_old > 100 && n_new > 20);
}

static void once_it_returned_it_is_new(struct test *t)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        CLEANUP(sim_fs_freep) struct sim_fs *sim = with_old(t, seed);
        struct fs *fs = sim_fs_fs(sim);
        uint64_t before = sim_fs_count(sim, SIM_CHANGE);
        CHECK_INT(t, fs_write_whole(fs, "d/f", BYTES(NEW), NULL), 0);
        CHECK_INT(t, sim_fs_count(sim, SIM_CHANGE) - before, N_CHANGES);
        sim_fs_restart(sim);
        CHECK_INT(t, holds(fs), 'n');
    }
}

static void reading_it_whole_tells_what_failed(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = with_old(t, 1);
    CLEANUP(buf_done) struct buf b = {0};
    struct error err;

    sim_fs_fault(sim, (struct sim_fault){.op = SIM_OPEN, .nth = 1});
    CHECK_INT(t, fs_read_all(sim_fs_fs(sim), "d/f", 1000, &b, &err), -EIO);
    CHECK_STR(t, err.text, "could not open \"d/f\": Input/output error");
    sim_fs_fault(sim, (struct sim_fault){.op = SIM_SIZE, .nth = 1});
    CHECK_INT(t, fs_read_all(sim_fs_fs(sim), "d/f", 1000, &b, &err), -EIO);
    CHECK_STR(t, err.text, "could not get the size of \"d/f\": Input/output error");
    sim_fs_fault(sim, (struct sim_fault){.op = SIM_READ, .nth = 1});
    CHECK_INT(t, fs_read_all(sim_fs_fs(sim), "d/f", 1000, &b, &err), -EIO);
    CHECK_STR(t, err.text, "could not read \"d/f\": Input/output error");
    CHECK_INT(t, b.len, 0);
}

static const struct test_case cases[] = {
    TEST(after_a_failure_it_is_old_or_new),
    TEST(after_a_crash_it_is_old_or_new),
    TEST(once_it_returned_it_is_new),
    TEST(reading_it_whole_tells_what_failed),
};
TEST_MAIN(cases)
