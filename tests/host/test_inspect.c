#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/inspect.h"
#include "lib/test.h"

static struct loop *loop;
static struct worker *inspector;

/* A child that does `begin` and then waits to be killed. */
static pid_t child_of(void (*begin)(void *arg), void *arg)
{
    int pipes[2];
    char c;

    if (pipe(pipes) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (begin)
            begin(arg);
        (void)!write(pipes[1], "x", 1);
        for (;;)
            pause();
    }
    close(pipes[1]);
    (void)!read(pipes[0], &c, 1);
    close(pipes[0]);
    return pid;
}

/* A program that runs in its own right. */
static pid_t spawn(const char *path, const char *const argv[], const char *const envp[])
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        execve(path, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp);
        _exit(127);
    }
    /* Until exec is behind it. */
    char link[256] = "", exe[64];
    snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
    for (int i = 0; i < 400 && strncmp(link, path, strlen(path)) != 0; i++) {
        ssize_t n = readlink(exe, link, sizeof(link) - 1);
        link[n < 0 ? 0 : n] = '\0';
        usleep(1000);
    }
    usleep(30000); /* its libraries */
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int ask_all(const struct inspect_ask *a, struct budget *b, struct inspect_process *ret,
                   struct error *err)
{
    struct buf q = {0}, answer = {0};

    inspect_question(a, &q);
    int r = worker_ask_now(inspector, buf_bytes(&q), NULL, 0, &answer, NULL, err);
    if (r == 0)
        r = inspect_read(buf_bytes(&answer), b, ret, err);
    buf_done(&q);
    buf_done(&answer);
    return r;
}

static int ask_file(struct buf *q, struct inspect_file *ret, int *ret_fd, struct error *err)
{
    struct buf answer = {0};
    int r = worker_ask_now(inspector, buf_bytes(q), NULL, 0, &answer, ret_fd, err);

    if (r == 0)
        r = inspect_read_file(buf_bytes(&answer), ret, err);
    buf_done(q);
    buf_done(&answer);
    return r;
}

static const struct inspect_mapping *mapping_of(const struct inspect_process *p, const char *end_of)
{
    for (size_t i = 0; i < p->mappings.len; i++) {
        struct bytes path = p->mappings.data[i].path, tail = bytes_of(end_of);
        if (path.len >= tail.len && bytes_equal(bytes_from(path, path.len - tail.len), tail))
            return &p->mappings.data[i];
    }
    return NULL;
}

static void a_process_is_told_as_it_is(struct test *t)
{
    static const char *const variables[] = {"OTEL_SERVICE_NAME", "B", NULL};
    pid_t pid = spawn("/bin/sleep", (const char *[]){"sleep", "100", NULL},
                      (const char *[]){"A=1", "OTEL_SERVICE_NAME=shop", "B=two words", NULL});
    struct inspect_ask a = {.pid = (uint32_t)pid,
                            .maps = true,
                            .identity = true,
                            .cmdline = true,
                            .variables = variables};
    struct inspect_process p = {0};
    struct budget b;
    struct error err = {{0}};
    struct timespec now;

    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    CHECK_STR(t, err.text, "");
    CHECK_INT(t, p.pid, pid);
    CHECK_INT(t, p.parent, getpid());
    CHECK_INT(t, p.uid, geteuid());
    CHECK_INT(t, p.namespaced_pid, pid);
    CHECK(t, !p.is_kernel_thread && p.shares_mount_namespace && !p.mappings_cut);
    CHECK(t, bytes_are(p.comm, "sleep"));
    CHECK(t, bytes_are(p.exe, "/usr/bin/sleep") || bytes_are(p.exe, "/bin/sleep"));
    CHECK(t, bytes_equal(p.cmdline, BYTES("sleep\000100\0")));
    CHECK(t, bytes_equal(p.environ, BYTES("OTEL_SERVICE_NAME=shop\0B=two words\0")));
    CHECK(t, p.cgroup.len > 0);
    clock_gettime(CLOCK_BOOTTIME, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    CHECK(t, p.start_ns < now_ns && now_ns - p.start_ns < 5000000000u);
    const struct inspect_mapping *exe = mapping_of(&p, "/sleep");
    CHECK(t, exe && mapping_of(&p, "[vdso]") && mapping_of(&p, "libc.so.6"));
    CHECK(t, exe && exe->begin <= p.code_start && p.code_start < exe->end);
    CHECK(t, p.stack_start > p.code_start);
    CHECK(t, !mapping_of(&p, "[vsyscall]"));
    for (size_t i = 1; i < p.mappings.len; i++)
        CHECK(t, p.mappings.data[i].begin >= p.mappings.data[i - 1].end);
    inspect_process_done(&p);
    CHECK_INT(t, b.used, 0);
    end(pid);
}

static void the_file_of_a_mapping_is_opened(struct test *t)
{
    pid_t pid = spawn("/bin/sleep", (const char *[]){"sleep", "100", NULL}, (const char *[]){NULL});
    struct inspect_ask a = {.pid = (uint32_t)pid, .maps = true};
    struct inspect_process p = {0};
    struct inspect_file f = {0};
    struct budget b;
    struct error err = {{0}};
    struct stat st;
    int fd = -1;
    char head[4] = {0};

    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    const char *const names[] = {"/sleep", "libc.so.6", "[vdso]"};
    for (int i = 0; i < 3; i++) {
        const struct inspect_mapping *m = mapping_of(&p, names[i]);
        struct buf q = {0};
        if (!m)
            continue;
        inspect_question_file(p.pid, p.start_ns, m->begin, m->end, &q);
        CHECK_INT(t, ask_file(&q, &f, &fd, &err), 0);
        CHECK_STR(t, err.text, "");
        CHECK_INT(t, pread(fd, head, 4, 0), 4);
        CHECK(t, memcmp(head, "\177ELF", 4) == 0);
        CHECK_INT(t, fstat(fd, &st), 0);
        CHECK_INT(t, st.st_size, f.size);
        if (i < 2)
            CHECK_INT(t, f.inode, m->inode);
        close(fd);
    }
    struct buf q = {0};
    inspect_question_file(p.pid, p.start_ns, 0x1000, 0x2000, &q);
    CHECK_INT(t, ask_file(&q, &f, &fd, &err), -ENOENT);
    inspect_process_done(&p);
    end(pid);
}

static int listener = -1;
static uint16_t listening_port;

static void listens(void *arg)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    (void)arg;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)!bind(listener, (struct sockaddr *)&a, sizeof(a));
    (void)!listen(listener, 5);
}

static void ports_are_those_of_the_process(struct test *t)
{
    struct sockaddr_in a;
    socklen_t len = sizeof(a);
    struct inspect_process p = {0};
    struct budget b;

    listens(NULL);
    CHECK_INT(t, getsockname(listener, (struct sockaddr *)&a, &len), 0);
    listening_port = ntohs(a.sin_port);
    pid_t with = child_of(NULL, NULL);
    close(listener);
    pid_t without = child_of(NULL, NULL);
    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&(struct inspect_ask){.pid = (uint32_t)with, .ports = true}, &b, &p, NULL),
              0);
    CHECK(t, p.listens);
    CHECK_INT(t, p.n_ports, 1);
    CHECK_INT(t, p.ports[0], listening_port);
    inspect_process_done(&p);
    CHECK_INT(t,
              ask_all(&(struct inspect_ask){.pid = (uint32_t)without, .ports = true}, &b, &p, NULL),
              0);
    CHECK(t, !p.listens && p.n_ports == 0);
    inspect_process_done(&p);
    end(with);
    end(without);
}

static void listens_elsewhere(void *arg)
{
    struct sockaddr_in any = {.sin_family = AF_INET};

    *(int *)arg = unshare(CLONE_NEWNET);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)!bind(listener, (struct sockaddr *)&any, sizeof(any));
    (void)!listen(listener, 5);
}

/* Who asked one of them here would reach another program. */
static void ports_of_another_network_are_not_told(struct test *t)
{
    struct inspect_process p = {0};
    struct budget b;
    int *unshared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = child_of(listens_elsewhere, unshared);

    if (*unshared < 0) {
        end(pid);
        TEST_SKIP(t, "no network of its own may be made here");
    }
    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&(struct inspect_ask){.pid = (uint32_t)pid, .ports = true}, &b, &p, NULL),
              0);
    CHECK(t, p.listens);
    CHECK_INT(t, p.n_ports, 0);
    inspect_process_done(&p);
    end(pid);
}

static const struct test_case cases[] = {
    TEST(ports_of_another_network_are_not_told),
    TEST(ports_are_those_of_the_process),
    TEST(a_process_is_told_as_it_is),
    TEST(the_file_of_a_mapping_is_opened),
};

int main(void)
{
    struct error err = {{0}};
    size_t n = sizeof(cases) / sizeof(cases[0]), failed = 0;

    if (loop_new(&loop, &err) < 0 || worker_new(loop, &inspect_worker, &inspector, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        return 1;
    }
    printf("1..%zu\n", n);
    for (size_t i = 0; i < n; i++) {
        struct test t = {.name = cases[i].name};
        cases[i].run(&t);
        printf("%s %zu - %s%s%s\n", t.failures ? "not ok" : "ok", i + 1, t.name,
               t.skipped ? " # SKIP " : "", t.skipped ? t.skipped : "");
        failed += t.failures > 0;
    }
    worker_free(inspector);
    loop_free(loop);
    return failed > 0;
}
