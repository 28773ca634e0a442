/*
 * Memory that a program takes from the kernel by itself: anonymous, private, writable. What the
 * allocator takes in order to hand it out is not counted a second time.
 */
#undef _FILE_OFFSET_BITS /* or mmap would be the name mmap64, and both are to be hooked */
#include <stdarg.h>
#include <sys/mman.h>

#include "preload/forward.h"
#include "preload/hooks_alloc.h"

#undef mmap64 /* musl's is a macro */

/* Must be small enough to be inlined: it asks who called the hook. Until the allocator is known it
 * is taken for it: mimalloc 3 maps its first memory before anybody asks it for any. */
static inline __attribute__((always_inline)) bool is_programs_own(void)
{
    const void *caller = __builtin_return_address(0);
    return preload_allocator.end != 0 && !range_has(&preload_allocator, caller) &&
           !range_has(&preload_itself, caller);
}

/*
 * ---- Mappings that are sampled and live ----
 *
 * They may be unmapped in parts, so they are known by their range too. Few programs have more of
 * them than there are places; of others, only their beginning is known.
 */
enum { CLAIMED = 1 };
static struct mapping {
    uintptr_t start, end; /* start is 0 when there is none, and written last */
} mappings[256];
static size_t n_mappings; /* that were ever used */

static void mapping_add(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < sizeof(mappings) / sizeof(mappings[0]); i++) {
        uintptr_t none = 0;
        if (!__atomic_compare_exchange_n(&mappings[i].start, &none, CLAIMED, false,
                                         __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&mappings[i].end, end, __ATOMIC_RELAXED);
        __atomic_store_n(&mappings[i].start, start, __ATOMIC_RELEASE);
        size_t used = __atomic_load_n(&n_mappings, __ATOMIC_RELAXED);
        while (used <= i && !__atomic_compare_exchange_n(&n_mappings, &used, i + 1, true,
                                                         __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
        return;
    }
}

/* What was sampled has another place and size now. It still stands for as many: the interval
 * changes with the size. */
static void keep_as(const struct preload_live *was, uintptr_t start, size_t size)
{
    struct preload_live now = *was;
    double rate = (double)was->rate * (double)size / (double)(was->size ? was->size : 1);
    now.size = size;
    now.rate = rate < 1 ? 1 : rate > UINT32_MAX ? UINT32_MAX : (uint32_t)rate;
    if (!sample_begin(PRELOAD_LIVE))
        return;
    live_add((void *)start, &now);
    mapping_add(start, start + size);
    sample_end();
}

/* These bytes are unmapped. What is left of a mapping stays live: of two pieces the larger. */
static void mapping_gone(uintptr_t start, size_t size)
{
    uintptr_t end = start + ((size + 4095) & ~(size_t)4095);
    size_t used = __atomic_load_n(&n_mappings, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < used; i++) {
        uintptr_t from = __atomic_load_n(&mappings[i].start, __ATOMIC_ACQUIRE);
        uintptr_t to = __atomic_load_n(&mappings[i].end, __ATOMIC_RELAXED);
        struct preload_live was;
        if (from <= CLAIMED || from >= end || to <= start ||
            !__atomic_compare_exchange_n(&mappings[i].start, &from, 0, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED) ||
            !live_remove((void *)from, &was))
            continue;
        size_t before = start > from ? start - from : 0, after = to > end ? to - end : 0;
        if (before > 0 && before >= after)
            keep_as(&was, from, before);
        else if (after > 0)
            keep_as(&was, end, after);
    }
    alloc_gone((void *)start);
}

/* ---- The hooks ---- */

static void *mmap_counted(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    struct alloc_sample sample;
    bool is_sampled = alloc_count(n) && alloc_due(n, &sample);
    void *p = preload_real.mmap(at, n, protection, flags, fd, offset);
    if (p == MAP_FAILED || !is_sampled)
        return p;
    alloc_record(p, n, &sample, PRELOAD_WHAT_MMAP);
    if (sample.is_live)
        mapping_add((uintptr_t)p, (uintptr_t)p + n);
    return p;
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (!is_programs_own())
        return preload_real.mmap(at, n, protection, flags, fd, offset);
    if (flags & MAP_FIXED)
        mapping_gone((uintptr_t)at, n);
    if ((flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) && (protection & PROT_WRITE))
        return mmap_counted(at, n, protection, flags, fd, offset);
    return preload_real.mmap(at, n, protection, flags, fd, offset);
}

#ifdef __GLIBC__
EXPORT void *mmap64(void *at, size_t n, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));
#endif

EXPORT int munmap(void *at, size_t n)
{
    if (is_programs_own())
        mapping_gone((uintptr_t)at, n);
    return preload_real.munmap(at, n);
}

/* A mapping that is moved or resized is the same sample, as large as it is then. */
EXPORT void *mremap(void *old, size_t old_size, size_t n, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *to = va_arg(rest, void *);
    va_end(rest);
    struct preload_live was;
    bool is_live = is_programs_own() && live_remove(old, &was);
    if (is_live)
        mapping_gone((uintptr_t)old, old_size);
    void *p = preload_real.mremap(old, old_size, n, flags, to);
    if (is_live && p == MAP_FAILED)
        keep_as(&was, (uintptr_t)old, was.size);
    else if (is_live)
        keep_as(&was, (uintptr_t)p, n);
    return p;
}
