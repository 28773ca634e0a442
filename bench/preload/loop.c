/*
 * Calls of libc in a loop, timed from inside.
 *
 *     loop alloc|lock ROUNDS       prints the ns a pair of calls took, in the quickest of the
 * rounds
 *
 * alloc: malloc and free of sizes as programs have them (16 bytes to 2 KiB, mostly small), 16
 * blocks alive at a time. lock: a mutex that nobody else wants.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAIRS 400000
#define ALIVE 16

static const uint16_t sizes[] = {16,  24, 32, 32,  40, 48, 64,  64, 16, 24,  80,
                                 128, 32, 48, 256, 96, 64, 512, 24, 40, 2048};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void allocate(void)
{
    static void *volatile alive[ALIVE];
    size_t size = 0;

    for (unsigned i = 0; i < PAIRS; i++) {
        free(alive[i % ALIVE]);
        alive[i % ALIVE] = malloc(sizes[size]);
        size = size + 1 == SIZES ? 0 : size + 1;
    }
}

static void lock(void)
{
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

    for (unsigned i = 0; i < PAIRS; i++) {
        pthread_mutex_lock(&m);
        pthread_mutex_unlock(&m);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    void (*work)(void) = argc == 3 && strcmp(argv[1], "lock") == 0 ? lock : allocate;
    double best = 1e18;

    if (rounds < 1)
        return 2;
    for (int i = 0; i < rounds; i++) {
        double start = now_ns();
        work();
        double took = now_ns() - start;
        best = took < best ? took : best;
    }
    printf("%.3f\n", best / PAIRS);
    return 0;
}
