#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "host/worker_internal.h"

#define NOBODY    65534
#define FDS_LIMIT 64

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/* What a terminal or a service manager sends to all: the parent decides when a child ends. */
static void set_signals(void)
{
    static const int ignored[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGPIPE, SIGXFSZ, SIGTSTP};
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL);
    for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
        (void)signal(ignored[i], SIG_IGN);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The socket at WORKER_SOCKET, nothing below it, and no others. */
static int keep_socket(int socket)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    /* Out of the way of where it goes, should one of them lie there. */
    int from = fcntl(socket, F_DUPFD_CLOEXEC, WORKER_SOCKET + 1);
    int to_null = null < 0 ? -1 : fcntl(null, F_DUPFD_CLOEXEC, WORKER_SOCKET + 1);
    if (from < 0 || dup3(from, WORKER_SOCKET, O_CLOEXEC) < 0)
        return -errno;
    for (int fd = 0; fd < WORKER_SOCKET; fd++) {
        if (fd == STDERR_FILENO && IS_SANITIZED)
            continue; /* for reports */
        if (to_null < 0)
            close(fd);
        else if (dup2(to_null, fd) < 0)
            return -errno;
    }
    if (close_range(WORKER_SOCKET + 1, ~0U, 0) < 0)
        return -errno;
    return 0;
}

/* What is shown for it: the kernel's name, and the words of its command line. */
static void set_title(const char *name)
{
    char text[2048];
    unsigned long begin = 0, end = 0;

    (void)prctl(PR_SET_NAME, name, 0, 0, 0);
    CLEANUP(fclosep) FILE *f = fopen("/proc/self/stat", "re");
    if (!f || !fgets(text, sizeof(text), f))
        return;
    const char *p = strrchr(text, ')');
    /* Fields 48 and 49; a space is in front of the third. */
    for (int field = 3; p && field <= 48; field++)
        p = strchr(p + 1, ' ');
    if (!p || sscanf(p, " %lu %lu", &begin, &end) != 2 || begin == 0 || end <= begin)
        return;
    char *to = (char *)begin; /* our own, private and writable since we began */
    size_t room = end - begin, len = strlen(name);
    memset(to, 0, room);
    memcpy(to, name, len < room ? len : room - 1);
}

/* Tables and rings that the parent shares with its programs in the kernel are no business of ours.
 */
static void unmap_shared(void)
{
    struct {
        unsigned long begin, end;
    } found[64];
    size_t n = 0;
    char line[8192], how[8];
    unsigned long begin, end;

    FILE *f = fopen("/proc/self/maps", "re");
    while (f && n < ARRAY_SIZE(found) && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, how) == 3 && how[1] == 'w' && how[3] == 's') {
            found[n].begin = begin;
            found[n++].end = end;
        }
    }
    fclosep(&f);
    for (size_t i = 0; i < n; i++)
        (void)munmap((void *)found[i].begin, found[i].end - found[i].begin);
}

static int limit(int what, uint64_t value)
{
    struct rlimit now, l = {value, value};

    if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < value)
        l.rlim_cur = l.rlim_max = now.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &l) < 0 ? -errno : 0;
}

static uint64_t address_space(void)
{
    unsigned long pages = 0;
    CLEANUP(fclosep) FILE *f = fopen("/proc/self/statm", "re");

    if (!f || fscanf(f, "%lu", &pages) != 1)
        return 0;
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int set_limits(const struct worker_kind *kind)
{
    int r = limit(RLIMIT_CORE, 0);

    if (r == 0)
        r = limit(RLIMIT_NOFILE, FDS_LIMIT);
    if (r == 0 && kind->memory_max > 0)
        r = limit(RLIMIT_FSIZE, kind->memory_max);
    /* Sanitizers live in terabytes of address space. */
    if (r == 0 && kind->memory_max > 0 && !IS_SANITIZED)
        r = limit(RLIMIT_AS, address_space() + kind->memory_max);
    return r;
}

/* Root's files are root's to write, capabilities or not: so be nobody, where that can be had. */
static void become_nobody(void)
{
    if (geteuid() != 0)
        return;
    (void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    (void)setgroups(0, NULL);
    (void)!setresgid(NOBODY, NOBODY, NOBODY);
    (void)!setresuid(NOBODY, NOBODY, NOBODY);
    (void)prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
}

static int drop_rights(uint64_t kept)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];

    /* Without CAP_SETPCAP the bounding set stays: nothing is gained by it any more, see below. */
    for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
        if (cap < 64 && !(kept & (uint64_t)1 << cap))
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    }
    (void)prctl(PR_SET_SECUREBITS,
                SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                    SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
                0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    become_nobody();
    if (syscall(SYS_capget, &head, data) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= (uint32_t)(kept >> (32 * i));
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    return 0;
}

/* Takes the descriptors of a message: as many as `mask` has bits, or none. */
static bool take_fds(struct msghdr *m, uint32_t mask, int fds[WORKER_FDS_MAX])
{
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    int got[WORKER_FDS_MAX];
    size_t n = 0, at = 0;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        if (n > WORKER_FDS_MAX)
            n = WORKER_FDS_MAX;
        memcpy(got, CMSG_DATA(c), n * sizeof(int));
    }
    for (unsigned i = 0; i < WORKER_FDS_MAX; i++)
        fds[i] = mask & 1u << i && at < n ? got[at++] : -1;
    return at == n && (unsigned)__builtin_popcount(mask) == n;
}

/* False when there are no more questions. */
static bool next_question(uint8_t *room, struct worker_question_head *head,
                          struct worker_question *ret)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(WORKER_FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov[2] = {{head, sizeof(*head)}, {room, WORKER_QUESTION_MAX}};
    struct msghdr m = {.msg_iov = iov,
                       .msg_iovlen = 2,
                       .msg_control = &control,
                       .msg_controllen = sizeof(control)};
    ssize_t n;

    do {
        n = recvmsg(WORKER_SOCKET, &m, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < (ssize_t)sizeof(*head) || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return false;
    ret->data = (struct bytes){room, (size_t)n - sizeof(*head)};
    return take_fds(&m, head->fds, ret->fds);
}

static bool send_answer(uint64_t number, int r, const struct worker_answer *a,
                        const struct error *err)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.space = {0}};
    struct worker_answer_head head = {number, r, r < 0 ? (uint32_t)strlen(err->text) : 0};
    struct iovec iov[3] = {{&head, sizeof(head)},
                           {(void *)(uintptr_t)err->text, head.text_len},
                           {a->data.data, r < 0 ? 0 : a->data.len}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 3};
    ssize_t n;

    if (r >= 0 && a->fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_LEN(sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &a->fd, sizeof(int));
    }
    do {
        n = sendmsg(WORKER_SOCKET, &m, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n >= 0;
}

noreturn static void serve_all(const struct worker_kind *kind, void *state)
{
    uint8_t *room = must_calloc(1, WORKER_QUESTION_MAX);
    struct worker_answer a = {.fd = -1};
    struct worker_question q;
    struct worker_question_head head;

    while (next_question(room, &head, &q)) {
        struct error err = {{0}};
        buf_clear(&a.data);
        a.fd = -1;
        int r = kind->serve(state, &q, &a, &err);
        if (r >= 0 && a.data.len > WORKER_ANSWER_MAX)
            r = error_set(&err, -EMSGSIZE, "an answer of %zu bytes is over the limit of %zu",
                          a.data.len, WORKER_ANSWER_MAX);
        for (unsigned i = 0; i < WORKER_FDS_MAX; i++)
            closep(&q.fds[i]);
        bool was_sent = send_answer(head.number, r < 0 ? r : 0, &a, &err);
        closep(&a.fd);
        if (!was_sent)
            break;
        if (a.data.cap > (64 << 10)) /* what was large once is not kept */
            buf_done(&a.data);
    }
    _exit(0);
}

noreturn void worker_child(const struct worker_kind *kind, int socket, pid_t parent)
{
    set_signals();
    if (keep_socket(socket) < 0)
        _exit(WORKER_STEP_SOCKET);
    set_title(kind->name);
    unmap_shared();
    if (set_limits(kind) < 0)
        _exit(WORKER_STEP_LIMITS);
    void *state = kind->start ? kind->start(kind->start_arg) : NULL;
    if (drop_rights(kind->capabilities) < 0)
        _exit(WORKER_STEP_RIGHTS);
    /* Behind the change of rights, which would undo it; the parent may be gone by now. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(WORKER_STEP_PARENT);
    if (worker_filter(kind) < 0)
        _exit(WORKER_STEP_FILTER);
    serve_all(kind, state);
}
