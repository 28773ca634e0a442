/*
 * Finds the functions that ours stand before. dlsym may allocate, which comes back to us: a block
 * of our own serves that. Its objects have a page each, so that free() takes them for ones that may
 * be sampled, and does not have to ask for them otherwise.
 */
#include "preload/forward.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/hooks_alloc.h"
#include "preload/inside.h"

/* ---- What dlsym allocates ---- */

enum { EARLY_PAGE = 4096, EARLY_PAGES = 32 };
static unsigned char early[EARLY_PAGES][EARLY_PAGE] __attribute__((aligned(EARLY_PAGE)));
static size_t early_used;
static __thread bool is_resolving;

static void *early_alloc(size_t n)
{
    size_t pages = n / EARLY_PAGE + 1;
    if (pages > EARLY_PAGES)
        return NULL;
    size_t at = __atomic_fetch_add(&early_used, pages, __ATOMIC_RELAXED);
    if (at + pages > EARLY_PAGES)
        return NULL;
    live_filter_pin(early[at]);
    return early[at];
}

bool early_owns(const void *p)
{
    return (uintptr_t)p - (uintptr_t)early < sizeof(early);
}

size_t early_room(const void *p)
{
    return sizeof(early) - ((uintptr_t)p - (uintptr_t)early);
}

/* ---- Before they are found ---- */

static bool resolve_first(void)
{
    if (is_resolving)
        return false;
    resolve_all();
    return true;
}

static void *first_malloc(size_t n)
{
    return resolve_first() ? preload_real.malloc(n) : early_alloc(n);
}

static void first_free(void *p)
{
    if (resolve_first())
        preload_real.free(p);
}

static void *first_calloc(size_t count, size_t n)
{
    size_t all;
    if (resolve_first())
        return preload_real.calloc(count, n);
    return __builtin_mul_overflow(count, n, &all) ? NULL : early_alloc(all);
}

static void *first_realloc(void *p, size_t n)
{
    if (resolve_first())
        return preload_real.realloc(p, n);
    void *q = early_alloc(n);
    if (p && q) {
        size_t room = early_room(p);
        memcpy(q, p, n < room ? n : room);
    }
    return q;
}

static void *first_aligned(size_t alignment, size_t n)
{
    if (resolve_first())
        return preload_real.aligned(alignment, n);
    return alignment <= EARLY_PAGE ? early_alloc(n) : NULL;
}

static void *first_aligned_alloc(size_t alignment, size_t n)
{
    return resolve_first() ? preload_real.aligned_alloc(alignment, n) : NULL;
}

static void *first_memalign(size_t alignment, size_t n)
{
    return resolve_first() ? preload_via.memalign(alignment, n) : first_aligned(alignment, n);
}

static int first_posix_memalign(void **ret, size_t alignment, size_t n)
{
    return resolve_first() ? preload_via.posix_memalign(ret, alignment, n) : ENOMEM;
}

static void *first_valloc(size_t n)
{
    return resolve_first() ? preload_via.valloc(n) : early_alloc(n);
}

static void *first_via_calloc(size_t count, size_t n)
{
    return resolve_first() ? preload_via.calloc(count, n) : first_calloc(count, n);
}

static void *first_reallocarray(void *p, size_t count, size_t n)
{
    return resolve_first() ? preload_via.reallocarray(p, count, n) : NULL;
}

static void *raw_mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

static int raw_munmap(void *at, size_t n)
{
    return (int)syscall(SYS_munmap, at, n);
}

static void *raw_mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *to = va_arg(rest, void *);
    va_end(rest);
    return (void *)syscall(SYS_mremap, old, old_size, size, flags, to);
}

struct preload_real preload_real = {
    .malloc = first_malloc,
    .free = first_free,
    .calloc = first_calloc,
    .realloc = first_realloc,
    .aligned = first_aligned,
    .aligned_alloc = first_aligned_alloc,
    .mmap = raw_mmap,
    .munmap = raw_munmap,
    .mremap = raw_mremap,
};
struct preload_via preload_via = {
    .calloc = first_via_calloc,
    .posix_memalign = first_posix_memalign,
    .memalign = first_memalign,
    .valloc = first_valloc,
    .reallocarray = first_reallocarray,
};
struct preload_range preload_allocator, preload_itself;

/* ---- Finding them ---- */

struct range_search {
    uintptr_t address;
    struct preload_range found;
};

static int look_into(struct dl_phdr_info *file, size_t size, void *data)
{
    (void)size;
    struct range_search *search = data;
    struct preload_range all = {UINTPTR_MAX, 0};
    for (size_t i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &file->dlpi_phdr[i];
        if (part->p_type != PT_LOAD)
            continue;
        uintptr_t start = file->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        all.start = start < all.start ? start : all.start;
        all.end = end > all.end ? end : all.end;
    }
    if (search->address < all.start || search->address >= all.end)
        return 0;
    search->found = all;
    return 1;
}

struct preload_range range_of(const void *address)
{
    struct range_search search = {.address = (uintptr_t)address};
    dl_iterate_phdr(look_into, &search);
    return search.found;
}

void *resolve_next(const char *name, const char *version)
{
    void *volatile found = NULL; /* dlsym looks at who called it: it must not be a jump */
#ifdef __GLIBC__
    if (version)
        found = dlvsym(RTLD_NEXT, name, version);
#endif
    (void)version;
    if (!found)
        found = dlsym(RTLD_NEXT, name);
    return found;
}

/*
 * glibc translates the text when it is asked for the error, which takes a lock that whoever
 * allocates may hold. It forgets one when something is found.
 */
void resolve_forgets(void)
{
#ifdef __GLIBC__
    resolve_next("malloc", NULL);
#else
    dlerror();
#endif
}

/* An entry stays as it was when there is no such function. */
#define RESOLVE(into, name)                                                                        \
    do {                                                                                           \
        void *found_ = resolve_next(name, NULL);                                                   \
        if (found_)                                                                                \
            memcpy(&(into), &found_, sizeof(found_));                                              \
    } while (0)

static void resolve_real(struct preload_real *real)
{
    RESOLVE(real->malloc, "malloc");
    RESOLVE(real->free, "free");
    RESOLVE(real->calloc, "calloc");
    RESOLVE(real->realloc, "realloc");
    RESOLVE(real->aligned_alloc, "aligned_alloc");
    RESOLVE(real->memalign, "memalign");
    RESOLVE(real->posix_memalign, "posix_memalign");
    RESOLVE(real->valloc, "valloc");
    RESOLVE(real->pvalloc, "pvalloc");
    RESOLVE(real->reallocarray, "reallocarray");
    RESOLVE(real->mmap, "mmap");
    RESOLVE(real->munmap, "munmap");
    RESOLVE(real->mremap, "mremap");
    /* musl's memalign calls aligned_alloc, which is ours; and glibc's aligned_alloc has become
     * stricter than its memalign. */
#ifdef __GLIBC__
    real->aligned = real->memalign ? real->memalign : real->aligned_alloc;
#else
    real->aligned = real->aligned_alloc;
#endif
}

/* In musl, calloc calls malloc, and others aligned_alloc; in both libraries reallocarray calls
 * realloc: by the names that we stand for. Allocators that are preloaded do not. */
static void decide_via(const struct preload_real *real, struct preload_via *via)
{
    struct preload_range libc = range_of((void *)(uintptr_t)getppid);
    void *calloc_at = (void *)(uintptr_t)real->calloc;
    void *array_at = (void *)(uintptr_t)real->reallocarray;
#ifdef __GLIBC__
    bool is_made_of_ours = false;
    (void)calloc_at;
#else
    bool is_made_of_ours = range_has(&libc, calloc_at);
#endif
    via->calloc = is_made_of_ours ? real->calloc : calloc_counted;
    via->memalign = is_made_of_ours && real->memalign ? real->memalign : memalign_counted;
    via->posix_memalign =
        is_made_of_ours && real->posix_memalign ? real->posix_memalign : posix_memalign_counted;
    via->valloc = is_made_of_ours && real->valloc ? real->valloc : valloc_counted;
    via->reallocarray =
        array_at && range_has(&libc, array_at) ? real->reallocarray : reallocarray_counted;
}

void resolve_all(void)
{
    static bool is_done; /* threads that do it at the same time find the same */
    if (is_resolving || __atomic_load_n(&is_done, __ATOMIC_ACQUIRE))
        return;
    is_resolving = true;
    int error = errno;
    struct preload_real real = preload_real;
    struct preload_via via = preload_via;
    resolve_real(&real);
    decide_via(&real, &via);
    preload_allocator = range_of((void *)(uintptr_t)real.malloc);
    preload_itself = range_of(&preload_itself);
    preload_real = real;
    preload_via = via;
    resolve_forgets();
    __atomic_store_n(&is_done, true, __ATOMIC_RELEASE);
    is_resolving = false;
    errno = error;
}
