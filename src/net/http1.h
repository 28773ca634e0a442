#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/*
 * An HTTP/1.1 response, read as its bytes arrive; does no I/O. Strict: conflicting or unreadable
 * lengths, bad chunks, folded headers and anything else that two readers could see differently is
 * refused.
 *
 *     struct http1_response r = {0};
 *     while (!r.done) { get bytes; http1_response_feed(&r, &bytes, sink, arg) }
 */
struct http1_response {
    /* Set before feeding. */
    bool is_to_head;                                                     /* no body will follow */
    void (*on_header)(void *arg, struct bytes name, struct bytes value); /* may be NULL */
    void *header_arg;

    int status;
    char reason[64];
    char location[2048]; /* of a redirect */
    uint64_t length;     /* content-length; only when has_length */
    bool has_length;
    bool head_done; /* status and headers are known */
    bool done;      /* the body is complete */
    bool closes;    /* the connection ends behind it, or something came that was not asked for */
    const char *failure;

    /* Inner state. */
    int state;
    bool is_chunked, has_status;
    uint64_t left; /* of the body, or of the current chunk */
    size_t head_bytes;
    char line[8192];
    size_t line_len;
};

/*
 * Takes bytes off *in; body bytes go to sink(arg, bytes), which may say no by returning false.
 * Returns false when the response is refused (failure is set). Without content-length or chunks the
 * body ends with the connection: call http1_response_end() then.
 */
bool http1_response_feed(struct http1_response *r, struct bytes in,
                         bool (*sink)(void *arg, struct bytes body), void *arg);

/* The connection has ended. False when the response is not complete. */
bool http1_response_end(struct http1_response *r);
