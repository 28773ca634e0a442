#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "lib/test.h"
#include "net/grpc_client.h"
#include "net/grpc_client_session.h"
#include "net/http_server.h"
#include "wire/inflate.h"

/* ---- A server of ours: what it does is in the path ---- */

static int head(void *ctx, struct http_exchange *x, struct http_reply *refusal)
{
    (void)ctx;
    (void)x;
    (void)refusal;
    return 0;
}

static char last_headers[2048];

static void note_headers(const struct http_request *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_headers; i++)
        n += (size_t)snprintf(last_headers + n, sizeof(last_headers) - n, "%.*s: %.*s\n",
                              (int)r->headers[i].name.len, (const char *)r->headers[i].name.data,
                              (int)r->headers[i].value.len, (const char *)r->headers[i].value.data);
}

static void request(void *ctx, struct http_exchange *x)
{
    struct http_reply reply = {0};
    struct grpc_message m = {0};
    struct buf details = {0};
    struct bytes path = x->request.path;

    (void)ctx;
    note_headers(&x->request);
    (void)grpc_read_message(x->request.body, http_header_value(&x->request, "grpc-encoding"), &m,
                            NULL);
    if (bytes_are(path, "/echo")) {
        buf_add_bytes(&reply.body, m.data);
        grpc_reply_ok(&reply, RPC_GRPC, GRPC_IDENTITY);
    } else if (bytes_are(path, "/busy") || bytes_are(path, "/spent")) {
        bool with_info = bytes_are(path, "/busy");
        if (with_info)
            rpc_detail_retry(&details, 2500000000);
        grpc_reply_error(&reply, RPC_GRPC,
                         &(struct rpc_status){GRPC_RESOURCE_EXHAUSTED, BYTES("too much, 100 %\n"),
                                              buf_bytes(&details)});
    } else if (bytes_are(path, "/plain")) {
        reply.status = 503;
        buf_add_str(&reply.body, "not here");
    } else if (bytes_are(path, "/large")) {
        for (int i = 0; i < 100000; i++)
            buf_add_byte(&reply.body, 'x');
        grpc_reply_ok(&reply, RPC_GRPC, GRPC_IDENTITY);
    } else {
        grpc_reply_error(&reply, RPC_GRPC,
                         &(struct rpc_status){.code = GRPC_UNIMPLEMENTED, .message = path});
    }
    buf_done(&details);
    http_reply_send(x, &reply);
}

static void refuse(void *ctx, struct http_exchange *x, int status, struct http_reply *refusal)
{
    (void)ctx;
    (void)x;
    refusal->status = status;
}

static void done(void *ctx, struct http_exchange *x, int status, uint64_t sent)
{
    (void)ctx;
    (void)x;
    (void)status;
    (void)sent;
}

struct world {
    struct http_server *server;
    struct grpc_client *client;
    char url[64];
    struct grpc_answer a;
    struct error err;
};

static void world_start(struct test *t, struct world *w)
{
    struct http_listen listen = {.address = "127.0.0.1:0"};
    struct http_server_options o = {.service = {head, request, refuse, done, NULL},
                                    .listens = &listen,
                                    .n_listens = 1,
                                    .loops = 1};

    *w = (struct world){0};
    CHECK_INT(t, http_server_start(&o, &w->server, &w->err), 0);
    snprintf(w->url, sizeof(w->url), "http://%s", http_server_address(w->server, 0));
    CHECK_INT(t, grpc_client_new(&(struct grpc_client_options){.url = w->url}, &w->client, &w->err),
              0);
}

static void world_done(struct world *w)
{
    grpc_client_free(w->client);
    http_server_free(w->server);
}

static int call(struct world *w, const char *path, struct bytes message)
{
    struct grpc_request r = {.path = path, .message = message, .timeout_ns = 5000000000};

    grpc_answer_done(&w->a);
    w->a = (struct grpc_answer){0};
    w->err.text[0] = '\0';
    return grpc_call(w->client, &r, &w->a, &w->err);
}

static void calls_are_answered_over_one_connection(struct test *t)
{
    struct world w;
    struct http_server_stat stat;

    world_start(t, &w);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(t, call(&w, "/echo", BYTES("hello")), 0);
        CHECK_INT(t, w.a.code, GRPC_OK);
        CHECK(t, bytes_are(buf_bytes(&w.a.body), "hello"));
    }
    http_server_stat(w.server, &stat);
    CHECK_INT(t, stat.accepted, 1);
    grpc_answer_done(&w.a);
    world_done(&w);
}

static void a_message_larger_than_the_window_arrives(struct test *t)
{
    struct world w;
    CLEANUP(buf_done) struct buf large = {0};
    struct grpc_request r = {.path = "/echo", .answer_max = 8 << 20};

    world_start(t, &w);
    for (uint32_t i = 0; i < 1000000; i++)
        buf_add(&large, &i, sizeof(i));
    r.message = buf_bytes(&large);
    CHECK_INT(t, grpc_call(w.client, &r, &w.a, &w.err), 0);
    CHECK_INT(t, w.a.code, GRPC_OK);
    CHECK(t, bytes_equal(buf_bytes(&w.a.body), buf_bytes(&large)));
    grpc_answer_done(&w.a);
    world_done(&w);
}

static void headers_and_the_deadline_are_sent(struct test *t)
{
    struct world w;
    struct http_header header = {BYTES("authorization"), BYTES("Bearer x")};
    struct grpc_request r = {.path = "/echo",
                             .headers = &header,
                             .n_headers = 1,
                             .message = BYTES("packed"),
                             .encoding = GRPC_ZSTD,
                             .timeout_ns = 2500000000};

    world_start(t, &w);
    CHECK_INT(t, grpc_call(w.client, &r, &w.a, &w.err), 0);
    CHECK(t, strstr(last_headers, "authorization: Bearer x\n"));
    CHECK(t, strstr(last_headers, "grpc-timeout: 2500m\n"));
    CHECK(t, strstr(last_headers, "grpc-encoding: zstd\n"));
    CHECK(t, strstr(last_headers, "content-type: application/grpc\n"));
    CHECK(t, strstr(last_headers, "te: trailers\n"));
    grpc_answer_done(&w.a);
    world_done(&w);
}

static void refusals_have_code_words_and_a_delay(struct test *t)
{
    struct world w;

    world_start(t, &w);
    CHECK_INT(t, call(&w, "/busy", BYTES("x")), 0);
    CHECK_INT(t, w.a.code, GRPC_RESOURCE_EXHAUSTED);
    CHECK_STR(t, w.a.text, "too much, 100 %?");
    CHECK_INT(t, w.a.retry_ms, 2500);
    CHECK(t, grpc_should_retry(&w.a));
    CHECK_INT(t, call(&w, "/spent", BYTES("x")), 0);
    CHECK_INT(t, w.a.retry_ms, -1);
    CHECK(t, !grpc_should_retry(&w.a));
    CHECK_INT(t, call(&w, "/no.such/Method", BYTES("x")), 0);
    CHECK_INT(t, w.a.code, GRPC_UNIMPLEMENTED);
    CHECK_STR(t, w.a.text, "/no.such/Method");
    CHECK(t, !grpc_should_retry(&w.a));
    world_done(&w);
}

static void an_answer_in_plain_http_is_told_as_one(struct test *t)
{
    struct world w;

    world_start(t, &w);
    CHECK_INT(t, call(&w, "/plain", BYTES("x")), 0);
    CHECK_INT(t, w.a.code, GRPC_UNAVAILABLE);
    CHECK_STR(t, w.a.text, "answered 503 Service Unavailable, not in gRPC");
    CHECK(t, grpc_should_retry(&w.a));
    world_done(&w);
}

static void an_answer_that_is_too_large_is_refused(struct test *t)
{
    struct world w;

    world_start(t, &w);
    CHECK_INT(t, call(&w, "/large", BYTES("x")), -ENOBUFS);
    CHECK(t, strstr(w.err.text, "the answer is larger than 65536 bytes"));
    CHECK_INT(t, call(&w, "/echo", BYTES("x")), 0);
    grpc_answer_done(&w.a);
    world_done(&w);
}

static void retries_follow_the_rules_of_otlp(struct test *t)
{
    static const enum grpc_code again[] = {GRPC_CANCELLED,   GRPC_DEADLINE_EXCEEDED,
                                           GRPC_ABORTED,     GRPC_OUT_OF_RANGE,
                                           GRPC_UNAVAILABLE, GRPC_DATA_LOSS};

    for (int code = 0; code < GRPC_CODE_COUNT; code++) {
        struct grpc_answer a = {.code = (enum grpc_code)code, .retry_ms = -1};
        bool is_among = false;
        for (size_t i = 0; i < ARRAY_SIZE(again); i++)
            is_among = is_among || again[i] == a.code;
        CHECK_INT(t, grpc_should_retry(&a), is_among);
    }
}

/* ---- A server that sends what it is told, whatever it hears ---- */

struct raw_server {
    int listener;
    struct bytes scripts[4]; /* of each connection */
    size_t n_scripts;
    bool stays; /* open, once the script is sent */
    pthread_t thread;
    char url[64];
};

static void *raw_run(void *arg)
{
    struct raw_server *s = arg;
    char waste[4096];

    for (size_t i = 0; i < s->n_scripts; i++) {
        int fd = accept(s->listener, NULL, NULL);
        size_t heard = 0;
        while (heard < 100) { /* preface, settings, the request's head */
            ssize_t n = read(fd, waste, sizeof(waste));
            if (n <= 0)
                break;
            heard += (size_t)n;
        }
        for (struct bytes rest = s->scripts[i]; rest.len > 0;) {
            ssize_t n = send(fd, rest.data, rest.len, MSG_NOSIGNAL);
            if (n <= 0)
                break;
            rest = bytes_from(rest, (size_t)n);
        }
        while (s->stays && read(fd, waste, sizeof(waste)) > 0)
            ;
        close(fd);
    }
    return NULL;
}

static void raw_start(struct raw_server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);

    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s->listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(s->listener, 4) < 0 ||
        getsockname(s->listener, (struct sockaddr *)&a, &len) < 0)
        abort();
    snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%u", ntohs(a.sin_port));
    pthread_create(&s->thread, NULL, raw_run, s);
}

static void raw_stop(struct raw_server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

enum { DATA = 0, HEADERS = 1, RST = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, CONTINUATION = 9 };
enum { END_STREAM = 1, END_HEADERS = 4 };

static void frame(struct buf *b, uint8_t type, uint8_t flags, uint32_t stream, struct bytes payload)
{
    const uint8_t head_[9] = {(uint8_t)(payload.len >> 16),
                              (uint8_t)(payload.len >> 8),
                              (uint8_t)payload.len,
                              type,
                              flags,
                              (uint8_t)(stream >> 24),
                              (uint8_t)(stream >> 16),
                              (uint8_t)(stream >> 8),
                              (uint8_t)stream};

    buf_add(b, head_, sizeof(head_));
    buf_add_bytes(b, payload);
}

/* A field without the tables of HPACK. */
static void literal(struct buf *b, const char *name, struct bytes value)
{
    buf_add_byte(b, 0);
    buf_add_byte(b, (uint8_t)strlen(name));
    buf_add_str(b, name);
    if (value.len < 127) {
        buf_add_byte(b, (uint8_t)value.len);
    } else {
        size_t rest = value.len - 127;
        buf_add_byte(b, 127);
        for (; rest >= 128; rest >>= 7)
            buf_add_byte(b, (uint8_t)(rest | 128));
        buf_add_byte(b, (uint8_t)rest);
    }
    buf_add_bytes(b, value);
}

static void add_head(struct buf *out, const char *encoding)
{
    CLEANUP(buf_done) struct buf block = {0};

    frame(out, SETTINGS, 0, 0, (struct bytes){0});
    buf_add_byte(&block, 0x88); /* :status 200 */
    literal(&block, "content-type", BYTES("application/grpc"));
    if (encoding)
        literal(&block, "grpc-encoding", bytes_of(encoding));
    frame(out, HEADERS, END_HEADERS, 1, buf_bytes(&block));
}

static void add_trailers(struct buf *out, const char *status)
{
    CLEANUP(buf_done) struct buf block = {0};

    literal(&block, "grpc-status", bytes_of(status));
    frame(out, HEADERS, END_HEADERS | END_STREAM, 1, buf_bytes(&block));
}

static void add_answer(struct buf *out, const char *text)
{
    CLEANUP(buf_done) struct buf message = {0};

    add_head(out, NULL);
    buf_add_str(&message, text);
    grpc_frame(&message, false);
    frame(out, DATA, 0, 1, buf_bytes(&message));
    add_trailers(out, "0");
}

/* One call to a server that says this. */
static int hear(struct bytes script, bool stays, struct grpc_answer *a, struct error *err)
{
    struct raw_server s = {.scripts = {script}, .n_scripts = 1, .stays = stays};
    struct grpc_client *c = NULL;
    struct grpc_request r = {.path = "/x", .message = BYTES("m"), .timeout_ns = 1000000000};

    raw_start(&s);
    int failed = grpc_client_new(&(struct grpc_client_options){.url = s.url}, &c, err);
    if (failed == 0)
        failed = grpc_call(c, &r, a, err);
    grpc_client_free(c);
    raw_stop(&s);
    return failed;
}

static void a_server_of_http_1_is_told_as_one(struct test *t)
{
    struct error err = {""};
    struct grpc_answer a;

    CHECK_INT(t,
              hear(BYTES("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"), true, &a, &err),
              -EPROTO);
    CHECK(t, strstr(err.text, ": the server does not speak HTTP/2"));
}

static void silence_ends_at_the_deadline(struct test *t)
{
    struct error err = {""};
    struct grpc_answer a;
    struct timespec from, to;

    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK_INT(t, hear((struct bytes){0}, true, &a, &err), -ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK(t, to.tv_sec - from.tv_sec <= 3);
}

static void headers_without_end_are_cut_off(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0}, block = {0}, value = {0};
    struct error err = {""};
    struct grpc_answer a;

    for (int i = 0; i < 4000; i++)
        buf_add_byte(&value, 'v');
    frame(&out, SETTINGS, 0, 0, (struct bytes){0});
    buf_add_byte(&block, 0x88);
    for (int i = 0; i < 4; i++)
        literal(&block, "x", buf_bytes(&value));
    frame(&out, HEADERS, 0, 1, bytes_head(buf_bytes(&block), 16000));
    frame(&out, CONTINUATION, 0, 1, bytes_from(buf_bytes(&block), 16000));
    for (int i = 0; i < 6; i++)
        frame(&out, CONTINUATION, 0, 1, bytes_from(buf_bytes(&block), 1));
    CHECK_INT(t, hear(buf_bytes(&out), true, &a, &err), -ENOBUFS);
    CHECK(t, strstr(err.text, "the headers of the answer are larger than 32 KiB"));
}

static void floods_are_cut_off(struct test *t)
{
    CLEANUP(buf_done) struct buf pings = {0}, empty = {0};
    struct error err = {""};
    struct grpc_answer a;

    frame(&pings, SETTINGS, 0, 0, (struct bytes){0});
    for (int i = 0; i < 60000; i++)
        frame(&pings, PING, 1, 0, BYTES("12345678"));
    CHECK_INT(t, hear(buf_bytes(&pings), true, &a, &err), -EPROTO);
    CHECK(t, strstr(err.text, "frames without end") || strstr(err.text, "far more"));
    add_head(&empty, NULL);
    for (int i = 0; i < 60000; i++)
        frame(&empty, DATA, 0, 1, (struct bytes){0});
    CHECK_INT(t, hear(buf_bytes(&empty), true, &a, &err), -EPROTO);
    CHECK(t, strstr(err.text, "frames without end") || strstr(err.text, "far more"));
}

static void resets_and_goaways_become_codes_or_errors(struct test *t)
{
    CLEANUP(buf_done) struct buf reset = {0}, away = {0};
    struct error err = {""};
    struct grpc_answer a = {0};

    frame(&reset, SETTINGS, 0, 0, (struct bytes){0});
    frame(&reset, RST, 0, 1, (struct bytes){(const uint8_t *)"\0\0\0\7", 4});
    CHECK_INT(t, hear(buf_bytes(&reset), true, &a, &err), 0);
    CHECK_INT(t, a.code, GRPC_UNAVAILABLE);
    CHECK_STR(t, a.text, "the call was reset: REFUSED_STREAM");
    frame(&away, SETTINGS, 0, 0, (struct bytes){0});
    frame(&away, GOAWAY, 0, 0, (struct bytes){(const uint8_t *)"\0\0\0\0\0\0\0\0", 8});
    int r = hear(buf_bytes(&away), false, &a, &err);
    CHECK(t, r < 0 || grpc_should_retry(&a));
}

static void an_answer_without_a_status_is_none(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    struct grpc_answer a;

    add_head(&out, NULL);
    frame(&out, DATA, END_STREAM, 1, (struct bytes){(const uint8_t *)"\0\0\0\0\0", 5});
    CHECK_INT(t, hear(buf_bytes(&out), true, &a, &err), -EPROTO);
    CHECK(t, strstr(err.text, "the answer has no grpc-status"));
}

static void a_message_that_is_broken_is_told_apart_from_a_failed_call(struct test *t)
{
    static const struct {
        const char *data;
        size_t len;
    } bad[] = {{"\1\0\0\0\1x", 6}, {"\0\0\0\0\7x", 6}, {"\0", 1}};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        CLEANUP(buf_done) struct buf out = {0};
        struct error err = {""};
        struct grpc_answer a;
        add_head(&out, NULL);
        frame(&out, DATA, 0, 1, (struct bytes){(const uint8_t *)bad[i].data, bad[i].len});
        add_trailers(&out, "0");
        CHECK_INT(t, hear(buf_bytes(&out), true, &a, &err), -EBADMSG);
        CHECK(t, strstr(err.text, "the answer is no message of gRPC"));
    }
}

static void add_packed(struct buf *out, size_t n)
{
    CLEANUP(buf_done) struct buf plain = {0}, message = {0};

    while (plain.len < n)
        buf_add_byte(&plain, 'z');
    gzip_pack(buf_bytes(&plain), 6, &message);
    grpc_frame(&message, true);
    add_head(out, "gzip");
    frame(out, DATA, 0, 1, buf_bytes(&message));
    add_trailers(out, "0");
}

static void packed_answers_are_unpacked_and_bombs_are_not(struct test *t)
{
    CLEANUP(buf_done) struct buf good = {0}, bomb = {0};
    struct error err = {""};
    struct grpc_answer a = {0};

    add_packed(&good, 1000);
    CHECK_INT(t, hear(buf_bytes(&good), true, &a, &err), 0);
    CHECK_INT(t, a.body.len, 1000);
    grpc_answer_done(&a);
    add_packed(&bomb, 10000000);
    CHECK(t, bomb.len < GRPC_ANSWER_MAX);
    CHECK_INT(t, hear(buf_bytes(&bomb), true, &a, &err), -EBADMSG);
    CHECK(t, strstr(err.text, "the answer could not be unpacked within 65536 bytes"));
}

static void statuses_that_are_none_are_unknown(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct error err = {""};
    struct grpc_answer a = {0};

    add_head(&out, NULL);
    add_trailers(&out, "99999999999999999999");
    CHECK_INT(t, hear(buf_bytes(&out), true, &a, &err), 0);
    CHECK_INT(t, a.code, GRPC_UNKNOWN);
}

static void a_kept_connection_that_died_is_replaced(struct test *t)
{
    CLEANUP(buf_done) struct buf first = {0}, second = {0};
    struct raw_server s = {.n_scripts = 2};
    struct grpc_client *c = NULL;
    struct grpc_request r = {.path = "/x", .message = BYTES("m"), .timeout_ns = 5000000000};
    struct grpc_answer a = {0};
    struct error err = {""};

    add_answer(&first, "one");
    add_answer(&second, "two");
    s.scripts[0] = buf_bytes(&first); /* and it hangs up behind it */
    s.scripts[1] = buf_bytes(&second);
    raw_start(&s);
    CHECK_INT(t, grpc_client_new(&(struct grpc_client_options){.url = s.url}, &c, &err), 0);
    CHECK_INT(t, grpc_call(c, &r, &a, &err), 0);
    CHECK(t, bytes_are(buf_bytes(&a.body), "one"));
    grpc_answer_done(&a);
    CHECK_INT(t, grpc_call(c, &r, &a, &err), 0);
    CHECK(t, bytes_are(buf_bytes(&a.body), "two"));
    CHECK_STR(t, err.text, "");
    grpc_answer_done(&a);
    grpc_client_free(c);
    raw_stop(&s);
}

static void nobody_there_is_said(struct test *t)
{
    struct error err = {""};
    struct grpc_client *c = NULL;
    struct grpc_answer a;
    struct grpc_request r = {.path = "/x", .timeout_ns = 1000000000};

    CHECK_INT(t,
              grpc_client_new(&(struct grpc_client_options){.url = "http://127.0.0.1:9"}, &c, &err),
              0);
    CHECK_INT(t, grpc_call(c, &r, &a, &err), -ECONNREFUSED);
    CHECK_STR(t, err.text, "could not connect to 127.0.0.1:9: Connection refused");
    grpc_client_free(c);
    CHECK_INT(t, grpc_client_new(&(struct grpc_client_options){.url = "nowhere"}, &c, &err),
              -EINVAL);
}

static const struct test_case cases[] = {
    TEST(calls_are_answered_over_one_connection),
    TEST(a_message_larger_than_the_window_arrives),
    TEST(headers_and_the_deadline_are_sent),
    TEST(refusals_have_code_words_and_a_delay),
    TEST(an_answer_in_plain_http_is_told_as_one),
    TEST(an_answer_that_is_too_large_is_refused),
    TEST(retries_follow_the_rules_of_otlp),
    TEST(a_server_of_http_1_is_told_as_one),
    TEST(silence_ends_at_the_deadline),
    TEST(headers_without_end_are_cut_off),
    TEST(floods_are_cut_off),
    TEST(resets_and_goaways_become_codes_or_errors),
    TEST(an_answer_without_a_status_is_none),
    TEST(a_message_that_is_broken_is_told_apart_from_a_failed_call),
    TEST(packed_answers_are_unpacked_and_bombs_are_not),
    TEST(statuses_that_are_none_are_unknown),
    TEST(a_kept_connection_that_died_is_replaced),
    TEST(nobody_there_is_said),
};
TEST_MAIN(cases)
