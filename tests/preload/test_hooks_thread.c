/* Threads that are made with the real library: each is recorded where it was made, and lives as it
 * did without. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "lib/test.h"
#include "preload/own_ring.h"
#include "vesta/vesta.h"

__attribute__((constructor)) static void begin(void)
{
    own_ring_restart("threads,custom", "1");
}

static void *gives_back(void *arg)
{
    return arg;
}

PLACE void makes_threads(int n);
PLACE void makes_threads(int n)
{
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, gives_back, NULL) == 0)
            pthread_join(thread, NULL);
    }
}

static unsigned recorded(const char *name)
{
    uint64_t at = 0;
    unsigned n = 0;

    for (const struct preload_record *r; (r = own_ring_next(&at, PRELOAD_THREAD));)
        n += r->value == 1 && r->rate == 0 && own_stack_has(r->stack, name);
    return n;
}

static void threads_are_counted_where_they_are_made(struct test *t)
{
    own_ring_forget();
    makes_threads(7);
    CHECK_INT(t, recorded("makes_threads"), 7);
}

/* More than there are places for their arguments: what fails must give its place back. */
static void a_thread_that_cannot_be_made_leaves_nothing_behind(struct test *t)
{
    pthread_attr_t attr;
    pthread_t thread;
    unsigned failed = 0;

    own_ring_forget();
    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, (size_t)1 << 50) != 0)
        TEST_SKIP(t, "such a stack is refused before");
    for (int i = 0; i < 1500; i++)
        failed += pthread_create(&thread, &attr, gives_back, NULL) == EAGAIN;
    CHECK_INT(t, failed, 1500);
    uint64_t at = 0;
    CHECK(t, own_ring_next(&at, PRELOAD_THREAD) == NULL);
    makes_threads(3);
    CHECK_INT(t, recorded("makes_threads"), 3);
    pthread_attr_destroy(&attr);
}

static sem_t gate;

static void *waits_at_gate(void *arg)
{
    sem_wait(&gate);
    return arg;
}

static void many_threads_at_once_each_do_their_own(struct test *t)
{
    enum { MANY = 800 };
    static pthread_t threads[MANY];
    pthread_attr_t attr;
    size_t made = 0, right = 0;

    sem_init(&gate, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    while (made < MANY &&
           pthread_create(&threads[made], &attr, waits_at_gate, (void *)(made + 1)) == 0)
        made++;
    for (size_t i = 0; i < made; i++)
        sem_post(&gate);
    for (size_t i = 0; i < made; i++) {
        void *said = NULL;
        pthread_join(threads[i], &said);
        right += said == (void *)(i + 1);
    }
    CHECK(t, made > 0);
    CHECK_INT(t, right, made);
    pthread_attr_destroy(&attr);
}

/* ---- How threads live ---- */

static pthread_key_t key;
static int destroyed;
static size_t stack_size;

static void destroy(void *arg)
{
    destroyed += arg == &key;
    vesta_sample("destroyed/count", 1); /* also here the library works */
}

static void *exits(void *arg)
{
    pthread_attr_t attr;

    pthread_setspecific(key, &key);
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstacksize(&attr, &stack_size);
        pthread_attr_destroy(&attr);
    }
    pthread_exit((char *)arg + 1);
}

static void attributes_exit_and_destructors_are_as_they_were(struct test *t)
{
    char text[2];
    void *said = NULL;
    pthread_attr_t attr;
    pthread_t thread;

    own_ring_forget();
    pthread_key_create(&key, destroy);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 20);
    CHECK_INT(t, pthread_create(&thread, &attr, exits, text), 0);
    CHECK_INT(t, pthread_join(thread, &said), 0);
    CHECK(t, said == text + 1);
    CHECK_INT(t, destroyed, 1);
    CHECK(t, stack_size >= 1 << 20 && stack_size < 2 << 20);
    uint64_t at = 0;
    CHECK(t, own_ring_next(&at, PRELOAD_CUSTOM) != NULL);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    CHECK_INT(t, pthread_create(&thread, &attr, gives_back, NULL), 0);
    pthread_attr_destroy(&attr);
}

static void *spins(void *arg)
{
    for (;;)
        pthread_testcancel(), sched_yield();
    return arg;
}

static void threads_can_be_cancelled(struct test *t)
{
    pthread_t thread;
    void *said = NULL;

    pthread_create(&thread, NULL, spins, NULL);
    CHECK_INT(t, pthread_cancel(thread), 0);
    pthread_join(thread, &said);
    CHECK(t, said == PTHREAD_CANCELED);
}

static void *gets_a_name(void *arg)
{
    vesta_sample("named/count", 1);
    pthread_setname_np(pthread_self(), "worker-7");
    vesta_sample("named/count", 2);
    return arg;
}

static void a_sample_has_the_name_of_its_time(struct test *t)
{
    pthread_t thread;
    uint64_t at = 0;

    own_ring_forget();
    pthread_create(&thread, NULL, gets_a_name, NULL);
    pthread_join(thread, NULL);
    const struct preload_record *first = own_ring_next(&at, PRELOAD_CUSTOM);
    const struct preload_record *second = own_ring_next(&at, PRELOAD_CUSTOM);
    CHECK(t, first && second);
    if (!first || !second)
        return;
    CHECK(t, !own_text_is(first->thread_name, "worker-7"));
    CHECK(t, own_text_is(second->thread_name, "worker-7"));
    CHECK_INT(t, first->tid, second->tid);
    CHECK(t, first->tid != (uint32_t)getpid());
}

static const struct test_case cases[] = {
    TEST(threads_are_counted_where_they_are_made),
    TEST(a_thread_that_cannot_be_made_leaves_nothing_behind),
    TEST(many_threads_at_once_each_do_their_own),
    TEST(attributes_exit_and_destructors_are_as_they_were),
    TEST(threads_can_be_cancelled),
    TEST(a_sample_has_the_name_of_its_time),
};
TEST_MAIN(cases)
