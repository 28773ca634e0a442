/*
 * What a client may send behind the preface of HTTP/2, in pieces of any size, to an owner that
 * answers, refuses, streams and resets as the first bytes of the input say. Every stream must be
 * told of in order and exactly once, and a feed in one piece must tell the same as one in many.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "net/http_session.h"

#define STREAMS 256

struct owner {
    uint32_t state; /* of chance */
    bool is_quiet;  /* answers nothing: for the comparison */
    struct http_stream *open[STREAMS];
    size_t n_open;
    uint64_t heads, completes, ends, body, names;
};

static uint32_t chance(struct owner *o, uint32_t below)
{
    o->state = o->state * 1664525 + 1013904223;
    return (o->state >> 8) % below;
}

static size_t find(const struct owner *o, const struct http_stream *st)
{
    size_t i = 0;

    while (i < o->n_open && o->open[i] != st)
        i++;
    REQUIRE(i < o->n_open);
    return i;
}

static void answer(struct owner *o, struct http_stream *st)
{
    const struct http_session_ops *ops = st->session->ops;
    struct http_reply reply = {.status = chance(o, 8) ? 200 : 304};
    struct buf part = {0};
    bool is_whole = chance(o, 3) > 0;

    http_reply_header(&reply, "x-a", BYTES("b"));
    for (uint32_t n = chance(o, 3) ? chance(o, 64) : 40000; n > 0; n--)
        buf_add_byte(&reply.body, 'r');
    if (chance(o, 2))
        http_reply_trailer(&reply, "grpc-status", BYTES("0"));
    reply.is_head_only = chance(o, 8) == 0;
    reply.closes = chance(o, 16) == 0;
    ops->reply(st->session, st, &reply, is_whole);
    REQUIRE(reply.body.len == 0 && reply.head.len == 0);
    if (!is_whole) {
        buf_add_str(&part, "more");
        ops->reply_more(st->session, st, &part, chance(o, 2), NULL);
    }
}

/* Something that an owner may do with a stream at any time. */
static void act(struct owner *o, struct http_stream *st)
{
    const struct http_session_ops *ops = st->session->ops;
    struct buf part = {0};

    if (o->is_quiet)
        return;
    switch (chance(o, 8)) {
    case 0:
        ops->reset(st->session, st);
        break;
    case 1:
        ops->consumed(st->session, st, chance(o, 100000));
        break;
    case 2:
        buf_add_str(&part, "part");
        ops->reply_more(st->session, st, &part, chance(o, 2), NULL);
        break;
    case 3:
    case 4:
        break;
    default:
        answer(o, st);
    }
}

static bool on_head(void *ctx, struct http_stream *st)
{
    struct owner *o = ctx;
    const struct http_request *r = &st->request;

    o->heads++;
    REQUIRE(r->n_headers <= HTTP_HEADERS_MAX && r->method.len > 0);
    REQUIRE(r->path.len + r->query.len <= HTTP_TARGET_MAX);
    for (size_t i = 0; i < r->n_headers; i++)
        o->names += r->headers[i].name.len * 31 + r->headers[i].value.len;
    REQUIRE(o->n_open < STREAMS);
    o->open[o->n_open++] = st;
    act(o, st);
    return o->is_quiet || chance(o, 4) > 0;
}

static void on_body(void *ctx, struct http_stream *st, struct bytes part)
{
    struct owner *o = ctx;

    (void)find(o, st);
    o->body += part.len;
    act(o, st);
}

static void on_complete(void *ctx, struct http_stream *st)
{
    struct owner *o = ctx;

    (void)find(o, st);
    o->completes++;
    act(o, st);
}

static void on_end(void *ctx, struct http_stream *st, bool is_done)
{
    struct owner *o = ctx;

    (void)is_done;
    o->ends++;
    o->open[find(o, st)] = o->open[o->n_open - 1];
    o->n_open--;
}

static struct http_session *begin(struct owner *o)
{
    struct http_events events = {on_head, on_body, on_complete, on_end, o};
    struct http_session *s = http2_session_new(&events, NULL);

    REQUIRE(s->ops->feed(s, BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")));
    return s;
}

static void take(struct http_session *s, size_t max)
{
    CLEANUP(buf_done) struct buf out = {0};

    s->ops->take_output(s, &out, max);
    REQUIRE(out.len <= max + (1 << 17));
}

/* Everything at random. */
static void run_wild(struct bytes in, uint32_t seed)
{
    struct owner o = {.state = seed};
    struct http_session *s = begin(&o);

    while (in.len > 0) {
        size_t n = 1 + chance(&o, chance(&o, 2) ? 16 : 4096);
        struct bytes part = bytes_head(in, n);
        (void)s->ops->feed(s, part);
        in = bytes_from(in, part.len);
        if (chance(&o, 3) == 0)
            take(s, chance(&o, 70000));
        if (o.n_open > 0 && chance(&o, 4) == 0)
            act(&o, o.open[chance(&o, (uint32_t)o.n_open)]);
        if (chance(&o, 64) == 0)
            s->ops->drain(s);
    }
    take(s, 1 << 20);
    REQUIRE(!s->failure || o.n_open <= s->n_streams);
    s->ops->free(s);
    REQUIRE(o.heads == o.ends && o.n_open == 0 && o.completes <= o.heads);
}

static bool run_quiet(struct bytes in, size_t piece, struct owner *o)
{
    struct http_session *s = begin(o);
    bool is_fine = true;

    o->is_quiet = true;
    while (in.len > 0 && is_fine) {
        struct bytes part = bytes_head(in, piece);
        is_fine = s->ops->feed(s, part);
        in = bytes_from(in, part.len);
    }
    s->ops->free(s);
    return is_fine;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint32_t seed = 0;
    struct owner whole = {0}, pieces = {0};

    if (len < 4)
        return 0;
    memcpy(&seed, data, 4);
    struct bytes in = {data + 4, len - 4};
    run_wild(in, seed);
    if (run_quiet(in, in.len + 1, &whole) && run_quiet(in, 1 + seed % 23, &pieces))
        REQUIRE(whole.heads == pieces.heads && whole.completes == pieces.completes &&
                whole.body == pieces.body && whole.names == pieces.names);
    return 0;
}
