#pragma once

#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "net/http.h"

/*
 * An HTTP server: listeners, loops (a thread each, with its own connections), TLS, timeouts and
 * limits. What to answer is the service's business.
 *
 * HTTP/1.1, HTTP/2 by ALPN, by prior knowledge and by upgrade are told apart on every port.
 */
struct http_server;

/* One request and its reply. Belongs to whoever was given it until http_reply_send() or _end(). */
struct http_exchange {
    struct http_request request;
    atomic_bool cancelled; /* the client has left, or the deadline has passed: stop working */
    int64_t start_ns;      /* monotonic */
    int64_t deadline_ns;   /* monotonic, 0: none; set by the service in `head` */
    uint64_t body_limit;   /* bytes of body as sent; set by the service in `head` */
    uint64_t memory_max;   /* of those, what is held in memory before it goes to a file */
    void *owner;           /* of the service */
};

struct http_service {
    /*
     * The head of a request is here; on the loop's thread, must be quick. Return 0 to have the body
     * read (body_limit is at its default), or a status other than 0 to refuse with *refusal filled
     * in and read no body. `owner` may be set.
     */
    int (*head)(void *ctx, struct http_exchange *x, struct http_reply *refusal);
    /* The request is complete; on the loop's thread, must be quick: whoever has to wait or work
     * hands it to another thread. A reply must follow sooner or later. */
    void (*request)(void *ctx, struct http_exchange *x);
    /* The body was larger than the limit, or there is no memory for it, or it came too slowly:
     * fills in the refusal. status is 413, 429 or 408. */
    void (*refuse)(void *ctx, struct http_exchange *x, int status, struct http_reply *refusal);
    /* The exchange is over, however it ended; the last call for it. `status` is what was sent, 0
     * when the client had left before. */
    void (*done)(void *ctx, struct http_exchange *x, int status, uint64_t bytes_sent);
    void *ctx;
};

/* From any thread, once for each request: takes over the reply (zero afterwards). The exchange is
 * not to be touched afterwards. */
void http_reply_send(struct http_exchange *x, struct http_reply *reply);

/*
 * A reply in pieces, from a thread that may wait: begin with the head (and a first part of the
 * body, if any), write parts, end. Writing waits while the client is slow and returns -ECANCELED
 * when it has left; ending is due in any case. When `cancelled` is set by then, by whomever, the
 * reply does not end but breaks off, so that nobody takes the part for the whole.
 */
void http_reply_begin(struct http_exchange *x, struct http_reply *reply);
int http_reply_write(struct http_exchange *x, struct buf *part);
void http_reply_end(struct http_exchange *x, struct buf *trailers);
/* Instead of ending: the rest cannot be had, and the client is to see that some is missing. */
void http_reply_break_off(struct http_exchange *x);

struct http_listen {
    const char *address; /* "127.0.0.1:4040", "[::1]:4040", ":4040" (every address), "unix:/path" */
    bool is_tls;
};

struct http_server_options {
    struct http_service service;
    const struct http_listen *listens;
    size_t n_listens;
    unsigned loops; /* 0: one per core */

    /* TLS, when a listener has it. client_ca makes client certificates required. */
    const char *cert_file, *key_file, *client_ca_file;

    /* 0: the defaults in the comments. */
    uint32_t connections_max; /* 10,000 */
    uint32_t streams_max;     /* 128 for each HTTP/2 connection */
    uint64_t body_memory_max; /* of all requests in flight, heads too; 128 MiB */
    uint64_t body_limit;      /* 64 MiB, unless `head` says otherwise */
    int64_t head_timeout_ns;  /* first byte to complete head: 10 s */
    int64_t body_timeout_ns;  /* longest silence within a body: 20 s; and 16 KiB/s at least
                                 over its whole length, after that */
    int64_t idle_timeout_ns;  /* between requests: 75 s */
    int64_t write_timeout_ns; /* longest time without the client taking anything: 30 s */
    const char *spool_dir;    /* where large bodies go, without a name; NULL: none do */

    void (*log)(void *ctx, int level, const char *text); /* 0 debug .. 3 error; may be NULL */
    void *log_ctx;
};

/* Binds, then starts the threads. -EADDRINUSE names who holds the port and what to do; -EACCES,
 * -EINVAL (a bad address, a certificate that cannot be read). */
int http_server_start(const struct http_server_options *o, struct http_server **ret,
                      struct error *err);

/* The address that listener i got (port 0 asks for any), "127.0.0.1:41233". */
const char *http_server_address(const struct http_server *s, size_t i);

/* Reads certificate and key from these files; connections that are open keep the old ones. */
int http_server_reload(struct http_server *s, const char *cert_file, const char *key_file,
                       struct error *err);

/* No new connections, no new requests; returns once every exchange has ended or after grace_ns.
 * 0, or -ETIMEDOUT when some had to be broken off. */
int http_server_drain(struct http_server *s, int64_t grace_ns);

struct http_server_stat {
    uint64_t connections, accepted, refused, requests, body_memory, timeouts, protocol_errors;
    uint64_t bytes_in, bytes_out;
};
void http_server_stat(const struct http_server *s, struct http_server_stat *ret);

/*
 * Drains with no grace. Exchanges that the service still holds are cancelled and waited for, some
 * seconds at most; one that is answered later yet goes nowhere, and its `done` is not called. NULL
 * is fine.
 */
void http_server_free(struct http_server *s);
DEFINE_CLEANUP(struct http_server *, http_server_free)
