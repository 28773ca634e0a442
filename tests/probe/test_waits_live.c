#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/waits.h"
#include "agent/waits_reason.h"
#include "lib/test.h"
#include "probe/registered.h"
#include "symbols/kallsyms.h"

#ifndef __clang__
#pragma GCC optimize("omit-frame-pointer")
#endif

/*
 * Real threads that wait where and for how long is known, against what is told of them. They are
 * children of this program, which has no frame pointers, and write down themselves what they
 * waited.
 */
#define MS   ((uint64_t)1000000)
#define NS_S ((uint64_t)1000000000)

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_S + (uint64_t)t.tv_nsec;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / NS_S), (long)(ns % NS_S)};

    nanosleep(&t, NULL);
}

/* Places where threads wait, each a function of its own, and what was spent there. */
enum place { IN_SLEEP, IN_OTHER_SLEEP, IN_PIPE, IN_LOCK_A, IN_LOCK_B, IN_CONDITION, PLACES };

struct shared {
    _Atomic uint64_t truth_ns[PLACES];
    atomic_bool is_counting, is_ready;
    atomic_uint threads;
    pthread_mutex_t lock, held;
    pthread_cond_t never;
    int pipe[2];
};
static struct shared *shared;

/* Each is one of its own for the compiler, too, which folds what is the same. */
#define PLACE(name) __attribute__((noinline, section("waiting_code"))) static void name(uint64_t ns)

PLACE(wait_in_sleep)
{
    sleep_ns(ns);
    __asm__ volatile("/* wait_in_sleep */" ::: "memory");
}

PLACE(wait_in_other_sleep)
{
    sleep_ns(ns);
    __asm__ volatile("/* wait_in_other_sleep */" ::: "memory");
}

PLACE(wait_in_pipe)
{
    char c;

    (void)ns;
    while (read(shared->pipe[0], &c, 1) < 0 && errno == EINTR)
        ;
}

PLACE(wait_in_lock_a)
{
    (void)ns;
    pthread_mutex_lock(&shared->held);
    __asm__ volatile("/* wait_in_lock_a */" ::: "memory");
}

PLACE(wait_in_lock_b)
{
    (void)ns;
    pthread_mutex_lock(&shared->held);
    __asm__ volatile("/* wait_in_lock_b */" ::: "memory");
}

PLACE(wait_in_condition)
{
    (void)ns;
    pthread_mutex_lock(&shared->lock);
    pthread_cond_wait(&shared->never, &shared->lock);
    pthread_mutex_unlock(&shared->lock);
}

static void (*const places[PLACES])(uint64_t) = {
    [IN_SLEEP] = wait_in_sleep,   [IN_OTHER_SLEEP] = wait_in_other_sleep,
    [IN_PIPE] = wait_in_pipe,     [IN_LOCK_A] = wait_in_lock_a,
    [IN_LOCK_B] = wait_in_lock_b, [IN_CONDITION] = wait_in_condition,
};

extern const char __start_waiting_code[], __stop_waiting_code[];

static enum place place_of(uint64_t address)
{
    enum place best = PLACES;
    uint64_t at = (uint64_t)(uintptr_t)__start_waiting_code - 1;

    if (address > (uint64_t)(uintptr_t)__stop_waiting_code)
        return PLACES;
    for (int i = 0; i < PLACES; i++) {
        uint64_t begin = (uint64_t)(uintptr_t)places[i];

        if (address > begin && begin > at) {
            best = (enum place)i;
            at = begin;
        }
    }
    return best;
}

/* Waits there and writes down how long it was. */
static void wait_there(enum place place, uint64_t ns)
{
    uint64_t begin = now_ns();

    places[place](ns);
    if (shared->is_counting)
        shared->truth_ns[place] += now_ns() - begin;
}

static struct shared *new_shared(void)
{
    pthread_mutexattr_t lock;
    pthread_condattr_t condition;
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    pthread_mutexattr_init(&lock);
    pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->lock, &lock);
    pthread_mutex_init(&s->held, &lock);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&s->never, &condition);
    if (pipe2(s->pipe, O_CLOEXEC) < 0)
        s->pipe[0] = s->pipe[1] = -1;
    return s;
}

/* A child that runs `life` until it is killed. */
static pid_t start_target(void (*life)(void))
{
    pid_t pid;

    shared = new_shared();
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        life();
        _exit(0);
    }
    for (int i = 0; i < 2000 && !shared->is_ready; i++)
        sleep_ns(MS);
    return pid;
}

static void end_target(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(shared->pipe[0]);
    close(shared->pipe[1]);
    munmap(shared, sizeof(*shared));
}

static void start_threads(size_t n, void *(*run)(void *))
{
    pthread_attr_t attr;
    pthread_t thread;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (size_t i = 0; i < n; i++)
        pthread_create(&thread, &attr, run, (void *)(uintptr_t)i);
    while (shared->threads < n)
        sleep_ns(MS);
    shared->is_ready = true;
}

/* What was told. */
struct told {
    uint64_t ns[2][PLACES + 1];
    uint64_t reason_ns[WAIT_REASONS], lock_ns, runnable_ns;
    uint64_t states[THREAD_STATES];
    uint64_t counted, whole, by_kernel;
    const struct kallsyms *kernel;
};

struct watch {
    struct probe *probe;
    struct registry registry;
    struct waits *waits;
    struct told told;
    struct kallsyms kernel;
    struct budget budget;
    uint64_t passes, failures;
    struct error failed;
};

static void tell_reason(struct told *told, const struct event_sample *s, uint64_t ns)
{
    const uint64_t *a = (const uint64_t *)(s + 1);
    const char *names[UNWIND_KERNEL_FRAMES_MAX], *user[12];
    size_t n_user = s->n_user < ARRAY_SIZE(user) ? s->n_user : ARRAY_SIZE(user);

    for (size_t i = 0; i < s->n_kernel; i++)
        names[i] = kallsyms_find(told->kernel, a[i]);
    if (s->kind == SAMPLE_OFF_CPU && s->n_kernel > 0)
        told->by_kernel += names[0] && strncmp(names[0], "bpf_", 4) != 0;
    for (size_t i = 0; i < n_user; i++) {
        Dl_info info;
        void *at = (void *)(uintptr_t)(a[s->n_kernel + i] - 1);

        user[i] = dladdr(at, &info) ? info.dli_sname : NULL;
    }
    enum wait_reason r = wait_reason_of(names, s->n_kernel, (enum thread_state)s->state);
    told->reason_ns[r] += ns;
    if (wait_is_lock(r, user, n_user))
        told->lock_ns += ns;
}

static void count(void *arg, enum waits_type type, const struct event_sample *s, uint64_t ns)
{
    struct told *told = arg;
    const uint64_t *a = (const uint64_t *)(s + 1);
    enum place place = PLACES;

    for (size_t i = 0; i < s->n_user && place == PLACES; i++)
        place = place_of(a[s->n_kernel + i]);
    told->counted++;
    told->whole += s->end == UNWIND_END_OUTERMOST;
    if (type == WAITS_OFF_CPU && s->state == THREAD_RUNNABLE) {
        told->runnable_ns += ns;
        return;
    }
    told->ns[type][place] += ns;
    if (told->kernel)
        tell_reason(told, s, ns);
}

static void threads(void *arg, uint32_t tgid, const uint64_t ns[THREAD_STATES])
{
    struct told *told = arg;

    (void)tgid;
    for (size_t i = 0; i < THREAD_STATES; i++)
        told->states[i] += ns[i];
}

static void take_event(void *arg, const struct event_head *e)
{
    struct watch *w = arg;

    waits_event(w->waits, e);
}

/* NULL, or why it cannot be done here. */
static const char *watch_open(struct watch *w)
{
    static char why[160];
    static struct probe_feature_state state[PROBE_FEATURES];
    struct error err;
    const enum probe_feature needed[] = {PROBE_TABLES, PROBE_WALL, PROBE_OFF_CPU};

    *w = (struct watch){0};
    probe_features(state);
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        if (!state[needed[i]].works)
            return state[needed[i]].why;
    }
    if (probe_open(&(struct probe_options){.table_bytes = 2 << 20,
                                           .processes = 256,
                                           .mappings = 4096,
                                           .ring_bytes = 4 << 20,
                                           .wanted = 1u << PROBE_WALL | 1u << PROBE_OFF_CPU},
                   &w->probe, &err) < 0) {
        snprintf(why, sizeof(why), "%.159s", err.text);
        return why;
    }
    registry_init(&w->registry, w->probe);
    budget_init(&w->budget, (size_t)64 << 20);
    if (kallsyms_read(&w->kernel, "/proc/kallsyms", &w->budget, NULL) == 0)
        w->told.kernel = &w->kernel;
    w->waits =
        waits_new(&(struct waits_calls){.count = count, .threads = threads, .arg = &w->told}, NULL);
    return NULL;
}

static void watch_close(struct watch *w)
{
    waits_free(w->waits);
    registry_done(&w->registry);
    probe_close(w->probe);
    kallsyms_done(&w->kernel);
}

/* Passes of `bits` about every tick_ns, for so long. */
static void watch_for(struct watch *w, uint32_t bits, uint64_t tick_ns, uint64_t ns)
{
    uint64_t end = now_ns() + ns;
    unsigned seed = 1;
    struct error err;

    while (now_ns() < end) {
        if (bits != 0) {
            w->passes++;
            if (probe_walk_threads(w->probe, bits, &err) < 0) {
                w->failures++;
                w->failed = err;
            }
        }
        /* Not in step with what is watched. */
        sleep_ns(tick_ns / 2 + tick_ns * (unsigned)rand_r(&seed) / RAND_MAX);
        probe_drain(w->probe, take_event, w);
    }
    sleep_ns(20 * MS); /* the last pass */
    probe_drain(w->probe, take_event, w);
    waits_end_window(w->waits, now_ns());
}

static void check_near(struct test *t, const char *what, double got, double want, double tolerance)
{
    printf("# %s: %.4g, known to be %.4g\n", what, got, want);
    if (got < want * (1 - tolerance) || got > want * (1 + tolerance)) {
        printf("# that is not within %.0f %%\n", tolerance * 100);
        t->failures++;
    }
}

static void check_whole(struct test *t, const struct told *told)
{
    printf("# %" PRIu64 " of %" PRIu64 " stacks reach their outermost frame\n", told->whole,
           told->counted);
    CHECK(t, told->counted > 0);
    CHECK(t, (double)told->whole >= 0.99 * (double)told->counted);
}

#define SECONDS(x) ((double)(x) / 1e9)

#define WATCH_OR_SKIP(t, w)                                                                        \
    do {                                                                                           \
        const char *why_ = watch_open(w);                                                          \
        if (why_)                                                                                  \
            TEST_SKIP(t, why_);                                                                    \
    } while (0)

/* Threads that each wait in their own way. */
static void *wait_in_own_way(void *arg)
{
    const enum place forever[] = {IN_PIPE, IN_CONDITION, IN_LOCK_A};
    size_t i = (size_t)(uintptr_t)arg;

    shared->threads++;
    if (i < ARRAY_SIZE(forever))
        places[forever[i]](0);
    for (;;) {
        wait_there(IN_SLEEP, 30 * MS);
        wait_there(IN_OTHER_SLEEP, 60 * MS);
    }
    return NULL;
}

static void life_of_all_kinds(void)
{
    pthread_mutex_lock(&shared->held);
    start_threads(5, wait_in_own_way);
    for (;;)
        pause();
}

static void wall_clock_is_where_threads_are(struct test *t)
{
    struct watch w;

    WATCH_OR_SKIP(t, &w);
    pid_t pid = start_target(life_of_all_kinds);
    CHECK_INT(t, registry_put(&w.registry, pid, PROCESS_WALL), 0);
    watch_for(&w, PROCESS_WALL, 20 * MS, 100 * MS); /* the first are not known yet */
    w.told = (struct told){.kernel = w.told.kernel};
    uint64_t begin = now_ns();
    shared->is_counting = true;
    watch_for(&w, PROCESS_WALL, 20 * MS, 3 * NS_S);
    double whole = SECONDS(now_ns() - begin);
    shared->is_counting = false;
    const uint64_t *ns = w.told.ns[WAITS_WALL];
    check_near(t, "in a pipe, s", SECONDS(ns[IN_PIPE]), whole, 0.05);
    check_near(t, "in a condition, s", SECONDS(ns[IN_CONDITION]), whole, 0.05);
    check_near(t, "in a lock, s", SECONDS(ns[IN_LOCK_A]), whole, 0.05);
    check_near(t, "short sleeps of two, s", SECONDS(ns[IN_SLEEP]),
               SECONDS(shared->truth_ns[IN_SLEEP]), 0.3);
    check_near(t, "long sleeps of two, s", SECONDS(ns[IN_OTHER_SLEEP]),
               SECONDS(shared->truth_ns[IN_OTHER_SLEEP]), 0.2);
    check_whole(t, &w.told);
    check_near(t, "threads asleep, average", SECONDS(w.told.states[THREAD_SLEEPING]) / whole, 6,
               0.05);
    if (w.told.kernel) {
        check_near(t, "waiting for a pipe, s", SECONDS(w.told.reason_ns[WAIT_PIPE]), whole, 0.05);
        check_near(t, "for a futex, s", SECONDS(w.told.reason_ns[WAIT_FUTEX]), 2 * whole, 0.05);
        check_near(t, "for a lock, s", SECONDS(w.told.lock_ns), whole, 0.05);
        check_near(t, "for a signal, s", SECONDS(w.told.reason_ns[WAIT_SIGNAL]), whole, 0.05);
    }
    CHECK_INT(t, w.failures, 0);
    end_target(pid);
    watch_close(&w);
}

static void *sleep_by_turns(void *arg)
{
    shared->threads++;
    (void)arg;
    for (;;) {
        wait_there(IN_SLEEP, 200000);
        wait_there(IN_OTHER_SLEEP, 2 * MS);
    }
    return NULL;
}

static void life_of_sleepers(void)
{
    start_threads(6, sleep_by_turns);
    for (;;)
        pause();
}

static void off_cpu_is_as_long_as_waits_were(struct test *t)
{
    struct watch w;
    struct error err;

    WATCH_OR_SKIP(t, &w);
    pid_t pid = start_target(life_of_sleepers);
    CHECK_INT(t, registry_put(&w.registry, pid, PROCESS_OFF_CPU), 0);
    CHECK_INT(t, probe_set_off_cpu(w.probe, true, &err), 0);
    watch_for(&w, 0, 20 * MS, 100 * MS);
    w.told = (struct told){.kernel = w.told.kernel};
    shared->is_counting = true;
    uint64_t begin = now_ns();
    watch_for(&w, PROCESS_OFF_CPU, 200 * MS, 3 * NS_S);
    double whole = SECONDS(now_ns() - begin);
    shared->is_counting = false;
    const uint64_t *ns = w.told.ns[WAITS_OFF_CPU];
    check_near(t, "sleeps of 0.2 ms, s", SECONDS(ns[IN_SLEEP]), SECONDS(shared->truth_ns[IN_SLEEP]),
               0.15);
    check_near(t, "sleeps of 2 ms, s", SECONDS(ns[IN_OTHER_SLEEP]),
               SECONDS(shared->truth_ns[IN_OTHER_SLEEP]), 0.15);
    /* The main thread left before it was watched: it is seen by the first look. */
    check_near(t, "all waits, s",
               SECONDS(ns[IN_SLEEP] + ns[IN_OTHER_SLEEP] + ns[PLACES] + w.told.runnable_ns),
               7 * whole, 0.15);
    check_whole(t, &w.told);
    struct probe_stats stats;
    probe_stats(w.probe, &stats);
    printf("# %" PRIu64 " walks\n", stats.samples[SAMPLE_OFF_CPU]);
    CHECK_INT(t, stats.lost, 0);
    end_target(pid);
    watch_close(&w);
}

static void *lock_in_turn(void *arg)
{
    size_t i = (size_t)(uintptr_t)arg;

    shared->threads++;
    for (;;) {
        wait_there(i < 2 ? IN_LOCK_A : IN_LOCK_B, 0);
        sleep_ns((i < 2 ? 2 : 4) * MS);
        pthread_mutex_unlock(&shared->held);
        sleep_ns(MS);
    }
    return NULL;
}

static void life_of_contenders(void)
{
    start_threads(3, lock_in_turn);
    for (;;)
        pause();
}

static void contended_locks_are_told_by_who_waits(struct test *t)
{
    struct watch w;
    struct error err;

    WATCH_OR_SKIP(t, &w);
    probe_settings(w.probe)->off_cpu_usual_ns = MS; /* most are walked: few waits must do */
    pid_t pid = start_target(life_of_contenders);
    CHECK_INT(t, registry_put(&w.registry, pid, PROCESS_OFF_CPU), 0);
    CHECK_INT(t, probe_set_off_cpu(w.probe, true, &err), 0);
    watch_for(&w, 0, 20 * MS, 100 * MS);
    w.told = (struct told){.kernel = w.told.kernel};
    shared->is_counting = true;
    watch_for(&w, PROCESS_OFF_CPU, 200 * MS, 3 * NS_S);
    shared->is_counting = false;
    const uint64_t *ns = w.told.ns[WAITS_OFF_CPU];
    double a = SECONDS(shared->truth_ns[IN_LOCK_A]), b = SECONDS(shared->truth_ns[IN_LOCK_B]);
    check_near(t, "lost by the first, s", SECONDS(ns[IN_LOCK_A]), a, 0.1);
    check_near(t, "lost by the second, s", SECONDS(ns[IN_LOCK_B]), b, 0.1);
    if (w.told.kernel) {
        check_near(t, "lost to locks, s", SECONDS(w.told.lock_ns), a + b, 0.15);
        CHECK(t, w.told.reason_ns[WAIT_SLEEP] > 0);
        CHECK(t, w.told.by_kernel > 100); /* and not in programs of ours */
    }
    check_whole(t, &w.told);
    end_target(pid);
    watch_close(&w);
}

/* What a process has run, in ns. */
static uint64_t cpu_of(pid_t pid)
{
    char path[64];
    unsigned long long ns = 0;

    snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%llu", &ns) != 1)
        ns = 0;
    return ns;
}

/* The child of this process that looks at threads: the one of that name. */
static pid_t find_looker(void)
{
    char path[64], name[32] = "";
    int pid = 0;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
    CLEANUP(fclosep) FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &pid) == 1) {
        snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        CLEANUP(fclosep) FILE *f = fopen(path, "re");
        if (f && fgets(name, sizeof(name), f) && strcmp(name, "vesta-looker\n") == 0)
            return pid;
    }
    return 0;
}

static void *wait_for_nothing(void *arg)
{
    (void)arg;
    shared->threads++;
    wait_in_condition(0);
    return NULL;
}

static void life_of_500(void)
{
    start_threads(500, wait_for_nothing);
    for (;;)
        pause();
}

static void five_hundred_threads_are_cheap(struct test *t)
{
    struct watch w;
    struct waits_stats stats;

    WATCH_OR_SKIP(t, &w);
    pid_t pid = start_target(life_of_500);
    CHECK_INT(t, registry_put(&w.registry, pid, PROCESS_WALL), 0);
    watch_for(&w, PROCESS_WALL, 100 * MS, 300 * MS);
    w.told = (struct told){0};
    w.passes = 0;
    pid_t looker = find_looker();
    uint64_t begin = now_ns(), cpu = cpu_of(looker);
    watch_for(&w, PROCESS_WALL, 100 * MS, 3 * NS_S);
    double whole = SECONDS(now_ns() - begin), spent = SECONDS(cpu_of(looker) - cpu);
    check_near(t, "500 threads, s", SECONDS(w.told.ns[WAITS_WALL][IN_CONDITION]), 500 * whole,
               0.1); /* a tick more or less */
    printf("# a pass takes %.0f us: %.2f %% of one core at 10 Hz\n", spent * 1e6 / (double)w.passes,
           spent / (double)w.passes * 10 * 100);
    CHECK(t, looker > 0);
    CHECK(t, spent / (double)w.passes < 0.004); /* 1 ms is meant, on a machine that is not shared */
    waits_stats(w.waits, &stats);
    printf("# %zu threads in %zu places, %zu bytes\n", stats.threads, stats.places, stats.bytes);
    CHECK(t, stats.places < 20);
    check_whole(t, &w.told);
    end_target(pid);
    watch_close(&w);
}

static void threads_are_counted_of_few_processes_and_of_many(struct test *t)
{
    struct watch w;
    pid_t pids[20];

    WATCH_OR_SKIP(t, &w);
    for (size_t n = 0; n < ARRAY_SIZE(pids); n++) {
        pids[n] = fork();
        if (pids[n] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        CHECK_INT(t, registry_put(&w.registry, pids[n], PROCESS_THREADS), 0);
        if (n + 1 != 3 && n + 1 != ARRAY_SIZE(pids))
            continue;
        watch_for(&w, PROCESS_THREADS, 20 * MS, 200 * MS);
        w.told = (struct told){0};
        uint64_t begin = now_ns();
        watch_for(&w, PROCESS_THREADS, 20 * MS, 500 * MS);
        check_near(t, "threads asleep, average",
                   SECONDS(w.told.states[THREAD_SLEEPING]) / SECONDS(now_ns() - begin),
                   (double)(n + 1), 0.15);
        CHECK_INT(t, w.told.counted, 0);
    }
    for (size_t n = 0; n < ARRAY_SIZE(pids); n++) {
        probe_process_drop(w.probe, (uint32_t)pids[n]);
        kill(pids[n], SIGKILL);
        waitpid(pids[n], NULL, 0);
    }
    w.told = (struct told){0};
    watch_for(&w, PROCESS_THREADS, 20 * MS, 60 * MS);
    CHECK_INT(t, w.told.states[THREAD_SLEEPING], 0);
    watch_close(&w);
}

static void a_pass_that_hangs_is_given_up(struct test *t)
{
    struct watch w;

    WATCH_OR_SKIP(t, &w);
    pid_t pid = start_target(life_of_all_kinds);
    CHECK_INT(t, registry_put(&w.registry, pid, PROCESS_WALL), 0);
    watch_for(&w, PROCESS_WALL, 20 * MS, 100 * MS);
    pid_t looker = find_looker();
    CHECK(t, looker > 0);
    kill(looker, SIGSTOP);
    uint64_t begin = now_ns();
    watch_for(&w, PROCESS_WALL, 20 * MS, 2500 * MS);
    CHECK(t, now_ns() - begin < 4 * NS_S);
    CHECK_INT(t, w.failures, 1);
    CHECK_STR(t, w.failed.text, "a look at all threads did not come to its end");
    w.told = (struct told){0};
    watch_for(&w, PROCESS_WALL, 20 * MS, 500 * MS);
    CHECK(t, w.told.ns[WAITS_WALL][IN_PIPE] > 300 * MS);
    CHECK(t, find_looker() != looker);
    end_target(pid);
    watch_close(&w);
}

static const struct test_case cases[] = {
    TEST(wall_clock_is_where_threads_are),
    TEST(off_cpu_is_as_long_as_waits_were),
    TEST(contended_locks_are_told_by_who_waits),
    TEST(five_hundred_threads_are_cheap),
    TEST(threads_are_counted_of_few_processes_and_of_many),
    TEST(a_pass_that_hangs_is_given_up),
};
TEST_MAIN(cases)
