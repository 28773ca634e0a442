#include "host/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/must.h"
#include "host/worker_internal.h"

#define MS_NS        1000000LL
#define REAP_NS      (20 * MS_NS)
#define LAST_WAIT_MS 200

/* A question that waits, or is being answered. */
struct asked {
    struct asked *next;
    struct buf data;
    int fds[WORKER_FDS_MAX];
    worker_done *done;
    void *arg;
};

struct worker_timer {
    struct loop_timer timer;
    struct worker *worker;
    void (*run)(struct worker *w);
};

struct worker {
    struct loop *loop;
    const struct worker_kind *kind;
    struct loop_io io; /* fd -1: none runs */
    int pid;
    struct loop_timers timers;
    struct worker_timer deadline, pump, reap;
    struct asked *first, **last;
    struct asked *current;
    uint64_t number; /* of the current question */
    uint8_t *room;   /* for an answer */
    int dying[WORKER_STUCK_MAX];
    unsigned reaps; /* since one was killed */
    struct worker_stats stats;
};

static void asked_free(struct asked *a)
{
    if (!a)
        return;
    for (unsigned i = 0; i < WORKER_FDS_MAX; i++)
        closep(&a->fds[i]);
    buf_done(&a->data);
    free(a);
}
DEFINE_CLEANUP(struct asked *, asked_free)

static int64_t now_ns(void)
{
    return clock_monotonic_ns(clock_real());
}

static void expired(struct loop_timer *timer)
{
    struct worker_timer *t = OWNER_OF(timer, struct worker_timer, timer);

    t->run(t->worker);
}

static void start_timer(struct worker_timer *t, int64_t due_ns)
{
    loop_timer_start(&t->worker->timers, &t->timer, due_ns);
}

/*
 * Children that were killed. They are not waited for: the kernel may hold one for as long as a file
 * system in user space likes.
 */
static void reap(struct worker *w)
{
    size_t left = 0;

    for (size_t i = 0; i < WORKER_STUCK_MAX; i++) {
        if (w->dying[i] != 0 && waitpid(w->dying[i], NULL, WNOHANG) != 0)
            w->dying[i] = 0;
        left += w->dying[i] != 0;
    }
    w->stats.stuck = left;
    /* Soon, and once a second when that was of no use. */
    if (left > 0)
        start_timer(&w->reap, now_ns() + (++w->reaps <= 5 ? 1 : 50) * REAP_NS);
}

/* The child is none of ours any more. There is room in `dying`: start_child() saw to it. */
static void abandon(struct worker *w)
{
    (void)kill(w->pid, SIGKILL);
    for (size_t i = 0; i < WORKER_STUCK_MAX; i++) {
        if (w->dying[i] == 0) {
            w->dying[i] = w->pid;
            break;
        }
    }
    w->pid = 0;
    w->reaps = 0;
    loop_forget(w->loop, &w->io);
    close(TAKE_FD(w->io.fd));
    reap(w);
}

/* The words for a child's end; true when it has ended. */
static bool how_it_ended(const struct worker *w, struct error *err)
{
    static const char *const steps[] = {"keep its socket", "set its limits", "drop its rights",
                                        "filter its system calls", "follow its parent"};
    int status, pidfd = (int)syscall(SYS_pidfd_open, w->pid, 0);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    /* Its socket is closed a moment before it can be waited for. */
    (void)poll(&p, 1, 10);
    closep(&pidfd);
    if (waitpid(w->pid, &status, WNOHANG) != w->pid) {
        (void)error_set(err, -EPIPE, "the %s closed its socket", w->kind->name);
        return false;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        (void)error_set(err, -EPIPE, "the %s made a system call that it may not make",
                        w->kind->name);
    else if (WIFSIGNALED(status))
        (void)error_set(err, -EPIPE, "the %s was ended by signal %d (%s)", w->kind->name,
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) >= WORKER_STEP_SOCKET && WEXITSTATUS(status) < WORKER_STEP_END)
        (void)error_set(err, -EPIPE, "the %s could not %s", w->kind->name,
                        steps[WEXITSTATUS(status) - WORKER_STEP_SOCKET]);
    else
        (void)error_set(err, -EPIPE, "the %s ended with status %d", w->kind->name,
                        WEXITSTATUS(status));
    return true;
}

/* The last thing that is done with a worker in a callback: `done` may free it. */
static void finish(struct worker *w, int r, struct bytes data, int fd, const char *text)
{
    CLEANUP(asked_freep) struct asked *a = TAKE_PTR(w->current);

    loop_timer_stop(&w->deadline.timer);
    if (w->first)
        start_timer(&w->pump, loop_now_ns(w->loop));
    if (!a)
        closep(&fd);
    else
        a->done(a->arg, r, data, fd, text);
}

static void lost(struct worker *w)
{
    struct error err = {{0}};

    w->stats.died++;
    if (how_it_ended(w, &err)) {
        w->pid = 0;
        loop_forget(w->loop, &w->io);
        close(TAKE_FD(w->io.fd));
    } else {
        abandon(w);
    }
    finish(w, -EPIPE, (struct bytes){0}, -1, err.text);
}

/* It said what it was not asked: whoever speaks there is not our program any more. */
static void distrust(struct worker *w, int r, const char *what)
{
    struct error err = {{0}};

    w->stats.died++;
    abandon(w);
    (void)error_set(&err, r, "the %s %s: it was killed", w->kind->name, what);
    finish(w, r, (struct bytes){0}, -1, err.text);
}

/* The first descriptor of a message; others are closed. */
static int take_fd(struct msghdr *m)
{
    int fd = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (fd < 0)
                fd = got;
            else
                close(got);
        }
    }
    return fd;
}

static void answered(struct worker *w, const struct worker_answer_head *head, size_t len, int fd)
{
    struct error err = {{0}};
    struct bytes data = {w->room + head->text_len, len - head->text_len};

    if (head->result == 0) {
        w->stats.answered++;
        finish(w, 0, data, fd, "");
        return;
    }
    w->stats.refused++;
    closep(&fd);
    size_t n = head->text_len < sizeof(err.text) ? head->text_len : sizeof(err.text) - 1;
    memcpy(err.text, w->room, n);
    finish(w, head->result, (struct bytes){0}, -1, err.text);
}

static void readable(struct loop_io *io, uint32_t events)
{
    struct worker *w = OWNER_OF(io, struct worker, io);
    struct worker_answer_head head;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov[2] = {{&head, sizeof(head)}, {w->room, WORKER_ANSWER_MAX + 512}};
    struct msghdr m = {.msg_iov = iov,
                       .msg_iovlen = 2,
                       .msg_control = &control,
                       .msg_controllen = CMSG_LEN(sizeof(int))};

    (void)events;
    ssize_t n = recvmsg(io->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        lost(w);
        return;
    }
    int fd = take_fd(&m);
    size_t len = (size_t)n - (n < (ssize_t)sizeof(head) ? (size_t)n : sizeof(head));
    if (m.msg_flags & MSG_TRUNC) {
        closep(&fd);
        distrust(w, -EMSGSIZE, "sent more than an answer may have");
    } else if (!w->current || n < (ssize_t)sizeof(head) || head.number != w->number ||
               head.result > 0 || head.text_len > len) {
        closep(&fd);
        distrust(w, -EPIPE, "sent what nobody asked for");
    } else {
        answered(w, &head, len, fd);
    }
}

static int start_child(struct worker *w, struct error *err)
{
    int pair[2];

    reap(w);
    if (w->stats.stuck == WORKER_STUCK_MAX)
        return error_set(err, -EAGAIN, "%d of %s were killed and are still there", WORKER_STUCK_MAX,
                         w->kind->name);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set(err, -errno, "could not make a socket for the %s: %m", w->kind->name);
    CLEANUP(closep) int ours = pair[0];
    CLEANUP(closep) int theirs = pair[1];
    static const int room = (int)WORKER_ANSWER_MAX + 4096;
    (void)setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    (void)setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return error_set(err, -errno, "could not start the %s: %m", w->kind->name);
    if (pid == 0)
        worker_child(w->kind, theirs, parent);
    w->pid = pid;
    w->stats.started++;
    w->io = (struct loop_io){TAKE_FD(ours), readable};
    int r = loop_watch(w->loop, &w->io, EPOLLIN, err);
    if (r < 0)
        abandon(w);
    return r;
}

static int send_current(struct worker *w)
{
    struct asked *a = w->current;
    struct worker_question_head head = {.number = ++w->number};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(WORKER_FDS_MAX * sizeof(int))];
    } control = {.space = {0}};
    struct iovec iov[2] = {{&head, sizeof(head)}, {a->data.data, a->data.len}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    int fds[WORKER_FDS_MAX];
    size_t n = 0;

    for (unsigned i = 0; i < WORKER_FDS_MAX; i++) {
        if (a->fds[i] >= 0) {
            head.fds |= 1u << i;
            fds[n++] = a->fds[i];
        }
    }
    if (n > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_LEN(n * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    if (sendmsg(w->io.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return -errno;
    return 0;
}

/* Asks the next question, if none is being answered. */
static void pump(struct worker *w)
{
    struct error err = {{0}};
    int r = 0;

    if (w->current || !w->first)
        return;
    w->current = w->first;
    w->first = w->first->next;
    if (!w->first)
        w->last = &w->first;
    w->stats.waiting--;
    /* One that ended while nobody asked is found out here, and is worth another try. */
    for (int tries = 0; tries < 2; tries++) {
        if (w->io.fd < 0)
            r = start_child(w, &err);
        if (r < 0)
            break;
        r = send_current(w);
        if (r == 0) {
            for (unsigned i = 0; i < WORKER_FDS_MAX; i++) {
                closep(&w->current->fds[i]);
                w->current->fds[i] = -1;
            }
            start_timer(&w->deadline, now_ns() + w->kind->deadline_ns);
            return;
        }
        w->stats.died++;
        (void)error_set(&err, r, "could not ask the %s: %s", w->kind->name, strerror(-r));
        abandon(w);
        r = tries == 0 ? 0 : -EPIPE;
    }
    finish(w, r, (struct bytes){0}, -1, err.text);
}

static void overdue(struct worker *w)
{
    struct error err = {{0}};

    if (!w->current)
        return;
    w->stats.killed++;
    abandon(w);
    (void)error_set(&err, -ETIMEDOUT, "the %s took longer than %lld ms: it was killed",
                    w->kind->name, (long long)(w->kind->deadline_ns / MS_NS));
    finish(w, -ETIMEDOUT, (struct bytes){0}, -1, err.text);
}

int worker_new(struct loop *loop, const struct worker_kind *kind, struct worker **ret,
               struct error *err)
{
    CLEANUP(worker_freep) struct worker *w = must_calloc(1, sizeof(*w));

    w->loop = loop;
    w->kind = kind;
    w->io.fd = -1;
    w->last = &w->first;
    w->room = must_calloc(1, WORKER_ANSWER_MAX + 512);
    w->timers.expired = expired;
    w->deadline = (struct worker_timer){.worker = w, .run = overdue};
    w->pump = (struct worker_timer){.worker = w, .run = pump};
    w->reap = (struct worker_timer){.worker = w, .run = reap};
    loop_add_timers(loop, &w->timers);
    int r = start_child(w, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(w);
    return 0;
}

/* Those that were killed are gone in no time, but for one that the kernel holds. */
static void wait_for_dying(struct worker *w)
{
    for (int i = 0; i < LAST_WAIT_MS / 5; i++) {
        reap(w);
        if (w->stats.stuck == 0)
            break;
        (void)poll(NULL, 0, i == 0 ? 1 : 5);
    }
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
    if (w->io.fd >= 0)
        abandon(w);
    wait_for_dying(w);
    loop_timer_stop(&w->deadline.timer);
    loop_timer_stop(&w->pump.timer);
    loop_timer_stop(&w->reap.timer);
    loop_remove_timers(w->loop, &w->timers);
    if (w->current) {
        w->current->next = w->first;
        w->first = w->current;
    }
    for (struct asked *a = w->first, *next; a; a = next) {
        next = a->next;
        a->done(a->arg, -ECANCELED, (struct bytes){0}, -1, "the agent is ending");
        asked_free(a);
    }
    free(w->room);
    free(w);
}

static int make_asked(struct bytes question, const int *fds, size_t n, struct asked **ret)
{
    if (question.len > WORKER_QUESTION_MAX || n > WORKER_FDS_MAX)
        return -EMSGSIZE;
    CLEANUP(asked_freep) struct asked *a = must_calloc(1, sizeof(*a));
    for (size_t i = 0; i < WORKER_FDS_MAX; i++)
        a->fds[i] = -1;
    for (size_t i = 0; i < n; i++) {
        if (fds[i] < 0)
            continue;
        a->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (a->fds[i] < 0)
            return -errno;
    }
    buf_add_bytes(&a->data, question);
    *ret = TAKE_PTR(a);
    return 0;
}

int worker_ask(struct worker *w, struct bytes question, const int *fds, size_t n, worker_done *done,
               void *arg)
{
    struct asked *a;

    if (w->stats.waiting >= WORKER_QUEUE_MAX)
        return -EAGAIN;
    int r = make_asked(question, fds, n, &a);
    if (r < 0)
        return r;
    a->done = done;
    a->arg = arg;
    *w->last = a;
    w->last = &a->next;
    w->stats.waiting++;
    w->stats.asked++;
    if (!w->current)
        start_timer(&w->pump, loop_now_ns(w->loop));
    return 0;
}

struct now {
    struct buf *ret;
    int *ret_fd;
    struct error *err;
    int r;
    bool is_there;
};

static void answered_now(void *arg, int r, struct bytes data, int fd, const char *text)
{
    struct now *now = arg;

    now->is_there = true;
    now->r = r < 0 ? error_set(now->err, r, "%s", text) : 0;
    if (r == 0 && now->ret)
        buf_add_bytes(now->ret, data);
    if (r == 0 && now->ret_fd)
        *now->ret_fd = TAKE_FD(fd);
    closep(&fd);
}

int worker_ask_now(struct worker *w, struct bytes question, const int *fds, size_t n,
                   struct buf *ret, int *ret_fd, struct error *err)
{
    struct now now = {.ret = ret, .ret_fd = ret_fd, .err = err};
    struct asked *a;
    int r = make_asked(question, fds, n, &a);

    if (r < 0)
        return error_set(err, r, "could not ask the %s: %s", w->kind->name, strerror(-r));
    a->done = answered_now;
    a->arg = &now;
    a->next = w->first;
    w->first = a;
    if (!a->next)
        w->last = &a->next;
    w->stats.waiting++;
    w->stats.asked++;
    while (!now.is_there) {
        pump(w);
        if (now.is_there)
            break;
        int64_t left = w->deadline.timer.due_ns - now_ns();
        struct pollfd p = {.fd = w->io.fd, .events = POLLIN};
        if (left <= 0)
            overdue(w);
        else if (w->io.fd >= 0 && poll(&p, 1, (int)(left / MS_NS) + 1) > 0)
            readable(&w->io, EPOLLIN);
    }
    return now.r;
}

void worker_stats(const struct worker *w, struct worker_stats *ret)
{
    *ret = w->stats;
    ret->pid = w->pid;
}
