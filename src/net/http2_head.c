#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/must.h"
#include "net/http2_internal.h"

/* A head past its limit is answered; one past this many times the limit ends the connection. */
#define EXCESS_FACTOR 4

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

static struct bytes rcbuf_bytes(nghttp2_rcbuf *b)
{
    nghttp2_vec v = nghttp2_rcbuf_get_buf(b);

    return (struct bytes){v.base, v.len};
}

/* Trailers: counted, and of no use to anyone. */
static int drop_trailer(nghttp2_session *n, struct h2_stream *st, bool fits)
{
    st->n_fields++;
    if (fits)
        return 0;
    nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_ENHANCE_YOUR_CALM);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

int h2_on_header(nghttp2_session *n, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                 nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    struct h2_session *h = arg;
    struct h2_stream *st = h2_stream_by_id(n, frame->hd.stream_id);
    struct bytes key = rcbuf_bytes(name), text = rcbuf_bytes(value);

    (void)flags;
    if (!st) { /* trailers of a stream that lingers */
        h2_reset_lingering(h, frame->hd.stream_id);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    bool fits = count_field(h, st, key, text);
    if (h->excess)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return drop_trailer(n, st, fits);
    if (!fits && st->refusal == 0)
        st->refusal = 431;
    if (st->refusal != 0)
        return 0;
    if (key.len > 0 && key.data[0] == ':')
        add_pseudo(h, st, key, text);
    else
        add_field(st, key, text);
    return 0;
}

/* What the library would only leave out: control characters and the like. */
int h2_on_invalid_header(nghttp2_session *n, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                         nghttp2_rcbuf *value, uint8_t flags, void *arg)
{
    (void)name;
    (void)value;
    (void)flags;
    (void)arg;
    nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_PROTOCOL_ERROR);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
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
    nghttp2_nv field = h2_make_field(BYTES(":status"), BYTES("100"));

    if (http_value_has_token(http_header_value(&st->base.request, "expect"), "100-continue"))
        nghttp2_submit_headers(h->nghttp2, NGHTTP2_FLAG_NONE, st->id, NULL, &field, 1, NULL);
}

void h2_head_is_here(struct h2_session *h, struct h2_stream *st)
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

/* Fields of the request that were about HTTP/1.1. */
static bool is_upgrade_field(struct bytes name)
{
    return h2_is_own_field(name) || bytes_are(name, "http2-settings");
}

void h2_copy_request(struct h2_stream *st, const struct http_request *r)
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
