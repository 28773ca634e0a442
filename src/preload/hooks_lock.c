#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "preload/holders.h"
#include "preload/inside.h"

/*
 * Locks, and other things that threads wait for. A lock that is free costs one call more: it is
 * tried first, and only when another thread has it is the wait timed. What trying says beside
 * "taken" and "busy" is left to the real function to say, so all kinds of mutexes keep their
 * meaning.
 *
 * Nothing of ours is held while a thread waits, so it may be cancelled there, and may fork.
 */

#define EXPORT      __attribute__((visibility("default")))
#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define OUT_OF_LINE __attribute__((noinline, cold))

/* ---- The functions that ours stand before ---- */

static struct {
    int (*mutex_trylock)(pthread_mutex_t *);
    int (*mutex_lock)(pthread_mutex_t *);
    int (*mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
    int (*mutex_clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*rwlock_tryrdlock)(pthread_rwlock_t *);
    int (*rwlock_rdlock)(pthread_rwlock_t *);
    int (*rwlock_timedrdlock)(pthread_rwlock_t *, const struct timespec *);
    int (*rwlock_clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
    int (*rwlock_trywrlock)(pthread_rwlock_t *);
    int (*rwlock_wrlock)(pthread_rwlock_t *);
    int (*rwlock_timedwrlock)(pthread_rwlock_t *, const struct timespec *);
    int (*rwlock_clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
    int (*cond_wait)(pthread_cond_t *, pthread_mutex_t *);
    int (*cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int (*cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*sem_wait)(sem_t *);
    int (*sem_timedwait)(sem_t *, const struct timespec *);
    int (*sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
} real;

#define FIND(field, name)                                                                          \
    __atomic_store_n((void **)&real.field, resolve_next(name, NULL), __ATOMIC_RELEASE)

/* The first conditions of glibc were smaller, and have the same names. */
static void *find_condition(const char *name)
{
    void *found = resolve_next(name, "GLIBC_2.3.2");
    return found ? found : resolve_next(name, NULL);
}

#define FIND_CONDITION(field, name)                                                                \
    __atomic_store_n((void **)&real.field, find_condition(name), __ATOMIC_RELEASE)

/* May happen more than once, and at the same time: it finds the same. */
__attribute__((constructor)) OUT_OF_LINE static void resolve_locks(void)
{
    FIND(mutex_lock, "pthread_mutex_lock");
    FIND(mutex_timedlock, "pthread_mutex_timedlock");
    FIND(mutex_clocklock, "pthread_mutex_clocklock");
    FIND(mutex_trylock, "pthread_mutex_trylock");
    FIND(rwlock_rdlock, "pthread_rwlock_rdlock");
    FIND(rwlock_timedrdlock, "pthread_rwlock_timedrdlock");
    FIND(rwlock_clockrdlock, "pthread_rwlock_clockrdlock");
    FIND(rwlock_tryrdlock, "pthread_rwlock_tryrdlock");
    FIND(rwlock_wrlock, "pthread_rwlock_wrlock");
    FIND(rwlock_timedwrlock, "pthread_rwlock_timedwrlock");
    FIND(rwlock_clockwrlock, "pthread_rwlock_clockwrlock");
    FIND(rwlock_trywrlock, "pthread_rwlock_trywrlock");
    FIND_CONDITION(cond_wait, "pthread_cond_wait");
    FIND_CONDITION(cond_timedwait, "pthread_cond_timedwait");
    FIND(cond_clockwait, "pthread_cond_clockwait");
    FIND(sem_wait, "sem_wait");
    FIND(sem_timedwait, "sem_timedwait");
    FIND(sem_clockwait, "sem_clockwait");
}

/* Constructors of other libraries may come before ours. */
#define REAL(field)                                                                                \
    ({                                                                                             \
        __typeof__(real.field) found_ = __atomic_load_n(&real.field, __ATOMIC_RELAXED);            \
        if (!LIKELY(found_)) {                                                                     \
            resolve_locks();                                                                       \
            found_ = real.field;                                                                   \
        }                                                                                          \
        found_;                                                                                    \
    })

/* ---- Waiting ---- */

struct wait {
    const void *lock;
    uint64_t since_ns, until_ns; /* 0: nobody wants to know */
    uint32_t first_stack;        /* of who had it when the wait began; 0: not known */
    enum preload_what what;
    bool has_it; /* it ended with the lock */
};

/* After waits as long as this the holder is remembered: it is not much, beside the wait. */
#define REMEMBERED_NS 10000

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* `owner`: the thread that has it, 0 if not known. */
static struct wait wait_begins(const void *lock, enum preload_what what, uint32_t owner)
{
    struct wait w = {.lock = lock, .what = what};
    const struct preload_header *h = preload_segment;

    if (h && __atomic_load_n(&h->wanted, __ATOMIC_RELAXED) & PRELOAD_WANTS(PRELOAD_LOCK)) {
        w.first_stack = owner ? holder_stack(lock, owner) : 0;
        w.since_ns = now_ns();
    }
    return w;
}

static bool is_remembered(const struct wait *w)
{
    return w->has_it && (w->what == PRELOAD_WHAT_MUTEX || w->what == PRELOAD_WHAT_WRITE_LOCK) &&
           w->until_ns - w->since_ns >= REMEMBERED_NS;
}

static void put_wait(const struct wait *w, uint32_t stack, uint32_t rate)
{
    struct preload_record r = {.kind = PRELOAD_LOCK,
                               .what = (uint8_t)w->what,
                               .stack = stack,
                               .rate = rate,
                               .time_ns = w->until_ns,
                               .value = w->until_ns - w->since_ns,
                               .address = (uintptr_t)w->lock};

    if (w->what != PRELOAD_WHAT_CONDITION && w->what != PRELOAD_WHAT_SEMAPHORE)
        r.other = segment_kept_text(
            holder_stack_since(w->lock, w->first_stack, w->since_ns, w->until_ns));
    segment_put(&r);
}

/* Either it is sampled, or the next one who waits is to know who had it. */
OUT_OF_LINE static void wait_noticed(const struct wait *w, bool is_crossed)
{
    struct preload_thread *t = &preload_thread;
    uint32_t rate, stack = 0;
    int kept = errno;

    if (sample_begin(PRELOAD_LOCK)) {
        uint32_t wanted = __atomic_load_n(&preload_segment->lock_rate, __ATOMIC_RELAXED);
        uint64_t waited = w->until_ns - w->since_ns;
        bool is_due = is_crossed && sample_due(&t->lock_left, &t->lock_rate, waited, wanted, &rate);
        if (is_due || is_remembered(w))
            stack = walk_here();
        if (is_due)
            put_wait(w, stack, rate);
        if (is_remembered(w))
            holder_remember(w->lock, t->tid, stack, w->until_ns);
        sample_end();
    } else if (is_crossed) {
        t->lock_left = t->lock_rate = 0; /* asked again at the next one */
    }
    errno = kept;
}

static void wait_ended(struct wait *w)
{
    if (w->since_ns == 0)
        return;
    w->until_ns = now_ns();
    w->until_ns += w->until_ns == w->since_ns;
    bool is_crossed = sample_count(&preload_thread.lock_left, w->until_ns - w->since_ns);
    if (is_crossed || is_remembered(w))
        wait_noticed(w, is_crossed);
}

/* What `call` says, and the wait if it was one: also one that ended without the lock. */
#define TIMED(owner, lock, kind, call)                                                             \
    ({                                                                                             \
        struct wait wait_ = wait_begins(lock, kind, owner);                                        \
        int said_ = call;                                                                          \
        wait_.has_it = said_ != ETIMEDOUT;                                                         \
        if (said_ == 0 || said_ == ETIMEDOUT || said_ == EOWNERDEAD)                               \
            wait_ended(&wait_);                                                                    \
        said_;                                                                                     \
    })

/* Whether a wait until then is one that the real function accepts. If not, it is not tried first:
 * an error is an error also for a lock that is free. */
static bool is_time(clockid_t clock, const struct timespec *until)
{
    return (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && until && until->tv_nsec >= 0 &&
           until->tv_nsec < 1000000000;
}

/* ---- Mutexes ---- */

/*
 * Tries to take it: 0 if it has it now. Of robust mutexes glibc's trylock takes one that cannot be
 * recovered, and leaves it locked; and those that lend priorities are a call of the kernel's. Of
 * these it is only looked whether another thread has it.
 */
static inline int mutex_try(pthread_mutex_t *m)
{
    return LIKELY(holder_is_plain(m)) ? REAL(mutex_trylock)(m)
           : holder_is_other(m)       ? EBUSY
                                      : EAGAIN;
}

/*
 * Trying said `tried`, which is not 0. EOWNERDEAD means that this thread has it now. All but EBUSY
 * is an error that locking gives as well, and it may be a better one.
 */
#define MUTEX_AFTER_TRYING(m, tried, call)                                                         \
    do {                                                                                           \
        if (tried == EOWNERDEAD)                                                                   \
            return tried;                                                                          \
        if (tried != EBUSY)                                                                        \
            return call;                                                                           \
        return TIMED(holder_of_mutex(m), m, PRELOAD_WHAT_MUTEX, call);                             \
    } while (0)

OUT_OF_LINE static int mutex_lock_busy(pthread_mutex_t *m, int tried)
{
    MUTEX_AFTER_TRYING(m, tried, REAL(mutex_lock)(m));
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
    int tried = mutex_try(m);
    return LIKELY(tried == 0) ? 0 : mutex_lock_busy(m, tried);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict m,
                                   const struct timespec *restrict until)
{
    int tried = is_time(CLOCK_REALTIME, until) ? mutex_try(m) : EINVAL;
    if (LIKELY(tried == 0))
        return 0;
    MUTEX_AFTER_TRYING(m, tried, REAL(mutex_timedlock)(m, until));
}

/* ---- Locks of readers and writers ---- */

#define RWLOCK_AFTER_TRYING(l, tried, kind, call)                                                  \
    do {                                                                                           \
        if (tried != EBUSY)                                                                        \
            return call;                                                                           \
        return TIMED(holder_of_rwlock(l), l, kind, call);                                          \
    } while (0)

OUT_OF_LINE static int rdlock_busy(pthread_rwlock_t *l, int tried)
{
    RWLOCK_AFTER_TRYING(l, tried, PRELOAD_WHAT_READ_LOCK, REAL(rwlock_rdlock)(l));
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
    int tried = REAL(rwlock_tryrdlock)(l);
    return LIKELY(tried == 0) ? 0 : rdlock_busy(l, tried);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict l,
                                      const struct timespec *restrict until)
{
    int tried = is_time(CLOCK_REALTIME, until) ? REAL(rwlock_tryrdlock)(l) : EINVAL;
    if (LIKELY(tried == 0))
        return 0;
    RWLOCK_AFTER_TRYING(l, tried, PRELOAD_WHAT_READ_LOCK, REAL(rwlock_timedrdlock)(l, until));
}

OUT_OF_LINE static int wrlock_busy(pthread_rwlock_t *l, int tried)
{
    RWLOCK_AFTER_TRYING(l, tried, PRELOAD_WHAT_WRITE_LOCK, REAL(rwlock_wrlock)(l));
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
    int tried = REAL(rwlock_trywrlock)(l);
    return LIKELY(tried == 0) ? 0 : wrlock_busy(l, tried);
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict l,
                                      const struct timespec *restrict until)
{
    int tried = is_time(CLOCK_REALTIME, until) ? REAL(rwlock_trywrlock)(l) : EINVAL;
    if (LIKELY(tried == 0))
        return 0;
    RWLOCK_AFTER_TRYING(l, tried, PRELOAD_WHAT_WRITE_LOCK, REAL(rwlock_timedwrlock)(l, until));
}

/* ---- Conditions: each call waits ---- */

EXPORT int pthread_cond_wait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m)
{
    return TIMED(0, c, PRELOAD_WHAT_CONDITION, REAL(cond_wait)(c, m));
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                                  const struct timespec *restrict until)
{
    return TIMED(0, c, PRELOAD_WHAT_CONDITION, REAL(cond_timedwait)(c, m, until));
}

/* ---- Semaphores ---- */

/* Looked at, not tried: the functions that wait are places to be cancelled at also when they do not
 * wait, and trying sets errno. A wait that another thread's haste makes is missed, and is rare. */
static bool sem_is_free(sem_t *s)
{
    int value = 0;
    return sem_getvalue(s, &value) == 0 && value > 0;
}

/* They say -1 and errno. A signal ends the wait as well. */
#define SEM_TIMED(s, call)                                                                         \
    do {                                                                                           \
        struct wait wait_ = wait_begins(s, PRELOAD_WHAT_SEMAPHORE, 0);                             \
        int said_ = call;                                                                          \
        if (said_ == 0 || errno == ETIMEDOUT || errno == EINTR)                                    \
            wait_ended(&wait_);                                                                    \
        return said_;                                                                              \
    } while (0)

OUT_OF_LINE static int sem_wait_busy(sem_t *s)
{
    SEM_TIMED(s, REAL(sem_wait)(s));
}

EXPORT int sem_wait(sem_t *s)
{
    return LIKELY(sem_is_free(s)) ? REAL(sem_wait)(s) : sem_wait_busy(s);
}

EXPORT int sem_timedwait(sem_t *restrict s, const struct timespec *restrict until)
{
    if (sem_is_free(s))
        return REAL(sem_timedwait)(s, until);
    SEM_TIMED(s, REAL(sem_timedwait)(s, until));
}

/* ---- Waits by a clock of choice: glibc has them since 2.30, musl has none. The libc that is there
 * may be older than the one that this was built with. ---- */

#ifdef __GLIBC__

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict m, clockid_t clock,
                                   const struct timespec *restrict until)
{
    if (!REAL(mutex_clocklock))
        return ENOSYS;
    int tried = is_time(clock, until) ? mutex_try(m) : EINVAL;
    if (LIKELY(tried == 0))
        return 0;
    MUTEX_AFTER_TRYING(m, tried, REAL(mutex_clocklock)(m, clock, until));
}

EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict l, clockid_t clock,
                                      const struct timespec *restrict until)
{
    if (!REAL(rwlock_clockrdlock))
        return ENOSYS;
    int tried = is_time(clock, until) ? REAL(rwlock_tryrdlock)(l) : EINVAL;
    if (LIKELY(tried == 0))
        return 0;
    RWLOCK_AFTER_TRYING(l, tried, PRELOAD_WHAT_READ_LOCK,
                        REAL(rwlock_clockrdlock)(l, clock, until));
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict l, clockid_t clock,
                                      const struct timespec *restrict until)
{
    if (!REAL(rwlock_clockwrlock))
        return ENOSYS;
    int tried = is_time(clock, until) ? REAL(rwlock_trywrlock)(l) : EINVAL;
    if (LIKELY(tried == 0))
        return 0;
    RWLOCK_AFTER_TRYING(l, tried, PRELOAD_WHAT_WRITE_LOCK,
                        REAL(rwlock_clockwrlock)(l, clock, until));
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                                  clockid_t clock, const struct timespec *restrict until)
{
    if (!REAL(cond_clockwait))
        return ENOSYS;
    return TIMED(0, c, PRELOAD_WHAT_CONDITION, REAL(cond_clockwait)(c, m, clock, until));
}

EXPORT int sem_clockwait(sem_t *restrict s, clockid_t clock, const struct timespec *restrict until)
{
    if (!REAL(sem_clockwait)) {
        errno = ENOSYS;
        return -1;
    }
    if (sem_is_free(s))
        return REAL(sem_clockwait)(s, clock, until);
    SEM_TIMED(s, REAL(sem_clockwait)(s, clock, until));
}

#endif
