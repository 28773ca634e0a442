#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/pool.h"
#include "lib/test.h"

#define N_MAX 1000

struct count {
    atomic_int seen[N_MAX];
    atomic_size_t total;
    struct pool *pool; /* for work that runs more work */
};

static void count_it(void *arg, size_t i)
{
    struct count *c = arg;

    atomic_fetch_add(&c->seen[i], 1);
    atomic_fetch_add(&c->total, i);
}

static struct pool *pool_of(struct test *t, size_t n_threads)
{
    struct pool *p = NULL;
    struct error err;

    if (pool_new(n_threads, &p, &err) < 0) {
        printf("# %s\n", err.text);
        t->failures++;
    }
    return p;
}

static void each_piece_is_done_once(struct test *t)
{
    for (size_t n_threads = 0; n_threads <= 5; n_threads++) {
        CLEANUP(pool_freep) struct pool *p = pool_of(t, n_threads);
        CHECK_INT(t, pool_threads(p), n_threads ? n_threads : 1);
        for (size_t count = 0; count <= N_MAX; count = count * 3 + 1) {
            struct count c = {0};
            pool_run(p, count_it, &c, count);
            for (size_t i = 0; i < count; i++)
                CHECK_INT(t, c.seen[i], 1);
            CHECK_INT(t, c.total, count ? count * (count - 1) / 2 : 0);
        }
    }
}

static void append_it(void *arg, size_t i)
{
    size_t *at = arg;

    at[1 + at[0]++] = i;
}

static void without_threads_pieces_come_in_order(struct test *t)
{
    CLEANUP(pool_freep) struct pool *one = pool_of(t, 1);
    struct pool *pools[] = {NULL, one};

    for (size_t k = 0; k < 2; k++) {
        size_t order[11] = {0};
        pool_run(pools[k], append_it, order, 10);
        for (size_t i = 0; i < 10; i++)
            CHECK_INT(t, order[1 + i], i);
    }
    CHECK_INT(t, pool_threads(NULL), 1);
    pool_free(NULL);
}

static void run_more(void *arg, size_t i)
{
    struct count *c = arg;

    (void)i;
    pool_run(c->pool, count_it, c, 100);
}

static void work_may_run_more_work(struct test *t)
{
    CLEANUP(pool_freep) struct pool *p = pool_of(t, 3);
    struct count c = {.pool = p};

    pool_run(p, run_more, &c, 20);
    for (size_t i = 0; i < 100; i++)
        CHECK_INT(t, c.seen[i], 20);
}

static void *call_many_times(void *arg)
{
    struct count *c = arg;

    for (int k = 0; k < 200; k++)
        pool_run(c->pool, count_it, c, 7);
    return NULL;
}

static void callers_share_a_pool(struct test *t)
{
    CLEANUP(pool_freep) struct pool *p = pool_of(t, 3);
    struct count c[3] = {{.pool = p}, {.pool = p}, {.pool = p}};
    pthread_t callers[3];

    for (int i = 0; i < 3; i++)
        CHECK_INT(t, pthread_create(&callers[i], NULL, call_many_times, &c[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(callers[i], NULL);
        for (size_t k = 0; k < 7; k++)
            CHECK_INT(t, c[i].seen[k], 200);
    }
}

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t all;
    int here;
};

static void meet(void *arg, size_t i)
{
    struct meeting *m = arg;

    (void)i;
    pthread_mutex_lock(&m->lock);
    m->here++;
    pthread_cond_broadcast(&m->all);
    while (m->here < 3)
        pthread_cond_wait(&m->all, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

/* Each piece waits for the others, so fewer threads would hang. */
static void as_many_pieces_run_at_once_as_there_are_threads(struct test *t)
{
    CLEANUP(pool_freep) struct pool *p = pool_of(t, 3);
    struct meeting m = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

    pool_run(p, meet, &m, 3);
    CHECK_INT(t, m.here, 3);
}

static void too_many_threads_are_refused(struct test *t)
{
    struct pool *p = NULL;
    struct error err;

    CHECK_INT(t, pool_new(1025, &p, &err), -EINVAL);
    CHECK_STR(t, err.text, "1025 threads are too many, the limit is 1024");
    CHECK(t, !p);
}

static const struct test_case cases[] = {
    TEST(each_piece_is_done_once),
    TEST(without_threads_pieces_come_in_order),
    TEST(work_may_run_more_work),
    TEST(callers_share_a_pool),
    TEST(as_many_pieces_run_at_once_as_there_are_threads),
    TEST(too_many_threads_are_refused),
};
TEST_MAIN(cases)
