/*
 * Sends set R to a server: each profile a request of its own, over connections that are kept, one
 * request at a time on each.
 *
 *     load_client PORT DATA MODE [CONNECTIONS] [RATE] [PROFILES]
 *
 * MODE is pprof (HTTP/1.1, POST /v1/pprof) or grpc (OTLP over HTTP/2, packed). With a RATE (per
 * second) requests start on time and their latency counts from then; with 0 each connection sends
 * as soon as it was answered. Prints one line: seconds, answered, refused, p50 and p99 in ms.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "formats/formats.h"
#include "store_data.h"
#include "wire/inflate.h"

#define CONNECTIONS_MAX 8192
#define RPC_PATH        "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"

struct body {
    uint8_t *data;
    size_t len;
};

struct connection {
    int fd;
    size_t profile; /* being sent or waited for */
    bool is_busy;
    double start;
    struct buf out; /* what is still to be written */
    size_t written;
    struct buf in;
    /* HTTP/2 */
    uint32_t stream;
    int64_t window, stream_window, stream_start;
    struct body body; /* with its prefix */
    size_t sent;
    int grpc_status;
};

struct load {
    const struct data_r *r;
    struct body *bodies; /* of grpc */
    bool is_grpc;
    uint16_t port;
    struct connection *all;
    size_t n;
    size_t next, n_profiles, answered, refused;
    double rate, start;
    double *latencies;
};

static void die(const char *what)
{
    fprintf(stderr, "load_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- Bodies */

static void be32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24), p[1] = (uint8_t)(v >> 16), p[2] = (uint8_t)(v >> 8),
    p[3] = (uint8_t)v;
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void add_resource(struct profile *p, uint32_t pod)
{
    struct dict *d = p->dict;
    char name[32];
    snprintf(name, sizeof(name), "pod-%u", pod);
    uint32_t ids[] = {
        dict_string_attribute(d, dict_cstring(d, "service.name"), dict_cstring(d, "shop")),
        dict_string_attribute(d, dict_cstring(d, "k8s.pod.name"), dict_cstring(d, name))};
    p->resource_attrs = dict_attrs(d, ids, 2);
}

/* A profile as a collector sends it: OTLP, gzip, behind a gRPC prefix. */
static struct body make_message(const struct data_r_profile *from)
{
    struct budget budget;
    struct buf plain = {0}, losses = {0}, packed = {0};
    struct error err;

    budget_init(&budget, (size_t)1 << 30);
    struct profile_set *set = profile_set_new(&budget);
    struct input *in = input_from_bytes(from->packed, "set R", &budget);
    if (format_read(in, &format_pprof, set, NULL, &err) < 0)
        die(err.text);
    add_resource(set->profiles.data[0], from->pod);
    if (format_otlp.encode(set, &plain, &losses, &err) < 0)
        die(err.text);
    buf_add(&packed, "\1\0\0\0\0", 5);
    gzip_pack(buf_bytes(&plain), 6, &packed);
    be32(packed.data + 1, (uint32_t)(packed.len - 5));
    input_close(in);
    profile_set_free(set);
    buf_done(&plain);
    buf_done(&losses);
    return (struct body){packed.data, packed.len};
}

/* ---- HTTP/2, as little of it as a client can do with */

static void add_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream,
                      struct bytes payload)
{
    uint8_t h[9] = {(uint8_t)(payload.len >> 16), (uint8_t)(payload.len >> 8), (uint8_t)payload.len,
                    type, flags};
    be32(h + 5, stream);
    buf_add(out, h, sizeof(h));
    buf_add_bytes(out, payload);
}

static void add_field(struct buf *out, const char *name, const char *value)
{
    buf_add_byte(out, 0);
    buf_add_byte(out, (uint8_t)strlen(name));
    buf_add_str(out, name);
    buf_add_byte(out, (uint8_t)strlen(value));
    buf_add_str(out, value);
}

static void begin_http2(struct connection *c)
{
    buf_add_str(&c->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    add_frame(&c->out, 4, 0, 0, (struct bytes){0});
    c->stream = (uint32_t)-1;
    c->window = c->stream_start = 65535;
}

/* As much of the body as both windows let through. */
static void add_data(struct connection *c)
{
    while (c->sent < c->body.len) {
        int64_t room = c->window < c->stream_window ? c->window : c->stream_window;
        size_t n = c->body.len - c->sent;
        if (room <= 0)
            return;
        n = n < 16384 ? n : 16384;
        n = (int64_t)n < room ? n : (size_t)room;
        bool is_last = c->sent + n == c->body.len;
        add_frame(&c->out, 0, is_last, c->stream, (struct bytes){c->body.data + c->sent, n});
        c->sent += n;
        c->window -= (int64_t)n;
        c->stream_window -= (int64_t)n;
    }
}

static void begin_call(struct load *l, struct connection *c)
{
    struct buf fields = {0};

    c->stream += 2;
    buf_add(&fields, "\x83\x86", 2);
    add_field(&fields, ":path", RPC_PATH);
    add_field(&fields, ":authority", "127.0.0.1");
    add_field(&fields, "content-type", "application/grpc");
    add_field(&fields, "grpc-encoding", "gzip");
    add_field(&fields, "te", "trailers");
    add_frame(&c->out, 1, 4, c->stream, buf_bytes(&fields));
    buf_done(&fields);
    c->stream_window = c->stream_start;
    c->body = l->bodies[c->profile];
    c->sent = 0;
    c->grpc_status = -1;
    add_data(c);
}

/* Reads settings that matter. */
static void on_settings(struct connection *c, struct bytes p)
{
    for (; p.len >= 6; p = bytes_from(p, 6)) {
        if (p.data[0] == 0 && p.data[1] == 4) {
            int64_t size = get32(p.data + 2);
            c->stream_window += size - c->stream_start;
            c->stream_start = size;
        }
    }
}

/* One frame; true when the call is answered. */
static bool on_frame(struct connection *c, uint8_t type, uint8_t flags, uint32_t stream,
                     struct bytes p)
{
    if (type == 4 && !(flags & 1)) {
        on_settings(c, p);
        add_frame(&c->out, 4, 1, 0, (struct bytes){0});
    } else if (type == 8 && p.len == 4) {
        int64_t more = get32(p.data) & 0x7fffffff;
        *(stream == 0 ? &c->window : &c->stream_window) += more;
    } else if (type == 6 && !(flags & 1)) {
        add_frame(&c->out, 6, 1, 0, p);
    } else if (type == 7 || type == 3) {
        fprintf(stderr, "load_client: the server ended the %s\n",
                type == 7 ? "connection" : "call");
        exit(1);
    }
    add_data(c);
    return (type == 1 || type == 0) && flags & 1 && stream == c->stream;
}

/* The status is literal or in the peer's tables; a frame that holds "0" after the name is enough to
 * tell success where nothing was refused. */
static bool read_http2(struct load *l, struct connection *c)
{
    size_t at = 0;
    bool is_done = false;

    while (c->in.len - at >= 9) {
        const uint8_t *h = c->in.data + at;
        size_t len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
        if (c->in.len - at - 9 < len)
            break;
        is_done |= on_frame(c, h[3], h[4], get32(h + 5) & 0x7fffffff, (struct bytes){h + 9, len});
        at += 9 + len;
    }
    memmove(c->in.data, c->in.data + at, c->in.len - at);
    c->in.len -= at;
    if (is_done)
        l->answered++;
    return is_done;
}

/* ---- HTTP/1.1 */

static void begin_post(struct load *l, struct connection *c)
{
    const struct data_r_profile *p = &l->r->profiles[c->profile];

    buf_addf(&c->out,
             "POST /v1/pprof?service.name=shop&k8s.pod.name=pod-%u HTTP/1.1\r\nhost: 127.0.0.1\r\n"
             "content-type: application/octet-stream\r\ncontent-length: %zu\r\n\r\n",
             p->pod, p->packed.len);
    buf_add_bytes(&c->out, p->packed);
}

static bool read_http1(struct load *l, struct connection *c)
{
    const char *text = buf_cstr(&c->in);
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = end ? strcasestr(text, "content-length:") : NULL;

    if (!end)
        return false;
    size_t body = length && length < end ? (size_t)strtoul(length + 15, NULL, 10) : 0;
    if (c->in.len < (size_t)(end - text) + 4 + body)
        return false;
    if (strncmp(text, "HTTP/1.1 2", 10) == 0)
        l->answered++;
    else
        l->refused++;
    buf_clear(&c->in);
    return true;
}

/* ---- Connections */

static void connect_to(struct load *l, struct connection *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(l->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (l->is_grpc)
        begin_http2(c);
}

static void flush_out(struct connection *c)
{
    while (c->written < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->written, c->out.len - c->written,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            die("send");
        c->written += (size_t)n;
    }
    buf_clear(&c->out);
    c->written = 0;
}

/* Begins the next request, if it is time. */
static void begin(struct load *l, struct connection *c)
{
    double due = l->rate > 0 ? l->start + (double)l->next / l->rate : now();

    if (c->is_busy || l->next >= l->n_profiles || due > now())
        return;
    c->profile = l->next++;
    c->is_busy = true;
    c->start = due;
    if (l->is_grpc)
        begin_call(l, c);
    else
        begin_post(l, c);
    flush_out(c);
}

static void read_some(struct load *l, struct connection *c)
{
    uint8_t *to = buf_reserve(&c->in, 65536);
    ssize_t n = recv(c->fd, to, 65536, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        die("the server closed a connection");
    c->in.len += (size_t)n;
    bool is_done = l->is_grpc ? read_http2(l, c) : read_http1(l, c);
    flush_out(c);
    if (!is_done)
        return;
    l->latencies[c->profile] = now() - c->start;
    c->is_busy = false;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void run(struct load *l)
{
    struct pollfd *polls = calloc(l->n, sizeof(*polls));

    l->start = now();
    while (l->answered + l->refused < l->n_profiles) {
        for (size_t i = 0; i < l->n; i++) {
            begin(l, &l->all[i]);
            polls[i] = (struct pollfd){l->all[i].fd,
                                       (short)(POLLIN | (l->all[i].out.len > 0 ? POLLOUT : 0)), 0};
        }
        if (poll(polls, l->n, l->rate > 0 ? 1 : 100) < 0)
            die("poll");
        for (size_t i = 0; i < l->n; i++) {
            if (polls[i].revents & POLLOUT)
                flush_out(&l->all[i]);
            if (polls[i].revents & (POLLIN | POLLHUP | POLLERR))
                read_some(l, &l->all[i]);
        }
    }
    double took = now() - l->start;
    qsort(l->latencies, l->n_profiles, sizeof(double), compare);
    printf("%.3f s, %zu answered, %zu refused, p50 %.2f ms, p99 %.2f ms\n", took, l->answered,
           l->refused, l->latencies[l->n_profiles / 2] * 1e3,
           l->latencies[l->n_profiles * 99 / 100] * 1e3);
    free(polls);
}

int main(int argc, char **argv)
{
    struct load l = {.n = 16};
    struct data_r *r;
    struct error err;

    if (argc < 4) {
        fputs("usage: load_client PORT DATA pprof|grpc [CONNECTIONS] [RATE] [PROFILES]\n", stderr);
        return 2;
    }
    if (data_r_open(argv[2], DATA_R_PODS, DATA_R_WINDOWS, &r, &err) < 0)
        die(err.text);
    l.r = r;
    l.port = (uint16_t)atoi(argv[1]);
    l.is_grpc = strcmp(argv[3], "grpc") == 0;
    if (argc > 4)
        l.n = (size_t)atoi(argv[4]);
    if (argc > 5)
        l.rate = atof(argv[5]);
    l.n_profiles = argc > 6 ? (size_t)atoi(argv[6]) : r->n;
    if (l.n == 0 || l.n > CONNECTIONS_MAX || l.n_profiles == 0 || l.n_profiles > r->n)
        die("bad numbers");
    l.latencies = calloc(l.n_profiles, sizeof(double));
    l.all = calloc(l.n, sizeof(*l.all));
    l.bodies = calloc(l.n_profiles, sizeof(*l.bodies));
    for (size_t i = 0; l.is_grpc && i < l.n_profiles; i++)
        l.bodies[i] = make_message(&r->profiles[i]);
    for (size_t i = 0; i < l.n; i++)
        connect_to(&l, &l.all[i]);
    run(&l);
    return l.refused > 0;
}
