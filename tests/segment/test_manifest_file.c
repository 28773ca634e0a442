#include <errno.h>

#include "base/checksum.h"
#include "base/le.h"
#include "lib/scratch.h"
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

static const struct test_case cases[] = {
    TEST(gives_back_the_newest),
    TEST(survives_any_changed_byte),
    TEST(survives_cuts_by_the_copy_or_the_old_one),
    TEST(says_what_is_wrong_when_nothing_is_left),
    TEST(refuses_what_is_too_large),
    TEST(refuses_a_version_it_does_not_know),
};
TEST_MAIN(cases)
