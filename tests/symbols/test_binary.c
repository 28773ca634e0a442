#include <errno.h>
#include <time.h>

#include "lib/corpus.h"
#include "lib/test.h"
#include "symbols/binary.h"

/* Looks up addresses all over a binary; true when it could be opened. */
static bool try_all(struct bytes content, size_t step, size_t *ret_named)
{
    static struct lookup lookups[4096];
    struct binary_options o = {.max_memory = 256 << 20};
    struct binary *b = NULL;
    struct error err;
    size_t n = 0;

    if (binary_from_bytes(content, &o, &b, &err) < 0)
        return false;
    for (uint64_t va = 0x1000; n < 4096; va += step)
        lookups[n++] = (struct lookup){.va = va};
    binary_lookup(b, lookups, n);
    for (size_t i = 0; i < n; i++) {
        size_t depth = 0;
        for (const struct code_frame *f = lookups[i].innermost; f; f = f->outer) {
            /* Whatever was found must be readable text. */
            *ret_named += f->name && strlen(f->name) > 0;
            *ret_named += f->file && strlen(f->file) > 0;
            depth++;
        }
        if (depth > 100000)
            abort();
    }
    binary_close(b);
    return true;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static const char *const files[] = {
    "elf/own/work",
    "elf/own/work-clang14-dwarf5",
    "elf/own/work-gcc12-dwarf2",
    "elf/own/work-gz-zlib",
    "elf/own/work-gz-zlibgnu",
    "elf/own/work-clang14-splitdwarf",
    "elf/own/fib-aarch64",
    "elf/own/fib-i686",
    "elf/own/work-minidebuginfo",
    "elf/own/work-clang14-linetables",
};

static void survives_files_cut_short_anywhere(struct test *t)
{
    size_t named = 0, whole_named = 0;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct bytes content = read_whole(corpus_path(files[i]));
        if (!content.data)
            TEST_SKIP(t, CORPUS_ABSENT);
        CHECK(t, try_all(content, 3, &whole_named));
        for (size_t k = 0; k < 24; k++)
            try_all(bytes_head(content, content.len * k / 24), 3, &named);
        free((void *)(uintptr_t)content.data);
    }
    CHECK(t, whole_named > 1000);
}

/* Flips bytes at places spread over each file, for a bounded time. */
static void survives_flipped_bytes_all_over(struct test *t)
{
    double end = now() + 4.0;
    size_t named = 0, runs = 0;
    uint64_t random = 88172645463325252u;

    for (size_t round = 0; now() < end; round++) {
        struct bytes content = read_whole(corpus_path(files[round % 10]));
        if (!content.data)
            TEST_SKIP(t, CORPUS_ABSENT);
        uint8_t *bytes = (uint8_t *)(uintptr_t)content.data;
        for (int k = 0; k < 12 && now() < end; k++, runs++) {
            size_t at[8];
            uint8_t was[8];
            for (int f = 0; f < 8; f++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                at[f] = random % content.len;
                was[f] = bytes[at[f]];
                bytes[at[f]] = (uint8_t)(random >> 40);
            }
            try_all(content, 3, &named);
            for (int f = 7; f >= 0; f--)
                bytes[at[f]] = was[f];
        }
        free(bytes);
    }
    CHECK(t, runs > 20 && named > 0);
}

/* With less and less memory DWARF goes first, then the symbols; nothing else changes. */
static void keeps_names_when_dwarf_does_not_fit(struct test *t)
{
    size_t without_lines = 0;

    for (size_t limit = 4096; limit < 80000; limit += 1024) {
        struct binary *b = NULL;
        struct error err;
        struct lookup l = {.va = 0x1360};
        struct binary_options o = {.max_memory = limit};
        int r = binary_open(corpus_path("elf/own/work"), &o, &b, &err);
        if (r == -ENOENT)
            TEST_SKIP(t, CORPUS_ABSENT);
        CHECK(t, r == 0 || r == -ENOBUFS);
        if (r < 0)
            continue;
        binary_lookup(b, &l, 1);
        bool has_note = strstr(binary_notes(b), "memory limit") != NULL;
        if (l.innermost && l.innermost->name && !l.innermost->file) {
            CHECK_STR(t, l.innermost->name, "inline_hot");
            without_lines++;
        }
        CHECK(t, has_note || (l.innermost && l.innermost->file));
        binary_close(b);
    }
    CHECK(t, without_lines > 0);
}

static void stamps_differ_between_binaries(struct test *t)
{
    struct binary *a = NULL, *b = NULL;
    struct buf x = {0}, y = {0};

    if (binary_open(corpus_path("elf/own/work"), NULL, &a, NULL) < 0)
        TEST_SKIP(t, CORPUS_ABSENT);
    CHECK_INT(t, binary_open(corpus_path("elf/own/work-stripped"), NULL, &b, NULL), 0);
    binary_stamp(a, &x);
    binary_stamp(b, &y);
    CHECK(t, strstr(buf_cstr(&y), "work-stripped.debug"));
    CHECK(t, strcmp(buf_cstr(&x), buf_cstr(&y)) != 0);
    buf_done(&x);
    buf_done(&y);
    binary_close(a);
    binary_close(b);
}

static const struct test_case cases[] = {
    TEST(survives_files_cut_short_anywhere),
    TEST(survives_flipped_bytes_all_over),
    TEST(keeps_names_when_dwarf_does_not_fit),
    TEST(stamps_differ_between_binaries),
};
TEST_MAIN(cases)
