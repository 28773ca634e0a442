#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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
    for (size_t i = 0; i < N; i++)
        CHECK(t, !live_is_likely(address(i)));
    sample_end();
}

/* A program with few samples touches few pages of the table. */
static void few_stand_together(struct test *t)
{
    enum { N = 400 };
    size_t last = 0;
    sample_begin(PRELOAD_ALLOC);
    for (size_t i = 0; i < N; i++)
        live_add((char *)address(i * 7) + i % 256 * 16, &(struct preload_live){0});
    for (size_t i = 0; i <= segment.live_mask; i++)
        last = segment.keys[i] ? i : last;
    CHECK(t, last >= N - 1 && last < 1024);
    for (size_t i = 0; i < N; i++)
        CHECK(t, live_remove((char *)address(i * 7) + i % 256 * 16, NULL));
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

static void *scattered(size_t i)
{
    return (char *)address(i * 5) + i % 256 * 16;
}

static size_t likely_of_others(void)
{
    enum { OTHERS = 20000 };
    size_t likely = 0;
    for (size_t i = 0; i < OTHERS; i++)
        likely += live_is_likely((char *)address(1000000 + i) + i * 48 % 4096);
    return likely * 100 / OTHERS;
}

/* Also when the table is half full. */
static void a_filter_knows_most_that_are_not_there(struct test *t)
{
    enum { N = 30000 };
    sample_begin(PRELOAD_ALLOC);
    for (size_t i = 0; i < N; i++)
        live_add(scattered(i), &(struct preload_live){0});
    for (size_t i = 0; i < N; i++)
        CHECK(t, live_is_likely(scattered(i)));
    CHECK(t, likely_of_others() < 6);
    for (size_t i = 0; i < N; i++)
        CHECK(t, live_remove(scattered(i), NULL));
    CHECK(t, !live_remove(NULL, NULL));
    sample_end();
}

/* But what must stay is there in a child, too. */
static void children_begin_with_an_empty_filter(struct test *t)
{
    enum { N = 1000 };
    void *stays = address(123456);
    live_filter_pin(stays);
    sample_begin(PRELOAD_ALLOC);
    for (size_t i = 0; i < N; i++)
        live_add(scattered(i), &(struct preload_live){0});
    sample_end();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool good = live_is_likely(scattered(0)) && sample_begin(PRELOAD_ALLOC);
        size_t likely = 0;
        for (size_t i = 0; i < N; i++)
            likely += live_is_likely(scattered(i));
        _exit(good && likely < N / 10 && live_is_likely(stays) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_INT(t, status, 0);
    for (size_t i = 0; i < N; i++)
        CHECK(t, live_remove(scattered(i), NULL));
}

/* Counts that have run over stay: what is added and removed then is found all the same. */
static void a_filter_that_is_full_hides_nothing(struct test *t)
{
    sample_begin(PRELOAD_ALLOC);
    void *p = address(77);
    for (int i = 0; i < 300; i++)
        live_filter_pin(p);
    for (int i = 0; i < 3; i++) {
        live_add(p, &(struct preload_live){0});
        CHECK(t, live_is_likely(p) && live_remove(p, NULL));
        CHECK(t, live_is_likely(p) && !live_remove(p, NULL));
    }
    sample_end();
}

/* Others' code may have freed it past us, and the allocator has it again. */
static void an_address_is_there_once(struct test *t)
{
    sample_begin(PRELOAD_ALLOC);
    for (size_t i = 1; i < 100; i++) {
        struct preload_live v = value(i), got;
        live_add(address(7), &v);
        live_add(address(7), &v);
        CHECK_INT(t, segment.header->live_count, 1);
        CHECK(t, live_remove(address(7), &got) && has_value(&got, i));
        CHECK(t, !live_is_likely(address(7)));
    }
    CHECK_INT(t, segment.header->lost[PRELOAD_LOSS_LIVE], 0);
    sample_end();
}

/* Threads add, hand over, and remove; as in programs, one address is with one thread at a time. */
enum { THREADS = 4, ROUNDS = 300, EACH = 64 };
static void *boxes[THREADS][EACH];
static int missed, mixed;

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
            if (old && !live_remove(old, &got))
                __atomic_fetch_add(&missed, 1, __ATOMIC_RELAXED);
            else if (old && !has_value(&got, ((uintptr_t)old >> 12) - 1))
                __atomic_fetch_add(&mixed, 1, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

/* A thread may be set aside while it takes the last address of a hash away: others of that hash are
 * not followed meanwhile, and counted. */
static void threads_hand_objects_to_each_other(struct test *t)
{
    pthread_t threads[THREADS];
    uint64_t lost = segment.header->lost[PRELOAD_LOSS_LIVE];
    int kept = 0;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(t, pthread_create(&threads[i], NULL, live_thread, (void *)(uintptr_t)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    uint64_t count = segment.header->live_count;
    for (size_t i = 0; i < THREADS; i++)
        for (size_t k = 0; k < EACH; k++)
            kept += live_remove(boxes[i][k], NULL);
    CHECK_INT(t, mixed, 0);
    CHECK_INT(t, count, kept);
    CHECK_INT(t, missed + THREADS * EACH - kept, segment.header->lost[PRELOAD_LOSS_LIVE] - lost);
    CHECK(t, kept > THREADS * EACH * 9 / 10);
    CHECK_INT(t, segment.header->live_count, 0);
}

static const struct test_case cases[] = {
    TEST(few_stand_together),
    TEST(finds_what_was_added),
    TEST(counts_what_has_no_room),
    TEST(a_filter_knows_most_that_are_not_there),
    TEST(children_begin_with_an_empty_filter),
    TEST(an_address_is_there_once),
    TEST(threads_hand_objects_to_each_other),
    TEST(a_filter_that_is_full_hides_nothing),
};
TEST_MAIN(cases)
