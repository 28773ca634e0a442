#include <errno.h>

#include "lib/sim_fs.h"
#include "lib/test.h"
#include "relay/spool.h"

#define FILE_HEAD 40

static int put(struct spool *s, const char *text, struct error *err)
{
    struct spool_item item = {
        .codec = CODEC_ZSTD, .raw_len = strlen(text) * 2, .packed = bytes_of(text)};

    return spool_put(s, &item, err);
}

static bool oldest_is(struct spool *s, const char *text, uint64_t *ret_number)
{
    struct spool_item item;

    if (!spool_peek(s, &item))
        return false;
    *ret_number = item.number;
    return item.codec == CODEC_ZSTD && item.raw_len == strlen(text) * 2 &&
           bytes_are(item.packed, text);
}

/* Opens it anew, as a restart does. */
static struct spool *reopen(struct test *t, struct spool *old, struct sim_fs *sim, uint64_t max)
{
    struct error err = {""};
    struct spool *s = NULL;

    spool_close(old);
    CHECK_INT(t, spool_open(sim_fs_fs(sim), "x", max, &s, &err), 0);
    CHECK_STR(t, err.text, "");
    return s;
}

static void what_was_put_first_comes_out_first_also_after_a_restart(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(1);
    struct spool *s = reopen(t, NULL, sim, 10000);
    uint64_t number = 0;
    struct spool_counts c;

    CHECK_INT(t, put(s, "one", NULL), 0);
    CHECK_INT(t, put(s, "two", NULL), 0);
    s = reopen(t, s, sim, 10000);
    CHECK_INT(t, put(s, "three", NULL), 0);
    CHECK(t, oldest_is(s, "one", &number));
    CHECK(t, oldest_is(s, "one", &number)); /* until it is removed */
    spool_remove(s, number);
    CHECK(t, oldest_is(s, "two", &number));
    spool_remove(s, number);
    spool_remove(s, number);
    CHECK(t, oldest_is(s, "three", &number));
    spool_counts(s, &c);
    CHECK_INT(t, c.files, 1);
    CHECK_INT(t, c.bytes, FILE_HEAD + 5);
    CHECK_INT(t, c.kept, 1);
    spool_remove(s, number);
    CHECK(t, !oldest_is(s, "", &number));
    spool_close(s);
}

static void the_oldest_make_room_and_are_counted(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(2);
    struct spool *s = reopen(t, NULL, sim, 3 * (FILE_HEAD + 3));
    struct spool_counts c;
    uint64_t number = 0;

    for (int i = 0; i < 200; i++) {
        char text[8];
        snprintf(text, sizeof(text), "%03d", i);
        CHECK_INT(t, put(s, text, NULL), 0);
    }
    spool_counts(s, &c);
    CHECK_INT(t, c.files, 3);
    CHECK_INT(t, c.dropped, 197);
    CHECK(t, oldest_is(s, "197", &number));
    s = reopen(t, s, sim, 2 * (FILE_HEAD + 3)); /* a smaller cap holds from the start */
    spool_counts(s, &c);
    CHECK_INT(t, c.files, 2);
    CHECK_INT(t, c.dropped, 1);
    CHECK(t, oldest_is(s, "198", &number));
    spool_close(s);
}

static void one_that_was_peeked_and_dropped_takes_no_other_with_it(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(3);
    struct spool *s = reopen(t, NULL, sim, 2 * (FILE_HEAD + 1));
    uint64_t first = 0, number = 0;

    CHECK_INT(t, put(s, "a", NULL), 0);
    CHECK(t, oldest_is(s, "a", &first));
    CHECK_INT(t, put(s, "b", NULL), 0);
    CHECK_INT(t, put(s, "c", NULL), 0);
    spool_remove(s, first);
    CHECK(t, oldest_is(s, "b", &number));
    spool_close(s);
}

static void what_is_larger_than_the_cap_is_refused_and_drops_nothing(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(4);
    struct spool *s = reopen(t, NULL, sim, 60);
    struct error err;
    uint64_t number = 0;

    CHECK_INT(t, put(s, "ok", NULL), 0);
    CHECK_INT(t, put(s, "0123456789012345678901234567890", &err), -EFBIG);
    CHECK_STR(t, err.text, "31 bytes do not fit the spool of 60 bytes");
    CHECK(t, oldest_is(s, "ok", &number));
    spool_close(s);
}

static void overwrite(struct sim_fs *sim, const char *path, uint64_t offset, const char *text)
{
    struct fs_file *f = NULL;

    if (fs_open(sim_fs_fs(sim), path, FS_WRITE, &f, NULL) == 0)
        (void)fs_pwrite(f, text, strlen(text), offset, NULL);
    fs_close(f);
}

static void damaged_files_are_skipped_removed_and_counted(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(5);
    struct fs *fs = sim_fs_fs(sim);
    struct spool *s = reopen(t, NULL, sim, 10000);
    struct spool_counts c;
    struct fs_file *f = NULL;
    uint64_t number = 0;

    CHECK_INT(t, put(s, "payload", NULL), 0);
    CHECK_INT(t, put(s, "length", NULL), 0);
    CHECK_INT(t, put(s, "cut", NULL), 0);
    CHECK_INT(t, put(s, "magic", NULL), 0);
    CHECK_INT(t, put(s, "whole", NULL), 0);
    overwrite(sim, "x/0000000000000000.otlp", FILE_HEAD + 2, "Y");
    overwrite(sim, "x/0000000000000001.otlp", 16, "\377\377\377\377");
    CHECK_INT(t, fs_open(fs, "x/0000000000000002.otlp", FS_WRITE, &f, NULL), 0);
    CHECK_INT(t, fs_truncate(f, 17, NULL), 0);
    fs_close(f);
    overwrite(sim, "x/0000000000000003.otlp", 0, "v");
    s = reopen(t, s, sim, 10000);
    CHECK(t, oldest_is(s, "whole", &number));
    spool_counts(s, &c);
    CHECK_INT(t, c.damaged, 4);
    CHECK_INT(t, c.files, 1);
    CHECK_INT(t, fs_exists(fs, "x/0000000000000000.otlp", NULL), 0);
    spool_close(s);
}

static void files_of_others_and_halves_are_no_matter(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(6);
    struct fs *fs = sim_fs_fs(sim);
    struct spool *s = reopen(t, NULL, sim, 10000);
    struct spool_counts c;

    CHECK_INT(t, fs_write_whole(fs, "x/notes.txt", BYTES("mine"), NULL), 0);
    CHECK_INT(t, fs_write_whole(fs, "x/0x00000000000000.otlp", BYTES("mine"), NULL), 0);
    CHECK_INT(t, fs_write_whole(fs, "x/0000000000000007.otlp.tmp", BYTES("half"), NULL), 0);
    s = reopen(t, s, sim, 10000);
    spool_counts(s, &c);
    CHECK_INT(t, c.files, 0);
    CHECK_INT(t, fs_exists(fs, "x/notes.txt", NULL), 1);
    CHECK_INT(t, fs_exists(fs, "x/0x00000000000000.otlp", NULL), 1);
    CHECK_INT(t, fs_exists(fs, "x/0000000000000007.otlp.tmp", NULL), 0);
    spool_close(s);
}

static void a_full_disk_is_said_and_leaves_what_was_there(struct test *t)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(7);
    struct spool *s = reopen(t, NULL, sim, 100000);
    struct error err = {""};
    uint64_t number = 0;

    CHECK_INT(t, put(s, "before", NULL), 0);
    sim_fs_fault(sim, (struct sim_fault){.op = SIM_WRITE, .nth = 1, .error = ENOSPC});
    CHECK_INT(t, put(s, "lost", &err), -ENOSPC);
    CHECK_INT(t, put(s, "after", NULL), 0);
    CHECK(t, oldest_is(s, "before", &number));
    spool_remove(s, number);
    CHECK(t, oldest_is(s, "after", &number));
    spool_close(s);
}

/* Whatever the moment of a crash, what was put is whole or not there, and in order. */
static void a_crash_at_any_moment_leaves_whole_files_in_order(struct test *t)
{
    for (uint64_t nth = 1; nth < 60; nth++) {
        CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(nth);
        struct spool *s = NULL;
        int put_in = 0, seen = -1, last = -1;

        sim_fs_fault(sim, (struct sim_fault){.op = SIM_CHANGE, .nth = nth, .what = SIM_CRASH});
        if (spool_open(sim_fs_fs(sim), "x", 100000, &s, NULL) == 0) {
            for (int i = 0; i < 10; i++) {
                char text[8];
                snprintf(text, sizeof(text), "%d", i);
                if (put(s, text, NULL) < 0)
                    break;
                put_in++;
            }
        }
        spool_close(s);
        sim_fs_restart(sim);
        s = reopen(t, NULL, sim, 100000);
        for (struct spool_item item; spool_peek(s, &item); spool_remove(s, item.number)) {
            seen = item.packed.data[0] - '0';
            CHECK_INT(t, seen, last + 1);
            last = seen;
        }
        CHECK(t, last + 1 >= put_in);
        spool_close(s);
    }
}

static const struct test_case cases[] = {
    TEST(what_was_put_first_comes_out_first_also_after_a_restart),
    TEST(the_oldest_make_room_and_are_counted),
    TEST(one_that_was_peeked_and_dropped_takes_no_other_with_it),
    TEST(what_is_larger_than_the_cap_is_refused_and_drops_nothing),
    TEST(damaged_files_are_skipped_removed_and_counted),
    TEST(files_of_others_and_halves_are_no_matter),
    TEST(a_full_disk_is_said_and_leaves_what_was_there),
    TEST(a_crash_at_any_moment_leaves_whole_files_in_order),
};
TEST_MAIN(cases)
