#include "relay/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"
#include "relay/otlp_env.h"
#include "relay/relay_child.h"
#include "relay/relay_link.h"

#define QUEUE_MAX_BYTES  ((uint64_t)32 << 20)
#define QUEUE_MAX        4096
#define RESTART_NS       ((int64_t)1000 * 1000 * 1000)
#define RESTART_MAX_NS   (30 * RESTART_NS)
#define LIVED_WELL_NS    (60 * RESTART_NS)
#define END_WAIT_MS      7000
#define MESSAGES_AT_ONCE 16

/* What did not fit the socket. */
struct queued {
    struct queued *next;
    enum relay_kind kind;
    int fd;
    size_t len;
    uint8_t data[];
};

struct relay {
    struct loop *loop;
    const struct agent_config *config;
    relay_message *message;
    void *arg;

    struct loop_io io; /* fd -1: no child */
    int pid;           /* 0: none, or reaped */
    bool waits_for_room;
    struct loop_timers timers;
    struct loop_timer restart;
    int64_t started_ns, restart_ns; /* when it began; how long to wait should it die */

    struct queued *first, *last;
    size_t n_queued;
    struct relay_stats stats;
    struct link_message incoming;
};

/* ---- The queue ---- */

static void free_queued(struct relay *r, struct queued *q)
{
    r->stats.queued_bytes -= q->len;
    r->n_queued--;
    if (q->fd >= 0)
        close(q->fd);
    free(q);
}

/* Takes out the first of this kind; false when there is none. */
static bool remove_kind(struct relay *r, enum relay_kind kind)
{
    struct queued *before = NULL;

    for (struct queued *q = r->first; q; before = q, q = q->next) {
        if (q->kind != kind)
            continue;
        if (before)
            before->next = q->next;
        else
            r->first = q->next;
        if (r->last == q)
            r->last = before;
        free_queued(r, q);
        return true;
    }
    return false;
}

static bool replaces_last(enum relay_kind kind)
{
    return kind == RELAY_STATUS || kind == RELAY_METRICS || kind == RELAY_TARGETS;
}

static bool has_room(const struct relay *r, size_t len)
{
    return r->stats.queued_bytes + len <= QUEUE_MAX_BYTES && r->n_queued < QUEUE_MAX;
}

static void enqueue(struct relay *r, enum relay_kind kind, struct bytes data, int fd)
{
    if (replaces_last(kind))
        (void)remove_kind(r, kind);
    while (!has_room(r, data.len) &&
           (remove_kind(r, RELAY_PROFILES) || remove_kind(r, RELAY_DEBUG_FILE)))
        r->stats.dropped++;
    int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (!has_room(r, data.len) || (fd >= 0 && copy < 0)) {
        r->stats.dropped++;
        if (copy >= 0)
            close(copy);
        return;
    }
    struct queued *q = must_realloc(NULL, sizeof(*q) + data.len);
    *q = (struct queued){.kind = kind, .fd = copy, .len = data.len};
    if (data.len > 0)
        memcpy(q->data, data.data, data.len);
    if (r->last)
        r->last->next = q;
    else
        r->first = q;
    r->last = q;
    r->n_queued++;
    r->stats.queued_bytes += data.len;
}

static void wait_for_room(struct relay *r, bool waits)
{
    if (r->io.fd < 0 || waits == r->waits_for_room)
        return;
    r->waits_for_room = waits;
    loop_change(r->loop, &r->io, EPOLLIN | (waits ? EPOLLOUT : 0u));
}

static void send_queued(struct relay *r)
{
    while (r->first && r->io.fd >= 0) {
        struct queued *q = r->first;
        int sent = link_send(r->io.fd, q->kind, (struct bytes){q->data, q->len}, q->fd);
        if (sent == -EAGAIN || sent == -EPIPE)
            break; /* the end of the child is seen by reading */
        if (sent < 0)
            r->stats.dropped++;
        r->first = q->next;
        if (!r->first)
            r->last = NULL;
        free_queued(r, q);
    }
    wait_for_room(r, r->first != NULL);
}

void relay_send(struct relay *r, enum relay_kind kind, struct bytes data, int fd)
{
    if (!r->first && r->io.fd >= 0) {
        int sent = link_send(r->io.fd, kind, data, fd);
        if (sent == 0)
            return;
        if (sent != -EAGAIN && sent != -EPIPE) {
            r->stats.dropped++;
            return;
        }
    }
    enqueue(r, kind, data, fd);
    wait_for_room(r, r->first != NULL);
}

/* ---- The child ---- */

static void reap(struct relay *r)
{
    if (r->pid <= 0)
        return;
    kill(r->pid, SIGKILL);
    pid_t done = waitpid(r->pid, NULL, WNOHANG);
    if (done == r->pid || (done < 0 && errno == ECHILD))
        r->pid = 0;
}

static void child_is_gone(struct relay *r)
{
    loop_forget(r->loop, &r->io);
    close(TAKE_FD(r->io.fd));
    r->waits_for_room = false;
    r->stats.restarts++;
    reap(r);
    /* One that dies young again and again is given more time. */
    int64_t now = loop_now_ns(r->loop), twice = 2 * r->restart_ns;
    r->restart_ns = now - r->started_ns > LIVED_WELL_NS || r->restart_ns == 0 ? RESTART_NS
                    : twice < RESTART_MAX_NS                                  ? twice
                                                                              : RESTART_MAX_NS;
    loop_timer_start(&r->timers, &r->restart, now + r->restart_ns);
}

static void ready(struct loop_io *io, uint32_t events)
{
    struct relay *r = OWNER_OF(io, struct relay, io);

    if (events & EPOLLOUT)
        send_queued(r);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
        int got = link_receive(io->fd, false, &r->incoming);
        if (got == 0)
            return;
        if (got < 0) {
            child_is_gone(r);
            return;
        }
        r->message(r->arg, r->incoming.kind, buf_bytes(&r->incoming.data));
    }
}

static int start_child(struct relay *r, struct error *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return error_set(err, -errno, "could not make a socket for the relay: %m");
    int us = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        relay_child_run(r->config, pair[1], us);
        _exit(1);
    }
    close(pair[1]);
    if (pid < 0) {
        int failure = errno;
        close(pair[0]);
        errno = failure;
        return error_set(err, -failure, "could not start the relay: %m");
    }
    r->io = (struct loop_io){.fd = pair[0], .ready = ready};
    int watched = loop_watch(r->loop, &r->io, EPOLLIN, err);
    if (watched < 0) {
        close(TAKE_FD(r->io.fd));
        kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        return watched;
    }
    r->pid = pid;
    r->started_ns = loop_now_ns(r->loop);
    send_queued(r);
    return 0;
}

static void start_again(struct loop_timer *timer)
{
    struct relay *r = OWNER_OF(timer, struct relay, restart);

    reap(r); /* two are never there: they would share a spool */
    if (r->pid != 0 || start_child(r, NULL) < 0)
        loop_timer_start(&r->timers, &r->restart, loop_now_ns(r->loop) + RESTART_NS);
}

int relay_start(struct loop *loop, const struct agent_config *config, relay_message *message,
                void *arg, struct relay **ret, struct error *err)
{
    struct export_settings settings;

    /* The child would end again and again for what is wrong with the configuration. */
    int sound = export_settings_make(config, (const char *const *)environ, &settings, err);
    if (sound < 0)
        return sound;
    export_settings_done(&settings);
    struct relay *r = must_calloc(1, sizeof(*r));
    *r = (struct relay){
        .loop = loop, .config = config, .message = message, .arg = arg, .io = {.fd = -1}};
    r->timers.expired = start_again;
    loop_add_timers(loop, &r->timers);
    int started = start_child(r, err);
    if (started < 0) {
        relay_free(r);
        return started;
    }
    *ret = r;
    return 0;
}

static void sleep_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* The end of the socket tells it to end; what it has goes to the spool. */
static void end_child(struct relay *r)
{
    if (r->io.fd >= 0) {
        loop_forget(r->loop, &r->io);
        close(TAKE_FD(r->io.fd));
    }
    for (int waited = 0; r->pid > 0 && waited < END_WAIT_MS; waited += 10) {
        pid_t done = waitpid(r->pid, NULL, WNOHANG);
        if (done != 0)
            r->pid = 0;
        else
            sleep_ms(10);
    }
    if (r->pid > 0) {
        kill(r->pid, SIGKILL);
        (void)waitpid(r->pid, NULL, 0);
    }
}

void relay_free(struct relay *r)
{
    if (!r)
        return;
    end_child(r);
    loop_timer_stop(&r->restart);
    loop_remove_timers(r->loop, &r->timers);
    while (r->first) {
        struct queued *q = r->first;
        r->first = q->next;
        free_queued(r, q);
    }
    buf_done(&r->incoming.data);
    free(r);
}

void relay_stats(const struct relay *r, struct relay_stats *ret)
{
    *ret = r->stats;
    ret->pid = r->pid;
}
