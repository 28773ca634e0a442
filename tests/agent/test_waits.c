#include "agent/waits.h"
#include "agent/waits_reason.h"
#include "base/random.h"
#include "lib/test.h"
#include "probe/waits_chance.h"

#define MS ((uint64_t)1000000)
#define S  (1000 * MS)

/* What was counted, by type and by the innermost user address. */
#define PLACES 8
struct seen {
    uint64_t ns[2][PLACES];
    uint64_t calls;
    uint32_t last_tid;
    uint64_t states[THREAD_STATES];
    size_t processes;
};

static void count(void *arg, enum waits_type type, const struct event_sample *s, uint64_t value_ns)
{
    struct seen *seen = arg;
    const uint64_t *addresses = (const uint64_t *)(s + 1);

    seen->ns[type][addresses[s->n_kernel] % PLACES] += value_ns;
    seen->calls++;
    seen->last_tid = s->tid;
}

static void threads(void *arg, uint32_t tgid, const uint64_t ns[THREAD_STATES])
{
    struct seen *seen = arg;

    (void)tgid;
    seen->processes++;
    for (size_t i = 0; i < THREAD_STATES; i++)
        seen->states[i] += ns[i];
}

static struct waits *new_waits(struct seen *seen, const struct waits_limits *limits)
{
    *seen = (struct seen){0};
    return waits_new(&(struct waits_calls){.count = count, .threads = threads, .arg = seen},
                     limits);
}

struct sample_event {
    struct event_sample s;
    uint64_t addresses[3];
};

static struct sample_event sample_at(uint8_t kind, uint32_t tid, uint64_t place)
{
    struct sample_event e = {
        .s = {.head = {.kind = EVENT_SAMPLE, .size = sizeof(e)},
              .start_ns = 5,
              .tgid = 100,
              .tid = tid,
              .kind = kind,
              .state = THREAD_SLEEPING,
              .n_kernel = 1,
              .n_user = 2},
        .addresses = {0xffffffff81000000, place, 0x400000},
    };

    return e;
}

static void wall(struct waits *w, uint32_t tid, uint64_t place, uint64_t time_ns)
{
    struct sample_event e = sample_at(SAMPLE_WALL, tid, place);

    e.s.time_ns = time_ns;
    e.s.value_ns = 100 * MS;
    waits_event(w, &e.s.head);
}

static void repeat(struct waits *w, uint32_t tid, unsigned flags)
{
    struct event_repeat e = {.head = {EVENT_REPEAT, (uint16_t)flags, sizeof(e)},
                             .tgid = 100,
                             .tid = tid,
                             .value_ns = 100 * MS};

    waits_event(w, &e.head);
}

static void leave(struct waits *w, uint32_t tid, uint64_t place, uint32_t wait, uint64_t time_ns)
{
    struct sample_event e = sample_at(SAMPLE_OFF_CPU, tid, place);

    e.s.wait = wait;
    e.s.time_ns = time_ns;
    waits_event(w, &e.s.head);
}

static void come_back(struct waits *w, uint32_t tid, uint32_t wait, uint32_t chance, uint64_t ns)
{
    struct event_wait_end e = {.head = {EVENT_WAIT_END, 0, sizeof(e)},
                               .tgid = 100,
                               .tid = tid,
                               .wait = wait,
                               .chance = chance,
                               .waited_ns = ns};

    waits_event(w, &e.head);
}

static void exit_of(struct waits *w, uint32_t tgid, uint64_t start_ns)
{
    struct event_process e = {.head = {EVENT_PROCESS, 0, sizeof(e)},
                              .tgid = tgid,
                              .event = PROCESS_EVENT_EXIT,
                              .start_ns = start_ns};

    waits_event(w, &e.head);
}

static void a_thread_that_has_not_moved_counts_again_where_it_was(struct test *t)
{
    struct seen seen;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    wall(w, 7, 1, S);
    wall(w, 8, 2, S);
    for (int i = 0; i < 9; i++)
        repeat(w, 7, THREAD_SLEEPING);
    waits_end_window(w, 2 * S);
    CHECK_INT(t, seen.calls, 3);
    CHECK_INT(t, seen.last_tid, 7);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], S);
    CHECK_INT(t, seen.ns[WAITS_WALL][2], 100 * MS);
    repeat(w, 7, THREAD_SLEEPING);
    wall(w, 7, 3, 2 * S);
    repeat(w, 7, THREAD_SLEEPING);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], S + 100 * MS); /* what was before it moved */
    waits_end_window(w, 3 * S);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], S + 100 * MS);
    CHECK_INT(t, seen.ns[WAITS_WALL][3], 200 * MS);
    repeat(w, 7, THREAD_SLEEPING);
    exit_of(w, 100, 5);
    waits_end_window(w, 4 * S);
    CHECK_INT(t, seen.ns[WAITS_WALL][3], 300 * MS); /* until its end */
}

static void what_is_not_remembered_is_told_apart_and_counts_nowhere(struct test *t)
{
    struct seen seen;
    struct waits_stats stats;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    repeat(w, 7, THREAD_SLEEPING);
    come_back(w, 7, 3, 65536, 40 * MS);
    leave(w, 7, 1, 4, S);
    come_back(w, 7, 3, 65536, 40 * MS);
    CHECK_INT(t, seen.calls, 0);
    waits_stats(w, &stats);
    CHECK_INT(t, stats.unknown, 3);
    CHECK_INT(t, stats.unknown_ns, 180 * MS);
}

static void a_wait_counts_by_its_length_and_its_chance(struct test *t)
{
    struct seen seen;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    leave(w, 7, 1, 3, S);
    come_back(w, 7, 3, 65536, 40 * MS);
    leave(w, 7, 2, 4, S);
    come_back(w, 7, 4, 65536 / 8, 10 * MS);
    leave(w, 7, 3, 5, S);
    come_back(w, 7, 5, 0, UINT64_MAX);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], 40 * MS);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][2], 80 * MS);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][3], INT64_MAX);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], 0);
}

static void a_wait_over_several_windows_counts_once_in_all(struct test *t)
{
    struct seen seen;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    leave(w, 7, 1, 3, 8 * S);
    waits_end_window(w, 10 * S);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], 2 * S);
    waits_end_window(w, 20 * S);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], 12 * S);
    come_back(w, 7, 3, 65536, 15 * S);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], 15 * S);
    waits_end_window(w, 30 * S);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], 15 * S);
}

static void a_pass_that_walks_for_both_counts_in_both(struct test *t)
{
    struct seen seen;
    struct sample_event e = sample_at(SAMPLE_WALL, 7, 1);
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    e.s.wait = 9;
    e.s.value_ns = 100 * MS;
    e.s.time_ns = S;
    CHECK(t, waits_event(w, &e.s.head));
    come_back(w, 7, 9, 65536, 250 * MS);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], 100 * MS);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], 250 * MS);
}

static void threads_of_ended_processes_wait_no_longer(struct test *t)
{
    struct seen seen;
    struct waits_stats stats;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    leave(w, 7, 1, 3, S);
    leave(w, 8, 2, 3, S);
    exit_of(w, 100, 4); /* one that had this pid before */
    exit_of(w, 99, 5);
    waits_end_window(w, 2 * S);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], S);
    exit_of(w, 101, 5);
    exit_of(w, 100, 5);
    waits_end_window(w, 3 * S);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], S);
    waits_stats(w, &stats);
    CHECK_INT(t, stats.threads, 0);
    CHECK_INT(t, stats.places, 0);
}

static void threads_that_are_silent_for_two_minutes_are_forgotten(struct test *t)
{
    struct seen seen;
    struct waits_stats stats;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    leave(w, 7, 1, 3, S);
    leave(w, 8, 2, 3, S);
    for (uint64_t s = 10; s <= 200; s += 10) {
        if (s % 30 == 0)
            repeat(w, 8, THREAD_SLEEPING | REPEAT_STILL_WAITS);
        waits_end_window(w, s * S);
    }
    waits_stats(w, &stats);
    CHECK_INT(t, stats.threads, 1);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][1], 119 * S);
    CHECK_INT(t, seen.ns[WAITS_OFF_CPU][2], 199 * S);
    CHECK_INT(t, seen.ns[WAITS_WALL][2], 0);
}

static void threads_in_one_place_share_it(struct test *t)
{
    struct seen seen;
    struct waits_stats stats;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    for (uint32_t tid = 1; tid <= 500; tid++)
        wall(w, tid, 1, S);
    waits_stats(w, &stats);
    CHECK_INT(t, stats.threads, 500);
    CHECK_INT(t, stats.places, 1);
    for (int pass = 0; pass < 9; pass++) {
        for (uint32_t tid = 1; tid <= 500; tid++)
            repeat(w, tid, THREAD_SLEEPING);
    }
    waits_end_window(w, 2 * S);
    CHECK_INT(t, seen.calls, 1000);
    CHECK_INT(t, seen.last_tid, 500);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], 500 * S);
}

static void limits_hold_and_say_so(struct test *t)
{
    struct seen seen;
    struct waits_stats stats;
    CLEANUP(waits_freep) struct waits *few = new_waits(&seen, &(struct waits_limits){10, 0});

    for (uint32_t tid = 1; tid <= 15; tid++)
        wall(few, tid, 1, S);
    waits_stats(few, &stats);
    CHECK_INT(t, stats.threads, 10);
    CHECK_INT(t, stats.no_room, 5);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], 1500 * MS); /* what came whole was counted */

    CLEANUP(waits_freep)
    struct waits *small = new_waits(&seen, &(struct waits_limits){0, (size_t)64 << 10});
    for (uint32_t tid = 1; tid <= 4000; tid++)
        wall(small, tid, tid, S);
    waits_stats(small, &stats);
    CHECK(t, stats.no_room > 3000);
    CHECK(t, stats.places > 50);
    for (uint32_t tid = 1; tid <= 4000; tid++)
        repeat(small, tid, THREAD_SLEEPING);
    waits_end_window(small, 200 * S);
    waits_stats(small, &stats);
    CHECK_INT(t, stats.places, 0);
    wall(small, 1, 1, 201 * S);
    waits_stats(small, &stats);
    CHECK_INT(t, stats.places, 1);
}

static void threads_are_told_by_state(struct test *t)
{
    struct seen seen;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    for (int pass = 0; pass < 10; pass++) {
        if (pass == 0)
            wall(w, 7, 1, S);
        else
            repeat(w, 7, pass < 5 ? THREAD_SLEEPING : THREAD_BLOCKED);
        repeat(w, 8, THREAD_RUNNING | REPEAT_ONLY_STATE);
        repeat(w, 9, 77 | REPEAT_ONLY_STATE);
    }
    waits_end_window(w, 2 * S);
    CHECK_INT(t, seen.processes, 1);
    CHECK_INT(t, seen.states[THREAD_SLEEPING], 500 * MS);
    CHECK_INT(t, seen.states[THREAD_BLOCKED], 500 * MS);
    CHECK_INT(t, seen.states[THREAD_RUNNING], S);
    CHECK_INT(t, seen.ns[WAITS_WALL][1], S);
    waits_end_window(w, 3 * S);
    CHECK_INT(t, seen.processes, 1);
}

static void events_of_others_and_broken_ones_are_left_alone(struct test *t)
{
    struct seen seen;
    struct sample_event e = sample_at(SAMPLE_CPU, 7, 1);
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);

    CHECK(t, !waits_event(w, &e.s.head));
    e.s.kind = SAMPLE_WALL;
    e.s.n_user = 3;
    CHECK(t, !waits_event(w, &e.s.head));
    e.s.n_user = 2;
    e.s.attrs_len = 8;
    CHECK(t, !waits_event(w, &e.s.head));
    CHECK_INT(t, seen.calls, 0);
}

/*
 * A life of a thread whose waits are of two kinds, in two places, walked as the program at
 * sched_switch would and seen by passes five times a second. What is counted must be what was.
 */
struct life {
    struct waits *w;
    struct random random;
    struct waits_pace pace;
    uint64_t now, usual, truth[PLACES], walks, waits;
    uint32_t number;
};

static void live_through_a_wait(struct life *l, uint64_t place, uint64_t ns)
{
    const uint64_t always = 10 * MS, pass = 200 * MS;
    uint64_t look = (l->now + always + pass - 1) / pass * pass;
    bool was_seen = look < l->now + ns, was_walked;
    uint32_t chance;

    waits_pace_keep(&l->pace, l->now);
    chance = waits_chance(l->usual, always, l->pace.scale);
    was_walked = random_below(&l->random, WAITS_CHANCE_ONE) < chance;
    l->number++;
    l->waits++;
    l->walks += was_walked;
    l->pace.walks += was_walked;
    if (was_walked || was_seen)
        leave(l->w, 7, place, l->number, l->now);
    l->now += ns;
    l->usual = waits_usual(l->usual, ns);
    if (was_walked || was_seen)
        come_back(l->w, 7, l->number, was_seen ? WAITS_CHANCE_ONE : chance, ns);
    l->truth[place] += ns;
    l->now += 1000;
}

static void check_close(struct test *t, const char *what, uint64_t got, uint64_t want,
                        double tolerance)
{
    double off = ((double)got - (double)want) / (double)want;

    if (off > tolerance || off < -tolerance) {
        printf("# %s: %.3f s, not %.3f s\n", what, (double)got / 1e9, (double)want / 1e9);
        t->failures++;
    }
}

static void chances_leave_the_sums_right(struct test *t)
{
    struct seen seen;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);
    struct life l = {.w = w, .now = S, .usual = 10 * MS};

    random_init(&l.random, 42);
    for (int i = 0; i < 400000; i++) {
        uint64_t x = random_below(&l.random, 1000);

        if (x < 900)
            live_through_a_wait(&l, 1, 2000 + random_below(&l.random, 20000));
        else if (x < 998)
            live_through_a_wait(&l, 2, MS / 2 + random_below(&l.random, 4 * MS));
        else
            live_through_a_wait(&l, 3, 100 * MS + random_below(&l.random, 2 * S));
    }
    check_close(t, "short waits", seen.ns[WAITS_OFF_CPU][1], l.truth[1], 0.02);
    check_close(t, "middling waits", seen.ns[WAITS_OFF_CPU][2], l.truth[2], 0.03);
    check_close(t, "long waits", seen.ns[WAITS_OFF_CPU][3], l.truth[3], 0.01);
}

static void after_a_long_rest_the_pace_is_as_at_the_start(struct test *t)
{
    struct waits_pace p = {.begin_ns = 5, .walks = 1, .scale = WAITS_CHANCE_ONE};

    waits_pace_keep(&p, UINT64_MAX / 2); /* centuries */
    CHECK_INT(t, p.scale, WAITS_CHANCE_ONE);
    p.walks = 1 << 30;
    waits_pace_keep(&p, p.begin_ns + WAITS_PACE_NS);
    CHECK_INT(t, p.scale, 64);
    for (int i = 0; i < 12; i++)
        waits_pace_keep(&p, p.begin_ns + WAITS_PACE_NS);
    CHECK_INT(t, p.scale, WAITS_CHANCE_ONE);
    CHECK_INT(t, waits_chance(0, 10 * MS, WAITS_CHANCE_ONE), WAITS_CHANCE_MIN);
    CHECK_INT(t, waits_chance(50 * MS, 10 * MS, WAITS_CHANCE_ONE), WAITS_CHANCE_ONE);
    CHECK_INT(t, waits_chance(0, 0, WAITS_CHANCE_ONE), WAITS_CHANCE_ONE);
    CHECK(t, waits_chance(0, 10 * MS, 64) > 0);
}

static void a_storm_of_waits_is_walked_at_a_steady_pace(struct test *t)
{
    struct seen seen;
    CLEANUP(waits_freep) struct waits *w = new_waits(&seen, NULL);
    struct life l = {.w = w, .now = S, .usual = 10 * MS};

    random_init(&l.random, 7);
    for (int i = 0; i < 2000000; i++)
        live_through_a_wait(&l, 1 + (unsigned)i % 2, 3000);
    /* 8 s, 2 million waits: 954 walks a second are meant. */
    double rate = (double)l.walks / ((double)(l.now - S) / 1e9);
    if (rate < 600 || rate > 1300) {
        printf("# %.0f walks a second\n", rate);
        t->failures++;
    }
    check_close(t, "first place", seen.ns[WAITS_OFF_CPU][1], l.truth[1], 0.05);
    check_close(t, "second place", seen.ns[WAITS_OFF_CPU][2], l.truth[2], 0.05);
}

#define REASON(state, ...)                                                                         \
    wait_reason_of((const char *const[]){__VA_ARGS__},                                             \
                   sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), state)

static void reasons_are_told_from_kernel_frames(struct test *t)
{
    CHECK_INT(t,
              REASON(THREAD_SLEEPING, "__schedule", "schedule", "futex_do_wait", "__futex_wait",
                     "futex_wait", "do_futex", "__x64_sys_futex", "do_syscall_64"),
              WAIT_FUTEX);
    CHECK_INT(t,
              REASON(THREAD_SLEEPING, "__schedule", "schedule", "do_nanosleep", "hrtimer_nanosleep",
                     "common_nsleep", "__x64_sys_clock_nanosleep"),
              WAIT_SLEEP);
    CHECK_INT(t,
              REASON(THREAD_SLEEPING, "__schedule", "schedule", "schedule_hrtimeout_range_clock",
                     "ep_poll", "do_epoll_wait", "__x64_sys_epoll_wait"),
              WAIT_POLL);
    CHECK_INT(t,
              REASON(THREAD_SLEEPING, "__schedule", "schedule", "anon_pipe_read", "vfs_read",
                     "ksys_read", "__x64_sys_read"),
              WAIT_PIPE);
    CHECK_INT(t,
              REASON(THREAD_SLEEPING, "__schedule", "schedule", "schedule_timeout", "wait_woken",
                     "sk_wait_data", "tcp_recvmsg_locked", "tcp_recvmsg", "inet_recvmsg"),
              WAIT_SOCKET);
    CHECK_INT(t, REASON(THREAD_SLEEPING, "__schedule", "schedule", "do_wait", "kernel_wait4"),
              WAIT_CHILD);
    CHECK_INT(t,
              REASON(THREAD_BLOCKED, "__schedule", "schedule", "io_schedule",
                     "folio_wait_bit_common", "filemap_get_pages", "filemap_read", "vfs_read"),
              WAIT_DISK);
    CHECK_INT(t,
              REASON(THREAD_BLOCKED, "__schedule", "schedule", "io_schedule",
                     "folio_wait_bit_common", "filemap_fault", "__do_fault", "handle_mm_fault",
                     "do_user_addr_fault", "exc_page_fault"),
              WAIT_FAULT);
    CHECK_INT(t, REASON(THREAD_BLOCKED, "__schedule", NULL, "rwsem_down_write_slowpath"),
              WAIT_KERNEL_LOCK);
    CHECK_INT(t, REASON(THREAD_RUNNABLE, "__schedule", "futex_wait"), WAIT_PREEMPTED);
    CHECK_INT(t, REASON(THREAD_STOPPED, "__schedule"), WAIT_STOPPED);
    CHECK_INT(t, REASON(THREAD_SLEEPING, "__schedule", "schedule", "some_driver_read"), WAIT_OTHER);
    CHECK_INT(t, wait_reason_of(NULL, 0, THREAD_SLEEPING), WAIT_OTHER);
    CHECK_STR(t, wait_reason_frame(WAIT_FUTEX), "[waiting: futex]");
    CHECK_STR(t, wait_reason_frame(WAIT_PREEMPTED), "[wants to run]");
    for (int r = 0; r < WAIT_REASONS; r++)
        CHECK(t, wait_reason_frame((enum wait_reason)r) != NULL);
    for (int s = 0; s < THREAD_STATES; s++)
        CHECK(t, thread_state_name((enum thread_state)s) != NULL);
}

#define IS_LOCK(...)                                                                               \
    wait_is_lock(WAIT_FUTEX, (const char *const[]){__VA_ARGS__},                                   \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void only_time_lost_to_locks_is_lock_contention(struct test *t)
{
    CHECK(t, IS_LOCK("__lll_lock_wait", "pthread_mutex_lock@@GLIBC_2.2.5", "serve", "main"));
    CHECK(t, IS_LOCK("futex_wait", "___pthread_mutex_lock", "std::mutex::lock()", "serve"));
    CHECK(t, IS_LOCK("runtime.futex", "runtime.futexsleep", "runtime.lock2", "runtime.mallocgc"));
    CHECK(t, IS_LOCK("syscall", "my_own_spinlock", "main"));
    CHECK(t, IS_LOCK("__futex_abstimed_wait_common", "pthread_cond_timedwait", "take_gil",
                     "PyEval_RestoreThread"));
    CHECK(t, IS_LOCK("__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait"));
    CHECK(t, !IS_LOCK("__futex_abstimed_wait_common", "pthread_cond_wait@@GLIBC_2.3.2", "worker"));
    CHECK(t, !IS_LOCK("__futex_abstimed_wait_common", "__new_sem_wait_slow64.constprop.0"));
    CHECK(t, !IS_LOCK("__futex_abstimed_wait_common64", "__pthread_clockjoin_ex", "main"));
    CHECK(t, !IS_LOCK("__syscall_cancel_arch"));
    CHECK(t, !IS_LOCK("__futex_abstimed_wait_common"));
    CHECK(t, IS_LOCK("__futex_abstimed_wait_common", "__GI___pthread_rwlock_rdlock"));
    CHECK(t, !IS_LOCK("runtime.futex", "runtime.futexsleep", "runtime.notesleep", "runtime.mPark",
                      "runtime.stopm", "runtime.findRunnable"));
    CHECK(t, !IS_LOCK("futex_wait", "uv_cond_wait", "worker", "start_thread"));
    CHECK(t, !wait_is_lock(WAIT_SLEEP, (const char *const[]){"pthread_mutex_lock"}, 1));
}

static const struct test_case cases[] = {
    TEST(a_thread_that_has_not_moved_counts_again_where_it_was),
    TEST(what_is_not_remembered_is_told_apart_and_counts_nowhere),
    TEST(a_wait_counts_by_its_length_and_its_chance),
    TEST(a_wait_over_several_windows_counts_once_in_all),
    TEST(a_pass_that_walks_for_both_counts_in_both),
    TEST(threads_of_ended_processes_wait_no_longer),
    TEST(threads_that_are_silent_for_two_minutes_are_forgotten),
    TEST(threads_in_one_place_share_it),
    TEST(limits_hold_and_say_so),
    TEST(threads_are_told_by_state),
    TEST(events_of_others_and_broken_ones_are_left_alone),
    TEST(chances_leave_the_sums_right),
    TEST(after_a_long_rest_the_pace_is_as_at_the_start),
    TEST(a_storm_of_waits_is_walked_at_a_steady_pace),
    TEST(reasons_are_told_from_kernel_frames),
    TEST(only_time_lost_to_locks_is_lock_contention),
};
TEST_MAIN(cases)
