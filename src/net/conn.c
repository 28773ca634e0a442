#include "net/conn.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/must.h"
#include "net/exchange.h"
#include "net/tls_server.h"

#define READ_SIZE ((size_t)64 << 10)
#define OUT_SIZE                                                                                   \
    ((size_t)256 << 10)           /* taken off a session at once; more is not read while           \
                                     as much waits to be written */
#define TURNS_MAX    8            /* of one connection before others have theirs */
#define HANDSHAKE_NS 5000000000LL /* or the head's time, if that is shorter */
#define LINGER_NS    2000000000LL

static void work(struct conn *c);
static void begin_close(struct conn *c);

static size_t out_waiting(const struct conn *c)
{
    return c->out.len - c->out_at;
}

/* ---- beginning and end ---- */

static void not_busy(struct conn *c)
{
    if (!c->is_busy)
        return;
    c->is_busy = false;
    atomic_fetch_sub(&c->home->server->n_busy, 1);
    http_server_changed(c->home->server);
}

/* What the session keeps of the input counts as memory of bodies. */
static bool charge_held(struct conn *c)
{
    struct http_server *s = c->home->server;
    size_t held = c->session ? c->session->held : 0;

    if (held > c->charged && !http_server_charge(s, held - c->charged))
        return false;
    if (held < c->charged)
        http_server_discharge(s, c->charged - held);
    c->charged = held;
    return true;
}

static void free_session(struct conn *c)
{
    if (!c->session)
        return;
    struct http_session *session = TAKE_PTR(c->session);
    session->ops->free(session);
    (void)charge_held(c);
}

void conn_close(struct conn *c)
{
    struct home *home = c->home;

    if (c->is_dead)
        return;
    c->is_dead = true;
    exchange_cancel_all(c);
    free_session(c);
    loop_timer_stop(&c->read_timer);
    loop_timer_stop(&c->write_timer);
    tls_conn_free(c->tls);
    loop_forget(home->loop, &c->io);
    close(c->io.fd);
    buf_done(&c->out);
    free(c->subject);
    if (c->prev)
        c->prev->next = c->next;
    else
        home->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    atomic_fetch_sub(&home->server->n_connections, 1);
    not_busy(c);
    if (!c->is_queued && !c->is_working)
        free(c);
}

static void take_turn(struct loop_task *task)
{
    struct conn *c = OWNER_OF(task, struct conn, task);

    c->is_queued = false;
    if (c->is_dead)
        free(c);
    else
        work(c);
}

static void queue(struct conn *c)
{
    if (c->is_queued)
        return;
    c->is_queued = true;
    loop_again(c->home->loop, &c->task);
}

void conn_kick(struct conn *c)
{
    if (!c->is_working)
        queue(c);
}

static void ready(struct loop_io *io, uint32_t events)
{
    struct conn *c = (struct conn *)io;

    /* In HTTP/2 a client that says nothing more cannot take anything either: windows stay shut. */
    if (events & (EPOLLERR | EPOLLHUP) || (events & EPOLLRDHUP && c->is_http2)) {
        conn_close(c);
        return;
    }
    if (events & (EPOLLIN | EPOLLRDHUP))
        c->can_read = true;
    if (events & EPOLLOUT)
        c->can_write = true;
    if (events & EPOLLRDHUP) {
        c->has_hung_up = true;
        exchange_cancel_all(c);
    }
    work(c);
}

static void arrive(struct loop_task *task)
{
    struct conn *c = OWNER_OF(task, struct conn, task);
    struct home *home = c->home;
    struct http_server *s = home->server;

    c->task.run = take_turn;
    c->next = home->conns;
    if (c->next)
        c->next->prev = c;
    home->conns = c;
    c->can_read = c->can_write = true;
    if (loop_watch(home->loop, &c->io, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, NULL) < 0 ||
        atomic_load(&s->is_draining)) {
        conn_close(c);
        return;
    }
    if (c->is_tls) {
        c->tls = tls_conn_new(s->tls, c->io.fd);
        c->is_handshaking = true;
        int64_t wait = s->o.head_timeout_ns < HANDSHAKE_NS ? s->o.head_timeout_ns : HANDSHAKE_NS;
        loop_timer_start(&home->handshake, &c->read_timer, loop_now_ns(home->loop) + wait);
        if (!c->tls) {
            conn_close(c);
            return;
        }
    }
    work(c);
}

void conn_start(struct home *home, int fd, bool is_tls, const char *peer, const char *refusal)
{
    struct conn *c = must_calloc(1, sizeof(*c));

    c->io = (struct loop_io){fd, ready};
    c->home = home;
    c->is_tls = is_tls;
    c->is_busy = true;
    strncpy(c->peer, peer, sizeof(c->peer) - 1);
    c->task.run = arrive;
    if (refusal) {
        buf_add_str(&c->out, refusal);
        c->is_closing = true;
    }
    atomic_fetch_add(&home->server->n_connections, 1);
    atomic_fetch_add(&home->server->n_busy, 1);
    if (loop_is_mine(home->loop)) {
        arrive(&c->task);
    } else if (!loop_post(home->loop, &c->task)) {
        atomic_fetch_sub(&home->server->n_connections, 1);
        atomic_fetch_sub(&home->server->n_busy, 1);
        close(fd);
        buf_done(&c->out);
        free(c);
    }
}

/* ---- bytes in ---- */

static ssize_t read_socket(struct conn *c, size_t size)
{
    ssize_t n;

    if (c->tls) {
        n = tls_conn_read(c->tls, c->home->in, size);
    } else {
        n = recv(c->io.fd, c->home->in, size, 0);
        if (n < 0)
            n = errno == EINTR ? 0 - EAGAIN : -errno;
    }
    return n;
}

static struct http_session *make_session(struct conn *c, bool is_http2)
{
    struct http_events events = exchange_events;
    struct http_session_limits limits = {
        .streams_max = c->home->server->o.streams_max,
        .offers_h2c = !c->is_tls,
    };

    events.ctx = c;
    c->is_http2 = is_http2;
    return is_http2 ? http2_session_new(&events, &limits) : http1_session_new(&events, &limits);
}

static void feed_session(struct conn *c, struct bytes in)
{
    bool was_sound = c->session->failure == NULL;
    bool is_sound = c->session->ops->feed(c->session, in);

    if (!is_sound && was_sound) {
        count_up(&c->home->server->protocol_errors, 1);
        http_server_log(c->home->server, 0, "%s: %s", c->peer,
                        c->session->failure ? c->session->failure : "broken off");
    }
    if (!is_sound)
        c->is_closing = true;
    if (!charge_held(c)) {
        count_up(&c->home->server->refused, 1);
        http_server_log(c->home->server, 2, "%s: no memory left for its request", c->peer);
        c->is_closing = true;
    }
}

/* The first bytes say which protocol it is, where ALPN has not. */
static void feed_first(struct conn *c, struct bytes in)
{
    size_t n = sizeof(c->first) - c->n_first < in.len ? sizeof(c->first) - c->n_first : in.len;

    memcpy(c->first + c->n_first, in.data, n);
    c->n_first = (uint8_t)(c->n_first + n);
    int is_http2 = http2_is_preface((struct bytes){c->first, c->n_first});
    if (is_http2 < 0 && c->n_first < sizeof(c->first))
        return;
    c->session = make_session(c, is_http2 > 0);
    if (!c->session) {
        c->is_closing = true;
        return;
    }
    feed_session(c, (struct bytes){c->first, c->n_first});
    if (n < in.len)
        feed_session(c, bytes_from(in, n));
}

/* HTTP/1.1 "upgrade: h2c". */
static void upgrade(struct conn *c)
{
    const struct http_request *request;
    struct bytes settings;
    struct buf rest = {0};

    if (!c->session || c->is_http2 || !http1_session_asks_upgrade(c->session, &request, &settings))
        return;
    c->is_http2 = true; /* for the request that is told of within */
    struct http_session_limits limits = {.streams_max = c->home->server->o.streams_max};
    struct http_events events = exchange_events;
    events.ctx = c;
    struct http_session *next = http2_session_upgrade(&events, &limits, request, settings);
    http1_session_end_upgrade(c->session, next != NULL, &rest);
    if (!next) {
        c->is_http2 = false;
        return;
    }
    buf_add_str(&c->out, "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n"
                         "upgrade: h2c\r\n\r\n");
    c->session->ops->free(c->session);
    c->session = next;
    if (rest.len > 0)
        feed_session(c, buf_bytes(&rest));
    buf_done(&rest);
}

/* Nothing more will come. Whoever works is told so, and may still answer. */
static void at_end(struct conn *c)
{
    c->is_eof = true;
    c->can_read = false;
    exchange_cancel_all(c);
    if (c->is_http2 || (!exchange_any_handed(c) && out_waiting(c) == 0))
        conn_close(c);
}

/* Whether the session has come to its end; streams that were begun are waited for. */
static bool is_over(const struct conn *c)
{
    return c->is_closing || (c->session && c->session->is_closing && c->session->n_streams == 0);
}

static bool may_read(const struct conn *c)
{
    if (!c->can_read || c->is_eof || c->is_dead)
        return false;
    if (c->is_lingering)
        return true;
    return !is_over(c) && out_waiting(c) < OUT_SIZE && !(c->session && c->session->is_paused);
}

/* One read; whether there was something. */
static bool read_some(struct conn *c)
{
    if (!may_read(c))
        return false;
    ssize_t n = read_socket(c, READ_SIZE);
    if (n == -EAGAIN) {
        c->can_read = false;
        return false;
    }
    if (n < 0) {
        conn_close(c);
        return false;
    }
    if (n == 0) {
        at_end(c);
        return false;
    }
    if ((size_t)n < READ_SIZE && !c->tls && !c->has_hung_up)
        c->can_read = false; /* a short read has emptied it: epoll will tell */
    if (c->is_lingering)
        return true;
    count_up(&c->home->server->bytes_in, (uint64_t)n);
    struct bytes in = {c->home->in, (size_t)n};
    if (c->session)
        feed_session(c, in);
    else
        feed_first(c, in);
    upgrade(c);
    return true;
}

/* ---- bytes out ---- */

/* How much the socket took; -EAGAIN, or what went wrong. */
static ssize_t write_socket(struct conn *c, struct bytes out)
{
    ssize_t n;

    if (c->tls) {
        n = tls_conn_write(c->tls, out.data, out.len);
    } else {
        n = send(c->io.fd, out.data, out.len, MSG_NOSIGNAL);
        if (n < 0)
            n = errno == EINTR ? 0 - EAGAIN : -errno;
    }
    if (n > 0)
        count_up(&c->home->server->bytes_out, (uint64_t)n);
    return n;
}

/* Writes what it can; -EAGAIN when some is left, other negative numbers when all is lost. */
static ssize_t write_all(struct conn *c, struct bytes *out)
{
    while (out->len > 0) {
        ssize_t n = write_socket(c, *out);
        if (n == -EAGAIN)
            c->can_write = false;
        if (n < 0)
            return n;
        *out = bytes_from(*out, (size_t)n);
        loop_timer_stop(&c->write_timer); /* it moves */
    }
    return 0;
}

/* First what is left from before. */
static ssize_t write_left(struct conn *c)
{
    struct bytes left = bytes_from(buf_bytes(&c->out), c->out_at);
    ssize_t r = write_all(c, &left);

    c->out_at = c->out.len - left.len;
    if (left.len == 0) {
        buf_done(&c->out);
        c->out_at = 0;
    }
    return r;
}

/* Then what was taken off the session. What the socket leaves goes in front of what `upgrade` may
 * have put there meanwhile. */
static ssize_t write_taken(struct conn *c)
{
    struct bytes left = buf_bytes(&c->home->out);
    ssize_t r = write_all(c, &left);

    if (left.len > 0) {
        struct buf later = c->out;
        c->out = (struct buf){0};
        buf_add_bytes(&c->out, left);
        buf_add_bytes(&c->out, buf_bytes(&later));
        buf_done(&later);
    }
    return r;
}

/* Writes until the socket takes no more or nothing is left; whether something was written. */
static bool write_some(struct conn *c)
{
    struct buf *out = &c->home->out;
    bool has_written = false;

    while (!c->is_dead && c->can_write) {
        ssize_t r = 0;
        if (out_waiting(c) > 0) {
            r = write_left(c);
        } else if (c->session) {
            buf_clear(out);
            c->session->ops->take_output(c->session, out, OUT_SIZE);
            upgrade(c);
            if (out->len == 0 && out_waiting(c) == 0)
                break;
            r = write_taken(c);
        } else {
            break;
        }
        if (r < 0 && r != -EAGAIN) {
            conn_close(c);
            return false;
        }
        has_written = true;
    }
    if (!c->is_dead && has_written) {
        exchange_written(c);
        (void)charge_held(c); /* a reply that is written makes room */
    }
    return has_written;
}

/* ---- turns ---- */

static bool handshake(struct conn *c)
{
    const char *why = NULL;
    int r = tls_conn_handshake(c->tls, &why);

    if (r == -EAGAIN)
        return false;
    if (r < 0) {
        count_up(&c->home->server->protocol_errors, 1);
        http_server_log(c->home->server, 0, "%s: TLS: %s", c->peer, why);
        conn_close(c);
        return false;
    }
    char subject[256];
    c->is_handshaking = false;
    loop_timer_stop(&c->read_timer);
    if (tls_conn_subject(c->tls, subject, sizeof(subject)))
        c->subject = must_copy(bytes_of(subject));
    if (tls_conn_is_http2(c->tls)) {
        c->session = make_session(c, true);
        c->is_closing = c->session == NULL;
    }
    return true;
}

static void begin_close(struct conn *c)
{
    struct home *home = c->home;

    free_session(c);
    if (c->is_eof || c->has_hung_up) {
        conn_close(c);
        return;
    }
    /* Bytes that were not read make the kernel send a reset, which would overtake the reply. */
    if (c->tls)
        tls_conn_shutdown(c->tls);
    shutdown(c->io.fd, SHUT_WR);
    c->is_lingering = true;
    c->can_read = true;
    not_busy(c);
    loop_timer_stop(&c->write_timer);
    loop_timer_start(&home->linger, &c->read_timer, loop_now_ns(home->loop) + LINGER_NS);
    queue(c);
}

static bool is_finished(const struct conn *c)
{
    return out_waiting(c) == 0 && (is_over(c) || (c->is_eof && !exchange_any_handed(c)));
}

static void set_read_clock(struct conn *c)
{
    struct home *home = c->home;
    const struct http_server_options *o = &home->server->o;
    int64_t now = loop_now_ns(home->loop);
    bool is_in_head = c->session ? c->session->is_reading_head : c->n_first > 0;

    if (is_in_head) {
        if (c->read_timer.list != &home->head)
            loop_timer_start(&home->head, &c->read_timer, now + o->head_timeout_ns);
    } else if (c->exchanges) {
        loop_timer_stop(&c->read_timer);
    } else if (c->is_draining) { /* HTTP/2 waits for the client to have heard: not for ever */
        if (c->read_timer.list != &home->linger)
            loop_timer_start(&home->linger, &c->read_timer, now + LINGER_NS);
    } else if (c->read_timer.list != &home->idle || c->had_request) {
        loop_timer_start(&home->idle, &c->read_timer, now + o->idle_timeout_ns);
        c->had_request = false;
    }
}

/* Closes what is at its end, sets the clocks of what is not. */
static void settle(struct conn *c)
{
    struct home *home = c->home;

    if (c->is_lingering || c->is_handshaking)
        return;
    if (is_finished(c)) {
        begin_close(c);
        return;
    }
    set_read_clock(c);
    if (out_waiting(c) == 0)
        loop_timer_stop(&c->write_timer);
    else if (!c->write_timer.list)
        loop_timer_start(&home->write, &c->write_timer,
                         loop_now_ns(home->loop) + home->server->o.write_timeout_ns);
}

static void turn(struct conn *c)
{
    if (c->is_handshaking && !handshake(c))
        return;
    for (int turns = 0; !c->is_dead; turns++) {
        if (turns == TURNS_MAX) {
            queue(c);
            break;
        }
        bool did = read_some(c);
        if (!c->is_dead && !c->is_lingering)
            did |= write_some(c);
        if (!did)
            break;
    }
}

static void work(struct conn *c)
{
    c->is_working = true;
    turn(c);
    if (!c->is_dead)
        settle(c);
    c->is_working = false;
    if (c->is_dead && !c->is_queued)
        free(c);
}

void conn_drain(struct conn *c)
{
    if (c->is_lingering)
        return;
    if (!c->session) {
        conn_close(c);
        return;
    }
    c->is_draining = true;
    c->session->ops->drain(c->session);
    conn_kick(c);
}

/* ---- clocks ---- */

static struct conn *of_read_timer(struct loop_timer *timer)
{
    return OWNER_OF(timer, struct conn, read_timer);
}

static void handshake_is_slow(struct loop_timer *timer)
{
    struct conn *c = of_read_timer(timer);

    count_up(&c->home->server->timeouts, 1);
    conn_close(c);
}

static void has_lingered(struct loop_timer *timer)
{
    conn_close(of_read_timer(timer));
}

static void head_is_slow(struct loop_timer *timer)
{
    struct conn *c = of_read_timer(timer);

    count_up(&c->home->server->timeouts, 1);
    if (c->is_http2) {
        conn_close(c);
        return;
    }
    free_session(c);
    buf_add_str(&c->out, "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n"
                         "connection: close\r\n\r\n");
    c->is_closing = true;
    work(c);
}

static void is_idle(struct loop_timer *timer)
{
    conn_drain(of_read_timer(timer));
}

static void write_stalls(struct loop_timer *timer)
{
    struct conn *c = OWNER_OF(timer, struct conn, write_timer);

    count_up(&c->home->server->timeouts, 1);
    conn_close(c);
}

void conn_timers_init(struct home *home)
{
    home->handshake.expired = handshake_is_slow;
    home->linger.expired = has_lingered;
    home->head.expired = head_is_slow;
    home->idle.expired = is_idle;
    home->write.expired = write_stalls;
    loop_add_timers(home->loop, &home->handshake);
    loop_add_timers(home->loop, &home->linger);
    loop_add_timers(home->loop, &home->head);
    loop_add_timers(home->loop, &home->idle);
    loop_add_timers(home->loop, &home->write);
}
