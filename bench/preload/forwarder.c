/*
 * The least that any preloaded library costs: wrappers that only pass calls on. What a profiler
 * costs by itself is what it takes above this.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#define NEXT(name) (__typeof__(real.name))(size_t)dlsym(RTLD_NEXT, #name)

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*pthread_mutex_lock)(pthread_mutex_t *);
} real;

/* What dlsym asks for while nothing is known yet. It keeps it, so free() need not tell it apart. */
static char early[1 << 16] __attribute__((aligned(16)));
static size_t early_used;

static void *take_early(size_t n)
{
    void *p = early + early_used;
    early_used += (n + 15) & ~(size_t)15;
    return p;
}

static void *first_malloc(size_t n);
static void *first_calloc(size_t n, size_t size)
{
    return take_early(n * size);
}
static void *first_realloc(void *p, size_t n)
{
    (void)p;
    return take_early(n);
}
static void first_free(void *p)
{
    (void)p;
}

static void find(void)
{
    static __thread int is_finding;

    if (is_finding)
        return;
    is_finding = 1;
    real.calloc = NEXT(calloc);
    real.realloc = NEXT(realloc);
    real.free = NEXT(free);
    real.pthread_mutex_lock = NEXT(pthread_mutex_lock);
    real.malloc = NEXT(malloc);
}

static void *first_malloc(size_t n)
{
    find();
    return real.malloc == first_malloc ? take_early(n) : real.malloc(n);
}

__attribute__((constructor)) static void start(void)
{
    find();
}

static int first_lock(pthread_mutex_t *m)
{
    find();
    return real.pthread_mutex_lock(m);
}

static __typeof__(real) real = {first_malloc, first_calloc, first_realloc, first_free, first_lock};

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t n)
{
    return real.malloc(n);
}

EXPORT void *calloc(size_t n, size_t size)
{
    return real.calloc(n, size);
}

EXPORT void *realloc(void *p, size_t n)
{
    return real.realloc(p, n);
}

EXPORT void free(void *p)
{
    real.free(p);
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
    return real.pthread_mutex_lock(m);
}
