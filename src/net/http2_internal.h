#pragma once

#include <nghttp2/nghttp2.h>

#include "net/http2_guard.h"
#include "net/http_session.h"

/*
 * HTTP/2 on nghttp2, which does frames, HPACK, flow control and checks of messages. Added here:
 * limits, floods (http2_guard.h), and replies whose bytes go from their buffer to the output
 * without a stop between. http2_head.c makes requests of header fields, http2_reply.c writes
 * replies, http2_session.c is everything else.
 */

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

static inline struct h2_session *h2_session_of(struct http_session *s)
{
    return (struct h2_session *)s;
}

static inline struct h2_stream *h2_stream_of(struct http_stream *s)
{
    return (struct h2_stream *)s;
}

static inline struct h2_stream *h2_stream_by_id(nghttp2_session *n, int32_t id)
{
    return id > 0 ? nghttp2_session_get_stream_user_data(n, id) : NULL;
}
/* http2_session.c: GOAWAY; and the end of a stream that was only waited for. */
void h2_send_goaway(struct h2_session *h);
void h2_reset_lingering(struct h2_session *h, int32_t id);

/* http2_head.c: callbacks of the library; the head is complete; a request that came by HTTP/1.1. */
int h2_on_header(nghttp2_session *n, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                 nghttp2_rcbuf *value, uint8_t flags, void *arg);
int h2_on_invalid_header(nghttp2_session *n, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                         nghttp2_rcbuf *value, uint8_t flags, void *arg);
void h2_head_is_here(struct h2_session *h, struct h2_stream *st);
void h2_copy_request(struct h2_stream *st, const struct http_request *r);

/* http2_reply.c: operations of the session; a callback that writes a DATA frame; a header field
 * that is not copied; and whether a field is not for handlers to write. */
void h2_reply(struct http_session *s, struct http_stream *stream, struct http_reply *reply,
              bool is_whole);
void h2_reply_more(struct http_session *s, struct http_stream *stream, struct buf *part,
                   bool is_last, struct buf *trailers);
size_t h2_unwritten(const struct http_session *s, const struct http_stream *stream);
void h2_reset(struct http_session *s, struct http_stream *stream);
int h2_write_data(nghttp2_session *n, nghttp2_frame *frame, const uint8_t *head, size_t len,
                  nghttp2_data_source *source, void *arg);
nghttp2_nv h2_make_field(struct bytes name, struct bytes value);
bool h2_is_own_field(struct bytes name);
