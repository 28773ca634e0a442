#include <pthread.h>

#include "lib/test.h"
#include "preload/handover.h"
#include "preload/inside.h"

static void *address(size_t i)
{
    return (void *)((i + 1) << 12);
}

static struct preload_live value(size_t i)
{
    return (struct preload_live){
        .size = i * 3, .stack = (uint32_t)i, .rate = 4096, .time_ns = i + 5};
}

static bool has_value(const struct preload_live *v, size_t i)
{
    struct preload_live wanted = value(i);
    return memcmp(v, &wanted, sizeof(wanted)) == 0;
}

static void finds_what_was_added(struct test *t)
{
    enum { N = 20000 };
    sample_begin(PRELOAD_ALLOC);
    for (size_t i = 0; i < N; i++)
        live_add(address(i), &(struct preload_live){0});
    for (size_t i = 0; i < N; i += 2) /* gaps, which others take */
        CHECK(t, live_remove(address(i), NULL));
    for (size_t i = 0; i < N; i++)
        CHECK(t, live_remove(address(i), NULL) == (i % 2 == 1));
    for (size_t i = 0; i < N; i++) {
        struct preload_live v = value(i);
        live_add(address(i), &v);
    }
    CHECK_INT(t, segment.header->live_count, N);
    CHECK_INT(t, segment.header->lost[PRELOAD_LOSS_LIVE], 0);
    for (size_t i = N; i-- > 0;) {
        struct preload_live v;
        CHECK(t, live_remove(address(i), &v) && has_value(&v, i));
        CHECK(t, !live_remove(address(i), &v));
    }
    CHECK_INT(t, segment.header->live_count, 0);
    for (size_t i = 0; i <= segment.live_mask; i++)
        CHECK(t, segment.keys[i] == 0);
    for (size_t i = 0; i < 1 << LIVE_FILTER_BITS; i++)
        CHECK(t, live_filter[i] == 0);
    sample_end();
}

static void counts_what_has_no_room(struct test *t)
{
    size_t n = 2 * (segment.live_mask + 1);
    sample_begin(PRELOAD_ALLOC);
    for (size_t i = 0; i < n; i++)
        live_add(address(i), &(struct preload_live){0});
    uint64_t lost = segment.header->lost[PRELOAD_LOSS_LIVE], there = segment.header->live_count;
    CHECK_INT(t, lost + there, n);
    CHECK(t, there > segment.live_mask * 9 / 10); /* it gets nearly full before it refuses */
    size_t removed = 0;
    for (size_t i = 0; i < n; i++)
        removed += live_remove(address(i), NULL);
    CHECK_INT(t, removed, there);
    CHECK_INT(t, segment.header->live_count, 0);
    segment.header->lost[PRELOAD_LOSS_LIVE] = 0;
    sample_end();
}

static void only_some_addresses_are_looked_up(struct test *t)
{
    CHECK(t, live_may_have((void *)0x7f0012345000));
    CHECK(t, live_may_have((void *)0x7f0012345010)); /* glibc's mmapped chunks */
    CHECK(t, !live_may_have((void *)0x7f0012345020));
    CHECK(t, !live_may_have((void *)0x7f0012345008));
    CHECK(t, !live_may_have((void *)0x7f0012345810));
}

/* Threads add, hand over, and remove; as in programs, one address is with one thread at a time. */
enum { THREADS = 4, ROUNDS = 300, EACH = 64 };
static void *boxes[THREADS][EACH];
static int wrong;

static void *live_thread(void *arg)
{
    size_t me = (size_t)(uintptr_t)arg;
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < EACH; i++) {
            size_t id = (round * THREADS + me) * EACH + i;
            struct preload_live v = value(id);
            if (!sample_begin(PRELOAD_ALLOC))
                continue;
            live_add(address(id), &v);
            sample_end();
            /* What was in the box belongs to this thread now, wherever it came from. */
            size_t to = (me + i) % THREADS;
            void *old = __atomic_exchange_n(&boxes[to][i], address(id), __ATOMIC_ACQ_REL);
            struct preload_live got;
            if (old && (!live_remove(old, &got) || !has_value(&got, ((uintptr_t)old >> 12) - 1)))
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

static void threads_hand_objects_to_each_other(struct test *t)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(t, pthread_create(&threads[i], NULL, live_thread, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(t, wrong, 0);
    CHECK_INT(t, segment.header->live_count, THREADS * EACH);
    for (size_t i = 0; i < THREADS; i++)
        for (size_t k = 0; k < EACH; k++)
            CHECK(t, live_remove(boxes[i][k], NULL));
    CHECK_INT(t, segment.header->live_count, 0);
}

static const struct test_case cases[] = {
    TEST(finds_what_was_added),
    TEST(counts_what_has_no_room),
    TEST(only_some_addresses_are_looked_up),
    TEST(threads_hand_objects_to_each_other),
};
TEST_MAIN(cases)
