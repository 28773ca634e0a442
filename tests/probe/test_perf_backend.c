#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "lib/test.h"
#include "probe/enlist.h"
#include "probe/perf_internal.h"

/* Own processes without BPF: real children, whose stacks are known. */

#ifdef __aarch64__
#define UNWIND_IS_ARM 1
#else
#define UNWIND_IS_ARM 0
#endif

static struct probe *open_probe(struct error *err)
{
    struct probe *p = NULL;
    struct probe_options o = {.no_bpf = true};
    if (probe_open(&o, &p, err) < 0)
        return NULL;
    probe_settings(p)->now_s = 1;
    return p;
}

#define OPEN_OR_SKIP(t, p)                                                                         \
    static struct error open_error;                                                                \
    CLEANUP(probe_closep) struct probe *p = open_probe(&open_error);                               \
    if (!(p))                                                                                      \
    TEST_SKIP(t, open_error.text)

struct heard {
    uint32_t tgid; /* whom this is about */
    uint32_t samples, whole, deep, others, tids[8], n_tids;
    uint32_t ends[UNWIND_END_COUNT], told[4];
    uint32_t told_of_others[4];
    struct event_sample last;
};

static void note_tid(struct heard *h, uint32_t tid)
{
    for (uint32_t i = 0; i < h->n_tids; i++)
        if (h->tids[i] == tid)
            return;
    if (h->n_tids < 8)
        h->tids[h->n_tids++] = tid;
}

static void hear(void *arg, const struct event_head *e)
{
    struct heard *h = arg;
    if (!probe_event_is_sound(e, e->size))
        return;
    if (e->kind == EVENT_PROCESS) {
        const struct event_process *q = (const void *)e;
        if (q->tgid == h->tgid)
            h->told[q->event]++;
        else
            h->told_of_others[q->event]++;
        return;
    }
    const struct event_sample *s = (const void *)e;
    if (s->tgid != h->tgid) {
        h->others++;
        return;
    }
    h->samples++;
    h->whole += s->end == UNWIND_END_OUTERMOST;
    h->deep += s->n_user > 25;
    h->ends[s->end]++;
    h->last = *s;
    note_tid(h, s->tid);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Drains until there are `n` samples, or 10 s have passed. */
static void listen_for(struct probe *p, struct heard *h, uint32_t n)
{
    for (int i = 0; i < 500 && h->samples < n; i++) {
        pause_ms(20);
        probe_drain(p, hear, h);
    }
}

static void listen_for_ms(struct probe *p, struct heard *h, int ms)
{
    for (int i = 0; i < ms / 20; i++) {
        pause_ms(20);
        probe_drain(p, hear, h);
    }
}

/* Until it has used so much CPU time: by then its libraries are there. */
static void wait_for_work(pid_t pid, int64_t ms)
{
    struct timespec ts = {0};
    clockid_t clock;
    for (int i = 0; i < 2000; i++) {
        if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &ts) == 0 &&
            ts.tv_sec * 1000 + ts.tv_nsec / 1000000 >= ms)
            return;
        pause_ms(5);
    }
}

static pid_t start_target(const char *how)
{
    char self[PATH_MAX] = "", path[PATH_MAX + 16];
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/walk_target", dirname(self));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        execl(path, path, "25", how, (char *)NULL);
        _exit(127);
    }
    wait_for_work(pid, 30);
    return pid;
}

static void end_target(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void stacks_without_frame_pointers_are_whole(struct test *t)
{
    static const char *const ways[] = {"spin", "sort", "signal"};
    struct error err;
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        OPEN_OR_SKIP(t, p); /* its own each time: rings may still hold what the last one did */
        static struct enlisted all;
        all = (struct enlisted){0};
        pid_t pid = start_target(ways[i]);
        struct heard h = {.tgid = (uint32_t)pid};
        CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
        CHECK_INT(t, probe_set_cpu_rate(p, 99, &err), 0);
        CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
        listen_for(p, &h, 50);
        CHECK(t, h.samples >= 50);
        CHECK(t, h.whole * 100 >= h.samples * 97);
        for (int k = 1; k < UNWIND_END_COUNT; k++)
            if (h.ends[k] > 0)
                printf("# %s: %u of %u ended by %d\n", ways[i], h.ends[k], h.samples, k);
        CHECK_INT(t, h.deep, h.whole);
        CHECK_INT(t, h.others, 0);
        CHECK_INT(t, h.last.kind, SAMPLE_CPU);
        CHECK_INT(t, h.last.exact & 1, 1);
        CHECK_STR(t, h.last.comm, "walk_target");
        int64_t late = clock_monotonic_ns(clock_real()) - (int64_t)h.last.time_ns;
        CHECK(t, late >= 0 && late < 5000000000);
        CHECK_INT(t, probe_set_cpu_rate(p, 0, &err), 0);
        end_target(pid);
    }
}

static void samples_wait_for_their_process_to_become_known(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    static struct enlisted all;
    struct error err;
    all = (struct enlisted){0};
    pid_t pid = start_target("spin");
    struct heard h = {.tgid = (uint32_t)pid};
    probe_settings(p)->asks_young = 1;
    CHECK_INT(t, probe_set_cpu_rate(p, 99, &err), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
    listen_for_ms(p, &h, 400);
    CHECK_INT(t, h.samples, 0);
    CHECK_INT(t, h.told[PROCESS_EVENT_SEEN], 1); /* once, not for each sample */
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    listen_for(p, &h, 10);
    CHECK(t, h.samples >= 10);
    CHECK_INT(t, h.ends[UNWIND_END_NO_PROCESS], 0);
    CHECK(t, h.whole * 100 >= h.samples * 97);
    end_target(pid);
}

static void who_stays_unknown_is_told_all_the_same(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    struct error err;
    pid_t pid = start_target("spin");
    struct heard h = {.tgid = (uint32_t)pid};
    CHECK_INT(t, probe_set_cpu_rate(p, 99, &err), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
    listen_for_ms(p, &h, 300);
    /* Nothing comes any more: what is there is handed out. */
    CHECK_INT(t, probe_set_cpu_rate(p, 0, &err), 0);
    probe_drain(p, hear, &h);
    CHECK(t, h.samples > 0);
    CHECK_INT(t, h.ends[UNWIND_END_NO_PROCESS], h.samples);
    CHECK_INT(t, h.last.n_user, 1);
    end_target(pid);
}

static void spin_for(int ms)
{
    int64_t end = clock_monotonic_ns(clock_real()) + (int64_t)ms * 1000000;
    while (clock_monotonic_ns(clock_real()) < end)
        ;
}

static void *spin_in_thread(void *arg)
{
    spin_for(20000);
    return arg;
}

static void threads_that_run_already_are_sampled(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    struct error err;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t threads[3];
        for (int i = 0; i < 3; i++)
            pthread_create(&threads[i], NULL, spin_in_thread, NULL);
        spin_for(20000);
        _exit(0);
    }
    pause_ms(200);
    struct heard h = {.tgid = (uint32_t)pid};
    static struct enlisted all;
    all = (struct enlisted){0};
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    CHECK_INT(t, probe_set_cpu_rate(p, 199, &err), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
    for (int i = 0; i < 250 && h.n_tids < 4; i++)
        listen_for_ms(p, &h, 20);
    CHECK_INT(t, h.n_tids, 4);
    end_target(pid);
}

static void a_rate_that_changes_holds_for_all(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    static struct enlisted all;
    struct error err;
    all = (struct enlisted){0};
    pid_t pid = start_target("spin");
    struct heard h = {.tgid = (uint32_t)pid};
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0); /* before there is a rate */
    CHECK_INT(t, probe_set_cpu_rate(p, 199, &err), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0); /* twice is once */
    listen_for(p, &h, 10);
    CHECK(t, h.samples >= 10);
    CHECK_INT(t, probe_set_cpu_rate(p, 0, &err), 0);
    probe_drain(p, hear, &h);
    uint32_t before = h.samples;
    listen_for_ms(p, &h, 200);
    CHECK_INT(t, h.samples, before);
    CHECK_INT(t, probe_set_cpu_rate(p, 99, &err), 0);
    listen_for(p, &h, before + 5);
    CHECK(t, h.samples >= before + 5);
    CHECK_INT(t, probe_set_cpu_rate(p, 1000, &err), -EINVAL);
    end_target(pid);
}

/* Sampled at 999 Hz, a thread gets what its CPU time says and not twice that. */
static void cpu_time_is_counted_once(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    static struct enlisted all;
    struct error err;
    struct timespec ts;
    clockid_t clock;
    all = (struct enlisted){0};
    pid_t pid = start_target("spin");
    struct heard h = {.tgid = (uint32_t)pid};
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    CHECK_INT(t, probe_set_cpu_rate(p, 499, &err), 0);
    CHECK_INT(t, clock_getcpuclockid(pid, &clock), 0);
    clock_gettime(clock, &ts);
    double before = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
    listen_for_ms(p, &h, 1500);
    probe_set_cpu_rate(p, 0, &err);
    clock_gettime(clock, &ts);
    double used = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9 - before;
    probe_drain(p, hear, &h);
    double counted = h.samples / 499.0;
    if (counted < used * 0.8 - 0.01 || counted > used * 1.05 + 0.01)
        printf("# %.3f s of CPU time were used, %.3f s counted\n", used, counted);
    CHECK(t, counted > used * 0.8 - 0.01 && counted < used * 1.05 + 0.01);
    struct probe_stats stats;
    probe_stats(p, &stats);
    CHECK_INT(t, stats.samples[SAMPLE_CPU], h.samples);
    CHECK_INT(t, stats.lost, 0);
    CHECK_INT(t, stats.damaged, 0);
    end_target(pid);
}

static void children_are_sampled_and_ends_are_told(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    static struct enlisted all;
    struct error err;
    int go[2], told[2];
    pid_t child = 0;
    all = (struct enlisted){0};
    CHECK_INT(t, pipe(go), 0);
    CHECK_INT(t, pipe(told), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        (void)!read(go[0], &c, 1);
        child = fork();
        if (child == 0) {
            spin_for(1000);
            _exit(0);
        }
        (void)!write(told[1], &child, sizeof(child));
        waitpid(child, NULL, 0);
        _exit(0);
    }
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    CHECK_INT(t, probe_set_cpu_rate(p, 199, &err), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
    CHECK_INT(t, write(go[1], "x", 1), 1);
    CHECK_INT(t, read(told[0], &child, sizeof(child)), sizeof(child));
    struct heard h = {.tgid = (uint32_t)child};
    listen_for(p, &h, 5);
    CHECK(t, h.samples >= 5); /* by the mappings of its parent */
    CHECK_INT(t, h.ends[UNWIND_END_NO_PROCESS], 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)child, &err), 0); /* which it is already */
    CHECK_INT(t, p->perf->attached, 1);
    waitpid(pid, NULL, 0);
    listen_for_ms(p, &h, 100);
    CHECK_INT(t, h.told_of_others[PROCESS_EVENT_EXIT], 1);
    CHECK_INT(t, p->perf->attached, 0); /* all events are closed */
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(told[i]);
    }
}

static void a_new_program_is_told_and_not_walked_as_the_old_one(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    static struct enlisted all;
    struct error err;
    int go[2];
    char self[PATH_MAX] = "", path[PATH_MAX + 16];
    CHECK(t, readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(path, sizeof(path), "%s/walk_target", dirname(self));
    all = (struct enlisted){0};
    CHECK_INT(t, pipe(go), 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        (void)!read(go[0], &c, 1);
        execl(path, path, "25", "spin", (char *)NULL);
        _exit(127);
    }
    struct heard h = {.tgid = (uint32_t)pid};
    probe_settings(p)->asks_young = 1;
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    CHECK_INT(t, probe_set_cpu_rate(p, 199, &err), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
    CHECK_INT(t, write(go[1], "x", 1), 1);
    for (int i = 0; i < 100 && !h.told[PROCESS_EVENT_SEEN]; i++)
        listen_for_ms(p, &h, 20);
    CHECK_INT(t, h.told[PROCESS_EVENT_EXEC], 1);
    CHECK_INT(t, h.told[PROCESS_EVENT_SEEN], 1);
    all = (struct enlisted){0};
    wait_for_work(pid, 60);
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    listen_for_ms(p, &h, 40); /* what came from before it had its libraries */
    h.samples = h.whole = h.deep = 0;
    listen_for(p, &h, 20);
    CHECK(t, h.whole * 100 >= h.samples * 90); /* some hit while it was being linked */
    CHECK(t, h.deep * 100 >= h.samples * 80);
    CHECK_STR(t, h.last.comm, "walk_target");
    end_target(pid);
    close(go[0]);
    close(go[1]);
}

static void what_is_not_wanted_is_not_handed_out(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    static struct enlisted all;
    struct error err;
    all = (struct enlisted){0};
    pid_t pid = start_target("spin");
    struct heard h = {.tgid = (uint32_t)pid};
    CHECK_INT(t, enlist(p, &all, pid, 0), 0);
    CHECK_INT(t, probe_set_cpu_rate(p, 199, &err), 0);
    CHECK_INT(t, probe_attach(p, (uint32_t)pid, &err), 0);
    listen_for_ms(p, &h, 200);
    CHECK_INT(t, h.samples, 0);
    end_target(pid);
}

static void what_needs_bpf_says_so(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    struct error err = {""};
    CHECK(t, probe_has(p, PROBE_OWN) && probe_has(p, PROBE_TABLES));
    CHECK(t, !probe_has(p, PROBE_WALL) && !probe_has(p, PROBE_OFF_CPU) && !probe_has(p, PROBE_CPU));
    CHECK_STR(t, probe_lacks(p),
              "no rights for BPF (CAP_BPF, CAP_PERFMON): sampling own processes by perf events");
    CHECK_INT(t, probe_walk_threads(p, PROCESS_WALL, &err), -EOPNOTSUPP);
    CHECK_STR(t, err.text,
              "wall clock needs BPF, and CAP_BPF and CAP_PERFMON are missing; run as root or with "
              "these capabilities");
    CHECK_INT(t, probe_set_off_cpu(p, true, &err), -EOPNOTSUPP);
    CHECK(t, strstr(err.text, "off-CPU time needs BPF") == err.text);
    CHECK_INT(t, probe_set_faults(p, 1, &err), -EOPNOTSUPP);
    CHECK(t, strstr(err.text, "page faults needs BPF") == err.text);
    CHECK_INT(t, probe_set_off_cpu(p, false, &err), 0);
    CHECK_INT(t, probe_set_faults(p, 0, &err), 0);
    CHECK_INT(t, probe_measure(p, &err), 0);
}

static void a_process_that_is_not_there_is_told(struct test *t)
{
    OPEN_OR_SKIP(t, p);
    struct error err = {""};
    CHECK_INT(t, probe_set_cpu_rate(p, 19, &err), 0);
    CHECK_INT(t, probe_attach(p, 0x7ffffff0, &err), -ESRCH);
    CHECK_STR(t, err.text, "there is no process 2147483632");
}

/* A record as the kernel writes it, of `stack` bytes. */
static size_t write_sample(uint8_t *to, uint64_t stack, uint64_t valid)
{
    uint64_t words[16] = {0};
    size_t n = 1;
    words[n++] = 0x1000;                /* pc */
    words[n++] = (uint64_t)8 << 32 | 7; /* tid, pid */
    words[n++] = 123456;                /* time */
    words[n++] = 1;                     /* CPU */
    words[n++] = PERF_SAMPLE_REGS_ABI_64;
    for (uint64_t i = 0; i < (UNWIND_IS_ARM ? 4 : 3); i++)
        words[n++] = 0x2000 + i;
    words[n++] = stack;
    memcpy(to, words, n * 8);
    memset(to + n * 8, 0x5a, stack);
    size_t size = n * 8 + stack;
    if (stack > 0) {
        memcpy(to + size, &valid, 8);
        size += 8;
    }
    struct perf_event_header h = {PERF_RECORD_SAMPLE, 2, (uint16_t)size};
    memcpy(to, &h, sizeof(h));
    return size;
}

static void records_are_read_and_damaged_ones_refused(struct test *t)
{
    static _Alignas(8) uint8_t record[65536];
    struct perf_event_header *h = (void *)record;
    struct perf_sample s = {0};
    size_t size = write_sample(record, 64, 48);
    CHECK(t, perf_sample_parse(h, &s));
    CHECK_INT(t, s.tgid, 7);
    CHECK_INT(t, s.tid, 8);
    CHECK_INT(t, s.cpu, 1);
    CHECK_INT(t, s.time_ns, 123456);
    CHECK_INT(t, s.fp, 0x2000);
    CHECK_INT(t, s.pc, UNWIND_IS_ARM ? 0x2003 : 0x2002);
    CHECK_INT(t, s.stack_len, 48);
    CHECK(t, s.stack && s.stack[0] == 0x5a);
    for (size_t n = 0; n < size; n++) { /* cut anywhere */
        h->size = (uint16_t)n;
        CHECK(t, !perf_sample_parse(h, &s));
    }
    (void)write_sample(record, 64, UINT64_MAX); /* more is valid than is there */
    CHECK(t, perf_sample_parse(h, &s));
    CHECK_INT(t, s.stack_len, 64);
    size = write_sample(record, 64, 48);
    for (uint64_t lie = 65; lie; lie <<= 1) { /* lengths beyond the record */
        memcpy(record + size - 80, &lie, 8);
        CHECK(t, !perf_sample_parse(h, &s));
    }
    (void)write_sample(record, 0, 0); /* none could be copied */
    CHECK(t, perf_sample_parse(h, &s));
    CHECK_INT(t, s.stack_len, 0);
    memset(record + 16, 0xff, 8); /* a thread that has ended has no number */
    CHECK(t, !perf_sample_parse(h, &s));
}

static const struct test_case cases[] = {
    TEST(stacks_without_frame_pointers_are_whole),
    TEST(samples_wait_for_their_process_to_become_known),
    TEST(who_stays_unknown_is_told_all_the_same),
    TEST(threads_that_run_already_are_sampled),
    TEST(a_rate_that_changes_holds_for_all),
    TEST(cpu_time_is_counted_once),
    TEST(children_are_sampled_and_ends_are_told),
    TEST(a_new_program_is_told_and_not_walked_as_the_old_one),
    TEST(what_is_not_wanted_is_not_handed_out),
    TEST(what_needs_bpf_says_so),
    TEST(a_process_that_is_not_there_is_told),
    TEST(records_are_read_and_damaged_ones_refused),
};
TEST_MAIN(cases)
