#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/test.h"
#include "probe/registered.h"

/*
 * Threads that wait with their stack in memory that is withheld from whoever reads it: a page of a
 * file system of their own, and one that a userfaultfd is to fill. And a storm of switches.
 */
#define MS   ((uint64_t)1000000)
#define NS_S ((uint64_t)1000000000)
#define PAGE ((size_t)4096)

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

/* Waits for ever with its stack at `sp`, which it does not touch; its caller is said to be found
 * there. */
_Noreturn void wait_on_stack(void *sp);
#ifdef __x86_64__
__asm__(".text\n"
        ".globl wait_on_stack\n"
        ".hidden wait_on_stack\n"
        ".type wait_on_stack, @function\n"
        "wait_on_stack:\n"
        "  .cfi_startproc\n"
        "  .cfi_def_cfa rsp, 16\n"
        "  mov %rdi, %rsp\n"
        "1: mov $34, %eax\n" /* pause */
        "  syscall\n"
        "  jmp 1b\n"
        "  .cfi_endproc\n"
        ".size wait_on_stack, . - wait_on_stack\n");
#else
_Noreturn void wait_on_stack(void *sp)
{
    (void)sp;
    for (;;)
        pause();
}
#endif

/* Shared with the targets. */
struct word {
    volatile uintptr_t page; /* what is withheld */
    volatile int failed;     /* an errno: it cannot be made here */
    volatile pid_t server, reader;
};
static struct word *word;

/* A file system that has one file, and never answers a read of it. */

static void reply(int fd, uint64_t unique, int error, const void *data, size_t n)
{
    struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + n), .error = error};
    struct iovec parts[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, n}};

    head.unique = unique;
    if (writev(fd, parts, n > 0 ? 2 : 1) < 0)
        _exit(1);
}

static struct fuse_attr attributes_of(uint64_t node)
{
    return (struct fuse_attr){.ino = node,
                              .size = PAGE,
                              .nlink = 1,
                              .mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644};
}

static void answer(int fd, const struct fuse_in_header *in)
{
    struct fuse_attr_out attr = {.attr_valid = 60, .attr = attributes_of(in->nodeid)};
    struct fuse_entry_out entry = {
        .nodeid = 2, .entry_valid = 60, .attr_valid = 60, .attr = attributes_of(2)};
    struct fuse_open_out opened = {.fh = 1};
    struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = PAGE};

    if (in->opcode == FUSE_INIT)
        reply(fd, in->unique, 0, &init, sizeof(init));
    else if (in->opcode == FUSE_LOOKUP)
        reply(fd, in->unique, 0, &entry, sizeof(entry));
    else if (in->opcode == FUSE_GETATTR)
        reply(fd, in->unique, 0, &attr, sizeof(attr));
    else if (in->opcode == FUSE_OPEN)
        reply(fd, in->unique, 0, &opened, sizeof(opened));
    else if (in->opcode != FUSE_READ && in->opcode != FUSE_FORGET)
        reply(fd, in->unique, -ENOSYS, NULL, 0);
}

static _Noreturn void serve_files(int fd)
{
    static _Alignas(8) char request[1 << 17];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        if (read(fd, request, sizeof(request)) < (ssize_t)sizeof(struct fuse_in_header))
            _exit(0);
        answer(fd, (const void *)request);
    }
}

/* In a mount namespace of its own: gone with the process. */
static void *map_withheld_file(void)
{
    char options[96], dir[] = "/tmp/vesta-withheld-XXXXXX", path[64];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), fd;

    if (fuse < 0 || unshare(CLONE_NEWNS) < 0 || !mkdtemp(dir) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return NULL;
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
    int r = mount("withheld", dir, "fuse", MS_NOSUID | MS_NODEV, options);
    if (r < 0) {
        rmdir(dir);
        return NULL;
    }
    word->server = fork();
    if (word->server == 0)
        serve_files(fuse);
    close(fuse); /* what waits is let go when the server ends */
    snprintf(path, sizeof(path), "%s/file", dir);
    fd = open(path, O_RDWR | O_CLOEXEC);
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    umount2(dir, MNT_DETACH);
    rmdir(dir);
    return page == MAP_FAILED ? NULL : page;
}

static void *map_withheld_memory(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)page, PAGE},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};

    if (fd < 0 || page == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) < 0 ||
        ioctl(fd, UFFDIO_REGISTER, &range) < 0)
        return NULL;
    return page;
}

/* A child with its stack in what `map` makes. */
static pid_t start_hostile(void *(*map)(void))
{
    word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char *page = map();
        if (!page) {
            word->failed = errno ? errno : EIO;
            _exit(1);
        }
        word->page = (uintptr_t)page;
        wait_on_stack(page + 2048);
    }
    for (int i = 0; i < 2000 && !word->page && !word->failed; i++)
        sleep_ns(MS);
    sleep_ns(20 * MS);
    return pid;
}

static void end_hostile(pid_t pid)
{
    if (word->server > 0)
        kill(word->server, SIGKILL);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (word->reader > 0)
        waitpid(word->reader, NULL, 0);
    munmap(word, sizeof(*word));
}

/* Whether somebody who reads that page as a debugger would waits for it. */
static bool hangs_readers(pid_t target)
{
    pid_t reader = fork();
    bool waits;

    if (reader == 0) {
        char c[8];
        struct iovec own = {c, sizeof(c)}, its = {(void *)word->page, sizeof(c)};

        _exit(process_vm_readv(target, &own, 1, &its, 1, 0) == sizeof(c) ? 0 : 1);
    }
    word->reader = reader;
    sleep_ns(200 * MS);
    waits = waitpid(reader, NULL, WNOHANG) == 0;
    kill(reader, SIGKILL); /* not even that ends who waits for a file's page */
    return waits;
}

/* What a pass said of one process. */
struct said {
    uint32_t tgid;
    uint32_t samples, repeats, ends[UNWIND_END_COUNT];
};

static void hear(void *arg, const struct event_head *e)
{
    struct said *said = arg;
    const void *event = e;
    const struct event_sample *s = event;
    const struct event_repeat *r = event;

    if (e->kind == EVENT_SAMPLE && s->tgid == said->tgid) {
        said->samples++;
        said->ends[s->end]++;
    } else if (e->kind == EVENT_REPEAT && r->tgid == said->tgid) {
        said->repeats++;
    }
}

static struct probe *open_probe(struct test *t)
{
    static struct probe_feature_state state[PROBE_FEATURES];
    struct error err;
    struct probe *p = NULL;

    probe_features(state);
    if (!state[PROBE_WALL].works || !state[PROBE_OFF_CPU].works) {
        t->skipped = state[PROBE_WALL].works ? state[PROBE_OFF_CPU].why : state[PROBE_WALL].why;
        return NULL;
    }
    if (probe_open(&(struct probe_options){.table_bytes = 2 << 20,
                                           .processes = 256,
                                           .mappings = 4096,
                                           .ring_bytes = 8 << 20,
                                           .wanted = 1u << PROBE_WALL | 1u << PROBE_OFF_CPU},
                   &p, &err) < 0) {
        printf("# %s\n", err.text);
        t->failures++;
    }
    return p;
}

/* Passes find the thread, do not find its caller, and take no longer than they should. */
static void check_not_hung(struct test *t, struct probe *p, pid_t pid)
{
    struct registry r;
    struct said said = {.tgid = (uint32_t)pid};
    struct error err;

    registry_init(&r, p);
    CHECK_INT(t, registry_put(&r, pid, PROCESS_WALL), 0);
    for (int i = 0; i < 30; i++) {
        if (probe_walk_threads(p, PROCESS_WALL, &err) < 0) {
            printf("# %s\n", err.text);
            t->failures++;
        }
        sleep_ns(50 * MS);
        probe_drain(p, hear, &said);
    }
    CHECK(t, said.samples >= 1);
    CHECK_INT(t, said.ends[UNWIND_END_READ], said.samples);
    CHECK(t, said.samples + said.repeats >= 25);
    registry_done(&r);
}

static void check_withheld(struct test *t, void *(*map)(void), const char *cannot)
{
#ifndef __x86_64__
    TEST_SKIP(t, "the thread's code is of x86-64");
#endif
    CLEANUP(probe_closep) struct probe *p = open_probe(t);

    if (!p)
        return;
    pid_t pid = start_hostile(map);
    if (word->failed) {
        printf("# %s\n", strerror(word->failed));
        t->skipped = cannot;
    } else {
        CHECK(t, hangs_readers(pid));
        check_not_hung(t, p, pid);
    }
    end_hostile(pid);
}

static void a_stack_in_a_withheld_file_hangs_nobody(struct test *t)
{
    check_withheld(t, map_withheld_file, "no FUSE file system can be mounted here");
}

static void a_stack_in_withheld_memory_hangs_nobody(struct test *t)
{
    check_withheld(t, map_withheld_memory, "userfaultfd cannot be used here");
}

/* Two processes that hand a byte to and fro on one CPU: each time, two switches. */
static pid_t start_storm(int *ret_go, int *ret_done)
{
    int there[2], back[2], go[2], done[2];
    char c = 0;

    if (pipe(there) < 0 || pipe(back) < 0 || pipe(go) < 0 || pipe(done) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        cpu_set_t one;
        uint32_t n;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CPU_ZERO(&one);
        CPU_SET(0, &one);
        sched_setaffinity(0, sizeof(one), &one);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
                ;
            _exit(0);
        }
        while (read(go[0], &n, sizeof(n)) == sizeof(n)) {
            uint64_t begin = now_ns();

            for (uint32_t i = 0; i < n; i++) {
                if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
                    _exit(1);
            }
            uint64_t ns = now_ns() - begin;
            if (write(done[1], &ns, sizeof(ns)) != sizeof(ns))
                _exit(1);
        }
        _exit(0);
    }
    *ret_go = go[1];
    *ret_done = done[0];
    return pid;
}

static pid_t child_of(pid_t pid)
{
    char path[64];
    int child = 0;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    return f && fscanf(f, "%d", &child) == 1 ? child : 0;
}

/* What a process has run, in ns. */
static uint64_t cpu_of(pid_t pid)
{
    char path[64];
    unsigned long long ns = 0;

    snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
    CLEANUP(fclosep) FILE *f = fopen(path, "re");
    return f && fscanf(f, "%llu", &ns) == 1 ? ns : 0;
}

/* CPU time of one switch, in ns: others who use the CPU do not count. */
static double storm_ns(pid_t pid, int go, int done)
{
    uint32_t n = 20000;
    uint64_t ns = 0, before = cpu_of(pid) + cpu_of(child_of(pid));

    if (write(go, &n, sizeof(n)) != sizeof(n) || read(done, &ns, sizeof(ns)) != sizeof(ns))
        return 0;
    return (double)(cpu_of(pid) + cpu_of(child_of(pid)) - before) / (2.0 * n);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
    qsort(x, n, sizeof(*x), by_value);
    return x[n / 2];
}

#define ROUNDS 15

static void a_storm_of_switches_is_bearable(struct test *t)
{
    CLEANUP(probe_closep) struct probe *p = open_probe(t);
    struct registry r;
    struct error err;
    int go = -1, done = -1;
    double off[ROUNDS], others[ROUNDS], own[ROUNDS];

    if (!p)
        return;
    pid_t pid = start_storm(&go, &done);
    registry_init(&r, p);
    storm_ns(pid, go, done);
    for (size_t i = 0; i < ROUNDS; i++) {
        const uint32_t bits[] = {PROCESS_CPU, PROCESS_OFF_CPU};
        double *times[] = {others, own};
        struct said said = {0};

        off[i] = storm_ns(pid, go, done);
        CHECK_INT(t, probe_set_off_cpu(p, true, &err), 0);
        for (size_t k = 0; k < 2; k++) {
            CHECK_INT(t, registry_put(&r, pid, bits[k]), 0);
            CHECK_INT(t, registry_put(&r, child_of(pid), bits[k]), 0);
            storm_ns(pid, go, done);
            times[k][i] = storm_ns(pid, go, done) - off[i];
            probe_drain(p, hear, &said);
        }
        CHECK_INT(t, probe_set_off_cpu(p, false, &err), 0);
    }
    double own_ns = median(own, ROUNDS), others_ns = median(others, ROUNDS);
    printf("# a switch takes %.0f ns; off-CPU adds %.0f ns to those of a profiled process, %.0f ns "
           "to others\n",
           median(off, ROUNDS), own_ns, others_ns);
    /* 300 and 60 are meant; a machine that is shared scatters by more. */
    CHECK(t, own_ns < 1500);
    CHECK(t, others_ns < 800);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    registry_done(&r);
}

static const struct test_case cases[] = {
    TEST(a_stack_in_a_withheld_file_hangs_nobody),
    TEST(a_stack_in_withheld_memory_hangs_nobody),
    TEST(a_storm_of_switches_is_bearable),
};
TEST_MAIN(cases)
