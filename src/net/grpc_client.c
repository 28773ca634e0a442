#include "net/grpc_client.h"

#include <errno.h>
#include <stdlib.h>

#include "base/must.h"
#include "net/client_conn.h"
#include "net/grpc_client_session.h"

#define CHUNK           ((size_t)16 << 10)
#define NS_PER_S        ((int64_t)1000 * 1000 * 1000)
#define DEFAULT_TIMEOUT (60 * NS_PER_S)
#define CONNECT_S       10

struct grpc_client {
    struct http_client_options o; /* what the connection looks at */
    struct client_conn conn;
    struct url url;
    struct buf authority;
    struct grpc_session *session; /* NULL: not connected */
    struct buf out;               /* of which the first out_at bytes are sent */
    size_t out_at;
    uint8_t chunk[CHUNK];
};

int grpc_client_new(const struct grpc_client_options *o, struct grpc_client **ret,
                    struct error *err)
{
    struct grpc_client *c = must_calloc(1, sizeof(*c));
    int r = url_parse(o->url, &c->url, err);

    if (r < 0) {
        free(c);
        return r;
    }
    c->o = (struct http_client_options){.ca_file = o->ca_file,
                                        .cert_file = o->cert_file,
                                        .key_file = o->key_file,
                                        .cancelled = o->cancelled};
    c->conn = (struct client_conn){.fd = -1, .o = &c->o, .wants_http2 = true};
    url_add_authority(&c->url, &c->authority);
    *ret = c;
    return 0;
}

static void disconnect(struct grpc_client *c)
{
    grpc_session_free(c->session);
    c->session = NULL;
    client_conn_close(&c->conn);
    buf_clear(&c->out);
    c->out_at = 0;
}

void grpc_client_free(struct grpc_client *c)
{
    if (!c)
        return;
    disconnect(c);
    buf_done(&c->out);
    buf_done(&c->authority);
    free(c);
}

static int broken(struct grpc_client *c, struct error *err)
{
    int code = -EPROTO;
    const char *why = grpc_session_failure(c->session, &code);

    return error_set(err, code, "%s:%s: %s", c->url.host, c->url.port, why ? why : "it broke off");
}

/* One round of sending and receiving. */
static int move(struct grpc_client *c, struct error *err)
{
    struct client_moved moved = {0};

    if (c->out_at == c->out.len) {
        buf_clear(&c->out);
        c->out_at = 0;
        grpc_session_output(c->session, &c->out);
        int code;
        if (c->out.len == 0 && grpc_session_failure(c->session, &code))
            return broken(c, err);
    }
    int r = client_conn_move(&c->conn, bytes_from(buf_bytes(&c->out), c->out_at), c->chunk, CHUNK,
                             &moved, err);
    c->out_at += moved.sent;
    if (r < 0)
        return r;
    if (moved.received > 0 &&
        !grpc_session_feed(c->session, (struct bytes){c->chunk, moved.received}) &&
        !grpc_session_is_answered(c->session))
        return broken(c, err);
    return 0;
}

/* Reads what the server said since the last call; false when the connection is of no more use. */
static bool is_usable(struct grpc_client *c)
{
    while (c->session && !client_conn_is_fresh(&c->conn))
        if (!grpc_session_can_go_on(c->session) || move(c, NULL) < 0)
            return false;
    return c->session && grpc_session_can_go_on(c->session);
}

static int connect_anew(struct grpc_client *c, struct error *err)
{
    disconnect(c);
    int r = client_conn_open(&c->conn, &c->url, true, err);
    if (r == 0)
        c->session = grpc_session_new();
    return r;
}

static int exchange(struct grpc_client *c, const struct grpc_request *r, struct grpc_answer *ret,
                    struct error *err)
{
    int result = grpc_session_begin(c->session, r, buf_cstr(&c->authority), c->url.is_tls);

    if (result < 0)
        return error_set(err, result, "could not send to %s:%s", c->url.host, c->url.port);
    while (result == 0 && !grpc_session_is_answered(c->session))
        result = move(c, err);
    if (grpc_session_is_answered(c->session)) {
        result = grpc_session_answer(c->session, ret, err);
        if (result < 0)
            error_prefix(err, result, "%s:%s", c->url.host, c->url.port);
    }
    return result;
}

static bool is_of_connection(int r)
{
    return r == -EPIPE || r == -ECONNRESET || r == -EPROTO;
}

int grpc_call(struct grpc_client *c, const struct grpc_request *r, struct grpc_answer *ret,
              struct error *err)
{
    int64_t timeout = r->timeout_ns > 0 ? r->timeout_ns : DEFAULT_TIMEOUT;

    c->o.total_s = c->o.silence_s = (int)((timeout + NS_PER_S - 1) / NS_PER_S);
    c->o.connect_s = c->o.total_s < CONNECT_S ? c->o.total_s : CONNECT_S;
    c->conn.started = c->conn.moved = client_now_s();
    bool is_kept = is_usable(c);
    int result = is_kept ? 0 : connect_anew(c, err);
    if (result == 0)
        result = exchange(c, r, ret, err);
    /* A kept connection may turn out to be dead, or be on its way out. */
    if (is_kept && is_of_connection(result) && grpc_session_is_untouched(c->session)) {
        result = connect_anew(c, err);
        if (result == 0)
            result = exchange(c, r, ret, err);
    }
    if (result < 0)
        disconnect(c);
    return result;
}

void grpc_answer_done(struct grpc_answer *a)
{
    buf_done(&a->body);
}

bool grpc_should_retry(const struct grpc_answer *a)
{
    switch (a->code) {
    case GRPC_CANCELLED:
    case GRPC_DEADLINE_EXCEEDED:
    case GRPC_ABORTED:
    case GRPC_OUT_OF_RANGE:
    case GRPC_UNAVAILABLE:
    case GRPC_DATA_LOSS:
        return true;
    case GRPC_RESOURCE_EXHAUSTED:
        return a->retry_ms >= 0;
    default:
        return false;
    }
}
