#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/worker.h"
#include "lib/test.h"

#define MS_NS 1000000LL

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/* What the child does is the first letter of a question. */
static int *shared; /* with the parent, for writing */

static void write_raw(const void *data, size_t len)
{
    (void)!write(3, data, len);
}

static void send_fds(size_t n)
{
    char space[CMSG_SPACE(8 * sizeof(int))] = {0};
    char answer[16] = {0};
    struct iovec iov = {answer, sizeof(answer)};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space};

    m.msg_controllen = CMSG_LEN(n * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    for (size_t i = 0; i < n; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(int), (int[]){3}, sizeof(int));
    (void)!sendmsg(3, &m, 0);
}

static int misbehave(char what, struct worker_answer *a, struct error *err)
{
    static uint8_t huge[180 << 10];
    char path[] = "/etc/hostname";

    switch (what) {
    case 'h': /* hangs */
        for (volatile int i = 0;; i++)
            ;
    case 'c': /* crashes */
        raise(SIGSEGV);
        __builtin_trap();
    case 'q': /* leaves */
        _exit(7);
    case 's': /* system calls that it may not make */
        (void)!socket(AF_INET, SOCK_STREAM, 0);
        break;
    case 'e':
        (void)!execve("/bin/true", (char *[]){path, NULL}, NULL);
        break;
    case 'k':
        (void)kill(getppid(), 0);
        break;
    case 'p':
        (void)ptrace(PTRACE_ATTACH, getppid(), 0, 0);
        break;
    case 'f':
        (void)!fork();
        break;
    case 'x': /* memory that runs */
        (void)!mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        break;
    case 'F': /* floods: answers that nobody asked for, for ever */
        for (;;)
            write_raw(huge, 16);
    case 'b': /* says too much */
        write_raw(huge, sizeof(huge));
        for (;;)
            ;
    case 't': /* says too little */
        write_raw(huge, 3);
        for (;;)
            ;
    case 'D': /* sends more descriptors than one */
        send_fds(8);
        for (;;)
            ;
    case 'B': /* an answer over the limit */
        buf_add(&a->data, huge, sizeof(huge));
        return 0;
    case 'u': /* touches what the parent shares */
        *(volatile int *)shared = 666;
        break;
    default:
        return error_set(err, -EINVAL, "no such thing as '%c'", what);
    }
    buf_add_str(&a->data, "still here");
    return 0;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(uint64_t));
}

static int serve(void *state, const struct worker_question *q, struct worker_answer *a,
                 struct error *err)
{
    char text[64] = {0};
    struct stat st;
    int fd;

    (void)state;
    if (q->data.len == 0)
        return 0;
    switch (q->data.data[0]) {
    case 'E': /* echo */
        buf_add_bytes(&a->data, q->data);
        return 0;
    case 'R': /* reads what it is handed, and gives the last back */
        if (pread(q->fds[0], text, sizeof(text) - 1, 0) < 0 || fstat(q->fds[0], &st) < 0)
            return error_set(err, -errno, "could not read: %m");
        buf_addf(&a->data, "%s|%d%d%d|%lld", text, q->fds[0] >= 0, q->fds[1] >= 0, q->fds[2] >= 0,
                 (long long)st.st_size);
        if (q->fds[2] >= 0) {
            (void)!pwrite(q->fds[2], "result", 6, 0);
            a->fd = fcntl(q->fds[2], F_DUPFD_CLOEXEC, 0);
        }
        return 0;
    case 'O': /* opens */
        fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
        buf_addf(&a->data, "%d", fd < 0 ? -errno : 0);
        if (fd >= 0)
            close(fd);
        return 0;
    case 'W': /* opens to write, as root might */
        fd = open("/proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC);
        buf_addf(&a->data, "%d", fd < 0 ? -errno : 0);
        return 0;
    case 'M': { /* takes memory */
        size_t n = (size_t)256 << 20;
        uint8_t *p = malloc(n);
        buf_addf(&a->data, "%s", p ? "had it" : "refused");
        free(p);
        return 0;
    }
    case 'V': /* writes a large file */
        buf_addf(&a->data, "%d", ftruncate(q->fds[0], 256 << 20) < 0 ? errno : 0);
        return 0;
    case 'N': /* refuses */
        return error_set(err, -ENOENT, "there is no such process");
    case 'L': /* leaks */
        fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
        buf_addf(&a->data, "%d", fd);
        return 0;
    case 'T': { /* sorts enough for the C library to count memory */
        static uint64_t many[4096];
        qsort(many, 4096, sizeof(many[0]), compare);
        return 0;
    }
    default:
        return misbehave((char)q->data.data[0], a, err);
    }
}

static const struct worker_kind closed_kind = {.name = "vesta-test-one",
                                               .deadline_ns = 200 * MS_NS,
                                               .memory_max = (uint64_t)64 << 20,
                                               .serve = serve};
static const struct worker_kind open_kind = {.name = "vesta-test-two",
                                             .deadline_ns = 1000 * MS_NS,
                                             .may_open = true,
                                             .capabilities = (uint64_t)1 << CAP_SYS_PTRACE,
                                             .serve = serve};

struct world {
    struct loop *loop;
    struct worker *worker;
};

static void world_begin(struct test *t, struct world *w, const struct worker_kind *kind)
{
    struct error err = {{0}};

    CHECK_INT(t, loop_new(&w->loop, NULL), 0);
    CHECK_INT(t, worker_new(w->loop, kind, &w->worker, &err), 0);
    CHECK_STR(t, err.text, "");
}

static void world_end(struct world *w)
{
    worker_free(w->worker);
    loop_free(w->loop);
}

/* The answer as text, or "r: what was said". */
static const char *ask(struct world *w, const char *question, int fd)
{
    static char text[700];
    struct buf out = {0};
    struct error err = {{0}};
    int r = worker_ask_now(w->worker, bytes_of(question), &fd, fd >= 0, &out, NULL, &err);

    if (r < 0)
        snprintf(text, sizeof(text), "%s: %s", strerrorname_np(-r), err.text);
    else
        snprintf(text, sizeof(text), "%s", buf_cstr(&out));
    buf_done(&out);
    return text;
}

static struct worker_stats stats(const struct world *w)
{
    struct worker_stats s;

    worker_stats(w->worker, &s);
    return s;
}

static size_t count_fds(int pid)
{
    char path[64];
    size_t n = 0;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void proc_text(int pid, const char *file, char *text, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    text[n < 0 ? 0 : n] = '\0';
    if (fd >= 0)
        close(fd);
}

static void answers_come_back_with_descriptors(struct test *t)
{
    struct world w;
    int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC), got = -1;
    struct buf b = {0};
    char text[16] = {0};

    world_begin(t, &w, &closed_kind);
    CHECK_STR(t, ask(&w, "Ehello", -1), "Ehello");
    CHECK_STR(t, ask(&w, "N", -1), "ENOENT: there is no such process");
    CHECK_INT(t, write(in, "content", 7), 7);
    CHECK_INT(t, worker_ask_now(w.worker, BYTES("R"), (int[]){in, -1, out}, 3, &b, &got, NULL), 0);
    CHECK_STR(t, buf_cstr(&b), "content|101|7");
    CHECK(t, got >= 0 && got != out);
    CHECK_INT(t, pread(got, text, 10, 0), 6);
    CHECK_STR(t, text, "result");
    struct worker_stats s = stats(&w);
    CHECK_INT(t, s.asked, 3);
    CHECK_INT(t, s.answered, 2);
    CHECK_INT(t, s.refused, 1);
    CHECK_INT(t, s.started, 1);
    CHECK_INT(t, s.died + s.killed, 0);
    buf_done(&b);
    close(in);
    close(out);
    close(got);
    world_end(&w);
}

static void it_has_its_socket_and_its_name_and_no_rights(struct test *t)
{
    struct world w;
    char text[4096];

    world_begin(t, &w, &closed_kind);
    ask(&w, "E", -1);
    int pid = stats(&w).pid;
    proc_text(pid, "comm", text, sizeof(text));
    CHECK_STR(t, text, "vesta-test-one\n");
    proc_text(pid, "cmdline", text, sizeof(text));
    CHECK(t, strncmp(text, "vesta-test-one", strlen(text)) == 0); /* as much as there is room for */
    proc_text(pid, "status", text, sizeof(text));
    CHECK(t, strstr(text, "CapPrm:\t0000000000000000\n"));
    CHECK(t, strstr(text, "CapEff:\t0000000000000000\n"));
    CHECK(t, strstr(text, "NoNewPrivs:\t1\n"));
    CHECK(t, strstr(text, "Seccomp:\t2\n"));
    if (getuid() == 0) {
        CHECK(t, strstr(text, "CapBnd:\t0000000000000000\n"));
        CHECK(t, strstr(text, "Uid:\t65534\t65534\t65534\t65534\n"));
        CHECK_INT(t, count_fds(pid), 2 + 4);
    }
    world_end(&w);
}

static void a_kind_that_may_open_keeps_its_capabilities(struct test *t)
{
    struct world w;
    char text[4096];

    world_begin(t, &w, &open_kind);
    CHECK_STR(t, ask(&w, "O", -1), "0");
    if (getuid() == 0) {
        CHECK_STR(t, ask(&w, "W", -1), "-13");
        proc_text(stats(&w).pid, "status", text, sizeof(text));
        CHECK(t, strstr(text, "CapEff:\t0000000000080000\n"));
        CHECK(t, strstr(text, "CapBnd:\t0000000000080000\n"));
    }
    world_end(&w);
}

static void what_may_not_open_is_told_so(struct test *t)
{
    struct world w;

    world_begin(t, &w, &closed_kind);
    CHECK_STR(t, ask(&w, "O", -1), "-13");
    CHECK_STR(t, ask(&w, "T", -1), "");
    CHECK_INT(t, stats(&w).died, 0);
    world_end(&w);
}

static void a_hang_is_killed_at_its_deadline_and_the_next_is_answered(struct test *t)
{
    struct world w;

    world_begin(t, &w, &closed_kind);
    int64_t began = clock_monotonic_ns(clock_real());
    CHECK_STR(t, ask(&w, "h", -1),
              "ETIMEDOUT: the vesta-test-one took longer than 200 ms: it was killed");
    int64_t took = clock_monotonic_ns(clock_real()) - began;
    CHECK(t, took >= 200 * MS_NS && took < 2000 * MS_NS);
    CHECK_STR(t, ask(&w, "Eagain", -1), "Eagain");
    struct worker_stats s = stats(&w);
    CHECK_INT(t, s.killed, 1);
    CHECK_INT(t, s.started, 2);
    world_end(&w);
}

static void crashes_and_forbidden_calls_end_only_the_child(struct test *t)
{
    static const struct {
        const char *question, *answer;
    } all[] = {
        {"q", "EPIPE: the vesta-test-one ended with status 7"},
        {"s", "EPIPE: the vesta-test-one made a system call that it may not make"},
        {"e", "EPIPE: the vesta-test-one made a system call that it may not make"},
        {"k", "EPIPE: the vesta-test-one made a system call that it may not make"},
        {"p", "EPIPE: the vesta-test-one made a system call that it may not make"},
        {"f", "EPIPE: the vesta-test-one made a system call that it may not make"},
        {"x", "EPIPE: the vesta-test-one made a system call that it may not make"},
        {"F", "EPIPE: the vesta-test-one sent what nobody asked for: it was killed"},
        {"t", "EPIPE: the vesta-test-one sent what nobody asked for: it was killed"},
        {"D", "EPIPE: the vesta-test-one sent what nobody asked for: it was killed"},
        {"b", "EMSGSIZE: the vesta-test-one sent more than an answer may have: it was killed"},
    };
    struct world w;

    world_begin(t, &w, &closed_kind);
    size_t before = count_fds(getpid());
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        CHECK_STR(t, ask(&w, all[i].question, -1), all[i].answer);
        CHECK_STR(t, ask(&w, "E", -1), "E");
        CHECK_INT(t, stats(&w).died, i + 1);
    }
    CHECK_INT(t, count_fds(getpid()), before);
    world_end(&w);
}

static void the_open_kind_may_not_reach_out_either(struct test *t)
{
    static const char *const all[] = {"s", "e", "k", "p", "f", "x"};
    struct world w;

    world_begin(t, &w, &open_kind);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        CHECK_STR(t, ask(&w, all[i], -1),
                  "EPIPE: the vesta-test-two made a system call that it may not make");
    world_end(&w);
}

static void a_crash_is_told_by_its_signal(struct test *t)
{
    struct world w;

    if (IS_SANITIZED)
        TEST_SKIP(t, "a sanitizer takes the signal");
    world_begin(t, &w, &open_kind);
    const char *answer = ask(&w, "c", -1);
    CHECK(t, strncmp(answer, "EPIPE: the vesta-test-two ", 26) == 0);
    CHECK_STR(t, ask(&w, "E", -1), "E");
    world_end(&w);
}

static void an_answer_over_the_limit_is_refused(struct test *t)
{
    struct world w;

    world_begin(t, &w, &closed_kind);
    CHECK_STR(t, ask(&w, "B", -1),
              "EMSGSIZE: an answer of 184320 bytes is over the limit of 163840");
    CHECK_STR(t, ask(&w, "E", -1), "E");
    CHECK_INT(t, stats(&w).died, 0);
    world_end(&w);
}

static void the_largest_question_and_answer_pass(struct test *t)
{
    struct world w;
    struct buf q = {0}, a = {0};
    struct error err = {{0}};

    for (size_t i = 0; i < WORKER_QUESTION_MAX; i++)
        buf_add_byte(&q, 'E');
    world_begin(t, &w, &closed_kind);
    CHECK_INT(t, worker_ask_now(w.worker, buf_bytes(&q), NULL, 0, &a, NULL, &err), 0);
    CHECK(t, bytes_equal(buf_bytes(&a), buf_bytes(&q)));
    buf_add_byte(&q, 'E');
    CHECK_INT(t, worker_ask_now(w.worker, buf_bytes(&q), NULL, 0, &a, NULL, &err), -EMSGSIZE);
    CHECK_STR(t, err.text, "could not ask the vesta-test-one: Message too long");
    buf_done(&q);
    buf_done(&a);
    world_end(&w);
}

static void memory_and_files_have_a_limit(struct test *t)
{
    struct world w;
    int fd = memfd_create("big", MFD_CLOEXEC);

    world_begin(t, &w, &closed_kind);
    if (!IS_SANITIZED)
        CHECK_STR(t, ask(&w, "M", -1), "refused");
    char want[16];
    snprintf(want, sizeof(want), "%d", EFBIG);
    CHECK_STR(t, ask(&w, "V", fd), want);
    close(fd);
    world_end(&w);
}

static void descriptors_do_not_leak_into_it_nor_out_of_it(struct test *t)
{
    struct world w;
    int fd = memfd_create("x", MFD_CLOEXEC);

    world_begin(t, &w, &closed_kind);
    ask(&w, "E", -1);
    size_t ours = count_fds(getpid()), theirs = count_fds(stats(&w).pid);
    for (int i = 0; i < 300; i++) {
        int got = -1;
        CHECK_INT(t, worker_ask_now(w.worker, BYTES("R"), (int[]){fd, fd, fd}, 3, NULL, &got, NULL),
                  0);
        close(got);
    }
    ask(&w, "E", -1);
    CHECK_INT(t, count_fds(getpid()), ours);
    CHECK_INT(t, count_fds(stats(&w).pid), theirs);
    /* One that keeps what it opens runs into its own limit. */
    const char *last = "";
    for (int i = 0; i < 70; i++)
        last = ask(&w, "L", -1);
    CHECK_STR(t, last, "-1");
    close(fd);
    world_end(&w);
    CHECK_INT(t, count_fds(getpid()), ours - 2 - 2);
}

static void what_the_parent_shares_is_not_there(struct test *t)
{
    struct world w;

    if (IS_SANITIZED)
        TEST_SKIP(t, "a sanitizer takes the signal");
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *shared = 1;
    world_begin(t, &w, &closed_kind);
    const char *answer = ask(&w, "u", -1);
    CHECK_STR(t, answer, "EPIPE: the vesta-test-one was ended by signal 11 (Segmentation fault)");
    CHECK_INT(t, *shared, 1);
    world_end(&w);
    munmap(shared, 4096);
}

struct collect {
    struct world *w;
    int n, stop_at, results[2000];
    bool frees;
};

static void collected(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct collect *c = arg;

    (void)data;
    (void)text;
    if (fd >= 0)
        close(fd);
    c->results[c->n++] = r;
    if (c->frees) {
        c->frees = false;
        worker_free(c->w->worker);
        c->w->worker = NULL;
    }
    if (c->n == c->stop_at)
        loop_stop(c->w->loop);
}

static void many_questions_are_answered_in_their_order(struct test *t)
{
    static struct collect c;
    struct world w;

    world_begin(t, &w, &closed_kind);
    c = (struct collect){.w = &w, .stop_at = WORKER_QUEUE_MAX};
    for (int i = 0; i < WORKER_QUEUE_MAX; i++)
        CHECK_INT(t,
                  worker_ask(w.worker,
                             i == 5    ? BYTES("h")
                             : i == 10 ? BYTES("q")
                             : i == 15 ? BYTES("N")
                                       : BYTES("E"),
                             NULL, 0, collected, &c),
                  0);
    CHECK_INT(t, worker_ask(w.worker, BYTES("E"), NULL, 0, collected, &c), -EAGAIN);
    CHECK_INT(t, c.n, 0);
    loop_run(w.loop);
    CHECK_INT(t, c.n, WORKER_QUEUE_MAX);
    for (int i = 0; i < c.n; i++)
        CHECK_INT(t, c.results[i], i == 5 ? -ETIMEDOUT : i == 10 ? -EPIPE : i == 15 ? -ENOENT : 0);
    struct worker_stats s = stats(&w);
    CHECK_INT(t, s.answered, WORKER_QUEUE_MAX - 3);
    CHECK_INT(t, s.killed, 1);
    CHECK_INT(t, s.died, 1);
    CHECK_INT(t, s.waiting, 0);
    world_end(&w);
}

static void ending_it_answers_what_is_still_due(struct test *t)
{
    static struct collect c;
    struct world w;

    world_begin(t, &w, &closed_kind);
    c = (struct collect){.w = &w, .stop_at = 3};
    for (int i = 0; i < 3; i++)
        CHECK_INT(t, worker_ask(w.worker, BYTES("h"), NULL, 0, collected, &c), 0);
    int pid = stats(&w).pid;
    worker_free(w.worker);
    CHECK_INT(t, c.n, 3);
    for (int i = 0; i < 3; i++)
        CHECK_INT(t, c.results[i], -ECANCELED);
    CHECK_INT(t, kill(pid, 0), -1);
    loop_free(w.loop);
}

static void an_answer_may_end_the_worker(struct test *t)
{
    static struct collect c;
    struct world w;

    world_begin(t, &w, &closed_kind);
    c = (struct collect){.w = &w, .stop_at = 3, .frees = true};
    for (int i = 0; i < 3; i++)
        CHECK_INT(t, worker_ask(w.worker, BYTES("E"), NULL, 0, collected, &c), 0);
    loop_run(w.loop);
    CHECK_INT(t, c.n, 3);
    CHECK_INT(t, c.results[0], 0);
    CHECK_INT(t, c.results[1], -ECANCELED);
    loop_free(w.loop);
}

static void one_that_was_killed_from_outside_is_replaced(struct test *t)
{
    struct world w;

    world_begin(t, &w, &closed_kind);
    ask(&w, "E", -1);
    int pid = stats(&w).pid;
    CHECK_INT(t, kill(pid, SIGTERM), 0); /* a service manager's, to all: not heard */
    CHECK_STR(t, ask(&w, "E", -1), "E");
    CHECK_INT(t, stats(&w).pid, pid);
    CHECK_INT(t, kill(pid, SIGKILL), 0);
    usleep(20000);
    const char *answer = ask(&w, "Eback", -1);
    CHECK_STR(t, answer, "Eback");
    CHECK(t, stats(&w).pid != pid);
    world_end(&w);
}

static void it_dies_with_its_parent(struct test *t)
{
    int pipes[2], child = 0;
    CHECK_INT(t, pipe(pipes), 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    pid_t parent = fork();

    if (parent == 0) {
        struct world w;
        struct test inner = {0};
        world_begin(&inner, &w, &open_kind);
        ask(&w, "E", -1);
        int pid = stats(&w).pid;
        (void)!write(pipes[1], &pid, sizeof(pid));
        for (;;)
            pause();
    }
    CHECK_INT(t, read(pipes[0], &child, sizeof(child)), sizeof(child));
    CHECK_INT(t, kill(child, 0), 0);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    bool is_gone = false;
    for (int i = 0; i < 200 && !is_gone; i++) {
        is_gone = waitpid(child, NULL, WNOHANG) == child;
        usleep(5000);
    }
    CHECK(t, is_gone);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    close(pipes[0]);
    close(pipes[1]);
}

static const struct test_case cases[] = {
    TEST(answers_come_back_with_descriptors),
    TEST(it_has_its_socket_and_its_name_and_no_rights),
    TEST(a_kind_that_may_open_keeps_its_capabilities),
    TEST(what_may_not_open_is_told_so),
    TEST(a_hang_is_killed_at_its_deadline_and_the_next_is_answered),
    TEST(crashes_and_forbidden_calls_end_only_the_child),
    TEST(the_open_kind_may_not_reach_out_either),
    TEST(a_crash_is_told_by_its_signal),
    TEST(an_answer_over_the_limit_is_refused),
    TEST(the_largest_question_and_answer_pass),
    TEST(memory_and_files_have_a_limit),
    TEST(descriptors_do_not_leak_into_it_nor_out_of_it),
    TEST(what_the_parent_shares_is_not_there),
    TEST(many_questions_are_answered_in_their_order),
    TEST(ending_it_answers_what_is_still_due),
    TEST(an_answer_may_end_the_worker),
    TEST(one_that_was_killed_from_outside_is_replaced),
    TEST(it_dies_with_its_parent),
};
TEST_MAIN(cases)
