/*
 * Allocates a known amount by every function there is, keeps some, and says how much that was:
 * "allocated OBJECTS BYTES live OBJECTS BYTES". With "wait", keeps on until its input ends.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t objects, bytes, live_objects, live_bytes;

static void *counted(void *p, size_t n)
{
    if (!p)
        abort();
    memset(p, 1, n);
    objects++;
    bytes += n;
    return p;
}

static void *allocate(unsigned i, size_t n)
{
    void *p = NULL;
    switch (i % 7) {
    case 0:
        return counted(malloc(n), n);
    case 1:
        return counted(calloc(n, 1), n);
    case 2:
        return counted(realloc(counted(malloc(n / 2), n / 2), n), n);
    case 3:
        return posix_memalign(&p, 64, n) == 0 ? counted(p, n) : NULL;
    case 4:
        return counted(aligned_alloc(32, n), n);
    case 5:
        return counted(memalign(128, n), n);
    default:
        return counted(reallocarray(NULL, n, 1), n);
    }
}

static void work(unsigned rounds)
{
    static void *kept[512];
    static size_t sizes[512];
    unsigned seed = 1;
    for (unsigned i = 0; i < rounds; i++) {
        seed = seed * 1103515245 + 12345;
        size_t n = (seed >> 16) % 1400;
        if (i % 500 == 0)
            n += 50000;
        if (i % 7 == 2 && n == 0)
            n = 1; /* realloc() to nothing frees */
        unsigned at = i % 512;
        live_bytes -= sizes[at];
        live_objects -= kept[at] != NULL;
        free(kept[at]);
        kept[at] = allocate(i, n);
        sizes[at] = n;
        live_bytes += n;
        live_objects++;
    }
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20000;
    char c;
    do
        work(rounds);
    while (argc > 2 && read(0, &c, 1) == 1);
    printf("allocated %zu %zu live %zu %zu\n", objects, bytes, live_objects, live_bytes);
    return 0;
}
