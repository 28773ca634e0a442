#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/test.h"
#include "probe/enlist.h"

/* Walks of a real program without frame pointers, by tables made of its files. */

#define DEPTH 40

struct result {
    uint32_t tgid;
    uint32_t samples, reached, deep_enough, in_kernel, with_signal;
};

static void on_event(void *arg, const struct event_head *head)
{
    struct result *r = arg;
    const struct event_sample *e = (const void *)head;
    if (head->kind != EVENT_SAMPLE || e->tgid != r->tgid)
        return;
    r->samples++;
    r->reached += e->end == UNWIND_END_OUTERMOST;
    /* bottom(), DEPTH times go_down(), main(), two of the C library, _start() */
    r->deep_enough += e->n_user >= DEPTH + 5;
    r->in_kernel += (head->flags & EVENT_IN_KERNEL) != 0;
    r->with_signal += e->exact > 1;
}

static pid_t start_target(const char *how)
{
    char self[PATH_MAX] = "", path[PATH_MAX + 16];
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/walk_target", dirname(self));
    pid_t pid = fork();
    if (pid == 0) {
        char depth[16];
        snprintf(depth, sizeof(depth), "%d", DEPTH);
        execl(path, path, depth, how, (char *)NULL);
        _exit(127);
    }
    /* Until it is deep enough. */
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    return pid;
}

static struct result walk(struct test *t, const char *how)
{
    struct result result = {0};
    struct error err = {""};
    CLEANUP(probe_closep) struct probe *p = NULL;
    if (probe_open(&(struct probe_options){.table_bytes = 4 << 20}, &p, &err) < 0) {
        printf("# %s\n", err.text);
        CHECK(t, false);
        return result;
    }
    static struct enlisted all;
    all = (struct enlisted){0};
    pid_t pid = start_target(how);
    CHECK_INT(t, enlist(p, &all, pid, PROCESS_CPU), 0);
    CHECK(t, all.rows > 1000);
    result.tgid = (uint32_t)pid;
    CHECK_INT(t, probe_set_cpu_rate(p, 499, &err), 0);
    for (int i = 0; i < 400 && result.samples < 300; i++) {
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        probe_drain(p, on_event, &result);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    printf("# %s: %u samples, %u reached the outermost frame, %u in the kernel\n", how,
           result.samples, result.reached, result.in_kernel);
    CHECK(t, result.samples >= 300);
    CHECK(t, result.reached * 100 >= result.samples * 99);
    CHECK(t, result.deep_enough * 100 >= result.samples * 99);
    return result;
}

#define NEEDS_BPF(t)                                                                               \
    static struct probe_feature_state state_[PROBE_FEATURES];                                      \
    probe_features(state_);                                                                        \
    if (!state_[PROBE_TABLES].works)                                                               \
    TEST_SKIP(t, state_[PROBE_TABLES].why)

static void reaches_the_start_from_deep_down(struct test *t)
{
    NEEDS_BPF(t);
    walk(t, "spin");
}

static void goes_through_callbacks_of_the_c_library(struct test *t)
{
    NEEDS_BPF(t);
    walk(t, "sort");
}

static void starts_in_system_calls(struct test *t)
{
    NEEDS_BPF(t);
    struct result r = walk(t, "calls");
    CHECK(t, r.in_kernel > r.samples / 4);
}

static void goes_through_signal_handlers(struct test *t)
{
    NEEDS_BPF(t);
    struct result r = walk(t, "signal");
    CHECK(t, r.with_signal * 100 >= r.samples * 99);
}

static const struct test_case cases[] = {
    TEST(reaches_the_start_from_deep_down),
    TEST(goes_through_callbacks_of_the_c_library),
    TEST(starts_in_system_calls),
    TEST(goes_through_signal_handlers),
};
TEST_MAIN(cases)
