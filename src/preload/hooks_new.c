/*
 * operator new and delete, by their names in the C++ ABI for 64 bits.
 *
 * Those of C++ runtimes call malloc and free, which are ours, so they need nothing. Allocators that
 * are preloaded or linked have their own, which do not: only for these the names are there. When
 * the library starts it looks whose they are, and takes all names out of its own table of symbols
 * but those that count. From then on everybody finds what would be found without us: a plugin its
 * own runtime, which it may throw by, or a pool that comes and goes.
 *
 * What was bound before, with the program, goes on to what it would have been bound to. That stays
 * as long as the program.
 */
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/forward.h"
#include "preload/hooks_alloc.h"

_Static_assert(sizeof(size_t) == 8, "the names say that sizes have 64 bits");

/* X(name, it is told an alignment) */
#define NEWS(X)                                                                                    \
    X(_Znwm, false)                                                                                \
    X(_Znam, false)                                                                                \
    X(_ZnwmRKSt9nothrow_t, false)                                                                  \
    X(_ZnamRKSt9nothrow_t, false)                                                                  \
    X(_ZnwmSt11align_val_t, true)                                                                  \
    X(_ZnamSt11align_val_t, true)                                                                  \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t, true)                                                    \
    X(_ZnamSt11align_val_tRKSt9nothrow_t, true)

/* X(name, it is told the size) */
#define DELETES(X)                                                                                 \
    X(_ZdlPv, false)                                                                               \
    X(_ZdaPv, false)                                                                               \
    X(_ZdlPvm, true)                                                                               \
    X(_ZdaPvm, true)                                                                               \
    X(_ZdlPvRKSt9nothrow_t, false)                                                                 \
    X(_ZdaPvRKSt9nothrow_t, false)                                                                 \
    X(_ZdlPvSt11align_val_t, false)                                                                \
    X(_ZdaPvSt11align_val_t, false)                                                                \
    X(_ZdlPvmSt11align_val_t, true)                                                                \
    X(_ZdaPvmSt11align_val_t, true)                                                                \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t, false)                                                  \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t, false)

#define OPERATORS(X) NEWS(X) DELETES(X)

#define X(name, is) OP##name,
enum operator_id { OPERATORS(X) OP_COUNT };
#undef X

/* All have at most three arguments, in registers: those that are not there do no harm. */
typedef void *operator_fn(uintptr_t a, uintptr_t b, uintptr_t c);

static operator_fn *real[OP_COUNT];
static bool is_hidden[OP_COUNT]; /* others are not to find it */

static const char *const names[] = {
#define X(name, is) [OP##name] = #name,
    OPERATORS(X)
#undef X
};

/* ---- Those of an allocator ---- */

static SLOW void *new_sampled(enum operator_id id, uintptr_t n, uintptr_t b, uintptr_t c)
{
    struct alloc_sample sample;
    if (!alloc_due(n, &sample))
        return real[id](n, b, c);
    void *p = real[id](n, b, c);
    alloc_record(p, n, &sample, PRELOAD_WHAT_MALLOC);
    return p;
}

static SLOW void *delete_looked_up(enum operator_id id, uintptr_t p, uintptr_t b, uintptr_t c)
{
    if (p == 0 || early_owns((void *)p))
        return NULL;
    alloc_gone((void *)p);
    return real[id](p, b, c);
}

#define X(name, is)                                                                                \
    static void *counted##name(uintptr_t n, uintptr_t b, uintptr_t c)                              \
    {                                                                                              \
        if (UNLIKELY(alloc_count(n)))                                                              \
            return new_sampled(OP##name, n, b, c);                                                 \
        return real[OP##name](n, b, c);                                                            \
    }
NEWS(X)
#undef X
#define X(name, is)                                                                                \
    static void *counted##name(uintptr_t p, uintptr_t b, uintptr_t c)                              \
    {                                                                                              \
        if (UNLIKELY(live_is_likely((void *)p)))                                                   \
            return delete_looked_up(OP##name, p, b, c);                                            \
        return real[OP##name](p, b, c);                                                            \
    }
DELETES(X)
#undef X

/* ---- Bound with the program, where nobody has them: by who can do without ---- */

static SLOW void *new_failed(enum operator_id id)
{
    if (!strstr(names[id], "nothrow"))
        abort(); /* nobody can throw */
    return NULL;
}

#define X(name, is_aligned)                                                                        \
    static void *plain##name(uintptr_t n, uintptr_t b, uintptr_t c)                                \
    {                                                                                              \
        (void)b, (void)c;                                                                          \
        void *p = (is_aligned) ? memalign(b, n ? n : 1) : malloc(n ? n : 1);                       \
        return p ? p : new_failed(OP##name);                                                       \
    }
NEWS(X)
#undef X
#define X(name, is)                                                                                \
    static void *plain##name(uintptr_t p, uintptr_t b, uintptr_t c)                                \
    {                                                                                              \
        (void)b, (void)c;                                                                          \
        free((void *)p);                                                                           \
        return NULL;                                                                               \
    }
DELETES(X)
#undef X

/* ---- The hooks ---- */

#define X(name, is) static operator_fn first##name;
OPERATORS(X)
#undef X

static void resolve_operators(void);

static operator_fn *via[] = {
#define X(name, is) [OP##name] = first##name,
    OPERATORS(X)
#undef X
};

#define X(name, is)                                                                                \
    static void *first##name(uintptr_t a, uintptr_t b, uintptr_t c)                                \
    {                                                                                              \
        resolve_operators();                                                                       \
        operator_fn *next = via[OP##name];                                                         \
        return next != first##name ? next(a, b, c) : plain##name(a, b, c);                         \
    }                                                                                              \
    EXPORT void *name(uintptr_t a, uintptr_t b, uintptr_t c);                                      \
    EXPORT void *name(uintptr_t a, uintptr_t b, uintptr_t c)                                       \
    {                                                                                              \
        return via[OP##name](a, b, c);                                                             \
    }
OPERATORS(X)
#undef X

/*
 * Whether an allocator's operator new comes back to us by another name: jemalloc's aligned ones
 * call aligned_alloc. Then it is counted there. There is no way to know but to call it.
 */
static bool comes_back(enum operator_id id)
{
    static const enum operator_id undo[] = {
        [OP_Znwm] = OP_ZdlPv,
        [OP_Znam] = OP_ZdaPv,
        [OP_ZnwmRKSt9nothrow_t] = OP_ZdlPv,
        [OP_ZnamRKSt9nothrow_t] = OP_ZdaPv,
        [OP_ZnwmSt11align_val_t] = OP_ZdlPvSt11align_val_t,
        [OP_ZnamSt11align_val_t] = OP_ZdaPvSt11align_val_t,
        [OP_ZnwmSt11align_val_tRKSt9nothrow_t] = OP_ZdlPvSt11align_val_t,
        [OP_ZnamSt11align_val_tRKSt9nothrow_t] = OP_ZdaPvSt11align_val_t,
    };
    static char nothrow; /* only its address is passed on */
    enum { ALIGNMENT = 64, MUCH = 1 << 30 };
    if (!real[undo[id]])
        return false;
    uint64_t *left = &preload_thread.alloc_left, before = *left;
    uintptr_t second = id >= OP_ZnwmSt11align_val_t ? ALIGNMENT : (uintptr_t)&nothrow;
    *left = MUCH;
    void *p = real[id](ALIGNMENT, second, (uintptr_t)&nothrow);
    bool came = (MUCH - *left) % 4096 == ALIGNMENT; /* it may also have asked for pages, by mmap */
    *left = before;
    if (p)
        real[undo[id]]((uintptr_t)p, ALIGNMENT, 0);
    return came;
}

static void find_operators(void)
{
    static const enum operator_id first[] = {OP_Znwm, OP_ZdlPv};
    bool has_any = false;
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        has_any |= resolve_next(names[first[i]], NULL) != NULL;
    for (int i = 0; has_any && i < OP_COUNT; i++) { /* what is not there takes long to look for */
        void *found = resolve_next(names[i], NULL);
        memcpy(&real[i], &found, sizeof(found));
    }
}

static void decide_operators(void)
{
    static const struct {
        operator_fn *counted, *plain;
    } ours[] = {
#define X(name, is) [OP##name] = {counted##name, plain##name},
        OPERATORS(X)
#undef X
    };
    for (int i = 0; i < OP_COUNT; i++) {
        void *at = (void *)(uintptr_t)real[i];
        bool is_allocators = at && range_has(&preload_allocator, at);
        bool is_counted = is_allocators && !(i < OP_ZdlPv && comes_back((enum operator_id)i));
        is_hidden[i] = !is_counted;
        via[i] = is_counted ? ours[i].counted : at ? real[i] : ours[i].plain;
    }
}

/* Threads that do it at the same time find the same. */
static SLOW void resolve_operators(void)
{
    static bool is_done;
    static __thread bool is_resolving;
    if (is_resolving || __atomic_load_n(&is_done, __ATOMIC_ACQUIRE))
        return;
    int error = errno;
    is_resolving = true;
    resolve_all();
    find_operators();
    decide_operators();
    resolve_forgets();
    is_resolving = false;
    __atomic_store_n(&is_done, true, __ATOMIC_RELEASE);
    errno = error;
}

/* ---- Who is to find them ---- */

extern const ElfW(Dyn) own_dynamic[] __asm__("_DYNAMIC") __attribute__((visibility("hidden")));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Some dynamic linkers have put addresses there, others left what the file says. */
static uintptr_t dynamic_address(ElfW(Sxword) tag)
{
    uintptr_t base = (uintptr_t)__ehdr_start;
    for (const ElfW(Dyn) *d = own_dynamic; d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return d->d_un.d_ptr < base ? base + d->d_un.d_ptr : d->d_un.d_ptr;
    return 0;
}

/* A symbol without a name is one that nobody finds. Its value stays: a dynamic linker that has just
 * found it reads that once more. */
static void hide_symbol(ElfW(Sym) * symbol, const char *name)
{
    if (strncmp(name, "_Z", 2) != 0)
        return;
    for (int i = 0; i < OP_COUNT; i++)
        if (is_hidden[i] && strcmp(name, names[i]) == 0)
            symbol->st_name = 0;
}

/* What the pages of these bytes allow, as the file says; 0: not known. Some linkers put code into
 * the same ones. */
static int protection_of(uintptr_t start, uintptr_t end)
{
    const ElfW(Ehdr) *file = (const void *)__ehdr_start;
    const ElfW(Phdr) *p = (const void *)(__ehdr_start + file->e_phoff);
    uintptr_t base = (uintptr_t)__ehdr_start;
    for (int i = 0; i < file->e_phnum; i++) {
        uintptr_t from = base + p[i].p_vaddr;
        if (p[i].p_type == PT_LOAD && start >= from && end <= from + p[i].p_filesz)
            return (p[i].p_flags & PF_R ? PROT_READ : 0) | (p[i].p_flags & PF_W ? PROT_WRITE : 0) |
                   (p[i].p_flags & PF_X ? PROT_EXEC : 0);
    }
    return 0;
}

static void hide_operators(void)
{
    const uint32_t *hash = (const uint32_t *)dynamic_address(DT_HASH);
    ElfW(Sym) *symbols = (ElfW(Sym) *)dynamic_address(DT_SYMTAB);
    const char *strings = (const char *)dynamic_address(DT_STRTAB);
    if (!hash || !symbols || !strings)
        return;
    uint32_t n = hash[1];
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)symbols & ~(page - 1);
    size_t size = (uintptr_t)(symbols + n) - start;
    int protection = protection_of((uintptr_t)symbols, (uintptr_t)(symbols + n));
    if (!protection || mprotect((void *)start, size, protection | PROT_WRITE) != 0)
        return;
    for (uint32_t i = 1; i < n; i++)
        hide_symbol(&symbols[i], strings + symbols[i].st_name);
    mprotect((void *)start, size, protection);
}

void operators_start(void)
{
    resolve_operators();
    hide_operators();
}
