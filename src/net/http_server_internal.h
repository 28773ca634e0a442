#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "net/http_server.h"
#include "net/http_session.h"
#include "net/listener.h"
#include "net/loop.h"

/*
 * What the parts of the server share: server (http_server.c) → loops → connections (conn.c) →
 * sessions (http_session.h) → exchanges (exchange.c).
 *
 * Everything of a loop is touched by its thread only. An exchange that was handed to the service is
 * touched from there through its lock, and holds the server's memory (not its threads) alive.
 */
struct tls_server;
struct conn;
struct exchange;

/* One thread with its connections. */
struct home {
    struct http_server *server;
    struct loop *loop;
    pthread_t thread;
    bool has_thread;
    struct conn *conns;
    uint8_t *in;    /* what was just read */
    struct buf out; /* what is about to be written */

    /* Of connections. */
    struct loop_timers handshake, head, idle, write, linger;
    /* Of exchanges. */
    struct loop_timers body, stall, deadline;

    struct loop_task drain, abort;
    atomic_bool is_aborted; /* it has no connections any more */
};

struct http_server {
    atomic_uint refs; /* the owner's, and one of each exchange */
    struct http_server_options o;
    struct listener *listeners;
    size_t n_listeners;
    struct home *homes;
    unsigned n_homes;
    struct tls_server *tls;
    bool was_aborted; /* of whoever drains and frees */

    /* Of the first home's thread, which accepts for all. */
    unsigned next_home;
    int spare_fd; /* for when there are no others */
    struct loop_timers resting;
    struct loop_timer rest;

    atomic_bool is_draining;
    atomic_uint n_connections;
    atomic_uint n_busy; /* connections that drain waits for */
    atomic_uint n_exchanges;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something has ended while draining */

    atomic_uint_least64_t accepted, refused, requests, body_memory, timeouts, protocol_errors;
    atomic_uint_least64_t bytes_in, bytes_out;
};

void http_server_ref(struct http_server *s);
void http_server_unref(struct http_server *s);
void http_server_log(struct http_server *s, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For whoever drains: something has ended. */
void http_server_changed(struct http_server *s);

/* Charges n bytes to body_memory; false when they are too many. */
bool http_server_charge(struct http_server *s, uint64_t n);
void http_server_discharge(struct http_server *s, uint64_t n);

static inline void count_up(atomic_uint_least64_t *n, uint64_t by)
{
    atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}
