#include "preload/holders.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "preload/inside.h"

struct holder {
    uintptr_t lock; /* 0: free; HOLDER_BUSY: being written */
    uint64_t who;   /* tid and number of the stack */
    uint64_t at_ns;
    uint32_t pid; /* numbers of stacks are those of one process */
};
#define HOLDERS     1024 /* a power of two */
#define HOLDER_BUSY 1

static struct holder holders[HOLDERS];

static struct holder *slot_of(const void *lock)
{
    uint64_t mixed = (uint64_t)(uintptr_t)lock * 0x9e3779b97f4a7c15u;
    return &holders[mixed >> 54];
}

static uint32_t this_process(void)
{
    const struct preload_header *h = preload_segment;
    return h ? h->pid : 0;
}

void holder_remember(const void *lock, uint32_t tid, uint32_t stack, uint64_t at_ns)
{
    struct holder *h = slot_of(lock);
    uintptr_t old = __atomic_load_n(&h->lock, __ATOMIC_RELAXED);

    if (stack == 0 || old == HOLDER_BUSY ||
        !__atomic_compare_exchange_n(&h->lock, &old, HOLDER_BUSY, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&h->who, (uint64_t)tid << 32 | stack, __ATOMIC_RELAXED);
    __atomic_store_n(&h->at_ns, at_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&h->pid, this_process(), __ATOMIC_RELAXED);
    __atomic_store_n(&h->lock, (uintptr_t)lock, __ATOMIC_RELEASE);
}

struct held {
    uint32_t tid, stack; /* 0: not known */
    uint64_t at_ns;
};

static struct held look_up(const void *lock)
{
    struct holder *h = slot_of(lock);

    if (__atomic_load_n(&h->lock, __ATOMIC_ACQUIRE) != (uintptr_t)lock)
        return (struct held){0};
    uint64_t who = __atomic_load_n(&h->who, __ATOMIC_RELAXED);
    uint64_t at_ns = __atomic_load_n(&h->at_ns, __ATOMIC_RELAXED);
    uint32_t pid = __atomic_load_n(&h->pid, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&h->lock, __ATOMIC_RELAXED) != (uintptr_t)lock || pid != this_process())
        return (struct held){0};
    return (struct held){(uint32_t)(who >> 32), (uint32_t)who, at_ns};
}

uint32_t holder_stack(const void *lock, uint32_t owner)
{
    struct held h = look_up(lock);
    return h.tid == owner ? h.stack : 0;
}

uint32_t holder_stack_since(const void *lock, uint32_t first, uint64_t since_ns, uint64_t until_ns)
{
    struct held h = look_up(lock);
    bool is_later = h.stack && h.at_ns >= since_ns && h.at_ns <= until_ns;

    return is_later && (!first || until_ns - h.at_ns >= h.at_ns - since_ns) ? h.stack : first;
}

#ifdef __GLIBC__

uint32_t holder_of_mutex(const pthread_mutex_t *m)
{
    return (uint32_t)__atomic_load_n(&m->__data.__owner, __ATOMIC_RELAXED);
}

/* The owner is written after the lock, and is 0 where it died. */
bool holder_is_other(const pthread_mutex_t *m)
{
    uint32_t owner = holder_of_mutex(m);

    return owner != 0 && owner < 1u << 30 && owner != (uint32_t)syscall(SYS_gettid);
}

uint32_t holder_of_rwlock(const pthread_rwlock_t *l)
{
    return (uint32_t)__atomic_load_n(&l->__data.__cur_writer, __ATOMIC_RELAXED);
}

#else

/* The first word of musl's is the kind, the second says who, unless the kind is the default one. */
uint32_t holder_of_mutex(const pthread_mutex_t *m)
{
    const int *words = (const int *)(const void *)m;
    int kind = __atomic_load_n(&words[0], __ATOMIC_RELAXED);

    return kind & 15 ? (uint32_t)__atomic_load_n(&words[1], __ATOMIC_RELAXED) & 0x3fffffff : 0;
}

bool holder_is_other(const pthread_mutex_t *m)
{
    (void)m;
    return false;
}

uint32_t holder_of_rwlock(const pthread_rwlock_t *l)
{
    (void)l;
    return 0;
}

#endif
