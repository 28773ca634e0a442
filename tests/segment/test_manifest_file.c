#include <errno.h>

#include "base/checksum.h"
#include "base/le.h"
#include "lib/scratch.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "segment/manifest_file.h"

#define HEAD 24

struct fixture {
    struct scratch scratch;
    struct fs *fs;
    struct buf got;
    struct manifest_report report;
    struct error err;
};

static void fixture_init(struct fixture *x)
{
    *x = (struct fixture){0};
    scratch_init(&x->scratch);
    if (fs_real_new(x->scratch.path, &x->fs, NULL) < 0)
        abort();
}

static void fixture_done(struct fixture *x)
{
    buf_done(&x->got);
    fs_free(x->fs);
    scratch_done(&x->scratch);
}

static int read_it(struct fixture *x)
{
    buf_clear(&x->got);
    x->err.text[0] = '\0';
    return manifest_file_read(x->fs, &x->got, &x->report, &x->err);
}

static void write_it(struct test *t, struct fixture *x, const char *content)
{
    bool in_doubt = true;

    CHECK_INT(t, manifest_file_write(x->fs, bytes_of(content), &in_doubt, NULL), 0);
    CHECK(t, !in_doubt);
}

static void flip(struct fixture *x, const char *name, uint64_t at, uint8_t bits)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;
    uint8_t c;

    if (fs_open(x->fs, name, FS_WRITE, &f, NULL) < 0 || fs_pread(f, &c, 1, at, NULL) != 1)
        abort();
    c ^= bits;
    if (fs_pwrite(f, &c, 1, at, NULL) < 0)
        abort();
}

static void set_size(struct fixture *x, const char *name, uint64_t size)
{
    CLEANUP(fs_closep) struct fs_file *f = NULL;

    if (fs_open(x->fs, name, FS_WRITE, &f, NULL) < 0 || fs_truncate(f, size, NULL) < 0)
        abort();
}

static void gives_back_the_newest(struct test *t)
{
    struct fixture x;
    static const char *const contents[] = {"one", "", "number three"};

    fixture_init(&x);
    CHECK_INT(t, read_it(&x), -ENOENT);
    CHECK(t, strstr(x.err.text, "MANIFEST\""));
    for (size_t i = 0; i < 3; i++) {
        write_it(t, &x, contents[i]);
        CHECK_INT(t, read_it(&x), 0);
        CHECK(t, bytes_are(buf_bytes(&x.got), contents[i]));
        CHECK_INT(t, x.report.n_bad, 0);
        CHECK(t, !x.report.is_old);
    }
    CHECK_INT(t, fs_exists(x.fs, "tmp-MANIFEST", NULL), 0);
    fixture_done(&x);
}

static void survives_any_changed_byte(struct test *t)
{
    struct fixture x;
    const char *content = "some content";
    uint64_t size = 2 * (HEAD + strlen(content));

    fixture_init(&x);
    write_it(t, &x, "before");
    write_it(t, &x, content);
    for (uint64_t at = 0; at < size; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            flip(&x, "MANIFEST", at, (uint8_t)(1u << bit));
            CHECK_INT(t, read_it(&x), 0);
            CHECK(t, bytes_are(buf_bytes(&x.got), content));
            CHECK_INT(t, x.report.n_bad, 1);
            CHECK(t, !x.report.is_old);
            CHECK(t, strstr(x.report.trouble.text, at < size / 2 ? "copy 1" : "copy 2"));
            flip(&x, "MANIFEST", at, (uint8_t)(1u << bit));
        }
    }
    fixture_done(&x);
}

/* The first copy needs nothing behind it. */
static void survives_cuts_by_the_copy_or_the_old_one(struct test *t)
{
    struct fixture x;
    const char *content = "some content";
    uint64_t size = 2 * (HEAD + strlen(content));

    fixture_init(&x);
    write_it(t, &x, "before");
    write_it(t, &x, content);
    for (uint64_t to = size; to-- > 0;) {
        bool has_copy = to >= size / 2;
        set_size(&x, "MANIFEST", to);
        CHECK_INT(t, read_it(&x), 0);
        CHECK(t, bytes_are(buf_bytes(&x.got), has_copy ? content : "before"));
        CHECK_INT(t, x.report.n_bad, has_copy ? 1 : 2);
        CHECK_INT(t, x.report.is_old, !has_copy);
        CHECK(t, strstr(x.report.trouble.text, "\"MANIFEST\" is damaged: copy "));
    }
    CHECK_INT(t, fs_unlink(x.fs, "MANIFEST", NULL), 0);
    CHECK_INT(t, read_it(&x), 0);
    CHECK(t, x.report.is_old);
    CHECK(t, strstr(x.report.trouble.text, "No such file"));
    fixture_done(&x);
}

static void says_what_is_wrong_when_nothing_is_left(struct test *t)
{
    struct fixture x;

    fixture_init(&x);
    write_it(t, &x, "content");
    flip(&x, "MANIFEST", HEAD, 1);
    flip(&x, "MANIFEST", HEAD + 7 + HEAD, 1);
    CHECK_INT(t, read_it(&x), -EBADMSG);
    CHECK_STR(t, x.err.text,
              "\"MANIFEST\" is damaged: copy 1 of the content does not hold against "
              "its checksum");
    CHECK_INT(t, x.report.n_bad, 2);
    CHECK_INT(t, x.got.len, 0);

    write_it(t, &x, "next"); /* the damaged one is the old one now */
    set_size(&x, "MANIFEST", 3);
    CHECK_INT(t, read_it(&x), -EBADMSG);
    CHECK_STR(t, x.err.text,
              "\"MANIFEST.old\" is damaged: copy 1 of the content does not hold "
              "against its checksum");
    CHECK_STR(t, x.report.trouble.text,
              "\"MANIFEST\" is damaged: copy 1 of the content does not begin as a manifest does");
    CHECK_INT(t, x.report.n_bad, 4);
    fixture_done(&x);
}

static void refuses_what_is_too_large(struct test *t)
{
    struct fixture x;
    bool in_doubt = true;

    fixture_init(&x);
    CHECK_INT(
        t,
        manifest_file_write(x.fs, (struct bytes){NULL, MANIFEST_BYTES_MAX + 1}, &in_doubt, &x.err),
        -EFBIG);
    CHECK_STR(t, x.err.text, "could not write a manifest of 67108865 bytes: the limit is 67108864");
    CHECK(t, !in_doubt);
    write_it(t, &x, "content");
    set_size(&x, "MANIFEST", (uint64_t)1 << 40);
    CHECK_INT(t, read_it(&x), -EBADMSG);
    CHECK_STR(t, x.err.text, "\"MANIFEST\" is 1099511627776 bytes long, the limit is 134217776");
    fixture_done(&x);
}

/* Sets a number in both copies and makes their sums right. */
static void forge(struct fixture *x, size_t at, uint16_t value)
{
    CLEANUP(buf_done) struct buf b = {0};

    if (fs_read_all(x->fs, "MANIFEST", 1000, &b, NULL) < 0)
        abort();
    for (size_t i = 0; i < 2; i++) {
        uint8_t *h = b.data + i * (b.len / 2);
        le16_put(h + at, value);
        le64_put(h + 16, checksum64_seeded(h + HEAD, b.len / 2 - HEAD, checksum64(h, 16)));
    }
    if (fs_write_whole(x->fs, "MANIFEST", buf_bytes(&b), NULL) < 0)
        abort();
}

static void refuses_a_version_it_does_not_know(struct test *t)
{
    struct fixture x;

    fixture_init(&x);
    write_it(t, &x, "old");
    write_it(t, &x, "new");
    forge(&x, 4, 2);
    CHECK_INT(t, read_it(&x), -EPROTONOSUPPORT);
    CHECK_STR(t, x.err.text, "\"MANIFEST\" has format version 2, this program reads version 1");
    CHECK_INT(t, x.got.len, 0);
    write_it(t, &x, "newer");
    forge(&x, 6, 1);
    CHECK_INT(t, read_it(&x), 0);
    CHECK_INT(t, x.report.n_bad, 1);
    CHECK_STR(t, x.report.trouble.text,
              "\"MANIFEST\" is damaged: copy 1 of the content is the other one");
    fixture_done(&x);
}

static const char *const generations[] = {"g0", "generation 1", "g2", "the generation number 3"};
#define N ARRAY_SIZE(generations)

/* Writes generations until one is in doubt. The last one that must be there, and the last that may
 * be. */
static void write_generations(struct test *t, struct fs *fs, int *ret_must, int *ret_may)
{
    *ret_must = *ret_may = -1;
    for (int i = 0; i < (int)N; i++) {
        struct error err = {{0}};
        bool in_doubt = true;
        int r = manifest_file_write(fs, bytes_of(generations[i]), &in_doubt, &err);
        CHECK_INT(t, err.text[0] != '\0', r < 0);
        CHECK(t, r < 0 || !in_doubt);
        if (r == 0)
            *ret_must = i;
        if (r == 0 || in_doubt)
            *ret_may = i;
        if (in_doubt)
            return;
    }
}

static void is_the_last_one_written_whatever_fails(struct test *t)
{
    static const enum sim_fault_what whats[] = {SIM_FAIL, SIM_SHORT, SIM_TORN, SIM_CRASH, SIM_KILL};

    for (uint64_t seed = 0; seed < 20 * ARRAY_SIZE(whats); seed++) {
        bool struck = true;
        for (uint64_t nth = 1; struck; nth++) {
            struct sim_fs *sim = sim_fs_new(seed * 100 + nth);
            CLEANUP(buf_done) struct buf got = {0};
            struct manifest_report report;
            int must, may;
            sim_fs_fault(sim, (struct sim_fault){.op = SIM_ANY,
                                                 .nth = nth,
                                                 .what = whats[seed % ARRAY_SIZE(whats)],
                                                 .error = seed / 5 % 2 ? EIO : ENOSPC});
            write_generations(t, sim_fs_fs(sim), &must, &may);
            struck = sim_fs_struck(sim) > 0;
            bool crashed = sim_fs_is_down(sim);
            sim_fs_clear_faults(sim);
            sim_fs_restart(sim);
            int r = manifest_file_read(sim_fs_fs(sim), &got, &report, NULL);
            if (r < 0) {
                CHECK_INT(t, r, -ENOENT);
                CHECK_INT(t, must, -1);
            } else {
                int found = 0;
                while (found < (int)N && !bytes_are(buf_bytes(&got), generations[found]))
                    found++;
                CHECK(t, found >= must && (found <= may || crashed) && found < (int)N);
                CHECK(t, !report.is_old && report.n_bad == 0);
            }
            sim_fs_free(sim);
        }
    }
}

static void does_without_links_where_there_are_none(struct test *t)
{
    struct sim_fs *sim = sim_fs_new(1);
    CLEANUP(buf_done) struct buf got = {0};
    struct manifest_report report;
    bool in_doubt;

    sim_fs_fault(
        sim, (struct sim_fault){
                 .op = SIM_LINK, .nth = 1, .what = SIM_FAIL, .error = EPERM, .is_lasting = true});
    for (size_t i = 0; i < N; i++)
        CHECK_INT(t, manifest_file_write(sim_fs_fs(sim), bytes_of(generations[i]), &in_doubt, NULL),
                  0);
    CHECK_INT(t, fs_exists(sim_fs_fs(sim), "MANIFEST.old", NULL), 0);
    CHECK_INT(t, manifest_file_read(sim_fs_fs(sim), &got, &report, NULL), 0);
    CHECK(t, bytes_are(buf_bytes(&got), generations[N - 1]));
    sim_fs_free(sim);
}

/* A disk that fails is not a damaged manifest: the old one is not taken for it. */
static void does_not_take_the_old_one_when_it_cannot_read(struct test *t)
{
    struct sim_fs *sim = sim_fs_new(1);
    CLEANUP(buf_done) struct buf got = {0};
    struct manifest_report report;
    struct error err = {{0}};
    int must, may;

    write_generations(t, sim_fs_fs(sim), &must, &may);
    CHECK(t, sim_fs_break(sim, "MANIFEST", EIO));
    CHECK_INT(t, manifest_file_read(sim_fs_fs(sim), &got, &report, &err), -EIO);
    CHECK(t, strstr(err.text, "MANIFEST\""));
    CHECK(t, !report.is_old);
    CHECK_INT(t, got.len, 0);
    sim_fs_free(sim);
}

static const struct test_case cases[] = {
    TEST(gives_back_the_newest),
    TEST(survives_any_changed_byte),
    TEST(survives_cuts_by_the_copy_or_the_old_one),
    TEST(says_what_is_wrong_when_nothing_is_left),
    TEST(refuses_what_is_too_large),
    TEST(refuses_a_version_it_does_not_know),
    TEST(is_the_last_one_written_whatever_fails),
    TEST(does_without_links_where_there_are_none),
    TEST(does_not_take_the_old_one_when_it_cannot_read),
};
TEST_MAIN(cases)
