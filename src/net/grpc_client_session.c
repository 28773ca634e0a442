#include "net/grpc_client_session.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "wire/base64.h"
#include "wire/inflate.h"
#include "wire/protobuf.h"

#define HEAD_MAX       ((size_t)32 << 10) /* of all headers and trailers of an answer */
#define HEAD_FIELDS    256
#define FRAMES_MAX     20000             /* during one call */
#define NOISE_MAX      ((size_t)1 << 20) /* bytes during one call, beside its message */
#define OUTPUT_AT_ONCE ((size_t)64 << 10)
#define ADDED_HEADERS  10
#define UNPACK_ROOM    ((size_t)64 << 10)
#define MINUTE_NS      ((int64_t)60 * 1000 * 1000 * 1000)

struct grpc_session {
    nghttp2_session *nghttp2;
    const char *failure; /* of the connection */
    int failure_code;
    bool is_going_away, is_greeted;

    /* Of the call. */
    const struct grpc_request *request;
    uint8_t prefix[GRPC_PREFIX_LEN];
    size_t sent;    /* of prefix and message */
    int32_t stream; /* 0: none */
    bool is_answered, has_begun, is_refused, was_reset;
    uint32_t reset_code;
    size_t answer_max, head_bytes, head_fields, frames, fed;

    /* Of the answer. */
    int http_status;
    int64_t code; /* -1: not said */
    bool is_grpc, is_too_large;
    struct buf text, details, encoding, body;
};

static bool fail(struct grpc_session *s, int code, const char *why)
{
    if (!s->failure) {
        s->failure = why;
        s->failure_code = code;
    }
    return false;
}

/* ---- What the library tells ---- */

static void take_header(struct grpc_session *s, struct bytes name, struct bytes value)
{
    uint64_t number;

    if (bytes_are(name, ":status")) {
        if (bytes_to_u64(value, &number) && number < 1000)
            s->http_status = (int)number;
    } else if (bytes_are(name, "content-type")) {
        s->is_grpc = rpc_protocol_of(value) == RPC_GRPC;
    } else if (bytes_are(name, "grpc-status")) {
        s->code = bytes_to_u64(value, &number) && number < GRPC_CODE_COUNT ? (int64_t)number
                                                                           : GRPC_UNKNOWN;
    } else if (bytes_are(name, "grpc-message")) {
        buf_clear(&s->text);
        if (!http_unescape(value, false, &s->text)) {
            buf_clear(&s->text);
            buf_add_bytes(&s->text, value);
        }
    } else if (bytes_are(name, "grpc-status-details-bin")) {
        buf_clear(&s->details);
        (void)base64_decode(value, &s->details);
    } else if (bytes_are(name, "grpc-encoding")) {
        buf_clear(&s->encoding);
        buf_add_bytes(&s->encoding, value);
    }
}

static int on_header(nghttp2_session *n, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct grpc_session *s = arg;

    (void)n;
    (void)flags;
    s->head_bytes += name_len + value_len + 32;
    if (s->head_bytes > HEAD_MAX || ++s->head_fields > HEAD_FIELDS) {
        fail(s, -ENOBUFS, "the headers of the answer are larger than 32 KiB");
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    if (frame->hd.stream_id == s->stream && frame->hd.type == NGHTTP2_HEADERS) {
        s->has_begun = true;
        take_header(s, (struct bytes){name, name_len}, (struct bytes){value, value_len});
    }
    return 0;
}

static int on_data(nghttp2_session *n, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                   void *arg)
{
    struct grpc_session *s = arg;

    (void)flags;
    if (id != s->stream || s->is_answered)
        return 0;
    if (len > s->answer_max + GRPC_PREFIX_LEN - s->body.len) {
        s->is_too_large = s->is_answered = true;
        (void)nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
        return 0;
    }
    buf_add(&s->body, data, len);
    return 0;
}

static int on_frame(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
    struct grpc_session *s = arg;

    s->is_greeted = true;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        s->is_going_away = true;
        if (s->stream > frame->goaway.last_stream_id)
            s->is_refused = true;
    }
    if (!s->request || frame->hd.stream_id != s->stream ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
        (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    /* The answer is whole. Whoever answers before all is sent does not want the rest. */
    if (s->sent < GRPC_PREFIX_LEN + s->request->message.len)
        (void)nghttp2_submit_rst_stream(n, NGHTTP2_FLAG_NONE, s->stream, NGHTTP2_CANCEL);
    s->is_answered = true;
    return 0;
}

static int on_close(nghttp2_session *n, int32_t id, uint32_t code, void *arg)
{
    struct grpc_session *s = arg;

    (void)n;
    if (id != s->stream || s->is_answered)
        return 0;
    s->was_reset = s->is_answered = true;
    s->reset_code = code;
    s->is_refused = s->is_refused || code == NGHTTP2_REFUSED_STREAM;
    return 0;
}

static int on_begin_frame(nghttp2_session *n, const nghttp2_frame_hd *head, void *arg)
{
    struct grpc_session *s = arg;

    (void)n;
    (void)head;
    if (++s->frames > FRAMES_MAX) {
        fail(s, -EPROTO, "the server sends frames without end");
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static ssize_t read_message(nghttp2_session *n, int32_t id, uint8_t *to, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct grpc_session *s = arg;
    struct bytes part = bytes_from((struct bytes){s->prefix, GRPC_PREFIX_LEN}, s->sent);

    (void)n;
    (void)source;
    if (id != s->stream || !s->request)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    if (part.len == 0)
        part = bytes_from(s->request->message, s->sent - GRPC_PREFIX_LEN);
    part = bytes_head(part, size);
    if (part.len > 0)
        memcpy(to, part.data, part.len);
    s->sent += part.len;
    if (s->sent == GRPC_PREFIX_LEN + s->request->message.len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)part.len;
}

/* ---- Beginning ---- */

struct grpc_session *grpc_session_new(void)
{
    struct grpc_session *s = must_calloc(1, sizeof(*s));
    nghttp2_session_callbacks *callbacks = NULL;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)HEAD_MAX},
    };

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    if (nghttp2_session_client_new(&s->nghttp2, callbacks, s) != 0)
        abort(); /* no memory */
    nghttp2_session_callbacks_del(callbacks);
    (void)nghttp2_submit_settings(s->nghttp2, NGHTTP2_FLAG_NONE, settings,
                                  sizeof(settings) / sizeof(settings[0]));
    return s;
}

void grpc_session_free(struct grpc_session *s)
{
    if (!s)
        return;
    nghttp2_session_del(s->nghttp2);
    buf_done(&s->text);
    buf_done(&s->details);
    buf_done(&s->encoding);
    buf_done(&s->body);
    free(s);
}

static void forget_call(struct grpc_session *s)
{
    s->request = NULL;
    s->stream = 0;
    s->sent = s->head_bytes = s->head_fields = s->frames = s->fed = 0;
    s->is_answered = s->has_begun = s->is_refused = s->was_reset = false;
    s->is_grpc = s->is_too_large = false;
    s->http_status = 0;
    s->code = -1;
    buf_clear(&s->text);
    buf_clear(&s->details);
    buf_clear(&s->encoding);
    buf_clear(&s->body);
}

static nghttp2_nv field(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name.data, (uint8_t *)(uintptr_t)value.data, name.len,
                        value.len, NGHTTP2_NV_FLAG_NONE};
}

bool grpc_session_can_go_on(const struct grpc_session *s)
{
    return !s->failure && !s->is_going_away && nghttp2_session_check_request_allowed(s->nghttp2);
}

/* At most eight digits: milliseconds, or seconds of what is longer. */
static void timeout_text(int64_t ns, char *text, size_t size)
{
    int64_t ms = (ns > 0 ? ns : MINUTE_NS) / 1000000;

    if (ms < 100000000)
        snprintf(text, size, "%lldm", (long long)(ms > 0 ? ms : 1));
    else
        snprintf(text, size, "%lldS", (long long)(ms / 1000 < 99999999 ? ms / 1000 : 99999999));
}

int grpc_session_begin(struct grpc_session *s, const struct grpc_request *r, const char *authority,
                       bool is_tls)
{
    nghttp2_nv fields[GRPC_HEADERS_MAX + ADDED_HEADERS];
    nghttp2_data_provider body = {.read_callback = read_message};
    char timeout[32];
    size_t n = 0;

    if (!grpc_session_can_go_on(s))
        return -EPIPE;
    if (r->n_headers > GRPC_HEADERS_MAX || r->message.len > UINT32_MAX)
        return -EINVAL;
    forget_call(s);
    s->request = r;
    s->answer_max = r->answer_max ? r->answer_max : GRPC_ANSWER_MAX;
    s->prefix[0] = r->encoding != GRPC_IDENTITY;
    for (size_t i = 0; i < 4; i++)
        s->prefix[1 + i] = (uint8_t)(r->message.len >> (24 - 8 * i));
    timeout_text(r->timeout_ns, timeout, sizeof(timeout));
    fields[n++] = field(BYTES(":method"), BYTES("POST"));
    fields[n++] = field(BYTES(":scheme"), is_tls ? BYTES("https") : BYTES("http"));
    fields[n++] = field(BYTES(":path"), bytes_of(r->path));
    fields[n++] = field(BYTES(":authority"), bytes_of(authority));
    fields[n++] = field(BYTES("te"), BYTES("trailers"));
    fields[n++] = field(BYTES("content-type"), BYTES("application/grpc"));
    fields[n++] = field(BYTES("user-agent"), BYTES("vesta/" VESTA_VERSION));
    fields[n++] = field(BYTES("grpc-timeout"), bytes_of(timeout));
    if (r->encoding != GRPC_IDENTITY)
        fields[n++] =
            field(BYTES("grpc-encoding"), r->encoding == GRPC_GZIP ? BYTES("gzip") : BYTES("zstd"));
    for (size_t i = 0; i < r->n_headers; i++)
        fields[n++] = field(r->headers[i].name, r->headers[i].value);
    int32_t id = nghttp2_submit_request(s->nghttp2, NULL, fields, n, &body, NULL);
    if (id < 0)
        return id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE ? -EPIPE : -EINVAL;
    s->stream = id;
    return 0;
}

/* ---- Bytes ---- */

static bool broke_rules(struct grpc_session *s)
{
    return fail(s, -EPROTO,
                !s->is_greeted     ? "the server does not speak HTTP/2"
                : s->is_going_away ? "the server ended the connection"
                                   : "the server breaks the rules of HTTP/2");
}

bool grpc_session_feed(struct grpc_session *s, struct bytes in)
{
    if (s->failure)
        return false;
    s->fed += in.len;
    if (s->fed > NOISE_MAX + s->answer_max)
        return fail(s, -EPROTO, "the server sends far more than an answer");
    ssize_t n = nghttp2_session_mem_recv(s->nghttp2, in.data, in.len);
    if (s->failure)
        return false;
    return n < 0 ? broke_rules(s) : true;
}

void grpc_session_output(struct grpc_session *s, struct buf *out)
{
    size_t until = out->len + OUTPUT_AT_ONCE;

    while (out->len < until) {
        const uint8_t *data;
        ssize_t n = nghttp2_session_mem_send(s->nghttp2, &data);
        if (n < 0)
            fail(s, -EPROTO, "the request cannot be sent");
        if (n <= 0)
            break;
        buf_add(out, data, (size_t)n);
    }
    /* What the library objects to it tells the server first, then wants nothing more. */
    if (!nghttp2_session_want_read(s->nghttp2) && !nghttp2_session_want_write(s->nghttp2) &&
        !s->is_answered)
        broke_rules(s);
}

/* ---- The answer ---- */

bool grpc_session_is_answered(const struct grpc_session *s)
{
    return s->is_answered;
}

bool grpc_session_is_untouched(const struct grpc_session *s)
{
    return s->is_refused || !s->has_begun;
}

const char *grpc_session_failure(const struct grpc_session *s, int *ret_code)
{
    if (s->failure)
        *ret_code = s->failure_code;
    return s->failure;
}

/* {1: seconds, 2: nanoseconds} */
static int64_t duration_ms(struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    int64_t s = 0, ns = 0;

    while (pb_next(&r)) {
        if (r.field == 1 && r.wire == PB_VARINT)
            s = (int64_t)r.value;
        else if (r.field == 2 && r.wire == PB_VARINT)
            ns = (int64_t)r.value;
    }
    if (r.failure || s < 0 || ns < 0)
        return 0;
    s = s < 1000000 ? s : 1000000;
    return s * 1000 + (ns < 1000000000 ? ns : 1000000000) / 1000000;
}

/* The delay of a RetryInfo in a google.protobuf.Any, or -1. */
static int64_t retry_of(struct bytes any)
{
    struct pb_reader r = pb_reader(any);
    struct bytes type = {0}, value = {0};
    static const char name[] = "google.rpc.RetryInfo";

    while (pb_next(&r)) {
        if (r.field == 1 && r.wire == PB_BYTES)
            type = r.data;
        else if (r.field == 2 && r.wire == PB_BYTES)
            value = r.data;
    }
    if (r.failure || type.len < sizeof(name) - 1 ||
        !bytes_are(bytes_from(type, type.len - (sizeof(name) - 1)), name))
        return -1;
    struct pb_reader info = pb_reader(value);
    int64_t ms = 0;
    while (pb_next(&info))
        if (info.field == 1 && info.wire == PB_BYTES)
            ms = duration_ms(info.data);
    return ms;
}

/* Of a google.rpc.Status. */
static int64_t retry_among(struct bytes status)
{
    struct pb_reader r = pb_reader(status);
    int64_t ms = -1;

    while (pb_next(&r))
        if (r.field == 3 && r.wire == PB_BYTES && ms < 0)
            ms = retry_of(r.data);
    return ms;
}

static enum grpc_code code_of_http(int status)
{
    switch (status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

static enum grpc_code code_of_reset(uint32_t code)
{
    switch (code) {
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

static void copy_text(struct bytes from, struct grpc_answer *to)
{
    size_t n = from.len < sizeof(to->text) - 1 ? from.len : sizeof(to->text) - 1;

    for (size_t i = 0; i < n; i++)
        to->text[i] = from.data[i] < 0x20 || from.data[i] == 0x7f ? '?' : (char)from.data[i];
    to->text[n] = '\0';
}

/* Servers pack an answer as its request was, whatever they are told. */
static int unpack_body(enum grpc_encoding encoding, struct bytes data, size_t max, struct buf *to,
                       struct error *err)
{
    struct unpacked plain;
    struct budget b;

    budget_init(&b, 2 * max + UNPACK_ROOM);
    int r = unpack(encoding == GRPC_GZIP ? CODEC_GZIP : CODEC_ZSTD_HTTP, data, &b, &plain, err);
    if (r < 0)
        return error_set(err, -EBADMSG, "the answer could not be unpacked within %zu bytes", max);
    if (plain.len > max)
        r = error_set(err, -EBADMSG, "the answer is larger than %zu bytes, unpacked", max);
    else
        buf_add(to, plain.data, plain.len);
    unpacked_done(&b, &plain);
    return r;
}

static int read_body(struct grpc_session *s, struct grpc_answer *ret, struct error *err)
{
    struct grpc_message m = {0};

    if (s->body.len == 0)
        return 0;
    int r = grpc_read_message(buf_bytes(&s->body), buf_bytes(&s->encoding), &m, err);
    if (r < 0)
        return error_set(err, -EBADMSG, "the answer is no message of gRPC");
    if (m.encoding != GRPC_IDENTITY)
        return unpack_body(m.encoding, m.data, s->answer_max, &ret->body, err);
    buf_add_bytes(&ret->body, m.data);
    return 0;
}

int grpc_session_answer(struct grpc_session *s, struct grpc_answer *ret, struct error *err)
{
    struct grpc_answer a = {.retry_ms = -1};

    if (s->is_too_large)
        return error_set(err, -ENOBUFS, "the answer is larger than %zu bytes", s->answer_max);
    if (s->code >= 0) {
        a.code = (enum grpc_code)s->code;
        copy_text(buf_bytes(&s->text), &a);
        a.retry_ms = retry_among(buf_bytes(&s->details));
    } else if (s->was_reset) {
        a.code = code_of_reset(s->reset_code);
        snprintf(a.text, sizeof(a.text), "the call was reset: %s",
                 nghttp2_http2_strerror(s->reset_code));
    } else if (s->http_status == 200 && s->is_grpc) {
        return error_set(err, -EPROTO, "the answer has no grpc-status");
    } else {
        a.code = code_of_http(s->http_status);
        snprintf(a.text, sizeof(a.text), "answered %d %s, not in gRPC", s->http_status,
                 http_reason(s->http_status));
    }
    s->request = NULL; /* the caller's, who may go now */
    int r = a.code == GRPC_OK ? read_body(s, &a, err) : 0;
    if (r == 0)
        *ret = a;
    return r;
}
