#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/scratch.h"
#include "lib/test.h"
#include "net/http_client.h"
#include "relay/status_server.h"

/* ---- what the rest of the relay would do */

static char logged[1024];

void relay_log(const struct relay_child *c, enum relay_level level, const char *fmt, ...)
{
    (void)c;
    (void)level;
    va_list args;
    va_start(args, fmt);
    vsnprintf(logged, sizeof(logged), fmt, args);
    va_end(args);
}

void relay_add_metrics(struct relay_child *c, struct buf *text)
{
    (void)c;
    buf_add_str(text, "relay_up 1\n");
}

void relay_add_status(struct relay_child *c, struct buf *json)
{
    (void)c;
    buf_add_str(json, "{\"exporters\":[]}");
}

struct world {
    struct agent_config config;
    struct relay_child child;
    void *part;
    int r;
    struct error err;
};

static void world_init(struct world *w, const char *listen)
{
    *w = (struct world){.config = {.listen = listen}};
    w->child.config = &w->config;
    logged[0] = '\0';
    w->r = status_part.start(&w->child, &w->part, &w->err);
    if (w->r < 0)
        printf("# %s\n", w->err.text);
}

static void world_done(struct world *w)
{
    if (w->part)
        status_part.stop(w->part);
}

static void say(struct world *w, enum relay_kind kind, const char *text)
{
    status_part.message(w->part, kind, bytes_of(text), -1);
}

struct got {
    int status;
    char body[4096], type[128];
};

static struct got get(struct world *w, const char *method, const char *host, const char *path)
{
    struct got got = {0};
    char url[512];
    const char *address = status_server_address(w->part);
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    snprintf(url, sizeof(url), "http://%s%s", host ? host : is_unix ? "localhost" : address, path);
    struct budget b;
    struct error err;
    budget_init(&b, 1 << 20);
    struct http_answer a;
    CLEANUP(http_client_freep)
    struct http_client *c =
        http_client_new(&(struct http_client_options){.unix_path = is_unix ? address + 5 : NULL});
    int r = http_fetch(
        c,
        &(struct http_fetch){.method = method,
                             .url = url,
                             .body = strcmp(method, "POST") == 0 ? BYTES("x") : (struct bytes){0}},
        &b, &a, &err);
    if (r < 0) {
        printf("# %s\n", err.text);
        return got;
    }
    got.status = a.status;
    struct bytes body = http_answer_body(&a), type = http_answer_header(&a, "content-type");
    snprintf(got.body, sizeof(got.body), "%.*s", (int)body.len, (const char *)body.data);
    snprintf(got.type, sizeof(got.type), "%.*s", (int)type.len, (const char *)type.data);
    http_answer_done(&b, &a);
    return got;
}

static void status_is_what_the_agent_said_last_and_what_the_relay_knows(struct test *t)
{
    struct world w;
    world_init(&w, "127.0.0.1:0");
    struct got g = get(&w, "GET", NULL, "/status");
    CHECK_INT(t, g.status, 200);
    CHECK(t, strstr(g.body, "\"agent\":null,\"relay\":{\"exporters\":[]}}\n"));
    say(&w, RELAY_STATUS, "{\"mode\":\"low\"}");
    say(&w, RELAY_STATUS, "{\"mode\":\"normal\"}");
    g = get(&w, "GET", NULL, "/status");
    CHECK_STR(t, g.type, "application/json");
    CHECK(t, strstr(g.body, "{\"age_s\":0.0"));
    CHECK(t, strstr(g.body, ",\"agent\":{\"mode\":\"normal\"},\"relay\":{\"exporters\":[]}}\n"));
    CHECK(t, strstr(logged, "/metrics and /status are at 127.0.0.1:"));
    world_done(&w);
}

static void metrics_are_those_of_the_agent_and_of_the_relay(struct test *t)
{
    struct world w;
    world_init(&w, "127.0.0.1:0");
    say(&w, RELAY_METRICS, "agent_up 1");
    struct got g = get(&w, "GET", NULL, "/metrics");
    CHECK_STR(t, g.type, "text/plain; version=0.0.4; charset=utf-8");
    CHECK_STR(t, g.body, "agent_up 1\nrelay_up 1\n");
    struct buf text = {0};
    status_part.metrics(w.part, &text);
    CHECK(t, strstr(buf_cstr(&text), "vesta_agent_status_requests_total{answer=\"sent\"} 1\n"));
    buf_done(&text);
    world_done(&w);
}

static void health_is_well_while_the_agent_speaks(struct test *t)
{
    struct world w;
    world_init(&w, "127.0.0.1:0");
    struct got g = get(&w, "GET", NULL, "/healthz");
    CHECK_INT(t, g.status, 200);
    CHECK_STR(t, g.body, "ok\n");
    g = get(&w, "HEAD", NULL, "/healthz");
    CHECK_INT(t, g.status, 200);
    world_done(&w);
}

static void nothing_can_be_written_and_nothing_else_is_there(struct test *t)
{
    struct world w;
    world_init(&w, "127.0.0.1:0");
    struct got g = get(&w, "POST", NULL, "/status");
    CHECK_INT(t, g.status, 405);
    g = get(&w, "DELETE", NULL, "/metrics");
    CHECK_INT(t, g.status, 405);
    g = get(&w, "GET", NULL, "/../etc/passwd");
    CHECK_INT(t, g.status, 404);
    CHECK_STR(t, g.body, "there are /metrics, /status and /healthz\n");
    g = get(&w, "GET", NULL, "/");
    CHECK_INT(t, g.status, 200);
    world_done(&w);
}

static void names_of_others_are_refused(struct test *t)
{
    struct world w;
    struct scratch dir;
    char listen[300];
    scratch_init(&dir);
    snprintf(listen, sizeof(listen), "unix:%s/agent.sock", dir.path);
    world_init(&w, listen);
    CHECK_INT(t, get(&w, "GET", "evil.example", "/status").status, 403);
    CHECK_INT(t, get(&w, "GET", "evil.example:4042", "/metrics").status, 403);
    CHECK_INT(t, get(&w, "GET", "127.0.0.1.evil.example", "/metrics").status, 403);
    CHECK_INT(t, get(&w, "GET", "localhost:4042", "/status").status, 200);
    CHECK_INT(t, get(&w, "GET", "127.0.0.1:4042", "/status").status, 200);
    CHECK_INT(t, get(&w, "GET", "[::1]:4042", "/status").status, 200);
    world_done(&w);
    scratch_done(&dir);
}

static void an_address_that_others_can_reach_is_warned_of(struct test *t)
{
    struct world w;
    world_init(&w, "0.0.0.0:0");
    CHECK_INT(t, w.r, 0);
    CHECK(t, strstr(logged, "other hosts may read names of services and programs at 0.0.0.0:"));
    world_done(&w);
}

static void no_address_is_no_server_and_a_bad_one_an_error(struct test *t)
{
    struct world w;
    world_init(&w, "");
    CHECK_INT(t, w.r, 0);
    CHECK(t, w.part == NULL);
    world_init(&w, "nonsense");
    CHECK(t, w.r < 0);
    CHECK(t, w.part == NULL);
}

static void what_is_too_large_is_left_out(struct test *t)
{
    struct world w;
    world_init(&w, "127.0.0.1:0");
    say(&w, RELAY_STATUS, "{\"mode\":\"low\"}");
    char *large = calloc(1, ((size_t)2 << 20) + 2);
    memset(large, ' ', ((size_t)2 << 20) + 1);
    say(&w, RELAY_STATUS, large);
    say(&w, RELAY_TARGETS, "[]");
    CHECK(t, strstr(get(&w, "GET", NULL, "/status").body, "{\"mode\":\"low\"}"));
    free(large);
    world_done(&w);
}

static const struct test_case cases[] = {
    TEST(status_is_what_the_agent_said_last_and_what_the_relay_knows),
    TEST(metrics_are_those_of_the_agent_and_of_the_relay),
    TEST(health_is_well_while_the_agent_speaks),
    TEST(nothing_can_be_written_and_nothing_else_is_there),
    TEST(names_of_others_are_refused),
    TEST(an_address_that_others_can_reach_is_warned_of),
    TEST(no_address_is_no_server_and_a_bad_one_an_error),
    TEST(what_is_too_large_is_left_out),
};
TEST_MAIN(cases)
