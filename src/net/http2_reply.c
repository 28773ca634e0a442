#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/http2_internal.h"

/* HTTP/2 has no such fields; those that the session writes itself are not taken either. */
bool h2_is_own_field(struct bytes name)
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
nghttp2_nv h2_make_field(struct bytes name, struct bytes value)
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
        if (!h2_is_own_field(field.name))
            to[n++] = h2_make_field(field.name, field.value);
    return n;
}

/* NOLINTNEXTLINE(readability-function-size): the library's parameters */
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
int h2_write_data(nghttp2_session *n, nghttp2_frame *frame, const uint8_t *head, size_t len,
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
    to[n++] = h2_make_field(BYTES(":status"), bytes_of(st->status_text));
    n = add_fields(to, n, head);
    if (r->is_head_only)
        n = add_fields(to, n, trailers);
    else if (is_whole && trailers.len == 0 && r->status >= 200 && r->status != 204 &&
             r->status != 304) {
        snprintf(st->length_text, sizeof(st->length_text), "%zu", r->body.len);
        to[n++] = h2_make_field(BYTES("content-length"), bytes_of(st->length_text));
    }
    to[n++] = h2_make_field(BYTES("date"), bytes_of(st->date_text));
    *ret_n = n;
    return to;
}

void h2_reset(struct http_session *s, struct http_stream *stream)
{
    struct h2_stream *st = h2_stream_of(stream);

    st->is_reset = true;
    nghttp2_submit_rst_stream(h2_session_of(s)->nghttp2, NGHTTP2_FLAG_NONE, st->id,
                              NGHTTP2_INTERNAL_ERROR);
}

void h2_reply(struct http_session *s, struct http_stream *stream, struct http_reply *reply,
              bool is_whole)
{
    struct h2_session *h = h2_session_of(s);
    struct h2_stream *st = h2_stream_of(stream);
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
        h2_send_goaway(h);
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

void h2_reply_more(struct http_session *s, struct http_stream *stream, struct buf *part,
                   bool is_last, struct buf *trailers)
{
    struct h2_session *h = h2_session_of(s);
    struct h2_stream *st = h2_stream_of(stream);

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

size_t h2_unwritten(const struct http_session *s, const struct http_stream *stream)
{
    const struct h2_stream *st = (const struct h2_stream *)stream;

    (void)s;
    return st->reply.body.len - st->sent;
}
