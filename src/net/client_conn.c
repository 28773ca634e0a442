#include "net/client_conn.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "net/ssrf.h"

#define TICK_MS           200
#define CONNECT_DEFAULT_S 10
#define SILENCE_DEFAULT_S 60
#define ADDRESSES_MAX     8 /* of one name, that are tried */

double client_now_s(void)
{
    return (double)clock_monotonic_ns(clock_real()) / 1e9;
}

static int check_time(struct client_conn *c, bool is_silent, struct error *err)
{
    int silence = c->o->silence_s > 0 ? c->o->silence_s : SILENCE_DEFAULT_S;
    double now = client_now_s();

    if (c->o->cancelled && *c->o->cancelled)
        return error_set(err, -ECANCELED, "stopped waiting for %s", c->url.host);
    if (c->connect_until > 0 && now > c->connect_until)
        return error_set(err, -ETIMEDOUT, "%s:%s did not take the connection in time", c->url.host,
                         c->url.port);
    if (is_silent && now - c->moved > silence)
        return error_set(err, -ETIMEDOUT, "%s:%s said nothing for %d seconds", c->url.host,
                         c->url.port, silence);
    if (c->o->total_s > 0 && now - c->started > c->o->total_s)
        return error_set(err, -ETIMEDOUT, "%s:%s did not finish within %d seconds", c->url.host,
                         c->url.port, c->o->total_s);
    return 0;
}

/* Waits until the socket is ready; what it is ready for goes to *ret, which may be NULL. */
static int conn_wait(struct client_conn *c, short events, short *ret, struct error *err)
{
    for (;;) {
        struct pollfd p = {.fd = c->fd, .events = events};
        int n = poll(&p, 1, TICK_MS);
        if (n < 0 && errno != EINTR)
            return error_set(err, -errno, "could not wait for %s: %m", c->url.host);
        c->progress.seconds = client_now_s() - c->started;
        if (c->o->progress)
            c->o->progress(c->o->progress_arg, &c->progress);
        int r = check_time(c, n <= 0, err);
        if (r < 0)
            return r;
        if (n > 0) {
            if (ret)
                *ret = p.revents;
            return 0;
        }
    }
}

static int connect_one(struct client_conn *c, const struct sockaddr *address, socklen_t len,
                       struct error *err)
{
    c->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return error_set(err, -errno, "could not make a socket: %m");
    int failure = 0, r = 0;
    if (connect(c->fd, address, len) < 0) {
        failure = errno;
        if (failure == EINPROGRESS) {
            r = conn_wait(c, POLLOUT, NULL, err);
            socklen_t size = sizeof(failure);
            if (r == 0)
                getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failure, &size);
        }
    }
    if (r == 0 && failure == 0) {
        /* Head and body are sent apart: the body is not to wait until the head is acknowledged. */
        if (address->sa_family != AF_UNIX)
            (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        return 0;
    }
    close(TAKE_FD(c->fd));
    if (r < 0)
        return r;
    errno = failure;
    /* Nobody listens there, or not yet: to callers that is the same. */
    int code = c->o->unix_path && failure == ENOENT ? -ECONNREFUSED : -failure;
    return c->o->unix_path
               ? error_set(err, code, "could not connect to \"%s\": %m", c->o->unix_path)
               : error_set(err, -failure, "could not connect to %s:%s: %m", c->url.host,
                           c->url.port);
}

static int refuse_address(const struct client_conn *c, const struct addrinfo *a, const char *why,
                          struct error *err)
{
    char text[NI_MAXHOST];

    if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(text, sizeof(text), "it");
    return error_set(err, -EACCES, "refused to connect to %s: %.100s is %s", c->url.host, text,
                     why);
}

/* Whether addresses of the URL's host are to be checked. */
static bool is_checked(const struct client_conn *c)
{
    struct url allowed;

    return c->o->deny_private && !(c->o->allowed && url_parse(c->o->allowed, &allowed, NULL) == 0 &&
                                   url_same_origin(&allowed, &c->url));
}

/* The name is looked up here and nowhere else: what was checked is what is connected to. */
static int connect_any(struct client_conn *c, struct error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all;
    int code = getaddrinfo(c->url.host, c->url.port, &hints, &all);
    if (code != 0)
        return error_set(err, -EHOSTUNREACH, "could not find host \"%s\": %s", c->url.host,
                         gai_strerror(code));
    int r = -EHOSTUNREACH, n = 0;
    for (const struct addrinfo *a = all; a && r < 0 && n < ADDRESSES_MAX; a = a->ai_next, n++) {
        const char *why = is_checked(c) ? ssrf_objection(a->ai_addr) : NULL;
        if (why && r != -EHOSTUNREACH)
            continue; /* one that was tried is told of rather */
        r = why ? refuse_address(c, a, why, err) : connect_one(c, a->ai_addr, a->ai_addrlen, err);
        if (r == -ECANCELED || r == -ETIMEDOUT)
            break;
    }
    freeaddrinfo(all);
    return r;
}

static int connect_unix(struct client_conn *c, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(c->o->unix_path) >= sizeof(address.sun_path))
        return error_set(err, -EINVAL, "\"%s\" is too long for a socket's path", c->o->unix_path);
    memcpy(address.sun_path, c->o->unix_path, strlen(c->o->unix_path) + 1);
    return connect_one(c, (const struct sockaddr *)&address, sizeof(address), err);
}

static int tls_error(struct client_conn *c, struct error *err)
{
    long verify = c->tls ? c->lib->SSL_get_verify_result(c->tls) : X509_V_OK;
    unsigned long code = c->lib->ERR_get_error();
    const char *why = verify != X509_V_OK ? c->lib->X509_verify_cert_error_string(verify)
                      : code              ? c->lib->ERR_reason_error_string(code)
                                          : "the connection was closed";
    /* What is left there would be taken for the reason of a later failure on this thread. */
    while (c->lib->ERR_get_error() != 0)
        ;
    bool is_closed = verify == X509_V_OK &&
                     (code == 0 || ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
    return error_set(err, is_closed ? -ECONNRESET : -EPROTO, "TLS with %s:%s failed: %s%s",
                     c->url.host, c->url.port, why ? why : "unknown reason",
                     code && ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER
                         ? " (does it speak plain http://?)"
                         : "");
}

/* After a TLS call that could not finish: waits for what it wants. 1 = at the end, 0 = try again.
 */
static int tls_wait(struct client_conn *c, int result, struct error *err)
{
    switch (c->lib->SSL_get_error(c->tls, result)) {
    case SSL_ERROR_WANT_READ:
        return conn_wait(c, POLLIN, NULL, err);
    case SSL_ERROR_WANT_WRITE:
        return conn_wait(c, POLLOUT, NULL, err);
    case SSL_ERROR_ZERO_RETURN:
        return 1;
    default:
        return tls_error(c, err);
    }
}

/* Whom we trust, and who we are. */
static int make_context(struct client_conn *c, struct error *err)
{
    const struct tls_lib *lib = c->lib;
    const char *cert = c->with_certificate ? c->o->cert_file : NULL;
    const char *key = c->o->key_file ? c->o->key_file : cert;

    c->context = lib->SSL_CTX_new(lib->TLS_client_method());
    if (!c->context)
        return tls_error(c, err);
    lib->SSL_CTX_set_verify(c->context,
                            c->o->skips_verification ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    lib->SSL_CTX_ctrl(c->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    if (c->o->ca_file ? !lib->SSL_CTX_load_verify_locations(c->context, c->o->ca_file, NULL)
                      : !lib->SSL_CTX_set_default_verify_paths(c->context)) {
        (void)tls_error(c, err);
        return error_set(err, -EINVAL, "could not read the trusted certificates in \"%s\"",
                         c->o->ca_file ? c->o->ca_file : "the system's folder");
    }
    if (cert && (lib->SSL_CTX_use_certificate_chain_file(c->context, cert) != 1 ||
                 lib->SSL_CTX_use_PrivateKey_file(c->context, key, SSL_FILETYPE_PEM) != 1)) {
        (void)tls_error(c, err);
        return error_set(err, -EINVAL,
                         "could not read the client's certificate \"%s\" with its key \"%s\"", cert,
                         key);
    }
    return 0;
}

static int check_alpn(struct client_conn *c, struct error *err)
{
    const uint8_t *chosen = NULL;
    unsigned len = 0;

    if (!c->wants_http2)
        return 0;
    c->lib->SSL_get0_alpn_selected(c->tls, &chosen, &len);
    if (len == 2 && memcmp(chosen, "h2", 2) == 0)
        return 0;
    return error_set(err, -EPROTO, "%s:%s does not speak HTTP/2 over TLS", c->url.host,
                     c->url.port);
}

static int start_tls(struct client_conn *c, struct error *err)
{
    int r = tls_lib_get(&c->lib, err);
    if (r == 0)
        r = make_context(c, err);
    if (r < 0)
        return r;
    c->tls = c->lib->SSL_new(c->context);
    if (!c->tls || !c->lib->SSL_set_fd(c->tls, c->fd))
        return tls_error(c, err);
    X509_VERIFY_PARAM *param = c->lib->SSL_get0_param(c->tls);
    const char *host = c->o->server_name ? c->o->server_name : c->url.host;
    if (c->lib->X509_VERIFY_PARAM_set1_ip_asc(param, host) != 1) {
        /* The header's macro casts the constness away as well. */
        c->lib->SSL_ctrl(c->tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                         (void *)(uintptr_t)host);
        if (!c->lib->SSL_set1_host(c->tls, host))
            return tls_error(c, err);
    }
    static const uint8_t http2[] = {2, 'h', '2'};
    if (c->wants_http2 && c->lib->SSL_set_alpn_protos(c->tls, http2, sizeof(http2)) != 0)
        return tls_error(c, err);
    for (;;) {
        int n = c->lib->SSL_connect(c->tls);
        if (n == 1)
            return check_alpn(c, err);
        r = tls_wait(c, n, err);
        if (r != 0)
            return r < 0 ? r : tls_error(c, err);
    }
}

int client_conn_open(struct client_conn *c, const struct url *u, bool with_certificate,
                     struct error *err)
{
    c->url = *u;
    c->with_certificate = with_certificate;
    c->was_used = false;
    c->moved = client_now_s();
    c->connect_until = c->moved + (c->o->connect_s > 0 ? c->o->connect_s : CONNECT_DEFAULT_S);
    int r = c->o->unix_path ? connect_unix(c, err) : connect_any(c, err);
    if (r == 0 && u->is_tls)
        r = start_tls(c, err);
    c->connect_until = 0;
    c->moved = client_now_s();
    if (r < 0)
        client_conn_close(c);
    return r;
}

void client_conn_close(struct client_conn *c)
{
    if (c->lib) {
        c->lib->SSL_free(c->tls);
        c->lib->SSL_CTX_free(c->context);
    }
    c->lib = NULL;
    c->tls = NULL;
    c->context = NULL;
    if (c->fd >= 0)
        close(TAKE_FD(c->fd));
}

/* Whether something to read (content or the end) has come; TLS's own messages do not count. */
static bool has_come(struct client_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    uint8_t byte;

    if (poll(&p, 1, 0) <= 0)
        return c->tls && c->lib->SSL_pending(c->tls) > 0;
    if (!c->tls)
        return true;
    int n = c->lib->SSL_peek(c->tls, &byte, 1);
    return n > 0 || c->lib->SSL_get_error(c->tls, n) != SSL_ERROR_WANT_READ;
}

bool client_conn_is_fresh(struct client_conn *c)
{
    return c->fd >= 0 && !has_come(c);
}

/* How many bytes went; 0: none could, and has been waited for. */
static ssize_t send_some(struct client_conn *c, struct bytes data, struct error *err)
{
    ssize_t n;
    int r;

    if (c->tls) {
        n = c->lib->SSL_write(c->tls, data.data, data.len < INT_MAX ? (int)data.len : INT_MAX);
        if (n > 0)
            return n;
        r = tls_wait(c, (int)n, err);
        return r == 1 ? error_set(err, -EPIPE, "%s closed the connection", c->url.host) : r;
    }
    n = send(c->fd, data.data, data.len, MSG_NOSIGNAL);
    if (n >= 0)
        return n;
    if (errno == EINTR)
        return 0;
    if (errno != EAGAIN)
        return error_set(err, -errno, "could not send to %s: %m", c->url.host);
    return conn_wait(c, POLLOUT | POLLIN, NULL, err);
}

int client_conn_send(struct client_conn *c, struct bytes data, struct error *err)
{
    while (data.len > 0) {
        if (has_come(c))
            return 1;
        ssize_t n = send_some(c, bytes_head(data, (size_t)256 << 10), err);
        if (n < 0)
            return (int)n;
        if (n > 0) {
            c->moved = client_now_s();
            data = bytes_from(data, (size_t)n);
        }
    }
    return 0;
}

ssize_t client_conn_receive(struct client_conn *c, uint8_t *to, size_t size, struct error *err)
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
                r = errno == EAGAIN || errno == EINTR
                        ? conn_wait(c, POLLIN, NULL, err)
                        : error_set(err, -errno, "could not read from %s: %m", c->url.host);
        }
        if (r < 0)
            return r;
        if (n > 0) {
            c->progress.received += (uint64_t)n;
            c->moved = client_now_s();
            r = check_time(c, false, err); /* whoever is never waited for has to end, too */
            return r < 0 ? r : n;
        }
    }
}

/* What a TLS call that could not finish waits for; 1 at the end of what the other side says. */
static int tls_wants(struct client_conn *c, int result, short *wants, struct error *err)
{
    switch (c->lib->SSL_get_error(c->tls, result)) {
    case SSL_ERROR_WANT_READ:
        *wants |= POLLIN;
        return 0;
    case SSL_ERROR_WANT_WRITE:
        *wants |= POLLOUT;
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        return 1;
    default:
        return tls_error(c, err);
    }
}

/* Neither waits. 0 and how many bytes went or came; 1 at the end of what the other side says. */
static int receive_now(struct client_conn *c, uint8_t *to, size_t size, size_t *ret, short *wants,
                       struct error *err)
{
    ssize_t n = c->tls ? c->lib->SSL_read(c->tls, to, size < INT_MAX ? (int)size : INT_MAX)
                       : recv(c->fd, to, size, 0);

    if (n > 0) {
        *ret = (size_t)n;
        return 0;
    }
    if (c->tls)
        return tls_wants(c, (int)n, wants, err);
    if (n == 0)
        return 1;
    if (errno != EAGAIN && errno != EINTR)
        return error_set(err, -errno, "could not read from %s: %m", c->url.host);
    *wants |= POLLIN;
    return 0;
}

static int send_now(struct client_conn *c, struct bytes data, size_t *ret, short *wants,
                    struct error *err)
{
    if (data.len == 0)
        return 0;
    ssize_t n =
        c->tls ? c->lib->SSL_write(c->tls, data.data, data.len < INT_MAX ? (int)data.len : INT_MAX)
               : send(c->fd, data.data, data.len, MSG_NOSIGNAL);
    if (n > 0) {
        *ret = (size_t)n;
        return 0;
    }
    if (c->tls)
        return tls_wants(c, (int)n, wants, err);
    if (errno != EAGAIN && errno != EINTR)
        return error_set(err, -errno, "could not send to %s: %m", c->url.host);
    *wants |= POLLOUT;
    return 0;
}

int client_conn_move(struct client_conn *c, struct bytes out, uint8_t *to, size_t size,
                     struct client_moved *ret, struct error *err)
{
    struct client_moved moved = {0};

    for (;;) {
        short wants = 0;
        /* What came is read first: it may tell why no more can be sent. */
        int ended = receive_now(c, to, size, &moved.received, &wants, err);
        if (ended < 0)
            return ended;
        int r = moved.received > 0 ? 0 : send_now(c, out, &moved.sent, &wants, err);
        if (r < 0)
            return r;
        if (moved.sent > 0 || moved.received > 0)
            break;
        if (ended || r == 1)
            return error_set(err, -ECONNRESET, "%s closed the connection", c->url.host);
        r = conn_wait(c, wants, NULL, err);
        if (r < 0)
            return r;
    }
    c->progress.received += moved.received;
    c->moved = client_now_s();
    int r = check_time(c, false, err);
    if (r == 0)
        *ret = moved;
    return r;
}
