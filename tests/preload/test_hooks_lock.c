/* Waits for locks, seen by the real library: every wait is recorded, as long as it was, where it
 * was. And what locks mean stays what it was. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>

#include "lib/test.h"
#include "preload/own_ring.h"

__attribute__((constructor)) static void begin(void)
{
    own_ring_restart("lock", "1");
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&t, &t) != 0)
        continue;
}

static struct timespec in_seconds(clockid_t clock, double seconds)
{
    struct timespec t;

    clock_gettime(clock, &t);
    uint64_t ns = (uint64_t)t.tv_nsec + (uint64_t)(seconds * 1e9);
    return (struct timespec){t.tv_sec + (time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* ---- Each way to wait, with a function of its own ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static bool is_told;

static void mutex_hold(void)
{
    pthread_mutex_lock(&mutex);
}

static void mutex_free(void)
{
    pthread_mutex_unlock(&mutex);
}

static void write_hold(void)
{
    pthread_rwlock_wrlock(&rwlock);
}

static void read_hold(void)
{
    pthread_rwlock_rdlock(&rwlock);
}

static void rwlock_free(void)
{
    pthread_rwlock_unlock(&rwlock);
}

static void condition_hold(void)
{
    is_told = false;
}

static void condition_free(void)
{
    pthread_mutex_lock(&mutex);
    is_told = true;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
}

static void semaphore_free(void)
{
    sem_post(&semaphore);
}

static void nothing(void)
{
}

/* Results are kept, so that no call is a jump and its place is on the stack. */
#define WAITS(name, call, after)                                                                   \
    PLACE int name(void);                                                                          \
    PLACE int name(void)                                                                           \
    {                                                                                              \
        struct timespec real = in_seconds(CLOCK_REALTIME, 10);                                     \
        struct timespec steady = in_seconds(CLOCK_MONOTONIC, 10);                                  \
        (void)real, (void)steady;                                                                  \
        volatile int r = call;                                                                     \
        after;                                                                                     \
        return r;                                                                                  \
    }

static int until_told(int (*wait)(void))
{
    int r = 0;

    pthread_mutex_lock(&mutex);
    while (!is_told && r == 0)
        r = wait();
    pthread_mutex_unlock(&mutex);
    return r;
}

WAITS(waits_mutex_lock, pthread_mutex_lock(&mutex), mutex_free())
WAITS(waits_mutex_timedlock, pthread_mutex_timedlock(&mutex, &real), mutex_free())
WAITS(waits_rdlock, pthread_rwlock_rdlock(&rwlock), rwlock_free())
WAITS(waits_timedrdlock, pthread_rwlock_timedrdlock(&rwlock, &real), rwlock_free())
WAITS(waits_wrlock, pthread_rwlock_wrlock(&rwlock), rwlock_free())
WAITS(waits_timedwrlock, pthread_rwlock_timedwrlock(&rwlock, &real), rwlock_free())
WAITS(waits_cond_wait, pthread_cond_wait(&condition, &mutex), nothing())
WAITS(waits_cond_timedwait, pthread_cond_timedwait(&condition, &mutex, &real), nothing())
WAITS(waits_sem_wait, sem_wait(&semaphore), nothing())
WAITS(waits_sem_timedwait, sem_timedwait(&semaphore, &real), nothing())
#ifdef __GLIBC__
WAITS(waits_mutex_clocklock, pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &steady),
      mutex_free())
WAITS(waits_clockrdlock, pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &steady),
      rwlock_free())
WAITS(waits_clockwrlock, pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &steady),
      rwlock_free())
WAITS(waits_cond_clockwait, pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &steady),
      nothing())
WAITS(waits_sem_clockwait, sem_clockwait(&semaphore, CLOCK_MONOTONIC, &steady), nothing())
#endif

static const struct way {
    const char *name;
    int (*wait)(void);
    void (*hold)(void), (*let_go)(void);
    enum preload_what what;
} ways[] = {
#define WAY(name, hold, let_go, what)                                                              \
    {                                                                                              \
#name, name, hold, let_go, what                                                            \
    }
    WAY(waits_mutex_lock, mutex_hold, mutex_free, PRELOAD_WHAT_MUTEX),
    WAY(waits_mutex_timedlock, mutex_hold, mutex_free, PRELOAD_WHAT_MUTEX),
    WAY(waits_rdlock, write_hold, rwlock_free, PRELOAD_WHAT_READ_LOCK),
    WAY(waits_timedrdlock, write_hold, rwlock_free, PRELOAD_WHAT_READ_LOCK),
    WAY(waits_wrlock, read_hold, rwlock_free, PRELOAD_WHAT_WRITE_LOCK),
    WAY(waits_timedwrlock, write_hold, rwlock_free, PRELOAD_WHAT_WRITE_LOCK),
    WAY(waits_cond_wait, condition_hold, condition_free, PRELOAD_WHAT_CONDITION),
    WAY(waits_cond_timedwait, condition_hold, condition_free, PRELOAD_WHAT_CONDITION),
    WAY(waits_sem_wait, nothing, semaphore_free, PRELOAD_WHAT_SEMAPHORE),
    WAY(waits_sem_timedwait, nothing, semaphore_free, PRELOAD_WHAT_SEMAPHORE),
#ifdef __GLIBC__
    WAY(waits_mutex_clocklock, mutex_hold, mutex_free, PRELOAD_WHAT_MUTEX),
    WAY(waits_clockrdlock, write_hold, rwlock_free, PRELOAD_WHAT_READ_LOCK),
    WAY(waits_clockwrlock, write_hold, rwlock_free, PRELOAD_WHAT_WRITE_LOCK),
    WAY(waits_cond_clockwait, condition_hold, condition_free, PRELOAD_WHAT_CONDITION),
    WAY(waits_sem_clockwait, nothing, semaphore_free, PRELOAD_WHAT_SEMAPHORE),
#endif
};

struct waiter {
    const struct way *way;
    uint64_t waited_ns;
    int said, error_after;
    bool is_there;
};

static void *run_waiter(void *arg)
{
    struct waiter *w = arg;

    __atomic_store_n(&w->is_there, true, __ATOMIC_RELEASE);
    uint64_t since = now_ns();
    errno = 4711;
    w->said = w->way->what == PRELOAD_WHAT_CONDITION ? until_told(w->way->wait) : w->way->wait();
    w->error_after = errno;
    w->waited_ns = now_ns() - since;
    return NULL;
}

static struct waiter wait_once(const struct way *way)
{
    struct waiter w = {.way = way};
    pthread_t thread;

    own_ring_forget();
    way->hold();
    pthread_create(&thread, NULL, run_waiter, &w);
    while (!__atomic_load_n(&w.is_there, __ATOMIC_ACQUIRE))
        sleep_ms(1);
    sleep_ms(20);
    way->let_go();
    pthread_join(thread, NULL);
    return w;
}

/* What was recorded under a function's name: {count, ns, kind of the last}. */
struct sum {
    unsigned n;
    uint64_t ns;
    uint8_t what;
    uint32_t other;
    uint64_t address;
};

static struct sum recorded(const char *name)
{
    struct sum s = {0};
    uint64_t at = 0;

    for (const struct preload_record *r; (r = own_ring_next(&at, PRELOAD_LOCK));) {
        if (!own_stack_has(r->stack, name))
            continue;
        s.n++;
        s.ns += r->value;
        s.what = r->what;
        s.other = r->other;
        s.address = r->address;
    }
    return s;
}

static void the_library_is_there(struct test *t)
{
    CHECK(t, own_header != NULL);
}

static void every_way_to_wait_is_recorded_with_its_time(struct test *t)
{
    sem_init(&semaphore, 0, 0);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct sum s = {0};
        struct waiter w = {0};
        /* A thread that is set aside between our clock and the library's is tried again. */
        for (int tries = 0; tries < 5; tries++) {
            w = wait_once(&ways[i]);
            s = recorded(ways[i].name);
            if (s.n > 0 && s.ns >= w.waited_ns - w.waited_ns / 20)
                break;
        }
        if (s.n == 0)
            printf("# nothing was recorded: %s\n", ways[i].name);
        CHECK(t, s.n >= 1);
        CHECK_INT(t, w.said, 0);
#ifdef __GLIBC__ /* musl's own functions set it */
        CHECK_INT(t, w.error_after, 4711);
#endif
        CHECK_INT(t, s.what, ways[i].what);
        CHECK(t, s.ns <= w.waited_ns);
        CHECK(t, s.ns >= w.waited_ns - w.waited_ns / 20);
    }
}

PLACE void takes_what_is_free(int n);
PLACE void takes_what_is_free(int n)
{
    struct timespec later = in_seconds(CLOCK_REALTIME, 10);

    for (int i = 0; i < n; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        pthread_mutex_timedlock(&mutex, &later);
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_wrlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        sem_post(&semaphore);
        sem_wait(&semaphore);
    }
}

static void locks_that_are_free_record_nothing(struct test *t)
{
    own_ring_forget();
    takes_what_is_free(1000);
    uint64_t at = 0;
    CHECK(t, own_ring_next(&at, PRELOAD_LOCK) == NULL);
}

PLACE void waits_in_vain(struct test *t);
PLACE void waits_in_vain(struct test *t)
{
    pthread_mutex_lock(&mutex);
    struct timespec soon = in_seconds(CLOCK_REALTIME, 0.01);
    CHECK_INT(t, pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    errno = 0;
    soon = in_seconds(CLOCK_REALTIME, 0.01);
    CHECK_INT(t, sem_timedwait(&semaphore, &soon), -1);
    CHECK_INT(t, errno, ETIMEDOUT);
}

static void a_wait_that_times_out_is_recorded_and_says_so(struct test *t)
{
    own_ring_forget();
    waits_in_vain(t);
    struct sum s = recorded("waits_in_vain");
    CHECK_INT(t, s.n, 2);
    CHECK(t, s.ns > 15000000);
    CHECK_INT(t, s.address, (uintptr_t)&semaphore);
}

/* ---- Chance, and the switch ---- */

static struct preload_header *writable(void)
{
    return (struct preload_header *)(uintptr_t)own_header;
}

PLACE uint64_t waits_shortly(int n);
PLACE uint64_t waits_shortly(int n)
{
    uint64_t sum = 0;

    for (int i = 0; i < n; i++) {
        struct timespec soon = in_seconds(CLOCK_REALTIME, 0.00003);
        uint64_t since = now_ns();
        sem_timedwait(&semaphore, &soon);
        sum += now_ns() - since;
    }
    return sum;
}

/* The chance of 1 - exp(-x), from a few terms of its series. */
static double chance(double x)
{
    double sum = 0, term = 1;

    if (x > 20)
        return 1;
    for (int i = 1; i < 100; i++) {
        term *= -x / i;
        sum -= term;
    }
    return sum;
}

/* The fewer are sampled, the more each stands for: the sum stays, here with an error of 2 %. */
static void waits_are_sampled_without_bias(struct test *t)
{
    enum { WAITS = 3000, RATE = 200000 };
    uint64_t at = 0;
    double count = 0, ns = 0;
    unsigned n = 0;

    writable()->lock_rate = RATE;
    waits_shortly(20); /* what was drawn for the rate before is used up */
    own_ring_forget();
    double waited = (double)waits_shortly(WAITS);
    for (const struct preload_record *r; (r = own_ring_next(&at, PRELOAD_LOCK)); n++) {
        CHECK_INT(t, r->rate, RATE);
        double p = chance((double)r->value / r->rate);
        count += 1 / p;
        ns += (double)r->value / p;
    }
    writable()->lock_rate = 1;
    CHECK(t, n < WAITS && n > WAITS / 10);
    CHECK(t, count > WAITS * 0.88 && count < WAITS * 1.12);
    CHECK(t, ns > waited * 0.86 && ns < waited * 1.1);
}

static void a_reader_switches_it_off_and_on(struct test *t)
{
    uint64_t at = 0;

    waits_shortly(20);
    writable()->wanted = 0;
    own_ring_forget();
    waits_shortly(10);
    CHECK(t, own_ring_next(&at, PRELOAD_LOCK) == NULL);
    writable()->wanted = PRELOAD_WANTS(PRELOAD_LOCK);
    waits_shortly(10);
    CHECK_INT(t, recorded("waits_shortly").n, 10);
}

/* ---- Who held it ---- */

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static int stage;

static void reach(int n)
{
    __atomic_store_n(&stage, n, __ATOMIC_RELEASE);
}

static void await(int n)
{
    while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) < n)
        sleep_ms(1);
}

PLACE void *holds_long(void *arg);
PLACE void *holds_long(void *arg)
{
    reach(1);
    pthread_mutex_lock(&contended); /* waits for main */
    reach(2);
    await(3);
    sleep_ms(20);
    pthread_mutex_unlock(&contended);
    return arg;
}

PLACE void *waits_for_holder(void *arg);
PLACE void *waits_for_holder(void *arg)
{
    await(2);
    reach(3);
    pthread_mutex_lock(&contended);
    pthread_mutex_unlock(&contended);
    return arg;
}

static void the_stack_of_the_holder_is_told(struct test *t)
{
    pthread_t holder, waiter;

    own_ring_forget();
    stage = 0;
    pthread_mutex_lock(&contended);
    pthread_create(&holder, NULL, holds_long, NULL);
    await(1);
    sleep_ms(20);
    pthread_mutex_unlock(&contended);
    pthread_create(&waiter, NULL, waits_for_holder, NULL);
    pthread_join(holder, NULL);
    pthread_join(waiter, NULL);

    struct sum first = recorded("holds_long"), second = recorded("waits_for_holder");
    CHECK_INT(t, first.n, 1);
    CHECK_INT(t, first.other, 0); /* main never waited for it, so nobody knows where it took it */
    CHECK_INT(t, second.n, 1);
#ifdef __GLIBC__
    CHECK(t, own_stack_has(second.other, "holds_long"));
    CHECK(t, !own_stack_has(second.other, "waits_for_holder"));
#endif
}

/* ---- What locks mean ---- */

static pthread_mutex_t mutex_of(int type, bool is_robust)
{
    pthread_mutexattr_t attr;
    pthread_mutex_t m;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type);
    pthread_mutexattr_setrobust(&attr, is_robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
    pthread_mutex_init(&m, &attr);
    return m;
}

static void *dies_with_it(void *m)
{
    pthread_mutex_lock(m);
    return NULL;
}

static void kinds_of_mutexes_keep_their_meaning(struct test *t)
{
    pthread_mutex_t checks = mutex_of(PTHREAD_MUTEX_ERRORCHECK, false);
    CHECK_INT(t, pthread_mutex_lock(&checks), 0);
    CHECK_INT(t, pthread_mutex_lock(&checks), EDEADLK);
    struct timespec later = in_seconds(CLOCK_REALTIME, 10), never = {0, 2000000000};
    CHECK_INT(t, pthread_mutex_timedlock(&checks, &later), EDEADLK);
    CHECK_INT(t, pthread_mutex_unlock(&checks), 0);
    CHECK_INT(t, pthread_mutex_unlock(&checks), EPERM);

    pthread_mutex_t again = mutex_of(PTHREAD_MUTEX_RECURSIVE, false);
    for (int i = 0; i < 3; i++)
        CHECK_INT(t, pthread_mutex_lock(&again), 0);
    for (int i = 0; i < 3; i++)
        CHECK_INT(t, pthread_mutex_unlock(&again), 0);
    CHECK(t, pthread_mutex_unlock(&again) != 0);

    pthread_mutex_t robust = mutex_of(PTHREAD_MUTEX_NORMAL, true);
    pthread_t thread;
    pthread_create(&thread, NULL, dies_with_it, &robust);
    pthread_join(thread, NULL);
    CHECK_INT(t, pthread_mutex_lock(&robust), EOWNERDEAD);
    CHECK_INT(t, pthread_mutex_consistent(&robust), 0);
    CHECK_INT(t, pthread_mutex_unlock(&robust), 0);
    pthread_create(&thread, NULL, dies_with_it, &robust);
    pthread_join(thread, NULL);
    CHECK_INT(t, pthread_mutex_lock(&robust), EOWNERDEAD);
    CHECK_INT(t, pthread_mutex_unlock(&robust), 0);
    CHECK_INT(t, pthread_mutex_lock(&robust), ENOTRECOVERABLE);

    CHECK_INT(t, pthread_rwlock_wrlock(&rwlock), 0);
#ifdef __GLIBC__
    CHECK_INT(t, pthread_rwlock_rdlock(&rwlock), EDEADLK);
    CHECK_INT(t, pthread_rwlock_wrlock(&rwlock), EDEADLK);
    CHECK_INT(t, pthread_mutex_clocklock(&mutex, 77, &later), EINVAL);
#endif
    CHECK_INT(t, pthread_rwlock_unlock(&rwlock), 0);
    pthread_mutex_lock(&mutex);
    CHECK_INT(t, pthread_mutex_timedlock(&mutex, &never), EINVAL);
    pthread_mutex_unlock(&mutex);
}

/* ---- Cancelling ---- */

static int cleaned;

static void clean_mutex(void *m)
{
    cleaned++;
    pthread_mutex_unlock(m);
}

static void clean(void *arg)
{
    (void)arg;
    cleaned++;
}

static void *cancelled_in_condition(void *arg)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(clean_mutex, &mutex);
    reach(1);
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return arg;
}

static void *cancelled_in_semaphore(void *arg)
{
    pthread_cleanup_push(clean, NULL);
    reach(1);
    while (sem_wait(&semaphore) != 0)
        continue;
    pthread_cleanup_pop(0);
    return arg;
}

/* It is cancelled already, and the semaphore is free: it must end there all the same. */
static void *cancelled_before_semaphore(void *arg)
{
    pthread_cleanup_push(clean, NULL);
    pthread_cancel(pthread_self());
    reach(1);
    sem_wait(arg);
    reach(2);
    pthread_cleanup_pop(0);
    return arg;
}

static void *cancel(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    void *said = NULL;

    stage = cleaned = 0;
    pthread_create(&thread, NULL, run, arg);
    await(1);
    sleep_ms(5);
    pthread_cancel(thread);
    pthread_join(thread, &said);
    return said;
}

static void threads_are_cancelled_where_they_wait(struct test *t)
{
    sem_t one;

    CHECK(t, cancel(cancelled_in_condition, NULL) == PTHREAD_CANCELED);
    CHECK_INT(t, cleaned, 1);
    CHECK_INT(t, pthread_mutex_trylock(&mutex), 0);
    pthread_mutex_unlock(&mutex);
    CHECK(t, cancel(cancelled_in_semaphore, NULL) == PTHREAD_CANCELED);
    CHECK_INT(t, cleaned, 1);
    sem_init(&one, 0, 1);
    CHECK(t, cancel(cancelled_before_semaphore, &one) == PTHREAD_CANCELED);
    CHECK_INT(t, cleaned, 1);
    CHECK_INT(t, stage, 1);
    /* And the next wait is recorded as ever. */
    struct waiter w = wait_once(&ways[0]);
    CHECK_INT(t, w.said, 0);
    CHECK_INT(t, recorded("waits_mutex_lock").n, 1);
}

/* ---- Fork ---- */

static void a_child_waits_for_locks_of_its_own(struct test *t)
{
    pthread_mutex_lock(&mutex); /* held by the thread that goes on in the child */
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_unlock(&mutex);
        own_header = NULL;
        struct waiter w = {0};
        struct sum s = {0};
        for (int tries = 0; tries < 5 && s.n == 0; tries++) {
            w = wait_once(&ways[0]);
            own_ring_find();
            s = recorded("waits_mutex_lock");
        }
        bool is_own = own_header && own_header->pid == (uint32_t)getpid();
        _exit(w.said == 0 && is_own && s.n == 1 ? 0 : 1);
    }
    pthread_mutex_unlock(&mutex);
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_INT(t, status, 0);
}

static const struct test_case cases[] = {
    TEST(the_library_is_there),
    TEST(every_way_to_wait_is_recorded_with_its_time),
    TEST(locks_that_are_free_record_nothing),
    TEST(a_wait_that_times_out_is_recorded_and_says_so),
    TEST(waits_are_sampled_without_bias),
    TEST(a_reader_switches_it_off_and_on),
    TEST(the_stack_of_the_holder_is_told),
    TEST(kinds_of_mutexes_keep_their_meaning),
    TEST(threads_are_cancelled_where_they_wait),
    TEST(a_child_waits_for_locks_of_its_own),
};
TEST_MAIN(cases)
