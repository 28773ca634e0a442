#pragma once

#include "net/http_client.h"
#include "net/tls_lib.h"
#include "net/url.h"

/*
 * One connection of the client, plain, TLS or to a Unix socket. The socket is non-blocking;
 * conn_wait() is the only place that sleeps, so that progress, cancelling and the timeouts work in
 * every phase.
 */
struct client_conn {
    int fd;                    /* -1: none */
    const struct tls_lib *lib; /* NULL unless it is TLS */
    SSL_CTX *context;
    SSL *tls;
    const struct http_client_options *o;
    bool wants_http2;      /* by ALPN, where it is TLS: without it there is no connection */
    struct url url;        /* whom it is with */
    bool with_certificate; /* the client's was offered */
    bool was_used;         /* an answer came over it before */

    /* Of the current request. */
    double started, moved; /* in seconds; when it began, and when something last came or went */
    double connect_until;  /* while connecting, else 0 */
    struct http_progress progress;
};

/* Opens a connection for u. `with_certificate` offers the client's certificate. */
int client_conn_open(struct client_conn *c, const struct url *u, bool with_certificate,
                     struct error *err);
void client_conn_close(struct client_conn *c);

/* Whether a kept connection can take another request: nothing has come over it, nor its end. */
bool client_conn_is_fresh(struct client_conn *c);

/* Sends all of it; 1 when the other side has begun to answer before that. */
int client_conn_send(struct client_conn *c, struct bytes data, struct error *err);

/* 1..size bytes, 0 at the end, or an error. */
ssize_t client_conn_receive(struct client_conn *c, uint8_t *to, size_t size, struct error *err);

/*
 * For protocols that talk both ways at once: sends what can be sent of `out` and receives what has
 * come, after waiting until one of both is possible. Until all of `out` is sent the same bytes, at
 * the same place, must be given again. -ECONNRESET at the end of what the other side says.
 */
struct client_moved {
    size_t sent, received;
};
int client_conn_move(struct client_conn *c, struct bytes out, uint8_t *to, size_t size,
                     struct client_moved *ret, struct error *err);

double client_now_s(void);
