/* What the store is asked to do and cannot: it says why, and goes on. */
#include "segment/manifest_file.h"
#include "store_local/small_store.h"

static void plans_that_make_no_sense_are_refused(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    struct fixture f;

    make_small(t, &f, sim);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    CHECK_INT(t, ask_plan(&f, "", (struct store_plan){.from_ns = 5, .to_ns = 5}), -EINVAL);
    CHECK_STR(t, f.err.text, "the range is empty: it ends before it starts");
    CHECK_INT(t, ask_plan(&f, "", (struct store_plan){.step_ns = -1}), -EINVAL);
    CHECK_STR(t, f.err.text, "the step is negative");
    store_answer_free(NULL);
    fixture_close(&f);
}

static void who_only_reads_changes_nothing(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(2);
    struct store_policy policy = {0}, strange = {.max_age_ns = -1},
                        stranger = {.max_span_age_ns = -1};
    struct fixture f;

    make_small(t, &f, sim);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    CHECK_INT(t, store_set_policy(f.store, bytes_of("default"), &policy, &f.err), -EROFS);
    CHECK(t, strstr(f.err.text, "reading only") != NULL);
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), -EROFS);
    CHECK(t, strstr(f.err.text, "reading only") != NULL);
    CHECK_INT(t,
              store_erase(f.store, &(struct store_scope){bytes_of("default"), NULL, 0, 1}, &f.err),
              -EROFS);
    fixture_close(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    CHECK_INT(t, store_set_policy(f.store, bytes_of("default"), &strange, &f.err), -EINVAL);
    CHECK_INT(t, store_set_policy(f.store, bytes_of("default"), &stranger, &f.err), -EINVAL);
    CHECK(t, strstr(f.err.text, "less than nothing") != NULL);
    CHECK_INT(t, store_set_policy(f.store, bytes_of("nobody"), &policy, &f.err), -ENOENT);
    fixture_close(&f);
}

static uint64_t n_segments(struct fixture *f)
{
    struct store_stat stat;

    store_stat(f->store, &stat);
    return stat.segments;
}

static void a_tenant_keeps_to_its_size(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(3);
    struct store_policy tiny = {.max_bytes = 1};
    struct fixture f;

    make_small(t, &f, sim);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_upkeep(t, &f, UPKEEP_FLUSH);
    uint64_t before = n_segments(&f);
    CHECK(t, before > 2);
    CHECK_INT(t, store_set_policy(f.store, bytes_of("other"), &tiny, &f.err), 0);
    kept_upkeep(t, &f, UPKEEP_EXPIRE);
    CHECK(t, n_segments(&f) < before);
    CHECK(t, n_segments(&f) > 0);
    CHECK_INT(t, store_set_policy(f.store, bytes_of("default"), &tiny, &f.err), 0);
    kept_upkeep(t, &f, UPKEEP_EXPIRE);
    CHECK_INT(t, n_segments(&f), 0);
    CHECK_INT(t, find_everything(t, &f).n, 0);
    fixture_close(&f);
}

static void a_manifest_without_a_format_is_not_upgraded(struct test *t)
{
    static const uint8_t unended[] = {0x80};
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(4);
    struct findings found = {0};
    struct fixture f;
    bool in_doubt;

    make_small(t, &f, sim);
    CHECK_INT(t, manifest_file_write(sim_fs_fs(sim), (struct bytes){unended, 1}, &in_doubt, &f.err),
              0);
    CHECK_INT(t, local_upgrade(sim_fs_fs(sim), note_finding, &found, &f.err), -EBADMSG);
    CHECK_STR(t, f.err.text, "the manifest is damaged in its header");
}

static void no_store_is_made_of_what_others_left(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(5);
    struct fixture f;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, true), -ENOENT);
    f.options.must_exist = true;
    CHECK_INT(t, kept_open(&f, sim, false), -ENOENT);
    f.options.must_exist = false;
    make_small(t, &f, sim);
    CHECK_INT(t, fs_unlink(sim_fs_fs(sim), "MANIFEST", &f.err), 0);
    CHECK_INT(t, fs_unlink(sim_fs_fs(sim), "MANIFEST.old", &f.err), 0);
    CHECK(t, kept_open(&f, sim, false) < 0);
    CHECK(t, f.err.text[0] != '\0');
}

static void put(struct test *t, struct sim_fs *sim, const char *path)
{
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    struct error err = {{0}};

    CHECK_INT(t, fs_open(sim_fs_fs(sim), path, FS_WRITE | FS_CREATE, &file, &err), 0);
    CHECK_INT(t, fs_pwrite(file, "x", 1, 0, &err), 0);
}

static void strange_names_are_left_alone(struct test *t)
{
    static const char *const dirs[] = {"wal", "seg", "dict", "series"};
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(6);
    struct findings found;
    struct fixture f;
    char path[64];
    uint64_t size;

    make_small(t, &f, sim);
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        snprintf(path, sizeof(path), "%s/notes.txt", dirs[i]);
        put(t, sim, path);
        snprintf(path, sizeof(path), "%s/0000000001.d", dirs[i]);
        CHECK_INT(t, fs_mkdir(sim_fs_fs(sim), path, &f.err), 0);
    }
    put(t, sim, "wal/0000000001.bad");
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_upkeep(t, &f, UPKEEP_SETTLE);
    CHECK(t, find_everything(t, &f).n > 0);
    (void)kept_verify(&f, &found);
    fixture_close(&f);
    CHECK_INT(t, fs_path_size(sim_fs_fs(sim), "wal/notes.txt", &size, NULL), 0);
    found = (struct findings){0};
    CHECK_INT(t, local_repair(sim_fs_fs(sim), note_finding, &found, &f.err), 0);
    CHECK_INT(t, kept_open(&f, sim, true), 0);
    CHECK_INT(t, kept_verify(&f, &found), 0);
    fixture_close(&f);
}

static void hear(void *ctx, const char *text)
{
    if (strncmp(text, "upkeep: ", 8) == 0)
        atomic_store((atomic_bool *)ctx, true);
}

static void trouble_in_the_background_is_told(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(7);
    atomic_bool is_told = false;
    struct fixture f;

    make_small(t, &f, sim);
    f.clock.monotonic_ns += 3600 * SEC_NS;
    f.options.background = true;
    f.options.log = hear;
    f.options.log_ctx = &is_told;
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_fill(t, &f, "default", "late", NOW_NS, 1);
    sim_fs_fault(
        sim, (struct sim_fault){
                 .op = SIM_CREATE, .nth = 1, .what = SIM_FAIL, .error = EIO, .is_lasting = true});
    struct local *l = local_of(f.store);
    for (int i = 0; i < 500 && !atomic_load(&is_told); i++) {
        pthread_mutex_lock(&l->lock);
        l->flush_wanted = true;
        pthread_cond_broadcast(&l->wake);
        pthread_mutex_unlock(&l->lock);
        usleep(10000);
    }
    CHECK(t, atomic_load(&is_told));
    fixture_close(&f);
}

static const struct test_case cases[] = {
    TEST(plans_that_make_no_sense_are_refused), TEST(who_only_reads_changes_nothing),
    TEST(a_tenant_keeps_to_its_size),           TEST(a_manifest_without_a_format_is_not_upgraded),
    TEST(no_store_is_made_of_what_others_left), TEST(strange_names_are_left_alone),
    TEST(trouble_in_the_background_is_told),
};
TEST_MAIN(cases)
