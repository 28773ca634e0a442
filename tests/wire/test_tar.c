#include <errno.h>

#include "base/buf.h"
#include "lib/test.h"
#include "wire/inflate.h"
#include "wire/tar.h"

/* One header, with its checksum. */
static void add_header(struct buf *out, const char *name, char type, uint64_t size)
{
    char block[512] = "";
    unsigned sum = 0;
    snprintf(block, 101, "%s", name);
    snprintf(block + 124, 24, "%011llo", (unsigned long long)size);
    memset(block + 148, ' ', 8);
    block[156] = type;
    memcpy(block + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof(block); i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    buf_add(out, block, sizeof(block));
}

static void add_content(struct buf *out, const char *content)
{
    static const char zeros[512];
    size_t n = strlen(content);
    buf_add(out, content, n);
    buf_add(out, zeros, (512 - n % 512) % 512);
}

static void add_entry(struct buf *out, const char *name, char type, const char *content)
{
    add_header(out, name, type, strlen(content));
    add_content(out, content);
}

static void add_end(struct buf *out)
{
    static const char zeros[1024];
    buf_add(out, zeros, sizeof(zeros));
}

/* "name=content;" for each, or what went wrong. */
static void list(struct bytes tar, struct buf *out)
{
    struct budget b;
    struct error err = {""};
    struct tar_entry e;
    char piece[7];
    int r;
    budget_init(&b, 1 << 22);
    struct input *in = input_from_bytes(tar, "t", &b);
    struct tar_reader t = {.in = in};
    while ((r = tar_next(&t, &e, &err)) > 0) {
        ssize_t n;
        buf_addf(out, "%s=", e.name);
        while ((n = tar_read(&t, piece, sizeof(piece), &err)) > 0)
            buf_add(out, piece, (size_t)n);
        buf_add_byte(out, ';');
        if (n < 0)
            r = (int)n;
        if (n < 0)
            break;
    }
    if (r < 0)
        buf_addf(out, "%d %s", r, err.text);
    input_close(in);
}

static void reads_files_and_passes_over_the_rest(struct test *t)
{
    CLEANUP(buf_done) struct buf tar = {0};
    CLEANUP(buf_done) struct buf packed = {0};
    CLEANUP(buf_done) struct buf got = {0};
    const char *want = "a.c=int a;\n;b=;long/name.c=x;pax/päth=hello;\\0old=y;";

    add_entry(&tar, "dir/", '5', "");
    add_entry(&tar, "a.c", '0', "int a;\n");
    add_entry(&tar, "link", '2', "");
    add_entry(&tar, "b", '0', "");
    add_entry(&tar, "././@LongLink", 'L', "long/name.c");
    add_entry(&tar, "cut", '0', "x");
    add_entry(&tar, "pax", 'x', "18 path=pax/p\303\244th\n7 a=b=\n");
    add_entry(&tar, "cut", '0', "hello");
    add_entry(&tar, "\\0old", '\0', "y");
    add_end(&tar);
    list(buf_bytes(&tar), &got);
    CHECK_STR(t, buf_cstr(&got), want);
    buf_clear(&got);
    gzip_pack(buf_bytes(&tar), 6, &packed);
    list(buf_bytes(&packed), &got);
    CHECK_STR(t, buf_cstr(&got), want);
    /* An end that was forgotten is one. */
    buf_clear(&got);
    list(bytes_head(buf_bytes(&tar), tar.len - 1024), &got);
    CHECK_STR(t, buf_cstr(&got), want);
}

static void refuses_what_is_damaged(struct test *t)
{
    CLEANUP(buf_done) struct buf tar = {0};
    CLEANUP(buf_done) struct buf got = {0};

    add_entry(&tar, "a.c", '0', "int a;\n");
    for (size_t cut = 1; cut < tar.len; cut += 100) {
        buf_clear(&got);
        list(bytes_head(buf_bytes(&tar), cut), &got);
        CHECK(t, strstr(buf_cstr(&got), "the tar ends midway") != NULL || cut >= 512 + 7);
    }
    tar.data[3] ^= 1;
    buf_clear(&got);
    list(buf_bytes(&tar), &got);
    CHECK(t, strstr(buf_cstr(&got), "this is no tar, or it is damaged") != NULL);
    buf_clear(&tar);
    add_header(&tar, "huge", '0', (uint64_t)1 << 32);
    buf_clear(&got);
    list(buf_bytes(&tar), &got);
    CHECK(t, strstr(buf_cstr(&got), "the tar ends midway") != NULL);
    static const char *const pax[] = {"99 path=x\n", "x", "5 a\n", "0 a=b\n",
                                      "18446744073709551615 a=b\n"};
    for (size_t i = 0; i < ARRAY_SIZE(pax); i++) {
        buf_clear(&tar);
        buf_clear(&got);
        add_entry(&tar, "pax", 'x', pax[i]);
        list(buf_bytes(&tar), &got);
        CHECK(t, strstr(buf_cstr(&got), "a pax header that makes no sense") != NULL);
    }
}

static const struct test_case cases[] = {
    TEST(reads_files_and_passes_over_the_rest),
    TEST(refuses_what_is_damaged),
};
TEST_MAIN(cases)
