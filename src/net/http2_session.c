#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "net/http2_guard.h"
#include "net/http_session.h"
#include "wire/base64.h"

/*
 * HTTP/2 on nghttp2, which does frames, HPACK, flow control and checks of messages. Added here:
 * limits, floods (http2_guard.h), and replies whose bytes go from their buffer to the output
 * without a stop between.
 */
#define STREAMS_MAX       128
#define STREAM_WINDOW     (1 << 20)
#define CONNECTION_WINDOW (4 << 20)

/* While this much of replies waits to be written, and some streams are open, new ones are refused:
 * a client that asks and does not read cannot make us hold more. */
#define UNWRITTEN_MAX     ((size_t)8 << 20)
#define UNWRITTEN_STREAMS 4

/* A head past its limit is answered; one past this many times the limit ends the connection. */
#define EXCESS_FACTOR 4

/* Clients that are still sending when their reply is complete read it more surely when the stream
 * is not reset at once: so many streams are waited for, each for so many bytes. */
#define LINGERING_MAX       8
#define LINGERING_BYTES_MAX ((size_t)4 << 20)

struct lingering {
    int32_t id;
    size_t dropped;
};

/* A part of a stream's text. */
struct span {
    uint32_t at, len;
};

struct h2_field {
    struct span name, value;
};

struct h2_stream {
    struct http_stream base; /* first: it is what owners know */
    struct h2_stream *prev, *next;
    int32_t id;

    /* The head: text, and where in it what lies. */
    struct buf text;
    struct span method, target, authority;
    struct h2_field *fields;
    size_t n_fields, fields_cap;
    size_t list_size; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
    struct http_header *headers;
    int refusal; /* a status: the head is not acceptable */

    size_t unconsumed; /* of the body: told to the owner, and not dealt with */

    struct http_reply reply;
    size_t sent; /* of reply.body */
    char status_text[12], length_text[24], date_text[32];

    bool is_told;     /* the owner knows it */
    bool is_complete; /* all of the request is here */
    bool is_dropped;  /* the body is not wanted */
    bool has_reply;
    bool is_bodiless; /* the reply is its head only, whatever else comes */
    bool is_last;     /* no more of the reply will come */
    bool is_replied;  /* written entirely */
    bool is_reset;    /* by its owner */
};

struct h2_session {
    struct http_session base; /* first */
    nghttp2_session *nghttp2;
    struct http2_guard guard;
    struct h2_stream *streams;
    size_t unwritten;           /* of all replies */
    struct buf *out;            /* while output is taken */
    size_t out_end;             /* where it is enough */
    const char *excess;         /* found inside a callback: end the connection */
    const char *complaint;      /* the library's, of the last bad frame */
    struct h2_stream *upgraded; /* stream 1, not told of yet */
    bool is_draining, is_goaway_sent;
    struct lingering lingering[LINGERING_MAX]; /* replied to, and told to be over; oldest first */
    size_t n_lingering;
};

static struct h2_session *session_of(struct http_session *s)
{
    return (struct h2_session *)s;
}

static struct h2_stream *stream_of(struct http_stream *s)
{
    return (struct h2_stream *)s;
}

static struct h2_stream *stream_by_id(nghttp2_session *n, int32_t id)
{
    return id > 0 ? nghttp2_session_get_stream_user_data(n, id) : NULL;
}

/* ---- streams ---- */

static struct h2_stream *stream_new(struct h2_session *h, int32_t id)
{
    struct h2_stream *st = must_calloc(1, sizeof(*st));

    st->base.session = &h->base;
    st->base.id = (uint64_t)id;
    st->base.request.body_file = -1;
    st->base.request.is_http2 = true;
    st->id = id;
    st->next = h->streams;
    if (st->next)
        st->next->prev = st;
    h->streams = st;
    h->base.n_streams++;
    return st;
}

/* Tells the owner, if it knows the stream, and frees it. */
static void stream_end(struct h2_session *h, struct h2_stream *st)
{
    if (st->is_told)
        h->base.events.end(h->base.events.ctx, &st->base, st->is_replied);
    h->unwritten -= st->reply.body.len - st->sent;
    if (st->prev)
        st->prev->next = st->next;
    else
        h->streams = st->next;
    if (st->next)
        st->next->prev = st->prev;
    h->base.n_streams--;
    h->base.held -= st->text.len;
    http_reply_done(&st->reply);
    buf_done(&st->text);
    free(st->fields);
    free(st->headers);
    free(st);
}

/* ---- streams that are over, but for the client's body ---- */

static void stop_lingering(struct h2_session *h, int32_t id)
{
    for (size_t i = 0; i < h->n_lingering; i++) {
        if (h->lingering[i].id == id) {
            h->n_lingering--;
            memmove(h->lingering + i, h->lingering + i + 1,
                    (h->n_lingering - i) * sizeof(h->lingering[0]));
            return;
        }
    }
}

static void reset_lingering(struct h2_session *h, int32_t id)
{
    nghttp2_submit_rst_stream(h->nghttp2, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    stop_lingering(h, id);
}

/* The reply is written and the request is not complete: only its number stays. */
static void linger(struct h2_session *h, struct h2_stream *st)
{
    if (h->n_lingering == LINGERING_MAX)
        reset_lingering(h, h->lingering[0].id);
    h->lingering[h->n_lingering++] = (struct lingering){st->id, 0};
    nghttp2_session_consume(h->nghttp2, st->id, st->unconsumed);
    nghttp2_session_set_stream_user_data(h->nghttp2, st->id, NULL);
    stream_end(h, st);
}

static void drop_lingering(struct h2_session *h, int32_t id, size_t len)
{
    for (size_t i = 0; i < h->n_lingering; i++) {
        struct lingering *l = &h->lingering[i];
        if (l->id == id && (l->dropped += len) > LINGERING_BYTES_MAX) {
            reset_lingering(h, id);
            return;
        }
    }
}

/* ---- the end of the connection ---- */

static bool session_fail(struct h2_session *h, uint32_t code, const char *why)
{
    if (!h->base.failure) {
        h->base.failure = why;
        nghttp2_session_terminate_session(h->nghttp2, code);
    }
    h->base.is_closing = true;
    return false;
}

static void update_state(struct h2_session *h)
{
    h->base.is_reading_head = http2_guard_in_head(&h->guard);
    if (!nghttp2_session_want_read(h->nghttp2) && !nghttp2_session_want_write(h->nghttp2))
        h->base.is_closing = true;
}

static void send_goaway(struct h2_session *h)
{
    if (h->is_goaway_sent)
        return;
    h->is_goaway_sent = true;
    nghttp2_submit_goaway(h->nghttp2, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->nghttp2), NGHTTP2_NO_ERROR,
                          NULL, 0);
}

/* ---- replies ---- */

/* HTTP/2 has no such fields; those that the session writes itself are not taken either. */
static bool is_own_field(struct bytes name)
{
    static const char *const names[] = {
        "connection",        "keep-alive", "proxy-connection", "upgrade",
        "transfer-encoding", "date",       "content-length",   "te"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (bytes_are(name, names[i]))
            return true;
    return false;
}

/* Nothing is copied: what a field points at lives as long as its stream. */
static nghttp2_nv make_field(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){(uint8_t *)name.data, (uint8_t *)value.data, name.len, value.len,
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static size_t count_fields(struct bytes encoded)
{
    struct http_header field;
    size_t n = 0;

    while (http_reply_next(&encoded, &field))
        n++;
    return n;
}

static size_t add_fields(nghttp2_nv *to, size_t n, struct bytes encoded)
{
    struct http_header field;

    while (http_reply_next(&encoded, &field))
        if (!is_own_field(field.name))
            to[n++] = make_field(field.name, field.value);
    return n;
}

static ssize_t read_reply(nghttp2_session *n, int32_t id, uint8_t *to, size_t max, uint32_t *flags,
                          nghttp2_data_source *source, void *arg)
{
    struct h2_stream *st = source->ptr;
    size_t left = st->reply.body.len - st->sent;

    (void)to;
    (void)arg;
    if (left == 0 && !st->is_last)
        return NGHTTP2_ERR_DEFERRED;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (left > max)
        return (ssize_t)max;
    if (!st->is_last)
        return (ssize_t)left;

    *flags |= NGHTTP2_DATA_FLAG_EOF;
    struct bytes trailers = buf_bytes(&st->reply.trailers);
    if (trailers.len > 0) {
        CLEANUP(freep) nghttp2_nv *fields = must_calloc(count_fields(trailers), sizeof(*fields));
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(n, id, fields, add_fields(fields, 0, trailers)) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)left;
}

/* Writes a DATA frame whose length was settled by read_reply(). */
static int write_data(nghttp2_session *n, nghttp2_frame *frame, const uint8_t *head, size_t len,
                      nghttp2_data_source *source, void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = source->ptr;

    (void)n;
    (void)frame; /* not padded: nobody asks for it */
    if (h->out->len >= h->out_end)
        return NGHTTP2_ERR_WOULDBLOCK;
    buf_add(h->out, head, 9);
    if (len > 0)
        buf_add(h->out, st->reply.body.data + st->sent, len);
    st->sent += len;
    h->unwritten -= len;
    http2_guard_wrote(&h->guard, len);
    return 0;
}

static bool is_bodiless(const struct h2_stream *st, bool is_whole)
{
    const struct http_reply *r = &st->reply;

    return r->is_head_only || r->status == 204 || r->status == 304 ||
           bytes_are(st->base.request.method, "HEAD") ||
           (is_whole && r->body.len == 0 && r->trailers.len == 0);
}

/* The head of the reply, as the library wants it; free() it. */
static nghttp2_nv *make_head(struct h2_stream *st, bool is_whole, size_t *ret_n)
{
    struct http_reply *r = &st->reply;
    struct bytes head = buf_bytes(&r->head), trailers = buf_bytes(&r->trailers);
    nghttp2_nv *to =
        must_calloc(count_fields(head) + count_fields(trailers) + 3, sizeof(nghttp2_nv));
    size_t n = 0;

    snprintf(st->status_text, sizeof(st->status_text), "%d", r->status);
    snprintf(st->date_text, sizeof(st->date_text), "%s", http_date());
    to[n++] = make_field(BYTES(":status"), bytes_of(st->status_text));
    n = add_fields(to, n, head);
    if (r->is_head_only)
        n = add_fields(to, n, trailers);
    else if (is_whole && trailers.len == 0 && r->status >= 200 && r->status != 204 &&
             r->status != 304) {
        snprintf(st->length_text, sizeof(st->length_text), "%zu", r->body.len);
        to[n++] = make_field(BYTES("content-length"), bytes_of(st->length_text));
    }
    to[n++] = make_field(BYTES("date"), bytes_of(st->date_text));
    *ret_n = n;
    return to;
}

static void h2_reset(struct http_session *s, struct http_stream *stream)
{
    struct h2_stream *st = stream_of(stream);

    st->is_reset = true;
    nghttp2_submit_rst_stream(session_of(s)->nghttp2, NGHTTP2_FLAG_NONE, st->id,
                              NGHTTP2_INTERNAL_ERROR);
}

static void h2_reply(struct http_session *s, struct http_stream *stream, struct http_reply *reply,
                     bool is_whole)
{
    struct h2_session *h = session_of(s);
    struct h2_stream *st = stream_of(stream);
    nghttp2_data_provider body = {.source.ptr = st, .read_callback = read_reply};
    size_t n;

    if (st->has_reply) {
        http_reply_done(reply);
        return;
    }
    st->has_reply = true;
    st->reply = *reply;
    *reply = (struct http_reply){0};
    if (st->reply.status < 200)
        st->reply.status = 200;
    st->is_last = is_whole;
    st->is_bodiless = is_bodiless(st, is_whole);
    CLEANUP(freep) nghttp2_nv *head = make_head(st, is_whole, &n);
    if (st->is_bodiless)
        buf_done(&st->reply.body);
    h->unwritten += st->reply.body.len;
    if (nghttp2_submit_response(h->nghttp2, st->id, head, n, st->is_bodiless ? NULL : &body) != 0)
        h2_reset(s, stream);
    if (st->reply.closes)
        send_goaway(h);
}

/* Puts `part` behind what is left of the body, and takes it over. */
static void append_part(struct h2_stream *st, struct buf *part)
{
    struct buf *body = &st->reply.body;
    size_t left = body->len - st->sent;

    if (left == 0) {
        buf_done(body);
        *body = *part;
        *part = (struct buf){0};
        st->sent = 0;
        return;
    }
    /* What was sent goes once it is the larger part, so that nothing is moved often. */
    if (st->sent > left) {
        memmove(body->data, body->data + st->sent, left);
        body->len = left;
        st->sent = 0;
    }
    buf_add_bytes(body, buf_bytes(part));
    buf_done(part);
}

static void h2_reply_more(struct http_session *s, struct http_stream *stream, struct buf *part,
                          bool is_last, struct buf *trailers)
{
    struct h2_session *h = session_of(s);
    struct h2_stream *st = stream_of(stream);

    if (!st->has_reply || st->is_bodiless || st->is_last) {
        if (part)
            buf_done(part);
        if (trailers)
            buf_done(trailers);
        return;
    }
    if (part && part->len > 0) {
        h->unwritten += part->len;
        append_part(st, part);
    } else if (part) {
        buf_done(part);
    }
    st->is_last = is_last;
    if (trailers) {
        buf_done(&st->reply.trailers);
        st->reply.trailers = *trailers;
        *trailers = (struct buf){0};
    }
    /* Fails when nothing was waiting for more: then it is read in its turn. */
    (void)nghttp2_session_resume_data(h->nghttp2, st->id);
}

static size_t h2_unwritten(const struct http_session *s, const struct http_stream *stream)
{
    const struct h2_stream *st = (const struct h2_stream *)stream;

    (void)s;
    return st->reply.body.len - st->sent;
}

/* ---- the head of a request ---- */

static struct span add_text(struct h2_stream *st, struct bytes text)
{
    struct span s = {(uint32_t)st->text.len, (uint32_t)text.len};

    buf_add_bytes(&st->text, text);
    st->base.session->held += text.len;
    return s;
}

static struct bytes text_of(const struct h2_stream *st, struct span s)
{
    return s.len ? (struct bytes){st->text.data + s.at, s.len} : (struct bytes){0};
}

static void add_field(struct h2_stream *st, struct bytes name, struct bytes value)
{
    if (st->n_fields == st->fields_cap) {
        st->fields_cap = st->fields_cap ? st->fields_cap * 2 : 16;
        st->fields = must_realloc(st->fields, st->fields_cap * sizeof(*st->fields));
    }
    struct span at = add_text(st, name);
    st->fields[st->n_fields++] = (struct h2_field){at, add_text(st, value)};
}

static void add_pseudo(struct h2_session *h, struct h2_stream *st, struct bytes name,
                       struct bytes value)
{
    if (bytes_are(name, ":method"))
        st->method = add_text(st, value);
    else if (bytes_are(name, ":authority"))
        st->authority = add_text(st, value);
    else if (bytes_are(name, ":path") && value.len > h->base.limits.target_max)
        st->refusal = 414;
    else if (bytes_are(name, ":path"))
        st->target = add_text(st, value);
}

/* Counts a field, of the head or of trailers. False when there are too many. */
static bool count_field(struct h2_session *h, struct h2_stream *st, struct bytes name,
                        struct bytes value)
{
    const struct http_session_limits *l = &h->base.limits;

    st->list_size += name.len + value.len + 32;
    if (st->list_size > l->header_bytes_max * EXCESS_FACTOR)
        h->excess = "the fields of a head unpack to too much";
    return st->list_size <= l->header_bytes_max && st->n_fields < l->headers_max;
}

static int on_header(nghttp2_session *n, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = stream_by_id(n, frame->hd.stream_id);
    struct bytes key = {name, name_len}, text = {value, value_len};

    (void)flags;
    if (!st) { /* trailers of a stream that lingers */
        reset_lingering(h, frame->hd.stream_id);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    bool fits = count_field(h, st, key, text);
    if (h->excess)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        /* Trailers: counted, and of no use to anyone. */
        st->n_fields++;
        if (fits)
            return 0;
        nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_ENHANCE_YOUR_CALM);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (!fits && st->refusal == 0)
        st->refusal = 431;
    if (st->refusal != 0)
        return 0;
    if (name_len > 0 && name[0] == ':')
        add_pseudo(h, st, key, text);
    else
        add_field(st, key, text);
    return 0;
}

/* What the library would only leave out: control characters and the like. */
static int on_invalid_header(nghttp2_session *n, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                             void *arg)
{
    (void)name;
    (void)name_len;
    (void)value;
    (void)value_len;
    (void)flags;
    (void)arg;
    nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_begin_headers(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
    struct h2_session *h = arg;
    int32_t id = frame->hd.stream_id;

    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    if (h->unwritten > UNWRITTEN_MAX && h->base.n_streams >= UNWRITTEN_STREAMS) {
        nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    nghttp2_session_set_stream_user_data(n, id, stream_new(h, id));
    return 0;
}

static bool is_same_host(struct bytes a, struct bytes b)
{
    return a.len == b.len && strncasecmp((const char *)a.data, (const char *)b.data, a.len) == 0;
}

/* Makes the request of what was collected. */
static void build_request(struct h2_stream *st)
{
    struct http_request *r = &st->base.request;
    struct bytes target = text_of(st, st->target);
    const uint8_t *mark = bytes_find_byte(target, '?');
    size_t path_len = mark ? (size_t)(mark - target.data) : target.len;

    st->headers = must_calloc(st->n_fields + 1, sizeof(*st->headers));
    for (size_t i = 0; i < st->n_fields; i++)
        st->headers[i] =
            (struct http_header){text_of(st, st->fields[i].name), text_of(st, st->fields[i].value)};
    r->headers = st->headers;
    r->n_headers = st->n_fields;
    r->method = text_of(st, st->method);
    r->path = bytes_head(target, path_len);
    r->query = bytes_from(target, path_len + 1);
    r->authority = text_of(st, st->authority);
    struct bytes host = http_header_value(r, "host");
    if (r->authority.len == 0)
        r->authority = host;
    else if (host.len > 0 && !is_same_host(r->authority, host))
        st->refusal = 400; /* two readers could see different hosts */
    if (bytes_are(r->method, "CONNECT"))
        st->refusal = 501;
}

/* The session's own answer to a head that nobody else sees. */
static void refuse(struct h2_session *h, struct h2_stream *st)
{
    struct http_reply reply = {.status = st->refusal};
    const struct http_session_limits *l = &h->base.limits;

    http_reply_header(&reply, "content-type", BYTES("text/plain; charset=utf-8"));
    if (st->refusal == 431)
        buf_addf(&reply.body, "the request's head is over a limit: %zu fields, %zu bytes\n",
                 l->headers_max, l->header_bytes_max);
    else if (st->refusal == 414)
        buf_addf(&reply.body, "the request's target is over the limit of %zu bytes\n",
                 l->target_max);
    else if (st->refusal == 400)
        buf_add_str(&reply.body, ":authority and host are not the same\n");
    else
        buf_add_str(&reply.body, "CONNECT is not supported\n");
    st->is_dropped = true;
    h2_reply(&h->base, &st->base, &reply, true);
}

static void send_continue(struct h2_session *h, const struct h2_stream *st)
{
    nghttp2_nv field = make_field(BYTES(":status"), BYTES("100"));

    if (http_value_has_token(http_header_value(&st->base.request, "expect"), "100-continue"))
        nghttp2_submit_headers(h->nghttp2, NGHTTP2_FLAG_NONE, st->id, NULL, &field, 1, NULL);
}

static void head_is_here(struct h2_session *h, struct h2_stream *st)
{
    const struct http_events *e = &h->base.events;

    if (st->refusal == 0)
        build_request(st);
    if (st->refusal != 0) {
        refuse(h, st);
        return;
    }
    st->is_told = true;
    st->is_dropped = !e->head(e->ctx, &st->base);
    if (!st->is_dropped && !st->is_complete && !st->has_reply)
        send_continue(h, st);
}

static void request_is_here(struct h2_session *h, struct h2_stream *st)
{
    const struct http_events *e = &h->base.events;

    if (st->is_told && !st->is_dropped && !st->is_reset)
        e->complete(e->ctx, &st->base);
}

/* ---- what the library tells ---- */

static int on_frame_recv(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = stream_by_id(n, frame->hd.stream_id);
    uint8_t type = frame->hd.type;

    if (type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK && h->is_draining)
        send_goaway(h);
    if (!st || (type != NGHTTP2_HEADERS && type != NGHTTP2_DATA))
        return 0;
    st->is_complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        head_is_here(h, st);
    if (st->is_complete)
        request_is_here(h, st);
    return 0;
}

static int on_data(nghttp2_session *n, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                   void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = stream_by_id(n, id);
    const struct http_events *e = &h->base.events;

    (void)flags;
    if (!st || !st->is_told || st->is_dropped || st->is_reset) {
        nghttp2_session_consume(n, id, len);
        if (!st)
            drop_lingering(h, id, len);
        return 0;
    }
    st->unconsumed += len;
    e->body(e->ctx, &st->base, (struct bytes){data, len});
    return 0;
}

static int on_stream_close(nghttp2_session *n, int32_t id, uint32_t code, void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = stream_by_id(n, id);

    (void)code;
    if (!st) {
        stop_lingering(h, id);
        return 0;
    }
    /* The stream's window goes with it; the connection's must not. */
    if (st->unconsumed > 0)
        nghttp2_session_consume_connection(n, st->unconsumed);
    nghttp2_session_set_stream_user_data(n, id, NULL);
    stream_end(h, st);
    return 0;
}

static void reset_was_sent(struct h2_session *h, const nghttp2_frame *frame,
                           const struct h2_stream *st)
{
    if (frame->rst_stream.error_code == NGHTTP2_NO_ERROR || (st && st->is_reset))
        return;
    const char *failure = http2_guard_reset_sent(&h->guard);
    if (failure)
        session_fail(h, NGHTTP2_ENHANCE_YOUR_CALM, failure);
}

static int on_frame_send(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = stream_by_id(n, frame->hd.stream_id);

    switch (frame->hd.type) {
    case NGHTTP2_RST_STREAM:
        reset_was_sent(h, frame, st);
        break;
    case NGHTTP2_GOAWAY:
        if (frame->goaway.error_code != NGHTTP2_NO_ERROR && !h->base.failure)
            h->base.failure =
                h->complaint ? h->complaint : nghttp2_http2_strerror(frame->goaway.error_code);
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        if (!st || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            break;
        st->is_replied = true;
        http2_guard_replied(&h->guard);
        if (!st->is_complete)
            linger(h, st);
        break;
    default:
        break;
    }
    return 0;
}

/* A head that could not be written (too large): the stream must not wait for ever. */
static int on_frame_not_send(nghttp2_session *n, const nghttp2_frame *frame, int code, void *arg)
{
    (void)code;
    (void)arg;
    if (frame->hd.type == NGHTTP2_HEADERS)
        nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_INTERNAL_ERROR);
    return 0;
}

static int on_invalid_frame(nghttp2_session *n, const nghttp2_frame *frame, int code, void *arg)
{
    struct h2_session *h = arg;

    (void)n;
    (void)frame;
    h->complaint = nghttp2_strerror(code);
    return 0;
}

/* ---- the session ---- */

/* Tells of the request that came with HTTP/1.1, once the owner has the session. */
static void tell_upgraded(struct h2_session *h)
{
    struct h2_stream *st = TAKE_PTR(h->upgraded);

    if (!st)
        return;
    head_is_here(h, st);
    request_is_here(h, st);
}

static bool h2_feed(struct http_session *s, struct bytes in)
{
    struct h2_session *h = session_of(s);

    if (s->failure)
        return false;
    tell_upgraded(h);
    const char *failure = http2_guard_feed(&h->guard, in, clock_monotonic_ns(clock_real()));
    if (failure)
        return session_fail(h, h->guard.code, failure);
    ssize_t n = in.len > 0 ? nghttp2_session_mem_recv(h->nghttp2, in.data, in.len) : 0;
    if (n < 0)
        return session_fail(
            h, n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR,
            nghttp2_strerror((int)n));
    if (h->excess)
        return session_fail(h, NGHTTP2_ENHANCE_YOUR_CALM, h->excess);
    update_state(h);
    return !s->failure;
}

/* After the last GOAWAY nothing is written: whoever still waits must hear of it. */
static void abandon_streams(struct h2_session *h)
{
    while (h->streams) {
        nghttp2_session_set_stream_user_data(h->nghttp2, h->streams->id, NULL);
        stream_end(h, h->streams);
    }
}

static void h2_take_output(struct http_session *s, struct buf *out, size_t max)
{
    struct h2_session *h = session_of(s);
    const uint8_t *data;
    ssize_t n = 0;

    tell_upgraded(h);
    h->out = out;
    h->out_end = out->len + max;
    while (out->len < h->out_end && nghttp2_session_want_write(h->nghttp2)) {
        n = nghttp2_session_mem_send(h->nghttp2, &data);
        if (n <= 0)
            break;
        buf_add(out, data, (size_t)n);
    }
    h->out = NULL;
    if (n < 0)
        session_fail(h, NGHTTP2_INTERNAL_ERROR, nghttp2_strerror((int)n));
    update_state(h);
    if (s->failure && !nghttp2_session_want_write(h->nghttp2))
        abandon_streams(h);
}

static void h2_consumed(struct http_session *s, struct http_stream *stream, size_t n)
{
    struct h2_stream *st = stream_of(stream);

    if (n > st->unconsumed)
        n = st->unconsumed;
    st->unconsumed -= n;
    if (n > 0)
        nghttp2_session_consume(session_of(s)->nghttp2, st->id, n);
}

static void h2_drain(struct http_session *s)
{
    struct h2_session *h = session_of(s);

    if (h->is_draining)
        return;
    h->is_draining = true;
    /* Requests on their way are still taken: the final GOAWAY follows when the client has seen the
     * first, that is, with its answer to the PING. */
    nghttp2_submit_shutdown_notice(h->nghttp2);
    nghttp2_submit_ping(h->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

static void h2_free(struct http_session *s)
{
    struct h2_session *h = session_of(s);

    while (h->streams)
        stream_end(h, h->streams);
    nghttp2_session_del(h->nghttp2);
    free(h);
}

static const struct http_session_ops h2_ops = {
    .free = h2_free,
    .feed = h2_feed,
    .take_output = h2_take_output,
    .consumed = h2_consumed,
    .reply = h2_reply,
    .reply_more = h2_reply_more,
    .unwritten = h2_unwritten,
    .reset = h2_reset,
    .drain = h2_drain,
};

static nghttp2_session *make_nghttp2(struct h2_session *h)
{
    nghttp2_session_callbacks *calls = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *session = NULL;

    if (nghttp2_session_callbacks_new(&calls) == 0 && nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback(calls, on_invalid_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame_recv);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_frame_send);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, on_frame_not_send);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, on_invalid_frame);
        nghttp2_session_callbacks_set_send_data_callback(calls, write_data);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_max_outbound_ack(option, 1000);
        nghttp2_option_set_max_settings(option, 32);
        (void)nghttp2_session_server_new2(&session, calls, h, option);
    }
    nghttp2_session_callbacks_del(calls);
    nghttp2_option_del(option);
    return session;
}

static void submit_settings(struct h2_session *h)
{
    const struct http_session_limits *l = &h->base.limits;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, l->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)l->header_bytes_max},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };

    nghttp2_submit_settings(h->nghttp2, NGHTTP2_FLAG_NONE, settings, ARRAY_SIZE(settings));
    nghttp2_session_set_local_window_size(h->nghttp2, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

static struct h2_session *session_new(const struct http_events *events,
                                      const struct http_session_limits *limits)
{
    struct h2_session *h = must_calloc(1, sizeof(*h));
    struct http_session_limits *l = &h->base.limits;

    h->base.ops = &h2_ops;
    h->base.events = *events;
    if (limits)
        *l = *limits;
    if (l->headers_max == 0)
        l->headers_max = HTTP_HEADERS_MAX;
    if (l->header_bytes_max == 0)
        l->header_bytes_max = HTTP_HEADER_BYTES_MAX;
    if (l->target_max == 0)
        l->target_max = HTTP_TARGET_MAX;
    if (l->streams_max == 0)
        l->streams_max = STREAMS_MAX;
    http2_guard_init(&h->guard, l->header_bytes_max);
    h->base.is_reading_head = true;
    h->nghttp2 = make_nghttp2(h);
    if (!h->nghttp2)
        abort(); /* out of memory, as must.h has it */
    return h;
}

struct http_session *http2_session_new(const struct http_events *events,
                                       const struct http_session_limits *limits)
{
    struct h2_session *h = session_new(events, limits);

    submit_settings(h);
    return &h->base;
}

/* Fields of the request that were about HTTP/1.1. */
static bool is_upgrade_field(struct bytes name)
{
    return is_own_field(name) || bytes_are(name, "http2-settings");
}

static void copy_request(struct h2_stream *st, const struct http_request *r)
{
    st->method = add_text(st, r->method);
    st->authority = add_text(st, r->authority);
    st->target = add_text(st, r->path);
    if (r->query.len > 0) {
        st->target.len += add_text(st, BYTES("?")).len;
        st->target.len += add_text(st, r->query).len;
    }
    for (size_t i = 0; i < r->n_headers; i++)
        if (!is_upgrade_field(r->headers[i].name))
            add_field(st, r->headers[i].name, r->headers[i].value);
}

struct http_session *http2_session_upgrade(const struct http_events *events,
                                           const struct http_session_limits *limits,
                                           const struct http_request *request,
                                           struct bytes settings)
{
    CLEANUP(buf_done) struct buf payload = {0};
    bool is_head = bytes_are(request->method, "HEAD");

    if (!base64_decode(settings, &payload))
        return NULL;
    struct h2_session *h = session_new(events, limits);
    struct h2_stream *st = stream_new(h, 1);
    copy_request(st, request);
    st->is_complete = true;
    if (nghttp2_session_upgrade2(h->nghttp2, payload.data, payload.len, is_head, NULL) != 0) {
        h2_free(&h->base);
        return NULL;
    }
    nghttp2_session_set_stream_user_data(h->nghttp2, 1, st);
    h->upgraded = st;
    h->guard.last_id = 1;
    submit_settings(h);
    return &h->base;
}

int http2_is_preface(struct bytes head)
{
    struct bytes preface = BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    size_t n = head.len < preface.len ? head.len : preface.len;

    if (n > 0 && memcmp(head.data, preface.data, n) != 0)
        return 0;
    return n == preface.len ? 1 : -1;
}
