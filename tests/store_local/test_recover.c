#include <dirent.h>
#include <sys/stat.h>

#include "store_local/store_fixture.h"

/* ---- The files of a store */

static size_t file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void write_byte(const char *path, long at, int c)
{
    FILE *file = fopen(path, "r+b");
    fseek(file, at, SEEK_SET);
    fputc(c, file);
    fclose(file);
}

static void spoil_byte(const char *path, long at)
{
    FILE *file = fopen(path, "rb");
    fseek(file, at, SEEK_SET);
    int c = fgetc(file);
    fclose(file);
    write_byte(path, at, c ^ 0x55);
}

/* The only file of a directory, or the number of them when there is not one. */
static unsigned one_file(struct fixture *f, const char *dir, char path[600])
{
    DIR *d = opendir(scratch_name(&f->dir, dir));
    unsigned n = 0;

    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, 600, "%s/%s/%s", f->dir.path, dir, e->d_name);
        n++;
    }
    closedir(d);
    return n;
}

static void append_ten(struct test *t, struct fixture *f)
{
    for (unsigned i = 0; i < 10; i++)
        CHECK_APPEND(t, f, make_profile(f->source, NOW_NS + i, i, 5), "a", NULL, STORE_STORED);
}

/* ---- WALs */

static void what_was_replayed_is_in_segments_before_anything_is_answered(struct test *t)
{
    struct fixture f;
    char path[600];
    fixture_init(t, &f);
    append_ten(t, &f);
    CHECK_INT(t, one_file(&f, "wal", path), 1);
    fixture_reopen(t, &f);
    CHECK(t, memtable_is_empty(local_of(f.store)->head));
    CHECK_INT(t, one_file(&f, "wal", path), 0);
    CHECK_INT(t, find_everything(t, &f).n, 10);
    fixture_done(&f);
}

static void a_torn_tail_is_dropped_and_told(struct test *t)
{
    struct fixture f;
    char path[600];
    fixture_init(t, &f);
    append_ten(t, &f);
    fixture_crash(&f);
    one_file(&f, "wal", path);
    CHECK_INT(t, truncate(path, (off_t)file_size(path) - 200), 0);
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK(t, strstr(f.log, "9 profiles") != NULL || strstr(f.log, "10 profiles") != NULL);
    CHECK(t, strstr(f.log, "an unfinished write of") != NULL);
    uint64_t n = find_everything(t, &f).n;
    CHECK(t, n == 9 || n == 10); /* the copies of its names came last */
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 100, 0, 5), "a", NULL, STORE_STORED);
    CHECK_INT(t, find_everything(t, &f).n, n + 1);
    fixture_done(&f);
}

/* Whatever byte of the WAL is bad, at most one profile goes, never what others refer to. */
static void a_bad_byte_costs_one_profile_at_most(struct test *t)
{
    struct fixture f;
    char path[600];
    fixture_init(t, &f);
    append_ten(t, &f);
    fixture_crash(&f);
    one_file(&f, "wal", path);
    size_t size = file_size(path);
    f.options.read_only = true; /* so that the file stays */
    for (size_t at = 0; at < size; at += 7) {
        spoil_byte(path, (long)at);
        CHECK_INT(t, fixture_open(&f), 0);
        struct everything e = find_everything(t, &f);
        CHECK(t, e.n >= 9);
        CHECK_INT(t, e.total, e.sample_total);
        if (e.n < 9)
            printf("# byte %zu: %s\n", at, f.log);
        fixture_close(&f);
        spoil_byte(path, (long)at);
    }
    f.options.read_only = false;
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK_INT(t, find_everything(t, &f).n, 10);
    fixture_done(&f);
}

static void lost_records_are_counted(struct test *t)
{
    struct fixture f;
    struct store_stat stat;
    char path[600];
    fixture_init(t, &f);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    fixture_crash(&f);
    one_file(&f, "wal", path);
    size_t size = file_size(path);
    /* All names, in both copies. */
    for (size_t at = 40; at < size; at++) {
        FILE *file = fopen(path, "rb");
        char text[4] = {0};
        fseek(file, (long)at, SEEK_SET);
        size_t n = fread(text, 1, 4, file);
        fclose(file);
        if (n == 4 && memcmp(text, "step", 4) == 0)
            write_byte(path, (long)at, 'X');
    }
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK(t, strstr(f.log, "is damaged") != NULL);
    CHECK(t, strstr(f.log, "could not be restored: a profile refers to names") != NULL);
    store_stat(f.store, &stat);
    CHECK(t, stat.lost_records > 0);
    CHECK_INT(t, stat.profiles, 0);
    /* The ids of what was lost are not given to others: all goes on. */
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS, 0, 5), "a", NULL, STORE_STORED);
    fixture_reopen(t, &f);
    CHECK_INT(t, find_everything(t, &f).sample_total, 60);
    fixture_done(&f);
}

static void reading_only_changes_nothing(struct test *t)
{
    struct fixture f;
    struct store_outcome out;
    char path[600];
    fixture_init(t, &f);
    append_ten(t, &f);
    fixture_crash(&f);
    f.options.read_only = true;
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK_INT(t, find_everything(t, &f).n, 10);
    CHECK_INT(t, append_profile(&f, make_profile(f.source, NOW_NS, 0, 1), "a", NULL, &out), -EROFS);
    CHECK_STR(t, f.err.text, "the store is open for reading only");
    CHECK_INT(t, f.fs->n_writes, 0);
    fixture_close(&f);
    CHECK_INT(t, one_file(&f, "wal", path), 1);
    CHECK_INT(t, one_file(&f, "seg", path), 0);
    fixture_done(&f);
}

static void recovery_waits_for_space(struct test *t)
{
    struct fixture f;
    struct store_outcome out;
    fixture_init(t, &f);
    append_ten(t, &f);
    fixture_crash(&f);
    f.fail_next_write = ENOSPC;
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK(t, strstr(f.log, "writes are refused until it can be") != NULL);
    CHECK_INT(t, find_everything(t, &f).n, 10);
    struct profile *p = make_profile(f.source, NOW_NS, 0, 5);
    CHECK_INT(t, append_profile(&f, p, "a", NULL, &out), -EAGAIN);
    f.fs->fail_write = 0;
    CHECK_INT(t, store_upkeep(f.store, UPKEEP_FLUSH, &f.err), 1);
    CHECK_APPEND(t, &f, p, "a", NULL, STORE_DUPLICATE);
    CHECK_INT(t, find_everything(t, &f).n, 10);
    fixture_done(&f);
}

/* ---- Opening */

static void one_process_at_a_time(struct test *t)
{
    struct fixture f, second;
    fixture_init(t, &f);
    second = f;
    CHECK_INT(t, fixture_open(&second), -EBUSY);
    CHECK(t, strstr(second.err.text, "could not open the store") != NULL);
    second.options.read_only = true; /* which needs no lock */
    CHECK_INT(t, fixture_open(&second), 0);
    fixture_close(&second);
    fixture_done(&f);
}

static void what_must_exist_is_not_made(struct test *t)
{
    struct fixture f;
    char path[600];
    fixture_init(t, &f);
    fixture_close(&f);
    unlink(scratch_name(&f.dir, "MANIFEST"));
    unlink(scratch_name(&f.dir, "MANIFEST.old"));
    f.options.must_exist = true;
    CHECK_INT(t, fixture_open(&f), -ENOENT);
    CHECK_STR(t, f.err.text,
              "could not open the store: there is no store here: MANIFEST is missing");
    f.options.must_exist = false;
    f.options.read_only = true;
    CHECK_INT(t, fixture_open(&f), -ENOENT);
    f.options.read_only = false;
    CHECK_INT(t, fixture_open(&f), 0); /* empty: a new one */
    CHECK(t, strstr(f.log, "new store: at most") != NULL);
    append_ten(t, &f);
    fixture_close(&f);
    unlink(scratch_name(&f.dir, "MANIFEST"));
    unlink(scratch_name(&f.dir, "MANIFEST.old"));
    CHECK_INT(t, fixture_open(&f), -EBADMSG);
    CHECK_STR(t, f.err.text,
              "could not open the store: MANIFEST is missing, but there are files in \"seg\"");
    CHECK_INT(t, one_file(&f, "seg", path), 1);
    fixture_done(&f);
}

static void what_nothing_names_is_deleted(struct test *t)
{
    static const char *const names[] = {"seg/tmp-0000000099", "seg/0000000098.seg",
                                        "dict/0000000097.dict"};
    struct fixture f;
    fixture_init(t, &f);
    append_ten(t, &f);
    fixture_close(&f);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        fclose(fopen(scratch_name(&f.dir, names[i]), "wb"));
    CHECK_INT(t, fixture_open(&f), 0);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        CHECK(t, access(scratch_name(&f.dir, names[i]), F_OK) != 0);
    CHECK_INT(t, find_everything(t, &f).n, 10);
    fixture_done(&f);
}

/* ---- Damaged tables */

static void a_damaged_dictionary_takes_nothing_more(struct test *t)
{
    struct fixture f;
    char path[600];
    fixture_init(t, &f);
    append_ten(t, &f);
    fixture_close(&f);
    CHECK_INT(t, one_file(&f, "dict", path), 1);
    spoil_byte(path, (long)file_size(path) / 2);
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 100, 0, 5), "a", NULL, STORE_STORED);
    CHECK(t, strstr(f.log, "some names of service \"checkout\" are lost") != NULL);
    CHECK_INT(t, local_of(f.store)->epochs.len, 2);
    fixture_crash(&f);
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK_INT(t, stored_profiles(&f), 11);
    fixture_done(&f);
}

static void ids_of_lost_series_are_not_given_away(struct test *t)
{
    struct fixture f;
    char path[600];
    fixture_init(t, &f);
    append_ten(t, &f);
    fixture_close(&f);
    CHECK_INT(t, one_file(&f, "series", path), 1);
    spoil_byte(path, (long)file_size(path) - 4);
    CHECK_INT(t, fixture_open(&f), 0);
    CHECK(t, strstr(f.log, "labels of some series of tenant \"default\" are lost") != NULL);
    CHECK_APPEND(t, &f, make_profile(f.source, NOW_NS + 100, 0, 5), "a", NULL, STORE_STORED);
    const struct memtable *head = local_of(f.store)->head;
    CHECK_INT(t, head->series.data[0].series, 4); /* 1 and 2 were there, 3 is the new group */
    fixture_done(&f);
}

static const struct test_case cases[] = {
    TEST(what_was_replayed_is_in_segments_before_anything_is_answered),
    TEST(a_torn_tail_is_dropped_and_told),
    TEST(a_bad_byte_costs_one_profile_at_most),
    TEST(lost_records_are_counted),
    TEST(reading_only_changes_nothing),
    TEST(recovery_waits_for_space),
    TEST(one_process_at_a_time),
    TEST(what_must_exist_is_not_made),
    TEST(what_nothing_names_is_deleted),
    TEST(a_damaged_dictionary_takes_nothing_more),
    TEST(ids_of_lost_series_are_not_given_away),
};
TEST_MAIN(cases)
