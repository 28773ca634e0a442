#include "net/http_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/http1.h"
#include "net/tls_lib.h"
#include "net/url.h"

#define REDIRECTS_MAX 5
#define TICK_MS       200

/* One connection, plain or TLS. The socket is non-blocking; wait_for() is the only place that
 * sleeps, so that progress and the timeout work in every phase. */
struct connection {
    int fd;
    const struct tls_lib *lib; /* NULL unless the URL is https */
    SSL_CTX *context;
    SSL *tls;
    const struct http_get_options *o;
    const struct url *url;
    double started, last_heard;
    uint64_t received;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void connection_done(struct connection *c)
{
    if (c->lib) {
        c->lib->SSL_free(c->tls);
        c->lib->SSL_CTX_free(c->context);
    }
    if (c->fd >= 0)
        close(c->fd);
}

static int wait_for(struct connection *c, short events, struct error *err)
{
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = events};
        int n = poll(&p, 1, TICK_MS);
        double now = now_s();
        if (c->o->progress)
            c->o->progress(c->o->progress_arg, c->received, now - c->started);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return error_set(err, -errno, "could not wait for %s: %m", c->url->host);
        if (now - c->last_heard > c->o->timeout_s)
            return error_set(err, -ETIMEDOUT, "%s:%s said nothing for %d seconds", c->url->host,
                             c->url->port, c->o->timeout_s);
    }
}

static int connect_one(struct connection *c, const struct addrinfo *a, struct error *err)
{
    c->fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (c->fd < 0)
        return error_set(err, -errno, "could not make a socket: %m");
    int failure = 0;
    if (connect(c->fd, a->ai_addr, a->ai_addrlen) < 0) {
        if (errno != EINPROGRESS) {
            failure = errno;
        } else {
            int r = wait_for(c, POLLOUT, err);
            if (r < 0)
                return r;
            socklen_t len = sizeof(failure);
            getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failure, &len);
        }
    }
    if (failure == 0)
        return 0;
    close(TAKE_FD(c->fd));
    errno = failure;
    return error_set(err, -failure, "could not connect to %s:%s: %m", c->url->host, c->url->port);
}

static int connect_any(struct connection *c, struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all;
    int code = getaddrinfo(c->url->host, c->url->port, &hints, &all);
    if (code != 0)
        return error_set(err, -EHOSTUNREACH, "could not find host \"%s\": %s", c->url->host,
                         gai_strerror(code));
    int r = -EHOSTUNREACH;
    for (const struct addrinfo *a = all; a && r < 0; a = a->ai_next)
        r = connect_one(c, a, err);
    freeaddrinfo(all);
    return r;
}

static int tls_error(struct connection *c, struct error *err)
{
    long verify = c->tls ? c->lib->SSL_get_verify_result(c->tls) : X509_V_OK;
    unsigned long code = c->lib->ERR_get_error();
    const char *why = verify != X509_V_OK ? c->lib->X509_verify_cert_error_string(verify)
                      : code              ? c->lib->ERR_reason_error_string(code)
                                          : "the connection was closed";
    return error_set(err, -EPROTO, "TLS with %s:%s failed: %s", c->url->host, c->url->port,
                     why ? why : "unknown reason");
}

/* After a TLS call that could not finish: waits for what it wants. 1 = at the end, 0 = try again.
 */
static int tls_wait(struct connection *c, int result, struct error *err)
{
    switch (c->lib->SSL_get_error(c->tls, result)) {
    case SSL_ERROR_WANT_READ:
        return wait_for(c, POLLIN, err);
    case SSL_ERROR_WANT_WRITE:
        return wait_for(c, POLLOUT, err);
    case SSL_ERROR_ZERO_RETURN:
        return 1;
    default:
        return tls_error(c, err);
    }
}

static int start_tls(struct connection *c, struct error *err)
{
    int loaded = tls_lib_get(&c->lib, err);
    if (loaded < 0)
        return loaded;
    c->context = c->lib->SSL_CTX_new(c->lib->TLS_client_method());
    if (!c->context || !c->lib->SSL_CTX_set_default_verify_paths(c->context))
        return tls_error(c, err);
    c->lib->SSL_CTX_set_verify(c->context, SSL_VERIFY_PEER, NULL);
    c->lib->SSL_CTX_ctrl(c->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    c->tls = c->lib->SSL_new(c->context);
    if (!c->tls || !c->lib->SSL_set_fd(c->tls, c->fd))
        return tls_error(c, err);
    X509_VERIFY_PARAM *param = c->lib->SSL_get0_param(c->tls);
    if (c->lib->X509_VERIFY_PARAM_set1_ip_asc(param, c->url->host) != 1) {
        /* The header's macro casts the constness away as well. */
        c->lib->SSL_ctrl(c->tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                         (void *)(uintptr_t)c->url->host);
        if (!c->lib->SSL_set1_host(c->tls, c->url->host))
            return tls_error(c, err);
    }
    for (;;) {
        int n = c->lib->SSL_connect(c->tls);
        if (n == 1)
            return 0;
        int r = tls_wait(c, n, err);
        if (r != 0)
            return r < 0 ? r : tls_error(c, err);
    }
}

static int send_all(struct connection *c, struct bytes data, struct error *err)
{
    while (data.len > 0) {
        ssize_t n;
        int r = 0;
        if (c->tls) {
            n = c->lib->SSL_write(c->tls, data.data, (int)data.len);
            if (n <= 0)
                r = tls_wait(c, (int)n, err);
        } else {
            n = send(c->fd, data.data, data.len, MSG_NOSIGNAL);
            if (n < 0 && errno == EAGAIN)
                r = wait_for(c, POLLOUT, err);
            else if (n < 0)
                r = error_set(err, -errno, "could not send to %s: %m", c->url->host);
        }
        if (r != 0)
            return r < 0 ? r : error_set(err, -EPIPE, "%s closed the connection", c->url->host);
        if (n > 0)
            data = bytes_from(data, (size_t)n);
    }
    return 0;
}

/* 1..size bytes, 0 at the end, or an error. */
static ssize_t receive(struct connection *c, uint8_t *to, size_t size, struct error *err)
{
    for (;;) {
        ssize_t n;
        int r;
        if (c->tls) {
            n = c->lib->SSL_read(c->tls, to, (int)size);
            r = n > 0 ? 0 : tls_wait(c, (int)n, err);
            if (r == 1)
                return 0;
        } else {
            n = recv(c->fd, to, size, 0);
            if (n == 0)
                return 0;
            r = 0;
            if (n < 0)
                r = errno == EAGAIN
                        ? wait_for(c, POLLIN, err)
                        : error_set(err, -errno, "could not read from %s: %m", c->url->host);
        }
        if (r < 0)
            return r;
        if (n > 0) {
            c->received += (uint64_t)n;
            c->last_heard = now_s();
            return n;
        }
    }
}

struct sink {
    struct budget *budget;
    struct http_body *body;
};

static bool sink_add(void *arg, struct bytes part)
{
    struct sink *s = arg;
    return vec_append(s->budget, &s->body->data, part.data, part.len);
}

static void add_base64(struct buf *b, const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i += 3) {
        uint32_t v = (uint32_t)(uint8_t)text[i] << 16;
        v |= i + 1 < len ? (uint32_t)(uint8_t)text[i + 1] << 8 : 0;
        v |= i + 2 < len ? (uint32_t)(uint8_t)text[i + 2] : 0;
        buf_add_byte(b, (uint8_t)digits[v >> 18]);
        buf_add_byte(b, (uint8_t)digits[v >> 12 & 63]);
        buf_add_byte(b, (uint8_t)(i + 1 < len ? digits[v >> 6 & 63] : '='));
        buf_add_byte(b, (uint8_t)(i + 2 < len ? digits[v & 63] : '='));
    }
}

static void write_request(const struct url *u, struct buf *b)
{
    bool v6 = strchr(u->host, ':') != NULL;

    buf_addf(b, "GET %s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", u->path, v6 ? "[" : "", u->host,
             v6 ? "]" : "", u->port);
    if (u->userinfo[0]) {
        buf_add_str(b, "Authorization: Basic ");
        add_base64(b, u->userinfo);
        buf_add_str(b, "\r\n");
    }
    buf_add_str(b,
                "User-Agent: vesta/" VESTA_VERSION "\r\nAccept: */*\r\nConnection: close\r\n\r\n");
}

static int exchange(struct connection *c, struct http1_response *response, struct sink *sink,
                    struct error *err)
{
    struct buf request = {0};
    write_request(c->url, &request);
    int r = send_all(c, buf_bytes(&request), err);
    buf_done(&request);

    uint8_t *chunk = malloc((size_t)64 << 10);
    if (!chunk)
        abort();
    while (r == 0 && !response->done) {
        ssize_t n = receive(c, chunk, (size_t)64 << 10, err);
        if (n < 0) {
            r = (int)n;
        } else if (n == 0 ? !http1_response_end(response)
                          : !http1_response_feed(response, (struct bytes){chunk, (size_t)n},
                                                 sink_add, sink)) {
            r = budget_failed(sink->budget)
                    ? budget_error(sink->budget, err)
                    : error_set(err, -EPROTO, "%s: %s", c->url->host, response->failure);
        }
    }
    free(chunk);
    return r;
}

/* One request, no redirects. */
static int fetch_once(const struct url *u, const struct http_get_options *o,
                      struct http1_response *response, struct sink *sink, struct error *err)
{
    CLEANUP(connection_done)
    struct connection c = {.fd = -1, .o = o, .url = u, .started = now_s(), .last_heard = now_s()};
    int r = connect_any(&c, err);
    if (r == 0 && u->is_tls)
        r = start_tls(&c, err);
    if (r == 0)
        r = exchange(&c, response, sink, err);
    return r;
}

static int status_error(const char *url, const struct http1_response *response,
                        const struct http_body *body, struct error *err)
{
    struct bytes rest = {body->data.data, body->data.len}, line = {0};
    (void)bytes_next_line(&rest, &line);
    line = bytes_head(bytes_trim(line), 160);
    return error_set(err, -EIO, "%s answered %d %s%s%.*s", url, response->status, response->reason,
                     line.len ? ": " : "", (int)line.len, (const char *)line.data);
}

/* Where a redirect leads: the new URL in *u and `text`. */
static int follow(struct url *u, const struct http1_response *response, char *text, size_t size,
                  struct error *err)
{
    bool was_tls = u->is_tls;
    bool v6 = strchr(u->host, ':') != NULL;
    int n = snprintf(
        text, size,
        response->location[0] == '/' ? "http%s://%s%s%s:%s%s" : "%.0s%.0s%.0s%.0s%.0s%s",
        u->is_tls ? "s" : "", v6 ? "[" : "", u->host, v6 ? "]" : "", u->port, response->location);
    if (n < 0 || (size_t)n >= size)
        return error_set(err, -EINVAL, "the redirect is too long");
    struct url next;
    int r = url_parse(text, &next, err);
    if (r < 0)
        return error_prefix(err, r, "could not follow a redirect");
    if (was_tls && !next.is_tls)
        return error_set(err, -EPERM, "refused a redirect from https to %s", text);
    *u = next;
    return 0;
}

int http_get(const char *url, const struct http_get_options *o, struct budget *b,
             struct http_body *ret, struct error *err)
{
    struct url u;
    char where[4096];
    struct http_body body = {0};
    struct sink sink = {b, &body};

    int r = url_parse(url, &u, err);
    if (r < 0)
        return r;
    snprintf(where, sizeof(where), "%s", url);
    for (int hops = 0;; hops++) {
        struct http1_response response = {0};
        vec_clear(&body.data);
        r = fetch_once(&u, o, &response, &sink, err);
        if (r == 0 && response.status >= 300 && response.status < 400 && response.location[0]) {
            r = hops == REDIRECTS_MAX
                    ? error_set(err, -ELOOP, "%s redirects more than %d times", url, REDIRECTS_MAX)
                    : follow(&u, &response, where, sizeof(where), err);
            if (r == 0)
                continue;
        } else if (r == 0 && response.status != 200) {
            r = status_error(where, &response, &body, err);
        }
        break;
    }
    if (r < 0) {
        http_body_done(b, &body);
        return r;
    }
    *ret = body;
    return 0;
}

void http_body_done(struct budget *b, struct http_body *body)
{
    vec_done(b, &body->data);
}
