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
#include "probe/probe.h"

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

/* Fields 26 and 28 of /proc/PID/stat: where its code and its stack start. */
static bool read_starts(pid_t pid, struct unwind_process *ret)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    if (!f || !fgets(text, sizeof(text), f))
        return false;
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 28; field++) {
        at = strchr(at + 1, ' ');
        if (at && field + 1 == 26)
            ret->code_start = strtoull(at, NULL, 10);
        if (at && field + 1 == 28)
            ret->stack_start = strtoull(at, NULL, 10);
    }
    return at != NULL;
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

static void walks_to_the_outermost_frame(struct test *t)
{
    NEEDS_BPF(t);
    CLEANUP(probe_closep) struct probe *p = open_probe(t, (struct probe_options){0});
    if (!p)
        return;
    struct known_table k;
    make_table(&k);
    uint32_t file = 0;
    struct error err = {""};
    CHECK_INT(t, probe_file_new(p, &file), 0);
    CHECK_INT(t, probe_file_put(p, file, &k.view), 0);
    pid_t pid = start_child(known_middle);
    CHECK_INT(t, put_child(p, pid, PROCESS_CPU, file), 0);
    CHECK_INT(t, probe_set_cpu_rate(p, 199, &err), 0);
    struct seen s = {.tgid = (uint32_t)pid, .innermost = known_inner, .n_frames = 3};
    watch(p, &s, 50);
    end_child(pid);
    CHECK(t, s.samples >= 50);
    CHECK_INT(t, s.right, s.samples);
    CHECK_INT(t, probe_file(p, file)->last_used, 1);
    struct probe_stats stats;
    probe_stats(p, &stats);
    CHECK(t, stats.samples[SAMPLE_CPU] >= s.samples);
    CHECK(t, stats.ends[UNWIND_END_OUTERMOST] >= s.right);
    CHECK(t, stats.run_ns > 0 && stats.map_bytes > 1 << 20);
    CHECK_INT(t, stats.lost, 0);
    CHECK_INT(t, stats.damaged, 0);
}

static const struct test_case cases[] = {
    TEST(walks_to_the_outermost_frame),
};
TEST_MAIN(cases)
