#include "net/grpc.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/base64.h"
#include "wire/json.h"
#include "wire/protobuf.h"

static const struct {
    const char *connect_name;
    int connect_status;
} codes[GRPC_CODE_COUNT] = {
    [GRPC_OK] = {"ok", 200},
    [GRPC_CANCELLED] = {"canceled", 499},
    [GRPC_UNKNOWN] = {"unknown", 500},
    [GRPC_INVALID_ARGUMENT] = {"invalid_argument", 400},
    [GRPC_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
    [GRPC_NOT_FOUND] = {"not_found", 404},
    [GRPC_ALREADY_EXISTS] = {"already_exists", 409},
    [GRPC_PERMISSION_DENIED] = {"permission_denied", 403},
    [GRPC_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
    [GRPC_FAILED_PRECONDITION] = {"failed_precondition", 400},
    [GRPC_ABORTED] = {"aborted", 409},
    [GRPC_OUT_OF_RANGE] = {"out_of_range", 400},
    [GRPC_UNIMPLEMENTED] = {"unimplemented", 501},
    [GRPC_INTERNAL] = {"internal", 500},
    [GRPC_UNAVAILABLE] = {"unavailable", 503},
    [GRPC_DATA_LOSS] = {"data_loss", 500},
    [GRPC_UNAUTHENTICATED] = {"unauthenticated", 401},
};

static enum grpc_code known(enum grpc_code code)
{
    return (unsigned)code < GRPC_CODE_COUNT ? code : GRPC_UNKNOWN;
}

const char *connect_code_name(enum grpc_code code)
{
    return codes[known(code)].connect_name;
}

int connect_http_status(enum grpc_code code)
{
    return codes[known(code)].connect_status;
}

enum rpc_protocol rpc_protocol_of(struct bytes content_type)
{
    static const struct {
        const char *type;
        enum rpc_protocol protocol;
    } types[] = {
        {"application/grpc", RPC_GRPC},           {"application/grpc+proto", RPC_GRPC},
        {"application/grpc-web", RPC_GRPC_WEB},   {"application/grpc-web+proto", RPC_GRPC_WEB},
        {"application/proto", RPC_CONNECT_PROTO}, {"application/json", RPC_CONNECT_JSON},
    };
    struct bytes type = http_media_type(content_type);

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (type.len == strlen(types[i].type) &&
            strncasecmp((const char *)type.data, types[i].type, type.len) == 0)
            return types[i].protocol;
    }
    return RPC_NONE;
}

static const char *const encodings[] = {
    [GRPC_IDENTITY] = "identity",
    [GRPC_GZIP] = "gzip",
    [GRPC_ZSTD] = "zstd",
};

static int read_encoding(struct bytes name, enum grpc_encoding *ret, struct error *err)
{
    if (name.len == 0)
        return error_set(err, -EBADMSG,
                         "could not read gRPC message: it is marked as compressed, but there is no "
                         "grpc-encoding");
    for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
        if (bytes_are(name, encodings[i])) {
            *ret = (enum grpc_encoding)i;
            return 0;
        }
    }
    return error_set(err, -EOPNOTSUPP,
                     "could not read gRPC message: grpc-encoding \"%.*s\" is not supported (gzip, "
                     "zstd and identity are)",
                     (int)(name.len < 32 ? name.len : 32), (const char *)name.data);
}

int grpc_read_message(struct bytes body, struct bytes encoding, struct grpc_message *ret,
                      struct error *err)
{
    enum grpc_encoding packed = GRPC_IDENTITY;

    if (body.len < GRPC_PREFIX_LEN)
        return error_set(err, -EBADMSG,
                         "could not read gRPC message: the body has %zu bytes, and the prefix of a "
                         "message alone has 5",
                         body.len);
    const uint8_t *p = body.data;
    size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    size_t have = body.len - GRPC_PREFIX_LEN;

    if (p[0] > 1)
        return error_set(err, -EBADMSG,
                         "could not read gRPC message: its first byte is %u, neither 0 nor 1",
                         p[0]);
    if (len > have)
        return error_set(err, -EBADMSG,
                         "could not read gRPC message: %zu bytes are announced and %zu are here",
                         len, have);
    if (len < have)
        return error_set(err, -EBADMSG,
                         "could not read gRPC message: %zu bytes follow the first message, and a "
                         "unary call has only one",
                         have - len);
    int r = p[0] ? read_encoding(encoding, &packed, err) : 0;
    if (r < 0)
        return r;
    *ret = (struct grpc_message){bytes_from(body, GRPC_PREFIX_LEN), packed};
    return 0;
}

static void put_prefix(uint8_t to[GRPC_PREFIX_LEN], uint8_t flags, size_t len)
{
    to[0] = flags;
    for (unsigned i = 0; i < 4; i++)
        to[1 + i] = (uint8_t)(len >> (24 - 8 * i));
}

void grpc_frame(struct buf *body, bool is_packed)
{
    size_t len = body->len;

    if (!buf_reserve(body, GRPC_PREFIX_LEN))
        return;
    if (len > 0)
        memmove(body->data + GRPC_PREFIX_LEN, body->data, len);
    put_prefix(body->data, is_packed, len);
    body->len += GRPC_PREFIX_LEN;
}

/* Only digits, at most n_max of them. */
static bool read_digits(struct bytes text, size_t n_max, int64_t *ret)
{
    int64_t v = 0;

    if (text.len == 0 || text.len > n_max)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        v = v * 10 + (text.data[i] - '0');
    }
    *ret = v;
    return true;
}

static int64_t times(int64_t n, int64_t unit)
{
    int64_t v;

    return __builtin_mul_overflow(n, unit, &v) ? INT64_MAX : v;
}

bool grpc_timeout(struct bytes value, int64_t *ret_ns)
{
    static const struct {
        uint8_t letter;
        int64_t ns;
    } units[] = {
        {'H', INT64_C(3600000000000)},
        {'M', INT64_C(60000000000)},
        {'S', 1000000000},
        {'m', 1000000},
        {'u', 1000},
        {'n', 1},
    };
    int64_t n;

    if (value.len < 2 || !read_digits(bytes_head(value, value.len - 1), 8, &n))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (value.data[value.len - 1] == units[i].letter) {
            *ret_ns = times(n, units[i].ns);
            return true;
        }
    }
    return false;
}

bool connect_timeout(struct bytes value, int64_t *ret_ns)
{
    int64_t n;

    if (!read_digits(value, 10, &n))
        return false;
    *ret_ns = times(n, 1000000);
    return true;
}

void grpc_percent_encode(struct bytes text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c >= 0x20 && c <= 0x7e && c != '%')
            buf_add_byte(out, c);
        else
            buf_addf(out, "%%%02X", c);
    }
}

#define TYPE_PREFIX "type.googleapis.com/"
#define RETRY_INFO  "google.rpc.RetryInfo"

/* Status: code = 1, message = 2, details = 3. Any: type_url = 1, value = 2. */
static size_t begin_detail(struct buf *details, const char *type, size_t *ret_value)
{
    size_t any = pb_begin(details, 3);

    pb_put_bytes(details, 1, bytes_of(type));
    *ret_value = pb_begin(details, 2);
    return any;
}

static void end_detail(struct buf *details, size_t any, size_t value)
{
    pb_end(details, value);
    pb_end(details, any);
}

void rpc_detail_retry(struct buf *details, int64_t delay_ns)
{
    size_t value, any = begin_detail(details, TYPE_PREFIX RETRY_INFO, &value);
    int64_t ns = delay_ns > 0 ? delay_ns : 0;

    /* RetryInfo: retry_delay = 1, a Duration: seconds = 1, nanos = 2. */
    size_t duration = pb_begin(details, 1);
    pb_put_u64_opt(details, 1, (uint64_t)(ns / 1000000000));
    pb_put_u64_opt(details, 2, (uint64_t)(ns % 1000000000));
    pb_end(details, duration);
    end_detail(details, any, value);
}

/* Takes the next detail off; its type is without the prefix. */
static bool next_detail(struct pb_reader *details, struct bytes *ret_type, struct bytes *ret_value)
{
    while (pb_next(details)) {
        if (details->field != 3 || details->wire != PB_BYTES)
            continue;
        struct bytes type = {0}, value = {0};
        struct pb_reader any = pb_reader(details->data);
        while (pb_next(&any)) {
            if (any.field == 1)
                type = pb_bytes(&any);
            else if (any.field == 2)
                value = pb_bytes(&any);
        }
        if (bytes_start_with(type, BYTES(TYPE_PREFIX)))
            type = bytes_from(type, strlen(TYPE_PREFIX));
        *ret_type = type;
        *ret_value = value;
        return true;
    }
    return false;
}

void rpc_status_proto(const struct rpc_status *s, struct buf *out)
{
    pb_put_u64_opt(out, 1, known(s->code));
    pb_put_bytes_opt(out, 2, s->message);
    buf_add_bytes(out, s->details);
}

/* A Duration in JSON: "1.500s", with as many groups of three digits as it needs. */
static void write_duration(struct json_writer *w, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    int64_t seconds = 0;
    uint32_t nanos = 0;
    char text[48];

    while (pb_next(&r)) {
        if (r.field == 1)
            seconds = pb_i64(&r);
        else if (r.field == 2)
            nanos = (uint32_t)pb_u64(&r);
    }
    if (nanos == 0)
        snprintf(text, sizeof(text), "%" PRId64 "s", seconds);
    else if (nanos % 1000000 == 0)
        snprintf(text, sizeof(text), "%" PRId64 ".%03us", seconds, nanos / 1000000);
    else
        snprintf(text, sizeof(text), "%" PRId64 ".%09us", seconds, nanos);
    json_cstring(w, text);
}

/* The fields of a detail, whose object has been begun. Types that are not ours have none. */
static void write_detail_fields(struct json_writer *w, struct bytes type, struct bytes value)
{
    struct pb_reader r = pb_reader(value);

    while (bytes_are(type, RETRY_INFO) && pb_next(&r)) {
        json_key(w, "retryDelay");
        write_duration(w, pb_bytes(&r));
    }
}

void rpc_status_json(const struct rpc_status *s, struct buf *out)
{
    struct json_writer w = {.out = out};
    struct pb_reader details = pb_reader(s->details);
    struct bytes type, value;

    json_begin_object(&w);
    json_key(&w, "code");
    json_u64(&w, known(s->code));
    json_key(&w, "message");
    json_string(&w, s->message);
    json_key(&w, "details");
    json_begin_array(&w);
    while (next_detail(&details, &type, &value)) {
        CLEANUP(buf_done) struct buf url = {0};
        buf_add_str(&url, TYPE_PREFIX);
        buf_add_bytes(&url, type);
        json_begin_object(&w);
        json_key(&w, "@type");
        json_string(&w, buf_bytes(&url));
        write_detail_fields(&w, type, value);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
}

static void write_connect_details(struct json_writer *w, struct bytes encoded)
{
    struct pb_reader details = pb_reader(encoded);
    struct bytes type, value;

    json_key(w, "details");
    json_begin_array(w);
    while (next_detail(&details, &type, &value)) {
        CLEANUP(buf_done) struct buf text = {0};
        base64_encode(value, false, &text);
        json_begin_object(w);
        json_key(w, "type");
        json_string(w, type);
        json_key(w, "value");
        json_string(w, buf_bytes(&text));
        json_end_object(w);
    }
    json_end_array(w);
}

void connect_error_json(const struct rpc_status *s, struct buf *out)
{
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "code");
    json_cstring(&w, connect_code_name(s->code));
    if (s->message.len > 0) {
        json_key(&w, "message");
        json_string(&w, s->message);
    }
    if (s->details.len > 0)
        write_connect_details(&w, s->details);
    json_end_object(&w);
}

static const char *content_type_of(enum rpc_protocol protocol)
{
    return protocol == RPC_GRPC_WEB ? "application/grpc-web+proto" : "application/grpc";
}

/* gRPC-Web has its trailers in the body, as a last frame that looks like headers of HTTP/1.1. */
static void add_web_trailers(struct buf *body, struct bytes trailers)
{
    uint8_t prefix[GRPC_PREFIX_LEN];

    put_prefix(prefix, 0x80, trailers.len);
    buf_add(body, prefix, sizeof(prefix));
    buf_add_bytes(body, trailers);
}

void grpc_reply_ok(struct http_reply *reply, enum rpc_protocol protocol,
                   enum grpc_encoding encoding)
{
    grpc_frame(&reply->body, encoding != GRPC_IDENTITY);
    reply->status = 200;
    http_reply_header(reply, "content-type", bytes_of(content_type_of(protocol)));
    if (encoding != GRPC_IDENTITY)
        http_reply_header(reply, "grpc-encoding", bytes_of(encodings[encoding]));
    if (protocol == RPC_GRPC_WEB)
        add_web_trailers(&reply->body, BYTES("grpc-status: 0\r\n"));
    else
        http_reply_trailer(reply, "grpc-status", BYTES("0"));
}

void grpc_reply_error(struct http_reply *reply, enum rpc_protocol protocol,
                      const struct rpc_status *s)
{
    CLEANUP(buf_done) struct buf message = {0};

    grpc_percent_encode(s->message, &message);
    buf_clear(&reply->body);
    reply->status = 200;
    reply->is_head_only = true;
    http_reply_header(reply, "content-type", bytes_of(content_type_of(protocol)));
    http_reply_headerf(reply, "grpc-status", "%d", (int)known(s->code));
    if (message.len > 0)
        http_reply_header(reply, "grpc-message", buf_bytes(&message));
    /* What a client must know to go on: how its messages may be packed. */
    if (s->code == GRPC_UNIMPLEMENTED)
        http_reply_header(reply, "grpc-accept-encoding", BYTES("identity,gzip,zstd"));
    if (s->details.len > 0) {
        CLEANUP(buf_done) struct buf status = {0}, text = {0};
        rpc_status_proto(s, &status);
        base64_encode(buf_bytes(&status), false, &text);
        http_reply_header(reply, "grpc-status-details-bin", buf_bytes(&text));
    }
}

void connect_reply_error(struct http_reply *reply, const struct rpc_status *s)
{
    buf_clear(&reply->body);
    connect_error_json(s, &reply->body);
    reply->status = connect_http_status(s->code);
    http_reply_header(reply, "content-type", BYTES("application/json"));
}
