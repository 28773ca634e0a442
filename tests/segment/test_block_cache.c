#include <pthread.h>

#include "lib/test.h"
#include "segment/block_cache.h"

/* Puts a block of `len` bytes that all are `fill`. */
static void put(struct block_cache *c, uint64_t file, uint64_t offset, uint32_t len, uint8_t fill)
{
    CLEANUP(block_unrefp) struct block *b = block_new(len);

    memset(b->data, fill, len);
    block_cache_put(c, file, offset, b);
}

/* The first byte of a block, or -1 when it is not there. */
static int peek(struct block_cache *c, uint64_t file, uint64_t offset)
{
    CLEANUP(block_unrefp) struct block *b = block_cache_get(c, file, offset);

    return b ? b->data[0] : -1;
}

static void blocks_are_found_by_file_and_offset(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new(1 << 20);

    CHECK_INT(t, peek(c, 1, 0), -1);
    put(c, 1, 0, 100, 11);
    put(c, 1, 4096, 100, 12);
    put(c, 2, 0, 100, 13);
    CHECK_INT(t, peek(c, 1, 0), 11);
    CHECK_INT(t, peek(c, 1, 4096), 12);
    CHECK_INT(t, peek(c, 2, 0), 13);
    CHECK_INT(t, peek(c, 2, 4096), -1);
    struct block_cache_stats s = block_cache_stats(c);
    CHECK_INT(t, s.n_blocks, 3);
    CHECK_INT(t, s.hits, 3);
    CHECK_INT(t, s.misses, 2);
    CHECK_INT(t, s.limit, 1 << 20);
}

static void the_first_of_two_equal_blocks_stays(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new(1 << 20);

    put(c, 1, 0, 100, 1);
    put(c, 1, 0, 100, 2);
    CHECK_INT(t, peek(c, 1, 0), 1);
    CHECK_INT(t, block_cache_stats(c).n_blocks, 1);
}

static void the_least_recently_used_go_first(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new(10 * 1200);

    for (uint64_t i = 0; i < 10; i++)
        put(c, 7, i, 1000, (uint8_t)i);
    CHECK_INT(t, peek(c, 7, 0), 0);
    for (uint64_t i = 10; i < 15; i++)
        put(c, 7, i, 1000, (uint8_t)i);
    CHECK_INT(t, peek(c, 7, 0), 0);
    CHECK_INT(t, peek(c, 7, 1), -1);
    CHECK_INT(t, peek(c, 7, 14), 14);
    struct block_cache_stats s = block_cache_stats(c);
    CHECK(t, s.bytes <= s.limit && s.n_blocks >= 10);
}

static void the_limit_holds_whatever_comes(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new((size_t)20 << 20);
    uint32_t x = 1;

    for (uint64_t i = 0; i < 5000; i++) {
        x = x * 1664525 + 1013904223;
        put(c, i % 7, i, (x >> 16) % 60000, 1);
        if (i % 500 == 0) {
            struct block_cache_stats s = block_cache_stats(c);
            CHECK(t, s.bytes <= s.limit && s.limit <= (size_t)20 << 20);
        }
    }
    block_cache_set_limit(c, 1 << 20);
    CHECK(t, block_cache_stats(c).bytes <= 1 << 20);
    CHECK(t, block_cache_stats(c).n_blocks > 0);
}

static void a_block_larger_than_the_limit_is_not_kept(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new(1000);

    put(c, 1, 0, 100, 1);
    put(c, 1, 1, 1000, 2);
    CHECK_INT(t, peek(c, 1, 0), 1);
    CHECK_INT(t, peek(c, 1, 1), -1);
}

static void many_small_blocks_are_all_found(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new(4 << 20);

    for (uint64_t i = 0; i < 3000; i++)
        put(c, 1, i * 4096, 16, (uint8_t)i);
    for (uint64_t i = 0; i < 3000; i++)
        CHECK_INT(t, peek(c, 1, i * 4096), (uint8_t)i);
}

static void a_dropped_block_lives_while_it_is_used(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new(2000);

    put(c, 1, 0, 1000, 42);
    CLEANUP(block_unrefp) struct block *b = block_cache_get(c, 1, 0);
    put(c, 1, 1, 1500, 43);
    CHECK_INT(t, peek(c, 1, 0), -1);
    CHECK(t, b->len == 1000 && b->data[999] == 42);
}

static void a_file_can_be_forgotten(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new((size_t)64 << 20);

    for (uint64_t i = 0; i < 100; i++)
        put(c, i % 2, i, 100, (uint8_t)i);
    block_cache_forget(c, 1);
    CHECK_INT(t, block_cache_stats(c).n_blocks, 50);
    CHECK_INT(t, peek(c, 0, 2), 2);
    CHECK_INT(t, peek(c, 1, 3), -1);
}

static void *use_it(void *arg)
{
    struct block_cache *c = arg;
    static _Atomic uint32_t seed = 1;
    uint32_t x = ++seed;
    size_t wrong = 0;

    for (unsigned i = 0; i < 5000; i++) {
        x = x * 1664525 + 1013904223;
        uint64_t at = (x >> 16) % 300;
        int seen = peek(c, at % 3, at);
        if (seen < 0)
            put(c, at % 3, at, 500, (uint8_t)at);
        else
            wrong += seen != (uint8_t)at;
        if (i % 1000 == 0)
            block_cache_forget(c, at % 3);
        if (i % 777 == 0)
            (void)block_cache_stats(c);
    }
    return (void *)wrong;
}

static void threads_may_share_it(struct test *t)
{
    CLEANUP(block_cache_freep) struct block_cache *c = block_cache_new(100000);
    pthread_t threads[4];

    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, use_it, c);
    for (unsigned i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK(t, wrong == NULL);
    }
    CHECK(t, block_cache_stats(c).bytes <= 100000);
}

static const struct test_case cases[] = {
    TEST(blocks_are_found_by_file_and_offset),
    TEST(the_first_of_two_equal_blocks_stays),
    TEST(the_least_recently_used_go_first),
    TEST(the_limit_holds_whatever_comes),
    TEST(a_block_larger_than_the_limit_is_not_kept),
    TEST(many_small_blocks_are_all_found),
    TEST(a_dropped_block_lives_while_it_is_used),
    TEST(a_file_can_be_forgotten),
    TEST(threads_may_share_it),
};
TEST_MAIN(cases)
