#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/meter.h"
#include "base/clock.h"
#include "lib/scratch.h"
#include "lib/test.h"

#define SECOND ((int64_t)1000000000)

static int64_t now(void)
{
    return clock_monotonic_ns(clock_real());
}

static void put(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *path, const char *fmt, ...)
{
    FILE *f = fopen(path, "r+");
    if (!f)
        f = fopen(path, "w");
    va_list args;
    va_start(args, fmt);
    vfprintf(f, fmt, args);
    va_end(args);
    fclose(f);
}

/* A procfs of a test's own. */
struct world {
    struct scratch dir;
    struct meter *m;
    struct governor_reading r;
};

static void world_init(struct world *w)
{
    *w = (struct world){0};
    scratch_init(&w->dir);
    mkdir(scratch_name(&w->dir, "self"), 0700);
    put(scratch_name(&w->dir, "stat"), "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n");
    put(scratch_name(&w->dir, "self/statm"), "9000 1000 3 4 0 5 0\n");
    put(scratch_name(&w->dir, "self/smaps_rollup"),
        "55-7f ---p [rollup]\nRss:  4000 kB\nPss:  2000 kB\nPss_Anon: 1 kB\n");
    w->m = meter_new(w->dir.path);
}

static void world_done(struct world *w)
{
    meter_free(w->m);
    scratch_done(&w->dir);
}

static void read_at(struct world *w, int64_t second)
{
    meter_read(w->m, second * SECOND, 0, 0, &w->r);
}

static bool near(double a, double b)
{
    return a - b < 1e-9 && b - a < 1e-9;
}

static void host_cpu_is_what_was_not_idle_since_the_last_reading(struct test *t)
{
    struct world w;
    world_init(&w);
    read_at(&w, 100);
    CHECK(t, near(w.r.host_cpu, 0));
    put(scratch_name(&w.dir, "stat"), "cpu  130 5 110 830 15 3 5 2 7 7\n");
    read_at(&w, 110);
    CHECK(t, near(w.r.host_cpu, 0.55)); /* 55 of 100; waiting for I/O is idle */
    put(scratch_name(&w.dir, "stat"), "cpu  130 5 110 930 15 3 5 2 7 7\n");
    read_at(&w, 120);
    CHECK(t, near(w.r.host_cpu, 0));
    world_done(&w);
}

static void host_counters_that_step_back_or_are_no_numbers_repeat_the_last(struct test *t)
{
    struct world w;
    world_init(&w);
    read_at(&w, 100);
    put(scratch_name(&w.dir, "stat"), "cpu  150 0 100 850 0 0 0 0 0 0\n");
    read_at(&w, 110);
    CHECK(t, near(w.r.host_cpu, 0.5));
    put(scratch_name(&w.dir, "stat"), "cpu  050 0 000 050 0 0 0 0 0 0\n");
    read_at(&w, 120);
    CHECK(t, near(w.r.host_cpu, 0.5));
    put(scratch_name(&w.dir, "stat"), "nonsense that is long enough to hide\n");
    read_at(&w, 130);
    CHECK(t, near(w.r.host_cpu, 0.5));
    put(scratch_name(&w.dir, "stat"), "cpu  150 0 000 050 0 0 0 0 0 0\n");
    read_at(&w, 140);
    CHECK(t, near(w.r.host_cpu, 1));
    world_done(&w);
}

static void memory_is_pss_moved_by_what_rss_does(struct test *t)
{
    struct world w;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    world_init(&w);
    read_at(&w, 100);
    CHECK_INT(t, w.r.memory, 2000 << 10);
    put(scratch_name(&w.dir, "self/statm"), "9000 1100 3 4 0 5 0\n");
    put(scratch_name(&w.dir, "self/smaps_rollup"),
        "55-7f ---p [rollup]\nRss:  4000 kB\nPss:  7000");
    read_at(&w, 110);
    CHECK_INT(t, w.r.memory, (2000 << 10) + 100 * page);
    put(scratch_name(&w.dir, "self/statm"), "9000 0900 3 4 0 5 0\n");
    read_at(&w, 120);
    CHECK_INT(t, w.r.memory, (2000 << 10) - 100 * page);
    read_at(&w, 130); /* half a minute later it is read again */
    CHECK_INT(t, w.r.memory, 7000 << 10);
    world_done(&w);
}

static void without_pss_rss_is_the_estimate_and_maps_are_added(struct test *t)
{
    struct world w;
    world_init(&w);
    remove(scratch_name(&w.dir, "self/smaps_rollup"));
    meter_read(w.m, SECOND, 0, 12345, &w.r);
    CHECK_INT(t, w.r.memory, 1000 * sysconf(_SC_PAGESIZE) + 12345);
    world_done(&w);
}

static void a_procfs_that_is_not_there_reads_as_nothing(struct test *t)
{
    struct meter *m = meter_new("/nowhere/at/all");
    struct governor_reading r = {.host_cpu = 7, .memory = 7};
    meter_set_children(m, (int[]){1, 2}, 2);
    meter_read(m, SECOND, 0, 0, &r);
    CHECK(t, near(r.host_cpu, 0));
    CHECK_INT(t, r.memory, 0);
    meter_free(m);
}

static void burn(int64_t ns)
{
    struct timespec ts;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    while (ts.tv_sec * SECOND + ts.tv_nsec < ns);
}

static void own_cpu_counts_this_process_and_the_kernels_share(struct test *t)
{
    struct meter *m = meter_new("/proc");
    struct governor_reading r = {.hottest_process = 3};
    meter_read(m, SECOND, 1000, 0, &r);
    CHECK(t, near(r.own_cpu, 0));
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    burn(ts.tv_sec * SECOND + ts.tv_nsec + SECOND / 20);
    meter_read(m, 2 * SECOND, SECOND / 4 + 1000, 0, &r);
    CHECK(t, r.own_cpu >= 0.30 && r.own_cpu < 0.35);
    CHECK(t, near(r.hottest_process, 3));
    struct meter_totals all;
    meter_totals(m, &all);
    CHECK(t, all.own_ns > (uint64_t)SECOND * 3 / 10);
    CHECK_INT(t, all.kernel_ns, SECOND / 4 + 1000);
    meter_free(m);
}

/* Burns so much CPU, says so, and waits to be killed. */
static int burning_child(int64_t ns)
{
    int pipes[2];
    if (pipe(pipes) < 0)
        abort();
    int pid = fork();
    if (pid == 0) {
        burn(ns);
        ssize_t n = write(pipes[1], "x", 1);
        for (;;)
            pause();
        _exit((int)n);
    }
    char c;
    ssize_t n = read(pipes[0], &c, 1);
    close(pipes[0]);
    close(pipes[1]);
    return n == 1 ? pid : 0;
}

static void a_childs_cpu_is_counted_once_also_when_it_is_killed(struct test *t)
{
    struct meter *m = meter_new("/proc");
    struct governor_reading r = {0};
    meter_read(m, SECOND, 0, 0, &r);
    int pid = burning_child(SECOND / 10);
    meter_set_children(m, &pid, 1);
    meter_read(m, 2 * SECOND, 0, 0, &r);
    CHECK(t, r.own_cpu >= 0.10 && r.own_cpu < 0.13);
    kill(pid, SIGKILL);
    meter_set_children(m, NULL, 0); /* not waited for yet */
    meter_read(m, 3 * SECOND, 0, 0, &r);
    waitpid(pid, NULL, 0);
    meter_read(m, 4 * SECOND, 0, 0, &r);
    CHECK(t, r.own_cpu < 0.02);
    meter_free(m);
}

static void a_child_that_lived_between_readings_is_counted(struct test *t)
{
    struct meter *m = meter_new("/proc");
    struct governor_reading r = {0};
    meter_read(m, SECOND, 0, 0, &r);
    int pid = burning_child(SECOND / 10);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    meter_read(m, 2 * SECOND, 0, 0, &r);
    CHECK(t, r.own_cpu >= 0.09 && r.own_cpu < 0.13);
    meter_free(m);
}

static void memory_of_children_is_counted(struct test *t)
{
    struct meter *m = meter_new("/proc");
    struct governor_reading r = {0};
    meter_read(m, SECOND, 0, 0, &r);
    uint64_t alone = r.memory;
    CHECK(t, alone > 64 << 10);
    int pid = burning_child(0);
    meter_set_children(m, (int[]){pid, 0}, 2);
    meter_read(m, 2 * SECOND, 0, 0, &r);
    CHECK(t, r.memory > alone);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    meter_read(m, 3 * SECOND, 0, 0, &r);
    CHECK(t, r.memory <= alone + (256 << 10));
    meter_free(m);
}

static void more_children_than_fit_are_left_out(struct test *t)
{
    struct meter *m = meter_new("/proc");
    int pids[3 * METER_CHILDREN_MAX];
    for (int i = 0; i < 3 * METER_CHILDREN_MAX; i++)
        pids[i] = i + 1;
    struct governor_reading r = {0};
    meter_set_children(m, pids, 3 * METER_CHILDREN_MAX);
    meter_read(m, SECOND, 0, 0, &r);
    meter_set_children(m, pids + 5, 3);
    meter_read(m, 2 * SECOND, 0, 0, &r);
    meter_free(m);
    CHECK(t, true);
}

static void a_reading_is_cheap(struct test *t)
{
    struct meter *m = meter_new("/proc");
    struct governor_reading r = {0};
    int pid = burning_child(0);
    meter_set_children(m, &pid, 1);
    meter_read(m, SECOND, 0, 0, &r);
    int64_t best = INT64_MAX;
    for (int i = 2; i < 30; i++) {
        int64_t begin = now();
        meter_read(m, i * SECOND, 0, 0, &r);
        int64_t took = now() - begin;
        best = took < best ? took : best;
    }
    printf("# a reading takes %.1f us\n", (double)best / 1000);
    CHECK(t, best < 200000);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    meter_free(m);
}

static const struct test_case cases[] = {
    TEST(host_cpu_is_what_was_not_idle_since_the_last_reading),
    TEST(host_counters_that_step_back_or_are_no_numbers_repeat_the_last),
    TEST(memory_is_pss_moved_by_what_rss_does),
    TEST(without_pss_rss_is_the_estimate_and_maps_are_added),
    TEST(a_procfs_that_is_not_there_reads_as_nothing),
    TEST(own_cpu_counts_this_process_and_the_kernels_share),
    TEST(a_childs_cpu_is_counted_once_also_when_it_is_killed),
    TEST(a_child_that_lived_between_readings_is_counted),
    TEST(memory_of_children_is_counted),
    TEST(more_children_than_fit_are_left_out),
    TEST(a_reading_is_cheap),
};
TEST_MAIN(cases)
