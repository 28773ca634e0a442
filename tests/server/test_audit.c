#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "server/audit.h"

static int add(struct audit *a, const char *tenant, const char *what, struct error *err)
{
    const struct audit_event e = {.actor = "ci",
                                  .peer = "10.0.0.1:7",
                                  .tenant = bytes_of(tenant),
                                  .action = "token.create",
                                  .what = bytes_of(what)};
    return audit_add(a, &e, err);
}

/* The values of "what", in the order they come. */
static void whats(struct audit *a, struct test *t, const char *tenant, size_t limit,
                  struct buf *ret)
{
    CLEANUP(buf_done) struct buf json = {0};
    struct error err = {""};

    buf_clear(ret);
    CHECK_INT(t, audit_tail(a, bytes_of(tenant), limit, &json, &err), 0);
    const char *p = buf_cstr(&json);
    CHECK(t, p[0] == '[' && p[json.len - 1] == ']');
    while ((p = strstr(p, "\"what\":\""))) {
        p += 8;
        buf_addf(ret, "%.*s ", (int)strcspn(p, "\""), p);
    }
}

static void events_come_back_newest_first(struct test *t)
{
    CLEANUP(scratch_done) struct scratch dir;
    CLEANUP(buf_done) struct buf got = {0};
    struct error err = {""};

    scratch_init(&dir);
    for (int in_file = 0; in_file < 2; in_file++) {
        CLEANUP(audit_closep) struct audit *a = NULL;
        const char *path = in_file ? scratch_name(&dir, "audit.log") : NULL;
        CHECK_INT(t, audit_open(path, &a, &err), 0);
        whats(a, t, "", 10, &got);
        CHECK_STR(t, buf_cstr(&got), "");
        CHECK_INT(t, add(a, "acme", "one", &err), 0);
        CHECK_INT(t, add(a, "beta", "two", &err), 0);
        CHECK_INT(t, add(a, "acme", "three", &err), 0);
        whats(a, t, "", 10, &got);
        CHECK_STR(t, buf_cstr(&got), "three two one ");
        whats(a, t, "", 2, &got);
        CHECK_STR(t, buf_cstr(&got), "three two ");
        whats(a, t, "acme", 10, &got);
        CHECK_STR(t, buf_cstr(&got), "three one ");
        whats(a, t, "acm", 10, &got);
        CHECK_STR(t, buf_cstr(&got), "");
    }
}

static void nothing_that_is_written_can_pass_for_another_event(struct test *t)
{
    CLEANUP(audit_closep) struct audit *a = NULL;
    CLEANUP(buf_done) struct buf got = {0};
    struct error err = {""};

    CHECK_INT(t, audit_open(NULL, &a, &err), 0);
    CHECK_INT(t, add(a, "beta", "\",\"tenant\":\"acme\",\"x\":\"\n{\"tenant\":\"acme\"}", &err), 0);
    whats(a, t, "acme", 10, &got);
    CHECK_STR(t, buf_cstr(&got), "");
    CHECK_INT(t, audit_tail(a, BYTES("beta"), 10, &got, &err), 0);
    CHECK(t, strstr(buf_cstr(&got), "\\n{\\\"tenant\\\""));
}

static void a_line_that_was_cut_off_is_left_out(struct test *t)
{
    CLEANUP(scratch_done) struct scratch dir;
    CLEANUP(audit_closep) struct audit *a = NULL;
    CLEANUP(buf_done) struct buf got = {0};
    struct error err = {""};

    scratch_init(&dir);
    CHECK_INT(t, audit_open(scratch_name(&dir, "audit.log"), &a, &err), 0);
    CHECK_INT(t, add(a, "acme", "one", &err), 0);
    FILE *f = fopen(dir.name, "a");
    fputs("{\"time\":\"2026\n", f);
    fclose(f);
    CHECK_INT(t, add(a, "acme", "two", &err), 0);
    whats(a, t, "", 10, &got);
    CHECK_STR(t, buf_cstr(&got), "two one ");
}

static void a_large_file_gives_way_to_a_new_one(struct test *t)
{
    CLEANUP(scratch_done) struct scratch dir;
    CLEANUP(audit_closep) struct audit *a = NULL;
    CLEANUP(buf_done) struct buf got = {0};
    struct error err = {""};
    struct stat st;

    scratch_init(&dir);
    CHECK_INT(t, audit_open(scratch_name(&dir, "audit.log"), &a, &err), 0);
    CHECK_INT(t, stat(dir.name, &st), 0);
    CHECK_INT(t, st.st_mode & 0777, 0600);
    for (int i = 0; i < AUDIT_FILES + 2; i++) {
        char what[16];
        snprintf(what, sizeof(what), "e%d", i);
        CHECK_INT(t, add(a, "acme", what, &err), 0);
        /* Large in front of it, in no time and no space. */
        CLEANUP(closep) int fd = open(scratch_name(&dir, "audit.log"), O_WRONLY);
        CLEANUP(buf_done) struct buf line = {0};
        CHECK_INT(t, audit_tail(a, (struct bytes){0}, 1, &line, &err), 0);
        CHECK_INT(t, ftruncate(fd, (off_t)AUDIT_FILE_MAX), 0);
        CHECK(t, pwrite(fd, "\n", 1, (off_t)AUDIT_FILE_MAX) == 1);
        CHECK(t, pwrite(fd, line.data + 1, line.len - 2, (off_t)AUDIT_FILE_MAX + 1) > 0);
        CHECK(t, pwrite(fd, "\n", 1, (off_t)(AUDIT_FILE_MAX + line.len - 1)) == 1);
    }
    whats(a, t, "", 100, &got);
    CHECK_STR(t, buf_cstr(&got), "e6 e5 e4 e3 e2 e1 ");
    CHECK_INT(t, stat(scratch_name(&dir, "audit.log.5"), &st), 0);
    CHECK_INT(t, stat(scratch_name(&dir, "audit.log.6"), &st), -1);
}

static void what_cannot_be_written_down_is_an_error(struct test *t)
{
    CLEANUP(audit_closep) struct audit *a = NULL;
    CLEANUP(scratch_done) struct scratch dir;
    struct error err = {""};

    scratch_init(&dir);
    CHECK_INT(t, audit_open("/nowhere/audit.log", &a, &err), -ENOENT);
    CHECK_STR(t, err.text,
              "could not open the audit log \"/nowhere/audit.log\": No such file or directory");
    CHECK_INT(t, audit_open(scratch_name(&dir, "audit.log"), &a, &err), 0);
    unlink(dir.name);
    CHECK_INT(t, symlink("/etc/passwd", dir.name), 0);
    CHECK_INT(t, add(a, "acme", "one", &err), -ELOOP);
}

static const struct test_case cases[] = {
    TEST(events_come_back_newest_first),
    TEST(nothing_that_is_written_can_pass_for_another_event),
    TEST(a_line_that_was_cut_off_is_left_out),
    TEST(a_large_file_gives_way_to_a_new_one),
    TEST(what_cannot_be_written_down_is_an_error),
};
TEST_MAIN(cases)
