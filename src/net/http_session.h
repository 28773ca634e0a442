#pragma once

#include "net/http.h"

/*
 * One connection's protocol, without I/O: bytes in, events up; replies down, bytes out. HTTP/1.1
 * (http1_session.c) and HTTP/2 (http2_session.c) are both this. Everything happens on the thread of
 * the connection's loop.
 *
 * A stream is one request and its reply. The session makes it when the request's head is complete,
 * and frees it after stream_end was told, never earlier.
 */
struct http_session;

struct http_stream {
    struct http_session *session;
    uint64_t id;
    struct http_request request; /* body, body_file and body_len are for the owner to fill in */
    void *owner;                 /* of whoever answers */
};

/* What the session tells its owner. */
struct http_events {
    /* The head is complete. May answer at once. A body may follow. Return false to read no body:
     * it is dropped (HTTP/2), or the connection closes behind the reply (HTTP/1.1). */
    bool (*head)(void *ctx, struct http_stream *stream);
    /* Some of the body. The owner says with http_session_consumed() when it has room for more. */
    void (*body)(void *ctx, struct http_stream *stream, struct bytes part);
    /* The request is complete. */
    void (*complete)(void *ctx, struct http_stream *stream);
    /* The stream is no more: replied to entirely (is_done), or reset, or the connection is gone.
     * Told exactly once for each stream; the stream is freed behind it. */
    void (*end)(void *ctx, struct http_stream *stream, bool is_done);
    void *ctx;
};

/* What bites before a handler sees anything. Zeros are the defaults of http.h. */
struct http_session_limits {
    size_t headers_max, header_bytes_max, target_max;
    uint32_t streams_max; /* at once, HTTP/2; default 128 */
    bool offers_h2c;      /* HTTP/1.1: "upgrade: h2c" is looked at; else ignored */
};

struct http_session_ops {
    void (*free)(struct http_session *s); /* tells `end` of every stream first */

    /* Takes all of `in`. False: the connection is of no more use once what is waiting to be
     * written has been: s->failure says why (for the log). */
    bool (*feed)(struct http_session *s, struct bytes in);

    /* Appends up to about `max` bytes that are ready to be written. */
    void (*take_output)(struct http_session *s, struct buf *out, size_t max);

    /* n bytes of this stream's body have been dealt with: the window may open again. */
    void (*consumed)(struct http_session *s, struct http_stream *stream, size_t n);

    /*
     * Replies. The session takes over what is in *reply (it is zero afterwards). With is_whole the
     * body is complete; else more comes by reply_more(), each call taking over `part`, until
     * is_last (then with trailers, which may be NULL).
     */
    void (*reply)(struct http_session *s, struct http_stream *stream, struct http_reply *reply,
                  bool is_whole);
    void (*reply_more)(struct http_session *s, struct http_stream *stream, struct buf *part,
                       bool is_last, struct buf *trailers);

    /* How many bytes of its replies are not written yet: whoever streams waits while it is large.
     */
    size_t (*unwritten)(const struct http_session *s, const struct http_stream *stream);

    /* Break this stream off: RST_STREAM, or the end of the connection. */
    void (*reset)(struct http_session *s, struct http_stream *stream);

    /* No new requests: GOAWAY, or connection: close on the next reply. */
    void (*drain)(struct http_session *s);
};

struct http_session {
    const struct http_session_ops *ops;
    struct http_events events;
    struct http_session_limits limits;
    const char *failure;  /* static text */
    uint32_t n_streams;   /* open now */
    bool is_closing;      /* close when all output is written */
    bool is_reading_head; /* some bytes of a request's head are here: for the slow-header clock */
    bool is_paused;       /* feed nothing now: HTTP/1.1 is at a request. take_output() goes on */
    size_t held;          /* bytes of input kept: unfinished heads, requests that wait */
};

struct http_session *http1_session_new(const struct http_events *events,
                                       const struct http_session_limits *limits);
struct http_session *http2_session_new(const struct http_events *events,
                                       const struct http_session_limits *limits);

/*
 * HTTP/1.1 "upgrade: h2c", to be asked after each feed and take_output: true when the session waits
 * to hear whether the request is taken over by HTTP/2. Then the end of the matter: taken, what came
 * behind the request is moved to `rest` and only free() is left to do; not taken, the request is
 * told of as usual.
 */
bool http1_session_asks_upgrade(struct http_session *session,
                                const struct http_request **ret_request,
                                struct bytes *ret_settings);
void http1_session_end_upgrade(struct http_session *session, bool is_taken, struct buf *rest);

/* HTTP/1.1 "upgrade: h2c": the HTTP/2 session that goes on, with the request (whose method, path
 * and headers are copied) as its stream 1, told of with the first feed() or take_output().
 * `settings` is the value of http2-settings. NULL when that is not sound. The 101 reply has been
 * written by the caller. */
struct http_session *http2_session_upgrade(const struct http_events *events,
                                           const struct http_session_limits *limits,
                                           const struct http_request *request,
                                           struct bytes settings);

/* Whether a connection that starts like this speaks HTTP/2 by prior knowledge: 1 yes, 0 no, -1 when
 * more bytes are needed. */
int http2_is_preface(struct bytes head);
