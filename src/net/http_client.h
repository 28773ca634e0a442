#pragma once

#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/vec.h"

/*
 * Fetching one URL, blocking: for the command line. HTTP/1.1 over TCP or TLS (certificates are
 * checked against the system's), redirects followed (never from https to http).
 */
struct http_get_options {
    int timeout_s; /* longest silence: between connecting and the first byte, or two reads */

    /* Called about five times a second while waiting or reading; may be NULL. */
    void (*progress)(void *arg, uint64_t bytes, double seconds);
    void *progress_arg;
};

struct http_body {
    VEC(uint8_t) data; /* charged to the budget given */
};

/*
 * 0 and the body of a 200 answer; or -EINVAL (bad URL), -ECONNREFUSED, -ETIMEDOUT, -ENOBUFS...,
 * -EPROTO (not HTTP, or refused by the reader), -EIO (another status: named in the text with the
 * first line of what the server said).
 */
int http_get(const char *url, const struct http_get_options *o, struct budget *b,
             struct http_body *ret, struct error *err);
void http_body_done(struct budget *b, struct http_body *body);
