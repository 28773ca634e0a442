/*
 * A leak among memory that is none: a cache that fills and stays, a pool that replaces what it
 * holds, and what lives shortly. The mark behind "site:" is the leak.
 */
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define CACHE    30000
#define POOL     2000
#define TICKS    600

static void *volatile cache[CACHE], *volatile pool[POOL], *volatile lost;
static unsigned seed = 1;

static unsigned some(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % below;
}

NOINLINE static void forget_one(void)
{
    lost = malloc(256); /* site: leak */
}

NOINLINE static void fill_cache(unsigned i)
{
    if (!cache[i % CACHE])
        cache[i % CACHE] = malloc(300);
}

NOINLINE static void replace_in_pool(void)
{
    unsigned i = some(POOL);

    free(pool[i]);
    pool[i] = malloc(500);
}

NOINLINE static void live_shortly(void)
{
    void *volatile p = malloc(100 + some(1000));

    free(p);
}

int main(void)
{
    for (unsigned tick = 0; tick < TICKS; tick++) {
        for (unsigned i = 0; i < 40; i++)
            forget_one();
        for (unsigned i = 0; i < 200; i++)
            fill_cache(tick * 200 + i);
        for (unsigned i = 0; i < 50; i++)
            replace_in_pool();
        for (unsigned i = 0; i < 300; i++)
            live_shortly();
        usleep(4000);
    }
    return 0;
}
