#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"
#include "lib/test.h"
#include "probe/enlist.h"
#include "probe/probe_internal.h"

/*
 * Real stacks, stopped at any moment: registers and memory are replayed through the same source
 * that the kernel runs, and gdb has to find the same frames.
 */

/* Tables without a kernel: the arrays lie in plain memory. */
static struct probe_array new_array(size_t element, uint32_t n)
{
    return (struct probe_array){-1, element, n, must_calloc(n, element)};
}

static struct probe *new_tables(void)
{
    struct probe *p = must_calloc(1, sizeof(*p));
    p->rows = new_array(sizeof(struct unwind_row), 1 << 20);
    p->pages = new_array(sizeof(struct unwind_page), 16384);
    p->rules = new_array(sizeof(struct unwind_rule), 65536);
    p->files = new_array(sizeof(struct unwind_file), 64);
    range_pool_init(&p->free_rows, 0, p->rows.n);
    range_pool_init(&p->free_pages, 0, p->pages.n);
    range_pool_init(&p->free_rules, 0, p->rules.n);
    range_pool_init(&p->free_files, 1, p->files.n - 1);
    p->file_ranges = must_calloc(p->files.n, sizeof(*p->file_ranges));
    return p;
}

static void free_tables(struct probe *p)
{
    free(p->rows.data);
    free(p->pages.data);
    free(p->rules.data);
    free(p->files.data);
    range_pool_done(&p->free_rows);
    range_pool_done(&p->free_pages);
    range_pool_done(&p->free_rules);
    range_pool_done(&p->free_files);
    free(p->file_ranges);
    free(p);
}

struct replay {
    const struct probe *tables;
    const struct enlisted *all;
    pid_t pid;
};

static int read_target(const struct replay *r, void *to, size_t n, uint64_t at)
{
    struct iovec local = {to, n}, remote = {(void *)(uintptr_t)at, n};
    return process_vm_readv(r->pid, &local, 1, &remote, 1, 0) == (ssize_t)n ? 0 : -1;
}

#define ELEMENT(array, type, i)     ((i) < (array).n ? (type *)(array).data + (i) : NULL)
#define UNWIND_INLINE               static inline
#define UNWIND_ENV                  const struct replay *
#define UNWIND_READ(env, to, n, at) read_target(env, to, n, at)
#define UNWIND_MAPPING(env, i)      ((i) < (env)->all->n ? &(env)->all->mappings[i] : NULL)
#define UNWIND_FILE(env, i)         ELEMENT((env)->tables->files, struct unwind_file, i)
#define UNWIND_PAGE(env, i)         ELEMENT((env)->tables->pages, struct unwind_page, i)
#define UNWIND_ROW_PAIR(env, i)     ELEMENT((env)->tables->rows, struct unwind_row_pair, i)
#define UNWIND_RULE(env, i)         ELEMENT((env)->tables->rules, struct unwind_rule, i)
#define UNWIND_MEMO(env, i)         ((void)(env), (i) == UINT32_MAX ? &no_memo : NULL)
#define UNWIND_NAME(x)              replay_##x
#ifdef __aarch64__
#define UNWIND_IS_ARM64 1
#else
#define UNWIND_IS_ARM64 0
#endif
static struct unwind_memo no_memo;
#include "probe/unwind_step.h"

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
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    return pid;
}

/* What gdb says: registers, then one address for each frame that is really on the stack. */
static uint32_t ask_gdb(pid_t pid, uint64_t regs[3], uint64_t *pcs, uint32_t max)
{
    char command[1024], line[256];
    snprintf(command, sizeof(command),
             "gdb -nx -batch -ex 'set debuginfod enabled off' -p %d"
             " -ex 'set backtrace past-main on' -ex 'set backtrace past-entry on'"
             " -ex 'python f = gdb.newest_frame()'"
             " -ex 'python print(\"REGS\", *[hex(int(f.read_register(r)) & (2**64-1))"
             " for r in (\"rip\",\"rsp\",\"rbp\")])'"
             " -ex 'python\nwhile f:\n  if f.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):"
             " print(\"PC\", hex(f.pc()))\n  f = f.older()\nend' 2>/dev/null",
             pid);
    FILE *f = popen(command, "re");
    uint32_t n = 0;
    while (f && fgets(line, sizeof(line), f)) {
        unsigned long long a, b, c;
        if (sscanf(line, "REGS %llx %llx %llx", &a, &b, &c) == 3) {
            regs[0] = a;
            regs[1] = b;
            regs[2] = c;
        } else if (n < max && sscanf(line, "PC %llx", &a) == 1) {
            pcs[n++] = a;
        }
    }
    if (f)
        pclose(f);
    return n;
}

/* In a system call, the next instruction is what is to come: as the kernel's side has it. */
static bool is_after_syscall(pid_t pid, uint64_t pc)
{
    uint8_t code[2] = {0};
    struct replay r = {.pid = pid};
    return read_target(&r, code, 2, pc - 2) == 0 && code[0] == 0x0f && code[1] == 0x05;
}

static void compare_once(struct test *t, const struct replay *r)
{
    static __u64 addresses[UNWIND_ADDRESSES_MAX];
    static uint64_t pcs[UNWIND_USER_FRAMES_MAX];
    uint64_t regs[3] = {0};
    kill(r->pid, SIGSTOP);
    uint32_t n = ask_gdb(r->pid, regs, pcs, UNWIND_USER_FRAMES_MAX);
    struct unwind_walk w = {.pc = regs[0],
                            .sp = regs[1],
                            .fp = regs[2],
                            .has_fp = 1,
                            .is_return = is_after_syscall(r->pid, regs[0]),
                            .n_mappings = r->all->n};
    for (int i = 0; i <= UNWIND_USER_FRAMES_MAX && !replay_step(r, &w, addresses); i++)
        ;
    CHECK(t, n > 25);
    CHECK_INT(t, w.end, UNWIND_END_OUTERMOST);
    CHECK_INT(t, w.n, n);
    for (uint32_t i = 0; i < n && i < w.n; i++)
        if (addresses[i] != pcs[i]) {
            printf("# frame %u is %llx, gdb says %lx\n", i, addresses[i], pcs[i]);
            CHECK(t, false);
            break;
        }
    kill(r->pid, SIGCONT);
}

static void compare(struct test *t, const char *how)
{
#ifndef __x86_64__
    TEST_SKIP(t, "the registers asked for are of x86-64");
#endif
    if (system("gdb --version >/dev/null 2>&1") != 0)
        TEST_SKIP(t, "gdb is not installed");
    static struct enlisted all;
    all = (struct enlisted){0};
    struct probe *tables = new_tables();
    struct replay r = {tables, &all, start_target(how)};
    enlist_mappings(tables, &all, r.pid);
    CHECK(t, all.n >= 3 && all.rows > 1000);
    for (int i = 0; i < 2; i++) {
        compare_once(t, &r);
        nanosleep(&(struct timespec){0, 7000000 + i * 1234567}, NULL);
    }
    kill(r.pid, SIGKILL);
    waitpid(r.pid, NULL, 0);
    free_tables(tables);
}

static void gdb_finds_the_same_frames_deep_down(struct test *t)
{
    compare(t, "spin");
}

static void gdb_finds_the_same_frames_in_callbacks(struct test *t)
{
    compare(t, "sort");
}

static void gdb_finds_the_same_frames_in_system_calls(struct test *t)
{
    compare(t, "calls");
}

static void gdb_finds_the_same_frames_in_signal_handlers(struct test *t)
{
    compare(t, "signal");
}

static const struct test_case cases[] = {
    TEST(gdb_finds_the_same_frames_deep_down),
    TEST(gdb_finds_the_same_frames_in_callbacks),
    TEST(gdb_finds_the_same_frames_in_system_calls),
    TEST(gdb_finds_the_same_frames_in_signal_handlers),
};
TEST_MAIN(cases)
