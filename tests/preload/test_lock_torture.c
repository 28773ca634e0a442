/* Everything at once, with the real library: threads that wait for all kinds of locks, signals that
 * take samples in between, children made meanwhile, and threads that are cancelled while they wait.
 * Whatever happens, locks exclude, counts are right, and nothing hangs. */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "lib/test.h"
#include "preload/own_ring.h"
#include "vesta/vesta.h"

__attribute__((constructor)) static void begin(void)
{
    own_ring_restart("lock,threads,custom,alloc,live", "1us");
}

enum { THREADS = 6, CHILDREN = 30, CANCELLED = 100, SIGNALS = 20 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t ticket_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore, never;
static uint64_t by_mutex, by_rwlock, by_semaphore, tickets;
static int signals;
static bool is_over, are_tickets_over;

static void on_signal(int number)
{
    static const uint8_t trace[16] = {1}, span[8] = {2};
    int kept = errno;

    (void)number;
    __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
    vesta_span_set(trace, span);
    vesta_sample("signals/count", 1);
    vesta_span_clear();
    if (errno != kept)
        abort();
}

static void *works(void *arg)
{
    uintptr_t rounds = 0;

    for (; !__atomic_load_n(&is_over, __ATOMIC_RELAXED); rounds++) {
        pthread_mutex_lock(&mutex);
        by_mutex++;
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_wrlock(&rwlock);
        by_rwlock++;
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        while (sem_wait(&semaphore) != 0)
            continue;
        by_semaphore++;
        sem_post(&semaphore);
        vesta_label_set("round", rounds % 2 ? "odd" : "even");
        free(malloc(5000));
        pthread_mutex_lock(&ticket_mutex);
        tickets++;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&ticket_mutex);
    }
    (void)arg;
    return (void *)rounds;
}

static void *takes_tickets(void *arg)
{
    uintptr_t taken = 0;

    pthread_mutex_lock(&ticket_mutex);
    for (;;) {
        while (tickets == 0 && !are_tickets_over)
            pthread_cond_wait(&condition, &ticket_mutex);
        if (tickets == 0)
            break;
        tickets--;
        taken++;
    }
    pthread_mutex_unlock(&ticket_mutex);
    (void)arg;
    return (void *)taken;
}

static void *is_cancelled(void *arg)
{
    for (;;)
        sem_wait(&never);
    return arg;
}

static int make_children(void)
{
    int failed = 0;

    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            void *said = NULL;
            alarm(20);
            /* Locks of the parent may be held by threads that are not here. */
            pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
            pthread_mutex_lock(&own);
            pthread_create(&thread, NULL, is_cancelled, NULL);
            pthread_cancel(thread);
            pthread_join(thread, &said);
            pthread_mutex_unlock(&own);
            vesta_sample("children/count", 1);
            free(malloc(1 << 20));
            _exit(said == PTHREAD_CANCELED ? 0 : 1);
        }
        int status = -1;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            continue;
        failed += status != 0;
    }
    return failed;
}

static void all_at_once(struct test *t)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    pthread_t threads[THREADS], taker;

    alarm(100);
    sem_init(&semaphore, 0, 1);
    sem_init(&never, 0, 0);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    pthread_create(&taker, NULL, takes_tickets, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, works, NULL);
    CHECK_INT(t, make_children(), 0);
    for (int i = 0; i < CANCELLED; i++) {
        pthread_t thread;
        void *ended = NULL;
        pthread_create(&thread, NULL, is_cancelled, NULL);
        pthread_cancel(thread);
        pthread_join(thread, &ended);
        CHECK(t, ended == PTHREAD_CANCELED);
    }
    while (__atomic_load_n(&signals, __ATOMIC_RELAXED) < SIGNALS)
        usleep(1000);
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    uint64_t rounds = 0;
    void *said = NULL;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &said);
        rounds += (uintptr_t)said;
    }
    pthread_mutex_lock(&ticket_mutex);
    are_tickets_over = true;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&ticket_mutex);
    pthread_join(taker, &said);
    setitimer(ITIMER_PROF, &off, NULL);
    CHECK_INT(t, by_mutex, rounds);
    CHECK_INT(t, by_rwlock, rounds);
    CHECK_INT(t, by_semaphore, rounds);
    CHECK_INT(t, (uintptr_t)said, rounds);
}

/* The ring was never read, so it holds the first of all, whole. */
static void what_was_recorded_is_whole(struct test *t)
{
    uint64_t n = own_ring_head(), seen = 0, waits = 0, at = 0;

    for (int kind = 1; kind < PRELOAD_KINDS; kind++, at = 0) {
        for (const struct preload_record *r; (r = own_ring_next(&at, kind)); seen++) {
            waits += kind == PRELOAD_LOCK;
            CHECK(t, r->tid != 0 && r->value > 0 && r->what < PRELOAD_WHATS);
            CHECK(t, kind == PRELOAD_ALLOC || r->stack != 0);
        }
    }
    CHECK_INT(t, seen, n);
    CHECK(t, waits > 0);
}

static const struct test_case cases[] = {
    TEST(all_at_once),
    TEST(what_was_recorded_is_whole),
};
TEST_MAIN(cases)
