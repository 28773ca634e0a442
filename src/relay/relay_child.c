#include "relay/relay_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/le.h"
#include "relay/attach_part.h"
#include "relay/control_client.h"
#include "relay/export.h"
#include "relay/export_upload.h"
#include "relay/relay_internal.h"
#include "relay/relay_link.h"
#include "relay/relay_sandbox.h"
#include "relay/scrape_part.h"
#include "relay/status_server.h"
#include "wire/log.h"

#define COUNTS_EVERY_NS  ((int64_t)5 * 1000 * 1000 * 1000)
#define FLUSH_LOOK_NS    ((int64_t)10 * 1000 * 1000)
#define FLUSH_MAX_MS     60000
#define END_S            6
#define STOP_MS          1500
#define TOKEN_MAX        4096
#define MESSAGES_AT_ONCE 16
#define KEEP_BYTES       ((size_t)128 << 10)

/* In the order of starting: whoever makes profiles comes behind who sends them. */
static const struct relay_part *const parts[] = {
    &export_part, &upload_part, &scrape_part, &attach_part, &control_part, &status_part,
};

/* The socket, and what is due on the main thread. */
struct relay_link {
    struct relay_child *child;
    struct loop_io io, signals;
    pthread_mutex_t lock; /* of sending */
    int parent;

    struct loop_timers counts_timers, flush_timers;
    struct loop_timer counts, flush;
    int64_t flush_until_ns;
    struct buf told; /* the counts that were sent last */
    struct link_message incoming;
    void *started[ARRAY_SIZE(parts)];
};

/* ---- For parts ---- */

void relay_export(struct relay_child *c, struct bytes otlp)
{
    if (c->exporters)
        exporters_add(c->exporters, otlp);
}

void relay_tell(struct relay_child *c, enum relay_kind kind, struct bytes data)
{
    if (data.len > RELAY_UP_MAX)
        return;
    pthread_mutex_lock(&c->link->lock);
    (void)link_send(c->link->io.fd, kind, data, -1);
    pthread_mutex_unlock(&c->link->lock);
}

static void write_line(const struct agent_config *config, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void write_line(const struct agent_config *config, int level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    log_write((struct log_style){config->log_level, config->log_format}, level, fmt, ap);
    va_end(ap);
}

void relay_log(const struct relay_child *c, enum relay_level level, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    write_line(c->config, (int)level, "relay: %s", text);
}

void relay_add_metrics(struct relay_child *c, struct buf *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (c->link->started[i] && parts[i]->metrics)
            parts[i]->metrics(c->link->started[i], text);
}

void relay_add_status(struct relay_child *c, struct buf *json)
{
    buf_add_byte(json, '{');
    size_t empty = json->len;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        if (!c->link->started[i] || !parts[i]->status)
            continue;
        size_t before = json->len;
        if (before > empty)
            buf_add_byte(json, ',');
        size_t at = json->len;
        parts[i]->status(c->link->started[i], json);
        if (json->len == at)
            json->len = before;
    }
    buf_add_byte(json, '}');
}

int relay_authorization(const struct relay_child *c, struct buf *ret, struct error *err)
{
    char text[TOKEN_MAX];

    if (!c->settings.token_file)
        return 0;
    CLEANUP(closep) int fd = open(c->settings.token_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (n < 0)
        return error_set(err, -errno, "could not read the token in \"%s\": %m",
                         c->settings.token_file);
    struct bytes line, rest = {(uint8_t *)text, (size_t)n};
    if (!bytes_next_line(&rest, &line) || bytes_trim(line).len == 0)
        return error_set(err, -ENODATA, "there is no token in \"%s\"", c->settings.token_file);
    buf_add_str(ret, "Bearer ");
    buf_add_bytes(ret, bytes_trim(line));
    return 1;
}

/* ---- What the agent says ---- */

static void tell_counts(struct relay_link *l)
{
    CLEANUP(buf_done) struct buf json = {0};

    relay_add_status(l->child, &json);
    if (bytes_equal(buf_bytes(&json), buf_bytes(&l->told)))
        return;
    relay_tell(l->child, RELAY_COUNTS, buf_bytes(&json));
    buf_clear(&l->told);
    buf_add_bytes(&l->told, buf_bytes(&json));
}

static void begin_flush(struct relay_link *l, struct bytes data)
{
    uint32_t ms = data.len == sizeof(uint32_t) ? le32_get(data.data) : 0;
    int64_t now = loop_now_ns(l->child->loop);

    l->flush_until_ns = now + (int64_t)(ms < FLUSH_MAX_MS ? ms : FLUSH_MAX_MS) * 1000000;
    if (l->child->exporters)
        exporters_hurry(l->child->exporters);
    loop_timer_start(&l->flush_timers, &l->flush, now);
}

static void look_at_flush(struct loop_timer *timer)
{
    struct relay_link *l = OWNER_OF(timer, struct relay_link, flush);
    int64_t now = loop_now_ns(l->child->loop);

    if (now < l->flush_until_ns && l->child->exporters &&
        !exporters_are_idle(l->child->exporters)) {
        loop_timer_start(&l->flush_timers, &l->flush, now + FLUSH_LOOK_NS);
        return;
    }
    tell_counts(l);
    relay_tell(l->child, RELAY_FLUSHED, (struct bytes){0});
}

static void counts_are_due(struct loop_timer *timer)
{
    struct relay_link *l = OWNER_OF(timer, struct relay_link, counts);

    tell_counts(l);
    loop_timer_start(&l->counts_timers, &l->counts, loop_now_ns(l->child->loop) + COUNTS_EVERY_NS);
}

static void hand_out(struct relay_link *l, const struct link_message *m)
{
    struct bytes data = buf_bytes(&m->data);

    if (m->kind == RELAY_PROFILES)
        relay_export(l->child, data);
    else if (m->kind == RELAY_FLUSH)
        begin_flush(l, data);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (l->started[i] && parts[i]->message)
            parts[i]->message(l->started[i], m->kind, data, m->fd);
}

static void ready(struct loop_io *io, uint32_t events)
{
    struct relay_link *l = OWNER_OF(io, struct relay_link, io);

    (void)events;
    for (int i = 0; i < MESSAGES_AT_ONCE; i++) {
        int got = link_receive(io->fd, true, &l->incoming);
        if (got == 0)
            break;
        if (got == -EBADMSG)
            continue;
        if (got < 0) {
            loop_forget(l->child->loop, io);
            loop_stop(l->child->loop);
            break;
        }
        hand_out(l, &l->incoming);
        if (l->incoming.fd >= 0)
            close(TAKE_FD(l->incoming.fd));
    }
    if (l->incoming.data.cap > KEEP_BYTES) /* the rare large one is not kept */
        buf_done(&l->incoming.data);
}

/* SIGTERM of a whole group is the agent's to follow; that of the agent's death is ours. */
static void signalled(struct loop_io *io, uint32_t events)
{
    struct relay_link *l = OWNER_OF(io, struct relay_link, signals);
    struct signalfd_siginfo info;

    (void)events;
    while (read(io->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        ;
    if (getppid() != l->parent)
        loop_stop(l->child->loop);
}

/* ---- Beginning and end ---- */

static int prepare_process(struct relay_link *l, struct error *err)
{
    sigset_t signals;

    (void)prctl(PR_SET_NAME, "vesta-relay", 0, 0, 0);
    if (l->io.fd <= STDERR_FILENO)
        return error_set(err, -EBADF, "could not run without standard descriptors");
    /* Whatever the agent has open is not ours, but for the three that everyone has. */
    if (l->io.fd > STDERR_FILENO + 1)
        (void)syscall(SYS_close_range, STDERR_FILENO + 1, l->io.fd - 1, 0);
    (void)syscall(SYS_close_range, l->io.fd + 1, ~0u, 0);
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
    (void)signal(SIGUSR2, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
    l->signals = (struct loop_io){signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK), signalled};
    if (l->signals.fd < 0)
        return error_set(err, -errno, "could not wait for signals: %m");
    (void)mallopt(M_ARENA_MAX, 2); /* threads here wait; memory of their own would only lie idle */
    return 0;
}

static int give_up_rights(struct relay_child *c, struct error *err)
{
    const char *folders[EXPORT_TARGETS_MAX + 2];
    struct sandbox s = {.folders = folders};
    const struct agent_config *config = c->config;

    if (!config->keep_root && config->user && config->user[0])
        s.user = config->user;
    folders[s.n_folders++] = config->spool_dir;
    folders[s.n_folders++] = config->state_dir;
    for (size_t i = 0; i < c->settings.n_targets; i++)
        if (c->settings.targets[i].kind == EXPORT_FILE)
            folders[s.n_folders++] = c->settings.targets[i].url;
    int r = sandbox_enter(&s, err);
    if (r < 0)
        return r;
    /* A change of user undoes both, so they come behind it. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it holds credentials */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    return getppid() == c->link->parent ? 0 : error_set(err, -ESRCH, "the agent has ended");
}

static void start_parts(struct relay_link *l)
{
    struct error err;

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        if (parts[i]->start(l->child, &l->started[i], &err) < 0) {
            l->started[i] = NULL;
            relay_log(l->child, RELAY_ERROR, "going on without %s: %s", parts[i]->name, err.text);
        }
    }
}

struct stopping {
    const struct relay_part *part;
    void *state;
};

static void *stop_part(void *arg)
{
    struct stopping *s = arg;

    s->part->stop(s->state);
    return NULL;
}

/* Those that make profiles may wait for others when they are to end; nobody waits for them for
 * long. Exporters come last: what they have must reach the disk. */
static void stop_parts(struct relay_link *l)
{
    static struct stopping stopping[ARRAY_SIZE(parts)];
    struct timespec until;
    pthread_t thread;

    for (size_t i = ARRAY_SIZE(parts); i-- > 0;) {
        if (!l->started[i])
            continue;
        stopping[i] = (struct stopping){parts[i], l->started[i]};
        if (pthread_create(&thread, NULL, stop_part, &stopping[i]) != 0)
            continue;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += STOP_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_timedjoin_np(thread, NULL, &until);
    }
}

static int start_loop(struct relay_link *l, struct error *err)
{
    struct loop **loop = &l->child->loop;
    int r = loop_new(loop, err);

    if (r < 0)
        return r;
    l->counts_timers.expired = counts_are_due;
    l->flush_timers.expired = look_at_flush;
    loop_add_timers(*loop, &l->counts_timers);
    loop_add_timers(*loop, &l->flush_timers);
    loop_timer_start(&l->counts_timers, &l->counts, loop_now_ns(*loop) + COUNTS_EVERY_NS);
    r = loop_watch(*loop, &l->signals, EPOLLIN, err);
    return r < 0 ? r : loop_watch(*loop, &l->io, EPOLLIN, err);
}

void relay_child_run(const struct agent_config *config, int socket, int parent)
{
    struct relay_link link = {.io = {socket, ready}, .parent = parent};
    struct relay_child child = {.config = config, .link = &link};
    struct error err;

    link.child = &child;
    pthread_mutex_init(&link.lock, NULL);
    int r = prepare_process(&link, &err);
    if (r == 0)
        r = export_settings_make(config, (const char *const *)environ, &child.settings, &err);
    if (r == 0)
        r = give_up_rights(&child, &err);
    if (r == 0)
        r = start_loop(&link, &err);
    if (r < 0) {
        relay_log(&child, RELAY_ERROR, "could not start: %s", err.text);
        return;
    }
    start_parts(&link);
    loop_run(child.loop);
    /* What a part cannot end in time (a name server that is silent) ends with the process. */
    alarm(END_S);
    stop_parts(&link);
}
