#include "net/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"

#define WINDOW ((size_t)1 << 20) /* of a reply in pieces: what may wait to be written */
#define WHOLE_BODY_MAX                                                                             \
    ((uint64_t)256 << 10) /* a body announced as this long gets its room at once */
#define BODY_ROOM_MIN ((uint64_t)16 << 10)
#define RATE_MIN      ((int64_t)16 << 10) /* bytes per second of a body */
#define SECOND_NS     1000000000LL

struct exchange {
    struct http_exchange public; /* first */
    struct http_server *server;
    struct home *home;

    /* Of the loop's thread. */
    struct conn *conn;          /* NULL once the stream is gone... */
    struct http_stream *stream; /* ...as this */
    struct exchange *prev, *next;
    struct loop_timer timer; /* silence while the body comes; nothing taken while a reply goes */
    struct loop_timer deadline;
    uint64_t received, announced;
    uint64_t charged, head_charged; /* to the memory of all bodies */
    int64_t body_start_ns;
    struct buf body;
    bool has_length;
    bool is_handed;   /* the service has been given it */
    bool is_answered; /* all of the reply has been handed to the session, or dropped */
    int status;
    uint64_t sent;
    size_t unwritten; /* when last looked at */

    /* Between the service's thread and the loop's. */
    struct loop_task task;
    pthread_mutex_t lock;
    pthread_cond_t room;
    bool is_posted, has_reply, is_in_pieces, is_ended, is_broken, is_gone;
    size_t waiting; /* bytes of the reply that are not written yet */
    struct http_reply reply;
    struct buf part, trailers;

    struct http_header headers[];
};

static struct exchange *exchange_of(struct http_exchange *x)
{
    return (struct exchange *)x;
}

/* ---- beginning and end ---- */

static struct bytes copy(uint8_t **to, struct bytes from)
{
    struct bytes copied = {*to, from.len};

    if (from.len > 0)
        memcpy(*to, from.data, from.len);
    *to += from.len;
    return copied;
}

static size_t head_bytes(const struct http_request *r)
{
    size_t n = r->method.len + r->path.len + r->query.len + r->authority.len;

    for (size_t i = 0; i < r->n_headers; i++)
        n += r->headers[i].name.len + r->headers[i].value.len;
    return n;
}

/* The request's head is copied: the stream may be gone long before the service is done. */
static void copy_request(struct exchange *x, const struct conn *c, const struct http_request *from)
{
    struct http_request *r = &x->public.request;
    uint8_t *to = (uint8_t *)(x->headers + from->n_headers);

    r->method = copy(&to, from->method);
    r->path = copy(&to, from->path);
    r->query = copy(&to, from->query);
    r->authority = copy(&to, from->authority);
    for (size_t i = 0; i < from->n_headers; i++) {
        x->headers[i].name = copy(&to, from->headers[i].name);
        x->headers[i].value = copy(&to, from->headers[i].value);
    }
    r->headers = x->headers;
    r->n_headers = from->n_headers;
    r->body_file = -1;
    r->is_tls = c->is_tls;
    r->is_http2 = c->is_http2;
    memcpy(r->peer, c->peer, sizeof(r->peer));
    if (c->subject) {
        strncpy(r->peer_subject, c->subject, sizeof(r->peer_subject) - 1);
        r->peer_subject[sizeof(r->peer_subject) - 1] = '\0';
    }
}

static void deliver(struct loop_task *task);

static struct exchange *exchange_new(struct conn *c, struct http_stream *stream)
{
    const struct http_request *r = &stream->request;
    struct exchange *x =
        must_calloc(1, sizeof(*x) + r->n_headers * sizeof(x->headers[0]) + head_bytes(r));
    struct http_server *s = c->home->server;

    copy_request(x, c, r);
    x->server = s;
    x->home = c->home;
    x->conn = c;
    x->stream = stream;
    x->public.start_ns = loop_now_ns(c->home->loop);
    x->public.body_limit = s->o.body_limit;
    x->public.memory_max = UINT64_MAX;
    x->task.run = deliver;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->room, NULL);
    x->next = c->exchanges;
    if (x->next)
        x->next->prev = x;
    c->exchanges = x;
    c->had_request = true;
    stream->owner = x;
    http_server_ref(s);
    atomic_fetch_add(&s->n_exchanges, 1);
    count_up(&s->requests, 1);
    return x;
}

static void release_body(struct exchange *x)
{
    buf_done(&x->body);
    http_server_discharge(x->server, x->charged);
    x->charged = 0;
    if (x->public.request.body_file >= 0)
        close(x->public.request.body_file);
    x->public.request.body_file = -1;
}

static void exchange_free(struct exchange *x)
{
    struct http_server *s = x->server;

    release_body(x);
    http_server_discharge(s, x->head_charged);
    http_reply_done(&x->reply);
    buf_done(&x->part);
    buf_done(&x->trailers);
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->room);
    free(x);
    atomic_fetch_sub(&s->n_exchanges, 1);
    http_server_changed(s);
    http_server_unref(s);
}

static void exchange_over(struct exchange *x)
{
    const struct http_service *service = &x->server->o.service;

    loop_timer_stop(&x->timer);
    loop_timer_stop(&x->deadline);
    service->done(service->ctx, &x->public, x->status, x->sent);
    exchange_free(x);
}

/* ---- requests, on the loop's thread ---- */

/* An answer of the loop's own, before the service was given the request. */
static void answer(struct exchange *x, struct http_reply *reply)
{
    loop_timer_stop(&x->timer);
    x->is_answered = true;
    x->status = reply->status;
    x->sent = reply->body.len;
    release_body(x);
    x->stream->session->ops->reply(x->stream->session, x->stream, reply, true);
}

static void refuse(struct exchange *x, int status)
{
    const struct http_service *service = &x->server->o.service;
    struct http_reply reply = {0};

    service->refuse(service->ctx, &x->public, status, &reply);
    if (reply.status == 0)
        reply.status = status;
    reply.closes |= !x->public.request.is_http2; /* there, other streams go on */
    if (status == 408)
        count_up(&x->server->timeouts, 1);
    answer(x, &reply);
}

/* The length that was announced; sessions have checked that it is a number. */
static void read_announced(struct exchange *x)
{
    struct bytes length = http_header_value(&x->public.request, "content-length");

    x->has_length = length.len > 0 && bytes_to_u64(length, &x->announced);
}

/* Heads count as well, twice, as the session has its own: in HTTP/2 a few bytes can stand for a
 * long one, and there may be many. */
static bool charge_head(struct exchange *x)
{
    uint64_t n = 2 * (x->public.request.n_headers * sizeof(struct http_header) +
                      head_bytes(&x->public.request)) +
                 sizeof(*x);

    if (!http_server_charge(x->server, n))
        return false;
    x->head_charged = n;
    return true;
}

static void start_body_clock(struct exchange *x)
{
    loop_timer_start(&x->home->body, &x->timer,
                     loop_now_ns(x->home->loop) + x->server->o.body_timeout_ns);
}

static bool on_head(void *ctx, struct http_stream *stream)
{
    struct conn *c = ctx;
    struct exchange *x = exchange_new(c, stream);
    const struct http_service *service = &x->server->o.service;
    struct http_reply refusal = {0};

    int status = service->head(service->ctx, &x->public, &refusal);
    if (status != 0) {
        if (refusal.status == 0)
            refusal.status = status;
        answer(x, &refusal);
        return false;
    }
    http_reply_done(&refusal);
    read_announced(x);
    bool is_too_long = x->has_length && x->announced > x->public.body_limit;
    if (is_too_long || !charge_head(x)) {
        refuse(x, is_too_long ? 413 : 429);
        return false;
    }
    if (x->public.deadline_ns > 0)
        loop_timer_start(&x->home->deadline, &x->deadline, x->public.deadline_ns);
    x->body_start_ns = x->public.start_ns;
    start_body_clock(x);
    return true;
}

static bool grow_body(struct exchange *x, uint64_t n)
{
    uint64_t need = x->body.len + n;
    uint64_t cap = x->body.cap * 2 > BODY_ROOM_MIN ? x->body.cap * 2 : BODY_ROOM_MIN;

    if (need <= x->body.cap)
        return true;
    if (x->has_length && (x->announced <= WHOLE_BODY_MAX || cap > x->announced))
        cap = x->announced;
    if (cap < need)
        cap = need;
    if (!http_server_charge(x->server, cap - x->charged))
        return false;
    x->charged = cap;
    x->body.data = must_realloc(x->body.data, (size_t)cap);
    x->body.cap = (size_t)cap;
    return true;
}

static bool write_file(int fd, struct bytes part)
{
    while (part.len > 0) {
        ssize_t n = write(fd, part.data, part.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        part = bytes_from(part, (size_t)n);
    }
    return true;
}

/* Puts what has come so far into a file without a name. */
static bool open_file(struct exchange *x)
{
    int fd = open(x->server->o.spool_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return false;
    x->public.request.body_file = fd;
    bool is_written = write_file(fd, buf_bytes(&x->body));
    buf_done(&x->body);
    http_server_discharge(x->server, x->charged);
    x->charged = 0;
    return is_written;
}

/* 0, or the status to refuse with. */
static int keep_body(struct exchange *x, struct bytes part)
{
    uint64_t total = x->has_length && x->announced > x->received ? x->announced : x->received;

    if (x->received > x->public.body_limit)
        return 413;
    if (x->public.request.body_file < 0 && total > x->public.memory_max && x->server->o.spool_dir &&
        !open_file(x)) {
        http_server_log(x->server, 3, "could not write a body to a file in \"%s\": %m",
                        x->server->o.spool_dir);
        return 429;
    }
    if (x->public.request.body_file >= 0)
        return write_file(x->public.request.body_file, part) ? 0 : 429;
    if (!grow_body(x, part.len))
        return 429;
    buf_add_bytes(&x->body, part);
    return 0;
}

static bool is_too_slow(const struct exchange *x)
{
    int64_t took = loop_now_ns(x->home->loop) - x->body_start_ns;

    return took > x->server->o.body_timeout_ns &&
           (int64_t)(x->received / (uint64_t)RATE_MIN) < took / SECOND_NS;
}

static void on_body(void *ctx, struct http_stream *stream, struct bytes part)
{
    struct exchange *x = stream->owner;

    (void)ctx;
    if (!x->is_answered) {
        x->received += part.len;
        int status = keep_body(x, part);
        if (status == 0 && is_too_slow(x))
            status = 408;
        if (status != 0)
            refuse(x, status);
        else
            start_body_clock(x);
    }
    stream->session->ops->consumed(stream->session, stream, part.len);
}

static void on_complete(void *ctx, struct http_stream *stream)
{
    struct exchange *x = stream->owner;
    const struct http_service *service = &x->server->o.service;

    (void)ctx;
    if (x->is_answered)
        return;
    loop_timer_stop(&x->timer);
    struct http_request *r = &x->public.request;
    r->body = buf_bytes(&x->body);
    r->body_len = x->received;
    if (r->body_file >= 0 && lseek(r->body_file, 0, SEEK_SET) < 0) {
        refuse(x, 429);
        return;
    }
    x->is_handed = true;
    service->request(service->ctx, &x->public); /* x may be answered, even gone, behind this */
}

static void on_end(void *ctx, struct http_stream *stream, bool is_done)
{
    struct conn *c = ctx;
    struct exchange *x = stream->owner;

    if (!x)
        return;
    stream->owner = NULL;
    if (x->prev)
        x->prev->next = x->next;
    else
        c->exchanges = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->conn = NULL;
    x->stream = NULL;
    loop_timer_stop(&x->timer);
    if (!is_done)
        atomic_store(&x->public.cancelled, true);
    if (!x->is_handed || x->is_answered) {
        exchange_over(x);
        return;
    }
    pthread_mutex_lock(&x->lock);
    x->is_gone = true;
    pthread_cond_broadcast(&x->room);
    pthread_mutex_unlock(&x->lock);
}

const struct http_events exchange_events = {
    .head = on_head, .body = on_body, .complete = on_complete, .end = on_end};

void exchange_cancel_all(struct conn *c)
{
    for (struct exchange *x = c->exchanges; x; x = x->next)
        atomic_store(&x->public.cancelled, true);
}

bool exchange_any_handed(const struct conn *c)
{
    for (const struct exchange *x = c->exchanges; x; x = x->next)
        if (x->is_handed || x->is_answered)
            return true;
    return false;
}

/* ---- replies ---- */

/* What the service's thread has put down goes to the session. */
static void deliver(struct loop_task *task)
{
    struct exchange *x = OWNER_OF(task, struct exchange, task);
    struct http_reply reply = {0};

    pthread_mutex_lock(&x->lock);
    x->is_posted = false;
    bool has_reply = x->has_reply, is_in_pieces = x->is_in_pieces, is_ended = x->is_ended;
    bool is_broken = x->is_broken;
    if (has_reply) {
        reply = x->reply;
        x->reply = (struct http_reply){0};
        x->has_reply = false;
    }
    struct buf part = x->part, trailers = x->trailers;
    x->part = x->trailers = (struct buf){0};
    pthread_mutex_unlock(&x->lock);

    x->is_answered = is_ended || !is_in_pieces;
    struct http_stream *stream = x->stream;
    if (!stream) {
        http_reply_done(&reply);
        buf_done(&part);
        buf_done(&trailers);
        if (x->is_answered)
            exchange_over(x);
        return;
    }
    struct conn *c = x->conn;
    if (has_reply) {
        x->status = reply.status ? reply.status : 200;
        x->sent += reply.body.len;
        stream->session->ops->reply(stream->session, stream, &reply, !is_in_pieces);
    }
    if (is_broken) {
        stream->session->ops->reset(stream->session, stream); /* x may be gone */
    } else if (is_in_pieces && (part.len > 0 || is_ended)) {
        x->sent += part.len;
        stream->session->ops->reply_more(stream->session, stream, &part, is_ended, &trailers);
    }
    buf_done(&part);
    buf_done(&trailers);
    conn_kick(c);
}

/* Called with the lock held, which it gives up. The holder of the last call must not touch x
 * afterwards: it may be gone. */
static void put_down(struct exchange *x, bool is_last)
{
    bool is_mine = loop_is_mine(x->home->loop);
    bool is_due = !x->is_posted;

    x->is_posted = true;
    pthread_mutex_unlock(&x->lock);
    if (!is_due)
        return;
    if (is_mine) {
        deliver(&x->task);
    } else if (!loop_post(x->home->loop, &x->task)) {
        /* The server is no more, and so is the stream. */
        x->is_posted = false;
        if (is_last)
            exchange_free(x);
    }
}

void http_reply_send(struct http_exchange *x, struct http_reply *reply)
{
    struct exchange *e = exchange_of(x);

    pthread_mutex_lock(&e->lock);
    e->reply = *reply;
    *reply = (struct http_reply){0};
    e->has_reply = true;
    put_down(e, true);
}

void http_reply_begin(struct http_exchange *x, struct http_reply *reply)
{
    struct exchange *e = exchange_of(x);

    pthread_mutex_lock(&e->lock);
    e->reply = *reply;
    *reply = (struct http_reply){0};
    e->has_reply = e->is_in_pieces = true;
    e->waiting += e->reply.body.len;
    put_down(e, false);
}

int http_reply_write(struct http_exchange *x, struct buf *part)
{
    struct exchange *e = exchange_of(x);
    bool may_wait = !loop_is_mine(e->home->loop);

    pthread_mutex_lock(&e->lock);
    while (may_wait && e->waiting >= WINDOW && !e->is_gone)
        pthread_cond_wait(&e->room, &e->lock);
    if (e->is_gone || part->len == 0) {
        bool is_gone = e->is_gone;
        pthread_mutex_unlock(&e->lock);
        buf_done(part);
        return is_gone ? -ECANCELED : 0;
    }
    e->waiting += part->len;
    if (e->part.len == 0) {
        buf_done(&e->part);
        e->part = *part;
        *part = (struct buf){0};
    } else {
        buf_add_bytes(&e->part, buf_bytes(part));
        buf_done(part);
    }
    put_down(e, false);
    return 0;
}

void http_reply_break_off(struct http_exchange *x)
{
    struct exchange *e = exchange_of(x);

    pthread_mutex_lock(&e->lock);
    e->is_ended = e->is_broken = true;
    put_down(e, true);
}

void http_reply_end(struct http_exchange *x, struct buf *trailers)
{
    struct exchange *e = exchange_of(x);

    pthread_mutex_lock(&e->lock);
    e->is_ended = true;
    if (trailers) {
        e->trailers = *trailers;
        *trailers = (struct buf){0};
    }
    put_down(e, true);
}

/* ---- clocks ---- */

static void watch_reply(struct exchange *x)
{
    size_t unwritten = x->stream->session->ops->unwritten(x->stream->session, x->stream);
    bool is_moving = unwritten != x->unwritten;

    x->unwritten = unwritten;
    if (unwritten == 0)
        loop_timer_stop(&x->timer);
    else if (is_moving || !x->timer.list)
        loop_timer_start(&x->home->stall, &x->timer,
                         loop_now_ns(x->home->loop) + x->server->o.write_timeout_ns);
    if (x->is_answered)
        return;
    pthread_mutex_lock(&x->lock); /* in pieces: whoever writes them may be waiting */
    x->waiting = unwritten + x->part.len;
    if (x->waiting < WINDOW)
        pthread_cond_broadcast(&x->room);
    pthread_mutex_unlock(&x->lock);
}

void exchange_written(struct conn *c)
{
    for (struct exchange *x = c->exchanges; x; x = x->next)
        if (x->status != 0)
            watch_reply(x);
}

static struct exchange *of_timer(struct loop_timer *timer)
{
    return OWNER_OF(timer, struct exchange, timer);
}

static void body_is_slow(struct loop_timer *timer)
{
    struct exchange *x = of_timer(timer);
    struct conn *c = x->conn;

    refuse(x, 408);
    conn_kick(c);
}

static void reply_stalls(struct loop_timer *timer)
{
    struct exchange *x = of_timer(timer);
    struct conn *c = x->conn;

    count_up(&x->server->timeouts, 1);
    x->stream->session->ops->reset(x->stream->session, x->stream); /* x may be gone */
    conn_kick(c);
}

static void deadline_passed(struct loop_timer *timer)
{
    struct exchange *x = OWNER_OF(timer, struct exchange, deadline);

    atomic_store(&x->public.cancelled, true);
}

void exchange_timers_init(struct home *home)
{
    home->body.expired = body_is_slow;
    home->stall.expired = reply_stalls;
    home->deadline.expired = deadline_passed;
    loop_add_timers(home->loop, &home->body);
    loop_add_timers(home->loop, &home->stall);
    loop_add_timers(home->loop, &home->deadline);
}
