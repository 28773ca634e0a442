#pragma once

#include <pthread.h>

#include "catalog/catalog.h"
#include "config/server_config.h"
#include "net/http_server.h"
#include "server/call.h"
#include "server/metrics.h"
#include "server/server.h"
#include "store/store.h"

/* What a server holds. Handlers use `store`, `catalog`, `config` and `metrics`; every other part
 * belongs to the file named beside it. */
struct server {
    const struct server_config *_Atomic config; /* replaced by a reload; old ones stay valid */
    struct store *store;
    struct catalog *catalog; /* NULL when it could not be opened: said in the log */
    struct metrics *metrics;
    struct http_server *_Atomic http; /* loops answer before it is set */

    struct jobs *jobs;               /* jobs.c: queues and workers */
    struct auth *auth;               /* auth.c: tokens, tenants */
    struct tenant_limits *limits;    /* tenant_limits.c */
    struct audit *audit;             /* audit.c */
    struct mask *mask;               /* mask.c: the rules */
    struct deployments *deployments; /* deployments.c: versions seen */
    struct control *control;         /* control.c: agents, directives */
    struct names *names;             /* names.c: debug files; names for addresses */
    struct sources *sources;         /* sources.c: source files; NULL: none are kept */
    struct self_profiler *self;      /* self_profile.c */

    int64_t start_ns;
    atomic_bool is_draining;
    bool is_loopback_only; /* nobody but this machine can connect */
};

/* server_handle() for what the server does by itself: nobody is asked who it is; the tenant is the
 * default one. */
void server_handle_own(struct server *s, const struct http_request *request,
                       struct http_reply *ret);
