#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "lib/scratch.h"
#include "lib/test.h"

/* A fresh directory, real, removed with all that is in it. */
struct place {
    struct scratch scratch;
    struct fs *fs;
};

static void place_init(struct place *p)
{
    struct error err;

    scratch_init(&p->scratch);
    if (fs_real_new(p->scratch.path, &p->fs, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

static void place_done(struct place *p)
{
    fs_free(p->fs);
    scratch_done(&p->scratch);
}

#define PLACE(p)                                                                                   \
    CLEANUP(place_done) struct place p;                                                            \
    place_init(&p)

/* The text begins with `before`, has the scratch directory next, and ends with `after`. */
static bool text_is(const struct place *p, const struct error *err, const char *before,
                    const char *after)
{
    char want[512];

    snprintf(want, sizeof(want), "%s \"%s/%s", before, p->scratch.path, after);
    if (strcmp(err->text, want) == 0)
        return true;
    printf("# the text is: %s\n", err->text);
    return false;
}

static struct fs_file *make(struct test *t, struct place *p, const char *path, const char *text)
{
    struct fs_file *file = NULL;
    struct error err;

    if (fs_open(p->fs, path, FS_WRITE | FS_CREATE, &file, &err) < 0 ||
        fs_pwrite(file, text, strlen(text), 0, &err) < 0) {
        printf("# %s\n", err.text);
        t->failures++;
    }
    return file;
}

static void content_is(struct test *t, struct place *p, const char *path, const char *want)
{
    CLEANUP(buf_done) struct buf b = {0};
    struct error err = {""};

    CHECK_INT(t, fs_read_all(p->fs, path, 1 << 20, &b, &err), 0);
    CHECK_STR(t, err.text, "");
    CHECK_STR(t, buf_cstr(&b), want);
}

static void writes_and_reads_at_any_offset(struct test *t)
{
    PLACE(p);
    CLEANUP(fs_closep) struct fs_file *file = make(t, &p, "a", "hello");
    struct error err;
    char got[16] = "";
    uint64_t size;

    CHECK_INT(t, fs_pwrite(file, "XY", 2, 7, &err), 0);
    CHECK_INT(t, fs_size(file, &size, &err), 0);
    CHECK_INT(t, size, 9);
    CHECK_INT(t, fs_pread(file, got, sizeof(got), 0, &err), 9);
    CHECK(t, memcmp(got, "hello\0\0XY", 9) == 0);
    CHECK_INT(t, fs_pread(file, got, 3, 2, &err), 3);
    CHECK(t, memcmp(got, "llo", 3) == 0);
    CHECK_INT(t, fs_pread(file, got, sizeof(got), 9, &err), 0);
    CHECK_INT(t, fs_pread(file, got, sizeof(got), 1000, &err), 0);
    CHECK_INT(t, fs_truncate(file, 4, &err), 0);
    CHECK_INT(t, fs_sync(file, &err), 0);
    CHECK_INT(t, fs_path_size(p.fs, "a", &size, &err), 0);
    CHECK_INT(t, size, 4);
    content_is(t, &p, "a", "hell");
}

static void opening_says_what_is_wrong(struct test *t)
{
    PLACE(p);
    struct fs_file *untouched = (struct fs_file *)(uintptr_t)8, *file = untouched;
    struct error err;

    CHECK_INT(t, fs_open(p.fs, "none", FS_READ, &file, &err), -ENOENT);
    CHECK(t, text_is(&p, &err, "could not open", "none\": No such file or directory"));
    fs_close(make(t, &p, "there", "x"));
    CHECK_INT(t, fs_open(p.fs, "there", FS_WRITE | FS_CREATE | FS_EXCLUSIVE, &file, &err), -EEXIST);
    CHECK(t, text_is(&p, &err, "could not create", "there\": File exists"));
    CHECK_INT(t, fs_open(p.fs, "../up", FS_READ, &file, &err), -EINVAL);
    CHECK(t, text_is(&p, &err, "could not open", "../up\": Invalid argument"));
    CHECK_INT(t, symlink("there", scratch_name(&p.scratch, "soft")), 0);
    CHECK_INT(t, fs_open(p.fs, "soft", FS_READ, &file, &err), -ELOOP);
    CHECK(t, file == untouched);
    fs_close(NULL);
}

static void what_is_no_file_is_not_opened(struct test *t)
{
    PLACE(p);
    struct fs_file *file;
    struct error err;

    CHECK_INT(t, mkfifo(scratch_name(&p.scratch, "pipe"), 0600), 0);
    CHECK_INT(t, mkdir(scratch_name(&p.scratch, "dir"), 0700), 0);
    CHECK_INT(t, fs_open(p.fs, "pipe", FS_READ, &file, &err), -EBADMSG);
    CHECK(t, text_is(&p, &err, "could not open", "pipe\": it is not a file"));
    CHECK_INT(t, fs_open(p.fs, "pipe", FS_WRITE, &file, &err), -EBADMSG);
    CHECK_INT(t, fs_open(p.fs, "dir", FS_READ, &file, &err), -EBADMSG);
}

static void a_path_may_not_leave_the_root(struct test *t)
{
    PLACE(p);
    uint64_t size;

    CHECK(t, fs_path_is_sound("."));
    CHECK(t, fs_path_is_sound("a"));
    CHECK(t, fs_path_is_sound("a/..b/c..d/e.."));
    CHECK(t, !fs_path_is_sound(""));
    CHECK(t, !fs_path_is_sound("/a"));
    CHECK(t, !fs_path_is_sound(".."));
    CHECK(t, !fs_path_is_sound("a/.."));
    CHECK(t, !fs_path_is_sound("a/../b"));
    CHECK_INT(t, fs_rename(p.fs, "../a", "b", NULL), -EINVAL);
    CHECK_INT(t, fs_rename(p.fs, "a", "../b", NULL), -EINVAL);
    CHECK_INT(t, fs_link(p.fs, "a", "../b", NULL), -EINVAL);
    CHECK_INT(t, fs_unlink(p.fs, "/etc/x", NULL), -EINVAL);
    CHECK_INT(t, fs_mkdir(p.fs, "../x", NULL), -EINVAL);
    CHECK_INT(t, fs_sync_dir(p.fs, "..", NULL), -EINVAL);
    CHECK_INT(t, fs_path_size(p.fs, "..", &size, NULL), -EINVAL);
    CHECK_INT(t, fs_list(p.fs, "..", NULL, NULL, NULL), -EINVAL);
}

static void a_file_open_for_reading_is_not_written(struct test *t)
{
    PLACE(p);
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    struct error err;

    fs_close(make(t, &p, "a", "abc"));
    CHECK_INT(t, fs_open(p.fs, "a", FS_READ, &file, &err), 0);
    CHECK_INT(t, fs_pwrite(file, "x", 1, 0, &err), -EBADF);
    CHECK(t, text_is(&p, &err, "could not write", "a\": Bad file descriptor"));
    CHECK_INT(t, fs_truncate(file, 0, &err), -EINVAL);
    CHECK(t, text_is(&p, &err, "could not truncate", "a\": Invalid argument"));
    content_is(t, &p, "a", "abc");
}

static void a_file_size_limit_is_an_error_with_a_name(struct test *t)
{
    PLACE(p);
    CLEANUP(fs_closep) struct fs_file *file = make(t, &p, "a", "");
    struct rlimit old, small;
    struct error err;
    char bytes[100] = "";

    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 64;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int r = fs_pwrite(file, bytes, sizeof(bytes), 0, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_INT(t, r, -EFBIG);
    CHECK(t, text_is(&p, &err, "could not write", "a\": File too large"));
}

static void names_change_at_once(struct test *t)
{
    PLACE(p);
    struct error err;

    fs_close(make(t, &p, "old", "1"));
    fs_close(make(t, &p, "new", "2"));
    CHECK_INT(t, fs_rename(p.fs, "new", "old", &err), 0);
    content_is(t, &p, "old", "2");
    CHECK_INT(t, fs_exists(p.fs, "new", &err), 0);
    CHECK_INT(t, fs_exists(p.fs, "old", &err), 1);
    CHECK_INT(t, fs_exists(p.fs, "old/below", &err), -ENOTDIR);
    CHECK_INT(t, fs_rename(p.fs, "none", "old", &err), -ENOENT);
    CHECK(t, text_is(&p, &err, "could not rename", "none\" to \"old\": No such file or directory"));
    CHECK_INT(t, fs_link(p.fs, "old", "more", &err), 0);
    CHECK_INT(t, fs_link(p.fs, "old", "more", &err), -EEXIST);
    CHECK(t, text_is(&p, &err, "could not link", "old\" as \"more\": File exists"));
    CHECK_INT(t, fs_unlink(p.fs, "old", &err), 0);
    content_is(t, &p, "more", "2");
    CHECK_INT(t, fs_unlink(p.fs, "old", &err), -ENOENT);
    CHECK(t, text_is(&p, &err, "could not remove", "old\": No such file or directory"));
}

static void a_removed_file_is_readable_while_it_is_open(struct test *t)
{
    PLACE(p);
    CLEANUP(fs_closep) struct fs_file *file = make(t, &p, "a", "abc");
    char got[3];

    CHECK_INT(t, fs_unlink(p.fs, "a", NULL), 0);
    CHECK_INT(t, fs_pread(file, got, 3, 0, NULL), 3);
    CHECK(t, memcmp(got, "abc", 3) == 0);
}

static void a_directory_may_be_there_already(struct test *t)
{
    PLACE(p);
    struct error err;

    CHECK_INT(t, fs_mkdir(p.fs, "d", &err), 0);
    CHECK_INT(t, fs_mkdir(p.fs, "d", &err), 0);
    CHECK_INT(t, fs_mkdir(p.fs, "d/e", &err), 0);
    CHECK_INT(t, fs_sync_dir(p.fs, "d", &err), 0);
    CHECK_INT(t, fs_sync_dir(p.fs, ".", &err), 0);
    fs_close(make(t, &p, "f", ""));
    CHECK_INT(t, fs_mkdir(p.fs, "f", &err), -EEXIST);
    CHECK(t, text_is(&p, &err, "could not make the directory", "f\": File exists"));
    CHECK_INT(t, fs_mkdir(p.fs, "none/d", &err), -ENOENT);
    CHECK_INT(t, fs_sync_dir(p.fs, "none", &err), -ENOENT);
    CHECK(t, text_is(&p, &err, "could not sync", "none\": No such file or directory"));
}

static int add_name(void *arg, const char *name, bool is_dir)
{
    buf_addf(arg, "%s%s ", name, is_dir ? "/" : "");
    return 0;
}

static int stop_at_b(void *arg, const char *name, bool is_dir)
{
    (void)arg;
    (void)is_dir;
    return strcmp(name, "b") == 0 ? 7 : 0;
}

static int remove_it(void *arg, const char *name, bool is_dir)
{
    (void)is_dir;
    return fs_unlink(arg, name, NULL);
}

static void names_are_listed_in_order(struct test *t)
{
    PLACE(p);
    CLEANUP(buf_done) struct buf b = {0};
    struct error err;

    fs_close(make(t, &p, "b", ""));
    fs_close(make(t, &p, "c", ""));
    fs_close(make(t, &p, "a", ""));
    CHECK_INT(t, fs_mkdir(p.fs, "bd", &err), 0);
    CHECK_INT(t, fs_list(p.fs, ".", add_name, &b, &err), 0);
    CHECK_STR(t, buf_cstr(&b), "a b bd/ c ");
    CHECK_INT(t, fs_list(p.fs, ".", stop_at_b, NULL, &err), 7);
    buf_clear(&b);
    CHECK_INT(t, fs_list(p.fs, "bd", add_name, &b, &err), 0);
    CHECK_INT(t, b.len, 0);
    CHECK_INT(t, fs_list(p.fs, "none", add_name, &b, &err), -ENOENT);
    CHECK(t, text_is(&p, &err, "could not list", "none\": No such file or directory"));
    CHECK_INT(t, rmdir(scratch_name(&p.scratch, "bd")), 0);
    CHECK_INT(t, fs_list(p.fs, ".", remove_it, p.fs, &err), 0);
    CHECK_INT(t, fs_list(p.fs, ".", add_name, &b, &err), 0);
    CHECK_INT(t, b.len, 0);
}

static void a_second_lock_names_the_holder(struct test *t)
{
    PLACE(p);
    CLEANUP(fs_closep) struct fs_file *second = NULL;
    struct fs_file *first = make(t, &p, "lock", "");
    struct error err;

    CHECK_INT(t, fs_open(p.fs, "lock", FS_WRITE, &second, &err), 0);
    CHECK_INT(t, fs_lock(first, &err), 0);
    CHECK_INT(t, fs_lock(second, &err), -EBUSY);
    CHECK(t, text_is(&p, &err, "could not lock", "lock\": another process holds it"));
    CHECK_INT(t, fs_pwrite(first, "4711\n", 5, 0, &err), 0);
    CHECK_INT(t, fs_lock(second, &err), -EBUSY);
    CHECK(t, text_is(&p, &err, "could not lock", "lock\": process 4711 holds it"));
    fs_close(first);
    CHECK_INT(t, fs_lock(second, &err), 0);
}

static void locking_needs_a_file_open_for_writing(struct test *t)
{
    PLACE(p);
    CLEANUP(fs_closep) struct fs_file *file = NULL;
    struct error err;

    fs_close(make(t, &p, "lock", ""));
    CHECK_INT(t, fs_open(p.fs, "lock", FS_READ, &file, &err), 0);
    CHECK_INT(t, fs_lock(file, &err), -EBADF);
    CHECK(t, text_is(&p, &err, "could not lock", "lock\": Bad file descriptor"));
}

static void reading_all_has_a_limit(struct test *t)
{
    PLACE(p);
    CLEANUP(buf_done) struct buf b = {0};
    struct budget small;
    struct error err;

    fs_close(make(t, &p, "a", "12345"));
    CHECK_INT(t, fs_read_all(p.fs, "a", 5, &b, &err), 0);
    CHECK_INT(t, b.len, 5);
    CHECK_INT(t, fs_read_all(p.fs, "a", 4, &b, &err), -EFBIG);
    CHECK_STR(t, err.text, "\"a\" is 5 bytes long, the limit is 4");
    CHECK_INT(t, fs_read_all(p.fs, "none", 4, &b, &err), -ENOENT);
    budget_init(&small, 3);
    CLEANUP(buf_done) struct buf bounded = {.budget = &small};
    CHECK_INT(t, fs_read_all(p.fs, "a", 5, &bounded, &err), -ENOBUFS);
    CHECK_INT(t, fs_mkdir(p.fs, "d", &err), 0);
    CHECK_INT(t, fs_read_all(p.fs, "d", 1 << 20, &b, &err), -EBADMSG);
    CHECK(t, text_is(&p, &err, "could not open", "d\": it is not a file"));
}

static void a_whole_file_is_replaced_at_once(struct test *t)
{
    PLACE(p);
    struct error err;
    char path[1100];

    CHECK_INT(t, fs_mkdir(p.fs, "d", &err), 0);
    fs_close(make(t, &p, "d/a.tmp", "left over from a crash"));
    CHECK_INT(t, fs_write_whole(p.fs, "d/a", BYTES("one"), &err), 0);
    CHECK_INT(t, fs_write_whole(p.fs, "d/a", BYTES("two!"), &err), 0);
    content_is(t, &p, "d/a", "two!");
    CHECK_INT(t, fs_exists(p.fs, "d/a.tmp", &err), 0);
    CHECK_INT(t, fs_write_whole(p.fs, "top", BYTES(""), &err), 0);
    content_is(t, &p, "top", "");

    CHECK_INT(t, fs_write_whole(p.fs, "none/a", BYTES("x"), &err), -ENOENT);
    CHECK_INT(t, fs_mkdir(p.fs, "dir", &err), 0);
    CHECK_INT(t, fs_write_whole(p.fs, "dir", BYTES("x"), &err), -EISDIR);
    CHECK_INT(t, fs_exists(p.fs, "dir.tmp", &err), 0);
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    CHECK_INT(t, fs_write_whole(p.fs, path, BYTES("x"), &err), -ENAMETOOLONG);
}

static void free_space_is_told(struct test *t)
{
    PLACE(p);
    uint64_t left = 0, total = 0;

    CHECK_INT(t, fs_space(p.fs, &left, &total, NULL), 0);
    CHECK(t, total > 0 && left <= total);
}

static void a_root_must_be_there_or_be_made(struct test *t)
{
    PLACE(p);
    struct error err;
    struct fs *fs = NULL;
    char *root = scratch_name(&p.scratch, "data"), text[600];

    CHECK_INT(t, fs_real_new(root, &fs, &err), -ENOENT);
    snprintf(text, sizeof(text), "could not open the directory \"%s\": No such file or directory",
             root);
    CHECK_STR(t, err.text, text);
    CHECK_INT(t, fs_real_make_root(root, &err), 0);
    CHECK_INT(t, fs_real_make_root(root, &err), 0);
    CHECK_INT(t, fs_real_new(root, &fs, &err), 0);
    fs_free(fs);
    fs_close(make(t, &p, "file", ""));
    root = scratch_name(&p.scratch, "file");
    CHECK_INT(t, fs_real_make_root(root, &err), -EEXIST);
    CHECK_INT(t, fs_real_new(root, &fs, &err), -ENOTDIR);
    fs_free(NULL);
}

static const struct test_case cases[] = {
    TEST(writes_and_reads_at_any_offset),
    TEST(opening_says_what_is_wrong),
    TEST(what_is_no_file_is_not_opened),
    TEST(a_path_may_not_leave_the_root),
    TEST(a_file_open_for_reading_is_not_written),
    TEST(a_file_size_limit_is_an_error_with_a_name),
    TEST(names_change_at_once),
    TEST(a_removed_file_is_readable_while_it_is_open),
    TEST(a_directory_may_be_there_already),
    TEST(names_are_listed_in_order),
    TEST(a_second_lock_names_the_holder),
    TEST(locking_needs_a_file_open_for_writing),
    TEST(reading_all_has_a_limit),
    TEST(a_whole_file_is_replaced_at_once),
    TEST(free_space_is_told),
    TEST(a_root_must_be_there_or_be_made),
};
TEST_MAIN(cases)
