#include <errno.h>

#include "lib/calls.h"
#include "server/metrics.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "wire/inflate.h"

static void answers_health_and_says_what_is_not_there(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    struct http_reply r = call_get(&c, "/healthz");
    CHECK_INT(t, r.status, 200);
    CHECK(t, reply_has(&r, "ok\n"));
    http_reply_done(&r);
    r = call_get(&c, "/nowhere");
    CHECK_INT(t, r.status, 404);
    CHECK(t, reply_has(&r, "there is nothing at /nowhere"));
    CHECK(t, reply_has(&r, "\"code\":\"not_found\""));
    http_reply_done(&r);
    r = call_send(&c, "DELETE", "/healthz", NULL, (struct bytes){0});
    CHECK_INT(t, r.status, 405);
    CHECK(t, bytes_are(reply_header(&r, "allow"), "GET"));
    http_reply_done(&r);
    calls_end(&c);
}

static void every_reply_forbids_sniffing_framing_and_scripts(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    const char *const targets[] = {"/healthz", "/metrics", "/nowhere"};
    for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
        struct http_reply r = call_get(&c, targets[i]);
        CHECK(t, bytes_are(reply_header(&r, "x-content-type-options"), "nosniff"));
        CHECK(t,
              bytes_find(reply_header(&r, "content-security-policy"), BYTES("default-src 'none'")));
        CHECK(t, reply_header(&r, "access-control-allow-origin").len == 0);
        http_reply_done(&r);
    }
    calls_end(&c);
}

static void pages_of_other_origins_may_not_ask(struct test *t)
{
    struct calls c;
    calls_config(&c);
    c.config.cors_origins = (struct config_list){{"https://allowed.example"}, 1};
    calls_open(t, &c);
    c.server->is_loopback_only = true;
    static const struct {
        const char *name, *value;
        int status;
    } cases[] = {
        {"origin", "http://localhost:4040", 200},
        {"origin", "https://evil.example", 403},
        {"origin", "null", 403},
        {"origin", "https://allowed.example", 200},
        {"sec-fetch-site", "cross-site", 403},
        {"sec-fetch-site", "same-origin", 200},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const char *const headers[] = {cases[i].name, cases[i].value, NULL};
        struct http_reply r = call_send(&c, "GET", "/healthz", headers, (struct bytes){0});
        CHECK_INT(t, r.status, cases[i].status);
        http_reply_done(&r);
    }
    const char *const preflight[] = {"origin", "https://allowed.example",
                                     "access-control-request-method", "POST", NULL};
    struct http_reply r = call_send(&c, "OPTIONS", "/api/v1/agents", preflight, (struct bytes){0});
    CHECK_INT(t, r.status, 204);
    CHECK(t, bytes_are(reply_header(&r, "access-control-allow-origin"), "https://allowed.example"));
    http_reply_done(&r);
    calls_end(&c);
}

static void a_body_that_unpacks_without_end_is_refused(struct test *t)
{
    CLEANUP(buf_done) struct buf zeros = {0};
    CLEANUP(buf_done) struct buf bomb = {0};
    struct calls c;

    calls_config(&c);
    c.config.body_limit = 1 << 20;
    calls_open(t, &c);
    memset(buf_reserve(&zeros, 8 << 20), 0, 8 << 20);
    zeros.len = 8 << 20;
    gzip_pack(buf_bytes(&zeros), 6, &bomb);
    const char *const headers[] = {"content-type", "application/json", "content-encoding", "gzip",
                                   NULL};
    struct http_reply r =
        call_send(&c, "POST", "/api/v1/agents/heartbeat", headers, buf_bytes(&bomb));
    CHECK_INT(t, r.status, 413);
    CHECK(t, reply_has(&r, "once it is unpacked"));
    http_reply_done(&r);
    const char *const unknown[] = {"content-encoding", "br", NULL};
    r = call_send(&c, "POST", "/api/v1/agents/heartbeat", unknown, BYTES("x"));
    CHECK_INT(t, r.status, 415);
    CHECK(t, reply_has(&r, "content-encoding \\\"br\\\" is not gzip or zstd"));
    http_reply_done(&r);
    calls_end(&c);
}

static void large_answers_are_packed_when_the_client_can_unpack(struct test *t)
{
    struct calls c;
    calls_begin(t, &c);
    const char *const headers[] = {"accept-encoding", "gzip, deflate", NULL};
    struct http_reply r = call_send(&c, "GET", "/metrics", headers, (struct bytes){0});
    CHECK(t, bytes_are(reply_header(&r, "content-encoding"), "gzip"));
    CHECK(t, r.body.len > 2 && r.body.data[0] == 0x1f && r.body.data[1] == 0x8b);
    http_reply_done(&r);
    const char *const zstd[] = {"accept-encoding", "gzip, zstd", NULL};
    r = call_send(&c, "GET", "/metrics", zstd, (struct bytes){0});
    CHECK(t, bytes_are(reply_header(&r, "content-encoding"), "zstd"));
    http_reply_done(&r);
    r = call_get(&c, "/metrics");
    CHECK(t, reply_header(&r, "content-encoding").len == 0);
    CHECK(t, reply_has(&r, "vesta_store_writable 1\n"));
    http_reply_done(&r);
    calls_end(&c);
}

static void no_two_routes_answer_one_path(struct test *t)
{
    for (size_t i = 0; route_at(i); i++) {
        const struct route *a = route_at(i), *found = NULL;
        const char *methods = NULL;
        struct bytes method = {(const uint8_t *)a->method, strcspn(a->method, "|")};
        CHECK(t, a->path[0] == '/' && a->handle);
        CHECK_INT(t, route_find(method, bytes_of(a->path), &found, &methods), 0);
        if (found != a)
            printf("# %s %s\n", a->method, a->path);
        CHECK(t, found == a);
    }
}

static const struct test_case cases[] = {
    TEST(answers_health_and_says_what_is_not_there),
    TEST(every_reply_forbids_sniffing_framing_and_scripts),
    TEST(pages_of_other_origins_may_not_ask),
    TEST(a_body_that_unpacks_without_end_is_refused),
    TEST(large_answers_are_packed_when_the_client_can_unpack),
    TEST(no_two_routes_answer_one_path),
};
TEST_MAIN(cases)
