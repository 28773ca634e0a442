#include <errno.h>
#include <sys/stat.h>

#include "debuginfo/debug_files.h"
#include "lib/scratch.h"
#include "lib/test.h"
#include "symbols/elf_file.h"

static struct build_id_text own_id(void)
{
    struct budget b;
    struct elf_file *elf = NULL;
    budget_init(&b, (size_t)64 << 20);
    struct build_id_text id = {""};
    if (elf_open("/proc/self/exe", &b, &elf, NULL) == 0)
        id = elf_build_id_text(elf);
    elf_close(elf);
    return id;
}

static int put(struct debug_files *f, const char *owner, const char *id, const char *path,
               uint64_t max, struct error *err)
{
    struct budget b;
    struct input *in = NULL;
    budget_init(&b, (size_t)256 << 20);
    int r = input_open(path, &b, &in, err);
    if (r == 0)
        r = debug_files_put(f, bytes_of(owner), bytes_of(id), in, max, err);
    input_close(in);
    return r;
}

static void only_hex_is_a_build_id(struct test *t)
{
    static const char *const bad[] = {
        "",
        "abc",
        "../../etc/passwd",
        "ABCDEF0123456789",
        "0123456g",
        "01234567/..",
        "0123456 ",
        ("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
         "0123456789abcdef0123456789abcdef0123456789abcdef0"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK(t, !build_id_is_sound(bytes_of(bad[i])));
    CHECK(t, build_id_is_sound(BYTES("01234567")));
    CHECK(t, !build_id_is_sound(BYTES("01234567\0")));
}

static void keeps_a_file_that_is_what_it_is_said_to_be(struct test *t)
{
    CLEANUP(debug_files_closep) struct debug_files *f = NULL;
    CLEANUP(buf_done) struct buf path = {0};
    struct error err = {""};
    struct build_id_text id = own_id();
    CLEANUP(scratch_done) struct scratch scratch;

    scratch_init(&scratch);
    const char *dir = scratch.path;
    if (!id.text[0])
        TEST_SKIP(t, "this program has no build id");
    CHECK_INT(t, debug_files_open(dir, 0, &f, &err), 0);
    CHECK_INT(t, debug_files_quality(f, BYTES("a"), bytes_of(id.text)), DEBUG_NONE);
    CHECK_INT(t, put(f, "a", id.text, "/proc/self/exe", 1 << 30, &err), 0);
    CHECK(t, debug_files_quality(f, BYTES("a"), bytes_of(id.text)) >= DEBUG_NAMES);
    CHECK_INT(t, debug_files_quality(f, BYTES("b"), bytes_of(id.text)), DEBUG_NONE);
    CHECK(t, debug_files_bytes(f) > 0);
    CHECK_INT(t, put(f, "a", id.text, "/proc/self/exe", 1 << 30, &err), -EEXIST);
    CHECK_INT(t, debug_files_changes(f), 1);
    debug_files_search_path(f, BYTES("a"), &path);
    CHECK(t, strstr(buf_cstr(&path), "/a:") != NULL);

    uint64_t bytes = debug_files_bytes(f);
    debug_files_close(f);
    f = NULL;
    CHECK_INT(t, debug_files_open(dir, 0, &f, &err), 0);
    CHECK_INT(t, debug_files_bytes(f), bytes);
    CHECK_INT(t, debug_files_delete(f, BYTES("a"), bytes_of(id.text), &err), 0);
    CHECK_INT(t, debug_files_delete(f, BYTES("a"), bytes_of(id.text), &err), -ENOENT);
    CHECK_INT(t, debug_files_changes(f), 1);
    CHECK_INT(t, debug_files_bytes(f), 0);
}

static void refuses_what_is_not(struct test *t)
{
    CLEANUP(debug_files_closep) struct debug_files *f = NULL;
    struct error err = {""};
    struct build_id_text id = own_id();
    CLEANUP(scratch_done) struct scratch scratch;

    if (!id.text[0])
        TEST_SKIP(t, "this program has no build id");
    scratch_init(&scratch);
    CHECK_INT(t, debug_files_open(scratch.path, 5000, &f, &err), 0);
    CHECK_INT(t, put(f, "a", "0123456789abcdef", "/proc/self/exe", 1 << 30, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "not \"0123456789abcdef\"") != NULL);
    CHECK_INT(t, put(f, "a", "0123456789abcdef", "/etc/hostname", 1 << 30, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "no ELF file") != NULL);
    CHECK_INT(t, put(f, "a", "../x", "/proc/self/exe", 1 << 30, &err), -EINVAL);
    CHECK_INT(t, put(f, "../a", id.text, "/proc/self/exe", 1 << 30, &err), -EINVAL);
    CHECK_INT(t, put(f, "a", id.text, "/proc/self/exe", 100, &err), -ENOBUFS);
    CHECK(t, strstr(err.text, "larger than 100 bytes") != NULL);
    CHECK_INT(t, put(f, "a", id.text, "/proc/self/exe", 1 << 30, &err), -ENOBUFS);
    CHECK(t, strstr(err.text, "the limit is 5000") != NULL);
    CHECK_INT(t, debug_files_bytes(f), 0);
}

static const struct test_case cases[] = {TEST(only_hex_is_a_build_id),
                                         TEST(keeps_a_file_that_is_what_it_is_said_to_be),
                                         TEST(refuses_what_is_not)};
TEST_MAIN(cases)
