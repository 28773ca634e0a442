/* What every workload does: three functions that cost 60, 30 and 10 of 100, each behind callers of
 * its own, for as many seconds as the first argument says. */
#pragma once

#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned long sink;

/* The same cost for the same n, whoever calls it. */
static inline __attribute__((always_inline)) void spin(unsigned n)
{
    unsigned long x = n;

    for (unsigned i = 0; i < n * 1000; i++)
        x = x * 6364136223846793005ul + 1442695040888963407ul;
    sink += x;
}

static inline double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline double seconds_asked(int argc, char **argv)
{
    return argc > 1 ? atof(argv[1]) : 5;
}
