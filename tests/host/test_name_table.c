#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/name_table.h"
#include "lib/test.h"

struct image {
    struct budget budget;
    int fd;
    struct name_table_writer *w;
};

static void image_start(struct image *i, enum name_table_kind kind)
{
    budget_init(&i->budget, 64 << 20);
    i->fd = memfd_create("names", MFD_CLOEXEC);
    i->w = name_table_writer_new(i->fd, kind, &i->budget);
}

static void add(struct image *i, uint64_t start, uint64_t end, const char *name, uint8_t rank)
{
    struct name_table_row row = {.start = start,
                                 .end = end,
                                 .name = name_table_writer_text(i->w, bytes_of(name)),
                                 .rank = rank};
    name_table_writer_add(i->w, &row);
}

/* Saves the image and opens it; NULL when either fails. */
static struct name_table *image_open(struct image *i, struct error *err)
{
    struct name_table *t = NULL;
    int r = name_table_writer_save(i->w, err);

    name_table_writer_free(i->w);
    i->w = NULL;
    if (r < 0) {
        close(i->fd);
        return NULL;
    }
    return name_table_open(i->fd, &t, err) < 0 ? NULL : t;
}

/* The name at an address, "" where there is none. */
static const char *name_at(struct name_table *t, uint64_t address)
{
    static char text[256];
    struct name_found f = {0};

    text[0] = '\0';
    if (name_table_find(t, address, &f))
        snprintf(text, sizeof(text), "%s", buf_cstr(&f.name));
    name_found_done(&f);
    return text;
}

#define SIZED (NAME_RANK_FUNCTION | NAME_RANK_HAS_SIZE)

static void finds_functions_by_address(struct test *t)
{
    struct image i;
    struct error err = {{0}};

    image_start(&i, NAME_TABLE_NAMES);
    add(&i, 0x2000, 0x2010, "second", SIZED);
    add(&i, 0x1000, 0x1800, "first", SIZED);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_STR(t, err.text, "");
    CHECK_INT(t, name_table_count(n), 2);
    CHECK_STR(t, name_at(n, 0xfff), "");
    CHECK_STR(t, name_at(n, 0x1000), "first");
    CHECK_STR(t, name_at(n, 0x17ff), "first");
    CHECK_STR(t, name_at(n, 0x1800), "");
    CHECK_STR(t, name_at(n, 0x200f), "second");
    CHECK_STR(t, name_at(n, 0x2010), "");
    CHECK_STR(t, name_at(n, UINT64_MAX), "");
    CHECK(t, !name_table_is_damaged(n));
    CHECK_INT(t, i.budget.used, 0);
}

static void makes_names_readable_and_keeps_the_linkers(struct test *t)
{
    struct image i;
    struct error err = {{0}};
    struct name_found f = {0};

    image_start(&i, NAME_TABLE_NAMES);
    add(&i, 0x1000, 0x1010, "_ZN2v88internal4Heap7CollectEi", SIZED);
    add(&i, 0x1010, 0x1020, "main", SIZED);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK(t, name_table_find(n, 0x1008, &f));
    CHECK_STR(t, buf_cstr(&f.name), "v8::internal::Heap::Collect");
    CHECK_STR(t, buf_cstr(&f.system_name), "_ZN2v88internal4Heap7CollectEi");
    CHECK_INT(t, f.start, 0x1000);
    CHECK(t, name_table_find(n, 0x1010, &f));
    CHECK_STR(t, buf_cstr(&f.name), "main");
    CHECK_STR(t, buf_cstr(&f.system_name), "");
    name_found_done(&f);
}

static void keeps_the_best_of_names_that_start_alike(struct test *t)
{
    struct image i;
    struct error err = {{0}};

    image_start(&i, NAME_TABLE_NAMES);
    add(&i, 0x1000, 0x1100, "_IO_fclose", SIZED | NAME_RANK_GLOBAL);
    add(&i, 0x1000, 0x1100, "fclose", SIZED | NAME_RANK_GLOBAL);
    add(&i, 0x1000, 0x1100, "__new_fclose", SIZED);
    add(&i, 0x2000, 0x3000, "label", 0);
    add(&i, 0x2000, 0x2010, "function", SIZED);
    add(&i, 0x3000, 0x3010, "short", SIZED);
    add(&i, 0x3000, 0x3020, "long", SIZED);
    add(&i, 0x4000, 0x4010, "local_one", SIZED);
    add(&i, 0x4000, 0x4010, "weak_one", SIZED | NAME_RANK_WEAK);
    add(&i, 0x4000, 0x4010, "zzz_global", SIZED | NAME_RANK_GLOBAL);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_INT(t, name_table_count(n), 4);
    CHECK_STR(t, name_at(n, 0x1000), "fclose");
    CHECK_STR(t, name_at(n, 0x2000), "function");
    CHECK_STR(t, name_at(n, 0x2020), "");
    CHECK_STR(t, name_at(n, 0x301f), "long");
    CHECK_STR(t, name_at(n, 0x4000), "zzz_global");
}

static void returns_to_the_outer_function_behind_an_inner_one(struct test *t)
{
    struct image i;
    struct error err = {{0}};
    struct name_found f = {0};

    image_start(&i, NAME_TABLE_NAMES);
    add(&i, 0x1000, 0x2000, "outer", SIZED);
    add(&i, 0x1100, 0x1200, "inner", SIZED);
    add(&i, 0x1180, 0x1190, "innermost", SIZED);
    add(&i, 0x1f00, 0x2100, "beyond", SIZED);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_STR(t, name_at(n, 0x10ff), "outer");
    CHECK_STR(t, name_at(n, 0x1100), "inner");
    CHECK_STR(t, name_at(n, 0x1180), "innermost");
    CHECK_STR(t, name_at(n, 0x1190), "inner");
    CHECK_STR(t, name_at(n, 0x1200), "outer");
    CHECK_STR(t, name_at(n, 0x1f00), "beyond");
    CHECK_STR(t, name_at(n, 0x20ff), "beyond");
    CHECK_STR(t, name_at(n, 0x2100), "");
    CHECK(t, name_table_find(n, 0x1200, &f));
    CHECK_INT(t, f.start, 0x1000);
    name_found_done(&f);
}

static void ends_what_has_no_size_where_the_next_one_starts(struct test *t)
{
    struct image i;
    struct error err = {{0}};

    image_start(&i, NAME_TABLE_NAMES);
    add(&i, 0x1000, 0x9000, "label", 0);
    add(&i, 0x1100, 0x1200, "function", SIZED);
    add(&i, 0x1300, 0x9000, "last", 0);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_STR(t, name_at(n, 0x10ff), "label");
    CHECK_STR(t, name_at(n, 0x1200), "");
    CHECK_STR(t, name_at(n, 0x8fff), "last");
}

static void lets_later_code_replace_earlier(struct test *t)
{
    struct image i;
    struct error err = {{0}};

    image_start(&i, NAME_TABLE_REPLACED);
    add(&i, 0x1000, 0x2000, "old(x)<y>", 0);
    add(&i, 0x1800, 0x1900, "young", 0);
    add(&i, 0x1000, 0x1400, "newer", 0);
    add(&i, 0x1700, 0x1a00, "newest", 0);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_STR(t, name_at(n, 0x1000), "newer");
    CHECK_STR(t, name_at(n, 0x1400), "old(x)<y>");
    CHECK_STR(t, name_at(n, 0x1800), "newest");
    CHECK_STR(t, name_at(n, 0x19ff), "newest");
    CHECK_STR(t, name_at(n, 0x1a00), "old(x)<y>");
}

static void tells_files_and_lines_where_it_has_them(struct test *t)
{
    struct image i;
    struct error err = {{0}};
    struct name_found f = {0};

    image_start(&i, NAME_TABLE_PLACES);
    uint32_t file = name_table_writer_text(i.w, BYTES("/src/main.go"));
    struct name_table_row row = {.start = 0xffffffff81000000,
                                 .end = 0xffffffff81000040,
                                 .name = name_table_writer_text(i.w, BYTES("main.main")),
                                 .file = file,
                                 .line = 42};
    name_table_writer_add(i.w, &row);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK(t, name_table_find(n, 0xffffffff81000004, &f));
    CHECK_STR(t, f.file, "/src/main.go");
    CHECK_INT(t, f.line, 42);
    CHECK_STR(t, buf_cstr(&f.name), "main.main");
    name_found_done(&f);
}

/* More leaves than addresses of them that are kept in memory. */
static void finds_each_of_a_million_functions(struct test *t)
{
    struct image i;
    struct error err = {{0}};
    struct name_found f = {0};
    char name[32];

    image_start(&i, NAME_TABLE_NAMES);
    for (uint64_t k = 0; k < 1000000; k++) {
        uint64_t start = 0x1000 + k * 0x40;
        snprintf(name, sizeof(name), "f%ju", (uintmax_t)k);
        add(&i, start, start + 0x30, name, SIZED);
    }
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_STR(t, err.text, "");
    CHECK_INT(t, n ? name_table_count(n) : 0, 1000000);
    for (uint64_t k = 0; n && k < 1000000; k += 997) {
        snprintf(name, sizeof(name), "f%ju", (uintmax_t)k);
        CHECK(t, name_table_find(n, 0x1000 + k * 0x40 + 0x2f, &f));
        CHECK_STR(t, buf_cstr(&f.name), name);
        CHECK(t, !name_table_find(n, 0x1000 + k * 0x40 + 0x30, &f));
    }
    name_found_done(&f);
}

static void spans_addresses_far_apart(struct test *t)
{
    struct image i;
    struct error err = {{0}};

    image_start(&i, NAME_TABLE_NAMES);
    add(&i, 0x10, 0x20, "low", SIZED);
    add(&i, 0x500000000, 0x700000000, "wide", SIZED);
    add(&i, UINT64_MAX - 16, UINT64_MAX, "high", SIZED);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_STR(t, name_at(n, 0x1f), "low");
    CHECK_STR(t, name_at(n, 0x500000000), "wide");
    CHECK_STR(t, name_at(n, 0x57ffffffe), "wide");
    CHECK_STR(t, name_at(n, UINT64_MAX - 1), "high");
    CHECK_STR(t, name_at(n, UINT64_MAX), "");
}

static void forgets_what_counts_least_where_hundreds_overlap(struct test *t)
{
    struct image i;
    struct error err = {{0}};
    char name[32];

    image_start(&i, NAME_TABLE_NAMES);
    for (uint64_t k = 0; k < 1000; k++) {
        snprintf(name, sizeof(name), "f%ju", (uintmax_t)k);
        add(&i, 0x1000 + k, 0x100000 - k, name, SIZED);
    }
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK_STR(t, name_at(n, 0x1000), "f0");
    CHECK_STR(t, name_at(n, 0x1000 + 999), "f999");
    CHECK_STR(t, name_at(n, 0x100000 - 999), "f998");
    CHECK_STR(t, name_at(n, 0x100000 - 1), "");
}

static void cuts_long_names_and_takes_empty_tables(struct test *t)
{
    static char name[20000];
    struct image i;
    struct error err = {{0}};
    struct name_found f = {0};

    memset(name, 'x', sizeof(name) - 1);
    image_start(&i, NAME_TABLE_NAMES);
    add(&i, 0x1000, 0x1010, name, SIZED);
    add(&i, 0x1010, 0x1010, "nothing", SIZED);
    CLEANUP(name_table_closep) struct name_table *n = image_open(&i, &err);
    CHECK(t, name_table_find(n, 0x1000, &f));
    CHECK_INT(t, f.name.len, 8192);
    name_found_done(&f);
    image_start(&i, NAME_TABLE_NAMES);
    CLEANUP(name_table_closep) struct name_table *empty = image_open(&i, &err);
    CHECK(t, empty != NULL);
    CHECK_STR(t, name_at(empty, 0x1000), "");
}

static void says_so_when_memory_does_not_suffice(struct test *t)
{
    struct image i;
    struct error err = {{0}};

    image_start(&i, NAME_TABLE_NAMES);
    i.budget.limit = 4096;
    for (uint64_t k = 0; k < 1000; k++)
        add(&i, k * 16, k * 16 + 16, "name", SIZED);
    CHECK(t, name_table_writer_failed(i.w));
    CHECK(t, image_open(&i, &err) == NULL);
    CHECK(t, strstr(err.text, "4.0 KiB"));
    CHECK_INT(t, i.budget.used, 0);
}

static void says_so_when_it_cannot_be_written(struct test *t)
{
    struct image i;
    struct error err = {{0}};

    image_start(&i, NAME_TABLE_NAMES);
    close(i.fd);
    i.fd = -1;
    add(&i, 0x1000, 0x1010, "name", SIZED);
    CHECK_INT(t, name_table_writer_save(i.w, &err), -EBADF);
    CHECK_STR(t, err.text, "could not write names: Bad file descriptor");
    name_table_writer_free(i.w);
}

static void refuses_what_is_no_image(struct test *t)
{
    struct error err = {{0}};
    struct name_table *n = NULL;
    int fd = memfd_create("names", MFD_CLOEXEC);

    CHECK_INT(t, name_table_open(fd, &n, &err), -EBADMSG);
    CHECK_STR(t, err.text, "names: no such image, or a damaged one");
    fd = memfd_create("names", MFD_CLOEXEC);
    CHECK_INT(t, ftruncate(fd, 1 << 20), 0);
    CHECK_INT(t, name_table_open(fd, &n, &err), -EBADMSG);
    CHECK(t, n == NULL);
}

/* Any byte of an image may change: no crash, and what leads elsewhere is found out. */
static void survives_damage_anywhere(struct test *t)
{
    struct image i;
    struct error err = {{0}};
    struct name_found f = {0};
    size_t refused = 0, damaged = 0;
    static uint8_t whole[65536];

    image_start(&i, NAME_TABLE_PLACES);
    for (uint64_t k = 0; k < 300; k++) {
        add(&i, 0x1000 + k * 64, 0x1000 + k * 64 + 64, "_ZN1a1bEv", SIZED);
        add(&i, 0x1010 + k * 64, 0x1000 + k * 64 + 32, "inner", SIZED);
    }
    CHECK_INT(t, name_table_writer_save(i.w, &err), 0);
    name_table_writer_free(i.w);
    ssize_t len = pread(i.fd, whole, sizeof(whole), 0);
    CHECK(t, len > 8192);
    for (ssize_t at = 0; at < len; at += at < 128 ? 1 : 37) {
        struct name_table *n = NULL;
        int fd = memfd_create("names", MFD_CLOEXEC);
        whole[at] ^= 0x55;
        CHECK_INT(t, pwrite(fd, whole, (size_t)len, 0), len);
        whole[at] ^= 0x55;
        if (name_table_open(fd, &n, &err) < 0) {
            refused++;
            continue;
        }
        for (uint64_t a = 0; a < 0x8000; a += 13)
            name_table_find(n, a, &f);
        damaged += name_table_is_damaged(n);
        name_table_close(n);
    }
    CHECK(t, refused >= 88);
    CHECK(t, damaged > 100);
    close(i.fd);
    name_found_done(&f);
}

static const struct test_case cases[] = {
    TEST(finds_functions_by_address),
    TEST(makes_names_readable_and_keeps_the_linkers),
    TEST(keeps_the_best_of_names_that_start_alike),
    TEST(returns_to_the_outer_function_behind_an_inner_one),
    TEST(ends_what_has_no_size_where_the_next_one_starts),
    TEST(lets_later_code_replace_earlier),
    TEST(tells_files_and_lines_where_it_has_them),
    TEST(finds_each_of_a_million_functions),
    TEST(spans_addresses_far_apart),
    TEST(forgets_what_counts_least_where_hundreds_overlap),
    TEST(cuts_long_names_and_takes_empty_tables),
    TEST(says_so_when_memory_does_not_suffice),
    TEST(says_so_when_it_cannot_be_written),
    TEST(refuses_what_is_no_image),
    TEST(survives_damage_anywhere),
};
TEST_MAIN(cases)
