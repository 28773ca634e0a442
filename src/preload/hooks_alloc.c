/*
 * malloc and its family. The hot path counts down and jumps; the rest happens once in many bytes.
 * Memory that is sampled is the real allocator's like any other, and lies where that put it.
 */
#include "preload/hooks_alloc.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "preload/forward.h"
#include "preload/usdt.h"

/* ---- Samples ---- */

bool alloc_due(size_t n, struct alloc_sample *ret)
{
    struct preload_thread *t = &preload_thread;
    bool may = sample_begin(PRELOAD_ALLOC);
    const struct preload_header *h = preload_segment;
    uint32_t rate = h ? __atomic_load_n(&h->alloc_rate, __ATOMIC_RELAXED) : 0;
    if (!may) {
        sample_refused(PRELOAD_ALLOC, &t->alloc_left, &t->alloc_rate, rate);
        return false;
    }
    ret->is_live = sample_wants(PRELOAD_LIVE);
    bool is_due = sample_due(&t->alloc_left, &t->alloc_rate, n + (n == 0), rate, &ret->rate);
    sample_end();
    return is_due;
}

void alloc_record(void *p, size_t n, const struct alloc_sample *sample, enum preload_what what)
{
    int error = errno;
    if (!p || !sample_begin(PRELOAD_ALLOC))
        return;
    struct preload_record r = {
        .kind = PRELOAD_ALLOC,
        .what = (uint8_t)what,
        .rate = sample->rate,
        .value = n,
        .address = (uintptr_t)p,
    };
    r.stack = walk_here();
    segment_put(&r);
    if (sample->is_live) {
        struct preload_live live = {
            .size = n,
            .stack = r.stack,
            .rate = r.rate,
            .time_ns = r.time_ns,
            .labels = r.labels,
            .what = r.what,
        };
        live_add(p, &live);
    }
    PRELOAD_PROBE_ALLOC(p, n, sample_weight(n, sample->rate));
    sample_end();
    errno = error;
}

void alloc_gone(void *p)
{
    if (live_remove(p, NULL))
        PRELOAD_PROBE_FREE(p);
}

/* ---- malloc, calloc ---- */

static SLOW void *malloc_sampled(size_t n)
{
    struct alloc_sample sample;
    if (!alloc_due(n, &sample))
        return preload_real.malloc(n);
    void *p = preload_real.malloc(n);
    alloc_record(p, n, &sample, PRELOAD_WHAT_MALLOC);
    return p;
}

EXPORT void *malloc(size_t n)
{
    if (UNLIKELY(alloc_count(n)))
        return malloc_sampled(n);
    return preload_real.malloc(n);
}

static SLOW void *calloc_sampled(size_t count, size_t size)
{
    struct alloc_sample sample;
    size_t n;
    if (__builtin_mul_overflow(count, size, &n) || !alloc_due(n, &sample))
        return preload_real.calloc(count, size);
    void *p = preload_real.calloc(count, size);
    alloc_record(p, n, &sample, PRELOAD_WHAT_MALLOC);
    return p;
}

void *calloc_counted(size_t count, size_t size)
{
    size_t n;
    if (UNLIKELY(__builtin_mul_overflow(count, size, &n) || alloc_count(n)))
        return calloc_sampled(count, size);
    return preload_real.calloc(count, size);
}

#ifdef __GLIBC__
EXPORT void *calloc(size_t count, size_t size) __attribute__((alias("calloc_counted")));
#else
EXPORT void *calloc(size_t count, size_t size)
{
    return preload_via.calloc(count, size);
}
#endif

/* ---- free ---- */

static SLOW void free_looked_up(void *p)
{
    if (early_owns(p))
        return;
    alloc_gone(p);
    preload_real.free(p);
}

EXPORT void free(void *p)
{
    if (UNLIKELY(live_is_likely(p))) {
        free_looked_up(p);
        return;
    }
    preload_real.free(p);
}

/* Of C23, and of jemalloc: what they know more than free() saves the real ones little. */
EXPORT void free_sized(void *p, size_t n);
EXPORT void free_sized(void *p, size_t n)
{
    (void)n;
    free(p);
}

EXPORT void free_aligned_sized(void *p, size_t alignment, size_t n);
EXPORT void free_aligned_sized(void *p, size_t alignment, size_t n)
{
    (void)alignment, (void)n;
    free(p);
}

EXPORT void sdallocx(void *p, size_t n, int flags);
EXPORT void sdallocx(void *p, size_t n, int flags)
{
    (void)n, (void)flags;
    free(p);
}

#ifdef __GLIBC__
EXPORT void cfree(void *p);
EXPORT void cfree(void *p)
{
    free(p);
}
#endif

/* ---- realloc ---- */

static void *realloc_sampled(void *p, size_t n)
{
    struct alloc_sample sample;
    if (!alloc_due(n, &sample))
        return preload_real.realloc(p, n);
    void *q = preload_real.realloc(p, n);
    alloc_record(q, n, &sample, PRELOAD_WHAT_MALLOC);
    return q;
}

static SLOW void *realloc_from_early(void *p, size_t n)
{
    size_t room = early_room(p);
    preload_thread.alloc_left = 0; /* it may have been crossed, and that was not looked at */
    preload_thread.alloc_rate = 0;
    void *q = malloc(n);
    return q ? memcpy(q, p, n < room ? n : room) : NULL;
}

/* What is there is given back, and what comes is another object: sampled or not by its own size. */
static SLOW void *realloc_slow(void *p, size_t n, bool is_crossed)
{
    if (early_owns(p))
        return realloc_from_early(p, n);
    struct preload_live old;
    bool was_live = live_remove(p, &old);
    void *q = is_crossed ? realloc_sampled(p, n) : preload_real.realloc(p, n);
    if (was_live && !q && n > 0) {
        if (sample_begin(PRELOAD_LIVE)) { /* it failed: the old one is still there */
            live_add(p, &old);
            sample_end();
        }
    } else if (was_live) {
        PRELOAD_PROBE_FREE(p);
    }
    return q;
}

EXPORT void *realloc(void *p, size_t n)
{
    if (UNLIKELY(alloc_count(n)))
        return realloc_slow(p, n, true);
    if (UNLIKELY(live_is_likely(p)))
        return realloc_slow(p, n, false);
    return preload_real.realloc(p, n);
}

void *reallocarray_counted(void *p, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(p, n);
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
    return preload_via.reallocarray(p, count, size);
}

/* ---- Aligned ---- */

static bool is_power_of_two(size_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static SLOW void *aligned_sampled(size_t alignment, size_t n,
                                  void *(*otherwise)(size_t alignment, size_t n))
{
    struct alloc_sample sample;
    if (!alloc_due(n, &sample))
        return otherwise(alignment, n);
    void *p = otherwise(alignment, n);
    alloc_record(p, n, &sample, PRELOAD_WHAT_MALLOC);
    return p;
}

EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
    if (UNLIKELY(alloc_count(n)))
        return aligned_sampled(alignment, n, preload_real.aligned_alloc);
    return preload_real.aligned_alloc(alignment, n);
}

static void *real_memalign(size_t alignment, size_t n)
{
    return preload_real.memalign ? preload_real.memalign(alignment, n)
                                 : preload_real.aligned(alignment, n);
}

void *memalign_counted(size_t alignment, size_t n)
{
    if (UNLIKELY(alloc_count(n)))
        return aligned_sampled(alignment, n, real_memalign);
    return real_memalign(alignment, n);
}

EXPORT void *memalign(size_t alignment, size_t n)
{
    return preload_via.memalign(alignment, n);
}

static int real_posix_memalign(void **ret, size_t alignment, size_t n)
{
    if (preload_real.posix_memalign)
        return preload_real.posix_memalign(ret, alignment, n);
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int error = errno;
    void *p = preload_real.aligned(alignment, n);
    errno = error;
    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

static SLOW int posix_memalign_sampled(void **ret, size_t alignment, size_t n)
{
    struct alloc_sample sample;
    if (!alloc_due(n, &sample))
        return real_posix_memalign(ret, alignment, n);
    int rc = real_posix_memalign(ret, alignment, n);
    if (rc == 0)
        alloc_record(*ret, n, &sample, PRELOAD_WHAT_MALLOC);
    return rc;
}

int posix_memalign_counted(void **ret, size_t alignment, size_t n)
{
    if (UNLIKELY(alloc_count(n)))
        return posix_memalign_sampled(ret, alignment, n);
    return real_posix_memalign(ret, alignment, n);
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t n)
{
    return preload_via.posix_memalign(ret, alignment, n);
}

void *valloc_counted(size_t n)
{
    return memalign_counted((size_t)sysconf(_SC_PAGESIZE), n);
}

EXPORT void *valloc(size_t n)
{
    return preload_via.valloc(n);
}

#ifdef __GLIBC__
EXPORT void *pvalloc(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded;
    if (__builtin_add_overflow(n, page - 1, &rounded)) {
        errno = ENOMEM;
        return NULL;
    }
    rounded &= ~(page - 1);
    return memalign(page, rounded ? rounded : page);
}
#endif
