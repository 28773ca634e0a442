#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "base/error.h"
#include "net/grpc.h"
#include "store/store.h"
#include "wire/input.h"

/*
 * A call: one request on its way through a handler. Handlers run on a worker's thread (or, when the
 * route is quick, on the loop's), see plain bodies whatever the encoding and framing were, fill in
 * the reply, and return 0; or a negative errno with words, which server/status.h turns into what
 * the client's protocol calls an error.
 *
 * To add a route: write its handler, add a row to a table of routes in your file, name the table in
 * server/routes.c.
 */
struct server;
struct http_exchange;
struct call;

enum role {
    ROLE_ANYONE = 0,
    ROLE_INGEST = 1,
    ROLE_READ = 2,
    ROLE_ADMIN = 4,
    ROLE_OPERATOR = 8, /* an admin of every tenant; of callers, not of tokens or routes */
};

enum lane {
    LANE_QUICK,  /* on the loop's thread: no waiting, no disk, microseconds */
    LANE_INGEST, /* workers that have a store_source */
    LANE_QUERY,  /* workers for everything that reads */
};

/* How the client's protocol puts replies and errors. */
enum dialect {
    DIALECT_PLAIN, /* errors are {"error":"...","code":"..."} */
    DIALECT_OTLP,  /* OTLP over HTTP: errors are google.rpc.Status, as protobuf or JSON */
    DIALECT_RPC, /* one path, three protocols by content type: gRPC, Connect as protobuf or JSON */
};

struct route {
    const char *method; /* "GET", "POST", "GET|POST" */
    const char *path;   /* a final "*" matches the rest, which is then call.rest */
    enum role role;
    enum lane lane;
    enum dialect dialect;
    uint64_t body_limit; /* 0: the server's; ROUTE_UPLOAD: its limit for uploads */
    int (*handle)(struct call *c, struct error *err);
    int argument;        /* for handlers that serve several routes */
    const char *summary; /* one line, for the OpenAPI description; NULL leaves the route out */
    const char *params;  /* "query!: selector; from: time; ..." name, ! when required, help */
};

#define ROUTE_UPLOAD UINT64_MAX

/* What a worker's thread has for itself. */
struct worker {
    struct server *server;
    struct store_source *source; /* LANE_INGEST: decode into source->set */
    size_t n_nodes;              /* of source's dictionary before the request: ingest_begin() */
    struct mask_memory *masked;  /* LANE_INGEST: what mask.c remembers of source's dictionary */
    struct buf scratch;
    bool has_turn, has_large_share; /* of the memory for decoding: jobs.h */
};

struct call {
    struct server *server;
    const struct route *route;
    const struct http_request *request;
    struct http_exchange *exchange; /* NULL when there is no network: tests, the server itself */
    struct worker *worker;
    struct bytes rest; /* what the route's "*" matched, unescaped, without control characters */
    struct bytes tenant;
    unsigned roles; /* what the caller may do */
    char actor[64]; /* who: the token's name, for the audit log */

    /* Content: unpacked (gzip, zstd), the gRPC frame taken off; at most body_limit bytes. Empty for
     * a body that lies in a file: call_input() reads either. */
    struct bytes body;
    bool is_json;               /* the body, and so the reply, is JSON and not protobuf */
    enum rpc_protocol protocol; /* DIALECT_RPC: which of them */

    struct api_file *file; /* the body is a profile to ask about: api_file.h; NULL: it is not */

    const char *format; /* of what came in, static, for metrics: ingest_set() says it */

    struct budget budget; /* what this call may use; the handler's own work charges it */
    atomic_bool *cancelled;
    int64_t retry_after_ms; /* what to tell with -EAGAIN; 0: a second */

    struct http_reply reply;
    bool is_packed;    /* the reply leaves as the handler made it */
    bool is_streaming; /* call_stream() was called */
};

/* gRPC or gRPC-Web: a message in a frame. */
static inline bool call_is_grpc(const struct call *c)
{
    return c->protocol == RPC_GRPC || c->protocol == RPC_GRPC_WEB;
}

/* The handler answers later, from any thread: it has taken the call with call_keep(). */
#define CALL_PENDING 1

/* A parameter of the query string, or of a form body. The value lives as long as the call. */
bool call_param(struct call *c, const char *name, struct bytes *ret);

struct bytes call_header(const struct call *c, const char *name);

/* What the content of a body may measure. */
uint64_t call_body_limit(const struct call *c);

/* The body, whether in memory or in a file, with gzip and zstd inside taken off, for a decoder. */
int call_input(struct call *c, const char *name, struct input **ret, struct error *err);

/* Sets content-type and hands the buffer's content over to the reply. */
void call_reply(struct call *c, const char *content_type, struct buf *body);

/* A protobuf or JSON message as the dialect has it (framing, content type, trailers follow). */
void call_reply_message(struct call *c, struct buf *body);

/*
 * A reply in pieces, for answers too large to hold: begin, then hand over parts, which wait while
 * the client is slow. -ECANCELED when it has left, -EBUSY before the first when too many workers
 * wait like this already. The end follows the handler's return; when that is an error, the client
 * sees a reply that breaks off.
 */
void call_stream(struct call *c, const char *content_type);
int call_stream_part(struct call *c, struct buf *part);

/* For CALL_PENDING: a copy that outlives the handler, and its end. `r` is what the handler would
 * have returned. */
struct call *call_keep(struct call *c);
void call_finish(struct call *kept, int r, const struct error *err);

/* Memory that lives as long as the call. */
struct arena *call_arena(struct call *c);
