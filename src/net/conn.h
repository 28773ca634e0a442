#pragma once

#include "net/http_server_internal.h"

/*
 * A connection: the socket, TLS, and the session that speaks for it. Lives on one loop. Nothing but
 * its own functions closes it, and none of those is called from within the session.
 */
struct tls_conn;

struct conn {
    struct loop_io io;
    struct home *home;
    struct conn *prev, *next;
    struct tls_conn *tls;         /* NULL: plain */
    struct http_session *session; /* NULL until the protocol is known */
    struct exchange *exchanges;   /* open streams */
    struct buf out;               /* what the socket did not take, from out_at */
    size_t out_at;
    struct loop_timer read_timer, write_timer;
    struct loop_task task; /* arrival, then another turn */
    size_t charged;        /* of session->held */
    uint8_t first[24];     /* until the protocol is known */
    uint8_t n_first;
    bool is_tls, is_http2;
    bool can_read, can_write; /* until the socket says otherwise */
    bool is_handshaking, is_eof, has_hung_up, is_draining, is_closing, is_lingering;
    bool is_working;         /* work() is running */
    bool is_queued, is_dead; /* `task` is in the loop's hands: it frees what is dead */
    bool is_busy;            /* counted in n_busy */
    bool had_request;        /* since the idle clock was last started */
    char peer[64];
    char *subject; /* of the client's certificate, or NULL */
};

/* From the thread that accepts: a socket for a home's thread. With a refusal that is all it is
 * told. */
void conn_start(struct home *home, int fd, bool is_tls, const char *peer, const char *refusal);

/* Something is there to be written: has it done soon. */
void conn_kick(struct conn *c);

void conn_drain(struct conn *c); /* no new requests; closes when idle */
void conn_close(struct conn *c); /* at once */

void conn_timers_init(struct home *home);
