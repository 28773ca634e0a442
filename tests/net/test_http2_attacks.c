/* What hostile clients send, frame by frame: each must end in a refusal that costs little. */
#include "base/clock.h"
#include "lib/h2_world.h"
#include "net/http2_guard.h"

struct raw {
    struct world w; /* of which only the server's half is used */
    struct buf in, out;
};

static void raw_open(struct raw *r, const struct http_session_limits *limits)
{
    struct http_events events = world_events(&r->w);

    *r = (struct raw){.w = {.answer = answer_hello}};
    r->w.server = http2_session_new(&events, limits);
    buf_add_str(&r->in, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

static void raw_done(struct raw *r)
{
    world_done(&r->w);
    buf_done(&r->in);
    buf_done(&r->out);
}

static void frame(struct raw *r, int type, int flags, uint32_t id, struct bytes payload)
{
    uint8_t head[9] = {(uint8_t)(payload.len >> 16),
                       (uint8_t)(payload.len >> 8),
                       (uint8_t)payload.len,
                       (uint8_t)type,
                       (uint8_t)flags,
                       (uint8_t)(id >> 24),
                       (uint8_t)(id >> 16),
                       (uint8_t)(id >> 8),
                       (uint8_t)id};

    buf_add(&r->in, head, sizeof(head));
    buf_add_bytes(&r->in, payload);
}

/* GET http / with :authority "a". */
#define GET                                                                                        \
    BYTES("\x82\x86\x84\x41\x01"                                                                   \
          "a")
#define POST                                                                                       \
    BYTES("\x83\x86\x84\x41\x01"                                                                   \
          "a")
#define END_STREAM  0x1
#define END_HEADERS 0x4

/* Sends what was collected; false when the server has had enough. */
static bool feed(struct raw *r)
{
    bool is_fine = r->w.server->ops->feed(r->w.server, buf_bytes(&r->in));

    buf_clear(&r->in);
    return is_fine;
}

static void take(struct raw *r)
{
    size_t before;

    do {
        before = r->out.len;
        r->w.server->ops->take_output(r->w.server, &r->out, 1 << 20);
    } while (r->out.len > before);
}

static uint32_t u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* How many frames of a type were written; *ret_code is of the last RST_STREAM or GOAWAY. */
static int written(struct raw *r, int type, uint32_t *ret_code)
{
    int n = 0;

    for (size_t at = 0; at + 9 <= r->out.len;) {
        const uint8_t *p = r->out.data + at;
        size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if (p[3] == type) {
            n++;
            if (type == NGHTTP2_RST_STREAM)
                *ret_code = u32(p + 9);
            else if (type == NGHTTP2_GOAWAY)
                *ret_code = u32(p + 13);
        }
        at += 9 + len;
    }
    return n;
}

/* The connection has ended with this code, for this reason. */
static void check_ended(struct test *t, struct raw *r, uint32_t code, const char *why)
{
    uint32_t got = UINT32_MAX;

    take(r);
    CHECK_INT(t, written(r, NGHTTP2_GOAWAY, &got), 1);
    CHECK_INT(t, got, code);
    CHECK(t, r->w.server->is_closing);
    CHECK_STR(t, r->w.server->failure, why);
    /* Nothing more is looked at. */
    int heads = r->w.seen[0].heads;
    frame(r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 1, GET);
    (void)feed(r);
    CHECK_INT(t, r->w.seen[0].heads, heads);
}

static void ends_a_connection_that_resets_rapidly(struct test *t)
{
    struct raw r;
    uint32_t id = 1;
    int n = 0;

    raw_open(&r, NULL);
    r.w.answer = NULL;
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    for (bool is_fine = true; is_fine && n < 5000; n++, id += 2) {
        frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, GET);
        frame(&r, NGHTTP2_RST_STREAM, 0, id, BYTES("\0\0\0\x08"));
        is_fine = feed(&r);
    }
    CHECK(t, n > 900 && n < 1300);
    check_ended(t, &r, NGHTTP2_ENHANCE_YOUR_CALM, "a flood of stream resets");
    raw_done(&r);
}

static void ends_a_connection_that_makes_us_reset(struct test *t)
{
    struct raw r;
    uint32_t id = 1;
    int n = 0;
    CLEANUP(buf_done) struct buf head = {0};

    buf_add_bytes(&head, GET);
    buf_add(&head, "\x00\x01X\x01y", 5); /* no upper case in names */
    raw_open(&r, NULL);
    r.w.answer = NULL;
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    for (; !r.w.server->is_closing && n < 5000; n++, id += 2) {
        frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, buf_bytes(&head));
        (void)feed(&r);
        take(&r);
    }
    CHECK(t, n > 900 && n < 1300);
    check_ended(t, &r, NGHTTP2_ENHANCE_YOUR_CALM, "a flood of streams that had to be reset");
    raw_done(&r);
}

static void ends_a_connection_whose_header_block_does_not_end(struct test *t)
{
    struct raw r;
    int n = 0;

    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, 0, 1, GET);
    CHECK(t, feed(&r));
    CHECK(t, r.w.server->is_reading_head);
    for (bool is_fine = true; is_fine && n < 1000; n++) {
        frame(&r, NGHTTP2_CONTINUATION, 0, 1, BYTES("\x40\x01x\x01y"));
        is_fine = feed(&r);
    }
    CHECK_INT(t, n, HTTP2_CONTINUATIONS_MAX + 1);
    CHECK_INT(t, r.w.seen[0].heads, 0);
    check_ended(t, &r, NGHTTP2_ENHANCE_YOUR_CALM, "too many CONTINUATION frames");
    raw_done(&r);
}

static void ends_a_connection_whose_header_block_is_huge(struct test *t)
{
    struct raw r;
    static uint8_t junk[16384];
    int n = 0;

    /* A literal that says to be 16,380 bytes long. */
    memcpy(junk, "\x00\x01x\x7f\xfd\x7e", 6);
    memset(junk + 6, 'v', sizeof(junk) - 6);
    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, 0, 1, GET);
    for (bool is_fine = true; is_fine && n < 100; n++) {
        frame(&r, NGHTTP2_CONTINUATION, 0, 1, (struct bytes){junk, sizeof(junk)});
        is_fine = feed(&r);
    }
    CHECK_INT(t, n, 8);
    check_ended(t, &r, NGHTTP2_ENHANCE_YOUR_CALM, "a header block is too large");
    raw_done(&r);
}

/* One field of 3 KiB in the dynamic table, named by a byte each, thousands of times. */
static void ends_a_connection_that_unpacks_to_too_much(struct test *t)
{
    struct raw r;
    CLEANUP(buf_done) struct buf block = {0};

    buf_add_bytes(&block, GET);
    buf_add(&block, "\x40\x01x\x7f\x81\x17", 6); /* 127 + 1 + 23 * 128 = 3072 bytes follow */
    for (int i = 0; i < 3072; i++)
        buf_add_byte(&block, 'v');
    while (block.len < 16000)
        buf_add_byte(&block, 0xbe);
    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 1, buf_bytes(&block));
    CHECK(t, !feed(&r));
    CHECK_INT(t, r.w.seen[0].heads, 0);
    check_ended(t, &r, NGHTTP2_ENHANCE_YOUR_CALM, "the fields of a head unpack to too much");
    raw_done(&r);
}

static void check_flood(struct test *t, int type, int flags, uint32_t id, struct bytes payload,
                        int n_max)
{
    struct raw r;
    int n = 0;

    raw_open(&r, NULL);
    r.w.answer = NULL;
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, END_HEADERS, 1, POST);
    for (bool is_fine = true; is_fine && n < 100000; n++) {
        frame(&r, type, flags, id, payload);
        is_fine = feed(&r);
        buf_clear(&r.out);
        r.w.server->ops->take_output(r.w.server, &r.out, 1 << 16);
    }
    CHECK(t, n > n_max / 2 && n < n_max);
    if (n >= n_max)
        printf("# frames of type %d went on to %d\n", type, n);
    check_ended(t, &r, NGHTTP2_ENHANCE_YOUR_CALM, "a flood of control or empty frames");
    raw_done(&r);
}

static void ends_a_flood_of_settings(struct test *t)
{
    check_flood(t, NGHTTP2_SETTINGS, 0, 0, BYTES("\0\x04\0\x10\0\0"), 1200);
}

static void ends_a_flood_of_pings(struct test *t)
{
    check_flood(t, NGHTTP2_PING, 0, 0, BYTES("12345678"), 2400);
}

static void ends_a_flood_of_empty_data(struct test *t)
{
    check_flood(t, NGHTTP2_DATA, 0, 1, BYTES(""), 6000);
}

static void ends_a_flood_of_padding(struct test *t)
{
    check_flood(t, NGHTTP2_DATA, 0x8, 1, BYTES("\x03\0\0\0"), 6000);
}

static void ends_a_flood_of_priorities(struct test *t)
{
    check_flood(t, NGHTTP2_PRIORITY, 0, 1, BYTES("\0\0\0\x03\x10"), 12000);
}

static void ends_a_flood_of_window_updates(struct test *t)
{
    check_flood(t, NGHTTP2_WINDOW_UPDATE, 0, 1, BYTES("\0\0\0\x01"), 12000);
}

static void ends_a_flood_of_frames_of_no_known_type(struct test *t)
{
    check_flood(t, 0xbb, 0, 0, BYTES("?"), 12000);
}

static void does_not_queue_answers_without_bound(struct test *t)
{
    struct raw r;
    int n = 0;

    /* Nothing of our output is taken. */
    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    for (bool is_fine = true; is_fine && n < 10000; n++) {
        frame(&r, NGHTTP2_PING, 0, 0, BYTES("12345678"));
        is_fine = feed(&r);
    }
    CHECK(t, n < 1100);
    take(&r);
    CHECK(t, r.out.len < 64 << 10);
    CHECK(t, r.w.server->is_closing);
    CHECK(t, r.w.server->failure);
    raw_done(&r);
}

static void answer_large(struct world *w, struct http_stream *stream)
{
    struct http_reply reply = {0};

    (void)w;
    memset(buf_reserve(&reply.body, 1 << 20), 'x', 1 << 20);
    reply.body.len = 1 << 20;
    stream->session->ops->reply(stream->session, stream, &reply, true);
}

static void refuses_streams_while_much_is_unread(struct test *t)
{
    struct raw r;
    uint32_t code = 0;

    raw_open(&r, NULL);
    r.w.answer = answer_large;
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES("\0\x04\0\0\0\0")); /* a window of 0 */
    for (uint32_t id = 1; id < 41; id += 2)
        frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, id, GET);
    CHECK(t, feed(&r));
    take(&r);
    CHECK_INT(t, r.w.server->n_streams, 9);
    CHECK_INT(t, written(&r, NGHTTP2_RST_STREAM, &code), 11);
    CHECK_INT(t, code, NGHTTP2_REFUSED_STREAM);
    CHECK(t, !r.w.server->failure);
    raw_done(&r);
}

static void check_protocol_error(struct test *t, struct raw *r, uint32_t code)
{
    uint32_t got = UINT32_MAX;

    (void)feed(r);
    take(r);
    CHECK_INT(t, written(r, NGHTTP2_GOAWAY, &got), 1);
    CHECK_INT(t, got, code);
    CHECK(t, r->w.server->is_closing);
    CHECK(t, r->w.server->failure);
    CHECK_INT(t, r->w.server->n_streams, 0);
    CHECK_INT(t, r->w.seen[0].ends, r->w.seen[0].heads);
    raw_done(r);
}

static void ends_a_connection_that_misuses_stream_ids(struct test *t)
{
    struct raw r;

    raw_open(&r, NULL); /* even numbers are the server's */
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 2, GET);
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);

    raw_open(&r, NULL); /* DATA on a stream that never was */
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_DATA, END_STREAM, 5, BYTES("x"));
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);

    raw_open(&r, NULL); /* DATA on stream 0 */
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_DATA, END_STREAM, 0, BYTES("x"));
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);

    raw_open(&r, NULL); /* a stream that is over is used again */
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 1, GET);
    CHECK(t, feed(&r));
    take(&r);
    frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 1, GET);
    check_protocol_error(t, &r, NGHTTP2_STREAM_CLOSED);

    raw_open(&r, NULL); /* a client cannot push */
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, END_HEADERS, 1, POST);
    frame(&r, NGHTTP2_PUSH_PROMISE, END_HEADERS, 1, BYTES("\0\0\0\x02\x82\x86\x84"));
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);
}

static void ends_a_connection_with_priorities_that_make_no_sense(struct test *t)
{
    struct raw r;

    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_PRIORITY, 0, 0, BYTES("\0\0\0\x01\x10"));
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);

    raw_open(&r, NULL); /* a stream that depends on itself */
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_PRIORITY, 0, 3, BYTES("\0\0\0\x03\x10"));
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);
}

static void ends_a_connection_whose_windows_overflow(struct test *t)
{
    struct raw r;

    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_WINDOW_UPDATE, 0, 0, BYTES("\x7f\xff\xff\xff"));
    check_protocol_error(t, &r, NGHTTP2_FLOW_CONTROL_ERROR);

    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES("\0\x04\xff\xff\xff\xff"));
    check_protocol_error(t, &r, NGHTTP2_FLOW_CONTROL_ERROR);

    raw_open(&r, NULL); /* SETTINGS_MAX_FRAME_SIZE of 0 */
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES("\0\x05\0\0\0\0"));
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);
}

static void ends_a_connection_that_sends_past_the_window(struct test *t)
{
    struct raw r;
    static uint8_t data[16384];

    raw_open(&r, NULL);
    r.w.holds_bodies = true;
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_SETTINGS, 0x1, 0, BYTES("")); /* our settings are known */
    frame(&r, NGHTTP2_HEADERS, END_HEADERS, 1, POST);
    CHECK(t, feed(&r));
    take(&r);
    for (int i = 0; i < 66 && !r.w.server->is_closing; i++) {
        frame(&r, NGHTTP2_DATA, 0, 1, (struct bytes){data, sizeof(data)});
        (void)feed(&r);
        take(&r);
    }
    CHECK(t, r.w.seen[0].body.len <= (1 << 20) + sizeof(data));
    uint32_t code = 0;
    CHECK(t, written(&r, NGHTTP2_RST_STREAM, &code) + written(&r, NGHTTP2_GOAWAY, &code) > 0);
    CHECK_INT(t, code, NGHTTP2_FLOW_CONTROL_ERROR);
    raw_done(&r);
}

static void ends_a_connection_with_a_bad_preface(struct test *t)
{
    struct raw r;

    raw_open(&r, NULL);
    buf_clear(&r.in);
    buf_add_str(&r.in, "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    CHECK(t, !feed(&r));
    CHECK(t, r.w.server->is_closing);
    CHECK(t, r.w.server->failure);
    raw_done(&r);

    raw_open(&r, NULL); /* something else than SETTINGS comes first */
    frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 1, GET);
    check_protocol_error(t, &r, NGHTTP2_PROTOCOL_ERROR);
}

static void resets_a_stream_with_endless_trailers(struct test *t)
{
    struct raw r;
    CLEANUP(buf_done) struct buf block = {0};
    uint32_t code = 0;

    for (int i = 0; i < 200; i++)
        buf_add(&block, "\x00\x01x\x01y", 5);
    raw_open(&r, NULL);
    frame(&r, NGHTTP2_SETTINGS, 0, 0, BYTES(""));
    frame(&r, NGHTTP2_HEADERS, END_HEADERS, 1, POST);
    frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 1, buf_bytes(&block));
    CHECK(t, feed(&r));
    take(&r);
    CHECK_INT(t, written(&r, NGHTTP2_RST_STREAM, &code), 1);
    CHECK_INT(t, code, NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK_INT(t, r.w.seen[0].completes, 0);
    CHECK_INT(t, r.w.seen[0].ends, 1);

    /* A few are dropped, and the request is complete. */
    frame(&r, NGHTTP2_HEADERS, END_HEADERS, 3, POST);
    frame(&r, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 3, bytes_head(buf_bytes(&block), 10));
    CHECK(t, feed(&r));
    CHECK_INT(t, r.w.seen[1].completes, 1);
    CHECK_STR(t, buf_cstr(&r.w.seen[1].headers), "");
    raw_done(&r);
}

/* ---- what is not an attack ---- */

static void serves_many_requests_on_one_connection(struct test *t)
{
    struct world w;

    world_open(&w, NULL);
    for (int i = 0; i < 3000; i++) {
        int32_t id = world_request(&w, "GET", "/", NULL, NULL);
        struct seen *s = world_seen(&w, (uint64_t)id);
        s->done = 0;
        buf_clear(&s->headers);
        nghttp2_submit_ping(w.client, NGHTTP2_FLAG_NONE, NULL);
        CHECK(t, world_pump(&w));
        if (s->done != 1) {
            CHECK_INT(t, s->done, 1);
            break;
        }
    }
    CHECK(t, !w.server->failure);
    world_done(&w);
}

static void lets_a_reader_open_its_windows_as_it_reads(struct test *t)
{
    struct http2_guard g;
    int64_t now = 1;

    /* One frame for each 1,500 bytes, in no time at all. */
    http2_guard_init(&g, 65536);
    CHECK(t, !http2_guard_feed(&g, BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), now));
    for (int i = 0; i < 100000; i++) {
        http2_guard_wrote(&g, 1500);
        const char *failure = http2_guard_feed(&g, BYTES("\0\0\4\10\0\0\0\0\0\0\0\5\xdc"), now);
        CHECK(t, !failure);
        if (failure)
            break;
    }
}

static void forgives_with_time(struct test *t)
{
    struct http2_guard g;
    int64_t now = 1;
    struct bytes reset = BYTES("\0\0\4\3\0\0\0\0\1\0\0\0\10");

    http2_guard_init(&g, 65536);
    CHECK(t, !http2_guard_feed(&g, BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), now));
    for (int i = 0; i < HTTP2_RESETS_BURST; i++)
        CHECK(t, !http2_guard_feed(&g, reset, now));
    now += 2 * INT64_C(1000000000);
    for (int i = 0; i < 2 * HTTP2_RESETS_PER_S; i++)
        CHECK(t, !http2_guard_feed(&g, reset, now));
    CHECK_STR(t, http2_guard_feed(&g, reset, now), "a flood of stream resets");
}

/* Streams that were begun and not ended are known up to a number; older ones are passed over. */
static void forgets_the_oldest_of_many_open_streams(struct test *t)
{
    struct http2_guard g;
    uint8_t head[] = {0, 0, 0, 1, 4, 0, 0, 0, 0}, data[] = {0, 0, 0, 0, 1, 0, 0, 0, 0};

    http2_guard_init(&g, 65536);
    CHECK(t, !http2_guard_feed(&g, BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 1));
    for (int id = 1; id <= 2 * HTTP2_GUARD_OPEN_MAX + 1; id += 2) {
        head[8] = (uint8_t)id;
        CHECK(t, !http2_guard_feed(&g, (struct bytes){head, sizeof(head)}, 1));
    }
    CHECK_INT(t, g.forgotten, 1);
    for (int round = 0; round < 2; round++) { /* the second time it has ended */
        data[8] = 1;
        CHECK(t, !http2_guard_feed(&g, (struct bytes){data, sizeof(data)}, 1));
        data[8] = 3;
        const char *failure = http2_guard_feed(&g, (struct bytes){data, sizeof(data)}, 1);
        CHECK_INT(t, failure != NULL, round);
    }
    CHECK_INT(t, g.code, NGHTTP2_STREAM_CLOSED);
}

/* Bytes one by one, a clock that stands still or goes back, and a very long time. */
static void counts_frames_that_come_in_pieces(struct test *t)
{
    struct http2_guard g;
    struct bytes all = BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                             "\0\0\2\1\0\0\0\0\1ab\0\0\1\x09\4\0\0\0\1c");

    http2_guard_init(&g, 65536);
    for (size_t i = 0; i < all.len; i++) {
        CHECK(t, !http2_guard_feed(&g, (struct bytes){all.data + i, 1}, 1000000 - (int64_t)i));
        CHECK_INT(t, http2_guard_in_head(&g), i + 1 < 24 || (i + 1 >= 33 && i + 1 < all.len));
    }
    CHECK(t, !http2_guard_feed(&g, BYTES(""), INT64_MAX));
    CHECK_INT(t, g.resets, HTTP2_RESETS_BURST * 1000);
}

static const struct test_case cases[] = {
    TEST(ends_a_connection_that_resets_rapidly),
    TEST(ends_a_connection_that_makes_us_reset),
    TEST(ends_a_connection_whose_header_block_does_not_end),
    TEST(ends_a_connection_whose_header_block_is_huge),
    TEST(ends_a_connection_that_unpacks_to_too_much),
    TEST(ends_a_flood_of_settings),
    TEST(ends_a_flood_of_pings),
    TEST(ends_a_flood_of_empty_data),
    TEST(ends_a_flood_of_padding),
    TEST(ends_a_flood_of_priorities),
    TEST(ends_a_flood_of_window_updates),
    TEST(ends_a_flood_of_frames_of_no_known_type),
    TEST(does_not_queue_answers_without_bound),
    TEST(refuses_streams_while_much_is_unread),
    TEST(ends_a_connection_that_misuses_stream_ids),
    TEST(ends_a_connection_with_priorities_that_make_no_sense),
    TEST(ends_a_connection_whose_windows_overflow),
    TEST(ends_a_connection_that_sends_past_the_window),
    TEST(ends_a_connection_with_a_bad_preface),
    TEST(resets_a_stream_with_endless_trailers),
    TEST(serves_many_requests_on_one_connection),
    TEST(lets_a_reader_open_its_windows_as_it_reads),
    TEST(forgives_with_time),
    TEST(forgets_the_oldest_of_many_open_streams),
    TEST(counts_frames_that_come_in_pieces),
};
TEST_MAIN(cases)
