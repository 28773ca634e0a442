#pragma once

#include <signal.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/vec.h"
#include "net/http.h"

/*
 * A client: requests one after another, blocking. HTTP/1.1 over TCP, TLS (certificates are checked)
 * or a Unix socket. The connection is kept for the next request to the same place. Redirects are
 * followed, never from https to http, and what the caller gave for one origin (headers, client
 * certificate, body) is not shown to another.
 *
 * A client belongs to one thread at a time.
 */
struct http_client;

struct http_progress {
    uint64_t sent, to_send; /* of the body */
    uint64_t received;
    double seconds;
};

/* Strings are borrowed until http_client_free(). */
struct http_client_options {
    const char *ca_file;              /* trust these instead of the system's */
    const char *cert_file, *key_file; /* of the client; key_file NULL: in cert_file */
    const char *server_name;          /* that its certificate is checked for; NULL: the URL's */
    bool skips_verification;          /* any certificate will do */
    const char *unix_path;            /* connect here, whatever host the URL names */

    /* For URLs that others chose: loopback, private, link-local (so also the clouds' metadata) and
     * other special addresses are refused, also where a redirect leads there. Names are resolved
     * once, and what was checked is what is connected to. */
    bool deny_private;
    const char *allowed; /* "http://10.0.0.5:8002": an origin that is exempt; or NULL */

    int connect_s; /* 0: 10 */
    int silence_s; /* longest time in which nothing moves; 0: 60 */
    int total_s;   /* of a whole request, redirects included; 0: no limit */

    const volatile sig_atomic_t *cancelled; /* may be NULL; not 0 ends what is going on */

    /* Called about five times a second while waiting or reading; may be NULL. */
    void (*progress)(void *arg, const struct http_progress *p);
    void *progress_arg;
};

struct http_client *http_client_new(const struct http_client_options *o);
void http_client_free(struct http_client *c); /* NULL is fine */
DEFINE_CLEANUP(struct http_client *, http_client_free)

struct http_fetch {
    const char *method; /* NULL: GET, or POST when there is a body */
    const char *url;

    /* Any names; host, content-length, connection and user-agent are ours. Names and values with
     * control characters are -EINVAL. */
    const struct http_header *headers;
    size_t n_headers;

    struct bytes body;
    int body_file; /* instead of `body`, when body_file_len > 0: read from its start */
    uint64_t body_file_len;

    uint64_t answer_max; /* bytes of body; 0: what the budget allows */
    bool is_repeatable;  /* a POST that does no harm when it arrives twice: sent again when a kept
                            connection turns out to be dead. GET, HEAD, PUT, DELETE always are. */
    bool no_redirects;   /* 3xx is an answer like others */
};

struct http_body {
    VEC(uint8_t) data; /* charged to the budget given */
};

#define HTTP_ANSWER_HEAD_MAX ((size_t)16 << 10)

struct http_answer {
    int status;
    char reason[64];
    int64_t retry_after_ms; /* -1: not said. A date counts from now */
    struct http_body body;
    struct buf head; /* http_answer_header() */
};

/*
 * 0 and the answer, whatever its status; http_answer_done() is due then. Else -EINVAL (bad URL or
 * header), -ECONNREFUSED, -EHOSTUNREACH (also: no such host), -ECONNRESET, -EPIPE, -ETIMEDOUT,
 * -ENOBUFS (larger than answer_max, or than the budget), -EPROTO (not HTTP, TLS failed, or refused
 * by the reader), -EACCES (deny_private), -ELOOP, -EPERM (a redirect that is not followed),
 * -ECANCELED.
 */
int http_fetch(struct http_client *c, const struct http_fetch *f, struct budget *b,
               struct http_answer *ret, struct error *err);

/* The value of a header (name in lower case), or an empty one. Borrowed from the answer. */
struct bytes http_answer_header(const struct http_answer *a, const char *name);

/* -EIO "URL answered 404 Not Found: first line of what the server said". A JSON body's "error" is
 * told instead of its first line. */
int http_answer_error(const struct http_answer *a, const char *url, struct error *err);

struct bytes http_answer_body(const struct http_answer *a);
void http_answer_done(struct budget *b, struct http_answer *a);

/* Whether it is worth while to try again later: nobody answers, or the server is too busy or
 * restarting (429, 502, 503, 504). `r` is what http_fetch() returned; `a` may be NULL. */
bool http_should_retry(int r, const struct http_answer *a);

/*
 * Fetching one URL: 0 and the body of a 200 answer, else what http_fetch() and http_answer_error()
 * say.
 */
int http_get(const char *url, const struct http_client_options *o, struct budget *b,
             struct http_body *ret, struct error *err);
void http_body_done(struct budget *b, struct http_body *body);
