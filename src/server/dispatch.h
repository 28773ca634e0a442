#pragma once

#include "net/http_server.h"

struct server;

/* What the HTTP server asks of us: routing, authentication, queues. */
struct http_service dispatch_service(struct server *s);
