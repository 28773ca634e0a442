#include "net/http2_guard.h"

#include <string.h>

/* Frame types and flags (RFC 9113, section 6). */
enum {
    DATA = 0,
    HEADERS = 1,
    PRIORITY = 2,
    RST_STREAM = 3,
    SETTINGS = 4,
    PUSH_PROMISE = 5,
    PING = 6,
    GOAWAY = 7,
    WINDOW_UPDATE = 8,
    CONTINUATION = 9,
};
enum { PROTOCOL_ERROR = 0x1, STREAM_CLOSED = 0x5, ENHANCE_YOUR_CALM = 0xb };
enum { END_STREAM = 0x1, ACK = 0x1, END_HEADERS = 0x4, PADDED = 0x8 };

#define PREFACE_LEN 24
#define HEAD_LEN    9
#define UNIT        INT64_C(1000) /* the buckets count thousandths */

void http2_guard_init(struct http2_guard *g, size_t header_bytes_max)
{
    *g = (struct http2_guard){
        .code = ENHANCE_YOUR_CALM,
        /* Room for what is refused politely: with a reply and not with the connection's end. */
        .block_max = header_bytes_max * 2,
        .resets = HTTP2_RESETS_BURST * UNIT,
        .control = HTTP2_CONTROL_BURST * UNIT,
        .preface_left = PREFACE_LEN,
    };
}

static void fill(int64_t *bucket, int64_t more, int64_t max)
{
    *bucket = *bucket > max - more ? max : *bucket + more;
}

/* Lets time fill the buckets. */
static void tick(struct http2_guard *g, int64_t now_ns)
{
    int64_t ms = g->last_ns ? (now_ns - g->last_ns) / 1000000 : 0;

    if (g->last_ns && ms <= 0)
        return;
    if (ms > 60000)
        ms = 60000;
    fill(&g->resets, ms * HTTP2_RESETS_PER_S, HTTP2_RESETS_BURST * UNIT);
    fill(&g->control, ms * HTTP2_CONTROL_PER_S, HTTP2_CONTROL_BURST * UNIT);
    g->last_ns = now_ns;
}

/* What a frame takes from the bucket of control frames: about what it makes us do. */
static int64_t cost(uint8_t type, uint8_t flags, uint32_t len)
{
    switch (type) {
    case DATA:
        /* Next to no data, or all of it padding. */
        return !(flags & END_STREAM) && (len < 16 || (flags & PADDED && len <= 256)) ? 2 : 0;
    case HEADERS:
    case RST_STREAM:
        return 0;
    case SETTINGS:
        return flags & ACK ? 1 : 10;
    case PING:
        return 5;
    default:
        return 1;
    }
}

static const char *count_block(struct http2_guard *g, uint8_t type, uint32_t len)
{
    if (type == CONTINUATION) {
        if (++g->n_continuations > HTTP2_CONTINUATIONS_MAX)
            return "too many CONTINUATION frames";
    } else {
        g->in_block = true;
        g->block_len = 0;
        g->n_continuations = 0;
    }
    g->block_len += len;
    return g->block_len > g->block_max ? "a header block is too large" : NULL;
}

static const char *violates(struct http2_guard *g, uint32_t code, const char *why)
{
    g->code = code;
    return why;
}

static void begin_stream(struct http2_guard *g, uint32_t id)
{
    if (g->n_open == HTTP2_GUARD_OPEN_MAX) {
        g->forgotten = g->open[0];
        memmove(g->open, g->open + 1, --g->n_open * sizeof(g->open[0]));
    }
    g->open[g->n_open++] = id;
}

static void end_stream(struct http2_guard *g, uint32_t at)
{
    g->n_open--;
    memmove(g->open + at, g->open + at + 1, (g->n_open - at) * sizeof(g->open[0]));
}

/* HEADERS, DATA and RST_STREAM: what the client has ended stays ended. Streams that the server
 * ended are another matter: the client need not know yet. */
static const char *follow_stream(struct http2_guard *g, uint8_t type, uint8_t flags, uint32_t id)
{
    bool ends = type == RST_STREAM || flags & END_STREAM;

    if (id % 2 == 0 || (id > g->last_id && type != HEADERS))
        return NULL; /* an error, which the library names */
    if (id > g->last_id) {
        g->last_id = id;
        if (!ends)
            begin_stream(g, id);
        return NULL;
    }
    for (uint32_t i = g->n_open; i-- > 0;) {
        if (g->open[i] == id) {
            if (ends)
                end_stream(g, i);
            return NULL;
        }
    }
    if (id <= g->forgotten || type == RST_STREAM)
        return NULL;
    return violates(g, STREAM_CLOSED, "a frame on a stream that the client has ended");
}

static uint32_t u31(const uint8_t *p)
{
    return ((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]) & 0x7fffffff;
}

/* Priorities are not used, so the library does not look at them. */
static const char *check_priority(struct http2_guard *g, uint32_t id)
{
    if (id == 0)
        return violates(g, PROTOCOL_ERROR, "PRIORITY without a stream");
    if (g->head_len > HEAD_LEN && u31(g->head + HEAD_LEN) == id)
        return violates(g, PROTOCOL_ERROR, "a stream that depends on itself");
    return NULL;
}

static const char *count_frame(struct http2_guard *g)
{
    const uint8_t *h = g->head;
    uint8_t type = h[3], flags = h[4];
    uint32_t len = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2], id = u31(h + 5);
    const char *failure = NULL;

    g->left = len - (g->head_len - HEAD_LEN);
    g->is_last = flags & END_HEADERS && (type == HEADERS || type == CONTINUATION);
    g->control -= cost(type, flags, len) * UNIT;
    if (g->control < 0)
        return "a flood of control or empty frames";
    if (type == RST_STREAM) {
        g->resets -= UNIT;
        if (g->resets < 0)
            return "a flood of stream resets";
    }
    if (type == HEADERS || type == CONTINUATION)
        failure = count_block(g, type, len);
    else if (type == PRIORITY)
        failure = check_priority(g, id);
    if (!failure && (type == HEADERS || type == DATA || type == RST_STREAM))
        failure = follow_stream(g, type, flags, id);
    return failure;
}

/* How much of the current frame is looked at. */
static uint32_t head_wanted(const struct http2_guard *g)
{
    const uint8_t *h = g->head;
    bool has_field =
        g->head_len >= HEAD_LEN && h[3] == PRIORITY && h[0] == 0 && h[1] == 0 && h[2] == 5;

    return has_field ? HEAD_LEN + 4 : HEAD_LEN;
}

/* The current frame is complete. */
static void end_frame(struct http2_guard *g)
{
    g->head_len = 0;
    if (g->is_last)
        g->in_block = false;
}

const char *http2_guard_feed(struct http2_guard *g, struct bytes in, int64_t now_ns)
{
    tick(g, now_ns);
    while (in.len > 0) {
        if (g->preface_left > 0 || g->left > 0) {
            uint32_t *left = g->preface_left > 0 ? &g->preface_left : &g->left;
            uint32_t n = in.len < *left ? (uint32_t)in.len : *left;
            bool is_frame = left == &g->left;
            *left -= n;
            in = bytes_from(in, n);
            if (is_frame && *left == 0)
                end_frame(g);
            continue;
        }
        g->head[g->head_len++] = in.data[0];
        in = bytes_from(in, 1);
        if (g->head_len < head_wanted(g))
            continue;
        const char *failure = count_frame(g);
        if (failure)
            return failure;
        if (g->left == 0)
            end_frame(g);
    }
    return NULL;
}

const char *http2_guard_reset_sent(struct http2_guard *g)
{
    g->resets -= UNIT;
    return g->resets < 0 ? "a flood of streams that had to be reset" : NULL;
}

void http2_guard_replied(struct http2_guard *g)
{
    fill(&g->control, 10 * UNIT, HTTP2_CONTROL_BURST * UNIT);
}

void http2_guard_wrote(struct http2_guard *g, size_t n)
{
    /* One frame for each KiB: clients open windows as they read. */
    fill(&g->control, (int64_t)n, HTTP2_CONTROL_BURST * UNIT);
}

bool http2_guard_in_head(const struct http2_guard *g)
{
    return g->preface_left > 0 || g->in_block;
}
