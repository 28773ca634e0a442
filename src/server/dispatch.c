/*
 * The way of a request: its head is routed and authenticated on the loop's thread, before a byte of
 * the body is read; complete, it waits in its lane's queue; a worker unpacks it, runs the handler
 * and answers.
 */
#include "server/dispatch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "net/grpc.h"
#include "server/call_internal.h"
#include "server/jobs.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "server/status.h"
#include "server/tenant_limits.h"
#include "server/web_guard.h"
#include "server/web_pages.h"
#include "wire/pack.h"

/* Below this packing costs more than it saves. */
#define PACK_MIN 1024

/* A body of an upload stays in memory up to here. */
#define UPLOAD_IN_MEMORY ((uint64_t)4 << 20)

/* ---- Admission */

static void read_dialect(struct call *c)
{
    struct bytes type = http_media_type(call_header(c, "content-type"));

    c->is_json = bytes_are(type, "application/json");
    if (c->route->dialect != DIALECT_RPC)
        return;
    c->protocol = rpc_protocol_of(call_header(c, "content-type"));
    c->is_json = c->protocol == RPC_CONNECT_JSON;
}

/* What the route's "*" matched: unescaped, and nothing that a path could be tricked with. */
static int read_rest(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf plain = {.budget = &c->budget};
    size_t n = strlen(c->route->path);

    if (c->route->path[n - 1] != '*')
        return 0;
    if (!http_unescape(bytes_from(c->request->path, n - 1), false, &plain))
        return error_set(err, -EINVAL, "the path has a broken %%-escape");
    for (size_t i = 0; i < plain.len; i++) {
        if (plain.data[i] < 0x20 || plain.data[i] == 0x7f)
            return error_set(err, -EINVAL, "the path holds a control character");
    }
    char *copy = arena_strdup(call_arena(c), buf_bytes(&plain));
    if (!copy)
        return budget_error(&c->budget, err);
    c->rest = (struct bytes){(const uint8_t *)copy, plain.len};
    return 0;
}

static int find_route(struct job *j, struct error *err)
{
    struct call *c = &j->call;
    const struct http_request *q = c->request;
    const char *methods = NULL;
    int len = (int)(q->path.len < 100 ? q->path.len : 100);

    int r = route_find(q->method, q->path, &c->route, &methods);
    if (r == -ENOENT) {
        c->route = web_pages_route(q);
        r = c->route ? 0 : r;
    }
    if (r == -ENOENT)
        return error_set(err, r, "there is nothing at %.*s%s", len, (const char *)q->path.data,
                         bytes_start_with(q->path, BYTES("/api/"))
                             ? "; /api/v1/openapi.json lists what there is"
                             : "");
    if (r < 0) {
        http_reply_header(&c->reply, "allow", bytes_of(methods));
        return error_set(err, r, "%.*s takes %s", len, (const char *)q->path.data, methods);
    }
    read_dialect(c);
    return read_rest(c, err);
}

static void count_refusal(struct server *s, int r)
{
    if (r == -EACCES || r == -EPERM || r == -EAGAIN)
        metrics_add(s->metrics, METRIC_AUTH_FAILURES, status_of(r).reason, 1);
    metrics_add(s->metrics, METRIC_REJECTS, status_of(r).reason, 1);
}

/* What the server does by itself it may do. */
static void be_the_server(struct job *j)
{
    struct auth_identity *id = &j->identity;
    id->roles = ROLE_INGEST | ROLE_READ | ROLE_ADMIN;
    snprintf(id->tenant, sizeof(id->tenant), "%s", j->call.server->config->default_tenant);
    snprintf(id->actor, sizeof(id->actor), "vesta");
}

/* Finds the route, says who asks. 0, or a negative errno: then the call's reply is filled in. */
static int admit(struct job *j)
{
    struct call *c = &j->call;
    struct server *s = c->server;
    struct error err = {""};

    int r = j->is_own ? 0 : web_guard_check(s, c->request, &c->reply, &err);
    if (r == 0 && c->reply.status)
        return 0; /* a preflight, answered */
    if (r == 0)
        r = find_route(j, &err);
    if (r == 0 && j->is_own)
        be_the_server(j);
    else if (r == 0)
        r = auth_check(s->auth, c->request, c->route->role, &j->identity, &err);
    if (r == -EAGAIN)
        c->retry_after_ms = AUTH_RETRY_MS;
    if (r == -EACCES)
        http_reply_header(&c->reply, "www-authenticate", BYTES("Bearer realm=\"vesta\""));
    if (r < 0) {
        count_refusal(s, r);
        status_reply(c, r, &err);
        return r;
    }
    c->tenant = bytes_of(j->identity.tenant);
    c->roles = j->identity.roles;
    memcpy(c->actor, j->identity.actor, sizeof(c->actor));
    return 0;
}

/* ---- The body */

static int unpack_body(struct job *j, enum codec codec, struct error *err)
{
    struct call *c = &j->call;
    uint64_t limit = call_body_limit(c);
    uint64_t share = limit < WORKER_UNPACK_BYTES ? limit : WORKER_UNPACK_BYTES;
    struct budget unpacking;

    budget_init(&unpacking, share + 4096);
    int r = unpack(codec, c->body, &unpacking, &j->plain, err);
    if (r == -ENOBUFS && share < limit) {
        worker_take_turn(c->worker);
        budget_init(&unpacking, limit + 4096);
        r = unpack(codec, c->body, &unpacking, &j->plain, err);
    }
    if (r == -ENOBUFS)
        return error_set(err, r, "the body is larger than %" PRIu64 " bytes once it is unpacked",
                         limit);
    if (r < 0)
        return error_prefix(err, r, "the body");
    /* From its own budget to the call's: freed with the call. */
    if (!budget_take(&c->budget, unpacking.used))
        return budget_error(&c->budget, err);
    c->body = (struct bytes){j->plain.data, j->plain.len};
    return 0;
}

static int read_content(struct job *j, struct error *err)
{
    struct bytes coding = call_header(&j->call, "content-encoding");

    if (coding.len == 0 || bytes_are(coding, "identity"))
        return 0;
    if (bytes_are(coding, "gzip") || bytes_are(coding, "x-gzip"))
        return unpack_body(j, CODEC_GZIP, err);
    if (bytes_are(coding, "zstd"))
        return unpack_body(j, CODEC_ZSTD_HTTP, err);
    return error_set(err, -EMEDIUMTYPE, "content-encoding \"%.*s\" is not gzip or zstd",
                     (int)(coding.len < 40 ? coding.len : 40), (const char *)coding.data);
}

static int read_message(struct job *j, struct error *err)
{
    struct call *c = &j->call;
    struct grpc_message m;

    int r = grpc_read_message(c->body, call_header(c, "grpc-encoding"), &m, err);
    if (r < 0)
        return r;
    c->body = m.data;
    if (m.encoding == GRPC_IDENTITY)
        return 0;
    return unpack_body(j, m.encoding == GRPC_GZIP ? CODEC_GZIP : CODEC_ZSTD_HTTP, err);
}

static int read_body(struct job *j, struct error *err)
{
    struct call *c = &j->call;

    if (c->request->body_file >= 0)
        return 0; /* call_input() takes packing off */
    c->body = c->request->body;
    return call_is_grpc(c) ? read_message(j, err) : read_content(j, err);
}

/* ---- Answers */

/* What may be packed, and is worth it. */
static bool is_packable(const struct http_reply *reply)
{
    static const char *const kinds[] = {"application/json",      "text/",
                                        "application/proto",     "application/x-protobuf",
                                        "application/vnd.vesta", "image/svg"};
    struct bytes rest = buf_bytes(&reply->head);
    bool is_packable = false;

    for (struct http_header h; http_reply_next(&rest, &h);) {
        if (bytes_are(h.name, "content-encoding"))
            return false;
        for (size_t i = 0; bytes_are(h.name, "content-type") && i < ARRAY_SIZE(kinds); i++)
            is_packable |= bytes_start_with(h.value, bytes_of(kinds[i]));
    }
    return is_packable && reply->body.len >= PACK_MIN;
}

static void pack_reply(struct call *c)
{
    CLEANUP(buf_done) struct buf packed = {0};
    struct bytes accepted = call_header(c, "accept-encoding");
    const char *coding = NULL;

    if (c->is_packed || call_is_grpc(c) || !is_packable(&c->reply))
        return;
    http_reply_header(&c->reply, "vary", BYTES("accept-encoding"));
    if (http_value_has_token(accepted, "zstd") &&
        zstd_pack(buf_bytes(&c->reply.body), 1, &packed) == 0) {
        coding = "zstd";
    } else if (http_value_has_token(accepted, "gzip")) {
        gzip_pack(buf_bytes(&c->reply.body), 1, &packed);
        coding = "gzip";
    }
    if (!coding || packed.len >= c->reply.body.len)
        return;
    http_reply_header(&c->reply, "content-encoding", bytes_of(coding));
    struct buf plain = c->reply.body;
    c->reply.body = packed;
    packed = plain; /* freed on the way out */
}

void call_add_usual_headers(struct call *c)
{
    web_guard_headers(c->server, c->request, &c->reply);
}

void call_reply_message(struct call *c, struct buf *body)
{
    if (call_is_grpc(c)) {
        buf_done(&c->reply.body);
        c->reply.body = *body;
        c->reply.body.budget = NULL;
        *body = (struct buf){0};
        grpc_reply_ok(&c->reply, c->protocol, GRPC_IDENTITY);
        return;
    }
    const char *type = c->is_json                          ? "application/json"
                       : c->route->dialect == DIALECT_OTLP ? "application/x-protobuf"
                                                           : "application/proto";
    if (c->is_json && body->len == 0)
        buf_add_str(body, "{}");
    call_reply(c, type, body);
}

static void count_answer(struct job *j, int r)
{
    struct server *s = j->call.server;
    int64_t took = clock_monotonic_ns(clock_real()) - j->begun_ns;

    if (r < 0)
        metrics_add(s->metrics, METRIC_REJECTS, status_of(r).reason, 1);
    if (j->call.format)
        metrics_observe(s->metrics, METRIC_INGEST_SECONDS, j->call.format,
                        j->queued_ns ? j->begun_ns + took - j->queued_ns : took);
    if (j->call.route->lane == LANE_QUERY) {
        metrics_add(s->metrics, METRIC_QUERIES, j->call.route->path, 1);
        metrics_observe(s->metrics, METRIC_QUERY_SECONDS, j->call.route->path, took);
    }
}

/* A query that was told to stop because its time was up did not stop because its client left. */
static int explain_cancel(const struct call *c, int r, struct error *err)
{
    if (r != -ECANCELED || !c->exchange || c->exchange->deadline_ns == 0 ||
        clock_monotonic_ns(clock_real()) < c->exchange->deadline_ns)
        return r;
    return error_set(err, -ETIMEDOUT, "the answer took longer than the %.3f s that it may",
                     (double)(c->exchange->deadline_ns - c->exchange->start_ns) / 1e9);
}

/* A limit that bites is called by its name in the configuration. */
static void name_limit(const struct call *c, int r, struct error *err)
{
    const char *key = c->route->lane == LANE_QUERY ? "limits.query_memory" : "limits.body";
    struct error old = *err;

    if (r == -ENOBUFS)
        error_set(err, r, "%.400s (%s)", old.text, key);
}

static void send(struct job *j)
{
    struct call *c = &j->call;

    if (c->exchange) {
        struct http_exchange *x = c->exchange;
        struct http_reply reply = c->reply;
        c->reply = (struct http_reply){0};
        job_free(j); /* before the client can ask for more */
        http_reply_send(x, &reply);
    } else if (j->waiting) {
        struct rendezvous *w = j->waiting;
        struct http_reply reply = c->reply;
        c->reply = (struct http_reply){0};
        job_free(j);
        pthread_mutex_lock(&w->lock);
        w->reply = reply;
        w->is_done = true;
        pthread_cond_signal(&w->arrived);
        pthread_mutex_unlock(&w->lock);
    }
}

void job_finish(struct job *j, int r, const struct error *err)
{
    struct call *c = &j->call;
    struct error why = err ? *err : (struct error){""};

    if (j->has_query_slot)
        limits_end_query(c->server->limits, c->tenant);
    r = explain_cancel(c, r, &why);
    name_limit(c, r, &why);
    count_answer(j, r);
    if (j->has_begun) {
        struct http_exchange *x = c->exchange;
        jobs_end_stream(c->server->jobs);
        job_free(j);
        if (r < 0)
            http_reply_break_off(x);
        else
            http_reply_end(x, NULL);
        return;
    }
    if (r < 0)
        status_reply(c, r, &why);
    pack_reply(c);
    call_add_usual_headers(c);
    send(j);
}

static int run_handler(struct job *j, struct worker *w, struct error *err)
{
    struct call *c = &j->call;

    if (w)
        worker_ration(w);
    int r = c->route->handle(c, err);
    if (r == -ENOBUFS && w && worker_ration_more(w)) {
        http_reply_done(&c->reply);
        c->reply = (struct http_reply){0};
        r = c->route->handle(c, err);
    }
    return r;
}

void job_run(struct job *j, struct worker *w)
{
    struct call *c = &j->call;
    struct error err = {""};
    int r = 0;

    c->worker = w;
    if (atomic_load(c->cancelled))
        r = error_set(&err, -ECANCELED, "the client left before its turn came");
    if (r == 0 && c->route->lane == LANE_QUERY) {
        r = limits_begin_query(c->server->limits, c->tenant, &err);
        j->has_query_slot = r == 0;
    }
    if (r == 0 && w) /* on the loop's thread nobody asks for one */
        r = read_body(j, &err);
    if (r == 0)
        r = run_handler(j, w, &err);
    if (r != CALL_PENDING) /* else whoever kept it may have freed it by now */
        job_finish(j, r, &err);
    if (w)
        worker_ration_end(w);
}

/* ---- What the HTTP server asks */

static void set_deadline(struct http_exchange *x, const struct call *c)
{
    int64_t allowed = c->route->lane == LANE_QUERY ? c->server->config->query_timeout_ns : 0;
    int64_t asked = 0;

    if (!grpc_timeout(call_header(c, "grpc-timeout"), &asked))
        (void)connect_timeout(call_header(c, "connect-timeout-ms"), &asked);
    if (asked > 0 && asked < INT64_MAX / 2 && (allowed == 0 || asked < allowed))
        allowed = asked;
    if (allowed > 0)
        x->deadline_ns = x->start_ns + allowed;
}

static int on_head(void *ctx, struct http_exchange *x, struct http_reply *refusal)
{
    struct server *s = ctx;
    struct job *j = job_new(s, &x->request);

    j->call.exchange = x;
    j->call.cancelled = &x->cancelled;
    if (admit(j) < 0 || j->call.reply.status) {
        call_add_usual_headers(&j->call);
        *refusal = j->call.reply;
        j->call.reply = (struct http_reply){0};
        job_free(j);
        return refusal->status ? refusal->status : 200;
    }
    x->owner = j;
    x->body_limit = call_body_limit(&j->call);
    x->memory_max = j->call.route->body_limit == ROUTE_UPLOAD ? UPLOAD_IN_MEMORY : x->body_limit;
    set_deadline(x, &j->call);
    return 0;
}

static void on_request(void *ctx, struct http_exchange *x)
{
    struct server *s = ctx;
    struct job *j = x->owner;
    struct error err;

    x->owner = NULL;
    if (j->call.route->lane == LANE_QUICK) {
        job_run(j, NULL);
        return;
    }
    if (jobs_submit(s->jobs, j))
        return;
    int r = atomic_load(&s->is_draining)
                ? error_set(&err, -ESHUTDOWN, "the server is being shut down")
                : error_set(&err, -EAGAIN, "%u requests are waiting already (limits.queue)",
                            s->config->queue_max);
    job_finish(j, r, &err);
}

static void on_refuse(void *ctx, struct http_exchange *x, int status, struct http_reply *refusal)
{
    struct server *s = ctx;
    struct job *j = x->owner;
    struct error err = {""};
    int r;

    if (status == 413)
        r = error_set(&err, -EFBIG, "the body is larger than %" PRIu64 " bytes%s", x->body_limit,
                      x->body_limit == s->config->body_limit     ? " (limits.body)"
                      : x->body_limit == s->config->upload_limit ? " (limits.upload)"
                                                                 : "");
    else if (status == 429)
        r = error_set(&err, -EAGAIN,
                      "bodies of other requests fill the %" PRIu64
                      " bytes that they may (limits.body_memory)",
                      s->config->body_memory);
    else
        r = error_set(&err, -ETIME, "the body came too slowly");
    count_refusal(s, r);
    if (j) {
        status_reply(&j->call, r, &err);
        call_add_usual_headers(&j->call);
        *refusal = j->call.reply;
        j->call.reply = (struct http_reply){0};
    } else {
        refusal->status = status;
    }
}

static void on_done(void *ctx, struct http_exchange *x, int status, uint64_t bytes_sent)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    struct server *s = ctx;
    size_t class = status >= 100 && status < 600 ? (size_t)status / 100 : 0;

    job_free(x->owner);
    x->owner = NULL;
    metrics_add(s->metrics, METRIC_HTTP_REQUESTS, classes[class], 1);
    server_log(s, 0, "%s %.*s %.*s %d, %" PRIu64 " bytes in %.3f ms", x->request.peer,
               (int)x->request.method.len, (const char *)x->request.method.data,
               (int)(x->request.path.len < 200 ? x->request.path.len : 200),
               (const char *)x->request.path.data, status, bytes_sent,
               (double)(clock_monotonic_ns(clock_real()) - x->start_ns) / 1e6);
}

struct http_service dispatch_service(struct server *s)
{
    return (struct http_service){
        .head = on_head,
        .request = on_request,
        .refuse = on_refuse,
        .done = on_done,
        .ctx = s,
    };
}

/* ---- Without a network */

static void handle(struct server *s, const struct http_request *request, bool is_own,
                   struct http_reply *ret)
{
    struct rendezvous w = {.lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER};
    struct job *j = job_new(s, request);
    struct error err = {""};

    j->is_own = is_own;
    if (admit(j) < 0 || j->call.reply.status) {
        call_add_usual_headers(&j->call);
        *ret = j->call.reply;
        j->call.reply = (struct http_reply){0};
        job_free(j);
        return;
    }
    struct worker worker = {.server = s};
    j->waiting = &w;
    int r = worker_init(&worker, s, j->call.route->lane == LANE_INGEST, &err);
    if (r < 0)
        job_finish(j, r, &err);
    else
        job_run(j, &worker);
    pthread_mutex_lock(&w.lock);
    while (!w.is_done)
        pthread_cond_wait(&w.arrived, &w.lock);
    pthread_mutex_unlock(&w.lock);
    worker_done(&worker);
    *ret = w.reply;
}

void server_handle(struct server *s, const struct http_request *request, struct http_reply *ret)
{
    handle(s, request, false, ret);
}

void server_handle_own(struct server *s, const struct http_request *request, struct http_reply *ret)
{
    handle(s, request, true, ret);
}
