#include <errno.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "lib/test.h"
#include "wire/inflate.h"
#include "wire/input.h"

static struct buf text_of(size_t n)
{
    struct buf b = {0};
    for (size_t i = 0; b.len < n; i++)
        buf_addf(&b, "line %zu;", i);
    b.len = n;
    return b;
}

/* The same content, packed 0..3 times, read whole after a peek and streamed in odd pieces. */
static void unpacks_every_layer_whole_and_streamed(struct test *t)
{
    struct buf plain = text_of(300000), packed = {0};
    buf_add_bytes(&packed, buf_bytes(&plain));
    for (int layers = 0; layers <= 3; layers++) {
        struct budget b;
        budget_init(&b, 1 << 24);
        struct error err = {""};
        struct bytes got;

        struct input *in = input_from_bytes(buf_bytes(&packed), "x", &b);
        CHECK_INT(t, input_peek(in, &got, &err), 0);
        CHECK_INT(t, got.len, INPUT_PEEK_BYTES);
        CHECK(t, memcmp(got.data, plain.data, got.len) == 0);
        CHECK_INT(t, input_all(in, &got, &err), 0);
        CHECK(t, bytes_equal(got, buf_bytes(&plain)));
        input_close(in);

        in = input_from_bytes(buf_bytes(&packed), "x", &b);
        CHECK_INT(t, input_peek(in, &got, &err), 0);
        struct buf streamed = {0};
        ssize_t n;
        while ((n = input_read(in, buf_reserve(&streamed, 7777), 7777, &err)) > 0)
            streamed.len += (size_t)n;
        CHECK_INT(t, n, 0);
        CHECK(t, bytes_equal(buf_bytes(&streamed), buf_bytes(&plain)));
        buf_done(&streamed);
        input_close(in);
        CHECK_INT(t, b.used, 0);

        struct buf more = {0};
        gzip_pack(buf_bytes(&packed), 6, &more);
        buf_done(&packed);
        packed = more;
    }
    buf_done(&packed);
    buf_done(&plain);
}

static void joins_concatenated_members(struct test *t)
{
    struct buf packed = {0};
    gzip_pack(BYTES("hello "), 6, &packed);
    gzip_pack(BYTES("world"), 6, &packed);
    struct budget b;
    budget_init(&b, 1 << 20);
    struct input *in = input_from_bytes(buf_bytes(&packed), "x", &b);
    struct bytes got;
    CHECK_INT(t, input_all(in, &got, NULL), 0);
    CHECK(t, bytes_are(got, "hello world"));
    input_close(in);
    buf_done(&packed);
}

static void refuses_a_bomb_and_a_stump(struct test *t)
{
    struct buf zeros = {0}, packed = {0};
    memset(buf_reserve(&zeros, 8 << 20), 0, 8 << 20);
    zeros.len = 8 << 20;
    gzip_pack(buf_bytes(&zeros), 9, &packed);
    struct budget b;
    struct error err = {""};
    struct bytes got;
    budget_init(&b, 1 << 20);
    struct input *in = input_from_bytes(buf_bytes(&packed), "bomb", &b);
    CHECK_INT(t, input_all(in, &got, &err), -ENOBUFS);
    CHECK(t, strstr(err.text, "memory limit of 1.0 MiB") != NULL);
    input_close(in);
    CHECK_INT(t, b.used, 0);

    budget_init(&b, 1 << 26);
    in = input_from_bytes(bytes_head(buf_bytes(&packed), packed.len - 9), "stump", &b);
    CHECK_INT(t, input_all(in, &got, &err), -EBADMSG);
    input_close(in);
    CHECK_INT(t, b.used, 0);
    buf_done(&packed);
    buf_done(&zeros);
}

/* A file of 300000 bytes by its descriptor, packed or not, with a limit. */
static void streams_no_more_than_the_limit(struct test *t)
{
    struct buf plain = text_of(300000), packed = {0};
    static const uint64_t limits[] = {300000, 299999, 1};
    gzip_pack(buf_bytes(&plain), 6, &packed);

    for (size_t i = 0; i < 2 * ARRAY_SIZE(limits); i++) {
        const struct buf *content = i % 2 ? &packed : &plain;
        struct budget b;
        struct error err = {""};
        char piece[5000];
        size_t got = 0;
        ssize_t n;
        budget_init(&b, 1 << 24);
        FILE *file = tmpfile();
        fwrite(content->data, 1, content->len, file);
        rewind(file);
        struct input *in = input_from_fd(dup(fileno(file)), "the file", &b);
        input_set_limit(in, limits[i / 2]);
        while ((n = input_read(in, piece, sizeof(piece), &err)) > 0)
            got += (size_t)n;
        if (limits[i / 2] == 300000) {
            CHECK_INT(t, n, 0);
            CHECK_INT(t, got, 300000);
        } else {
            CHECK_INT(t, n, -EFBIG);
            CHECK(t, got <= limits[i / 2]);
            CHECK(t, strstr(err.text, "the content is larger than ") != NULL);
        }
        CHECK_STR(t, input_name(in), "the file");
        input_close(in);
        CHECK_INT(t, b.used, 0);
        fclose(file);
    }
    buf_done(&packed);
    buf_done(&plain);
}

/* Two contents in one file, each by its own piece of it. */
static void reads_a_piece_of_a_file(struct test *t)
{
    struct buf plain = text_of(300000), packed = {0};
    gzip_pack(buf_bytes(&plain), 6, &packed);
    FILE *file = tmpfile();
    fwrite(plain.data, 1, plain.len, file);
    fwrite(packed.data, 1, packed.len, file);
    fwrite("behind", 1, 6, file);
    fflush(file);

    for (size_t i = 0; i < 2; i++) {
        struct budget b;
        struct error err = {""};
        struct bytes got = {0}, head = {0};
        budget_init(&b, 1 << 24);
        int fd = dup(fileno(file));
        CHECK_INT(t, lseek(fd, i == 0 ? 0 : (off_t)plain.len, SEEK_SET), i == 0 ? 0 : 300000);
        struct input *in = input_from_fd(fd, "the piece", &b);
        input_set_source(in, i == 0 ? plain.len : packed.len);
        CHECK_INT(t, input_peek(in, &head, &err), 0);
        CHECK_INT(t, head.len, INPUT_PEEK_BYTES);
        CHECK_INT(t, input_all(in, &got, &err), 0);
        CHECK_INT(t, got.len, plain.len);
        CHECK(t, got.len == plain.len && memcmp(got.data, plain.data, got.len) == 0);
        input_close(in);
        CHECK_INT(t, b.used, 0);
    }
    fclose(file);
    buf_done(&packed);
    buf_done(&plain);
}

static const struct test_case cases[] = {
    TEST(unpacks_every_layer_whole_and_streamed),
    TEST(joins_concatenated_members),
    TEST(refuses_a_bomb_and_a_stump),
    TEST(streams_no_more_than_the_limit),
    TEST(reads_a_piece_of_a_file),
};
TEST_MAIN(cases)
