#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/inside.h"

/* What hooks of allocation share. */

#define EXPORT      __attribute__((visibility("default")))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SLOW        __attribute__((noinline, cold))

/* The hot path of all allocation: true when alloc_due() must be asked. */
static inline bool alloc_count(size_t n)
{
    return sample_count(&preload_thread.alloc_left, n + (n == 0));
}

struct alloc_sample {
    uint32_t rate;
    bool is_live; /* the object is to be followed */
};

/* Whether these n bytes are to be sampled. Then the memory is allocated, with nothing held (it may
 * throw), and alloc_record() says where it is. Both keep errno. */
bool alloc_due(size_t n, struct alloc_sample *ret);
void alloc_record(void *p, size_t n, const struct alloc_sample *sample, enum preload_what what);

/* The address is given back: what was sampled there is not live any more. */
void alloc_gone(void *p);

/* Those that count, for preload_via. */
void *calloc_counted(size_t count, size_t n);
void *memalign_counted(size_t alignment, size_t n);
int posix_memalign_counted(void **ret, size_t alignment, size_t n);
void *valloc_counted(size_t n);
void *reallocarray_counted(void *p, size_t count, size_t n);

/* hooks_new.c: when the library starts, after resolve_all(). */
void operators_start(void);
