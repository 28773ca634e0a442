#include <errno.h>

#include "lib/script_server.h"
#include "lib/test.h"
#include "net/http_client.h"

#define OK_HELLO "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"e1\"\r\n\r\nhello"

/* A client with a script at the other end. */
struct world {
    struct script_server server;
    struct http_client *client;
    struct budget budget;
    struct http_answer answer;
    struct error err;
    char url[64];
};

static void world_start(struct world *w, const struct script_line *lines, size_t n,
                        const struct http_client_options *o)
{
    memset(w, 0, sizeof(*w));
    script_start(&w->server, lines, n, o->unix_path);
    snprintf(w->url, sizeof(w->url), "http://127.0.0.1:%d/x", w->server.port ? w->server.port : 80);
    w->client = http_client_new(o);
    budget_init(&w->budget, 1 << 20);
}

/* Fetches, and gives what the status is or the negative errno. */
static int get(struct world *w, struct http_fetch f)
{
    http_answer_done(&w->budget, &w->answer);
    w->answer = (struct http_answer){0};
    f.url = f.url ? f.url : w->url;
    int r = http_fetch(w->client, &f, &w->budget, &w->answer, &w->err);
    return r < 0 ? r : w->answer.status;
}

static void world_end(struct world *w, struct test *t)
{
    http_client_free(w->client);
    script_stop(&w->server);
    http_answer_done(&w->budget, &w->answer);
    CHECK_INT(t, w->budget.used, 0);
}

#define START(w, lines, ...)                                                                       \
    world_start(&(w), lines, sizeof(lines) / sizeof((lines)[0]),                                   \
                &(struct http_client_options){.connect_s = 5, .silence_s = 5, __VA_ARGS__})

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static void an_answer_has_status_headers_and_body(struct test *t)
{
    static const struct script_line script[] = {{.answer = OK_HELLO}};
    struct world w;
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){0}), 200);
    CHECK_STR(t, w.answer.reason, "OK");
    CHECK(t, bytes_are(http_answer_body(&w.answer), "hello"));
    CHECK(t, bytes_are(http_answer_header(&w.answer, "etag"), "\"e1\""));
    CHECK_INT(t, http_answer_header(&w.answer, "x-none").len, 0);
    CHECK_INT(t, w.answer.retry_after_ms, -1);
    world_end(&w, t);
}

static void a_connection_is_used_again(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = OK_HELLO},
        {.answer = "HTTP/1.1 204 No Content\r\n\r\n"},
        {.answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
        {.answer = OK_HELLO}};
    struct world w;
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){0}), 200);
    CHECK_INT(t, get(&w, (struct http_fetch){.body = BYTES("some")}), 204);
    CHECK_INT(t, get(&w, (struct http_fetch){0}), 200);
    CHECK(t, bytes_are(http_answer_body(&w.answer), "abc"));
    CHECK_INT(t, get(&w, (struct http_fetch){0}), 200);
    CHECK_INT(t, w.server.n_connections, 1);
    CHECK_INT(t, w.server.n_requests, 4);
    world_end(&w, t);
}

static void a_connection_that_the_server_ends_is_not(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
         .hangs_up = true},
        {.answer = "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", .hangs_up = true},
        {.answer = "HTTP/1.1 200 OK\r\n\r\nto the end", .hangs_up = true},
        {.answer = OK_HELLO "junk"},
        {.answer = OK_HELLO}};
    struct world w;
    START(w, script);
    for (int i = 0; i < 5; i++)
        CHECK_INT(t, get(&w, (struct http_fetch){.body = BYTES("b")}), 200);
    CHECK_INT(t, w.server.n_connections, 5);
    world_end(&w, t);
}

static void a_kept_connection_that_died_is_replaced_for_what_may_be_repeated(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = OK_HELLO}, {.answer = NULL}, {.answer = OK_HELLO}, {.answer = NULL}};
    struct world w;
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){0}), 200);
    CHECK_INT(t, get(&w, (struct http_fetch){.body = BYTES("b"), .is_repeatable = true}), 200);
    CHECK_INT(t, w.server.n_connections, 2);
    CHECK_INT(t, get(&w, (struct http_fetch){.body = BYTES("b")}), -ECONNRESET);
    CHECK_STR(t, w.err.text, "127.0.0.1 closed the connection before it answered");
    world_end(&w, t);
}

static void a_post_has_its_headers_and_body(struct test *t)
{
    static const struct script_line script[] = {{.answer = OK_HELLO}, {.answer = OK_HELLO}};
    const struct http_header headers[] = {{BYTES("content-type"), BYTES("application/x")},
                                          {BYTES("authorization"), BYTES("Bearer t")}};
    struct world w;
    START(w, script);
    CHECK_INT(
        t, get(&w, (struct http_fetch){.headers = headers, .n_headers = 2, .body = BYTES("abc")}),
        200);
    const char *sent = w.server.requests[0];
    CHECK(t, strncmp(sent, "POST /x HTTP/1.1\r\nHost: 127.0.0.1:", 34) == 0);
    CHECK(t, has(sent, "\r\ncontent-type: application/x\r\n"));
    CHECK(t, has(sent, "\r\nauthorization: Bearer t\r\n"));
    CHECK(t, has(sent, "\r\nContent-Length: 3\r\n"));
    CHECK(t, has(sent, "\r\n\r\nabc"));
    CHECK_INT(t, get(&w, (struct http_fetch){.method = "PUT"}), 200);
    CHECK(t, has(w.server.requests[1], "\r\nContent-Length: 0\r\n"));
    world_end(&w, t);
}

static void a_body_is_sent_from_a_file(struct test *t)
{
    static const struct script_line script[] = {{.answer = OK_HELLO}};
    struct world w;
    FILE *f = tmpfile();
    if (!f)
        TEST_SKIP(t, "no temporary file can be made");
    for (int i = 0; i < 300000; i++)
        fputc('a', f);
    fflush(f);
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){.body_file = fileno(f), .body_file_len = 300000}),
              200);
    CHECK_INT(t, w.server.body_lens[0], 300000);
    fclose(f);
    world_end(&w, t);
}

static void an_answer_before_the_body_is_through_is_heard(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 20\r\n\r\n{\"error\":\"too much\"}",
         .early = true}};
    struct world w;
    size_t size = (size_t)32 << 20;
    uint8_t *large = calloc(1, size);
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){.body = {large, size}}), 413);
    (void)http_answer_error(&w.answer, "http://x", &w.err);
    CHECK_STR(t, w.err.text, "http://x answered 413 Too Large: too much");
    free(large);
    world_end(&w, t);
}

static void headers_cannot_smuggle_lines(struct test *t)
{
    static const struct script_line script[] = {{.answer = OK_HELLO}};
    static const struct http_header bad[] = {{BYTES("x"), BYTES("a\r\nHost: evil")},
                                             {BYTES("x\n"), BYTES("a")},
                                             {BYTES("x: y"), BYTES("a")},
                                             {{0}, BYTES("a")}};
    struct world w;
    START(w, script);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_INT(t, get(&w, (struct http_fetch){.headers = &bad[i], .n_headers = 1}), -EINVAL);
    CHECK(t, has(w.err.text, "has a control character, or no name"));
    CHECK_INT(t, w.server.n_connections, 0);
    world_end(&w, t);
}

static void an_answer_larger_than_its_limit_is_refused(struct test *t)
{
    static const struct script_line script[] = {{.answer = OK_HELLO}, {.answer = OK_HELLO}};
    struct world w;
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){.answer_max = 5}), 200);
    CHECK_INT(t, get(&w, (struct http_fetch){.answer_max = 4}), -ENOBUFS);
    CHECK_STR(t, w.err.text, "the answer of 127.0.0.1 is larger than 4 bytes");
    world_end(&w, t);
}

static void silence_and_slowness_have_an_end(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"}, {.answer = OK_HELLO}};
    struct world w;
    world_start(&w, script, 2, &(struct http_client_options){.silence_s = 1});
    CHECK_INT(t, get(&w, (struct http_fetch){0}), -ETIMEDOUT);
    CHECK(t, has(w.err.text, "said nothing for 1 seconds"));
    world_end(&w, t);
    world_start(&w, script, 2, &(struct http_client_options){.total_s = 1});
    CHECK_INT(t, get(&w, (struct http_fetch){0}), -ETIMEDOUT);
    CHECK(t, has(w.err.text, "did not finish within 1 seconds"));
    world_end(&w, t);
}

static void what_is_cancelled_ends(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"}, {.answer = OK_HELLO}};
    static const volatile sig_atomic_t cancelled = 1;
    struct world w;
    START(w, script, .cancelled = &cancelled);
    CHECK_INT(t, get(&w, (struct http_fetch){0}), -ECANCELED);
    world_end(&w, t);
}

/* A redirect to the second server; %d is its port. */
static void redirect_to(char *answer, size_t size, int status, const char *url)
{
    snprintf(answer, size, "HTTP/1.1 %d Moved\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status,
             url);
}

static void credentials_stay_with_their_origin(struct test *t)
{
    static const struct script_line there[] = {{.answer = OK_HELLO}};
    static char answer[256];
    const struct script_line here[] = {{.answer = answer}, {.answer = answer}};
    const struct http_header headers[] = {{BYTES("Authorization"), BYTES("Bearer secret")},
                                          {BYTES("X-Scope-OrgID"), BYTES("tenant")},
                                          {BYTES("Accept"), BYTES("text/x")}};
    struct script_server other;
    struct world w;
    char url[96];
    script_start(&other, there, 1, NULL);
    START(w, here);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/there", other.port);
    redirect_to(answer, sizeof(answer), 302, url);
    char with_password[96];
    snprintf(with_password, sizeof(with_password), "http://me:pw@127.0.0.1:%d/x", w.server.port);
    CHECK_INT(
        t, get(&w, (struct http_fetch){.url = with_password, .headers = headers, .n_headers = 3}),
        200);
    CHECK(t, has(w.server.requests[0], "Bearer secret"));
    CHECK(t, has(w.server.requests[0], "Authorization: Basic bWU6cHc="));
    CHECK(t, strncmp(other.requests[0], "GET /there ", 11) == 0);
    CHECK(t, !has(other.requests[0], "secret") && !has(other.requests[0], "Basic"));
    CHECK(t, !has(other.requests[0], "tenant"));
    CHECK(t, has(other.requests[0], "Accept: text/x"));

    /* A body does not travel, either. */
    CHECK_INT(t, get(&w, (struct http_fetch){.body = BYTES("b")}), -EPERM);
    CHECK(t, has(w.err.text, "moved to http://127.0.0.1:"));
    script_stop(&other);
    world_end(&w, t);
}

static void a_post_follows_only_what_keeps_it_one(struct test *t)
{
    static char moved[256], found[256];
    static const struct script_line script[] = {
        {.answer = moved}, {.answer = OK_HELLO}, {.answer = found}, {.answer = found}};
    struct world w;
    redirect_to(moved, sizeof(moved), 307, "/y");
    redirect_to(found, sizeof(found), 302, "/y");
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){.body = BYTES("abc")}), 200);
    CHECK(t, strncmp(w.server.requests[1], "POST /y ", 8) == 0);
    CHECK(t, has(w.server.requests[1], "\r\n\r\nabc"));
    CHECK_INT(t, get(&w, (struct http_fetch){.body = BYTES("abc")}), -EPERM);
    CHECK_INT(t, get(&w, (struct http_fetch){.no_redirects = true}), 302);
    world_end(&w, t);
}

static void a_redirect_to_a_private_address_is_refused(struct test *t)
{
    static const char *const targets[] = {"http://169.254.169.254/latest", "http://localhost:1/",
                                          "http://0x7f000001:1/", "http://[::ffff:127.0.0.1]:1/",
                                          "//127.0.0.1:1/"};
    static char answer[256];
    static const struct script_line script[] = {{.answer = answer}, {.answer = answer},
                                                {.answer = answer}, {.answer = answer},
                                                {.answer = answer}, {.answer = OK_HELLO}};
    struct world w;
    START(w, script, .deny_private = true);
    CHECK_INT(t, get(&w, (struct http_fetch){0}), -EACCES);
    CHECK_STR(t, w.err.text, "refused to connect to 127.0.0.1: 127.0.0.1 is a loopback address");
    CHECK_INT(t, w.server.n_connections, 0);

    /* Whom the operator named may be here, but not where it sends us. */
    http_client_free(w.client);
    w.client = http_client_new(
        &(struct http_client_options){.deny_private = true, .allowed = w.url, .connect_s = 5});
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        redirect_to(answer, sizeof(answer), 302, targets[i]);
        CHECK_INT(t, get(&w, (struct http_fetch){0}), -EACCES);
        CHECK(t, strncmp(w.err.text, "refused to connect to ", 22) == 0);
        CHECK_INT(t, w.server.n_requests, i + 1);
    }
    CHECK_INT(t, get(&w, (struct http_fetch){0}), 200);
    world_end(&w, t);
}

static void retry_after_is_read(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"},
        {.answer = "HTTP/1.1 503 Busy\r\nRetry-After: Sat, 01 Jan 2000 00:00:00 GMT\r\n"
                   "Content-Length: 0\r\n\r\n"},
        {.answer = "HTTP/1.1 503 Busy\r\nRetry-After: Fri, 01 Jan 2100 00:00:00 GMT\r\n"
                   "Content-Length: 0\r\n\r\n"},
        {.answer = "HTTP/1.1 503 Busy\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n"}};
    static const int64_t wanted[] = {7000, 0, (int64_t)24 * 3600 * 1000, -1};
    struct world w;
    START(w, script);
    for (size_t i = 0; i < 4; i++) {
        CHECK(t, get(&w, (struct http_fetch){0}) > 0);
        CHECK_INT(t, w.answer.retry_after_ms, wanted[i]);
        CHECK(t, http_should_retry(0, &w.answer));
    }
    CHECK(t, http_should_retry(-ECONNREFUSED, NULL));
    CHECK(t, !http_should_retry(-EPROTO, NULL));
    CHECK(t, !http_should_retry(0, &(struct http_answer){.status = 400}));
    world_end(&w, t);
}

static void a_unix_socket_is_spoken_to(struct test *t)
{
    static const struct script_line script[] = {{.answer = OK_HELLO}};
    char path[64];
    struct world w;
    snprintf(path, sizeof(path), "/tmp/vesta-test-%d.sock", (int)getpid());
    START(w, script, .unix_path = path);
    CHECK_INT(t, get(&w, (struct http_fetch){.url = "http://localhost/y"}), 200);
    CHECK(t, has(w.server.requests[0], "GET /y HTTP/1.1\r\nHost: localhost\r\n"));
    world_end(&w, t);
}

static void a_head_request_has_no_body_to_wait_for(struct test *t)
{
    static const struct script_line script[] = {
        {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n"}, {.answer = OK_HELLO}};
    struct world w;
    START(w, script);
    CHECK_INT(t, get(&w, (struct http_fetch){.method = "HEAD"}), 200);
    CHECK_INT(t, get(&w, (struct http_fetch){0}), 200);
    CHECK_INT(t, w.server.n_connections, 1);
    world_end(&w, t);
}

static const struct test_case cases[] = {
    TEST(an_answer_has_status_headers_and_body),
    TEST(a_connection_is_used_again),
    TEST(a_connection_that_the_server_ends_is_not),
    TEST(a_kept_connection_that_died_is_replaced_for_what_may_be_repeated),
    TEST(a_post_has_its_headers_and_body),
    TEST(a_body_is_sent_from_a_file),
    TEST(an_answer_before_the_body_is_through_is_heard),
    TEST(headers_cannot_smuggle_lines),
    TEST(an_answer_larger_than_its_limit_is_refused),
    TEST(silence_and_slowness_have_an_end),
    TEST(what_is_cancelled_ends),
    TEST(credentials_stay_with_their_origin),
    TEST(a_post_follows_only_what_keeps_it_one),
    TEST(a_redirect_to_a_private_address_is_refused),
    TEST(retry_after_is_read),
    TEST(a_unix_socket_is_spoken_to),
    TEST(a_head_request_has_no_body_to_wait_for),
};
TEST_MAIN(cases)
