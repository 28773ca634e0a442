#include <errno.h>
#include <pthread.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "wire/pack.h"

static void fill(uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        data[i] = (uint8_t)(i * i >> 5);
}

static void a_block_comes_back_as_it_was(struct test *t)
{
    static uint8_t plain[20000], again[20000];
    CLEANUP(buf_done) struct buf out = {0};

    fill(plain, sizeof(plain));
    buf_add_str(&out, "before");
    CHECK_INT(t, zstd_pack((struct bytes){plain, sizeof(plain)}, 3, &out), 0);
    CHECK(t, out.len > 6 && out.len < sizeof(plain));
    CHECK_INT(t, zstd_unpack(bytes_from(buf_bytes(&out), 6), sizeof(again), again, NULL), 0);
    CHECK(t, memcmp(plain, again, sizeof(plain)) == 0);
}

static void an_empty_block_is_a_block(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    uint8_t nothing;

    CHECK_INT(t, zstd_pack((struct bytes){0}, 1, &out), 0);
    CHECK_INT(t, zstd_unpack(buf_bytes(&out), 0, &nothing, NULL), 0);
}

static void damage_and_wrong_lengths_are_told(struct test *t)
{
    uint8_t plain[1000], again[1001];
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};

    fill(plain, sizeof(plain));
    CHECK_INT(t, zstd_pack((struct bytes){plain, sizeof(plain)}, 3, &out), 0);
    CHECK_INT(t, zstd_unpack(buf_bytes(&out), 1001, again, &err), -EBADMSG);
    CHECK_STR(t, err.text, "zstd content is damaged: 1000 bytes instead of 1001");
    CHECK_INT(t, zstd_unpack(buf_bytes(&out), 999, again, &err), -EBADMSG);
    CHECK_STR(t, err.text, "zstd content is damaged: Destination buffer is too small");
    for (size_t n = 0; n < out.len; n++)
        CHECK_INT(t, zstd_unpack(bytes_head(buf_bytes(&out), n), 1000, again, &err), -EBADMSG);
}

static void zlib_blocks_are_unpacked(struct test *t)
{
    /* "aaaaaaaaaa", as Python's zlib has it. */
    static const uint8_t packed[] = {0x78, 0x9c, 0x4b, 0x4c, 0x84, 0x01,
                                     0x00, 0x14, 0xe1, 0x03, 0xcb};
    struct bytes in = {packed, sizeof(packed)};
    char plain[16] = "";
    struct error err = {""};

    CHECK_INT(t, zlib_unpack(in, 10, plain, &err), 0);
    CHECK_STR(t, plain, "aaaaaaaaaa");
    CHECK_INT(t, zlib_unpack(in, 11, plain, &err), -EBADMSG);
    CHECK_STR(t, err.text, "zlib content is damaged, or not of 11 bytes");
    CHECK_INT(t, zlib_unpack(in, 9, plain, &err), -EBADMSG);
    for (size_t n = 0; n < sizeof(packed); n++)
        CHECK_INT(t, zlib_unpack(bytes_head(in, n), 10, plain, &err), -EBADMSG);
}

static void a_spent_budget_leaves_the_output_alone(struct test *t)
{
    uint8_t plain[1000];
    struct budget b;

    fill(plain, sizeof(plain));
    budget_init(&b, 300);
    CLEANUP(buf_done) struct buf out = {.budget = &b};
    buf_add_str(&out, "kept");
    CHECK_INT(t, zstd_pack((struct bytes){plain, sizeof(plain)}, 3, &out), -ENOBUFS);
    CHECK_INT(t, out.len, 4);
}

static void *pack_in_a_thread(void *arg)
{
    CLEANUP(buf_done) struct buf out = {0};
    uint8_t again[5];
    int *ret = arg;

    *ret = zstd_pack(BYTES("hello"), 1, &out);
    *ret |= zstd_unpack(buf_bytes(&out), 5, again, NULL);
    return NULL;
}

static void threads_have_their_own_memory_and_free_it(struct test *t)
{
    pthread_t threads[4];
    int results[4];

    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, pack_in_a_thread, &results[i]);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(t, results[i], 0);
    }
}

static const struct test_case cases[] = {
    TEST(a_block_comes_back_as_it_was),           TEST(an_empty_block_is_a_block),
    TEST(damage_and_wrong_lengths_are_told),      TEST(zlib_blocks_are_unpacked),
    TEST(a_spent_budget_leaves_the_output_alone), TEST(threads_have_their_own_memory_and_free_it),
};
TEST_MAIN(cases)
