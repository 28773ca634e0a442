#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The functions that ours stand before. Each points to a version that resolves all of them first,
 * so that the hooks need not ask whether that was done.
 */
struct preload_real {
    void *(*malloc)(size_t n);
    void (*free)(void *p);
    void *(*calloc)(size_t count, size_t n);
    void *(*realloc)(void *p, size_t n);
    void *(*aligned)(size_t alignment, size_t n); /* any power of two; for sampled memory */
    int (*posix_memalign)(void **ret, size_t alignment, size_t n);
    void *(*aligned_alloc)(size_t alignment, size_t n);
    void *(*memalign)(size_t alignment, size_t n);
    void *(*valloc)(size_t n);
    void *(*pvalloc)(size_t n);
    void *(*reallocarray)(void *p, size_t count, size_t n);
    void *(*mmap)(void *at, size_t n, int protection, int flags, int fd, off_t offset);
    int (*munmap)(void *at, size_t n);
    void *(*mremap)(void *old, size_t old_size, size_t size, int flags, ...);
};
extern struct preload_real preload_real __attribute__((visibility("hidden")));

/*
 * Functions that some allocators make of others that we stand before too: for those, the hook leads
 * straight to the real one, and else to ours that counts.
 */
struct preload_via {
    void *(*calloc)(size_t count, size_t n);
    int (*posix_memalign)(void **ret, size_t alignment, size_t n);
    void *(*memalign)(size_t alignment, size_t n);
    void *(*valloc)(size_t n);
    void *(*reallocarray)(void *p, size_t count, size_t n);
};
extern struct preload_via preload_via __attribute__((visibility("hidden")));

/* Where a file's code and data are. */
struct preload_range {
    uintptr_t start, end;
};
struct preload_range range_of(const void *address);
static inline bool range_has(const struct preload_range *r, const void *p)
{
    return (uintptr_t)p - r->start < r->end - r->start;
}

/* The file of the real malloc, and our own. */
extern struct preload_range preload_allocator __attribute__((visibility("hidden")));
extern struct preload_range preload_itself __attribute__((visibility("hidden")));

/* What was allocated while dlsym was at work. It is never given back. */
bool early_owns(const void *p);
/* How much can be read there. */
size_t early_room(const void *p);
