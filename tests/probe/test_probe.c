#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "lib/test.h"
#include "probe/enlist.h"
#include "probe/probe.h"
#include "probe/probe_internal.h"

/*
 * Programs in the kernel, and children that they are to see. The children run code whose frames are
 * known to the byte, so that what a walk finds can be told exactly.
 */

#ifdef __x86_64__
/* Three frames without frame pointers; the innermost never returns. rbp is rubbish throughout. */
__asm__(".text\n"
        ".balign 16\n"
        ".globl known_outer, known_middle, known_inner, known_sleep, known_end\n"
        "known_outer:\n"
        "  mov $0x123456789, %rbp\n"
        "  sub $24, %rsp\n"
        "  call *%rdi\n"
        "  hlt\n"
        "known_middle:\n"
        "  sub $72, %rsp\n"
        "  call known_inner\n"
        "  hlt\n"
        "known_inner:\n"
        "  push %rbx\n"
        "1: add $1, %rax\n"
        "  jmp 1b\n"
        "known_sleep:\n"
        "  sub $8, %rsp\n"
        "2: mov $24, %eax\n" /* sched_yield */
        "  syscall\n"
        "  jmp 2b\n"
        "known_end:\n");
#else
__asm__(".text\n"
        ".globl known_outer, known_middle, known_inner, known_sleep, known_end\n"
        "known_outer:\n nop\n known_middle:\n nop\n known_inner:\n nop\n known_sleep:\n nop\n"
        "known_end:\n");
#endif
void known_outer(void (*f)(void));
void known_middle(void);
void known_inner(void);
void known_sleep(void);
void known_end(void);

static bool no_bpf(const char **why)
{
    static struct probe_feature_state state[PROBE_FEATURES];
    if (!state[PROBE_CPU].works && !state[PROBE_CPU].why[0])
        probe_features(state);
    *why = state[PROBE_CPU].why;
#ifndef __x86_64__
    *why = "the known frames are of x86-64";
    return true;
#endif
    return !state[PROBE_CPU].works;
}

#define NEEDS_BPF(t)                                                                               \
    do {                                                                                           \
        const char *why_;                                                                          \
        if (no_bpf(&why_))                                                                         \
            TEST_SKIP(t, why_);                                                                    \
    } while (0)

static struct probe *open_probe(struct test *t, struct probe_options o)
{
    struct error err;
    struct probe *p = NULL;
    o.table_bytes = o.table_bytes ? o.table_bytes : 1 << 20;
    if (probe_open(&o, &p, &err) < 0) {
        printf("# %s\n", err.text);
        CHECK(t, false);
        return NULL;
    }
    probe_settings(p)->now_s = 1;
    return p;
}

/* A child in known_outer() that calls f. */
static pid_t start_child(void (*f)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        known_outer(f);
        _exit(0);
    }
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* The mapping of this program's code; its virtual addresses are taken to begin at 0. */
static struct unwind_mapping own_text(uint32_t file)
{
    uint64_t at = (uint64_t)(uintptr_t)known_outer & ~UINT64_C(0xffff);
    return (struct unwind_mapping){at - 0x10000, at + 0x20000, at - 0x10000, file,
                                   UNWIND_MAPPING_FILE};
}

#define TABLE_ROWS 10
/* Rows for the known functions. */
struct known_table {
    struct unwind_row rows[TABLE_ROWS];
    uint32_t pages[4];
    struct unwind_rule rules[8];
    struct unwind_view view;
};

enum { RULE_GAP, RULE_END, RULE_8, RULE_16, RULE_80 };

static void make_table(struct known_table *k)
{
    uint64_t bias = own_text(0).bias;
    const struct {
        uint64_t at;
        uint16_t rule;
    } rows[] = {
        {(uint64_t)(uintptr_t)known_outer - bias, RULE_END},
        {(uint64_t)(uintptr_t)known_middle - bias, RULE_8},
        {(uint64_t)(uintptr_t)known_middle + 4 - bias, RULE_80},
        {(uint64_t)(uintptr_t)known_inner - bias, RULE_8},
        {(uint64_t)(uintptr_t)known_inner + 1 - bias, RULE_16},
        {(uint64_t)(uintptr_t)known_sleep - bias, RULE_8},
        {(uint64_t)(uintptr_t)known_sleep + 4 - bias, RULE_16},
        {(uint64_t)(uintptr_t)known_end - bias, RULE_GAP},
    };
    *k = (struct known_table){0};
    k->rules[RULE_END] = (struct unwind_rule){UNWIND_CFA_END, 0, 0, 0};
    k->rules[RULE_8] = (struct unwind_rule){UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 8};
    k->rules[RULE_16] = (struct unwind_rule){UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 16};
    k->rules[RULE_80] = (struct unwind_rule){UNWIND_CFA_SP, UNWIND_SAVED_NONE, 0, 80};
    uint32_t n = 0, page = 0;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        while (page <= rows[i].at >> 16 && page < 4)
            k->pages[page++] = n;
        k->rows[n++] = (struct unwind_row){(uint16_t)rows[i].at, rows[i].rule};
    }
    while (page < 4)
        k->pages[page++] = n;
    k->view = (struct unwind_view){0, false, k->pages, 3, k->rows, n, k->rules, 8};
}

/* Puts the child's process and, unless `file` is 0, its one mapping. */
static int put_child(struct probe *p, pid_t pid, uint32_t collected, uint32_t file)
{
    struct unwind_process value = {.collected = collected};
    struct unwind_mapping m = own_text(file);
    if (!read_starts(pid, &value))
        return -ESRCH;
    return probe_process_put(p, (uint32_t)pid, &value, &m, file ? 1 : 0);
}

/* What came of one process. */
struct seen {
    uint32_t tgid;
    uint32_t samples, ends[UNWIND_END_COUNT], in_kernel, young;
    uint32_t most_kernel; /* frames */
    uint32_t events[4];
    uint32_t right; /* samples with the frames expected */
    void (*innermost)(void);
    uint32_t n_frames;
    struct event_sample last;
    uint64_t addresses[UNWIND_USER_FRAMES_MAX];
};

static bool is_in(uint64_t pc, void (*f)(void), void (*next)(void))
{
    return pc > (uint64_t)(uintptr_t)f && pc < (uint64_t)(uintptr_t)next;
}

static bool is_right(const struct seen *s, const struct event_sample *e, const uint64_t *user)
{
    if (e->n_user != s->n_frames || e->end != UNWIND_END_OUTERMOST)
        return false;
    if (s->innermost == known_inner)
        return is_in(user[0] + 1, known_inner, known_sleep) &&
               is_in(user[1], known_middle, known_inner) &&
               is_in(user[2], (void (*)(void))known_outer, known_middle);
    return is_in(user[0], known_sleep, known_end) &&
           is_in(user[1], (void (*)(void))known_outer, known_middle);
}

static void on_event(void *arg, const struct event_head *head)
{
    struct seen *s = arg;
    if (head->kind == EVENT_PROCESS) {
        const struct event_process *e = (const void *)head;
        if (e->tgid == s->tgid)
            s->events[e->event]++;
        return;
    }
    const struct event_sample *e = (const void *)head;
    if (head->kind != EVENT_SAMPLE || e->tgid != s->tgid)
        return;
    const uint64_t *user = (const uint64_t *)(e + 1) + e->n_kernel;
    s->samples++;
    s->ends[e->end]++;
    s->in_kernel += (head->flags & EVENT_IN_KERNEL) != 0;
    s->young += (head->flags & EVENT_YOUNG) != 0;
    s->right += is_right(s, e, user);
    s->most_kernel = e->n_kernel > s->most_kernel ? e->n_kernel : s->most_kernel;
    s->last = *e;
    memcpy(s->addresses, user, e->n_user * sizeof(*user));
}

static void sleep_ms(long ms)
{
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&ts, NULL);
}

/* Drains until `n` samples came, or 10 s have passed. */
static void watch(struct probe *p, struct seen *s, uint32_t n)
{
    for (int i = 0; i < 500 && s->samples < n; i++) {
        sleep_ms(20);
        probe_drain(p, on_event, s);
    }
}

/* A probe that knows the table of this program as file 1, and samples often. */
static struct probe *open_with_table(struct test *t, struct probe_options o)
{
    struct probe *p = open_probe(t, o);
    struct known_table k;
    uint32_t file = 0;
    struct error err = {""};
    if (!p)
        return NULL;
    make_table(&k);
    CHECK_INT(t, probe_file_new(p, &file), 0);
    CHECK_INT(t, file, 1);
    CHECK_INT(t, probe_file_put(p, file, &k.view), 0);
    CHECK_INT(t, probe_set_cpu_rate(p, 199, &err), 0);
    return p;
}

static void walks_to_the_outermost_frame(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    pid_t pid = start_child(known_middle);
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, 1), 0);
    struct seen s = {.tgid = (uint32_t)pid, .innermost = known_inner, .n_frames = 3};
    probe_drain(p, on_event, &(struct seen){0}); /* of before it was known */
    watch(p, &s, 50);
    end_child(pid);
    CHECK(t, s.samples >= 50);
    CHECK_INT(t, s.right, s.samples);
    CHECK_INT(t, s.last.exact, 1);
    CHECK_INT(t, s.last.value_ns, 0);
    CHECK_INT(t, probe_file(p, 1)->last_used, 1);
    struct probe_stats stats;
    probe_stats(p, &stats);
    CHECK(t, stats.samples[SAMPLE_CPU] >= s.samples);
    CHECK(t, stats.ends[UNWIND_END_OUTERMOST] >= s.right);
    CHECK(t, stats.run_ns > 0 && stats.map_bytes > 1 << 20);
    CHECK_INT(t, stats.lost, 0);
    CHECK_INT(t, stats.damaged, 0);
}

static void walks_from_system_calls(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    pid_t pid = start_child(known_sleep);
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, 1), 0);
    struct seen s = {.tgid = (uint32_t)pid, .innermost = known_sleep, .n_frames = 2};
    probe_drain(p, on_event, &(struct seen){0});
    watch(p, &s, 50);
    end_child(pid);
    CHECK_INT(t, s.right, s.samples);
    CHECK(t, s.in_kernel > 5);
    CHECK(t, s.most_kernel > 2);
}

static void walks_without_tables_by_frame_pointers(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep)
    struct probe *p = open_with_table(t, (struct probe_options){.no_tables = true});
    if (!p)
        return;
    CHECK(t, !probe_has(p, PROBE_TABLES));
    pid_t pid = fork();
    if (pid == 0)
        for (volatile int i = 0;; i++)
            ; /* in main(), which was built with frame pointers, as all of this was */
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, 1), 0);
    struct seen s = {.tgid = (uint32_t)pid};
    probe_drain(p, on_event, &(struct seen){0});
    watch(p, &s, 10);
    end_child(pid);
    CHECK(t, s.samples >= 10);
    CHECK(t, s.last.n_user >= 2);
    CHECK(t, s.addresses[1] > own_text(0).begin && s.addresses[1] < own_text(0).end);
}

static void asks_about_processes_that_it_does_not_know(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    pid_t pid = start_child(known_middle);
    struct seen s = {.tgid = (uint32_t)pid};
    watch(p, &s, 80);
    CHECK(t, s.samples >= 80);
    CHECK_INT(t, s.ends[UNWIND_END_NO_PROCESS], s.samples);
    CHECK_INT(t, s.last.n_user, 1);
    CHECK(t, is_in(s.addresses[0] + 1, known_inner, known_sleep));
    CHECK(t, s.events[PROCESS_EVENT_SEEN] >= 1 && s.events[PROCESS_EVENT_SEEN] <= 3);

    /* A filter may not want it: asked, and nothing recorded. */
    probe_settings(p)->has_filter = 1;
    sleep_ms(50);
    probe_drain(p, on_event, &(struct seen){0});
    s = (struct seen){.tgid = (uint32_t)pid};
    sleep_ms(300);
    probe_drain(p, on_event, &s);
    CHECK_INT(t, s.samples, 0);
    end_child(pid);
}

static void marks_young_processes_and_does_not_ask(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    probe_settings(p)->young_ms = 60000;
    pid_t pid = start_child(known_middle);
    struct seen s = {.tgid = (uint32_t)pid};
    watch(p, &s, 10);
    end_child(pid);
    CHECK(t, s.samples >= 10);
    CHECK_INT(t, s.young, s.samples);
    CHECK_INT(t, s.events[PROCESS_EVENT_SEEN], 0);
}

static void leaves_out_what_is_not_collected(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    pid_t pid = start_child(known_middle);
    CHECK_INT(t, put_child(p, pid, PROCESS_WALL, 1), 0);
    probe_drain(p, on_event, &(struct seen){0});
    struct seen s = {.tgid = (uint32_t)pid};
    sleep_ms(300);
    probe_drain(p, on_event, &s);
    CHECK_INT(t, s.samples, 0);
    CHECK_INT(t, s.events[PROCESS_EVENT_SEEN], 0);
    /* Nor the agent itself. */
    probe_process_drop(p, (uint32_t)pid);
    probe_settings(p)->own_tgid = (uint32_t)pid;
    sleep_ms(50);
    probe_drain(p, on_event, &(struct seen){0});
    sleep_ms(300);
    probe_drain(p, on_event, &s);
    CHECK_INT(t, s.samples, 0);
    end_child(pid);
}

static void takes_another_program_under_the_same_number_as_unknown(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    pid_t pid = start_child(known_middle);
    struct unwind_process value = {.collected = PROCESS_CPU};
    struct unwind_mapping m = own_text(1);
    CHECK(t, read_starts(pid, &value));
    CHECK(t, value.code_start != 0 && value.stack_start != 0);
    value.stack_start += 16;
    CHECK_INT(t, probe_process_put(p, (uint32_t)pid, &value, &m, 1), 0);
    struct seen s = {.tgid = (uint32_t)pid};
    watch(p, &s, 10);
    end_child(pid);
    CHECK_INT(t, s.ends[UNWIND_END_NO_PROCESS], s.samples);
    CHECK(t, s.events[PROCESS_EVENT_SEEN] >= 1);
}

static void walks_forked_children_by_their_parents_entry(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    CHECK_INT(t, put_child(p, getpid(), PROCESS_CPU, 1), 0);
    pid_t pid = start_child(known_middle);
    struct seen s = {.tgid = (uint32_t)pid, .innermost = known_inner, .n_frames = 3};
    watch(p, &s, 20);
    end_child(pid);
    CHECK(t, s.samples >= 20);
    CHECK(t, s.right + 1 >= s.samples); /* one may hit the fork itself */
}

static void asks_again_for_addresses_outside_all_mappings(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    pid_t pid = start_child(known_middle);
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, 0), 0);
    probe_drain(p, on_event, &(struct seen){0});
    struct seen s = {.tgid = (uint32_t)pid};
    watch(p, &s, 100);
    end_child(pid);
    CHECK_INT(t, s.ends[UNWIND_END_NO_MAPPING], s.samples);
    CHECK(t, s.events[PROCESS_EVENT_REMAP] >= 1 && s.events[PROCESS_EVENT_REMAP] <= 4);
}

static void uses_frame_pointers_until_there_is_a_table(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    probe_file_clear(p, 1);
    CHECK_INT(t, probe_table_bytes(p), 0);
    CHECK_INT(t, probe_file(p, 1)->state, UNWIND_FILE_WANTED);
    pid_t pid = start_child(known_middle);
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, 1), 0);
    probe_drain(p, on_event, &(struct seen){0});
    struct seen s = {.tgid = (uint32_t)pid, .innermost = known_inner, .n_frames = 3};
    probe_settings(p)->now_s = 9;
    watch(p, &s, 10);
    CHECK_INT(t, s.ends[UNWIND_END_NO_TABLE], s.samples);
    CHECK_INT(t, probe_file(p, 1)->last_used, 9); /* this is how it is asked for */
    struct known_table k;
    make_table(&k);
    CHECK_INT(t, probe_file_put(p, 1, &k.view), 0);
    probe_drain(p, on_event, &(struct seen){0});
    s = (struct seen){.tgid = (uint32_t)pid, .innermost = known_inner, .n_frames = 3};
    watch(p, &s, 10);
    end_child(pid);
    CHECK_INT(t, s.right, s.samples);
}

/* Whatever is put meanwhile, a walk uses one whole table or none. */
static void replaces_tables_under_running_walks(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    pid_t pid = start_child(known_middle);
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, 1), 0);
    struct error err;
    CHECK_INT(t, probe_set_cpu_rate(p, 999, &err), 0);
    probe_drain(p, on_event, &(struct seen){0});
    struct seen s = {.tgid = (uint32_t)pid, .innermost = known_inner, .n_frames = 3};
    struct known_table k;
    make_table(&k);
    int refused = 0;
    for (int i = 0; i < 20000 && s.samples < 200; i++) {
        refused += probe_file_put(p, 1, &k.view) == -ENOSPC;
        refused += put_child(p, pid, PROCESS_CPU, 1) == -ENOSPC;
        if (i % 100 == 0) {
            sleep_ms(5);
            probe_drain(p, on_event, &s);
        }
    }
    end_child(pid);
    CHECK(t, s.samples > 100);
    CHECK_INT(t, s.right + s.ends[UNWIND_END_NO_TABLE], s.samples);
    CHECK(t, s.right * 10 > s.samples * 9);
    printf("# %u samples, %u without a table, %d times no room\n", s.samples,
           s.ends[UNWIND_END_NO_TABLE], refused);
}

static void tells_of_exec_and_exit(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_with_table(t, (struct probe_options){0});
    if (!p)
        return;
    if (!probe_has(p, PROBE_LIFE))
        TEST_SKIP(t, "exec and exit cannot be followed here");
    int go[2];
    CHECK_INT(t, pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(go[1]);
        _exit(read(go[0], &c, 1) == 0 ? execl("/bin/true", "true", (char *)NULL) : 1);
    }
    struct seen s = {.tgid = (uint32_t)pid}, other = {.tgid = (uint32_t)getpid()};
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, 1), 0);
    close(go[0]);
    close(go[1]);
    waitpid(pid, NULL, 0);
    sleep_ms(20);
    probe_drain(p, on_event, &s);
    CHECK_INT(t, s.events[PROCESS_EVENT_EXEC], 1);
    CHECK_INT(t, s.events[PROCESS_EVENT_EXIT], 1);
    /* Of processes that nobody keeps, nothing is said. */
    pid = start_child(known_middle);
    other.tgid = (uint32_t)pid;
    end_child(pid);
    sleep_ms(20);
    probe_drain(p, on_event, &other);
    CHECK_INT(t, other.events[PROCESS_EVENT_EXIT], 0);
}

static void samples_page_faults(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep)
    struct probe *p = open_with_table(t, (struct probe_options){.wanted = 1 << PROBE_FAULTS});
    if (!p)
        return;
    struct error err;
    CHECK_INT(t, probe_set_cpu_rate(p, 0, &err), 0);
    CHECK(t, probe_has(p, PROBE_FAULTS));
    pid_t pid = fork();
    if (pid == 0)
        for (;;) {
            char *m =
                mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (size_t i = 0; i < 1 << 20; i += 4096)
                m[i] = 1;
            munmap(m, 1 << 20);
            sleep_ms(1);
        }
    CHECK_INT(t, put_child(p, pid, PROCESS_FAULTS, 1), 0);
    CHECK_INT(t, probe_set_faults(p, 16, &err), 0);
    struct seen s = {.tgid = (uint32_t)pid};
    watch(p, &s, 20);
    end_child(pid);
    CHECK(t, s.samples >= 20);
    CHECK_INT(t, s.last.kind, SAMPLE_FAULT);
    CHECK_INT(t, s.last.value_ns, 16 * sysconf(_SC_PAGESIZE));
    CHECK_INT(t, probe_set_faults(p, 0, &err), 0);
}

static void refuses_what_was_not_asked_for(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep)
    struct probe *p =
        open_probe(t, (struct probe_options){.files = 3, .processes = 2, .mappings = 4});
    struct error err = {""};
    if (!p)
        return;
    CHECK_INT(t, probe_set_cpu_rate(p, 1000, &err), -EINVAL);
    CHECK_STR(t, err.text, "the highest rate is 999 Hz, asked for 1000");
    CHECK_INT(t, probe_set_faults(p, 5, &err), -EOPNOTSUPP);
    CHECK(t, strstr(err.text, "page faults were not asked for"));
    uint32_t file;
    for (uint32_t i = 1; i <= 3; i++)
        CHECK(t, probe_file_new(p, &file) == 0 && file == i);
    CHECK_INT(t, probe_file_new(p, &file), -ENOSPC);
    struct unwind_mapping m[5];
    for (uint32_t i = 0; i < 5; i++)
        m[i] = (struct unwind_mapping){i * 4096, i * 4096 + 4096, 0, 1, 0};
    struct unwind_process v = {0};
    CHECK_INT(t, probe_process_put(p, 7, &v, m, 5), -ENOSPC);
    CHECK_INT(t, probe_process_put(p, 7, &v, m, 2), 0);
    CHECK_INT(t, probe_process_put(p, 8, &v, m, 1), 0);
    CHECK_INT(t, probe_process_put(p, 9, &v, m, 1), -ENOSPC);
    m[1].begin = 1;
    CHECK_INT(t, probe_process_put(p, 7, &v, m, 2), -EINVAL);
}

static void says_what_works(struct test *t)
{
    struct probe_feature_state s[PROBE_FEATURES];
    probe_features(s);
    for (int i = 0; i < PROBE_FEATURES; i++) {
        printf("# %s: %s\n", probe_feature_name((enum probe_feature)i),
               s[i].works ? "works" : s[i].why);
        CHECK_INT(t, s[i].works, s[i].why[0] == '\0');
    }
}

static void says_which_right_is_missing(struct test *t)
{
    NEEDS_BPF(t);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct error err = {""};
        struct probe *p = NULL;
        if (syscall(SYS_setresuid, 65534, 65534, 65534) < 0)
            _exit(3);
        struct probe_feature_state s[PROBE_FEATURES];
        probe_features(s);
        int r = probe_open(&(struct probe_options){0}, &p, &err);
        bool is_right = strstr(s[PROBE_CPU].why, "CAP_BPF and CAP_PERFMON are missing") &&
                        (r == 0 ? probe_lacks(p) != NULL && s[PROBE_OWN].works
                                : r == -EPERM && strstr(err.text, "CAP_BPF, CAP_PERFMON"));
        if (!is_right)
            printf("# %d: %s; %s\n", r, err.text, s[PROBE_CPU].why);
        probe_close(p);
        fflush(stdout);
        _exit(is_right ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK_INT(t, status, 0);
}

static void has_no_use_for_damaged_events(struct test *t)
{
    uint64_t room[64] = {0};
    struct event_sample *e = (void *)room;
    *e = (struct event_sample){
        .head = {EVENT_SAMPLE, 0, sizeof(*e) + 24}, .n_kernel = 1, .n_user = 1, .attrs_len = 3};
    CHECK(t, probe_event_is_sound(e, sizeof(*e) + 24));
    CHECK(t, !probe_event_is_sound(e, sizeof(*e) + 16)); /* cut short */
    CHECK(t, !probe_event_is_sound(e, 4));
    e->n_user = 2;
    CHECK(t, !probe_event_is_sound(e, e->head.size));
    e->n_user = 1;
    e->attrs_len = 9;
    CHECK(t, !probe_event_is_sound(e, e->head.size));
    e->attrs_len = 3;
    e->end = UNWIND_END_COUNT;
    CHECK(t, !probe_event_is_sound(e, e->head.size));
    e->end = 0;
    e->kind = SAMPLE_KINDS;
    CHECK(t, !probe_event_is_sound(e, e->head.size));
    e->kind = 0;
    e->head.kind = 99;
    CHECK(t, !probe_event_is_sound(e, e->head.size));
    struct event_process *q = (void *)room;
    *q = (struct event_process){.head = {EVENT_PROCESS, 0, sizeof(*q)}, .event = 4};
    CHECK(t, !probe_event_is_sound(q, sizeof(*q)));
    q->event = 3;
    CHECK(t, probe_event_is_sound(q, sizeof(*q)));
}

static const struct test_case cases[] = {
    TEST(walks_to_the_outermost_frame),
    TEST(walks_from_system_calls),
    TEST(walks_without_tables_by_frame_pointers),
    TEST(asks_about_processes_that_it_does_not_know),
    TEST(marks_young_processes_and_does_not_ask),
    TEST(leaves_out_what_is_not_collected),
    TEST(takes_another_program_under_the_same_number_as_unknown),
    TEST(walks_forked_children_by_their_parents_entry),
    TEST(asks_again_for_addresses_outside_all_mappings),
    TEST(uses_frame_pointers_until_there_is_a_table),
    TEST(replaces_tables_under_running_walks),
    TEST(tells_of_exec_and_exit),
    TEST(samples_page_faults),
    TEST(refuses_what_was_not_asked_for),
    TEST(says_what_works),
    TEST(says_which_right_is_missing),
    TEST(has_no_use_for_damaged_events),
};
TEST_MAIN(cases)
