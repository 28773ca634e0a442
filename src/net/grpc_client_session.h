#pragma once

#include "net/grpc_client.h"

/*
 * The client's side of one HTTP/2 connection that carries unary gRPC calls, without I/O: fed bytes,
 * asked for bytes. One call at a time.
 */
struct grpc_session;

struct grpc_session *grpc_session_new(void);
void grpc_session_free(struct grpc_session *s); /* NULL is fine */
DEFINE_CLEANUP(struct grpc_session *, grpc_session_free)

/*
 * Begins a call. The request is borrowed until the call is over; `authority` is the Host. -EPIPE
 * when this connection takes no more calls.
 */
int grpc_session_begin(struct grpc_session *s, const struct grpc_request *r, const char *authority,
                       bool is_tls);

/* False when the connection has come to an end: grpc_session_failure(). */
bool grpc_session_feed(struct grpc_session *s, struct bytes in);

/* Appends what is to be sent, some tens of KiB at most; nothing when there is nothing now. */
void grpc_session_output(struct grpc_session *s, struct buf *out);

/* Whether the call has its answer, which is then had once, by grpc_session_answer(). */
bool grpc_session_is_answered(const struct grpc_session *s);

/* 0 with the answer, or -EPROTO (no status), -EBADMSG, -ENOBUFS with what is wrong with it. */
int grpc_session_answer(struct grpc_session *s, struct grpc_answer *ret, struct error *err);

/* What ended the connection, or NULL. Static text; the code is -EPROTO or -ENOBUFS. */
const char *grpc_session_failure(const struct grpc_session *s, int *ret_code);

/* Whether the server has said nothing at all to the call, or said that it did not look at it: then
 * it may be sent again. */
bool grpc_session_is_untouched(const struct grpc_session *s);

/* Whether another call may begin, as far as the server has said. */
bool grpc_session_can_go_on(const struct grpc_session *s);
