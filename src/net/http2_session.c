#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "net/http2_internal.h"
#include "wire/base64.h"

#define STREAMS_MAX       128
#define STREAM_WINDOW     (1 << 20)
#define CONNECTION_WINDOW (4 << 20)

/* While this much of replies waits to be written, and some streams are open, new ones are refused:
 * a client that asks and does not read cannot make us hold more. */
#define UNWRITTEN_MAX     ((size_t)8 << 20)
#define UNWRITTEN_STREAMS 4

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

void h2_reset_lingering(struct h2_session *h, int32_t id)
{
    nghttp2_submit_rst_stream(h->nghttp2, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    stop_lingering(h, id);
}

/* The reply is written and the request is not complete: only its number stays. */
static void linger(struct h2_session *h, struct h2_stream *st)
{
    if (h->n_lingering == LINGERING_MAX)
        h2_reset_lingering(h, h->lingering[0].id);
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
            h2_reset_lingering(h, id);
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

void h2_send_goaway(struct h2_session *h)
{
    if (h->is_goaway_sent)
        return;
    h->is_goaway_sent = true;
    nghttp2_submit_goaway(h->nghttp2, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->nghttp2), NGHTTP2_NO_ERROR,
                          NULL, 0);
}

/* ---- what the library tells ---- */

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

static void request_is_here(struct h2_session *h, struct h2_stream *st)
{
    const struct http_events *e = &h->base.events;

    if (st->is_told && !st->is_dropped && !st->is_reset)
        e->complete(e->ctx, &st->base);
}

static int on_frame_recv(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = h2_stream_by_id(n, frame->hd.stream_id);
    uint8_t type = frame->hd.type;

    if (type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK && h->is_draining)
        h2_send_goaway(h);
    if (!st || (type != NGHTTP2_HEADERS && type != NGHTTP2_DATA))
        return 0;
    st->is_complete = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        h2_head_is_here(h, st);
    if (st->is_complete)
        request_is_here(h, st);
    return 0;
}

static int on_data(nghttp2_session *n, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                   void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = h2_stream_by_id(n, id);
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
    struct h2_stream *st = h2_stream_by_id(n, id);

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
    struct h2_stream *st = h2_stream_by_id(n, frame->hd.stream_id);

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
    if (frame->hd.type == NGHTTP2_HEADERS && h2_stream_by_id(n, frame->hd.stream_id))
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
    h2_head_is_here(h, st);
    request_is_here(h, st);
}

static bool h2_feed(struct http_session *s, struct bytes in)
{
    struct h2_session *h = h2_session_of(s);

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
    struct h2_session *h = h2_session_of(s);
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
    struct h2_stream *st = h2_stream_of(stream);

    if (n > st->unconsumed)
        n = st->unconsumed;
    st->unconsumed -= n;
    if (n > 0)
        nghttp2_session_consume(h2_session_of(s)->nghttp2, st->id, n);
}

static void h2_drain(struct http_session *s)
{
    struct h2_session *h = h2_session_of(s);

    if (h->is_draining)
        return;
    h->is_draining = true;
    while (h->n_lingering > 0)
        h2_reset_lingering(h, h->lingering[0].id);
    /* Requests on their way are still taken: the final GOAWAY follows when the client has seen the
     * first, that is, with its answer to the PING. */
    nghttp2_submit_shutdown_notice(h->nghttp2);
    nghttp2_submit_ping(h->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

static void h2_free(struct http_session *s)
{
    struct h2_session *h = h2_session_of(s);

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
        nghttp2_session_callbacks_set_on_header_callback2(calls, h2_on_header);
        nghttp2_session_callbacks_set_on_invalid_header_callback2(calls, h2_on_invalid_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame_recv);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_frame_send);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, on_frame_not_send);
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, on_invalid_frame);
        nghttp2_session_callbacks_set_send_data_callback(calls, h2_write_data);
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
    h2_copy_request(st, request);
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
