#include <pthread.h>

#include "segment/manifest_file.h"
#include "segment/varint.h"
#include "store_local/backup.h"
#include "store_local/kept_store.h"

/* Opens the copy and sees that it is sound. */
static void check_copy(struct test *t, struct fixture *f, struct sim_fs *copy)
{
    struct findings found;

    kept_init(f);
    int r = kept_open(f, copy, true);
    CHECK_INT(t, r, 0);
    if (r < 0) {
        printf("# %s\n", f->err.text);
        return;
    }
    CHECK_INT(t, kept_verify(f, &found), 0);
    CHECK_STR(t, found.text, "");
}

static void a_copy_holds_all_that_the_store_holds(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    CLEANUP(sim_fs_freep) struct sim_fs *copy = sim_fs_new(2);
    struct fixture f, g;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_make(t, &f);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    CHECK_INT(t, backup_copy(sim_fs_fs(sim), NULL, sim_fs_fs(copy), &f.err), 0);
    sim_fs_restart(copy); /* what was not synced is gone */
    check_copy(t, &g, copy);
    struct everything a = find_everything(t, &f), b = find_everything(t, &g);
    CHECK_INT(t, a.n, 84);
    CHECK_INT(t, b.n, a.n);
    CHECK_INT(t, b.sample_total, a.sample_total);
    struct store_stat s;
    store_stat(g.store, &s);
    CHECK_INT(t, s.spans, 5);
    CHECK_INT(t, s.tenants, 2);
    fixture_close(&g);
    /* And it can be written. */
    CHECK_INT(t, kept_open(&g, copy, false), 0);
    kept_fill(t, &g, "default", "new", NOW_NS, 1);
    CHECK_INT(t, find_everything(t, &g).n, a.n + 1);
    fixture_close(&g);
    fixture_close(&f);
}

static void refuses_a_directory_that_is_not_empty(struct test *t)
{
    struct fixture f;
    struct scratch to;

    fixture_init(t, &f);
    scratch_init(&to);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    CHECK_INT(t, store_backup(f.store, scratch_name(&to, "copy"), &f.err), 0);
    CHECK_INT(t, store_backup(f.store, scratch_name(&to, "copy"), &f.err), -ENOTEMPTY);
    CHECK(t, strstr(f.err.text, "is not empty") != NULL);
    CHECK_INT(t, store_backup(f.store, scratch_name(&to, "no/where"), &f.err), -ENOENT);
    scratch_done(&to);
    fixture_done(&f);
}

/* ---- Beside a writer */

struct writer {
    struct fixture *f;
    atomic_uint acknowledged;
    atomic_bool is_stopping;
    int result;
};

static void *write_all_the_time(void *arg)
{
    struct writer *w = arg;
    struct fixture *f = w->f;
    struct store_outcome outcome;

    while (!w->is_stopping && w->result >= 0) {
        unsigned n = w->acknowledged;
        int64_t start = NOW_NS + (int64_t)n * 1000;
        w->result =
            append_profile(f, make_profile(f->source, start, n % 50, 5), "a", NULL, &outcome);
        store_source_reset(f->source);
        if (w->result == 0 && outcome.verdict == STORE_STORED)
            w->acknowledged++;
        if (w->result >= 0 && n % 40 == 39)
            w->result =
                store_upkeep(f->store, n % 200 == 199 ? UPKEEP_SETTLE : UPKEEP_FLUSH, &f->err);
        if (n % 16 == 0)
            usleep(500);
    }
    return NULL;
}

struct seen_rows {
    uint64_t n;
    int64_t max_start;
};

static int see_row(void *ctx, const struct store_found *found)
{
    struct seen_rows *s = ctx;

    s->n++;
    if (found->start_ns > s->max_start)
        s->max_start = found->start_ns;
    return 0;
}

static void a_copy_taken_beside_a_writer_is_a_prefix(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(3);
    struct fixture f, g;
    pthread_t thread;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    struct writer w = {.f = &f};
    pthread_create(&thread, NULL, write_all_the_time, &w);
    for (unsigned i = 0; i < 20; i++) {
        CLEANUP(sim_fs_freep) struct sim_fs *copy = sim_fs_new(100 + i);
        while (w.acknowledged < 30 * i && w.result >= 0)
            usleep(200);
        unsigned before = w.acknowledged;
        struct error err = {0};
        int r = backup_copy(sim_fs_fs(sim), NULL, sim_fs_fs(copy), &err);
        unsigned after = w.acknowledged;
        CHECK_INT(t, r, 0);
        if (r < 0) {
            printf("# %s\n", err.text);
            continue;
        }
        sim_fs_restart(copy);
        check_copy(t, &g, copy);
        struct seen_rows seen = {.max_start = INT64_MIN};
        struct store_find find = {.tenant = bytes_of("default"), .to_ns = INT64_MAX};
        if (before > 0)
            CHECK_INT(t, store_profiles(g.store, &find, see_row, &seen, &g.err), 0);
        CHECK(t, seen.n >= before && seen.n <= after + 1);
        if (seen.n > 0) /* none is missing before the last one */
            CHECK_INT(t, seen.max_start, NOW_NS + ((int64_t)seen.n - 1) * 1000);
        fixture_close(&g);
    }
    w.is_stopping = true;
    pthread_join(thread, NULL);
    CHECK(t, w.result >= 0);
    if (w.result < 0)
        printf("# %s\n", f.err.text);
    fixture_close(&f);
}

static void verifying_beside_a_writer_finds_nothing(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(4);
    struct fixture f, g;
    struct findings found;
    pthread_t thread;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_init(&g);
    CHECK_INT(t, kept_open(&g, sim, true), 0);
    struct writer w = {.f = &f};
    pthread_create(&thread, NULL, write_all_the_time, &w);
    for (unsigned i = 0; i < 40; i++) {
        while (w.acknowledged < 20 * i && w.result >= 0)
            usleep(200);
        int r = kept_verify(&g, &found);
        CHECK_INT(t, r, 0);
        if (r < 0)
            printf("# %s\n# %s\n", g.err.text, found.text);
    }
    w.is_stopping = true;
    pthread_join(thread, NULL);
    fixture_close(&g);
    fixture_close(&f);
}

static void a_copy_that_fails_says_why_and_is_no_store(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(5);
    struct fixture f, g;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_make(t, &f);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    for (uint64_t nth = 1;; nth++) {
        CLEANUP(sim_fs_freep) struct sim_fs *copy = sim_fs_new(nth);
        struct error err = {0};
        sim_fs_fault(copy, (struct sim_fault){.op = SIM_CHANGE, .nth = nth, .what = SIM_FAIL});
        int r = backup_copy(sim_fs_fs(sim), NULL, sim_fs_fs(copy), &err);
        if (r == 0) {
            CHECK(t, nth > 40);
            break;
        }
        CHECK_INT(t, r, -EIO);
        CHECK(t, strncmp(err.text, "no backup: ", 11) == 0);
        sim_fs_restart(copy);
        kept_init(&g);
        r = kept_open(&g, copy, true);
        /* Only when the last sync failed may it be all there. */
        if (r == 0)
            CHECK_INT(t, find_everything(t, &g).n, 84);
        fixture_close(&g);
    }
    /* A file that is missing for good. */
    CLEANUP(sim_fs_freep) struct sim_fs *copy = sim_fs_new(7);
    struct error err = {0};
    CHECK_INT(t, fs_rename(sim_fs_fs(sim), "series/0000000001.series", "away", &err), 0);
    CHECK_INT(t, backup_copy(sim_fs_fs(sim), NULL, sim_fs_fs(copy), &err), -EAGAIN);
    CHECK(t, strstr(err.text, "faster than it could be copied, 20 times") != NULL);
    CHECK(t, strstr(err.text, "0000000001.series") != NULL);
    fixture_close(&f);
}

/* ---- Formats */

static void other_formats_are_refused_until_upgraded(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(6);
    CLEANUP(buf_done) struct buf content = {0};
    struct manifest_report report;
    struct findings found = {0};
    struct fixture f;
    bool in_doubt;

    kept_init(&f);
    CHECK_INT(t, local_upgrade(sim_fs_fs(sim), note_finding, &found, &f.err), -ENOENT);
    CHECK_STR(t, f.err.text, "there is no store here: MANIFEST is missing");
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    CHECK_INT(t, local_upgrade(sim_fs_fs(sim), note_finding, &found, &f.err), -EBUSY);
    fixture_close(&f);
    CHECK_INT(t, local_upgrade(sim_fs_fs(sim), note_finding, &found, &f.err), 0);
    CHECK_STR(t, found.text, "nothing to do: the store has format 1\n");

    CHECK_INT(t, manifest_file_read(sim_fs_fs(sim), &content, &report, &f.err), 0);
    content.data[0] = 0;
    CHECK_INT(t, manifest_file_write(sim_fs_fs(sim), buf_bytes(&content), &in_doubt, &f.err), 0);
    CHECK_INT(t, kept_open(&f, sim, false), -EPROTONOSUPPORT);
    CHECK(t, strstr(f.err.text, "the manifest has format 0, this program works with format 1: "
                                "run \"vesta store upgrade\"") != NULL);
    CHECK_INT(t, local_upgrade(sim_fs_fs(sim), note_finding, &found, &f.err), -EPROTONOSUPPORT);
    CHECK_STR(t, f.err.text,
              "the store has format 0, this program has no way from there to format 1");

    content.data[0] = 2;
    CHECK_INT(t, manifest_file_write(sim_fs_fs(sim), buf_bytes(&content), &in_doubt, &f.err), 0);
    CHECK_INT(t, kept_open(&f, sim, false), -EPROTONOSUPPORT);
    CHECK(t, strstr(f.err.text, "the manifest has format 2, this program knows up to 1") != NULL);
}

static const struct test_case cases[] = {
    TEST(a_copy_holds_all_that_the_store_holds),
    TEST(refuses_a_directory_that_is_not_empty),
    TEST(a_copy_taken_beside_a_writer_is_a_prefix),
    TEST(verifying_beside_a_writer_finds_nothing),
    TEST(a_copy_that_fails_says_why_and_is_no_store),
    TEST(other_formats_are_refused_until_upgraded),
};
TEST_MAIN(cases)
