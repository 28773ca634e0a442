#pragma once

#include "base/error.h"
#include "net/http.h"

/*
 * What browsers are for and against. A page of another origin may not make its visitor's browser
 * talk to this server: neither by a request of its own (origin), nor under a name that was made to
 * point here (rebinding), unless its origin is in cors_origins.
 */
struct server;

/* -EPERM with the reason. A preflight that is allowed is answered in *reply, whose status is then
 * set. */
int web_guard_check(struct server *s, const struct http_request *r, struct http_reply *reply,
                    struct error *err);

/* Headers of every reply: nothing is sniffed, framed, run or kept. */
void web_guard_headers(struct server *s, const struct http_request *r, struct http_reply *reply);
