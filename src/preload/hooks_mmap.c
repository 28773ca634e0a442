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

/* Must be small enough to be inlined: it asks who called the hook. */
static inline __attribute__((always_inline)) bool is_programs_own(void)
{
    return !range_has(&preload_allocator, __builtin_return_address(0));
}

static void *mmap_counted(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    struct alloc_sample sample;
    bool is_sampled = alloc_count(n) && alloc_due(n, &sample);
    void *p = preload_real.mmap(at, n, protection, flags, fd, offset);
    if (p == MAP_FAILED)
        return p;
    if (flags & MAP_FIXED)
        alloc_gone(p);
    if (is_sampled)
        alloc_record(p, n, &sample, PRELOAD_WHAT_MMAP);
    return p;
}

EXPORT void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    bool is_memory = (flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) && (protection & PROT_WRITE);
    if (is_memory && is_programs_own())
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
        alloc_gone(at);
    return preload_real.munmap(at, n);
}

EXPORT void *mremap(void *old, size_t old_size, size_t n, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *to = va_arg(rest, void *);
    va_end(rest);
    if (!is_programs_own())
        return preload_real.mremap(old, old_size, n, flags, to);
    alloc_gone(old);
    return preload_real.mremap(old, old_size, n, flags, to);
}
