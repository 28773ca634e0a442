#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "net/loop.h"

/* A listening socket. */
struct listener {
    struct loop_io io; /* first; fd -1: closed */
    bool is_tls;
    char address[128]; /* what it got: "127.0.0.1:41233", "unix:/path" */
    void *owner;
};

#define PEER_TEXT_MAX 64

/*
 * "127.0.0.1:4040", "[::1]:4040", "name:4040", ":4040" (every address), "unix:/path". -EADDRINUSE
 * names the process that has the address, as far as it can be found, and what to do; -EINVAL for an
 * address that cannot be read.
 */
int listener_open(const char *address, struct listener *ret, struct error *err);
void listener_close(struct listener *l); /* a closed one is fine */

/* A connection, not blocking, or a negative errno: -EAGAIN when there is none. */
int listener_accept(struct listener *l, char peer[PEER_TEXT_MAX]);
