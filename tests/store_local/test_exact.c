#include "lib/sim_fs.h"
#include "segment/file_name.h"
#include "store_local/commit.h"
#include "store_local/series_table.h"
#include "store_local/store_fixture.h"
#include "store_local/version.h"

/*
 * Every profile counts once, whatever fails when: the schedules that the model of the store
 * (tests/model) found, on the store itself.
 */

/* A store on a simulated disk. */
static struct sim_fs *on_disk(struct test *t, struct fixture *f, uint64_t seed)
{
    struct sim_fs *sim = sim_fs_new(seed);

    fixture_init(t, f);
    fixture_close(f);
    f->disk = sim_fs_fs(sim);
    CHECK_INT(t, fixture_open(f), 0);
    return sim;
}

static void off_disk(struct fixture *f, struct sim_fs *sim)
{
    fixture_done(f);
    sim_fs_free(sim);
}

/* The process is killed: all that was written can be read, durable or not. */
static void kill_it(struct test *t, struct fixture *f, struct sim_fs *sim)
{
    sim_fs_kill(sim);
    fixture_crash(f);
    sim_fs_restart(sim);
    CHECK_INT(t, fixture_open(f), 0);
}

static void cut_power(struct test *t, struct fixture *f, struct sim_fs *sim)
{
    sim_fs_crash(sim);
    fixture_crash(f);
    sim_fs_restart(sim);
    CHECK_INT(t, fixture_open(f), 0);
}

static struct profile *profile_at(struct fixture *f, int64_t start_ns)
{
    return make_profile(f->source, start_ns, 0, 3);
}

/* ---- Failed syncs */

static void stops(struct test *t, struct fixture *f, const char *why)
{
    struct store_outcome out;
    CHECK_INT(t, append_profile(f, profile_at(f, NOW_NS + 9), "a", NULL, &out), -EROFS);
    CHECK_STR(t, f->err.text, why);
    CHECK(t, strstr(f->log, why) != NULL);
}

/* The sync of any file of a flush: names, series, segment, manifest. */
static void a_failed_sync_of_a_flush_stops_writing(struct test *t)
{
    for (uint64_t nth = 1; nth <= 8; nth++) {
        struct fixture f;
        struct sim_fs *sim = on_disk(t, &f, nth);
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
        sim_fs_fault(
            sim, (struct sim_fault){.op = nth % 2 ? SIM_SYNC : SIM_SYNC_DIR, .nth = (nth + 1) / 2});
        CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), -EIO);
        char want[sizeof(f.err.text) + 40];
        snprintf(want, sizeof(want), "writing has stopped: %.400s", f.err.text);
        stops(t, &f, want);
        CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), -EROFS);
        CHECK_INT(t, find_everything(t, &f).n, 1);
        cut_power(t, &f, sim);
        CHECK_INT(t, find_everything(t, &f).n, 1);
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_DUPLICATE);
        off_disk(&f, sim);
    }
}

static void what_is_synced_beside_a_failed_sync_does_not_count(struct test *t)
{
    struct fixture f;
    struct store_outcome out;
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
    f.fs->other_fails = 1;
    CHECK_INT(t, append_profile(&f, profile_at(&f, NOW_NS + 1), "a", NULL, &out), -EROFS);
    CHECK_STR(t, f.err.text, "writing has stopped: a sync failed");
    CHECK_INT(t, find_everything(t, &f).n, 1);
    stops(t, &f, "writing has stopped: a sync failed");
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), -EROFS);
    fixture_done(&f);
}

/* Nothing is published or unlinked, whenever in the flush it happens. */
static void a_flush_beside_a_failed_sync_is_not_published(struct test *t)
{
    for (int nth = 1; nth <= 8; nth++) {
        struct fixture f;
        fixture_init(t, &f);
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
        struct file_name log = file_name("wal", local_of(f.store)->last_wal, "wal");
        f.fs->other_fails = nth;
        CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), -EROFS);
        CHECK_STR(t, f.err.text, "writing has stopped: a sync failed");
        CHECK_INT(t, local_of(f.store)->version->segments.len, 0);
        CHECK_INT(t, find_everything(t, &f).n, 1);
        CHECK_INT(t, fs_exists(&f.fs->fs, log.text, &f.err), 1);
        fixture_reopen(t, &f);
        CHECK_INT(t, find_everything(t, &f).n, 1);
        fixture_done(&f);
    }
}

/* A write that failed in the middle, and the power goes. */
static void what_was_reported_as_failed_never_appears(struct test *t)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fixture f;
        struct store_outcome out;
        struct sim_fs *sim = on_disk(t, &f, seed);
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_WRITE,
                                             .nth = 1,
                                             .what = seed % 2 ? SIM_SHORT : SIM_TORN,
                                             .error = ENOSPC});
        CHECK_INT(t, append_profile(&f, profile_at(&f, NOW_NS + 1), "a", NULL, &out), -ENOSPC);
        cut_power(t, &f, sim);
        CHECK_INT(t, find_everything(t, &f).n, 1);
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + 1), "a", NULL, STORE_STORED);
        /* When what was written of it cannot be taken back for good, that is all. */
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_WRITE, .nth = 1, .error = ENOSPC});
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_SYNC, .nth = 1});
        CHECK_INT(t, append_profile(&f, profile_at(&f, NOW_NS + 2), "a", NULL, &out), -ENOSPC);
        CHECK_INT(t, append_profile(&f, profile_at(&f, NOW_NS + 2), "a", NULL, &out), -EROFS);
        CHECK_INT(t, find_everything(t, &f).n, 2);
        off_disk(&f, sim);
    }
}

/* ---- Opening */

static void what_was_replayed_is_durable(struct test *t)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct fixture f;
        struct store_outcome out;
        struct sim_fs *sim = on_disk(t, &f, seed);
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
        /* Written, but never synced: the process is killed before. */
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_SYNC, .nth = 1, .what = SIM_KILL});
        (void)append_profile(&f, profile_at(&f, NOW_NS + 1), "a", NULL, &out);
        kill_it(t, &f, sim);
        uint64_t n = find_everything(t, &f).n;
        CHECK_INT(t, n, 2);
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + 1), "a", NULL, STORE_DUPLICATE);
        cut_power(t, &f, sim);
        CHECK_INT(t, find_everything(t, &f).n, 2);
        off_disk(&f, sim);
    }
}

/* As many as fit no memory limit: what was replayed goes to segments on the way. */
static void fill_log(struct test *t, struct fixture *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        CHECK_APPEND(t, f, make_profile(f->source, NOW_NS + i, i, 80), "a", NULL, STORE_STORED);
        store_source_reset(f->source);
    }
}

static void recovery_keeps_to_the_memory_limit(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    fill_log(t, &f, 150);
    fixture_crash(&f);
    f.options.memory_limit = 96 << 10;
    CHECK_INT(t, fixture_open(&f), 0);
    struct local *l = local_of(f.store);
    CHECK(t, l->version->segments.len > 1);
    CHECK_INT(t, l->version->flushed_wal, l->last_wal);
    CHECK_INT(t, find_everything(t, &f).n, 150);
    fixture_crash(&f);
    /* With nowhere to go it stays in memory, until there is space. */
    f.options.memory_limit = 0;
    CHECK_INT(t, fixture_open(&f), 0);
    for (unsigned i = 0; i < 150; i++)
        CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + i, i, 80), "b", NULL, STORE_STORED);
    fixture_crash(&f);
    f.options.memory_limit = 96 << 10;
    f.fail_next_write = ENOSPC;
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK(t, strstr(f.log, "; recovery goes on in memory") != NULL);
    CHECK_INT(t, find_everything(t, &f).n, 300);
    f.fs->fail_write = 0;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    CHECK_INT(t, find_everything(t, &f).n, 300);
    CHECK(t, !local_of(f.store)->is_unsettled);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 300);
    fixture_done(&f);
}

static void recovery_may_stop_anywhere_and_begin_again(struct test *t)
{
    uint64_t struck = 1;

    for (uint64_t nth = 1; struck > 0; nth++) {
        struct fixture f;
        struct sim_fs *sim = on_disk(t, &f, nth);
        f.options.memory_limit = 32 << 20;
        fill_log(t, &f, 60);
        sim_fs_kill(sim);
        fixture_crash(&f);
        sim_fs_restart(sim);
        f.options.memory_limit = 32 << 10;
        sim_fs_fault(sim, (struct sim_fault){.op = SIM_CHANGE,
                                             .nth = nth,
                                             .what = nth % 2 ? SIM_CRASH : SIM_KILL});
        if (fixture_open(&f) < 0)
            f.store = NULL;
        struck = sim_fs_struck(sim);
        sim_fs_clear_faults(sim);
        cut_power(t, &f, sim);
        CHECK_INT(t, find_everything(t, &f).n, 60);
        off_disk(&f, sim);
    }
}

/* A manifest that could not be written again when the store was opened is written later. */
static void a_full_disk_at_opening_is_no_end(struct test *t)
{
    struct fixture f;
    struct store_outcome out;
    fixture_init(t, &f);
    fixture_close(&f);
    f.fail_next_write = ENOSPC;
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK_INT(t, append_profile(&f, profile_at(&f, NOW_NS), "a", NULL, &out), -EAGAIN);
    CHECK_STR(t, f.err.text, "what was recovered has not been written again yet");
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_STEP, &f.err), -ENOSPC);
    f.fs->fail_write = 0;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_STEP, &f.err), 0);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
    fixture_done(&f);
}

/* ---- Erasing */

static int store_erase_all(struct fixture *f, const char *pod)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;
    char text[64];

    snprintf(text, sizeof(text), "{pod=\"%s\"}", pod);
    if (selector_parse(bytes_of(text), &selector, &f->err) < 0)
        return -EINVAL;
    return store_erase(f->store, &(struct store_scope){bytes_of("default"), selector, 0, INT64_MAX},
                       &f->err);
}

static void erases_what_an_earlier_flush_left_behind(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
    f.fs->fail_write = ENOSPC;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), -ENOSPC);
    f.fs->fail_write = 0;
    CHECK(t, local_of(f.store)->frozen != NULL);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + 1), "a", NULL, STORE_STORED);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + 1), "b", NULL, STORE_STORED);
    CHECK_INT(t, store_erase_all(&f, "a"), 0);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    fixture_done(&f);
}

static void *append_again(void *arg)
{
    struct fixture *f = arg;
    static struct store_outcome out;
    CLEANUP(store_source_freep) struct store_source *source = NULL;
    struct fixture mine = {.store = f->store};

    if (store_source_new(f->store, 0, &source, &mine.err) < 0)
        return NULL;
    mine.source = source;
    if (append_profile(&mine, profile_at(&mine, NOW_NS), "a", NULL, &out) < 0)
        return NULL;
    return &out;
}

/* Sends the profile while nothing is committed, with the lock held, until it is in the queue. */
static void queue_again(struct test *t, struct fixture *f, pthread_t *thread)
{
    struct local *l = local_of(f->store);

    CHECK_INT(t, pthread_create(thread, NULL, append_again, f), 0);
    while (l->epochs.data[0]->pins == 0) {
        pthread_mutex_unlock(&l->lock);
        usleep(1000);
        pthread_mutex_lock(&l->lock);
    }
}

/* A copy that is found to be one only when it is linked: its record is in the WAL, alone. */
static void append_copy(struct test *t, struct fixture *f)
{
    struct local *l = local_of(f->store);
    pthread_t thread;
    void *out = NULL;

    pthread_mutex_lock(&l->lock);
    commit_pause(l);
    for (uint32_t id = 1; id <= series_table_len(l->tenants.data[0].series); id++)
        series_table_get(l->tenants.data[0].series, id)->max_start_ns = INT64_MIN;
    queue_again(t, f, &thread);
    for (uint32_t id = 1; id <= series_table_len(l->tenants.data[0].series); id++)
        series_table_get(l->tenants.data[0].series, id)->max_start_ns = NOW_NS;
    commit_resume(l);
    pthread_mutex_unlock(&l->lock);
    pthread_join(thread, &out);
    CHECK(t, out && ((struct store_outcome *)out)->verdict == STORE_DUPLICATE);
}

static void a_copy_in_the_log_does_not_bring_back_what_was_erased(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    append_copy(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    CHECK_INT(t, store_erase_all(&f, "a"), 0);
    CHECK_INT(t, find_everything(t, &f).n, 0);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 0);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 0);
    fixture_done(&f);
}

/* Nothing but a record in the queue refers to it. */
static void a_dictionary_lives_for_what_is_queued(struct test *t)
{
    struct fixture f;
    pthread_t thread;
    void *out = NULL;
    fixture_init(t, &f);
    struct local *l = local_of(f.store);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
    CHECK_INT(t, store_erase_all(&f, "a"), 0);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
    CHECK_INT(t, l->version->segments.len, 0);
    pthread_mutex_lock(&l->lock);
    commit_pause(l);
    queue_again(t, &f, &thread);
    l->tenants.data[0].services.data[0].open = NULL; /* as if it were old */
    pthread_mutex_unlock(&l->lock);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 0);
    CHECK_INT(t, l->version->epochs.len, 1);
    pthread_mutex_lock(&l->lock);
    commit_resume(l);
    pthread_mutex_unlock(&l->lock);
    pthread_join(thread, &out);
    CHECK(t, out && ((struct store_outcome *)out)->verdict == STORE_STORED);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 0);
    fixture_reopen(t, &f);
    struct everything e = find_everything(t, &f);
    CHECK(t, e.n == 1 && e.n_samples == 3);
    CHECK_INT(t, store_erase_all(&f, "a"), 0);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
    local_of(f.store)->tenants.data[0].services.data[0].open = NULL;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 1);
    CHECK_INT(t, local_of(f.store)->epochs.len, 0);
    fixture_done(&f);
}

/* Before and after what was erased has left its file. */
static void what_was_erased_can_be_stored_again_once(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    for (int settles = 0; settles < 2; settles++) {
        for (int i = 0; i < 3; i++) {
            CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
            CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_DUPLICATE);
            if (i > 0)
                CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
            if (i > 1)
                CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
            fixture_reopen(t, &f);
            CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_DUPLICATE);
            CHECK_INT(t, find_everything(t, &f).n, 1);
            CHECK_INT(t, store_erase_all(&f, "a"), 0);
            if (settles)
                CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
            CHECK_INT(t, find_everything(t, &f).n, 0);
        }
    }
    fixture_done(&f);
}

/* ---- Retention */

static void advance(struct fixture *f, int64_t ns)
{
    f->clock.wall_ns += ns;
    f->clock.monotonic_ns += ns;
}

static void reject_old(struct test *t, struct fixture *f, int64_t start_ns, const char *why)
{
    struct store_outcome out = {0};
    CHECK_INT(t, append_profile(f, profile_at(f, start_ns), "a", NULL, &out), 0);
    CHECK_INT(t, out.verdict, STORE_REJECTED);
    CHECK_STR(t, out.why.text, why);
}

static void what_was_removed_stays_away_when_the_clock_goes_back(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    f.options.max_age_ns = 10 * DAY_NS;
    fixture_reopen(t, &f);
    for (int64_t i = 0; i < 3; i++)
        CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + i * 60 * SEC_NS), "a", NULL, STORE_STORED);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    /* The first two expire; their file stays, for the third is in it. */
    advance(&f, 10 * DAY_NS + 61 * SEC_NS);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 1);
    CHECK_INT(t, local_of(f.store)->version->segments.len, 1);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    f.clock.wall_ns = NOW_NS + DAY_NS;
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    reject_old(t, &f, NOW_NS,
               "the profile is from 1m1s before the oldest that are kept: older ones were removed "
               "by retention");
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + 120 * SEC_NS), "a", NULL, STORE_DUPLICATE);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 0);
    /* Nor by what the next flush and merge write. */
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + 1000 * SEC_NS), "b", NULL, STORE_STORED);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 2);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
    CHECK_INT(t, find_everything(t, &f).n, 2);
    fixture_done(&f);
}

static int count_span(void *ctx, const struct store_span *span)
{
    *(unsigned *)ctx += span->start_ns > 0;
    return 0;
}

static unsigned n_spans(struct test *t, struct fixture *f)
{
    struct store_span_find find = {.tenant = bytes_of("default"), .to_ns = INT64_MAX};
    unsigned n = 0;

    CHECK_INT(t, store_spans(f->store, &find, count_span, &n, &f->err), 0);
    return n;
}

static void spans_that_were_removed_stay_away_too(struct test *t)
{
    struct store_span spans[2] = {
        {.service = BYTES("a"), .trace_id = {1}, .span_id = {1}, .start_ns = NOW_NS},
        {.service = BYTES("a"),
         .trace_id = {1},
         .span_id = {2},
         .start_ns = NOW_NS + 120 * SEC_NS}};
    struct fixture f;
    fixture_init(t, &f);
    CHECK_INT(t, store_append_spans(f.store, bytes_of("default"), spans, 2, &f.err), 0);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    CHECK_INT(t, n_spans(t, &f), 2);
    advance(&f, 7 * DAY_NS + 61 * SEC_NS);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 1);
    CHECK_INT(t, n_spans(t, &f), 1);
    f.clock.wall_ns = NOW_NS + DAY_NS;
    fixture_reopen(t, &f);
    CHECK_INT(t, n_spans(t, &f), 1);
    CHECK_INT(t, store_append_spans(f.store, bytes_of("default"), spans, 2, &f.err), 0);
    CHECK_INT(t, n_spans(t, &f), 1);
    /* Profiles have a floor of their own. */
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
    fixture_done(&f);
}

static void a_clock_that_was_wrong_for_long_keeps_nothing_new_out(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS), "a", NULL, STORE_STORED);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 0);
    f.clock.wall_ns += 3650 * DAY_NS;
    for (int i = 0; i < 20; i++) {
        CHECK(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err) >= 0);
        advance(&f, MINUTE_NS);
    }
    CHECK_INT(t, find_everything(t, &f).n, 0);
    f.clock.wall_ns -= 3650 * DAY_NS;
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).n, 0);
    reject_old(t, &f, NOW_NS,
               "the profile is from 1ns before the oldest that are kept: older ones were removed "
               "by retention");
    CHECK_APPEND(t, &f, profile_at(&f, NOW_NS + 1), "a", NULL, STORE_STORED);
    fixture_done(&f);
}

/* An hour of which a late part would be left looks as if it were whole. */
static void by_size_whole_windows_go(struct test *t)
{
    struct fixture f;
    fixture_init(t, &f);
    int64_t hour = NOW_NS - NOW_NS % HOUR_NS - 5 * HOUR_NS;
    for (int64_t i = 0; i < 6; i++) { /* two files of each of three hours */
        CHECK_APPEND(t, &f, profile_at(&f, hour + i / 2 * HOUR_NS + (i % 2) * 60 * SEC_NS), "a",
                     NULL, STORE_STORED);
        CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    }
    struct local *l = local_of(f.store);
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->version->segments.len; i++)
        bytes += l->version->segments.data[i]->bytes;
    CHECK_INT(t, l->version->segments.len, 6);
    l->tenants.data[0].policy.max_bytes = bytes - 1;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 1);
    CHECK_INT(t, l->version->segments.len, 4);
    CHECK_INT(t, find_everything(t, &f).n, 4);
    reject_old(t, &f, hour + 1800 * SEC_NS,
               "the profile is from 30m before the oldest that are kept: older ones were "
               "removed by retention");
    /* Of the newest window only what must: more is to come. */
    l->tenants.data[0].policy.max_bytes = l->version->segments.data[3]->bytes;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_EXPIRE, &f.err), 1);
    CHECK_INT(t, find_everything(t, &f).n, 1);
    CHECK_APPEND(t, &f, profile_at(&f, hour + 2 * HOUR_NS + 61 * SEC_NS), "a", NULL, STORE_STORED);
    fixture_done(&f);
}

/* ---- Moments */

/* The name of the only stack of the last moment of all that is stored. */
static void last_stack(struct test *t, struct fixture *f, enum plan_instant instant, char *ret,
                       size_t size)
{
    CLEANUP(selector_freep) struct selector *selector = NULL;
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new(1 << 26);

    CHECK_INT(t, selector_parse(bytes_of("cpu"), &selector, &f->err), 0);
    struct store_plan plan = {.tenant = bytes_of("default"),
                              .selector = selector,
                              .to_ns = INT64_MAX,
                              .what = PLAN_STACKS,
                              .instant = instant};
    CHECK_INT(t, store_aggregate(f->store, &plan, answer, &f->err), 0);
    CHECK_INT(t, answer->cells.len, 1);
    *ret = '\0';
    if (answer->cells.len != 1)
        return;
    const struct profile *p = answer->cells.data[0].profile;
    CHECK_INT(t, profile_total(p, 0), 5);
    for (uint32_t i = 0; i < p->dict->strings.len; i++) {
        struct bytes s = dict_text(p->dict, i);
        if (s.len == 2 && s.data[0] == 'x')
            snprintf(ret, size, "%.*s", (int)s.len, (const char *)s.data);
    }
}

static void append_moment(struct test *t, struct fixture *f, char name, const uint8_t *id)
{
    struct label labels[] = {test_label(LABEL_SERVICE, "checkout")};
    struct profile *p = profile_set_add(f->source->set);
    char text[] = {'x', name, '\0'};
    struct function function = {.name = dict_cstring(p->dict, text)};
    struct store_outcome out = {0};

    profile_add_ctype(p, "cpu", "nanoseconds");
    p->time_unix_ns = NOW_NS;
    profile_add_value(p, dict_frame(p->dict, 0, function, 1, 0, 0), 5);
    struct store_incoming in = {
        .profile = p, .labels = labels, .n_labels = 1, .is_instant = true, .has_id = id != NULL};
    if (id)
        memcpy(in.id, id, sizeof(in.id));
    CHECK_INT(t, store_append(f->source, bytes_of("default"), &in, 1, &out, &f->err), 0);
    CHECK_INT(t, out.verdict, STORE_STORED);
}

static void of_equal_moments_the_same_one_is_the_last(struct test *t)
{
    static const uint8_t ids[3][16] = {{1, 9}, {3, 1}, {2, 5}};
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    char first[8] = "", now[8];

    for (int has_ids = 0; has_ids < 2; has_ids++) {
        first[0] = '\0';
        for (size_t k = 0; k < 2 * ARRAY_SIZE(orders); k++) {
            struct fixture f;
            enum plan_instant instant = k % 2 ? INSTANT_PEAK : INSTANT_LAST;
            fixture_init(t, &f);
            for (int i = 0; i < 3; i++) {
                int which = orders[k / 2][i];
                append_moment(t, &f, (char)('a' + which), has_ids ? ids[which] : NULL);
                last_stack(t, &f, instant, now, sizeof(now));
                if (i == 0) /* files as well as memory */
                    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
            }
            if (first[0] == '\0')
                memcpy(first, now, sizeof(first));
            CHECK(t, first[0] == 'x');
            CHECK_STR(t, now, first);
            CHECK_INT(t, store_upkeep(f.store, UPKEEP_SETTLE, &f.err), 0);
            last_stack(t, &f, instant, now, sizeof(now));
            CHECK_STR(t, now, first);
            fixture_done(&f);
        }
    }
}

static const struct test_case cases[] = {
    TEST(a_failed_sync_of_a_flush_stops_writing),
    TEST(what_is_synced_beside_a_failed_sync_does_not_count),
    TEST(a_flush_beside_a_failed_sync_is_not_published),
    TEST(what_was_reported_as_failed_never_appears),
    TEST(what_was_replayed_is_durable),
    TEST(recovery_keeps_to_the_memory_limit),
    TEST(recovery_may_stop_anywhere_and_begin_again),
    TEST(a_full_disk_at_opening_is_no_end),
    TEST(erases_what_an_earlier_flush_left_behind),
    TEST(a_copy_in_the_log_does_not_bring_back_what_was_erased),
    TEST(a_dictionary_lives_for_what_is_queued),
    TEST(what_was_erased_can_be_stored_again_once),
    TEST(what_was_removed_stays_away_when_the_clock_goes_back),
    TEST(spans_that_were_removed_stay_away_too),
    TEST(a_clock_that_was_wrong_for_long_keeps_nothing_new_out),
    TEST(by_size_whole_windows_go),
    TEST(of_equal_moments_the_same_one_is_the_last),
};
TEST_MAIN(cases)
