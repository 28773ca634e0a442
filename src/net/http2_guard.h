#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/*
 * Counts the frames of one HTTP/2 connection and says when they are an attack: floods of resets, of
 * control frames, of frames with nothing in them, header blocks without end; also frames on streams
 * that the client has ended, which the library would pass over. It sees the bytes before the
 * library does, and keeps nothing of them.
 *
 * Two buckets: each frame that costs us more than the sender takes from one, time fills them, and
 * so does honest work (replies, body bytes written).
 */
#define HTTP2_GUARD_OPEN_MAX 64

struct http2_guard {
    uint32_t code;    /* of the failure, for GOAWAY */
    size_t block_max; /* bytes of one header block, as sent */
    int64_t last_ns;
    int64_t resets, control; /* what is left, in thousandths */

    /* Where in the bytes we are. */
    uint32_t preface_left;
    uint8_t head[13]; /* of the current frame; of PRIORITY also the first field */
    uint32_t head_len;
    uint32_t left; /* of the current frame's payload */
    bool is_last;  /* the current frame ends a header block */

    /* The header block that is being read. */
    bool in_block;
    size_t block_len;
    uint32_t n_continuations;

    /* Streams that the client has begun and not ended, in the order they began. Up to
     * `forgotten` some may be left out: there was no room. */
    uint32_t open[HTTP2_GUARD_OPEN_MAX];
    uint32_t n_open, last_id, forgotten;
};

#define HTTP2_CONTINUATIONS_MAX 8
#define HTTP2_RESETS_BURST      1000
#define HTTP2_RESETS_PER_S      33
#define HTTP2_CONTROL_BURST     10000
#define HTTP2_CONTROL_PER_S     330

void http2_guard_init(struct http2_guard *g, size_t header_bytes_max);

/* Counts these bytes, which came at now_ns. NULL, or what is wrong (static text, and g->code): end
 * the connection then. */
const char *http2_guard_feed(struct http2_guard *g, struct bytes in, int64_t now_ns);

/* A stream was reset by us, through the client's fault. NULL, or as above. */
const char *http2_guard_reset_sent(struct http2_guard *g);

/* Honest work: a reply was finished; n bytes of bodies were written. */
void http2_guard_replied(struct http2_guard *g);
void http2_guard_wrote(struct http2_guard *g, size_t n);

/* Whether the preface or a header block has begun and not ended. */
bool http2_guard_in_head(const struct http2_guard *g);
