/* The HTTP server in HTTP/2 and behind TLS. */
#include "net/serving.h"

/* ---- HTTP/2 ---- */

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static void add_frame(struct buf *to, uint8_t type, uint8_t flags, uint8_t stream,
                      struct bytes payload)
{
    uint8_t head[9] = {0, 0, (uint8_t)payload.len, type, flags, 0, 0, 0, stream};

    buf_add(to, head, sizeof(head));
    buf_add_bytes(to, payload);
}

/* GET of a short path, with END_STREAM and END_HEADERS. */
static void add_get(struct buf *to, uint8_t stream, const char *path)
{
    struct buf block = {0};

    buf_add(&block,
            "\x82\x86\x01\x01"
            "a\x04",
            6);
    buf_add_byte(&block, (uint8_t)strlen(path));
    buf_add_str(&block, path);
    add_frame(to, 1, 5, stream, buf_bytes(&block));
    buf_done(&block);
}

static void send_buf(int fd, struct buf *b)
{
    CHECK_INT(&(struct test){0}, send(fd, b->data, b->len, MSG_NOSIGNAL), (long long)b->len);
    buf_done(b);
}

static bool read_part(int fd, struct buf *got, const char *part)
{
    (void)client_read(fd, got, part, 2000);
    return bytes_find(buf_bytes(got), bytes_of(part)) != NULL;
}

static void a_reset_stream_is_cancelled_and_others_go_on(struct test *t)
{
    struct serving s = {0};
    struct buf out = {0}, got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    buf_add_str(&out, PREFACE);
    add_frame(&out, 4, 0, 0, (struct bytes){0});
    add_get(&out, 1, "/held");
    send_buf(fd, &out);
    struct http_exchange *x = serving_held(&s, 1);
    CHECK(t, x->request.is_http2 && !atomic_load(&x->cancelled));
    add_frame(&out, 3, 0, 1, (struct bytes){(const uint8_t *)"\0\0\0\x08", 4});
    add_get(&out, 3, "/");
    send_buf(fd, &out);
    CHECK(t, read_part(fd, &got, "hello\n"));
    CHECK(t, atomic_load(&x->cancelled));
    CHECK(t, bytes_are(x->request.path, "/held"));
    serving_release(x);
    CHECK(t, becomes(&s.n_done, 2));
    /* A stream that is answered later, on a connection that is still there. */
    add_get(&out, 5, "/held");
    send_buf(fd, &out);
    serving_release(serving_held(&s, 2));
    CHECK(t, read_part(fd, &got, "released\n"));
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

static void a_refused_body_leaves_other_streams_alone(struct test *t)
{
    struct serving s = {0};
    struct buf out = {0}, got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    buf_add_str(&out, PREFACE);
    add_frame(&out, 4, 0, 0, (struct bytes){0});
    /* POST /small without END_STREAM, and more than its ten bytes. */
    add_frame(&out, 1, 4, 1,
              BYTES("\x83\x86\x01\x01"
                    "a\x04\x06/small"));
    add_frame(&out, 0, 0, 1, BYTES("0123456789abcdef"));
    send_buf(fd, &out);
    CHECK(t, read_part(fd, &got, "refused with 413\n"));
    add_get(&out, 3, "/");
    send_buf(fd, &out);
    CHECK(t, read_part(fd, &got, "hello\n"));
    CHECK_INT(t, atomic_load(&s.n_refuse), 1);
    close(fd);
    CHECK(t, becomes(&s.n_done, 2));
    buf_done(&got);
    http_server_free(s.server);
}

static void tells_http2_clients_to_go_away(struct test *t)
{
    struct serving s = {0};
    struct buf out = {0}, got = {0};
    pthread_t thread;

    if (!start(t, &s))
        return;
    int fd = client_open(&s), idle = client_open(&s);
    buf_add_str(&out, PREFACE);
    add_frame(&out, 4, 0, 0, (struct bytes){0});
    add_get(&out, 1, "/held");
    send_buf(fd, &out);
    buf_add_str(&out, PREFACE);
    add_frame(&out, 4, 0, 0, (struct bytes){0});
    add_get(&out, 1, "/");
    send_buf(idle, &out);
    CHECK(t, read_part(idle, &got, "hello\n"));
    pthread_create(&thread, NULL, release_soon, serving_held(&s, 1));
    CHECK_INT(t, http_server_drain(s.server, 5 * SECOND_NS), 0);
    CHECK(t, read_part(fd, &got, "released\n"));
    CHECK(t, read_part(idle, &got, "(end)"));
    pthread_join(thread, NULL);
    close(fd);
    close(idle);
    buf_done(&got);
    http_server_free(s.server);
}

static void gives_up_on_streams_whose_window_stays_shut(struct test *t)
{
    struct serving s = {.o.write_timeout_ns = SECOND_NS / 5};
    struct buf out = {0}, got = {0};

    if (!start(t, &s))
        return;
    int fd = client_open(&s);
    buf_add_str(&out, PREFACE);
    add_frame(&out, 4, 0, 0, (struct bytes){0});
    add_get(&out, 1, "/stream"); /* 64 KiB may go; all of it is read */
    send_buf(fd, &out);
    for (int i = 0; i < 30 && atomic_load(&s.n_done) == 0; i++)
        (void)client_read(fd, &got, NULL, 100);
    CHECK(t, becomes(&s.n_done, 1));
    CHECK_INT(t, atomic_load(&s.stream_result), -ECANCELED);
    add_get(&out, 3, "/echo"); /* no body: an empty answer needs no window */
    send_buf(fd, &out);
    CHECK(t, becomes(&s.n_done, 2));
    close(fd);
    buf_done(&got);
    http_server_free(s.server);
}

/* Streams that are reset and connections that end while threads answer. */
static void *make_storm(void *arg)
{
    struct serving *s = arg;
    static const char *const paths[] = {"/", "/stream", "/large", "/refused", "/stream?broken"};
    struct buf got = {0};
    static atomic_uint seeds;
    unsigned seed = atomic_fetch_add(&seeds, 1);

    for (int i = 0; i < 30; i++) {
        struct buf out = {0};
        int fd = client_open(s);
        buf_add_str(&out, PREFACE);
        add_frame(&out, 4, 0, 0, (struct bytes){0});
        for (uint8_t id = 1; id < 20; id = (uint8_t)(id + 2)) {
            add_get(&out, id, paths[(unsigned)rand_r(&seed) % ARRAY_SIZE(paths)]);
            if (rand_r(&seed) % 3 == 0)
                add_frame(&out, 3, 0, id, (struct bytes){(const uint8_t *)"\0\0\0\x08", 4});
        }
        send_buf(fd, &out);
        if (rand_r(&seed) % 2)
            (void)client_read(fd, &got, "hello\n", 20);
        close(fd);
    }
    buf_done(&got);
    return NULL;
}

static void http2_clients_may_leave_at_any_moment(struct test *t)
{
    struct serving s = {0};
    pthread_t threads[3];
    struct http_server_stat stat;

    if (!start(t, &s))
        return;
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, make_storm, &s);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 20000; i++) {
        http_server_stat(s.server, &stat);
        if (stat.connections == 0 && atomic_load(&s.n_done) == atomic_load(&s.n_head))
            break;
        sleep_ms(1);
    }
    CHECK_INT(t, stat.connections, 0);
    CHECK_INT(t, atomic_load(&s.n_done), atomic_load(&s.n_head));
    CHECK(t, atomic_load(&s.n_head) > 100);
    http_server_stat(s.server, &stat);
    CHECK_INT(t, stat.body_memory, 0);
    http_server_free(s.server);
}

/* ---- TLS ---- */

static char tls_dir[64];

/* A certificate of its own authority for localhost, and one for a client. */
static bool make_certificates(void)
{
    char command[2048];

    snprintf(tls_dir, sizeof(tls_dir), "/tmp/vesta-tls-%d", (int)getpid());
    snprintf(command, sizeof(command),
             "set -e; mkdir -p %s; cd %s; exec 2>/dev/null;"
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout key -out cert;"
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
             "-subj /O=Tests/CN=someone -keyout client.key -out client;"
             "curl --version >/dev/null",
             tls_dir, tls_dir);
    return system(command) == 0;
}

static void remove_certificates(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", tls_dir);
    CHECK(&(struct test){0}, system(command) == 0);
}

/* What curl has to say. */
static const char *curl(const struct serving *s, const char *options, struct buf *to)
{
    char command[512], text[4096];

    snprintf(command, sizeof(command),
             "cd %s && curl -s -m 5 -w ' %%{http_version}' %s https://127.0.0.1:%u/ 2>&1", tls_dir,
             options, s->port);
    buf_clear(to);
    FILE *f = popen(command, "r");
    for (size_t n; f && (n = fread(text, 1, sizeof(text), f)) > 0;)
        buf_add(to, text, n);
    if (f)
        pclose(f);
    return buf_cstr(to);
}

static void speaks_tls_and_reloads_certificates(struct test *t)
{
    char cert[80], key[80], command[256];
    struct serving s = {.listen.is_tls = true,
                        .o.cert_file = cert,
                        .o.key_file = key,
                        .o.head_timeout_ns = SECOND_NS / 2};
    struct buf got = {0};
    struct error err = {0};

    if (!make_certificates())
        TEST_SKIP(t, "openssl or curl is not installed");
    snprintf(cert, sizeof(cert), "%s/cert", tls_dir);
    snprintf(key, sizeof(key), "%s/key", tls_dir);
    if (!start(t, &s))
        return;
    CHECK_STR(t, curl(&s, "--cacert cert --http1.1", &got), "hello\n 1.1");
    CHECK(t, s.was_tls && !s.was_http2);
    CHECK_STR(t, curl(&s, "--cacert cert --http2", &got), "hello\n 2");
    CHECK(t, s.was_tls && s.was_http2);
    CHECK_STR(t, curl(&s, "--cacert cert --tls-max 1.2 --http1.1", &got), "hello\n 1.1");
    CHECK_STR(t, curl(&s, "--cacert cert --tls-max 1.1 --ciphers DEFAULT@SECLEVEL=0", &got), " 0");
    /* A handshake that does not come, what is not TLS at all, and one that is broken off. */
    int silent = client_open(&s);
    CHECK_STR(t, client_read(silent, &got, "(end)", 2000), "(end)");
    close(silent);
    int fd = client_open(&s);
    client_send(fd, GET("/"));
    CHECK(t, !holds(client_read(fd, &got, "(end)", 2000), "200 OK"));
    close(fd);
    close(client_open(&s));
    /* A broken file changes nothing; a new certificate is used at once. */
    snprintf(command, sizeof(command), "cd %s && mv cert old && echo x > cert", tls_dir);
    CHECK_INT(t, system(command), 0);
    CHECK_INT(t, http_server_reload(s.server, cert, key, &err), -EINVAL);
    CHECK(t, holds(err.text, "could not use the certificate \"") && holds(err.text, cert));
    CHECK_STR(t, curl(&s, "--cacert old", &got), "hello\n 2");
    CHECK(t, make_certificates());
    CHECK_INT(t, http_server_reload(s.server, cert, key, &err), 0);
    CHECK_STR(t, curl(&s, "--cacert cert", &got), "hello\n 2");
    CHECK_STR(t, curl(&s, "--cacert old", &got), " 0");
    buf_done(&got);
    http_server_free(s.server);
    remove_certificates();
}

static void asks_clients_for_certificates(struct test *t)
{
    char cert[80], key[80], ca[80];
    struct serving s = {
        .listen.is_tls = true, .o.cert_file = cert, .o.key_file = key, .o.client_ca_file = ca};
    struct buf got = {0};

    if (!make_certificates())
        TEST_SKIP(t, "openssl or curl is not installed");
    snprintf(cert, sizeof(cert), "%s/cert", tls_dir);
    snprintf(key, sizeof(key), "%s/key", tls_dir);
    snprintf(ca, sizeof(ca), "%s/client", tls_dir);
    if (!start(t, &s))
        return;
    CHECK_STR(t, curl(&s, "--cacert cert --cert client --key client.key", &got), "hello\n 2");
    pthread_mutex_lock(&s.lock);
    CHECK_STR(t, s.subject, "CN=someone,O=Tests");
    pthread_mutex_unlock(&s.lock);
    CHECK_STR(t, curl(&s, "--cacert cert", &got), " 0");
    CHECK_STR(t, curl(&s, "--cacert cert --cert cert --key key", &got), " 0");
    CHECK_INT(t, atomic_load(&s.n_request), 1);
    buf_done(&got);
    http_server_free(s.server);
    remove_certificates();
}

static void refuses_certificates_that_cannot_be_read(struct test *t)
{
    struct serving none = {.listen.is_tls = true};
    struct serving missing = {
        .listen.is_tls = true, .o.cert_file = "/no/such/file", .o.key_file = "/no/such/file"};
    struct error err = {0};

    CHECK_INT(t, serving_start(&none, &err), -EINVAL);
    CHECK_STR(t, err.text, "TLS needs a certificate file and a key file");
    CHECK_INT(t, serving_start(&missing, &err), -EINVAL);
    CHECK(t, holds(err.text, "could not use the certificate \"/no/such/file\": "));
}

static const struct test_case cases[] = {
    TEST(a_reset_stream_is_cancelled_and_others_go_on),
    TEST(a_refused_body_leaves_other_streams_alone),
    TEST(tells_http2_clients_to_go_away),
    TEST(gives_up_on_streams_whose_window_stays_shut),
    TEST(http2_clients_may_leave_at_any_moment),
    TEST(speaks_tls_and_reloads_certificates),
    TEST(asks_clients_for_certificates),
    TEST(refuses_certificates_that_cannot_be_read),
};
TEST_MAIN(cases)
