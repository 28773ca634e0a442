#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/must.h"

/* One pool_run(), on its caller's stack. It is in the ring while some of it has not been begun. */
struct job {
    struct job *next, *prev;
    void (*fn)(void *arg, size_t i);
    void *arg;
    size_t begun, finished, count;
    pthread_cond_t done;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work; /* the ring is not empty, or stopping */
    struct job *ring;
    bool stopping;
    size_t n_workers;
    pthread_t workers[];
};

static void ring_add(struct pool *p, struct job *job)
{
    if (!p->ring) {
        job->next = job->prev = job;
        p->ring = job;
        return;
    }
    job->next = p->ring;
    job->prev = p->ring->prev;
    job->prev->next = job;
    job->next->prev = job;
}

static void ring_remove(struct pool *p, struct job *job)
{
    job->prev->next = job->next;
    job->next->prev = job->prev;
    if (p->ring == job)
        p->ring = job->next == job ? NULL : job->next;
}

/* Does one piece of the job, which has one left. Called and left with the lock held; the job may
 * be gone then unless it is the caller's own. */
static void do_piece(struct pool *p, struct job *job)
{
    size_t i = job->begun++;

    if (job->begun == job->count)
        ring_remove(p, job);
    pthread_mutex_unlock(&p->lock);
    job->fn(job->arg, i);
    pthread_mutex_lock(&p->lock);
    if (++job->finished == job->count)
        pthread_cond_signal(&job->done);
}

static void *work(void *arg)
{
    struct pool *p = arg;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->ring && !p->stopping)
            pthread_cond_wait(&p->work, &p->lock);
        if (!p->ring)
            break;
        struct job *job = p->ring;
        p->ring = job->next; /* a piece for each job in turn */
        do_piece(p, job);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals are for the program's own threads: workers block them all, but for SIGPROF, with which
 * profilers ask the thread that runs where it is. */
static int start_workers(struct pool *p, size_t n)
{
    sigset_t all, before;
    int r = 0;

    sigfillset(&all);
    sigdelset(&all, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (r == 0 && p->n_workers < n) {
        r = pthread_create(&p->workers[p->n_workers], NULL, work, p);
        p->n_workers += r == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = r;
    return -r;
}

int pool_new(size_t n_threads, struct pool **ret, struct error *err)
{
    size_t n = n_threads > 1 ? n_threads - 1 : 0;

    if (n_threads > POOL_THREADS_MAX)
        return error_set(err, -EINVAL, "%zu threads are too many, the limit is %d", n_threads,
                         POOL_THREADS_MAX);
    CLEANUP(pool_freep) struct pool *p = must_calloc(1, sizeof(*p) + n * sizeof(pthread_t));
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    int r = start_workers(p, n);
    if (r < 0)
        return error_set(err, r, "could not start thread %zu of %zu: %m", p->n_workers + 1, n);
    *ret = TAKE_PTR(p);
    return 0;
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

size_t pool_threads(const struct pool *p)
{
    return p ? p->n_workers + 1 : 1;
}

void pool_run(struct pool *p, void (*fn)(void *arg, size_t i), void *arg, size_t count)
{
    if (pool_threads(p) == 1 || count <= 1) {
        for (size_t i = 0; i < count; i++)
            fn(arg, i);
        return;
    }
    struct job job = {.fn = fn, .arg = arg, .count = count};
    pthread_cond_init(&job.done, NULL);
    pthread_mutex_lock(&p->lock);
    ring_add(p, &job);
    pthread_cond_broadcast(&p->work);
    while (job.begun < count)
        do_piece(p, &job);
    while (job.finished < count)
        pthread_cond_wait(&job.done, &p->lock);
    pthread_mutex_unlock(&p->lock);
    pthread_cond_destroy(&job.done);
}
