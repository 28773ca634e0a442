#include <arpa/inet.h>
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi/preload.h"
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

/* A folder that is gone at the end of a test. */
static char folder[64];

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void folder_begin(void)
{
    snprintf(folder, sizeof(folder), "/tmp/vesta-inspect-XXXXXX");
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        abort();
}

static void folder_end(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", folder);
    (void)!system(command);
}

static void copy_file(const char *from, const char *to)
{
    char data[16384];
    int in = open(from, O_RDONLY | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

    for (ssize_t n; (n = read(in, data, sizeof(data))) > 0;)
        (void)!write(out, data, (size_t)n);
    close(in);
    close(out);
}

/* The file of the mapping whose path ends so: its size, or the failure. */
static int64_t size_of_mapping(struct test *t, pid_t pid, const char *end_of, bool *is_deleted,
                               struct error *err)
{
    struct inspect_ask a = {.pid = (uint32_t)pid, .maps = true};
    struct inspect_process p = {0};
    struct inspect_file f = {0};
    struct budget b;
    struct buf q = {0};
    int fd = -1;

    budget_init(&b, 1 << 20);
    int r = ask_all(&a, &b, &p, err);
    if (r < 0)
        return r;
    const struct inspect_mapping *m = mapping_of(&p, end_of);
    CHECK(t, m != NULL);
    if (m) {
        *is_deleted = m->is_deleted;
        inspect_question_file(p.pid, p.start_ns, m->begin, m->end, &q);
        r = ask_file(&q, &f, &fd, err);
        CHECK(t, r < 0 || f.inode == m->inode);
        if (fd >= 0)
            close(fd);
    }
    inspect_process_done(&p);
    return r < 0 ? r : (int64_t)f.size;
}

static void deleted_and_replaced_programs_are_read_as_they_were(struct test *t)
{
    struct error err = {{0}};
    struct stat st;
    bool is_deleted = false;

    if (geteuid() != 0)
        TEST_SKIP(t, "map_files needs CAP_CHECKPOINT_RESTORE");
    CHECK_INT(t, stat("/bin/sleep", &st), 0);
    folder_begin();
    copy_file("/bin/sleep", in_folder("my prog"));
    pid_t pid =
        spawn(in_folder("my prog"), (const char *[]){"x", "100", NULL}, (const char *[]){NULL});
    CHECK_INT(t, size_of_mapping(t, pid, "/my prog", &is_deleted, &err), st.st_size);
    CHECK(t, !is_deleted);
    /* Another one in its place, as an update makes it. */
    int other = open(in_folder("other"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    CHECK_INT(t, write(other, "short", 5), 5);
    close(other);
    CHECK_INT(t, rename(in_folder("other"), in_folder("my prog")), 0);
    CHECK_INT(t, size_of_mapping(t, pid, "/my prog", &is_deleted, &err), st.st_size);
    CHECK(t, is_deleted);
    /* A FIFO in its place: nobody waits for it. */
    CHECK_INT(t, unlink(in_folder("my prog")), 0);
    CHECK_INT(t, mkfifo(in_folder("my prog"), 0644), 0);
    CHECK_INT(t, size_of_mapping(t, pid, "/my prog", &is_deleted, &err), st.st_size);
    CHECK_STR(t, err.text, "");
    end(pid);
    folder_end();
}

static int ask_path(uint32_t pid, const char *path, bool no_link, uint32_t owner,
                    struct inspect_file *f, struct error *err)
{
    struct buf q = {0};
    int fd = -1;

    inspect_question_path(pid, 0, path, no_link, owner, &q);
    int r = ask_file(&q, f, &fd, err);
    if (fd >= 0)
        close(fd);
    return r;
}

static void only_regular_files_of_the_right_owner_are_opened(struct test *t)
{
    struct inspect_file f = {0};
    struct error err = {{0}};
    char want[256];
    uint32_t me = geteuid();

    folder_begin();
    int fd = open(in_folder("perf-1.map"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(t, write(fd, "1000 10 f\n", 10), 10);
    CHECK_INT(t, ask_path(0, in_folder("perf-1.map"), true, me, &f, &err), 0);
    CHECK_INT(t, f.size, 10);
    CHECK_INT(t, f.uid, me);
    CHECK_INT(t, symlink("/etc/passwd", in_folder("perf-2.map")), 0);
    CHECK_INT(t, ask_path(0, in_folder("perf-2.map"), true, me, &f, &err), -EINVAL);
    snprintf(want, sizeof(want), "\"%s\": is a symbolic link, not a regular file",
             in_folder("perf-2.map"));
    CHECK_STR(t, err.text, want);
    CHECK_INT(t, mkfifo(in_folder("perf-3.map"), 0644), 0);
    CHECK_INT(t, ask_path(0, in_folder("perf-3.map"), true, me, &f, &err), -EINVAL);
    CHECK(t, strstr(err.text, "is a FIFO, not a regular file"));
    CHECK_INT(t, ask_path(0, "/dev/zero", false, UINT32_MAX, &f, &err), -EINVAL);
    CHECK(t, strstr(err.text, "is a device"));
    CHECK_INT(t, ask_path(0, folder, false, UINT32_MAX, &f, &err), -EINVAL);
    CHECK_INT(t, ask_path(0, in_folder("none"), false, UINT32_MAX, &f, &err), -ENOENT);
    CHECK_INT(t, ftruncate(fd, (off_t)INSPECT_OWNED_MAX + 1), 0);
    CHECK_INT(t, ask_path(0, in_folder("perf-1.map"), true, me, &f, &err), -EFBIG);
    CHECK(t, strstr(err.text, "has 67108865 bytes: the limit is 67108864"));
    CHECK_INT(t, ask_path(0, in_folder("perf-1.map"), true, UINT32_MAX, &f, &err), 0);
    /* Magic links of /proc lead anywhere: not followed. */
    CHECK_INT(t, ask_path(0, "/proc/self/root/etc/passwd", false, UINT32_MAX, &f, &err), -ELOOP);
    if (me == 0) {
        CHECK_INT(t, ftruncate(fd, 10), 0);
        CHECK_INT(t, fchown(fd, 4711, 4711), 0);
        CHECK_INT(t, ask_path(0, in_folder("perf-1.map"), true, 4712, &f, &err), -EPERM);
        CHECK(t, strstr(err.text, "belongs to user 4711, not to 4712"));
        CHECK_INT(t, ask_path(0, in_folder("perf-1.map"), true, 4711, &f, &err), 0);
    }
    close(fd);
    folder_end();
}

/* In mounts of its own, and in a root within them. */
static void hides(void *arg)
{
    int fd;

    (void)arg;
    if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", folder, "tmpfs", 0, NULL) < 0)
        _exit(1);
    copy_file("/bin/sleep", in_folder("lib.so"));
    fd = open(in_folder("lib.so"), O_RDONLY | O_CLOEXEC);
    if (mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        _exit(1);
    close(fd);
    fd = open(in_folder("perf-7.map"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    (void)!write(fd, "inner", 5);
    close(fd);
    if (symlink("/etc/passwd", in_folder("escape")) < 0 || chroot(folder) < 0 || chdir("/") < 0)
        _exit(1);
}

static void mount_namespaces_and_roots_are_respected(struct test *t)
{
    struct inspect_file f = {0};
    struct error err = {{0}};
    struct stat st;
    bool is_deleted;

    if (geteuid() != 0)
        TEST_SKIP(t, "namespaces need root");
    CHECK_INT(t, stat("/bin/sleep", &st), 0);
    folder_begin();
    pid_t pid = child_of(hides, NULL);
    struct inspect_process p = {0};
    struct budget b;
    budget_init(&b, 1 << 20);
    CHECK_INT(
        t, ask_all(&(struct inspect_ask){.pid = (uint32_t)pid, .identity = true}, &b, &p, &err), 0);
    CHECK(t, !p.shares_mount_namespace);
    inspect_process_done(&p);
    CHECK_INT(t, size_of_mapping(t, pid, "/lib.so", &is_deleted, &err), st.st_size);
    CHECK_STR(t, err.text, "");
    /* Its map is in its root; ours has none of that name. */
    CHECK_INT(t, ask_path((uint32_t)pid, "/perf-7.map", true, 0, &f, &err), 0);
    CHECK_INT(t, f.size, 5);
    CHECK_INT(t, ask_path(0, "/perf-7.map", true, 0, &f, &err), -ENOENT);
    /* An absolute link stays in its root, as do dots. */
    CHECK_INT(t, ask_path((uint32_t)pid, "/escape", false, UINT32_MAX, &f, &err), -ENOENT);
    CHECK_INT(t, ask_path((uint32_t)pid, "/../../../etc/passwd", false, UINT32_MAX, &f, &err),
              -ENOENT);
    end(pid);
    folder_end();
}

static int *shared; /* with children */

static void nests(void *arg)
{
    (void)arg;
    if (unshare(CLONE_NEWPID) < 0)
        _exit(1);
    pid_t inner = fork();
    if (inner == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (;;)
            pause();
    }
    shared[0] = inner;
}

static void inner_pids_are_told(struct test *t)
{
    struct inspect_process p = {0};
    struct budget b;
    struct error err = {{0}};

    if (geteuid() != 0)
        TEST_SKIP(t, "namespaces need root");
    pid_t pid = child_of(nests, NULL);
    budget_init(&b, 1 << 20);
    struct inspect_ask a = {.pid = (uint32_t)shared[0], .identity = true};
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    CHECK_INT(t, p.namespaced_pid, 1);
    CHECK_INT(t, p.pid, shared[0]);
    inspect_process_done(&p);
    kill(shared[0], SIGKILL); /* it may not have said yet that it ends with its parent */
    end(pid);
}

static void another_process_of_that_number_is_not_taken_for_it(struct test *t)
{
    struct inspect_process p = {0};
    struct budget b;
    struct error err = {{0}};
    char want[64];
    pid_t pid = child_of(NULL, NULL);

    budget_init(&b, 1 << 20);
    struct inspect_ask a = {.pid = (uint32_t)pid, .maps = true};
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    a.start_ns = p.start_ns + 1234567; /* finer than /proc: the same */
    inspect_process_done(&p);
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    CHECK(t, p.start_ns == a.start_ns);
    inspect_process_done(&p);
    a.start_ns -= 1000000000;
    CHECK_INT(t, ask_all(&a, &b, &p, &err), -ESRCH);
    snprintf(want, sizeof(want), "process %d is another one by now", pid);
    CHECK_STR(t, err.text, want);
    kill(pid, SIGKILL);
    usleep(20000); /* a zombie */
    a.start_ns = 0;
    CHECK_INT(t, ask_all(&a, &b, &p, &err), -ESRCH);
    waitpid(pid, NULL, 0);
    CHECK_INT(t, ask_all(&a, &b, &p, &err), -ESRCH);
    snprintf(want, sizeof(want), "process %d is gone", pid);
    CHECK_STR(t, err.text, want);
}

static void one_that_execs_all_the_time_is_never_seen_as_two(struct test *t)
{
    struct budget b;
    struct error err = {{0}};
    int seen = 0, changed = 0;

    folder_begin();
    int fd = open(in_folder("again"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    (void)!write(fd, "exec /bin/sh $0\n", 16);
    close(fd);
    pid_t pid =
        spawn("/bin/sh", (const char *[]){"sh", in_folder("again"), NULL}, (const char *[]){NULL});
    for (int i = 0; i < 400; i++) {
        struct inspect_process p = {0};
        bool is_inside = false;
        budget_init(&b, 1 << 20);
        struct inspect_ask a = {.pid = (uint32_t)pid, .maps = true, .identity = true};
        int r = ask_all(&a, &b, &p, &err);
        if (r < 0) {
            CHECK_INT(t, r, -ESRCH);
            changed++;
            continue;
        }
        for (size_t k = 0; k < p.mappings.len; k++)
            is_inside |=
                p.mappings.data[k].begin <= p.code_start && p.code_start < p.mappings.data[k].end;
        CHECK(t, is_inside || p.code_start == 0);
        seen++;
        inspect_process_done(&p);
    }
    printf("# %d looks were whole, %d met an exec\n", seen, changed);
    CHECK(t, seen > 0);
    end(pid);
    folder_end();
}

static void maps_a_lot(void *arg)
{
    size_t n = 60000;
    uint8_t *p = mmap(NULL, n * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)arg;
    for (size_t i = 0; i < n; i += 2)
        (void)mprotect(p + i * 4096, 4096, PROT_READ | PROT_EXEC);
}

static void tens_of_thousands_of_mappings_are_cut(struct test *t)
{
    struct inspect_process p = {0};
    struct budget b;
    struct error err = {{0}};
    pid_t pid = child_of(maps_a_lot, NULL);

    budget_init(&b, 1 << 20);
    int64_t began = clock_monotonic_ns(clock_real());
    struct inspect_ask a = {.pid = (uint32_t)pid, .maps = true, .identity = true};
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    int64_t took = clock_monotonic_ns(clock_real()) - began;
    CHECK_STR(t, err.text, "");
    CHECK(t, p.mappings_cut);
    CHECK_INT(t, p.mappings.len, INSPECT_MAPPINGS_MAX);
    printf("# took %lld ms\n", (long long)(took / 1000000));
    inspect_process_done(&p);
    end(pid);
}

static void maps_one_file_a_thousand_times(void *arg)
{
    int fd = memfd_create("code", MFD_CLOEXEC);

    (void)arg;
    (void)!ftruncate(fd, 16 << 20);
    for (int i = 0; i < 1000; i++)
        (void)!mmap(NULL, 16 << 20, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    close(fd);
}

static void one_file_mapped_a_thousand_times_is_told_once(struct test *t)
{
    struct inspect_process p = {0};
    struct budget b;
    struct buf q = {0}, answer = {0};
    struct error err = {{0}};
    pid_t pid = child_of(maps_one_file_a_thousand_times, NULL);

    inspect_question(&(struct inspect_ask){.pid = (uint32_t)pid, .maps = true}, &q);
    CHECK_INT(t, worker_ask_now(inspector, buf_bytes(&q), NULL, 0, &answer, NULL, &err), 0);
    CHECK(t, answer.len < 32768);
    budget_init(&b, 1 << 20);
    CHECK_INT(t, inspect_read(buf_bytes(&answer), &b, &p, &err), 0);
    CHECK(t, p.mappings.len >= 1000 && !p.mappings_cut);
    inspect_process_done(&p);
    buf_done(&q);
    buf_done(&answer);
    end(pid);
}

struct context {
    char magic[8];
    uint32_t version, size;
    uint64_t time;
    const void *payload;
};

static void publishes(void *arg)
{
    static const char payload[] = "\x0a\x00payload";
    int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
    struct context c = {"", *(uint32_t *)arg, sizeof(payload) - 1, 77, payload};

    (void)!ftruncate(fd, 4096);
    struct context *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    memcpy(c.magic, "OTEL_CTX", 8);
    memcpy(at, &c, sizeof(c));
    close(fd);
}

static void a_process_context_is_found(struct test *t)
{
    struct inspect_process p = {0};
    struct budget b;
    struct error err = {{0}};
    uint32_t version = 2, unknown = 9;
    pid_t pid = child_of(publishes, &version), other = child_of(publishes, &unknown);

    budget_init(&b, 1 << 20);
    struct inspect_ask a = {.pid = (uint32_t)pid, .identity = true};
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    CHECK(t, bytes_equal(p.context, BYTES("\x0a\x00payload")));
    CHECK_INT(t, p.context_time, 77);
    inspect_process_done(&p);
    a.pid = (uint32_t)other;
    CHECK_INT(t, ask_all(&a, &b, &p, &err), 0);
    CHECK_INT(t, p.context.len, 0);
    inspect_process_done(&p);
    end(pid);
    end(other);
}

/* A memfd of that name, or a file that only looks like one. */
struct handed {
    const char *file;
    size_t size;
    int seals;
};

static void hands_over(void *arg)
{
    const struct handed *h = arg;
    int fd = h->file ? open(h->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600)
                     : memfd_create(PRELOAD_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)!ftruncate(fd, (off_t)h->size);
    if (h->seals)
        (void)!fcntl(fd, F_ADD_SEALS, h->seals);
    (void)!mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (h->file)
        (void)unlink(h->file);
    close(fd);
}

static void memory_of_a_preloaded_library_is_handed_over(struct test *t)
{
    struct inspect_process p = {0};
    struct inspect_file f;
    struct budget b;
    struct buf q = {0};
    struct error err = {{0}};
    int fd = -1;

    if (geteuid() != 0)
        TEST_SKIP(t, "map_files needs CAP_CHECKPOINT_RESTORE");
    struct handed sealed = {.size = 8192, .seals = F_SEAL_GROW | F_SEAL_SHRINK};
    pid_t pid = child_of(hands_over, &sealed);
    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&(struct inspect_ask){.pid = (uint32_t)pid, .maps = true}, &b, &p, &err),
              0);
    CHECK_INT(t, p.handover_end - p.handover_begin, 8192);
    inspect_question_handover((uint32_t)pid, 0, p.handover_begin, p.handover_end, &q);
    CHECK_INT(t, ask_file(&q, &f, &fd, &err), 0);
    CHECK_INT(t, f.size, 8192);
    CHECK(t, f.inode != 0);
    CHECK_INT(t, f.inode, p.handover_inode);
    CHECK_INT(t, pwrite(fd, "x", 1, 100), 1);
    close(fd);
    q = (struct buf){0};
    inspect_question_handover((uint32_t)pid, 0, p.handover_begin + 4096, p.handover_end, &q);
    CHECK_INT(t, ask_file(&q, &f, &fd, &err), -ENOENT);
    inspect_process_done(&p);
    end(pid);
}

static int ask_for_handed(struct test *t, const struct handed *h)
{
    struct inspect_process p = {0};
    struct inspect_file f;
    struct budget b;
    struct buf q = {0};
    struct error err = {{0}};
    int fd = -1;

    pid_t pid = child_of(hands_over, (void *)(uintptr_t)h);
    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&(struct inspect_ask){.pid = (uint32_t)pid, .maps = true}, &b, &p, &err),
              0);
    inspect_question_handover((uint32_t)pid, 0, p.handover_begin, p.handover_end, &q);
    int r = ask_file(&q, &f, &fd, &err);
    inspect_process_done(&p);
    end(pid);
    return r;
}

static void memory_that_can_grow_is_not_handed_over(struct test *t)
{
    struct handed loose = {.size = 8192}, half = {.size = 8192, .seals = F_SEAL_SHRINK},
                  large = {.size = (size_t)INSPECT_HANDOVER_MAX + 4096,
                           .seals = F_SEAL_GROW | F_SEAL_SHRINK};

    if (geteuid() != 0)
        TEST_SKIP(t, "map_files needs CAP_CHECKPOINT_RESTORE");
    CHECK_INT(t, ask_for_handed(t, &loose), -EPERM);
    CHECK_INT(t, ask_for_handed(t, &half), -EPERM);
    CHECK_INT(t, ask_for_handed(t, &large), -EFBIG);
}

static void a_file_that_looks_like_such_memory_is_not_opened(struct test *t)
{
    struct handed h = {.file = "/memfd:" PRELOAD_MEMFD, .size = 8192};

    if (geteuid() != 0 || access(h.file, F_OK) == 0)
        TEST_SKIP(t, "needs to write to /");
    CHECK_INT(t, ask_for_handed(t, &h), -EINVAL);
}

static int ask_words(pid_t pid, const uint64_t *at, size_t n, uint64_t *ret, uint32_t *ret_read,
                     struct error *err)
{
    struct buf q = {0}, answer = {0};

    inspect_question_words((uint32_t)pid, 0, at, n, &q);
    int r = worker_ask_now(inspector, buf_bytes(&q), NULL, 0, &answer, NULL, err);
    if (r == 0)
        r = inspect_read_words(buf_bytes(&answer), ret, n, ret_read, err);
    buf_done(&q);
    buf_done(&answer);
    return r;
}

static void words_of_memory_are_read(struct test *t)
{
    static uint64_t known[2] = {0x1122334455667788, 99};
    pid_t pid = child_of(NULL, NULL);
    uint64_t at[3] = {(uint64_t)(uintptr_t)&known[0], 8, (uint64_t)(uintptr_t)&known[1]}, got[3];
    uint32_t mask = 0;
    struct error err = {{0}};

    CHECK_INT(t, ask_words(pid, at, 3, got, &mask, &err), 0);
    CHECK_INT(t, mask, 1 | 4);
    CHECK(t, got[0] == known[0] && got[1] == 0 && got[2] == 99);
    end(pid);
}

/* Memory that nobody ever fills. */
static void faults_for_ever(void *arg)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(uint64_t)(uintptr_t)p, 4096},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
    uint64_t at = (uint64_t)(uintptr_t)p;

    (void)arg;
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &r) < 0)
        at = 0;
    memcpy(&shared[2], &at, sizeof(at));
}

static void memory_that_hangs_its_reader_hangs_nobody_else(struct test *t)
{
    struct error err = {{0}};
    struct inspect_process p = {0};
    struct worker_stats before, behind;
    struct budget b;
    uint64_t at, got;
    uint32_t mask;

    pid_t pid = child_of(faults_for_ever, NULL);
    memcpy(&at, &shared[2], sizeof(at));
    if (at == 0) {
        end(pid);
        TEST_SKIP(t, "no userfaultfd here");
    }
    worker_stats(inspector, &before);
    int64_t began = clock_monotonic_ns(clock_real());
    CHECK_INT(t, ask_words(pid, &at, 1, &got, &mask, &err), -ETIMEDOUT);
    int64_t took = clock_monotonic_ns(clock_real()) - began;
    CHECK(t, took < 2000000000);
    CHECK_STR(t, err.text, "the vesta-inspector took longer than 1000 ms: it was killed");
    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&(struct inspect_ask){.pid = (uint32_t)pid, .maps = true}, &b, &p, &err),
              0);
    inspect_process_done(&p);
    worker_stats(inspector, &behind);
    CHECK_INT(t, behind.killed, before.killed + 1);
    end(pid);
}

/*
 * A file system of our own, in mounts of its own, with one file. While shared[1] is 0 it answers;
 * then it takes requests and says nothing.
 */
static void fuse_reply(int fd, uint64_t unique, int error, const void *data, size_t len)
{
    struct fuse_out_header head = {(uint32_t)(sizeof(head) + len), error, unique};
    struct iovec iov[2] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, len}};

    (void)!writev(fd, iov, 2);
}

static struct fuse_attr fuse_attr_of(uint64_t node)
{
    return (struct fuse_attr){.ino = node,
                              .size = node == 1 ? 0 : 8192,
                              .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0755,
                              .nlink = 1,
                              .blksize = 4096};
}

static void fuse_answer(int fd, const struct fuse_in_header *in)
{
    struct fuse_init_out init = {.major = 7, .minor = 31, .max_write = 65536};
    struct fuse_entry_out entry = {.nodeid = 2, .attr = fuse_attr_of(2)};
    struct fuse_attr_out attr = {.attr = fuse_attr_of(in->nodeid)};
    struct fuse_open_out opened = {.fh = 1};

    switch (in->opcode) {
    case FUSE_INIT:
        fuse_reply(fd, in->unique, 0, &init, sizeof(init));
        break;
    case FUSE_LOOKUP:
        fuse_reply(fd, in->unique, 0, &entry, sizeof(entry));
        break;
    case FUSE_GETATTR:
        fuse_reply(fd, in->unique, 0, &attr, sizeof(attr));
        break;
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        fuse_reply(fd, in->unique, 0, &opened, sizeof(opened));
        break;
    default:
        fuse_reply(fd, in->unique, -ENOSYS, NULL, 0);
        break;
    }
}

static void fuse_serve(int fd)
{
    static uint8_t request[1 << 17] __attribute__((aligned(16)));

    for (;;) {
        ssize_t n = read(fd, request, sizeof(request));
        if (n < 0 && errno == ENODEV)
            _exit(0);
        if (n >= (ssize_t)sizeof(struct fuse_in_header) && !*(volatile int *)&shared[1])
            fuse_answer(fd, (const struct fuse_in_header *)(const void *)request);
    }
}

static void maps_from_user_space(void *arg)
{
    char options[128];
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    (void)arg;
    shared[0] = 0;
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
             fuse);
    if (fuse < 0 || unshare(CLONE_NEWNS) < 0 ||
        mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("vesta-test", folder, "fuse", 0, options) < 0)
        return;
    pid_t server = fork();
    if (server == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        fuse_serve(fuse);
    }
    close(fuse);
    int fd = open(in_folder("lib.so"), O_RDONLY | O_CLOEXEC);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (p != MAP_FAILED)
        shared[0] = server;
}

static void a_file_system_that_never_answers_is_not_asked(struct test *t)
{
    struct error err = {{0}};
    struct worker_stats before, s;
    bool is_deleted;

    if (geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) < 0)
        TEST_SKIP(t, "no FUSE here");
    folder_begin();
    shared[1] = 0;
    pid_t pid = child_of(maps_from_user_space, NULL);
    if (shared[0] == 0) {
        end(pid);
        folder_end();
        TEST_SKIP(t, "no FUSE file system could be mounted");
    }
    worker_stats(inspector, &before);
    shared[1] = 1;
    CHECK_INT(t, size_of_mapping(t, pid, "/lib.so", &is_deleted, &err), -EPERM);
    CHECK(t, strstr(err.text, "is in a file system of a process (FUSE)") != NULL);
    /* It is not even asked: the kernel could not take the question back. */
    struct inspect_process p = {0};
    struct budget b;
    budget_init(&b, 1 << 20);
    CHECK_INT(t, ask_all(&(struct inspect_ask){.pid = (uint32_t)pid, .maps = true}, &b, &p, &err),
              0);
    inspect_process_done(&p);
    worker_stats(inspector, &s);
    CHECK_INT(t, s.killed, before.killed);
    kill(shared[0], SIGKILL); /* the file system ends, and so does the waiting */
    end(pid);
    folder_end();
}

static void all_processes_are_listed(struct test *t)
{
    static struct inspect_listed all[INSPECT_LIST_MAX];
    struct buf q = {0}, answer = {0};
    struct error err = {{0}};
    bool is_there = false;

    inspect_question_list(&q);
    CHECK_INT(t, worker_ask_now(inspector, buf_bytes(&q), NULL, 0, &answer, NULL, &err), 0);
    int n = inspect_read_list(buf_bytes(&answer), all, &err);
    CHECK(t, n > 1);
    for (int i = 0; i < n; i++)
        is_there |= all[i].pid == (uint32_t)getpid() && all[i].start_ns > 0;
    CHECK(t, is_there);
    CHECK_INT(t, inspect_read_list(BYTES("odd"), all, &err), -EBADMSG);
    buf_done(&q);
    buf_done(&answer);
}

static void kernel_threads_are_told_apart(struct test *t)
{
    struct inspect_process p = {0};
    struct budget b;
    struct error err = {{0}};
    struct inspect_ask a = {.pid = 2, .maps = true, .identity = true, .cmdline = true};

    budget_init(&b, 1 << 20);
    int r = ask_all(&a, &b, &p, &err);
    if (r < 0 || !bytes_are(p.comm, "kthreadd"))
        TEST_SKIP(t, "kernel threads are not to be seen here");
    CHECK(t, p.is_kernel_thread);
    CHECK_INT(t, p.mappings.len + p.cmdline.len + p.exe.len, 0);
    inspect_process_done(&p);
}

static void questions_that_are_none_are_refused(struct test *t)
{
    struct error err = {{0}};

    CHECK_INT(t, worker_ask_now(inspector, BYTES("\xff\xff"), NULL, 0, NULL, NULL, &err), -EBADMSG);
    CHECK_INT(t, worker_ask_now(inspector, BYTES("\x08\x63"), NULL, 0, NULL, NULL, &err), -EINVAL);
    CHECK_STR(t, err.text, "a question of kind 99 is unknown");
}

static const struct test_case cases[] = {
    TEST(ports_of_another_network_are_not_told),
    TEST(ports_are_those_of_the_process),
    TEST(a_process_is_told_as_it_is),
    TEST(the_file_of_a_mapping_is_opened),
    TEST(deleted_and_replaced_programs_are_read_as_they_were),
    TEST(only_regular_files_of_the_right_owner_are_opened),
    TEST(mount_namespaces_and_roots_are_respected),
    TEST(inner_pids_are_told),
    TEST(another_process_of_that_number_is_not_taken_for_it),
    TEST(one_that_execs_all_the_time_is_never_seen_as_two),
    TEST(tens_of_thousands_of_mappings_are_cut),
    TEST(one_file_mapped_a_thousand_times_is_told_once),
    TEST(a_process_context_is_found),
    TEST(memory_of_a_preloaded_library_is_handed_over),
    TEST(memory_that_can_grow_is_not_handed_over),
    TEST(a_file_that_looks_like_such_memory_is_not_opened),
    TEST(words_of_memory_are_read),
    TEST(memory_that_hangs_its_reader_hangs_nobody_else),
    TEST(a_file_system_that_never_answers_is_not_asked),
    TEST(all_processes_are_listed),
    TEST(kernel_threads_are_told_apart),
    TEST(questions_that_are_none_are_refused),
};

int main(void)
{
    struct error err = {{0}};
    size_t n = sizeof(cases) / sizeof(cases[0]), failed = 0;

    if (loop_new(&loop, &err) < 0 || worker_new(loop, &inspect_worker, &inspector, &err) < 0) {
        printf("Bail out! %s\n", err.text);
        return 1;
    }
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
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
