#pragma once

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "net/http.h"

/*
 * What gRPC, gRPC-Web and Connect put around one message: framing, codes, timeouts, and errors with
 * details. Unary calls only. Nothing here does I/O, and nothing packs or unpacks.
 */
enum grpc_code {
    GRPC_OK,
    GRPC_CANCELLED,
    GRPC_UNKNOWN,
    GRPC_INVALID_ARGUMENT,
    GRPC_DEADLINE_EXCEEDED,
    GRPC_NOT_FOUND,
    GRPC_ALREADY_EXISTS,
    GRPC_PERMISSION_DENIED,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_FAILED_PRECONDITION,
    GRPC_ABORTED,
    GRPC_OUT_OF_RANGE,
    GRPC_UNIMPLEMENTED,
    GRPC_INTERNAL,
    GRPC_UNAVAILABLE,
    GRPC_DATA_LOSS,
    GRPC_UNAUTHENTICATED,
    GRPC_CODE_COUNT,
};

/* As Connect has it: "invalid_argument"; numbers that are none are "unknown". */
const char *connect_code_name(enum grpc_code code);

/* The HTTP status that goes with it in Connect. */
int connect_http_status(enum grpc_code code);

/* What a request speaks, by its content-type. */
enum rpc_protocol {
    RPC_NONE,
    RPC_GRPC,     /* application/grpc, application/grpc+proto */
    RPC_GRPC_WEB, /* application/grpc-web, application/grpc-web+proto */
    RPC_CONNECT_PROTO,
    RPC_CONNECT_JSON,
};
enum rpc_protocol rpc_protocol_of(struct bytes content_type);

/* How a message is packed. */
enum grpc_encoding { GRPC_IDENTITY, GRPC_GZIP, GRPC_ZSTD };

struct grpc_message {
    struct bytes data; /* borrowed from the body */
    enum grpc_encoding encoding;
};

/*
 * The one message of a unary request (gRPC and gRPC-Web); `encoding` is the value of grpc-encoding,
 * or empty. -EBADMSG when the body is not exactly one message, or is packed and nobody said how;
 * -EOPNOTSUPP when it is packed in a way that is not known.
 */
int grpc_read_message(struct bytes body, struct bytes encoding, struct grpc_message *ret,
                      struct error *err);

#define GRPC_PREFIX_LEN 5

/* Makes what is in the buffer one message, by putting the prefix in front of it. */
void grpc_frame(struct buf *body, bool is_packed);

/*
 * "100m", "5S" of grpc-timeout, and the milliseconds of connect-timeout-ms. False when it is none
 * of that. What is too long to count is INT64_MAX.
 */
bool grpc_timeout(struct bytes value, int64_t *ret_ns);
bool connect_timeout(struct bytes value, int64_t *ret_ns);

/* Text as grpc-message wants it: bytes that are not printable ASCII, and '%', as %XX. */
void grpc_percent_encode(struct bytes text, struct buf *out);

/*
 * A google.rpc.Status. `details` is made by the function below: a run of its field 3, each holding
 * a google.protobuf.Any.
 */
struct rpc_status {
    enum grpc_code code;
    struct bytes message;
    struct bytes details;
};

/* Appends a detail: how long to wait. */
void rpc_detail_retry(struct buf *details, int64_t delay_ns);

void rpc_status_proto(const struct rpc_status *s, struct buf *out);
void rpc_status_json(const struct rpc_status *s, struct buf *out);
void connect_error_json(const struct rpc_status *s, struct buf *out);

/*
 * Fill in a reply. The message is in reply->body already, for _ok(); `protocol` is RPC_GRPC or
 * RPC_GRPC_WEB, `encoding` how the body is packed. Errors of gRPC have no body: "trailers-only".
 */
void grpc_reply_ok(struct http_reply *reply, enum rpc_protocol protocol,
                   enum grpc_encoding encoding);
void grpc_reply_error(struct http_reply *reply, enum rpc_protocol protocol,
                      const struct rpc_status *s);
void connect_reply_error(struct http_reply *reply, const struct rpc_status *s);
