#include "store_local/kept_store.h"

#define KEPT_PROFILES 84
#define KEPT_SPANS    5

static struct findings found;

static int repair(struct fixture *f, struct sim_fs *sim)
{
    found = (struct findings){0};
    f->err.text[0] = '\0';
    return local_repair(sim_fs_fs(sim), note_finding, &found, &f->err);
}

/* Repairs, and sees that the store is sound then. How many profiles and spans are left. */
struct left {
    uint64_t profiles, spans;
    int64_t total;
};

static struct left repaired(struct test *t, struct fixture *f, struct sim_fs *sim, const char *what)
{
    struct findings after;
    struct left left = {0};
    struct store_stat stat;

    int r = repair(f, sim);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s: %s\n# %s\n", what, f->err.text, found.text);
    r = kept_open(f, sim, true);
    CHECK_INT(t, r, 0);
    if (r < 0) {
        printf("# %s: %s\n", what, f->err.text);
        return left;
    }
    r = kept_verify(f, &after);
    CHECK_INT(t, r, 0);
    CHECK_STR(t, after.text, "");
    if (r < 0)
        printf("# %s\n", what);
    struct everything e = find_everything(t, f);
    store_stat(f->store, &stat);
    left.profiles = e.n;
    left.spans = stat.spans;
    left.total = e.sample_total;
    CHECK_INT(t, e.total, e.sample_total);
    fixture_close(f);
    return left;
}

static struct sim_fs *make_kept(struct test *t, struct fixture *f, uint64_t seed)
{
    struct sim_fs *sim = sim_fs_new(seed);

    kept_init(f);
    CHECK_INT(t, kept_open(f, sim, false), 0);
    kept_make(t, f);
    return sim;
}

static void a_sound_store_stays_as_it_is(struct test *t)
{
    struct fixture f;
    CLEANUP(sim_fs_freep) struct sim_fs *sim = make_kept(t, &f, 1);

    struct left left = repaired(t, &f, sim, "sound");
    CHECK_INT(t, found.n_bad, 0);
    CHECK_INT(t, left.profiles, KEPT_PROFILES);
    CHECK_INT(t, left.spans, KEPT_SPANS);
    left = repaired(t, &f, sim, "sound");
    CHECK_INT(t, found.n_bad, 0);
    CHECK_INT(t, left.profiles, KEPT_PROFILES);
}

static void without_any_manifest_all_is_found_again(struct test *t)
{
    struct fixture f;
    CLEANUP(sim_fs_freep) struct sim_fs *sim = make_kept(t, &f, 2);

    CHECK_INT(t, kept_open(&f, sim, true), 0);
    struct everything before = find_everything(t, &f);
    fixture_close(&f);
    CHECK_INT(t, fs_unlink(sim_fs_fs(sim), "MANIFEST", &f.err), 0);
    CHECK_INT(t, fs_unlink(sim_fs_fs(sim), "MANIFEST.old", &f.err), 0);
    struct left left = repaired(t, &f, sim, "no manifest");
    CHECK(t, strstr(found.text, "it is made anew from the files") != NULL);
    CHECK_INT(t, left.profiles, KEPT_PROFILES);
    CHECK_INT(t, left.total, before.sample_total);
    CHECK_INT(t, left.spans, KEPT_SPANS);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    CHECK_STR(t, local_of(f.store)->tenants.data[0].name, "default");
    CHECK_STR(t, local_of(f.store)->tenants.data[1].name, "other");
    CHECK_STR(t, local_of(f.store)->epochs.data[0]->service, "checkout");
    /* And it is written on. */
    kept_fill(t, &f, "default", "z", NOW_NS, 1);
    kept_upkeep(t, &f, UPKEEP_SETTLE);
    CHECK_INT(t, find_everything(t, &f).n, KEPT_PROFILES + 1);
    fixture_close(&f);
}

/* ---- Merged files and what they were merged of */

struct seg_list {
    struct fs *fs;
    const char *from, *to;
};

static int link_over(void *arg, const char *name, bool is_dir)
{
    struct seg_list *list = arg;
    char from[128], to[128];

    (void)is_dir;
    snprintf(from, sizeof(from), "%s/%.64s", list->from, name);
    snprintf(to, sizeof(to), "%s/%.64s", list->to, name);
    int r = fs_link(list->fs, from, to, NULL);
    return r == -EEXIST ? 0 : r;
}

static void an_input_and_its_output_are_not_both_counted(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(3);
    struct fs *fs = sim_fs_fs(sim);
    struct fixture f;
    int64_t hour = NOW_NS - NOW_NS % HOUR_NS - 3 * HOUR_NS;

    kept_init(&f);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    kept_fill(t, &f, "default", "a", hour, 10);
    kept_upkeep(t, &f, UPKEEP_FLUSH);
    kept_fill(t, &f, "default", "b", hour, 10);
    kept_upkeep(t, &f, UPKEEP_FLUSH);
    CHECK_INT(t, fs_mkdir(fs, "kept", &f.err), 0);
    struct seg_list away = {fs, "seg", "kept"}, back = {fs, "kept", "seg"};
    CHECK_INT(t, fs_list(fs, "seg", link_over, &away, &f.err), 0);
    kept_upkeep(t, &f, UPKEEP_SETTLE);
    fixture_crash(&f);
    CHECK_INT(t, fs_list(fs, "kept", link_over, &back, &f.err), 0);
    CHECK_INT(t, fs_unlink(fs, "MANIFEST", &f.err), 0);
    CHECK_INT(t, fs_unlink(fs, "MANIFEST.old", &f.err), 0);
    CHECK_INT(t, repaired(t, &f, sim, "input and output").profiles, 20);
    CHECK(t, strstr(found.text, "was merged into a newer one") != NULL);
}

static void the_manifest_before_is_good_enough(struct test *t)
{
    struct fixture f;
    CLEANUP(sim_fs_freep) struct sim_fs *sim = make_kept(t, &f, 4);

    CHECK_INT(t, fs_unlink(sim_fs_fs(sim), "MANIFEST", &f.err), 0);
    struct left left = repaired(t, &f, sim, "old manifest");
    CHECK(t, strstr(found.text, "the one before it is used") != NULL);
    CHECK_INT(t, left.profiles, KEPT_PROFILES);
    CHECK_INT(t, left.spans, KEPT_SPANS);
}

/* ---- Damage */

struct victim {
    char path[64];
    uint64_t size;
};

struct victims {
    struct fs *fs;
    const char *dir;
    struct victim files[64];
    size_t n;
};

static int note_victim(void *arg, const char *name, bool is_dir)
{
    struct victims *all = arg;
    struct victim *v = &all->files[all->n];

    if (is_dir || strcmp(name, "LOCK") == 0)
        return 0;
    snprintf(v->path, sizeof(v->path), "%s%s%.40s", all->dir, *all->dir ? "/" : "", name);
    if (fs_path_size(all->fs, v->path, &v->size, NULL) == 0)
        all->n++;
    return 0;
}

static void list_victims(struct sim_fs *sim, struct victims *all)
{
    static const char *const dirs[] = {"", "wal", "seg", "dict", "series"};

    *all = (struct victims){.fs = sim_fs_fs(sim)};
    for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
        all->dir = dirs[i];
        (void)fs_list(all->fs, *dirs[i] ? dirs[i] : ".", note_victim, all, NULL);
    }
}

static void any_changed_byte_can_be_repaired(struct test *t)
{
    struct fixture f;
    CLEANUP(sim_fs_freep) struct sim_fs *first = make_kept(t, &f, 5);
    struct victims all;
    unsigned n_silent = 0;

    list_victims(first, &all);
    for (size_t i = 0; i < all.n; i++) {
        for (uint64_t byte = i % 3; byte < all.files[i].size; byte += 1 + all.files[i].size / 12) {
            CLEANUP(sim_fs_freep) struct sim_fs *sim = make_kept(t, &f, 5);
            CHECK(t, sim_fs_flip(sim, all.files[i].path, byte * 8 + byte % 8));
            struct left left = repaired(t, &f, sim, all.files[i].path);
            /* What is lost is told, and the other file's tenant has all it had. */
            bool is_less = left.profiles < KEPT_PROFILES || left.spans < KEPT_SPANS;
            n_silent += is_less && found.n_bad == 0;
            if (is_less && found.n_bad == 0)
                printf("# byte %llu of %s\n", (unsigned long long)byte, all.files[i].path);
            if (strncmp(all.files[i].path, "MANIFEST", 8) == 0)
                CHECK(t, !is_less);
        }
    }
    CHECK_INT(t, n_silent, 0);
}

static void a_file_that_is_missing_costs_only_what_was_in_it(struct test *t)
{
    struct fixture f;
    CLEANUP(sim_fs_freep) struct sim_fs *first = make_kept(t, &f, 6);
    struct victims all;

    list_victims(first, &all);
    for (size_t i = 0; i < all.n; i++) {
        CLEANUP(sim_fs_freep) struct sim_fs *sim = make_kept(t, &f, 6);
        CHECK_INT(t, fs_unlink(sim_fs_fs(sim), all.files[i].path, &f.err), 0);
        struct left left = repaired(t, &f, sim, all.files[i].path);
        CHECK(t, left.profiles > 0 || strstr(all.files[i].path, "0000000001") != NULL ||
                     strncmp(all.files[i].path, "dict/", 5) == 0);
        if (strncmp(all.files[i].path, "seg/", 4) == 0) {
            CHECK(t, found.n_bad > 0);
            CHECK(t, strstr(found.text, all.files[i].path) != NULL);
        }
    }
}

static void what_is_taken_out_lies_in_lost(struct test *t)
{
    struct fixture f;
    CLEANUP(sim_fs_freep) struct sim_fs *sim = make_kept(t, &f, 7);
    struct fs *fs = sim_fs_fs(sim);

    CHECK_INT(t, fs_write_whole(fs, "seg/0000000777.seg", bytes_of("what"), &f.err), 0);
    CHECK_INT(t, fs_write_whole(fs, "wal/tmp-0000000778", bytes_of("what"), &f.err), 0);
    CHECK_INT(t, repaired(t, &f, sim, "strays").profiles, KEPT_PROFILES);
    CHECK_INT(t, fs_exists(fs, "lost/0000000777.seg", &f.err), 1);
    CHECK_INT(t, fs_exists(fs, "lost/tmp-0000000778", &f.err), 1);
    CHECK(t, strstr(found.text, "\"seg/0000000777.seg\" is not named by the manifest: "
                                "it is put aside") != NULL);
    CHECK_INT(t, kept_open(&f, sim, false), 0);
    CHECK_INT(t, repair(&f, sim), -EBUSY);
    fixture_close(&f);
}

/* A store whose manifest has a bad copy, with a segment and a dictionary that are damaged. */
static struct sim_fs *make_damaged(struct test *t, struct fixture *f)
{
    struct sim_fs *sim = make_kept(t, f, 8);
    struct victims all;

    list_victims(sim, &all);
    for (size_t i = 0; i < all.n; i++) {
        const char *path = all.files[i].path;
        bool is_hit = strncmp(path, "seg/", 4) == 0 || strcmp(path, "MANIFEST") == 0 ||
                      (strncmp(path, "dict/", 5) == 0 && i + 3 > all.n);
        if (is_hit)
            CHECK(t, sim_fs_flip(sim, path, all.files[i].size * 4 / 3));
    }
    return sim;
}

static void a_repair_that_fails_can_be_run_again(struct test *t)
{
    static const enum sim_fault_what faults[] = {SIM_CRASH, SIM_KILL, SIM_FAIL};
    struct fixture f;
    unsigned n_failed = 0;
    CLEANUP(sim_fs_freep) struct sim_fs *whole = make_damaged(t, &f);
    struct left want = repaired(t, &f, whole, "at once");

    CHECK(t, want.profiles > 0 && want.profiles < KEPT_PROFILES);
    for (uint64_t nth = 1; nth < 600; nth++) {
        CLEANUP(sim_fs_freep) struct sim_fs *sim = make_damaged(t, &f);
        sim_fs_fault(sim,
                     (struct sim_fault){.op = SIM_CHANGE, .nth = nth, .what = faults[nth % 3]});
        int r = repair(&f, sim);
        if (sim_fs_struck(sim) == 0)
            break;
        n_failed += r < 0;
        sim_fs_restart(sim);
        struct left left = repaired(t, &f, sim, "again");
        if (left.profiles != want.profiles)
            printf("# change %llu\n", (unsigned long long)nth);
        CHECK_INT(t, left.profiles, want.profiles);
        CHECK_INT(t, left.spans, want.spans);
    }
    CHECK(t, n_failed > 20);
}

static const struct test_case cases[] = {
    TEST(a_sound_store_stays_as_it_is),
    TEST(without_any_manifest_all_is_found_again),
    TEST(an_input_and_its_output_are_not_both_counted),
    TEST(the_manifest_before_is_good_enough),
    TEST(any_changed_byte_can_be_repaired),
    TEST(a_file_that_is_missing_costs_only_what_was_in_it),
    TEST(what_is_taken_out_lies_in_lost),
    TEST(a_repair_that_fails_can_be_run_again),
};
TEST_MAIN(cases)
