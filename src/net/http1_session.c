#include <stdlib.h>
#include <strings.h>

#include "base/must.h"
#include "net/http1_request.h"
#include "net/http_session.h"

#define CHUNK_LINE_MAX 256
#define COPIED_MAX     ((size_t)64 << 10) /* a body up to this goes out in one piece with its head */

enum state {
    AT_HEAD,
    AT_BODY, /* of known length */
    AT_CHUNK_SIZE,
    AT_CHUNK,
    AT_CHUNK_END,
    AT_TRAILER,
    AT_REPLY,   /* the request is complete */
    AT_UPGRADE, /* the request is complete, and nobody was told of it yet */
    AT_END,     /* whatever comes is dropped */
};

struct stream {
    struct http_stream base;
    struct buf text; /* of the head */
    struct http1_message message;
    struct http_header headers[];
};

struct session {
    struct http_session base;
    struct stream *stream; /* one at a time */
    uint64_t n_requests;
    enum state state;
    struct http1_head head;
    struct buf line; /* of chunks and trailers */
    size_t n_trailer_bytes, n_fields;
    uint64_t left;   /* of the body or chunk */
    struct buf rest; /* input behind the request at hand... */
    size_t rest_at;  /* ...from here */

    struct buf out; /* ready to be written, from out_at */
    size_t out_at;
    struct buf body; /* of a large reply, behind `out` */
    size_t body_at;
    bool is_begun, is_whole; /* the reply */
    bool is_chunked;         /* its body */
    bool is_bodiless;        /* HEAD and the like: body bytes are dropped */
    bool closes;             /* behind this reply */
    bool is_draining;
};

static struct session *session_of(struct http_session *s)
{
    return (struct session *)s;
}

/* What others read of the session. */
static void show(struct session *s)
{
    s->base.is_paused = s->state == AT_REPLY || s->state == AT_UPGRADE;
    s->base.is_reading_head = s->state == AT_HEAD && s->head.text.len > 0;
    s->base.held = s->head.text.cap + s->rest.cap + s->line.cap;
}

/* ---- the end of streams and of the session ---- */

static void end_stream(struct session *s, bool is_done)
{
    struct stream *stream = s->stream;

    if (!stream)
        return;
    s->stream = NULL;
    s->base.n_streams = 0;
    s->is_begun = s->is_whole = false;
    s->base.events.end(s->base.events.ctx, &stream->base, is_done);
    buf_done(&stream->text);
    free(stream);
}

static void end_session(struct session *s)
{
    s->state = AT_END;
    s->base.is_closing = true;
    buf_done(&s->head.text);
    buf_done(&s->rest);
    buf_done(&s->line);
}

/* A request that is not understood: an answer of our own, and the end. */
static void refuse(struct session *s, int status, const char *why)
{
    s->base.failure = why;
    if (!s->is_begun)
        buf_addf(&s->out,
                 "HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\ncontent-length: %zu\r\n"
                 "connection: close\r\n\r\n%s\n",
                 status, http_reason(status), strlen(why) + 1, why);
    end_stream(s, false);
    end_session(s);
}

static void session_free(struct http_session *base)
{
    struct session *s = session_of(base);

    end_stream(s, false);
    end_session(s);
    buf_done(&s->out);
    buf_done(&s->body);
    free(s);
}

static void session_reset(struct http_session *base, struct http_stream *stream)
{
    struct session *s = session_of(base);

    if (!s->stream || &s->stream->base != stream)
        return;
    buf_done(&s->out);
    buf_done(&s->body);
    s->out_at = s->body_at = 0;
    end_session(s);
    end_stream(s, false);
}

static void session_drain(struct http_session *base)
{
    struct session *s = session_of(base);

    s->is_draining = true;
    if (!s->stream)
        end_session(s);
}

/* ---- requests ---- */

static void complete(struct session *s)
{
    s->state = AT_REPLY;
    s->base.events.complete(s->base.events.ctx, &s->stream->base);
}

/* Tells of the request and says what to read next. */
static void tell(struct session *s)
{
    const struct http1_message *m = &s->stream->message;
    bool has_body = m->is_chunked || m->length > 0;

    s->state = has_body ? AT_BODY : AT_REPLY; /* for a reply from within */
    bool is_wanted = s->base.events.head(s->base.events.ctx, &s->stream->base);
    if (s->state == AT_END || !s->stream)
        return;
    if (has_body && (!is_wanted || s->is_begun)) {
        s->closes = true;
        s->state = AT_REPLY;
        return;
    }
    if (!is_wanted)
        return;
    if (!has_body) {
        complete(s);
        return;
    }
    if (m->expects_continue)
        buf_add_str(&s->out, "HTTP/1.1 100 Continue\r\n\r\n");
    s->left = m->length;
    s->n_fields = m->n_headers;
    s->n_trailer_bytes = 0;
    s->state = m->is_chunked ? AT_CHUNK_SIZE : AT_BODY;
}

static void head_complete(struct session *s)
{
    uint32_t n = s->head.n_headers;
    struct stream *stream = must_calloc(1, sizeof(*stream) + n * sizeof(stream->headers[0]));
    const char *why;

    int status = http1_head_finish(&s->head, stream->headers, &stream->message, &why);
    if (status != 0) {
        free(stream);
        refuse(s, status, why);
        return;
    }
    stream->text = s->head.text;
    s->head = (struct http1_head){0};
    const struct http1_message *m = &stream->message;
    stream->base.session = &s->base;
    stream->base.id = ++s->n_requests;
    stream->base.request = (struct http_request){
        .method = m->method,
        .path = m->path,
        .query = m->query,
        .authority = m->authority,
        .headers = m->headers,
        .n_headers = m->n_headers,
        .body_file = -1,
    };
    s->stream = stream;
    s->base.n_streams = 1;
    s->is_begun = s->is_whole = s->is_chunked = false;
    s->is_bodiless = bytes_are(m->method, "HEAD");
    s->closes = m->closes;
    if (m->asks_h2c && s->base.limits.offers_h2c && !s->is_draining)
        s->state = AT_UPGRADE;
    else
        tell(s);
}

bool http1_session_asks_upgrade(struct http_session *session,
                                const struct http_request **ret_request, struct bytes *ret_settings)
{
    struct session *s = session_of(session);

    if (s->state != AT_UPGRADE)
        return false;
    *ret_request = &s->stream->base.request;
    *ret_settings = s->stream->message.settings;
    return true;
}

void http1_session_end_upgrade(struct http_session *session, bool is_taken, struct buf *rest)
{
    struct session *s = session_of(session);

    if (!is_taken) {
        tell(s);
        show(s);
        return;
    }
    buf_add_bytes(rest, bytes_from(buf_bytes(&s->rest), s->rest_at));
    buf_done(&s->stream->text);
    free(s->stream);
    s->stream = NULL;
    s->base.n_streams = 0;
    end_session(s);
    show(s);
}

static void feed_body(struct session *s, struct bytes *in)
{
    size_t n = s->left < in->len ? (size_t)s->left : in->len;
    struct bytes part = bytes_head(*in, n);

    *in = bytes_from(*in, n);
    s->left -= n;
    s->base.events.body(s->base.events.ctx, &s->stream->base, part);
    if (s->state != AT_BODY && s->state != AT_CHUNK) /* answered or broken off meanwhile */
        return;
    if (s->left == 0 && s->state == AT_CHUNK)
        s->state = AT_CHUNK_END;
    else if (s->left == 0)
        complete(s);
}

static void take_trailer(struct session *s)
{
    const char *why = http1_check_field(s->line.data, s->line.len);
    const uint8_t *colon = bytes_find_byte(buf_bytes(&s->line), ':');

    if (!why &&
        http1_is_forbidden_trailer(bytes_head(buf_bytes(&s->line), (size_t)(colon - s->line.data))))
        why = "a trailer has a name that only headers may have";
    if (why)
        refuse(s, 400, why);
    else if (++s->n_fields > s->base.limits.headers_max)
        refuse(s, 431, "there are too many headers and trailers");
}

/* A line between chunks is complete, without its CR LF. */
static void take_line(struct session *s)
{
    struct bytes line = buf_bytes(&s->line);

    switch (s->state) {
    case AT_CHUNK_SIZE:
        if (!http1_chunk_size(line, &s->left))
            refuse(s, 400, "a chunk has no readable size");
        else
            s->state = s->left ? AT_CHUNK : AT_TRAILER;
        break;
    case AT_CHUNK_END:
        if (line.len != 0)
            refuse(s, 400, "a chunk is longer than its size");
        else
            s->state = AT_CHUNK_SIZE;
        break;
    default:
        if (line.len == 0)
            complete(s);
        else
            take_trailer(s);
    }
    buf_clear(&s->line);
}

/* Each kind of line has its own bound, which bites before the line is complete. */
static bool is_too_long(const struct session *s, size_t n)
{
    if (s->state == AT_TRAILER)
        return s->n_trailer_bytes + n > s->base.limits.header_bytes_max;
    return n > (s->state == AT_CHUNK_END ? 2 : CHUNK_LINE_MAX);
}

static void feed_line(struct session *s, struct bytes *in)
{
    const uint8_t *end = bytes_find_byte(*in, '\n');
    size_t n = end ? (size_t)(end - in->data) + 1 : in->len;

    if (is_too_long(s, s->line.len + n)) {
        refuse(s, s->state == AT_TRAILER ? 431 : 400,
               s->state == AT_TRAILER     ? "the trailers are too long"
               : s->state == AT_CHUNK_END ? "a chunk is longer than its size"
                                          : "a chunk's line is too long");
        return;
    }
    buf_add(&s->line, in->data, n);
    *in = bytes_from(*in, n);
    if (!end)
        return;
    size_t len = s->line.len;
    if (s->state == AT_TRAILER)
        s->n_trailer_bytes += len;
    if (len < 2 || s->line.data[len - 2] != '\r' || memchr(s->line.data, '\r', len - 2)) {
        refuse(s, 400, "a line does not end in CR LF");
        return;
    }
    s->line.len = len - 2;
    take_line(s);
}

static void feed_head(struct session *s, struct bytes *in)
{
    const char *why;
    int r = http1_head_feed(&s->head, &s->base.limits, in, &why);

    if (r == 1)
        head_complete(s);
    else if (r != 0)
        refuse(s, r, why);
}

/* Takes off *in what can be used now: all, or what comes before a request that has to wait. */
static void process(struct session *s, struct bytes *in)
{
    while (in->len > 0 && s->state != AT_REPLY && s->state != AT_UPGRADE) {
        if (s->state == AT_HEAD)
            feed_head(s, in);
        else if (s->state == AT_BODY || s->state == AT_CHUNK)
            feed_body(s, in);
        else if (s->state == AT_END)
            *in = (struct bytes){0};
        else
            feed_line(s, in);
    }
}

static bool session_feed(struct http_session *base, struct bytes in)
{
    struct session *s = session_of(base);

    if (s->rest.len == 0)
        process(s, &in);
    /* Behind a reply that closes nothing is read any more. */
    if (in.len > 0 && s->state != AT_END && !s->closes)
        buf_add_bytes(&s->rest, in);
    show(s);
    return s->base.failure == NULL;
}

/* ---- replies ---- */

/* What the session itself writes. */
static bool is_ours(struct bytes name)
{
    return bytes_are(name, "content-length") || bytes_are(name, "connection") ||
           bytes_are(name, "transfer-encoding") || bytes_are(name, "date");
}

static void write_fields(struct buf *out, struct bytes encoded)
{
    struct http_header f;

    while (http_reply_next(&encoded, &f)) {
        if (is_ours(f.name))
            continue;
        buf_add_bytes(out, f.name);
        buf_add(out, ": ", 2);
        buf_add_bytes(out, f.value);
        buf_add(out, "\r\n", 2);
    }
}

static void write_head(struct session *s, const struct http_reply *reply, int status,
                       bool has_length)
{
    struct buf *out = &s->out;

    buf_reserve(out, 256 + reply->head.len + (reply->body.len <= COPIED_MAX ? reply->body.len : 0));
    buf_addf(out, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
    write_fields(out, buf_bytes(&reply->head));
    if (reply->is_head_only)
        write_fields(out, buf_bytes(&reply->trailers));
    buf_addf(out, "date: %s\r\n", http_date());
    if (has_length) {
        buf_add_str(out, "content-length: ");
        buf_add_u64(out, reply->is_head_only ? 0 : reply->body.len);
        buf_add(out, "\r\n", 2);
    } else if (s->is_chunked) {
        buf_add_str(out, "transfer-encoding: chunked\r\n");
    }
    if (s->closes)
        buf_add_str(out, "connection: close\r\n");
    buf_add(out, "\r\n", 2);
}

/* One part of the body, as a chunk where there are chunks. */
static void write_part(struct session *s, struct bytes part)
{
    if (part.len == 0 || s->is_bodiless)
        return;
    if (s->is_chunked)
        buf_addf(&s->out, "%zx\r\n", part.len);
    buf_add_bytes(&s->out, part);
    if (s->is_chunked)
        buf_add(&s->out, "\r\n", 2);
}

static void write_end(struct session *s, const struct buf *trailers)
{
    s->is_whole = true;
    if (!s->is_chunked || s->is_bodiless)
        return;
    buf_add_str(&s->out, "0\r\n");
    if (trailers && s->stream->message.takes_trailers)
        write_fields(&s->out, buf_bytes(trailers));
    buf_add(&s->out, "\r\n", 2);
}

static void begin_reply(struct session *s, const struct http_reply *reply)
{
    s->is_begun = true;
    s->closes |= reply->closes || s->is_draining;
    if (s->state == AT_REPLY)
        return;
    /* Answered before all was read: what is left of the request cannot be told from the next. */
    s->closes = true;
    s->state = AT_REPLY;
}

static void session_reply(struct http_session *base, struct http_stream *stream,
                          struct http_reply *reply, bool is_whole)
{
    struct session *s = session_of(base);

    if (!s->stream || &s->stream->base != stream || s->is_begun) {
        http_reply_done(reply);
        return;
    }
    begin_reply(s, reply);
    const struct http1_message *m = &s->stream->message;
    int status = reply->status ? reply->status : 200;
    bool has_none = status == 204 || status == 304; /* neither body nor length */
    bool has_trailers = reply->trailers.len > 0 && !reply->is_head_only && m->takes_trailers;
    bool has_length = !has_none && is_whole && (!has_trailers || m->is_http10 || s->is_bodiless);

    s->is_bodiless |= has_none || reply->is_head_only;
    s->is_chunked = !has_none && !has_length && !m->is_http10;
    s->closes |= !has_none && !has_length && m->is_http10;
    write_head(s, reply, status, has_length);
    if (has_length && !s->is_bodiless && reply->body.len > COPIED_MAX) {
        s->body = reply->body;
        reply->body = (struct buf){0};
    }
    write_part(s, buf_bytes(&reply->body));
    if (is_whole)
        write_end(s, &reply->trailers);
    http_reply_done(reply);
    show(s);
}

static void session_reply_more(struct http_session *base, struct http_stream *stream,
                               struct buf *part, bool is_last, struct buf *trailers)
{
    struct session *s = session_of(base);

    if (s->stream && &s->stream->base == stream && s->is_begun && !s->is_whole) {
        if (part)
            write_part(s, buf_bytes(part));
        if (is_last)
            write_end(s, trailers);
    }
    if (part)
        buf_done(part);
    if (trailers)
        buf_done(trailers);
}

static size_t session_unwritten(const struct http_session *base, const struct http_stream *stream)
{
    const struct session *s = (const struct session *)base;

    (void)stream;
    return s->out.len - s->out_at + s->body.len - s->body_at;
}

static void session_consumed(struct http_session *s, struct http_stream *stream, size_t n)
{
    (void)s; /* the socket is the window */
    (void)stream;
    (void)n;
}

/* Moves up to max bytes; true when nothing is left. */
static bool move(struct buf *from, size_t *at, struct buf *to, size_t max)
{
    size_t n = from->len - *at < max ? from->len - *at : max;

    buf_add_bytes(to, bytes_head(bytes_from(buf_bytes(from), *at), n));
    *at += n;
    if (*at < from->len)
        return false;
    buf_done(from);
    *at = 0;
    return true;
}

/* The reply is written: the next request, if some of it is here already. */
static void next_request(struct session *s)
{
    end_stream(s, true);
    if (s->closes || s->is_draining) {
        end_session(s);
        return;
    }
    if (s->state == AT_END)
        return;
    s->state = AT_HEAD;
    if (s->line.cap)
        buf_done(&s->line);
    if (s->rest.len == 0)
        return;
    struct bytes in = bytes_from(buf_bytes(&s->rest), s->rest_at);
    process(s, &in);
    s->rest_at = s->rest.len - in.len;
    if (in.len == 0) {
        buf_done(&s->rest);
        s->rest_at = 0;
    }
}

static void session_take_output(struct http_session *base, struct buf *out, size_t max)
{
    struct session *s = session_of(base);
    size_t before = out->len;

    for (;;) {
        size_t used = out->len - before;
        if (used >= max && s->out.len + s->body.len > 0)
            break;
        if (!move(&s->out, &s->out_at, out, max - used))
            break;
        used = out->len - before;
        if (!move(&s->body, &s->body_at, out, used < max ? max - used : 0))
            break;
        if (!s->stream || !s->is_whole)
            break;
        next_request(s);
    }
    show(s);
}

struct http_session *http1_session_new(const struct http_events *events,
                                       const struct http_session_limits *limits)
{
    static const struct http_session_ops ops = {
        .free = session_free,
        .feed = session_feed,
        .take_output = session_take_output,
        .consumed = session_consumed,
        .reply = session_reply,
        .reply_more = session_reply_more,
        .unwritten = session_unwritten,
        .reset = session_reset,
        .drain = session_drain,
    };
    struct session *s = must_calloc(1, sizeof(*s));

    s->base = (struct http_session){.ops = &ops, .events = *events, .limits = *limits};
    if (s->base.limits.headers_max == 0)
        s->base.limits.headers_max = HTTP_HEADERS_MAX;
    if (s->base.limits.header_bytes_max == 0)
        s->base.limits.header_bytes_max = HTTP_HEADER_BYTES_MAX;
    if (s->base.limits.target_max == 0)
        s->base.limits.target_max = HTTP_TARGET_MAX;
    return &s->base;
}
