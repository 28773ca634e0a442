#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>

#include "host/name_cache.h"
#include "lib/scratch.h"
#include "lib/test.h"

static struct name_cache_key key_of(const char *id)
{
    struct parse_facts f = {.htlhash = "00112233445566778899aabbccddeeff"};

    snprintf(f.build_id, sizeof(f.build_id), "%s", id);
    return name_cache_key(&f, 0, false);
}

static int memory_of(const char *text)
{
    int fd = memfd_create("image", MFD_CLOEXEC);

    return write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? fd : -1;
}

/* Puts a text; what name_cache_put() says. */
static int put(struct name_cache *c, const char *id, const char *text, struct error *err)
{
    struct name_cache_key key = key_of(id);
    CLEANUP(closep) int fd = memory_of(text);

    return name_cache_put(c, &key, NAME_CACHE_NAMES, fd, err);
}

/* What is kept under a key, "" when nothing is. */
static const char *get(struct name_cache *c, const char *id)
{
    static char text[256];
    struct name_cache_key key = key_of(id);
    CLEANUP(closep) int fd = name_cache_get(c, &key, NAME_CACHE_NAMES);
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : 0;

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static int count_files(const char *folder)
{
    char command[512], line[64] = "";

    snprintf(command, sizeof(command), "ls -A %s | wc -l", folder);
    FILE *f = popen(command, "r");
    if (f && !fgets(line, sizeof(line), f))
        line[0] = '\0';
    if (f)
        pclose(f);
    return atoi(line);
}

static void keeps_images_from_one_start_to_the_next(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct name_cache *c = NULL;
    struct name_cache_stats stats;
    struct error err = {{0}};

    scratch_init(&s);
    char *folder = scratch_name(&s, "names");
    CHECK_INT(t, name_cache_open(folder, 1 << 20, &c, &err), 0);
    CHECK_STR(t, get(c, "aa"), "");
    CHECK_INT(t, put(c, "aa", "first", &err), 0);
    CHECK_INT(t, put(c, "bb", "second", &err), 0);
    CHECK_INT(t, put(c, "aa", "better", &err), 0);
    name_cache_close(c);
    c = NULL;
    CHECK_INT(t, name_cache_open(folder, 1 << 20, &c, &err), 0);
    CHECK_STR(t, get(c, "aa"), "better");
    CHECK_STR(t, get(c, "bb"), "second");
    CHECK_STR(t, get(c, "cc"), "");
    name_cache_stats(c, &stats);
    CHECK_INT(t, stats.files, 2);
    CHECK_INT(t, stats.bytes, 12);
    CHECK_INT(t, stats.hits, 2);
    CHECK_INT(t, stats.misses, 1);
    CHECK_INT(t, count_files(folder), 2);
    struct name_cache_key key = key_of("aa");
    CHECK_INT(t, name_cache_get(c, &key, NAME_CACHE_UNWIND), -ENOENT);
    name_cache_drop(c, &key, NAME_CACHE_NAMES);
    CHECK_STR(t, get(c, "aa"), "");
    name_cache_close(c);
}

static void makes_images_in_place_and_names_them_when_done(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct name_cache *c = NULL;
    struct error err = {{0}};
    struct name_cache_key key = key_of("abcd");
    struct stat st;

    scratch_init(&s);
    char *folder = scratch_name(&s, "names");
    CHECK_INT(t, name_cache_open(folder, 1 << 20, &c, &err), 0);
    for (int i = 0; i < 2; i++) {
        CLEANUP(closep) int fd = name_cache_scratch(c);
        CHECK_INT(t, write(fd, "image", 5), 5);
        CHECK_INT(t, count_files(folder), i);
        CHECK_INT(t, name_cache_put(c, &key, NAME_CACHE_NAMES, fd, &err), 0);
        CHECK_INT(t, fstat(fd, &st), 0);
    }
    CHECK_STR(t, get(c, "abcd"), "image");
    CHECK_INT(t, count_files(folder), 1);
    CHECK_INT(t, stat(folder, &st), 0);
    CHECK_INT(t, st.st_mode & 0777, 0700);
    name_cache_close(c);
}

static void drops_what_was_not_used_for_longest(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct name_cache *c = NULL;
    struct name_cache_stats stats;
    struct error err = {{0}};
    char text[101] = "", id[8];

    memset(text, 'x', 100);
    scratch_init(&s);
    char *folder = scratch_name(&s, "names");
    CHECK_INT(t, name_cache_open(folder, 1000, &c, &err), 0);
    for (int i = 10; i < 20; i++) {
        snprintf(id, sizeof(id), "%d", i);
        CHECK_INT(t, put(c, id, text, &err), 0);
        nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
    }
    CHECK_STR(t, get(c, "10"), text); /* used again */
    nanosleep(&(struct timespec){.tv_nsec = 8000000}, NULL);
    CHECK_INT(t, put(c, "20", text, &err), 0);
    CHECK_STR(t, get(c, "10"), text);
    CHECK_STR(t, get(c, "11"), "");
    CHECK_STR(t, get(c, "20"), text);
    name_cache_stats(c, &stats);
    CHECK(t, stats.bytes <= 1000 && stats.evicted >= 1);
    CHECK_INT(t, count_files(folder), stats.files);
    /* A smaller limit holds from the next start on. */
    name_cache_close(c);
    c = NULL;
    CHECK_INT(t, name_cache_open(folder, 300, &c, &err), 0);
    name_cache_stats(c, &stats);
    CHECK(t, stats.bytes <= 300 && stats.files > 0);
    name_cache_close(c);
}

static void refuses_what_is_larger_than_half_of_it(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    CLEANUP(name_cache_closep) struct name_cache *c = NULL;
    struct error err = {{0}};

    scratch_init(&s);
    CHECK_INT(t, name_cache_open(scratch_name(&s, "names"), 8, &c, &err), 0);
    CHECK_INT(t, put(c, "aa", "12345", &err), -EFBIG);
    CHECK(t, strstr(err.text, "it has 5 bytes, the limit is half of 8"));
}

static void works_without_a_folder(struct test *t)
{
    CLEANUP(name_cache_closep) struct name_cache *c = NULL;
    struct error err = {{0}};

    CHECK_INT(t, name_cache_open(NULL, 1 << 20, &c, &err), 0);
    CLEANUP(closep) int fd = name_cache_scratch(c);
    CHECK(t, fd >= 0 && write(fd, "x", 1) == 1);
    CHECK_INT(t, put(c, "aa", "text", &err), 0);
    CHECK_STR(t, get(c, "aa"), "");
}

static void does_not_read_what_is_not_its_own(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    CLEANUP(name_cache_closep) struct name_cache *c = NULL;
    struct name_cache_stats stats;
    struct error err = {{0}};
    char path[512], other[512];
    struct name_cache_key key = key_of("aa");

    scratch_init(&s);
    snprintf(other, sizeof(other), "%s", scratch_name(&s, "other"));
    FILE *f = fopen(other, "w");
    if (f)
        fclose(f);
    CHECK_INT(t, name_cache_open(scratch_name(&s, "names"), 1 << 20, &c, &err), 0);
    snprintf(path, sizeof(path), "%s/names/%s.names-1", s.path, key.text);
    CHECK_INT(t, symlink(other, path), 0);
    CHECK_INT(t, name_cache_get(c, &key, NAME_CACHE_NAMES), -ENOENT);
    CHECK(t, access(other, F_OK) == 0 && access(path, F_OK) < 0);
    CHECK_INT(t, mkfifo(path, 0600), 0);
    CHECK_INT(t, name_cache_get(c, &key, NAME_CACHE_NAMES), -ENOENT);
    CHECK_INT(t, put(c, "aa", "text", &err), 0);
    CHECK_INT(t, chmod(path, 0666), 0);
    CHECK_INT(t, name_cache_get(c, &key, NAME_CACHE_NAMES), -ENOENT);
    CHECK_INT(t, put(c, "aa", "text", &err), 0);
    if (geteuid() == 0) {
        CHECK_INT(t, chown(path, 65534, 65534), 0);
        CHECK_INT(t, name_cache_get(c, &key, NAME_CACHE_NAMES), -ENOENT);
    }
    name_cache_stats(c, &stats);
    CHECK(t, stats.refused >= 3);
    CHECK_INT(t, stats.hits, 0);
}

static void refuses_a_folder_that_others_may_write_to(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct name_cache *c = NULL;
    struct error err = {{0}};

    scratch_init(&s);
    char *folder = scratch_name(&s, "names");
    CHECK_INT(t, mkdir(folder, 0700), 0);
    CHECK_INT(t, chmod(folder, 0777), 0);
    CHECK_INT(t, name_cache_open(folder, 1 << 20, &c, &err), -EPERM);
    CHECK(t, strstr(err.text, "nobody else may write to it"));
    CHECK_INT(t, name_cache_open(scratch_name(&s, "none/names"), 1 << 20, &c, &err), -ENOENT);
    CHECK(t, strstr(err.text, "none/names\": No such file or directory") != NULL);
}

static void removes_what_a_dead_run_left_behind(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    CLEANUP(name_cache_closep) struct name_cache *c = NULL;
    struct error err = {{0}};
    char path[512];

    scratch_init(&s);
    snprintf(path, sizeof(path), "%s/.tmp-1-2", s.path);
    FILE *f = fopen(path, "w");
    if (f)
        fclose(f);
    CHECK_INT(t, name_cache_open(s.path, 1 << 20, &c, &err), 0);
    CHECK_INT(t, count_files(s.path), 0);
}

static void takes_no_key_that_leads_elsewhere(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    CLEANUP(name_cache_closep) struct name_cache *c = NULL;
    struct error err = {{0}};

    scratch_init(&s);
    CHECK_INT(t, name_cache_open(scratch_name(&s, "names"), 1 << 20, &c, &err), 0);
    CHECK_INT(t, put(c, "../../x", "text", &err), -EINVAL);
    CHECK(t, strstr(err.text, "is no key"));
    CHECK_STR(t, get(c, "../../x"), "");
}

static void tells_owners_and_debug_files_apart(struct test *t)
{
    struct parse_facts f = {.build_id = "aa", .htlhash = "bb"};

    CHECK_STR(t, name_cache_key(&f, 0, false).text, "aa-bb-0");
    CHECK_STR(t, name_cache_key(&f, 1000, true).text, "aa-bb-1000-d");
}

/* On a disk of one megabyte of our own: what is there stays, and images are made in memory. */
static void does_without_the_disk_when_it_is_full(struct test *t)
{
    CLEANUP(scratch_done) struct scratch s;
    struct name_cache *c = NULL;
    struct error err = {{0}};
    struct stat st, folder;

    scratch_init(&s);
    if (mount("none", s.path, "tmpfs", 0, "size=1m,mode=700") < 0)
        TEST_SKIP(t, "mounting a small disk is not allowed here");
    CHECK_INT(t, name_cache_open(s.path, 1 << 30, &c, &err), 0);
    CHECK_INT(t, put(c, "aa", "text", &err), -ENOSPC);
    CHECK(t, strstr(err.text, "No space left on device"));
    int fd = name_cache_scratch(c);
    CHECK_INT(t, fstat(fd, &st), 0);
    CHECK_INT(t, stat(s.path, &folder), 0);
    CHECK(t, st.st_dev != folder.st_dev);
    CHECK_INT(t, count_files(s.path), 0);
    close(fd);
    name_cache_close(c);
    CHECK_INT(t, umount(s.path), 0);
}

static const struct test_case cases[] = {
    TEST(keeps_images_from_one_start_to_the_next),
    TEST(makes_images_in_place_and_names_them_when_done),
    TEST(drops_what_was_not_used_for_longest),
    TEST(refuses_what_is_larger_than_half_of_it),
    TEST(works_without_a_folder),
    TEST(does_not_read_what_is_not_its_own),
    TEST(refuses_a_folder_that_others_may_write_to),
    TEST(removes_what_a_dead_run_left_behind),
    TEST(takes_no_key_that_leads_elsewhere),
    TEST(tells_owners_and_debug_files_apart),
    TEST(does_without_the_disk_when_it_is_full),
};
TEST_MAIN(cases)
