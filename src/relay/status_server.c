#include "relay/status_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/must.h"
#include "net/http_server.h"
#include "wire/json.h"

#define SECOND      ((int64_t)1000000000)
#define SILENCE_NS  (60 * SECOND)         /* of an agent that is not well */
#define TEXT_MAX    ((size_t)2 << 20)     /* of what the agent tells */
#define ANSWERS_MAX ((uint64_t)256 << 10) /* memory of requests in flight */

struct status_server {
    struct relay_child *child;
    struct http_server *http;
    bool is_local; /* only this host can connect */
    char host[65];
    int64_t start_ns;

    pthread_mutex_t lock; /* of all below */
    struct buf status, metrics;
    int64_t told_ns; /* when the status came; 0: never */
    uint64_t requests, refused;
};

/* ---- answers */

/* Since the agent has last said something, or since the start. */
static int64_t silence_ns(struct status_server *s)
{
    int64_t since = s->told_ns > 0 ? s->told_ns : s->start_ns;
    return clock_monotonic_ns(clock_real()) - since;
}

static void answer_health(struct status_server *s, struct http_reply *r)
{
    pthread_mutex_lock(&s->lock);
    int64_t silence = silence_ns(s);
    pthread_mutex_unlock(&s->lock);

    http_reply_header(r, "content-type", BYTES("text/plain; charset=utf-8"));
    if (silence < SILENCE_NS) {
        buf_add_str(&r->body, "ok\n");
        return;
    }
    r->status = 503;
    buf_addf(&r->body, "the agent has said nothing for %lld s\n", (long long)(silence / SECOND));
}

static void answer_metrics(struct status_server *s, struct http_reply *r)
{
    http_reply_header(r, "content-type", BYTES("text/plain; version=0.0.4; charset=utf-8"));
    pthread_mutex_lock(&s->lock);
    buf_add_bytes(&r->body, buf_bytes(&s->metrics));
    pthread_mutex_unlock(&s->lock);
    if (r->body.len > 0 && r->body.data[r->body.len - 1] != '\n')
        buf_add_byte(&r->body, '\n');
    relay_add_metrics(s->child, &r->body);
}

static void answer_status(struct status_server *s, struct http_reply *r)
{
    http_reply_header(r, "content-type", BYTES("application/json"));
    pthread_mutex_lock(&s->lock);
    buf_addf(&r->body, "{\"age_s\":%.3f,\"agent\":", (double)(silence_ns(s) / 1000000) / 1e3);
    if (s->status.len > 0)
        buf_add_bytes(&r->body, buf_bytes(&s->status));
    else
        buf_add_str(&r->body, "null");
    pthread_mutex_unlock(&s->lock);
    buf_add_str(&r->body, ",\"relay\":");
    relay_add_status(s->child, &r->body);
    buf_add_str(&r->body, "}\n");
}

static void answer_index(struct status_server *s, struct http_reply *r)
{
    (void)s;
    http_reply_header(r, "content-type", BYTES("text/plain; charset=utf-8"));
    buf_add_str(&r->body, "vesta-agent " VESTA_VERSION "\n\n/metrics\n/status\n/healthz\n");
}

static const struct {
    const char *path;
    void (*answer)(struct status_server *s, struct http_reply *r);
} pages[] = {
    {"/", answer_index},
    {"/healthz", answer_health},
    {"/metrics", answer_metrics},
    {"/status", answer_status},
};

static size_t find_page(struct bytes path)
{
    size_t i = 0;
    while (i < ARRAY_SIZE(pages) && !bytes_are(path, pages[i].path))
        i++;
    return i;
}

/* ---- requests */

/* "127.0.0.1:4042", "[::1]", "localhost", this host's name: no name that somebody else's name
 * server could lead here. */
static bool is_own_name(const struct status_server *s, struct bytes authority)
{
    char name[128];
    struct in6_addr address;
    size_t n = authority.len < sizeof(name) - 1 ? authority.len : 0;

    if (authority.len == 0)
        return true;
    if (n == 0)
        return false;
    memcpy(name, authority.data, n);
    name[n] = '\0';
    if (name[0] == '[')
        return true;
    name[strcspn(name, ":")] = '\0';
    return inet_pton(AF_INET, name, &address) == 1 || strcmp(name, "localhost") == 0 ||
           strcmp(name, s->host) == 0;
}

static int refuse_with(struct status_server *s, struct http_reply *r, int status, const char *text)
{
    pthread_mutex_lock(&s->lock);
    s->refused++;
    pthread_mutex_unlock(&s->lock);
    http_reply_header(r, "content-type", BYTES("text/plain; charset=utf-8"));
    buf_add_str(&r->body, text);
    return status;
}

static int on_head(void *ctx, struct http_exchange *x, struct http_reply *refusal)
{
    struct status_server *s = ctx;

    x->body_limit = 0;
    if (s->is_local && !is_own_name(s, x->request.authority))
        return refuse_with(s, refusal, 403, "ask by address, or as localhost\n");
    if (find_page(x->request.path) == ARRAY_SIZE(pages))
        return refuse_with(s, refusal, 404, "there are /metrics, /status and /healthz\n");
    if (!bytes_are(x->request.method, "GET") && !bytes_are(x->request.method, "HEAD")) {
        http_reply_header(refusal, "allow", BYTES("GET, HEAD"));
        return refuse_with(s, refusal, 405, "this can only be read: GET, HEAD\n");
    }
    return 0;
}

static void on_request(void *ctx, struct http_exchange *x)
{
    struct status_server *s = ctx;
    struct http_reply r = {0};

    pthread_mutex_lock(&s->lock);
    s->requests++;
    pthread_mutex_unlock(&s->lock);
    http_reply_header(&r, "cache-control", BYTES("no-store"));
    http_reply_header(&r, "x-content-type-options", BYTES("nosniff"));
    pages[find_page(x->request.path)].answer(s, &r);
    http_reply_send(x, &r);
}

static void on_refuse(void *ctx, struct http_exchange *x, int status, struct http_reply *refusal)
{
    (void)x;
    (void)refuse_with(ctx, refusal, status, "requests have no body here\n");
}

static void on_done(void *ctx, struct http_exchange *x, int status, uint64_t bytes_sent)
{
    (void)ctx;
    (void)x;
    (void)status;
    (void)bytes_sent;
}

/* ---- the part */

static bool is_local(const char *address)
{
    return strncmp(address, "unix:", 5) == 0 || strncmp(address, "127.", 4) == 0 ||
           strncmp(address, "[::1]:", 6) == 0 || strncmp(address, "localhost:", 10) == 0;
}

static void server_free(struct status_server *s)
{
    http_server_free(s->http);
    pthread_mutex_destroy(&s->lock);
    buf_done(&s->status);
    buf_done(&s->metrics);
    free(s);
}

static void on_log(void *ctx, int level, const char *text)
{
    const struct status_server *s = ctx;
    relay_log(s->child, level < 3 ? RELAY_DEBUG : RELAY_ERROR, "%s", text);
}

static int part_start(struct relay_child *c, void **ret, struct error *err)
{
    const char *address = c->config->listen;
    if (!address || address[0] == '\0')
        return 0;

    struct status_server *s = must_calloc(1, sizeof(*s));
    s->child = c;
    s->is_local = is_local(address);
    s->start_ns = clock_monotonic_ns(clock_real());
    pthread_mutex_init(&s->lock, NULL);
    if (gethostname(s->host, sizeof(s->host) - 1) < 0)
        s->host[0] = '\0';

    struct http_listen listen = {.address = address};
    int r = http_server_start(
        &(struct http_server_options){
            .service = {on_head, on_request, on_refuse, on_done, s},
            .listens = &listen,
            .n_listens = 1,
            .loops = 1,
            .connections_max = 64,
            .streams_max = 8,
            .body_memory_max = ANSWERS_MAX,
            .log = on_log,
            .log_ctx = s,
        },
        &s->http, err);
    if (r < 0) {
        server_free(s);
        return r;
    }
    relay_log(c, RELAY_INFO, "/metrics and /status are at %s", http_server_address(s->http, 0));
    if (!s->is_local)
        relay_log(c, RELAY_WARNING,
                  "other hosts may read names of services and programs at %s: listen is not an "
                  "address of this host alone",
                  http_server_address(s->http, 0));
    *ret = s;
    return 0;
}

static void part_message(void *part, enum relay_kind kind, struct bytes data, int fd)
{
    struct status_server *s = part;
    (void)fd;
    if ((kind != RELAY_STATUS && kind != RELAY_METRICS) || data.len > TEXT_MAX)
        return;
    pthread_mutex_lock(&s->lock);
    struct buf *to = kind == RELAY_STATUS ? &s->status : &s->metrics;
    buf_clear(to);
    buf_add_bytes(to, data);
    s->told_ns = clock_monotonic_ns(clock_real());
    pthread_mutex_unlock(&s->lock);
}

static void part_stop(void *part)
{
    server_free(part);
}

static void part_metrics(void *part, struct buf *text)
{
    struct status_server *s = part;
    pthread_mutex_lock(&s->lock);
    buf_addf(text,
             "# HELP vesta_agent_status_requests_total Requests for metrics and status.\n"
             "# TYPE vesta_agent_status_requests_total counter\n"
             "vesta_agent_status_requests_total{answer=\"sent\"} %llu\n"
             "vesta_agent_status_requests_total{answer=\"refused\"} %llu\n",
             (unsigned long long)s->requests, (unsigned long long)s->refused);
    pthread_mutex_unlock(&s->lock);
}

const char *status_server_address(const void *part)
{
    const struct status_server *s = part;
    return http_server_address(s->http, 0);
}

const struct relay_part status_part = {
    .name = "status",
    .start = part_start,
    .message = part_message,
    .stop = part_stop,
    .metrics = part_metrics,
};
