#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * What HTTP/1.1 and HTTP/2 have in common: a request as a handler sees it, a reply as it leaves.
 * Nothing here does I/O.
 */
struct http_header {
    struct bytes name; /* in requests always lower case */
    struct bytes value;
};

#define HTTP_HEADERS_MAX      128                /* fields of a request, trailers included */
#define HTTP_HEADER_BYTES_MAX ((size_t)64 << 10) /* of all of them */
#define HTTP_TARGET_MAX       ((size_t)16 << 10)

/* All borrowed from the exchange, until its reply is finished. */
struct http_request {
    struct bytes method;
    struct bytes path;  /* before '?', as it came: not unescaped */
    struct bytes query; /* behind '?' */
    struct bytes authority;
    const struct http_header *headers;
    size_t n_headers;
    struct bytes body; /* as it came, content-encoding still on; empty when it lies in body_file */
    int body_file;     /* a body that was too large for memory, from its start; else -1 */
    uint64_t body_len;
    bool is_tls, is_http2;
    char peer[64];          /* "127.0.0.1:51234" */
    char peer_subject[256]; /* of a client certificate that was checked; else empty */
};

/* The value of a header (name in lower case), or an empty one. Of several the first. */
struct bytes http_header_value(const struct http_request *r, const char *name);

/* Whether a comma-separated header value holds this token, in any case and with any parameters
 * other than q=0: for accept-encoding and its kin. */
bool http_value_has_token(struct bytes value, const char *token);

/* The value without parameters and spaces: "application/json" of "application/json; charset=x". */
struct bytes http_media_type(struct bytes content_type);

/*
 * A parameter of a query string (or of a form body), unescaped into `scratch`: true when it is
 * there, the first of that name. The value is borrowed from the query where nothing is escaped (or
 * an escape is broken: it is then as it came), else from `scratch` until that is next written to.
 */
bool http_query_value(struct bytes query, const char *name, struct buf *scratch, struct bytes *ret);

/* Steps through all of them: takes the next off *rest. */
bool http_query_next(struct bytes *rest, struct buf *scratch, struct bytes *ret_name,
                     struct bytes *ret_value);

/* Appends `in` with %XX (and in queries '+') undone; false when an escape is broken. */
bool http_unescape(struct bytes in, bool is_query, struct buf *out);

/* The usual phrase of a status, "Not Found"; never NULL. */
const char *http_reason(int status);

/* The date header's value now; valid on this thread until the next call. */
const char *http_date(void);

/* What may stand in the name and the value of a header. */
bool http_is_token_byte(uint8_t c);
bool http_is_value_byte(uint8_t c);

/*
 * A reply. Zero it, fill it in, hand it over; strings of headers are copied when they are added.
 * content-length, date, connection and transfer-encoding are the session's business.
 */
struct http_reply {
    int status;      /* 0 is 200 */
    struct buf head; /* encoded headers: http_reply_header() */
    struct buf body;
    struct buf trailers; /* gRPC: written as trailers in HTTP/2, after chunks in HTTP/1.1 */
    bool is_head_only;   /* gRPC "trailers-only" and the like: no body frame at all */
    bool closes;         /* end the connection behind it */
};

/* Names are lower case. Values with control characters are refused: the header is left out, as are
 * values over 1,023 bytes that were formatted. */
void http_reply_header(struct http_reply *reply, const char *name, struct bytes value);
void http_reply_headerf(struct http_reply *reply, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void http_reply_trailer(struct http_reply *reply, const char *name, struct bytes value);
void http_reply_done(struct http_reply *reply);

/* Steps through encoded headers or trailers: takes the next off *rest. */
bool http_reply_next(struct bytes *rest, struct http_header *ret);
