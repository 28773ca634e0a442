#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "net/serving.h"

/* How often `part` stands in it. */
static int count(const char *text, const char *part)
{
    int n = 0;

    while ((text = strstr(text, part))) {
        n++;
        text += strlen(part);
    }
    return n;
}

/* Whether the memory of all bodies is given back within a second. */
static bool is_memory_free(const struct serving *s)
{
    struct http_server_stat stat;

    for (int i = 0; i < 1000; i++) {
        http_server_stat(s->server, &stat);
        if (stat.body_memory == 0)
            return true;
        sleep_ms(1);
    }
    return false;
}

static void keeps_connections_and_answers_in_order(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    for (int i = 0; i < 3; i++) {
        client_send(fd, GET("/"));
        CHECK(t, holds(client_read(fd, &got, "hello\n", 2000), "200 OK"));
    }
    client_send(fd,
                GET("/") "POST /echo HTTP/1.1\r\n" HOST "content-length: 4\r\n\r\none\n" GET(
                    "/refused") "POST /echo HTTP/1.1\r\n" HOST "content-length: 4\r\n\r\ntwo\n");
    const char *all = client_read(fd, &got, "two\n", 2000);
    CHECK(t, holds(all, "hello\n") && strstr(all, "one\n") < strstr(all, "not you") &&
                 strstr(all, "not you") < strstr(all, "two\n"));
    CHECK_INT(t, count(all, "HTTP/1.1 "), 4);
    close(fd);
    CHECK(t, becomes(&s.n_done, 7));
    struct http_server_stat stat;
    http_server_stat(s.server, &stat);
    CHECK_INT(t, stat.accepted, 1);
    CHECK_INT(t, stat.requests, 7);
    CHECK(t, is_memory_free(&s));
    buf_done(&got);
    http_server_free(s.server);
}

static void answers_a_thousand_pipelined_requests(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0}, many = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    for (int i = 0; i < 1000; i++)
        buf_add_str(&many, GET("/"));
    buf_add_str(&many, "GET / HTTP/1.1\r\n" HOST "connection: close\r\n\r\n");
    client_send(fd, buf_cstr(&many));
    CHECK_INT(t, count(client_read(fd, &got, "(end)", 2000), "hello\n"), 1001);
    close(fd);
    buf_done(&got);
    buf_done(&many);
    http_server_free(s.server);
}

static void reads_and_writes_chunks(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd,
                "POST /echo HTTP/1.1\r\n" HOST "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
    sleep_ms(20);
    client_send(fd, "4\r\ndef\n\r\n0\r\n\r\n");
    CHECK(t, holds(client_read(fd, &got, "def\n", 2000), "content-length: 7\r\n\r\nabcdef\n"));
    client_send(fd, GET("/stream"));
    CHECK(t, holds(client_read(fd, &got, "\r\n0\r\n\r\n", 2000), "transfer-encoding: chunked"));
    CHECK(t, got.len > 6400000 && got.len < 6500000);
    CHECK(t, becomes(&s.n_done, 2));
    CHECK_INT(t, atomic_load(&s.last_sent), 6400006);
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

static void sends_continue_only_when_the_body_is_wanted(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd,
                "POST /echo HTTP/1.1\r\n" HOST "expect: 100-continue\r\ncontent-length: 2\r\n\r\n");
    CHECK_STR(t, client_read(fd, &got, "\r\n\r\n", 2000), "HTTP/1.1 100 Continue\r\n\r\n");
    client_send(fd, "x\n");
    CHECK(t, holds(client_read(fd, &got, "x\n", 2000), "200 OK"));
    client_send(fd, "POST /refused HTTP/1.1\r\n" HOST
                    "expect: 100-continue\r\ncontent-length: 2\r\n\r\n");
    const char *all = client_read(fd, &got, "(end)", 2000);
    CHECK(t, holds(all, "403") && !holds(all, "100 Continue") && holds(all, "connection: close"));
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

static void refuses_bodies_over_their_limit(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    /* Announced, not sent; then in chunks. Both hear of it though they go on sending. */
    static const char *const heads[] = {
        "POST /small HTTP/1.1\r\n" HOST "content-length: 5000000\r\n\r\n",
        "POST /small HTTP/1.1\r\n" HOST "transfer-encoding: chunked\r\n\r\n400000\r\n",
    };
    char *junk = must_calloc(1, 100001);
    memset(junk, 'x', 100000);
    for (int i = 0; i < 2; i++) {
        int fd = client_open(&s);
        client_send(fd, heads[i]);
        for (int k = 0; k < 20; k++)
            client_send(fd, junk);
        const char *all = client_read(fd, &got, "(end)", 2000);
        CHECK(t, holds(all, "413 Content Too Large") && holds(all, "refused with 413\n(end)"));
        close(fd);
    }
    CHECK_INT(t, atomic_load(&s.n_refuse), 2);
    CHECK(t, becomes(&s.n_done, 2));
    CHECK_INT(t, atomic_load(&s.n_request), 0);
    free(junk);
    buf_done(&got);
    http_server_free(s.server);
}

static void bounds_the_memory_of_all_bodies(struct test *t)
{
    struct serving s = {.o.body_memory_max = 300000};
    struct buf got = {0};
    int fds[2];

    if (!start(t, &s))
        return;
    char *part = must_calloc(1, 150001);
    memset(part, 'x', 150000);
    for (int i = 0; i < 2; i++) {
        fds[i] = client_open(&s);
        client_send(fds[i], "POST /echo HTTP/1.1\r\n" HOST "content-length: 200000\r\n\r\n");
        client_send(fds[i], part);
        CHECK(t, becomes(&s.n_head, i + 1));
        sleep_ms(20);
    }
    const char *all = client_read(fds[1], &got, "(end)", 2000);
    CHECK(t, holds(all, "429 Too Many Requests") && holds(all, "refused with 429"));
    part[50000] = '\0';
    client_send(fds[0], part);
    CHECK(t, holds(client_read(fds[0], &got, "xxx", 2000), "200 OK"));
    close(fds[0]);
    close(fds[1]);
    CHECK(t, becomes(&s.n_done, 2));
    CHECK(t, is_memory_free(&s));
    free(part);
    buf_done(&got);
    http_server_free(s.server);
}

static void puts_large_bodies_into_a_file(struct test *t)
{
    struct serving s = {.o.spool_dir = "/tmp", .o.body_memory_max = 100000};
    struct buf got = {0}, body = {0};

    if (!start(t, &s))
        return;
    for (int i = 0; i < 30000; i++)
        buf_addf(&body, "%09d\n", i);
    for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
        int fd = client_open(&s);
        client_send(fd, "POST /file HTTP/1.1\r\n" HOST);
        client_send(fd, is_chunked ? "transfer-encoding: chunked\r\n\r\n493e0\r\n"
                                   : "content-length: 300000\r\n\r\n");
        client_send(fd, buf_cstr(&body));
        client_send(fd, is_chunked ? "\r\n0\r\n\r\n" : "");
        const char *all = client_read(fd, &got, "000029999\n", 2000);
        CHECK(t, s.had_file);
        CHECK(t, bytes_find(buf_bytes(&got), buf_bytes(&body)) && holds(all, "200 OK"));
        close(fd);
    }
    int fd = client_open(&s);
    client_send(fd, "POST /file HTTP/1.1\r\n" HOST "content-length: 1\r\n\r\nx");
    CHECK(t, holds(client_read(fd, &got, "\r\n\r\n", 2000), "200 OK"));
    CHECK(t, !s.had_file);
    close(fd);
    buf_done(&got);
    buf_done(&body);
    http_server_free(s.server);
}

static void closes_the_slow(struct test *t)
{
    struct serving s = {.o.head_timeout_ns = SECOND_NS / 10,
                        .o.body_timeout_ns = SECOND_NS / 10,
                        .o.idle_timeout_ns = SECOND_NS / 5};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int idle = client_open(&s), head = client_open(&s), body = client_open(&s);
    client_send(head, "GET / HTTP/1.1\r\nhost");
    client_send(body, "POST /echo HTTP/1.1\r\n" HOST "content-length: 100\r\n\r\nabc");
    CHECK(t, holds(client_read(head, &got, "(end)", 2000), "408 Request Timeout"));
    CHECK(t, holds(client_read(body, &got, "(end)", 2000), "refused with 408\n(end)"));
    CHECK_STR(t, client_read(idle, &got, "(end)", 2000), "(end)");
    /* A byte now and then is no better than none. */
    close(body);
    body = client_open(&s);
    client_send(body, "POST /echo HTTP/1.1\r\n" HOST "content-length: 100000\r\n\r\nabc");
    for (int i = 0; i < 60; i++) {
        sleep_ms(50);
        client_send(body, "x");
        struct pollfd p = {.fd = body, .events = POLLIN};
        if (poll(&p, 1, 0) > 0)
            break;
    }
    CHECK(t, holds(client_read(body, &got, "(end)", 100), "refused with 408"));
    /* One that has answered a request is idle again. */
    close(idle);
    idle = client_open(&s);
    client_send(idle, GET("/"));
    CHECK(t, holds(client_read(idle, &got, "(end)", 2000), "hello\n(end)"));
    struct http_server_stat stat;
    http_server_stat(s.server, &stat);
    CHECK_INT(t, stat.timeouts, 3);
    close(idle);
    close(head);
    close(body);
    buf_done(&got);
    http_server_free(s.server);
}

static void gives_up_on_those_who_do_not_read(struct test *t)
{
    struct serving s = {.o.write_timeout_ns = SECOND_NS / 5};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd, GET("/stream"));
    CHECK(t, becomes(&s.n_done, 1));
    CHECK_INT(t, atomic_load(&s.stream_result), -ECANCELED);
    CHECK(t, atomic_load(&s.stream_parts) < 64);
    close(fd);
    http_server_free(s.server);
}

static void a_slow_reader_gets_all_and_slows_the_writer(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};
    int small = 65536;

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    client_send(fd, GET("/stream"));
    sleep_ms(200);
    CHECK(t, atomic_load(&s.stream_parts) < 60); /* waits at its window */
    CHECK(t, holds(client_read(fd, &got, "\r\n0\r\n\r\n", 2000), "begin\n"));
    CHECK(t, got.len > 6400000);
    CHECK_INT(t, atomic_load(&s.stream_parts), 64);
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

static void a_reply_that_is_broken_off_looks_it(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd, GET("/stream?broken"));
    (void)client_read(fd, &got, "(end)", 2000);
    CHECK(t, bytes_find(buf_bytes(&got), BYTES("begin\n")) &&
                 !bytes_find(buf_bytes(&got), BYTES("\r\n0\r\n\r\n")));
    CHECK(t, bytes_find(buf_bytes(&got), BYTES("(end)")));
    CHECK(t, becomes(&s.n_done, 1));
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

static void tells_at_once_when_a_client_leaves(struct test *t)
{
    struct serving s = {0};

    if (!start(t, &s))
        return;
    for (int is_half = 0; is_half < 2; is_half++) {
        struct buf got = {0};
        int fd = client_open(&s);
        client_send(fd, GET("/held"));
        struct http_exchange *x = serving_held(&s, is_half + 1);
        CHECK(t, !atomic_load(&x->cancelled));
        struct linger at_once = {1, 0};
        if (is_half) {
            shutdown(fd, SHUT_WR);
        } else {
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
            close(fd);
        }
        for (int i = 0; i < 2000 && !atomic_load(&x->cancelled); i++)
            sleep_ms(1);
        CHECK(t, atomic_load(&x->cancelled));
        CHECK(t, bytes_are(x->request.path, "/held")); /* still there */
        serving_release(x);
        CHECK(t, becomes(&s.n_done, is_half + 1));
        CHECK_INT(t, atomic_load(&s.last_status), is_half ? 200 : 0);
        /* Whoever only said that nothing more will come may still read. */
        if (is_half) {
            CHECK(t, holds(client_read(fd, &got, "(end)", 2000), "released\n(end)"));
            close(fd);
        }
        buf_done(&got);
    }
    http_server_free(s.server);
}

static void tells_when_the_deadline_has_passed(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd, GET("/soon"));
    struct http_exchange *x = serving_held(&s, 1);
    for (int i = 0; i < 2000 && !atomic_load(&x->cancelled); i++)
        sleep_ms(1);
    CHECK(t, atomic_load(&x->cancelled));
    serving_release(x);
    CHECK(t, holds(client_read(fd, &got, "released", 2000), "200 OK"));
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

static void a_body_that_is_broken_off_ends_its_exchange(struct test *t)
{
    struct serving s = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd, "POST /echo HTTP/1.1\r\n" HOST "content-length: 100\r\n\r\nabc");
    CHECK(t, becomes(&s.n_head, 1));
    close(fd);
    CHECK(t, becomes(&s.n_done, 1));
    CHECK_INT(t, atomic_load(&s.n_request), 0);
    CHECK_INT(t, atomic_load(&s.last_status), 0);
    http_server_free(s.server);
}

static void answers_bad_requests_and_closes(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd, "GET / HTTP/1.1\r\na : b\r\n\r\n" GET("/"));
    const char *all = client_read(fd, &got, "(end)", 2000);
    CHECK(t, holds(all, "400 Bad Request") && holds(all, "must not be there\n(end)"));
    CHECK_INT(t, atomic_load(&s.n_head), 0);
    struct http_server_stat stat;
    http_server_stat(s.server, &stat);
    CHECK_INT(t, stat.protocol_errors, 1);
    CHECK(t, serving_has_logged(&s, "a header's name"));
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

static void turns_away_more_connections_than_allowed(struct test *t)
{
    struct serving s = {.o.connections_max = 2};
    struct buf got = {0};
    int fds[3];

    if (!start(t, &s))
        return;
    for (int i = 0; i < 2; i++) {
        fds[i] = client_open(&s);
        client_send(fds[i], GET("/"));
        CHECK(t, holds(client_read(fds[i], &got, "hello", 2000), "200 OK"));
    }
    fds[2] = client_open(&s);
    client_send(fds[2], GET("/"));
    CHECK(t, holds(client_read(fds[2], &got, "(end)", 2000), "503 Service Unavailable"));
    close(fds[0]);
    close(fds[1]);
    sleep_ms(50);
    int again = client_open(&s);
    client_send(again, GET("/"));
    CHECK(t, holds(client_read(again, &got, "hello", 2000), "200 OK"));
    close(again);
    close(fds[2]);
    buf_done(&got);
    http_server_free(s.server);
}

static void survives_without_descriptors(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};
    struct rlimit before, few;
    int fds[4];

    if (!start(t, &s))
        return;
    int spare = dup(0);
    for (int i = 0; i < 4; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s.port)};
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (i == 0) { /* one that is there before */
            CHECK_INT(t, connect(fds[i], (struct sockaddr *)&a, sizeof(a)), 0);
            client_send(fds[0], GET("/"));
            (void)client_read(fds[0], &got, "hello", 2000);
        }
    }
    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){(rlim_t)fds[3] + 1, before.rlim_max};
    close(spare);
    spare = dup(0); /* nothing below the limit is free */
    setrlimit(RLIMIT_NOFILE, &few);
    for (int i = 1; i < 4; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s.port)};
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        (void)connect(fds[i], (struct sockaddr *)&a, sizeof(a));
        struct timeval wait = {2, 0};
        setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        char c;
        CHECK(t, recv(fds[i], &c, 1, 0) <= 0); /* closed, not left in the dark */
    }
    client_send(fds[0], GET("/"));
    CHECK(t, holds(client_read(fds[0], &got, "hello", 2000), "200 OK"));
    setrlimit(RLIMIT_NOFILE, &before);
    struct rusage used, later;
    getrusage(RUSAGE_SELF, &used);
    sleep_ms(300);
    getrusage(RUSAGE_SELF, &later);
    CHECK(t, later.ru_utime.tv_sec * 1000000 + later.ru_utime.tv_usec -
                     used.ru_utime.tv_sec * 1000000 - used.ru_utime.tv_usec <
                 100000);
    int fd = client_open(&s);
    client_send(fd, GET("/"));
    CHECK(t, holds(client_read(fd, &got, "hello", 2000), "200 OK"));
    close(fd);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close(spare);
    buf_done(&got);
    http_server_free(s.server);
}

static void drains(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};

    if (!start(t, &s))
        return;
    int idle = client_open(&s), busy = client_open(&s);
    client_send(idle, GET("/"));
    (void)client_read(idle, &got, "hello", 2000);
    client_send(busy, GET("/held"));
    struct http_exchange *x = serving_held(&s, 1);
    CHECK_INT(t, http_server_drain(s.server, SECOND_NS / 10), -ETIMEDOUT);
    CHECK(t, atomic_load(&x->cancelled));
    CHECK_STR(t, client_read(idle, &got, "(end)", 2000), "(end)");
    CHECK(t, client_open(&s) == -1);
    serving_release(x);
    CHECK(t, becomes(&s.n_done, 2));
    close(idle);
    close(busy);
    buf_done(&got);
    http_server_free(s.server);
}

static void draining_finishes_what_was_begun(struct test *t)
{
    struct serving s = {0};
    struct buf got = {0};
    pthread_t thread;

    if (!start(t, &s))
        return;
    int busy = client_open(&s);
    client_send(busy, GET("/held"));
    pthread_create(&thread, NULL, release_soon, serving_held(&s, 1));
    CHECK_INT(t, http_server_drain(s.server, 5 * SECOND_NS), 0);
    const char *all = client_read(busy, &got, "(end)", 2000);
    CHECK(t, holds(all, "released\n(end)") && holds(all, "connection: close"));
    pthread_join(thread, NULL);
    close(busy);
    buf_done(&got);
    http_server_free(s.server);
}

static void freeing_waits_for_those_who_hold_exchanges(struct test *t)
{
    struct serving s = {0};
    pthread_t thread;

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd, GET("/held"));
    pthread_create(&thread, NULL, release_soon, serving_held(&s, 1));
    http_server_free(s.server);
    CHECK_INT(t, atomic_load(&s.n_done), 1);
    pthread_join(thread, NULL);
    close(fd);
}

static void an_exchange_may_outlive_its_server(struct test *t)
{
    struct serving s = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    client_send(fd, "POST /held HTTP/1.1\r\n" HOST "content-length: 3\r\n\r\nabc");
    struct http_exchange *x = serving_held(&s, 1);
    http_server_free(s.server);
    CHECK(t, atomic_load(&x->cancelled));
    CHECK(t, bytes_are(x->request.body, "abc"));
    CHECK(t, serving_has_logged(&s, "1 requests were never answered"));
    struct http_reply reply = {0};
    struct buf part = {0};
    buf_add_str(&part, "x");
    http_reply_begin(x, &reply);
    CHECK_INT(t, http_reply_write(x, &part), -ECANCELED);
    http_reply_end(x, NULL);
    CHECK_INT(t, atomic_load(&s.n_done), 0);
    close(fd);
}

static void names_who_holds_a_port(struct test *t)
{
    struct serving s = {0}, second = {0};
    struct error err = {0};
    char address[64], want[256], name[64] = "";

    if (!start(t, &s))
        return;
    snprintf(address, sizeof(address), "127.0.0.1:%u", s.port);
    second.listen.address = address;
    CHECK_INT(t, serving_start(&second, &err), -EADDRINUSE);
    FILE *f = fopen("/proc/self/comm", "re");
    if (f && fgets(name, sizeof(name), f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
    snprintf(want, sizeof(want),
             "could not listen on %s: the port is taken by %s (pid %d); choose another with "
             "--listen or stop it",
             address, name, (int)getpid());
    CHECK_STR(t, err.text, want);
    http_server_free(s.server);
}

static void refuses_bad_addresses(struct test *t)
{
    static const char *const bad[] = {"",           "4040",        "127.0.0.1",
                                      "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000",
                                      "::1:4040",   "unix:",       "no.such.host.invalid:1"};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct serving s = {.listen.address = bad[i]};
        struct error err = {0};
        CHECK_INT(t, serving_start(&s, &err), -EINVAL);
        CHECK(t, holds(err.text, bad[i]) && err.text[0]);
    }
}

static void listens_on_ipv6_and_unix_sockets(struct test *t)
{
    struct serving six = {.listen.address = "[::1]:0"}, all = {.listen.address = ":0"};
    struct serving local = {0}, second = {0};
    struct buf got = {0};
    struct error err = {0};
    char path[64], address[80];

    if (serving_start(&six, &err) == 0) {
        CHECK(t, strncmp(http_server_address(six.server, 0), "[::1]:", 6) == 0);
        http_server_free(six.server);
    }
    if (start(t, &all)) {
        int fd = client_open(&all);
        client_send(fd, GET("/"));
        CHECK(t, holds(client_read(fd, &got, "hello", 2000), "200 OK"));
        close(fd);
        http_server_free(all.server);
    }
    snprintf(path, sizeof(path), "/tmp/vesta-test-%d.sock", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", path);
    local.listen.address = second.listen.address = address;
    if (!start(t, &local))
        return;
    CHECK_INT(t, serving_start(&second, &err), -EADDRINUSE);
    CHECK(t, holds(err.text, "process ") && holds(err.text, path));
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    memcpy(a.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(t, connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    client_send(fd, GET("/"));
    CHECK(t, holds(client_read(fd, &got, "hello", 2000), "200 OK"));
    close(fd);
    http_server_free(local.server);
    CHECK(t, access(path, F_OK) < 0);
    buf_done(&got);
}

static long resident_kib(void)
{
    long kib = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static void idle_connections_cost_little(struct test *t)
{
    enum { N = 2000 };
    struct serving s = {0};
    struct buf got = {0};
    struct rlimit limit;
    static int fds[N];

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 2 * N + 100)
        TEST_SKIP(t, "too few descriptors are allowed");
    if (!start(t, &s))
        return;
    long before = resident_kib();
    for (int i = 0; i < N; i++) {
        fds[i] = client_open(&s);
        client_send(fds[i], "POST /echo HTTP/1.1\r\n" HOST "content-length: 3\r\n\r\nab\n");
        (void)client_read(fds[i], &got, "ab\n", 2000);
    }
    long each = (resident_kib() - before) * 1024 / N;
    printf("# %ld bytes for each of %d idle connections\n", each, N);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(t, each < 4096);
#endif
    struct http_server_stat stat;
    http_server_stat(s.server, &stat);
    CHECK_INT(t, stat.connections, N);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    buf_done(&got);
    http_server_free(s.server);
}

/* Clients that leave at every moment, while threads answer. */
struct storm {
    struct serving *s;
    unsigned seed;
};

static void *make_storm(void *arg)
{
    struct storm *storm = arg;
    struct buf got = {0};
    static const char *const requests[] = {
        GET("/"),
        GET("/stream"),
        GET("/large"),
        "POST /echo HTTP/1.1\r\n" HOST "content-length: 100000\r\n\r\nabc",
        GET("/") GET("/stream") GET("/"),
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    };

    for (int i = 0; i < 50; i++) {
        int fd = client_open(storm->s);
        client_send(fd, requests[(unsigned)rand_r(&storm->seed) % ARRAY_SIZE(requests)]);
        int what = rand_r(&storm->seed) % 3;
        if (what == 0)
            (void)client_read(fd, &got, "HTTP/1.1 200", 20);
        else if (what == 1)
            shutdown(fd, SHUT_WR);
        close(fd);
    }
    buf_done(&got);
    return NULL;
}

static void clients_may_leave_at_any_moment(struct test *t)
{
    struct serving s = {0};
    pthread_t threads[4];
    struct storm storms[4];

    if (!start(t, &s))
        return;
    for (unsigned i = 0; i < 4; i++) {
        storms[i] = (struct storm){&s, i + 1};
        pthread_create(&threads[i], NULL, make_storm, &storms[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 20000 && atomic_load(&s.n_done) != atomic_load(&s.n_head); i++)
        sleep_ms(1);
    CHECK_INT(t, atomic_load(&s.n_done), atomic_load(&s.n_head));
    struct http_server_stat stat;
    for (int i = 0; i < 20000; i++) {
        http_server_stat(s.server, &stat);
        if (stat.connections == 0)
            break;
        sleep_ms(1);
    }
    CHECK_INT(t, stat.connections, 0);
    CHECK(t, is_memory_free(&s));
    http_server_free(s.server);
}

static const struct test_case cases[] = {
    TEST(idle_connections_cost_little), /* first: nothing is free in the heap yet */
    TEST(keeps_connections_and_answers_in_order),
    TEST(answers_a_thousand_pipelined_requests),
    TEST(reads_and_writes_chunks),
    TEST(sends_continue_only_when_the_body_is_wanted),
    TEST(refuses_bodies_over_their_limit),
    TEST(bounds_the_memory_of_all_bodies),
    TEST(puts_large_bodies_into_a_file),
    TEST(closes_the_slow),
    TEST(gives_up_on_those_who_do_not_read),
    TEST(a_slow_reader_gets_all_and_slows_the_writer),
    TEST(a_reply_that_is_broken_off_looks_it),
    TEST(tells_at_once_when_a_client_leaves),
    TEST(tells_when_the_deadline_has_passed),
    TEST(a_body_that_is_broken_off_ends_its_exchange),
    TEST(answers_bad_requests_and_closes),
    TEST(turns_away_more_connections_than_allowed),
    TEST(survives_without_descriptors),
    TEST(drains),
    TEST(draining_finishes_what_was_begun),
    TEST(freeing_waits_for_those_who_hold_exchanges),
    TEST(an_exchange_may_outlive_its_server),
    TEST(names_who_holds_a_port),
    TEST(refuses_bad_addresses),
    TEST(listens_on_ipv6_and_unix_sockets),
    TEST(clients_may_leave_at_any_moment),
};
TEST_MAIN(cases)
