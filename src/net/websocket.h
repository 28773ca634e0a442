#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"

/*
 * The client's side of a WebSocket (RFC 6455) without I/O: what to send, and what was received. No
 * extensions, no subprotocols. What the other side says is hostile.
 */
#define WEBSOCKET_NONCE 16

/* The request that asks for one. `nonce` is random. */
void websocket_request(const char *host, const char *path, const uint8_t nonce[WEBSOCKET_NONCE],
                       struct buf *out);

/* Whether the head of a reply, up to its empty line, agrees to that request. -EBADMSG. */
int websocket_check_reply(struct bytes head, const uint8_t nonce[WEBSOCKET_NONCE],
                          struct error *err);

/* Appends what the other side makes of the nonce, to show that it speaks this protocol. */
void websocket_add_accept(const uint8_t nonce[WEBSOCKET_NONCE], struct buf *out);

enum websocket_opcode {
    WEBSOCKET_CONTINUATION = 0,
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_CLOSE = 8,
    WEBSOCKET_PING = 9,
    WEBSOCKET_PONG = 10,
};

/* Appends one frame that is a whole message, masked as clients must; `mask` is random. */
void websocket_put(struct buf *out, enum websocket_opcode opcode, struct bytes payload,
                   const uint8_t mask[4]);

/* Frames become messages. Zero it, set `max`. */
struct websocket_reader {
    size_t max; /* bytes of a message; all its fragments together */

    struct buf message;     /* of the data frames so far */
    struct buf control;     /* of a control frame, which may come between two fragments */
    uint8_t head[10];       /* of the frame that is being read */
    size_t head_len;        /* of which so many are there */
    uint64_t left;          /* of its payload */
    bool is_in_payload;     /* else in its head */
    bool is_last;           /* no fragment follows */
    bool is_fragmented;     /* a fragment follows: `message` is begun */
    uint8_t opcode;         /* of the frame */
    uint8_t message_opcode; /* of the message */
};

void websocket_reader_done(struct websocket_reader *r);

/*
 * Takes what it needs off *in. 1 with a whole message, or a control frame, borrowed until the next
 * call; 0 when all of *in was taken and more is needed; -EBADMSG, or -EMSGSIZE past `max`: then
 * nothing more may be read.
 */
int websocket_read(struct websocket_reader *r, struct bytes *in, enum websocket_opcode *ret_opcode,
                   struct bytes *ret, struct error *err);
