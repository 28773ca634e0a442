/*
 * Allocates, waits and makes threads, all of it counted: what was really done is printed as JSON,
 * for tests of what the library inside says about it. Marks behind "site:" are looked for.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vesta/vesta.h>

#define NOINLINE __attribute__((noipa)) /* its name and its stack are what is looked for */
#define WAITERS  3
#define ROUNDS   8
#define MEMORY   (PROT_READ | PROT_WRITE)
#define PRIVATE  (MAP_PRIVATE | MAP_ANONYMOUS)

static void *volatile kept[1000];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static uint64_t waited[WAITERS], waits[WAITERS];

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

NOINLINE static uint64_t make_small(void)
{
    for (int i = 0; i < 400000; i++) {
        void *volatile p = malloc(96); /* site: small */
        free(p);
    }
    return 400000 * 96;
}

NOINLINE static uint64_t make_blocks(void)
{
    for (int i = 0; i < 1500; i++) {
        void *volatile p = malloc(40000); /* site: blocks */
        free(p);
    }
    return 1500 * 40000;
}

NOINLINE static uint64_t make_zeroed(void)
{
    for (int i = 0; i < 300; i++) {
        void *volatile p = calloc(1000, 64); /* site: zeroed */
        free(p);
    }
    return 300 * 64000;
}

NOINLINE static uint64_t make_mapped(void)
{
    for (int i = 0; i < 40; i++) {
        void *p = mmap(NULL, 1 << 20, MEMORY, PRIVATE, -1, 0); /* site: mapped */
        munmap(p, 1 << 20);
    }
    return (uint64_t)40 << 20;
}

NOINLINE static uint64_t keep_some(void)
{
    for (int i = 0; i < 1000; i++)
        kept[i] = malloc(20000); /* site: kept */
    for (int i = 0; i < 1000; i += 2)
        free(kept[i]);
    return 500 * 20000;
}

NOINLINE static uint64_t make_in_span(void)
{
    uint8_t trace[16], span[8];

    memset(trace, 0xab, sizeof(trace));
    memset(span, 0xcd, sizeof(span));
    vesta_span_set(trace, span);
    vesta_label_set("http.route", "/cart");
    for (int i = 0; i < 500; i++) {
        void *volatile p = malloc(30000); /* site: span */
        free(p);
    }
    vesta_sample("rows/count", 1234);
    vesta_label_clear("http.route");
    vesta_span_clear();
    return 500 * 30000;
}

NOINLINE static void wait_for_it(size_t i)
{
    uint64_t start = now_ns();

    pthread_mutex_lock(&lock); /* site: lock */
    uint64_t took = now_ns() - start;
    waited[i] += took;
    waits[i] += took > 1000000; /* on a busy machine it may be free again by then */
    pthread_mutex_unlock(&lock);
}

static void *waiter(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        wait_for_it((size_t)(uintptr_t)arg);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

NOINLINE static void hold_it(void)
{
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&barrier);
    usleep(20000);
    pthread_mutex_unlock(&lock);
    pthread_barrier_wait(&barrier);
}

NOINLINE static void contend(void)
{
    pthread_t threads[WAITERS];

    pthread_barrier_init(&barrier, NULL, WAITERS + 1);
    for (size_t i = 0; i < WAITERS; i++)
        pthread_create(&threads[i], NULL, waiter, (void *)i); /* site: thread */
    for (int i = 0; i < ROUNDS; i++)
        hold_it();
    for (size_t i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
}

int main(void)
{
    uint64_t ns = 0, n = 0;

    printf("{\"small\": %llu, ", (unsigned long long)make_small());
    printf("\"blocks\": %llu, ", (unsigned long long)make_blocks());
    printf("\"zeroed\": %llu, ", (unsigned long long)make_zeroed());
    printf("\"mapped\": %llu, ", (unsigned long long)make_mapped());
    printf("\"kept\": %llu, ", (unsigned long long)keep_some());
    printf("\"span\": %llu, ", (unsigned long long)make_in_span());
    contend();
    for (size_t i = 0; i < WAITERS; i++) {
        ns += waited[i];
        n += waits[i];
    }
    printf("\"lock\": %llu, \"waits\": %llu, \"threads\": %d}\n", (unsigned long long)ns,
           (unsigned long long)n, WAITERS);
    return 0;
}
