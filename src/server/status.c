#include "server/status.h"

#include <errno.h>

#include "base/cleanup.h"
#include "net/grpc.h"
#include "wire/json.h"

#define RETRY_MS 1000

static const struct {
    int error;
    struct status status;
} table[] = {
    {EINVAL, {400, GRPC_INVALID_ARGUMENT, "bad_parameter", false}},
    {EBADMSG, {400, GRPC_INVALID_ARGUMENT, "malformed", false}},
    {EPROTO, {400, GRPC_INVALID_ARGUMENT, "malformed", false}},
    {EACCES, {401, GRPC_UNAUTHENTICATED, "unauthenticated", false}},
    {EPERM, {403, GRPC_PERMISSION_DENIED, "forbidden", false}},
    {ENOENT, {404, GRPC_NOT_FOUND, "not_found", false}},
    {ENODATA, {404, GRPC_NOT_FOUND, "no_data", false}},
    {EBADRQC, {405, GRPC_UNIMPLEMENTED, "method", false}},
    {ETIME, {408, GRPC_DEADLINE_EXCEEDED, "too_slow", false}},
    {EEXIST, {409, GRPC_ALREADY_EXISTS, "exists", false}},
    {ENOBUFS, {413, GRPC_RESOURCE_EXHAUSTED, "too_large", false}},
    {E2BIG, {413, GRPC_RESOURCE_EXHAUSTED, "too_large", false}},
    {EFBIG, {413, GRPC_RESOURCE_EXHAUSTED, "too_large", false}},
    {EMEDIUMTYPE, {415, GRPC_INVALID_ARGUMENT, "media_type", false}},
    {EAGAIN, {429, GRPC_RESOURCE_EXHAUSTED, "overload", true}},
    {EBUSY, {429, GRPC_RESOURCE_EXHAUSTED, "overload", true}},
    {ECANCELED, {499, GRPC_CANCELLED, "cancelled", false}},
    {ENOSYS, {501, GRPC_UNIMPLEMENTED, "unimplemented", false}},
    {ESHUTDOWN, {503, GRPC_UNAVAILABLE, "draining", true}},
    {ENOSPC, {503, GRPC_UNAVAILABLE, "disk_full", true}},
    {EROFS, {503, GRPC_UNAVAILABLE, "read_only", true}},
    {ETIMEDOUT, {504, GRPC_DEADLINE_EXCEEDED, "timeout", false}},
    /* What we do not have: a coding, a type, a call. */
    {EOPNOTSUPP, {501, GRPC_UNIMPLEMENTED, "unimplemented", false}},
};

struct status status_of(int r)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (table[i].error == -r)
            return table[i].status;
    return (struct status){500, GRPC_INTERNAL, "internal", false};
}

static void plain_error(const struct status *st, const struct error *err, struct http_reply *reply)
{
    struct json_writer w = {.out = &reply->body};

    http_reply_header(reply, "content-type", BYTES("application/json"));
    json_begin_object(&w);
    json_key(&w, "error");
    json_cstring(&w, err->text);
    json_key(&w, "code");
    json_cstring(&w, st->reason);
    json_end_object(&w);
    buf_add_byte(&reply->body, '\n');
}

static void otlp_error(struct call *c, const struct rpc_status *e)
{
    http_reply_header(&c->reply, "content-type",
                      c->is_json ? BYTES("application/json") : BYTES("application/x-protobuf"));
    if (c->is_json)
        rpc_status_json(e, &c->reply.body);
    else
        rpc_status_proto(e, &c->reply.body);
}

/* Begins anew, but for headers that say what would be right (allow, www-authenticate). */
static void drop_content(struct http_reply *reply)
{
    buf_done(&reply->body);
    buf_done(&reply->trailers);
    reply->body = reply->trailers = (struct buf){0};
    struct buf old = reply->head;
    struct bytes rest = buf_bytes(&old);
    reply->head = (struct buf){0};
    for (struct http_header h; http_reply_next(&rest, &h);) {
        if (bytes_are(h.name, "allow"))
            http_reply_header(reply, "allow", h.value);
        else if (bytes_are(h.name, "www-authenticate"))
            http_reply_header(reply, "www-authenticate", h.value);
    }
    buf_done(&old);
}

void status_reply(struct call *c, int r, const struct error *err)
{
    CLEANUP(buf_done) struct buf details = {0};
    struct status st = status_of(r);
    struct rpc_status e = {(enum grpc_code)st.grpc, bytes_of(err->text), {0}};
    enum dialect dialect = c->route ? c->route->dialect : DIALECT_PLAIN;
    int64_t delay = c->retry_after_ms > 0 ? c->retry_after_ms : RETRY_MS;

    drop_content(&c->reply);
    c->reply.status = st.http;
    if (st.is_retryable) {
        http_reply_headerf(&c->reply, "retry-after", "%lld", (long long)(delay + 999) / 1000);
        rpc_detail_retry(&details, delay * 1000000);
    }
    e.details = buf_bytes(&details);
    if (dialect == DIALECT_RPC && call_is_grpc(c))
        grpc_reply_error(&c->reply, c->protocol, &e);
    else if (dialect == DIALECT_RPC)
        connect_reply_error(&c->reply, &e);
    else if (dialect == DIALECT_OTLP)
        otlp_error(c, &e);
    else
        plain_error(&st, err, &c->reply);
}
