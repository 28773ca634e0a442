/* Who held a lock: a table that threads share without locks. */
#include <pthread.h>

#include "lib/test.h"
#include "preload/holders.h"
#include "preload/inside.h"

static char locks[64];

static void what_was_remembered_is_told_of_that_thread(struct test *t)
{
    CHECK_INT(t, holder_stack(&locks[0], 7), 0);
    holder_remember(&locks[0], 7, 70, 100);
    CHECK_INT(t, holder_stack(&locks[0], 7), 70);
    CHECK_INT(t, holder_stack(&locks[0], 8), 0);
    CHECK_INT(t, holder_stack(&locks[1], 7), 0);
    holder_remember(&locks[0], 8, 80, 100);
    CHECK_INT(t, holder_stack(&locks[0], 7), 0);
    CHECK_INT(t, holder_stack(&locks[0], 8), 80);
    holder_remember(&locks[0], 9, 0, 100); /* no stack is nothing to remember */
    CHECK_INT(t, holder_stack(&locks[0], 8), 80);
}

static void who_had_it_longest_of_two_is_told(struct test *t)
{
    holder_remember(&locks[3], 7, 70, 100);
    CHECK_INT(t, holder_stack_since(&locks[3], 60, 101, 200), 60); /* nobody came since */
    CHECK_INT(t, holder_stack_since(&locks[3], 0, 101, 200), 0);
    CHECK_INT(t, holder_stack_since(&locks[3], 60, 90, 200), 70); /* 10 before, 100 after */
    CHECK_INT(t, holder_stack_since(&locks[3], 60, 0, 110), 60);  /* 100 before, 10 after */
    CHECK_INT(t, holder_stack_since(&locks[3], 0, 0, 110), 70);
}

static void stacks_of_the_parent_are_not_those_of_a_child(struct test *t)
{
    struct preload_header parent = {.pid = 1}, child = {.pid = 2}, *was = preload_segment;

    preload_segment = &parent;
    holder_remember(&locks[2], 7, 70, 100);
    CHECK_INT(t, holder_stack(&locks[2], 7), 70);
    preload_segment = &child;
    CHECK_INT(t, holder_stack(&locks[2], 7), 0);
    preload_segment = was;
}

static void *remembers(void *arg)
{
    uint32_t tid = (uint32_t)(uintptr_t)arg;
    uintptr_t wrong = 0;

    for (uint32_t i = 0; i < 20000; i++) {
        const void *lock = &locks[i % 64];
        holder_remember(lock, tid, tid * 1000 + i % 64, 100);
        for (uint32_t other = 1; other <= 4; other++) {
            uint32_t stack = holder_stack(lock, other);
            wrong += stack != 0 && stack != other * 1000 + i % 64;
        }
    }
    return (void *)wrong;
}

static void threads_never_see_halves(struct test *t)
{
    pthread_t threads[4];

    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, remembers, (void *)(i + 1));
    for (int i = 0; i < 4; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        CHECK(t, wrong == NULL);
    }
}

static void mutexes_tell_who_has_them(struct test *t)
{
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

    CHECK(t, holder_is_plain(&m));
    CHECK_INT(t, holder_of_mutex(&m), 0);
    pthread_mutex_lock(&m);
    CHECK(t, holder_of_mutex(&m) != 0);
    CHECK(t, !holder_is_other(&m));
    pthread_mutex_unlock(&m);
    CHECK_INT(t, holder_of_mutex(&m), 0);
}

static const struct test_case cases[] = {
    TEST(what_was_remembered_is_told_of_that_thread),
    TEST(who_had_it_longest_of_two_is_told),
    TEST(stacks_of_the_parent_are_not_those_of_a_child),
    TEST(threads_never_see_halves),
    TEST(mutexes_tell_who_has_them),
};
TEST_MAIN(cases)
