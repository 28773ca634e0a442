#pragma once

#include <nghttp2/nghttp2.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "net/http_session.h"

/*
 * A server's HTTP/2 session and nghttp2's client over memory, and what both were told. Streams are
 * found by their number: 1, 3, 5...
 */
#define WORLD_STREAMS 32

struct seen {
    /* By the server's owner. */
    int heads, completes, ends, done;
    char request[256]; /* "GET /path?query authority" */
    struct buf headers, body;
    struct http_stream *stream;

    /* By the client. */
    int status, informational;
    struct buf reply_headers, reply_body; /* "name: value\n", trailers too */
    bool is_closed;
    uint32_t close_code;
};

struct world {
    struct http_session *server;
    nghttp2_session *client;
    struct seen seen[WORLD_STREAMS];
    bool refuses_bodies, holds_bodies; /* the owner's ways */
    void (*answer)(struct world *w, struct http_stream *stream);
    struct http_reply next_reply; /* taken by answer_next() */
    int goaways;
    uint32_t goaway_code;
    int32_t goaway_last;
};

static inline struct seen *world_seen(struct world *w, uint64_t id)
{
    return &w->seen[id / 2 % WORLD_STREAMS];
}

static inline void add_line(struct buf *to, struct bytes name, struct bytes value)
{
    buf_add_bytes(to, name);
    buf_add_str(to, ": ");
    buf_add_bytes(to, value);
    buf_add_byte(to, '\n');
}

/* ---- the owner ---- */

static inline bool owner_head(void *ctx, struct http_stream *stream)
{
    struct world *w = ctx;
    struct seen *s = world_seen(w, stream->id);
    const struct http_request *r = &stream->request;

    s->heads++;
    s->stream = stream;
    snprintf(s->request, sizeof(s->request), "%.*s %.*s%s%.*s %.*s", (int)r->method.len,
             (const char *)r->method.data, (int)r->path.len, (const char *)r->path.data,
             r->query.len ? "?" : "", (int)r->query.len, (const char *)r->query.data,
             (int)r->authority.len, (const char *)r->authority.data);
    for (size_t i = 0; i < r->n_headers; i++)
        add_line(&s->headers, r->headers[i].name, r->headers[i].value);
    if (w->refuses_bodies && w->answer)
        w->answer(w, stream);
    return !w->refuses_bodies;
}

static inline void owner_body(void *ctx, struct http_stream *stream, struct bytes part)
{
    struct world *w = ctx;

    buf_add_bytes(&world_seen(w, stream->id)->body, part);
    if (!w->holds_bodies)
        stream->session->ops->consumed(stream->session, stream, part.len);
}

static inline void owner_complete(void *ctx, struct http_stream *stream)
{
    struct world *w = ctx;

    world_seen(w, stream->id)->completes++;
    if (w->answer)
        w->answer(w, stream);
}

static inline void owner_end(void *ctx, struct http_stream *stream, bool is_done)
{
    struct seen *s = world_seen(ctx, stream->id);

    s->ends++;
    s->done += is_done;
    s->stream = NULL;
}

static inline void answer_next(struct world *w, struct http_stream *stream)
{
    stream->session->ops->reply(stream->session, stream, &w->next_reply, true);
}

static inline void answer_hello(struct world *w, struct http_stream *stream)
{
    struct http_reply reply = {0};

    (void)w;
    http_reply_header(&reply, "content-type", BYTES("text/plain"));
    buf_add_str(&reply.body, "hello");
    stream->session->ops->reply(stream->session, stream, &reply, true);
}

/* ---- the client ---- */

static inline int client_header(nghttp2_session *n, const nghttp2_frame *frame, const uint8_t *name,
                                size_t name_len, const uint8_t *value, size_t value_len,
                                uint8_t flags, void *arg)
{
    struct seen *s = world_seen(arg, (uint64_t)frame->hd.stream_id);

    (void)n;
    (void)flags;
    if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
        int status = atoi((const char *)value);
        if (status < 200)
            s->informational = status;
        else
            s->status = status;
        return 0;
    }
    add_line(&s->reply_headers, (struct bytes){name, name_len}, (struct bytes){value, value_len});
    return 0;
}

static inline int client_data(nghttp2_session *n, uint8_t flags, int32_t id, const uint8_t *data,
                              size_t len, void *arg)
{
    (void)n;
    (void)flags;
    buf_add(&world_seen(arg, (uint64_t)id)->reply_body, data, len);
    return 0;
}

static inline int client_close(nghttp2_session *n, int32_t id, uint32_t code, void *arg)
{
    struct seen *s = world_seen(arg, (uint64_t)id);

    (void)n;
    s->is_closed = true;
    s->close_code = code;
    return 0;
}

static inline int client_frame(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
    struct world *w = arg;

    (void)n;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        w->goaways++;
        w->goaway_code = frame->goaway.error_code;
        w->goaway_last = frame->goaway.last_stream_id;
    }
    return 0;
}

static inline void world_client(struct world *w)
{
    nghttp2_session_callbacks *calls;
    nghttp2_option *option;

    nghttp2_session_callbacks_new(&calls);
    nghttp2_option_new(&option);
    nghttp2_session_callbacks_set_on_header_callback(calls, client_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, client_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, client_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, client_frame);
    /* So that wrong requests can be sent. */
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, 1 << 20);
    nghttp2_session_client_new2(&w->client, calls, w, option);
    nghttp2_session_callbacks_del(calls);
    nghttp2_option_del(option);
}

static inline struct http_events world_events(struct world *w)
{
    return (struct http_events){owner_head, owner_body, owner_complete, owner_end, w};
}

/* A connection whose settings have been exchanged by the first pump. */
static inline void world_open(struct world *w, const struct http_session_limits *limits)
{
    struct http_events events = world_events(w);

    *w = (struct world){.answer = answer_hello};
    w->server = http2_session_new(&events, limits);
    world_client(w);
    nghttp2_submit_settings(w->client, NGHTTP2_FLAG_NONE, NULL, 0);
}

static inline void world_done(struct world *w)
{
    if (w->server)
        w->server->ops->free(w->server);
    nghttp2_session_del(w->client);
    for (size_t i = 0; i < WORLD_STREAMS; i++) {
        buf_done(&w->seen[i].headers);
        buf_done(&w->seen[i].body);
        buf_done(&w->seen[i].reply_headers);
        buf_done(&w->seen[i].reply_body);
    }
    http_reply_done(&w->next_reply);
}

/* Carries bytes both ways until both are silent. False when the server has refused some. */
static inline bool world_pump(struct world *w)
{
    bool is_fine = true, moved = true;

    while (moved) {
        CLEANUP(buf_done) struct buf out = {0};
        const uint8_t *data;
        ssize_t n;
        moved = false;
        while ((n = nghttp2_session_mem_send(w->client, &data)) > 0) {
            is_fine &= w->server->ops->feed(w->server, (struct bytes){data, (size_t)n});
            moved = true;
        }
        w->server->ops->take_output(w->server, &out, 1 << 16);
        if (out.len > 0) {
            moved = true;
            if (nghttp2_session_mem_recv(w->client, out.data, out.len) < 0)
                return false;
        }
    }
    return is_fine;
}

/* The library would make a copied name lower case. */
static inline nghttp2_nv world_nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

static inline ssize_t read_buf(nghttp2_session *n, int32_t id, uint8_t *to, size_t max,
                               uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct bytes *rest = source->ptr;
    size_t len = rest->len < max ? rest->len : max;

    (void)n;
    (void)id;
    (void)arg;
    if (len > 0)
        memcpy(to, rest->data, len);
    *rest = bytes_from(*rest, len);
    if (rest->len == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)len;
}

/* Submits a request with more header fields: name, value, ..., NULL. `body` (or NULL) lives until
 * it is sent. Returns its stream. */
static inline int32_t world_request(struct world *w, const char *method, const char *path,
                                    const char *const *more, struct bytes *body)
{
    nghttp2_nv head[600];
    size_t n = 0;
    nghttp2_data_provider provider = {.source.ptr = body, .read_callback = read_buf};

    head[n++] = world_nv(":method", method);
    head[n++] = world_nv(":scheme", "http");
    head[n++] = world_nv(":authority", "host.example:4040");
    head[n++] = world_nv(":path", path);
    for (; more && more[0] && n < 600; more += 2)
        head[n++] = world_nv(more[0], more[1]);
    return nghttp2_submit_request(w->client, NULL, head, n, body ? &provider : NULL, NULL);
}
