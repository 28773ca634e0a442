#pragma once

#include <signal.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "net/grpc.h"
#include "net/http.h"

/*
 * Unary gRPC calls over HTTP/2, one after another, blocking. Plain or TLS (certificates are
 * checked, ALPN must agree on h2). The connection is kept for the next call. Whatever a server
 * sends is bounded: heads, messages, frames.
 *
 * A client belongs to one thread at a time.
 */
struct grpc_client;

/* Strings are borrowed until grpc_client_free(). */
struct grpc_client_options {
    const char *url;                        /* "http://host:4317", "https://..."; no path */
    const char *ca_file;                    /* trust these instead of the system's */
    const char *cert_file, *key_file;       /* of the client */
    const volatile sig_atomic_t *cancelled; /* may be NULL; not 0 ends what is going on */
};

/* -EINVAL: the URL is none. */
int grpc_client_new(const struct grpc_client_options *o, struct grpc_client **ret,
                    struct error *err);
void grpc_client_free(struct grpc_client *c); /* NULL is fine */
DEFINE_CLEANUP(struct grpc_client *, grpc_client_free)

struct grpc_request {
    const char *path;                  /* "/package.Service/Method" */
    const struct http_header *headers; /* names in lower case */
    size_t n_headers;                  /* at most GRPC_HEADERS_MAX */
    struct bytes message;              /* packed as `encoding` says */
    enum grpc_encoding encoding;
    int64_t timeout_ns; /* of the whole call, told to the server as well; 0: a minute */
    size_t answer_max;  /* bytes of the answer's message; 0: GRPC_ANSWER_MAX */
};

#define GRPC_HEADERS_MAX 40
#define GRPC_ANSWER_MAX  ((size_t)64 << 10)

struct grpc_answer {
    enum grpc_code code;
    char text[300];   /* grpc-message, or what HTTP said instead */
    int64_t retry_ms; /* of a RetryInfo among the details; -1: none */
    struct buf body;  /* the message, where the code is GRPC_OK */
};

/*
 * 0 and the answer, whatever its code; grpc_answer_done() is due then. Else what stood in the way
 * of one, as of http_fetch(): -ECONNREFUSED, -ETIMEDOUT, -EPROTO, -ENOBUFS (too large)... -EBADMSG:
 * the call succeeded, but its message cannot be read.
 */
int grpc_call(struct grpc_client *c, const struct grpc_request *r, struct grpc_answer *ret,
              struct error *err);
void grpc_answer_done(struct grpc_answer *a);

/* Whether OTLP's rules have such an answer tried again. */
bool grpc_should_retry(const struct grpc_answer *a);
