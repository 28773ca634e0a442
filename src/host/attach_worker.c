#include "host/attach_worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/le.h"
#include "host/inspect_internal.h"
#include "host/inspect_text.h"

#define DEADLINE_NS  5000000000LL
#define MEMORY_MAX   ((uint64_t)64 << 20)
#define LOOK_MS      10
#define OPEN_S       3 /* until an inspector should be there */
#define STATUS_MAX   8192
#define CMDLINE_MAX  ((size_t)64 << 10)
#define ENVIRON_MAX  ((size_t)1 << 20)
#define QUESTION_LEN 14
#define ANSWER_LEN   19 /* port, 4 or 6, address */
#define SETTLE_LOOKS 10 /* until a listener is believed that is not at the usual port */

/* ---- Questions: pid, start, port (0: open it first) */

static void put_question(uint32_t pid, uint64_t start_ns, uint16_t port, struct buf *out)
{
    uint8_t data[QUESTION_LEN];

    le32_put(data, pid);
    le64_put(data + 4, start_ns);
    le16_put(data + 12, port);
    buf_add(out, data, sizeof(data));
}

void attach_question_open(uint32_t pid, uint64_t start_ns, struct buf *out)
{
    put_question(pid, start_ns, 0, out);
}

void attach_question_again(uint32_t pid, uint64_t start_ns, uint16_t port, struct buf *out)
{
    put_question(pid, start_ns, port, out);
}

static void put_answer(const struct listener *l, struct buf *out)
{
    uint8_t data[ANSWER_LEN] = {[2] = l->is_v6 ? 6 : 4};

    le16_put(data, l->port);
    memcpy(data + 3, l->address, sizeof(l->address));
    buf_add(out, data, sizeof(data));
}

int attach_read(struct bytes answer, struct attach_place *ret, struct error *err)
{
    char address[INET6_ADDRSTRLEN] = "";

    if (answer.len != ANSWER_LEN || le16_get(answer.data) == 0 ||
        (answer.data[2] != 4 && answer.data[2] != 6))
        return error_set(err, -EBADMSG, "an answer about an inspector is damaged");
    bool is_v6 = answer.data[2] == 6;
    struct attach_place p = {.port = le16_get(answer.data)};
    (void)inet_ntop(is_v6 ? AF_INET6 : AF_INET, answer.data + 3, address, sizeof(address));
    p.is_loopback = is_v6 ? strcmp(address, "::1") == 0 || strncmp(address, "::ffff:127.", 11) == 0
                          : answer.data[3] == 127;
    snprintf(p.text, sizeof(p.text), is_v6 ? "[%s]:%u" : "%s:%u", address, p.port);
    *ret = p;
    return 0;
}

/* ---- Whether it may be signalled */

/* What its owner has said about inspectors; what cannot be read may say anything. */
static int check_owner(const struct target *t, const struct stat_text *s, struct error *err)
{
    static const struct bytes name = BYTES("NODE_OPTIONS");
    CLEANUP(buf_done) struct buf cmdline = {0}, text = {0}, picked = {0};
    uint64_t argc = 0; /* the kernel has left it there */

    if (target_read(t, "cmdline", CMDLINE_MAX, &cmdline) < 0 ||
        target_read(t, "environ", ENVIRON_MAX, &text) < 0)
        return error_set(err, -ENOTSUP, "its command line and environment cannot be read");
    environ_pick(buf_bytes(&text), &name, 1, INSPECT_ENVIRON_MAX, &picked);
    if (node_speaks_of_inspector(buf_bytes(&cmdline)) ||
        node_speaks_of_inspector(buf_bytes(&picked)))
        return error_set(err, -ENOTSUP, "its owner has said something about its inspector");
    if (target_memory(t, s->stack_start, &argc, sizeof(argc)) != sizeof(argc) ||
        !cmdline_is_kept(buf_bytes(&cmdline), argc))
        return error_set(err, -ENOTSUP,
                         "its command line is not the one that it was started with any more, which "
                         "may have said something about its inspector");
    return 0;
}

static int check_signal(const struct target *t, struct error *err)
{
    CLEANUP(buf_done) struct buf status = {0};

    if (target_read(t, "status", STATUS_MAX, &status) < 0 ||
        !status_catches(buf_bytes(&status), SIGUSR1))
        return error_set(err, -ENOTSUP, "it has no handler for SIGUSR1, which would end it");
    return 0;
}

/* ---- Listeners */

static const char *why_not(int r)
{
    return r == -E2BIG ? "there are too many sockets or descriptors" : strerror(-r);
}

static bool has_listener(const struct buf *all, uint64_t inode)
{
    const struct listener *l = (const struct listener *)(const void *)all->data;

    for (size_t i = 0; i < all->len / sizeof(*l); i++)
        if (l[i].inode == inode)
            return true;
    return false;
}

/* Of those that listen now: at this port (0: any), and not there before. */
static int list_candidates(const struct target *t, const struct buf *before, uint16_t port,
                           struct buf *ret)
{
    CLEANUP(buf_done) struct buf all = {0};

    int r = inspect_listeners(t, &all);
    const struct listener *l = (const struct listener *)(const void *)all.data;
    for (size_t i = 0; r == 0 && i < all.len / sizeof(*l); i++)
        if ((port == 0 || l[i].port == port) && (!before || !has_listener(before, l[i].inode)))
            buf_add(ret, &l[i], sizeof(l[i]));
    return r;
}

/* The usual port is the best guess, should the program begin to listen elsewhere just now; then the
 * one that is open to most. */
static bool take_listener(void *arg, const struct listener *l)
{
    struct listener *best = arg;
    int better = (l->port == ATTACH_PORT) - (best->port == ATTACH_PORT);

    if (best->port == 0 || better > 0 || (better == 0 && best->is_loopback))
        *best = *l;
    return best->port != ATTACH_PORT || best->is_loopback;
}

/*
 * A listener of the process itself. -ENOENT: there is none, for certain: when none of its network
 * will do, it does not matter how many descriptors it has.
 */
static int find_listener(const struct target *t, const struct buf *before, uint16_t port,
                         struct listener *ret)
{
    CLEANUP(buf_done) struct buf candidates = {0};

    *ret = (struct listener){0};
    int r = list_candidates(t, before, port, &candidates);
    if (r == 0 && candidates.len > 0)
        r = inspect_owned_listeners(t, &candidates, take_listener, ret);
    if (ret->port != 0)
        return 0;
    return r == -ENOENT ? -ESRCH : r < 0 ? r : -ENOENT;
}

static bool note_port(void *arg, const struct listener *l)
{
    bool *has = arg;

    *has |= l->port == ATTACH_PORT;
    return !*has;
}

/* All that listen now. Where they cannot be told, nobody could tell later what the signal opened.
 */
static int check_port(const struct target *t, struct buf *ret, struct error *err)
{
    bool is_theirs = false;

    int r = inspect_listeners(t, ret);
    if (r == 0)
        r = inspect_owned_listeners(t, ret, note_port, &is_theirs);
    if (is_theirs)
        return error_set(err, -EBUSY, "its inspector is open already");
    if (r < 0)
        return error_set(err, -ENOTSUP, "what it listens on cannot be told: %s", why_not(r));
    const struct listener *l = (const struct listener *)(const void *)ret->data;
    for (size_t i = 0; i < ret->len / sizeof(*l); i++)
        if (l[i].port == ATTACH_PORT)
            return error_set(err, -EADDRINUSE, "another process listens on port %d", ATTACH_PORT);
    return 0;
}

/* ---- Connecting */

/* A socket is of the network that its maker is in at that moment, and stays so. */
static int make_socket(const struct target *t, int family, struct error *err)
{
    int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    bool is_ours = inspect_shares_network(t);
    CLEANUP(closep) int ours = is_ours ? -1 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    CLEANUP(closep) int theirs = is_ours ? -1 : openat(t->fd, "ns/net", O_RDONLY | O_CLOEXEC);

    if (!is_ours && (ours < 0 || theirs < 0 || setns(theirs, CLONE_NEWNET) < 0))
        return error_set(err, -errno, "could not enter its network: %m");
    int fd = socket(family, type, 0), r = fd < 0 ? -errno : 0;
    if (!is_ours && setns(ours, CLONE_NEWNET) < 0)
        _exit(1); /* nobody may be looked at from there */
    return r < 0 ? error_set(err, r, "could not make a socket: %s", strerror(-r)) : fd;
}

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Who listens on any address is to be reached by loopback. */
static socklen_t address_of(const struct listener *l, union address *ret)
{
    bool is_any = l->is_near && !l->is_loopback;

    if (!l->is_v6) {
        ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(l->port)};
        ret->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (!is_any)
            memcpy(&ret->v4.sin_addr, l->address, sizeof(ret->v4.sin_addr));
        return sizeof(ret->v4);
    }
    ret->v6 = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_port = htons(l->port), .sin6_addr = in6addr_loopback};
    if (!is_any)
        memcpy(&ret->v6.sin6_addr, l->address, sizeof(ret->v6.sin6_addr));
    return sizeof(ret->v6);
}

/* Not waiting: whoever is handed the descriptor does. */
static int connect_to(const struct target *t, const struct listener *l, struct worker_answer *a,
                      struct error *err)
{
    union address address;
    socklen_t len = address_of(l, &address);

    CLEANUP(closep) int fd = make_socket(t, address.any.sa_family, err);
    if (fd < 0)
        return fd;
    if (connect(fd, &address.any, len) < 0 && errno != EINPROGRESS)
        return error_set(err, -errno, "could not connect to its inspector: %m");
    a->fd = TAKE_FD(fd);
    put_answer(l, &a->data);
    return 0;
}

static int send_signal(const struct target *t, const struct stat_text *before, struct error *err)
{
    CLEANUP(closep) int fd = (int)syscall(SYS_pidfd_open, t->pid, 0);

    if (fd < 0)
        return error_set(err, errno == ESRCH ? -ESRCH : -ENOTSUP, "could not hold process %u: %m",
                         t->pid);
    /* It was there behind pidfd_open(), so the descriptor is its own. */
    int r = target_check_again(t, before, err);
    if (r == 0)
        r = check_signal(t, err);
    if (r < 0)
        return r;
    if (syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0) < 0)
        return error_set(err, errno == ESRCH ? -ESRCH : -ENOTSUP,
                         "could not send SIGUSR1 to process %u: %m", t->pid);
    return 0;
}

static int wait_for_inspector(const struct target *t, const struct buf *before,
                              struct listener *ret, struct error *err)
{
    static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};

    int64_t until = clock_monotonic_ns(clock_real()) + OPEN_S * 1000000000LL;
    unsigned elsewhere = 0;

    while (clock_monotonic_ns(clock_real()) < until) {
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        if (find_listener(t, before, 0, ret) == 0 &&
            (ret->port == ATTACH_PORT || ++elsewhere >= SETTLE_LOOKS))
            return 0;
    }
    return error_set(err, -ENXIO, "SIGUSR1 opened no inspector in %d s", OPEN_S);
}

/* Before anything is sent: what is opened must be closed again. */
static int check_network(const struct target *t, bool may_enter, struct error *err)
{
    if (inspect_shares_network(t))
        return 0;
    CLEANUP(closep) int fd = may_enter ? make_socket(t, AF_INET, err) : -1;
    if (fd < 0)
        return error_set(err, -ENOTSUP, "it is in a network of its own");
    return 0;
}

static int open_inspector(const struct target *t, const struct stat_text *before, bool may_enter,
                          struct worker_answer *a, struct error *err)
{
    CLEANUP(buf_done) struct buf listeners = {0};
    struct listener found;

    int r = check_network(t, may_enter, err);
    if (r == 0)
        r = check_owner(t, before, err);
    if (r == 0)
        r = check_port(t, &listeners, err);
    if (r == 0)
        r = send_signal(t, before, err);
    if (r == 0)
        r = wait_for_inspector(t, &listeners, &found, err);
    return r < 0 ? r : connect_to(t, &found, a, err);
}

static int connect_again(const struct target *t, uint16_t port, struct worker_answer *a,
                         struct error *err)
{
    struct listener found;

    int r = find_listener(t, NULL, port, &found);
    if (r == -ENOENT)
        return error_set(err, r, "its inspector is closed");
    if (r < 0)
        return error_set(err, r, "what it listens on cannot be told: %s", why_not(r));
    return connect_to(t, &found, a, err);
}

static int serve(void *state, const struct worker_question *q, struct worker_answer *a,
                 struct error *err)
{
    CLEANUP(buf_done) struct buf room = {0};
    struct stat_text before = {0};
    struct target t = {.fd = -1};

    if (q->data.len != QUESTION_LEN)
        return error_set(err, -EBADMSG, "a question is damaged");
    uint16_t port = le16_get(q->data.data + 12);
    int r = target_open(le32_get(q->data.data), &t, err);
    if (r == 0)
        r = target_check(&t, le64_get(q->data.data + 4), &room, &before, err);
    if (r < 0 && r != -ESRCH && port == 0)
        r = -ENOTSUP; /* nothing was sent */
    if (r == 0)
        r = port == 0 ? open_inspector(&t, &before, state != NULL, a, err)
                      : connect_again(&t, port, a, err);
    closep(&t.fd);
    return r;
}

static void *start(void *arg)
{
    return arg;
}

#define CAPABILITIES                                                                               \
    ((uint64_t)1 << CAP_KILL | (uint64_t)1 << CAP_SYS_PTRACE | (uint64_t)1 << CAP_DAC_READ_SEARCH)

const struct worker_kind attach_worker = {
    .name = "vesta-attacher",
    .deadline_ns = DEADLINE_NS,
    .capabilities = CAPABILITIES,
    .memory_max = MEMORY_MAX,
    .may_open = true,
    .may_attach = true,
    .serve = serve,
};

const struct worker_kind attach_worker_everywhere = {
    .name = "vesta-attacher",
    .deadline_ns = DEADLINE_NS,
    .capabilities = CAPABILITIES | (uint64_t)1 << CAP_SYS_ADMIN,
    .memory_max = MEMORY_MAX,
    .may_open = true,
    .may_attach = true,
    .may_enter = true,
    .serve = serve,
    .start = start,
    .start_arg = (void *)(uintptr_t) "enters", /* serve() has it as its state */
};
