#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"
#include "lib/test.h"
#include "net/http_server.h"

#define HOST      "host: a\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

#define SECOND_NS 1000000000LL

/*
 * A server for tests, and clients that send exactly the bytes they are told to.
 *
 * What it answers is in the path: /echo the body, /held nothing until release(), /stream MiBs in
 * pieces from a thread of its own (?broken is not ended), /refused 403 before the body, /small has
 * a limit of 10 bytes, /file spools beyond 1,000; everything else "hello".
 */
struct serving {
    struct http_server *server;
    struct http_server_options o;
    struct http_listen listen;
    unsigned port;
    atomic_int n_head, n_request, n_done, n_refuse, last_status;
    atomic_ullong last_sent;
    atomic_int stream_result, stream_parts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct http_exchange *held;
    int n_held;
    char subject[256];
    atomic_bool was_tls, was_http2, had_file;
    char log[4096];
};

static inline void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

static inline int serving_head(void *ctx, struct http_exchange *x, struct http_reply *refusal)
{
    struct serving *s = ctx;

    atomic_fetch_add(&s->n_head, 1);
    if (bytes_are(x->request.path, "/refused")) {
        buf_add_str(&refusal->body, "not you\n");
        return 403;
    }
    if (bytes_are(x->request.path, "/small"))
        x->body_limit = 10;
    if (bytes_are(x->request.path, "/file"))
        x->memory_max = 1000;
    if (bytes_are(x->request.path, "/soon"))
        x->deadline_ns = x->start_ns + 50000000;
    return 0;
}

static inline void *serving_stream(void *arg)
{
    struct http_exchange *x = arg;
    struct serving *s = x->owner;
    struct http_reply reply = {0};
    int r = 0;

    buf_add_str(&reply.body, "begin\n");
    http_reply_begin(x, &reply);
    for (int i = 0; i < 64 && r == 0; i++) {
        struct buf part = {0};
        uint8_t *to = buf_reserve(&part, 100000);
        memset(to, 'a' + i % 26, 100000);
        part.len = 100000;
        r = http_reply_write(x, &part);
        if (r == 0)
            atomic_fetch_add(&s->stream_parts, 1);
    }
    atomic_store(&s->stream_result, r);
    if (bytes_are(x->request.query, "broken"))
        http_reply_break_off(x);
    else
        http_reply_end(x, NULL);
    return NULL;
}

static inline void serving_hold(struct serving *s, struct http_exchange *x)
{
    pthread_mutex_lock(&s->lock);
    s->held = x;
    s->n_held++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static inline void serving_read_file(struct serving *s, struct http_exchange *x,
                                     struct http_reply *reply)
{
    char text[4096];
    ssize_t n;

    s->had_file = x->request.body_file >= 0;
    while (s->had_file && (n = read(x->request.body_file, text, sizeof(text))) > 0)
        buf_add(&reply->body, text, (size_t)n);
}

static inline void serving_request(void *ctx, struct http_exchange *x)
{
    struct serving *s = ctx;
    struct http_reply reply = {0};

    atomic_fetch_add(&s->n_request, 1);
    s->was_tls = x->request.is_tls;
    s->was_http2 = x->request.is_http2;
    pthread_mutex_lock(&s->lock);
    memcpy(s->subject, x->request.peer_subject, sizeof(s->subject));
    pthread_mutex_unlock(&s->lock);
    if (bytes_are(x->request.path, "/held") || bytes_are(x->request.path, "/soon")) {
        serving_hold(s, x);
        return;
    }
    if (bytes_are(x->request.path, "/stream")) {
        pthread_t thread;
        x->owner = s;
        pthread_create(&thread, NULL, serving_stream, x);
        pthread_detach(thread);
        return;
    }
    http_reply_header(&reply, "content-type", BYTES("text/plain"));
    if (bytes_are(x->request.path, "/echo") || bytes_are(x->request.path, "/small"))
        buf_add_bytes(&reply.body, x->request.body);
    else if (bytes_are(x->request.path, "/file"))
        serving_read_file(s, x, &reply);
    else if (bytes_are(x->request.path, "/large"))
        for (int i = 0; i < 300000; i++)
            buf_add_str(&reply.body, "0123456789");
    else
        buf_add_str(&reply.body, "hello\n");
    http_reply_send(x, &reply);
}

static inline void serving_refuse(void *ctx, struct http_exchange *x, int status,
                                  struct http_reply *refusal)
{
    struct serving *s = ctx;

    (void)x;
    atomic_fetch_add(&s->n_refuse, 1);
    buf_addf(&refusal->body, "refused with %d\n", status);
}

static inline void serving_done(void *ctx, struct http_exchange *x, int status, uint64_t sent)
{
    struct serving *s = ctx;

    (void)x;
    atomic_store(&s->last_status, status);
    atomic_store(&s->last_sent, sent);
    atomic_fetch_add(&s->n_done, 1);
}

static inline void serving_log(void *ctx, int level, const char *text)
{
    struct serving *s = ctx;

    pthread_mutex_lock(&s->lock);
    size_t n = strlen(s->log);
    snprintf(s->log + n, sizeof(s->log) - n, "%d %s\n", level, text);
    pthread_mutex_unlock(&s->lock);
}

/* Whether such a line was logged. */
static inline bool serving_has_logged(struct serving *s, const char *part)
{
    pthread_mutex_lock(&s->lock);
    bool has = strstr(s->log, part) != NULL;
    pthread_mutex_unlock(&s->lock);
    return has;
}

/* Zero it and set what matters in s->o first. */
static inline int serving_start(struct serving *s, struct error *err)
{
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (!s->listen.address)
        s->listen.address = "127.0.0.1:0";
    s->o.listens = &s->listen;
    s->o.n_listens = 1;
    s->o.service =
        (struct http_service){serving_head, serving_request, serving_refuse, serving_done, s};
    s->o.log = serving_log;
    s->o.log_ctx = s;
    int r = http_server_start(&s->o, &s->server, err);
    if (r < 0)
        return r;
    const char *colon = strrchr(http_server_address(s->server, 0), ':');
    s->port = (unsigned)atoi(colon + 1);
    return 0;
}

static inline bool start(struct test *t, struct serving *s)
{
    struct error err = {0};

    int r = serving_start(s, &err);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", err.text);
    return r == 0;
}

/* Waits for the n-th request to be held, then hands it out. */
static inline struct http_exchange *serving_held(struct serving *s, int n)
{
    pthread_mutex_lock(&s->lock);
    while (s->n_held < n)
        pthread_cond_wait(&s->changed, &s->lock);
    struct http_exchange *x = s->held;
    pthread_mutex_unlock(&s->lock);
    return x;
}

static inline void serving_release(struct http_exchange *x)
{
    struct http_reply reply = {0};

    buf_add_str(&reply.body, "released\n");
    http_reply_send(x, &reply);
}

/* A thread that does so in a while. */
static inline void *release_soon(void *arg)
{
    sleep_ms(100);
    serving_release(arg);
    return NULL;
}

static inline bool holds(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Whether the number gets there within ten seconds. */
static inline bool becomes(atomic_int *n, int want)
{
    for (int i = 0; i < 10000 && atomic_load(n) != want; i++)
        sleep_ms(1);
    return atomic_load(n) == want;
}

/* ---- clients ---- */

static inline int client_open(const struct serving *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        return -1;
    return fd;
}

static inline void client_send(int fd, const char *text)
{
    size_t len = strlen(text);

    while (len > 0) {
        ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

/* What comes until `until` is in it, or the end, or nothing for so long. "(end)" is added when the
 * connection was closed. */
static inline const char *client_read(int fd, struct buf *to, const char *until, int timeout_ms)
{
    buf_clear(to);
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (until && bytes_find(buf_bytes(to), bytes_of(until)))
            break;
        if (poll(&p, 1, timeout_ms) <= 0)
            break;
        uint8_t *room = buf_reserve(to, 65536);
        ssize_t n = recv(fd, room, 65536, 0);
        if (n <= 0) {
            buf_add_str(to, n == 0 ? "(end)" : "(reset)");
            break;
        }
        to->len += (size_t)n;
    }
    return buf_cstr(to);
}
