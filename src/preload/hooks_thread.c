#include <errno.h>
#include <pthread.h>

#include "preload/inside.h"

/*
 * Threads that are made: each is a sample where it was made, and begins in a function of ours that
 * tells where its stack ends.
 */

/* What a thread is to do, from pthread_create() until it runs. A fixed number of them: nothing is
 * allocated, and threads that start late are few. */
struct start {
    uint32_t is_taken;
    void *(*run)(void *);
    void *arg;
};
#define STARTS       512
#define STARTS_TRIED 64
static struct start starts[STARTS];
static uint32_t starts_next;

static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

__attribute__((constructor)) static void resolve_threads(void)
{
    __atomic_store_n((void **)&real_create, resolve_next("pthread_create", NULL), __ATOMIC_RELEASE);
}

static struct start *take_start(void *(*run)(void *), void *arg)
{
    for (int i = 0; i < STARTS_TRIED; i++) {
        struct start *s = &starts[__atomic_fetch_add(&starts_next, 1, __ATOMIC_RELAXED) % STARTS];
        if (__atomic_exchange_n(&s->is_taken, 1, __ATOMIC_ACQUIRE))
            continue;
        s->run = run;
        s->arg = arg;
        return s;
    }
    return NULL;
}

static void give_back(struct start *s)
{
    __atomic_store_n(&s->is_taken, 0, __ATOMIC_RELEASE);
}

static void *thread_begins(void *arg)
{
    struct start s = *(struct start *)arg;

    give_back(arg);
    walk_thread_starts(__builtin_frame_address(0));
    return s.run(s.arg);
}

__attribute__((noinline)) static void thread_made(void)
{
    int kept = errno;

    if (sample_begin(PRELOAD_THREAD)) {
        struct preload_record r = {.kind = PRELOAD_THREAD, .stack = walk_here(), .value = 1};
        segment_put(&r);
        sample_end();
    }
    errno = kept;
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *restrict thread,
                                                          const pthread_attr_t *restrict attr,
                                                          void *(*run)(void *), void *restrict arg)
{
    struct start *s = take_start(run, arg);
    int r;

    if (!__atomic_load_n(&real_create, __ATOMIC_ACQUIRE))
        resolve_threads();
    if (s) {
        r = real_create(thread, attr, thread_begins, s);
        if (r != 0)
            give_back(s);
    } else {
        r = real_create(thread, attr, run, arg);
    }
    if (r == 0)
        thread_made();
    return r;
}
