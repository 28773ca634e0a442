#pragma once

#include "net/http_session.h"

/*
 * The head of an HTTP/1.1 request, read strictly: what two readers could understand differently is
 * refused (RFC 9112 §11.2). No I/O. What comes out does not depend on how the bytes were cut.
 */
struct http1_head {
    struct buf text; /* lines with their CR LF, names in lower case */
    size_t line;     /* where the line that is being read begins */
    size_t fields;   /* where the headers begin, 0: still at the request line */
    uint32_t n_headers;
    bool has_empty_line; /* one in front of the request line is allowed */
};

/* 0: more is needed. 1: complete. Else the status to refuse with, and *why. Takes what it used off
 * *in. */
int http1_head_feed(struct http1_head *h, const struct http_session_limits *limits,
                    struct bytes *in, const char **why);

/* What a complete head says. All borrowed from its text. */
struct http1_message {
    struct bytes method, path, query, authority;
    const struct http_header *headers;
    size_t n_headers;
    uint64_t length;
    bool has_length, is_chunked;
    bool is_http10;
    bool closes; /* connection: close, or HTTP/1.0 */
    bool expects_continue;
    bool takes_trailers;   /* te: trailers */
    bool asks_h2c;         /* upgrade: h2c, with all that belongs to it */
    struct bytes settings; /* http2-settings */
};

/* 0, or the status to refuse with. `headers` has room for h->n_headers. */
int http1_head_finish(const struct http1_head *h, struct http_header *headers,
                      struct http1_message *ret, const char **why);

/* Checks one header line (without CR LF), lower-casing its name: 0 or why not. */
const char *http1_check_field(uint8_t *line, size_t len);

/* Whether a trailer of this name (lower case) would change what the head said. */
bool http1_is_forbidden_trailer(struct bytes name);

/* The size a chunk line (without CR LF) says. */
bool http1_chunk_size(struct bytes line, uint64_t *ret);
