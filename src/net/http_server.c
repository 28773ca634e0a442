#include "net/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "net/conn.h"
#include "net/exchange.h"
#include "net/tls_server.h"

#define READ_SIZE             ((size_t)64 << 10)
#define ACCEPTS_MAX           64           /* at once */
#define REFUSED_MAX           256          /* connections over the limit that are told so */
#define ACCEPT_REST_NS        100000000LL  /* after a failure */
#define LET_GO_NS             5000000000LL /* how long freeing waits for those who hold exchanges */
#define SECOND_NS             1000000000LL
#define DEFAULT(field, value) (o->field = o->field ? o->field : (value))

/* ---- what its parts use ---- */

void http_server_ref(struct http_server *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void http_server_unref(struct http_server *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    for (unsigned i = 0; i < s->n_homes; i++) {
        loop_free(s->homes[i].loop);
        free(s->homes[i].in);
        buf_done(&s->homes[i].out);
    }
    free(s->homes);
    free(s->listeners);
    tls_server_free(s->tls);
    free((char *)s->o.spool_dir);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

void http_server_log(struct http_server *s, int level, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!s->o.log)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    s->o.log(s->o.log_ctx, level, text);
}

void http_server_changed(struct http_server *s)
{
    if (!atomic_load(&s->is_draining))
        return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool http_server_charge(struct http_server *s, uint64_t n)
{
    uint64_t before = atomic_fetch_add(&s->body_memory, n);

    if (before + n <= s->o.body_memory_max)
        return true;
    atomic_fetch_sub(&s->body_memory, n);
    return false;
}

void http_server_discharge(struct http_server *s, uint64_t n)
{
    if (n > 0)
        atomic_fetch_sub(&s->body_memory, n);
}

/* ---- accepting, on the first home's thread ---- */

/* No descriptors are left: gives up the spare one to take a connection and close it, rather than
 * leaving clients in the dark. */
static void accept_and_drop(struct http_server *s, struct listener *l)
{
    char peer[PEER_TEXT_MAX];

    if (s->spare_fd >= 0)
        close(TAKE_FD(s->spare_fd));
    int fd = listener_accept(l, peer);
    if (fd >= 0)
        close(fd);
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void take_connection(struct http_server *s, struct listener *l, int fd, const char *peer)
{
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n"
                               "retry-after: 1\r\nconnection: close\r\n\r\n";
    unsigned n = atomic_load(&s->n_connections);
    bool is_over = n >= s->o.connections_max;

    count_up(is_over ? &s->refused : &s->accepted, 1);
    if (is_over && (l->is_tls || n - s->o.connections_max >= REFUSED_MAX)) {
        close(fd);
        return;
    }
    conn_start(&s->homes[s->next_home++ % s->n_homes], fd, l->is_tls, peer, is_over ? busy : NULL);
}

static void rest_listeners(struct http_server *s)
{
    struct home *home = &s->homes[0];

    for (size_t i = 0; i < s->n_listeners; i++)
        loop_change(home->loop, &s->listeners[i].io, 0);
    loop_timer_start(&s->resting, &s->rest, loop_now_ns(home->loop) + ACCEPT_REST_NS);
}

static void listen_again(struct loop_timer *timer)
{
    struct http_server *s = OWNER_OF(timer, struct http_server, rest);

    for (size_t i = 0; i < s->n_listeners; i++)
        loop_change(s->homes[0].loop, &s->listeners[i].io, EPOLLIN);
}

static void clients_wait(struct loop_io *io, uint32_t events)
{
    struct listener *l = (struct listener *)io;
    struct http_server *s = l->owner;

    (void)events;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        char peer[PEER_TEXT_MAX];
        int fd = listener_accept(l, peer);
        if (fd == -EAGAIN)
            return;
        if (fd == -ECONNABORTED || fd == -EINTR)
            continue;
        if (fd < 0) {
            count_up(&s->refused, 1);
            errno = -fd;
            http_server_log(s, 2, "could not accept a connection on %s: %m", l->address);
            if (fd == -EMFILE || fd == -ENFILE)
                accept_and_drop(s, l);
            rest_listeners(s);
            return;
        }
        take_connection(s, l, fd, peer);
    }
}

/* ---- starting ---- */

static void set_options(struct http_server_options *o)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    DEFAULT(loops, cores > 0 ? (unsigned)cores : 1);
    DEFAULT(connections_max, 10000);
    DEFAULT(streams_max, 128);
    DEFAULT(body_memory_max, (uint64_t)128 << 20);
    DEFAULT(body_limit, (uint64_t)64 << 20);
    DEFAULT(head_timeout_ns, 10 * SECOND_NS);
    DEFAULT(body_timeout_ns, 20 * SECOND_NS);
    DEFAULT(idle_timeout_ns, 75 * SECOND_NS);
    DEFAULT(write_timeout_ns, 30 * SECOND_NS);
}

static void close_listeners(struct http_server *s)
{
    for (size_t i = 0; i < s->n_listeners; i++) {
        if (s->listeners[i].io.fd < 0)
            continue;
        loop_forget(s->homes[0].loop, &s->listeners[i].io);
        listener_close(&s->listeners[i]);
    }
    loop_timer_stop(&s->rest);
}

static void drain_home(struct loop_task *task)
{
    struct home *home = OWNER_OF(task, struct home, drain);

    if (home == home->server->homes)
        close_listeners(home->server);
    for (struct conn *c = home->conns, *next; c; c = next) {
        next = c->next;
        conn_drain(c);
    }
}

static void abort_home(struct loop_task *task)
{
    struct home *home = OWNER_OF(task, struct home, abort);

    if (home == home->server->homes)
        close_listeners(home->server);
    while (home->conns)
        conn_close(home->conns);
    home->is_aborted = true;
    http_server_changed(home->server);
}

static int home_init(struct home *home, struct http_server *s, struct error *err)
{
    int r = loop_new(&home->loop, err);

    if (r < 0)
        return r;
    home->server = s;
    home->in = must_calloc(1, READ_SIZE);
    home->drain.run = drain_home;
    home->abort.run = abort_home;
    conn_timers_init(home);
    exchange_timers_init(home);
    return 0;
}

static void *home_run(void *arg)
{
    struct home *home = arg;

    loop_run(home->loop);
    return NULL;
}

static int open_listeners(struct http_server *s, struct error *err)
{
    s->listeners = must_calloc(s->o.n_listens ? s->o.n_listens : 1, sizeof(*s->listeners));
    for (size_t i = 0; i < s->o.n_listens; i++) {
        struct listener *l = &s->listeners[i];
        int r = listener_open(s->o.listens[i].address, l, err);
        if (r < 0)
            return r;
        s->n_listeners++;
        l->is_tls = s->o.listens[i].is_tls;
        l->owner = s;
        l->io.ready = clients_wait;
        r = loop_watch(s->homes[0].loop, &l->io, EPOLLIN, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int make_parts(struct http_server *s, struct error *err)
{
    bool has_tls = false;
    int r = 0;

    for (size_t i = 0; i < s->o.n_listens; i++)
        has_tls |= s->o.listens[i].is_tls;
    if (has_tls)
        r = tls_server_new(s->o.cert_file, s->o.key_file, s->o.client_ca_file, &s->tls, err);
    s->homes = must_calloc(s->o.loops, sizeof(*s->homes));
    for (unsigned i = 0; r == 0 && i < s->o.loops; i++) {
        r = home_init(&s->homes[i], s, err);
        s->n_homes += r == 0;
    }
    if (r < 0)
        return r;
    s->resting.expired = listen_again;
    loop_add_timers(s->homes[0].loop, &s->resting);
    return open_listeners(s, err);
}

/* Signals are for the program's own threads, but for SIGPROF: a sample that this thread could not
 * take would be put on the account of another. OpenSSL writes without MSG_NOSIGNAL: SIGPIPE stays
 * blocked where it is called. */
static int start_threads(struct http_server *s, struct error *err)
{
    sigset_t all, before;
    int r = 0;

    sigfillset(&all);
    sigdelset(&all, SIGPROF);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 0; r == 0 && i < s->n_homes; i++) {
        r = -pthread_create(&s->homes[i].thread, NULL, home_run, &s->homes[i]);
        s->homes[i].has_thread = r == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = -r;
    return r == 0 ? 0 : error_set(err, r, "could not start a thread: %m");
}

int http_server_start(const struct http_server_options *o, struct http_server **ret,
                      struct error *err)
{
    CLEANUP(http_server_freep) struct http_server *s = must_calloc(1, sizeof(*s));

    atomic_init(&s->refs, 1);
    s->o = *o;
    set_options(&s->o);
    s->o.spool_dir = o->spool_dir && o->spool_dir[0] ? must_copy(bytes_of(o->spool_dir)) : NULL;
    s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    int r = make_parts(s, err);
    if (r == 0)
        r = start_threads(s, err);
    s->o.listens = NULL; /* the caller's */
    if (r < 0)
        return r;
    *ret = TAKE_PTR(s);
    return 0;
}

const char *http_server_address(const struct http_server *s, size_t i)
{
    return i < s->n_listeners ? s->listeners[i].address : NULL;
}

int http_server_reload(struct http_server *s, const char *cert_file, const char *key_file,
                       struct error *err)
{
    return s->tls ? tls_server_reload(s->tls, cert_file, key_file, err) : 0;
}

/* ---- ending ---- */

static bool is_quiet(const struct http_server *s)
{
    return atomic_load(&s->n_busy) == 0 && atomic_load(&s->n_exchanges) == 0;
}

static bool is_aborted(const struct http_server *s)
{
    for (unsigned i = 0; i < s->n_homes; i++)
        if (s->homes[i].has_thread && !atomic_load(&s->homes[i].is_aborted))
            return false;
    return true;
}

/* Waits until is_so(s), at most so long; whether it is. */
static bool wait_until(struct http_server *s, bool (*is_so)(const struct http_server *),
                       int64_t at_most_ns)
{
    int64_t end = clock_monotonic_ns(clock_real()) + at_most_ns;
    struct timespec until = {end / SECOND_NS, end % SECOND_NS};
    int r = 0;

    pthread_mutex_lock(&s->lock);
    while (!is_so(s) && r == 0)
        r = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    bool is = is_so(s);
    pthread_mutex_unlock(&s->lock);
    return is;
}

/* Every connection is closed and every exchange cancelled when it returns. */
static void abort_all(struct http_server *s)
{
    atomic_store(&s->is_draining, true);
    if (s->was_aborted)
        return;
    s->was_aborted = true;
    for (unsigned i = 0; i < s->n_homes; i++)
        if (s->homes[i].has_thread)
            (void)loop_post(s->homes[i].loop, &s->homes[i].abort);
    while (!wait_until(s, is_aborted, SECOND_NS))
        ;
}

int http_server_drain(struct http_server *s, int64_t grace_ns)
{
    if (!atomic_exchange(&s->is_draining, true))
        for (unsigned i = 0; i < s->n_homes; i++)
            (void)loop_post(s->homes[i].loop, &s->homes[i].drain);
    if (grace_ns > 0 && wait_until(s, is_quiet, grace_ns))
        return 0;
    bool was_quiet = is_quiet(s);
    abort_all(s);
    return was_quiet ? 0 : -ETIMEDOUT;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    abort_all(s);
    if (!wait_until(s, is_quiet, LET_GO_NS))
        http_server_log(s, 3, "%u requests were never answered", atomic_load(&s->n_exchanges));
    for (unsigned i = 0; i < s->n_homes; i++) {
        if (s->homes[i].has_thread) {
            loop_stop(s->homes[i].loop);
            pthread_join(s->homes[i].thread, NULL);
        }
        loop_close(s->homes[i].loop);
    }
    if (s->n_homes > 0)
        close_listeners(s);
    else
        for (size_t i = 0; i < s->n_listeners; i++)
            listener_close(&s->listeners[i]);
    if (s->spare_fd >= 0)
        close(s->spare_fd);
    http_server_unref(s);
}

void http_server_stat(const struct http_server *s, struct http_server_stat *ret)
{
    *ret = (struct http_server_stat){
        .connections = atomic_load(&s->n_connections),
        .accepted = atomic_load(&s->accepted),
        .refused = atomic_load(&s->refused),
        .requests = atomic_load(&s->requests),
        .body_memory = atomic_load(&s->body_memory),
        .timeouts = atomic_load(&s->timeouts),
        .protocol_errors = atomic_load(&s->protocol_errors),
        .bytes_in = atomic_load(&s->bytes_in),
        .bytes_out = atomic_load(&s->bytes_out),
    };
}
