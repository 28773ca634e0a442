#include <errno.h>
#include <pthread.h>

#include "base/budget.h"
#include "base/vec.h"
#include "lib/test.h"

/* Two tests ask for more than any machine has: sanitizers are to refuse as the system does. */
/* NOLINTBEGIN(readability-identifier-naming): the names are theirs */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}
/* NOLINTEND(readability-identifier-naming) */

static void an_error_names_the_limit_and_what_was_asked(struct test *t)
{
    struct budget b;
    struct error err;
    void *p = NULL;

    budget_init(&b, 4096);
    CHECK(t, budget_resize(&b, &p, 0, 4000));
    void *before = p;
    CHECK(t, !budget_resize(&b, &p, 4000, 5000));
    CHECK(t, p == before);
    CHECK(t, budget_failed(&b));
    CHECK_INT(t, budget_error(&b, &err), -ENOBUFS);
    CHECK_STR(t, err.text,
              "memory limit of 4.0 KiB reached: 3.9 KiB in use and 1000 B more needed");
    budget_free(&b, p, 4000);
    budget_free(&b, NULL, 0);
    CHECK_INT(t, b.used, 0);
}

static void what_the_system_refuses_is_given_back(struct test *t)
{
    struct budget b;
    void *p = NULL;

    budget_init(&b, SIZE_MAX);
    CHECK(t, !budget_resize(&b, &p, 0, SIZE_MAX / 2 + 1));
    CHECK(t, !p);
    CHECK_INT(t, b.used, 0);
    CHECK(t, budget_failed(&b));
}

static void a_block_shrinks_and_gives_back(struct test *t)
{
    struct budget b;
    void *p = NULL;

    budget_init(&b, 1000);
    CHECK(t, budget_resize(&b, &p, 0, 800));
    CHECK(t, budget_resize(&b, &p, 800, 100));
    CHECK_INT(t, b.used, 100);
    CHECK(t, budget_resize(&b, &p, 100, 0));
    CHECK_INT(t, b.used, 0);
    budget_free(&b, p, 0);
}

static void a_reader_of_an_outgrown_block_reads_on(struct test *t)
{
    struct budget_keep keep = {0};
    struct budget b;
    VEC(uint32_t) v = {0};

    budget_init(&b, 1 << 20);
    b.keep = &keep;
    CHECK(t, vec_push(&b, &v, 7));
    const uint32_t *seen = v.data;
    for (uint32_t i = 1; i < 1000; i++)
        CHECK(t, vec_push(&b, &v, i));
    CHECK(t, v.data != seen);
    CHECK_INT(t, seen[0], 7);
    CHECK_INT(t, v.data[0], 7);
    CHECK_INT(t, v.data[999], 999);
    CHECK_INT(t, keep.bytes, (8 + 16 + 32 + 64 + 128 + 256 + 512) * sizeof(uint32_t));
    CHECK_INT(t, b.used, keep.bytes + v.cap * sizeof(uint32_t));
    budget_reclaim(&b);
    CHECK_INT(t, keep.bytes, 0);
    CHECK_INT(t, b.used, v.cap * sizeof(uint32_t));

    seen = v.data;
    vec_done(&b, &v);
    CHECK_INT(t, seen[999], 999);
    CHECK(t, b.used > 0);
    budget_reclaim(&b);
    CHECK_INT(t, b.used, 0);
    budget_reclaim(&b);
}

/* A table that grows, and what readers are handed of it. */
struct shared {
    pthread_mutex_t lock;
    const uint32_t *data;
    size_t len;
    bool is_done;
};

static void *read_prefixes(void *arg)
{
    struct shared *s = arg;
    uintptr_t wrong = 0;

    for (bool is_done = false; !is_done;) {
        pthread_mutex_lock(&s->lock);
        const uint32_t *data = s->data;
        size_t len = s->len;
        is_done = s->is_done;
        pthread_mutex_unlock(&s->lock);
        for (size_t i = 0; i < len; i++)
            wrong += data[i] != i;
    }
    return (void *)wrong;
}

static void readers_need_no_lock_while_a_table_grows(struct test *t)
{
    struct shared shared = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct budget_keep keep = {0};
    struct budget b;
    VEC(uint32_t) v = {0};
    pthread_t reader;
    void *wrong;

    budget_init(&b, 1 << 20);
    b.keep = &keep;
    CHECK_INT(t, pthread_create(&reader, NULL, read_prefixes, &shared), 0);
    for (uint32_t i = 0; i < 20000; i++) {
        CHECK(t, vec_push(&b, &v, i));
        pthread_mutex_lock(&shared.lock);
        shared.data = v.data;
        shared.len = v.len;
        shared.is_done = i == 19999;
        pthread_mutex_unlock(&shared.lock);
    }
    pthread_join(reader, &wrong);
    CHECK_INT(t, (uintptr_t)wrong, 0);
    vec_done(&b, &v);
    budget_reclaim(&b);
    CHECK_INT(t, b.used, 0);
}

static void kept_blocks_count_towards_the_limit(struct test *t)
{
    struct budget_keep keep = {0};
    struct budget b;
    void *p = NULL;

    budget_init(&b, 1000);
    b.keep = &keep;
    CHECK(t, budget_resize(&b, &p, 0, 400));
    memset(p, 'x', 400);
    CHECK(t, !budget_resize(&b, &p, 400, 700));
    CHECK_INT(t, b.used, 400);
    CHECK_INT(t, b.asked, 700);
    CHECK_INT(t, ((char *)p)[399], 'x');
    CHECK(t, budget_resize(&b, &p, 400, 600));
    CHECK_INT(t, b.used, 1000);
    CHECK_INT(t, ((char *)p)[399], 'x');
    budget_free(&b, p, 600);
    CHECK_INT(t, b.used, 1000);
    budget_reclaim(&b);
    CHECK_INT(t, b.used, 0);
}

static void a_vec_near_the_limit_takes_just_what_it_needs_when_kept(struct test *t)
{
    struct budget_keep keep = {0};
    struct budget b;
    VEC(uint64_t) v = {0};

    budget_init(&b, (8 + 9) * sizeof(uint64_t));
    b.keep = &keep;
    for (uint64_t i = 0; i < 9; i++)
        CHECK(t, vec_push(&b, &v, i));
    CHECK_INT(t, v.cap, 9);
    CHECK(t, !vec_push(&b, &v, 9));
    CHECK_INT(t, v.len, 9);
    vec_done(&b, &v);
    budget_reclaim(&b);
    CHECK_INT(t, b.used, 0);
}

static void a_kept_block_does_not_move_to_shrink(struct test *t)
{
    struct budget_keep keep = {0};
    struct budget b;
    void *p = NULL;

    budget_init(&b, 1000);
    b.keep = &keep;
    CHECK(t, budget_resize(&b, &p, 0, 400));
    void *before = p;
    CHECK(t, budget_resize(&b, &p, 400, 300));
    CHECK(t, p == before);
    CHECK_INT(t, b.used, 300);
    budget_drop(&b, p, 300);
    CHECK_INT(t, b.used, 0);
    CHECK_INT(t, keep.bytes, 0);
}

static void memory_the_system_refuses_leaves_a_kept_block_as_it_was(struct test *t)
{
    struct budget_keep keep = {0};
    struct budget b;
    void *p = NULL;

    budget_init(&b, SIZE_MAX);
    b.keep = &keep;
    CHECK(t, budget_resize(&b, &p, 0, 100));
    void *before = p;
    CHECK(t, !budget_resize(&b, &p, 100, SIZE_MAX / 2 + 1));
    CHECK(t, p == before);
    CHECK_INT(t, b.used, 100);
    budget_drop(&b, p, 100);
}

static void reclaiming_without_keeping_does_nothing(struct test *t)
{
    struct budget b;

    budget_init(&b, 1000);
    budget_reclaim(&b);
    CHECK_INT(t, b.used, 0);
}

static const struct test_case cases[] = {
    TEST(an_error_names_the_limit_and_what_was_asked),
    TEST(what_the_system_refuses_is_given_back),
    TEST(a_block_shrinks_and_gives_back),
    TEST(a_reader_of_an_outgrown_block_reads_on),
    TEST(readers_need_no_lock_while_a_table_grows),
    TEST(kept_blocks_count_towards_the_limit),
    TEST(a_vec_near_the_limit_takes_just_what_it_needs_when_kept),
    TEST(a_kept_block_does_not_move_to_shrink),
    TEST(memory_the_system_refuses_leaves_a_kept_block_as_it_was),
    TEST(reclaiming_without_keeping_does_nothing),
};
TEST_MAIN(cases)
