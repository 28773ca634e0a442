/* The WebSocket client by bytes: the examples of RFC 6455, and what no server may send. */
#include <errno.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "net/websocket.h"

static const uint8_t nonce[WEBSOCKET_NONCE] = "the sample nonce"; /* of RFC 6455, section 1.3 */

#define REPLY                                                                                      \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"            \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

static void the_handshake_is_that_of_the_standard(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct error err;

    websocket_request("127.0.0.1:9229", "/id", nonce, &out);
    const char *text = buf_cstr(&out);
    CHECK(t, strstr(text, "GET /id HTTP/1.1\r\nHost: 127.0.0.1:9229\r\n") == text);
    CHECK(t, strstr(text, "\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"));
    CHECK_INT(t, websocket_check_reply(BYTES(REPLY "\r\n"), nonce, &err), 0);
}

static void a_reply_that_does_not_agree_is_refused(struct test *t)
{
    static const char *const bad[] = {
        "",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: AAAALMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        REPLY "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
    };
    struct error err;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK_INT(t, websocket_check_reply(bytes_of(bad[i]), nonce, &err), -EBADMSG);
}

static void frames_are_masked_and_as_short_as_can_be(struct test *t)
{
    static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    static const uint8_t hello[] = {0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d,
                                    0x7f, 0x9f, 0x4d, 0x51, 0x58};
    CLEANUP(buf_done) struct buf out = {0}, large = {0};

    websocket_put(&out, WEBSOCKET_TEXT, BYTES("Hello"), mask);
    CHECK(t, bytes_equal(buf_bytes(&out), (struct bytes){hello, sizeof(hello)}));
    for (size_t i = 0; i < 65536; i++)
        buf_add_byte(&large, 'x');
    buf_clear(&out);
    websocket_put(&out, WEBSOCKET_BINARY, (struct bytes){large.data, 126}, mask);
    CHECK_INT(t, out.len, 2 + 2 + 4 + 126);
    CHECK_INT(t, out.data[1], 0x80 | 126);
    buf_clear(&out);
    websocket_put(&out, WEBSOCKET_BINARY, buf_bytes(&large), mask);
    CHECK_INT(t, out.len, 2 + 8 + 4 + 65536);
    CHECK(t, memcmp(out.data, "\x82\xff\0\0\0\0\0\1\0\0", 10) == 0);
}

/* "1:text 9:ping" for a text and a ping, or "error" at the end; `step` bytes at a time. */
static const char *read_all(struct bytes in, size_t max, size_t step, struct buf *out)
{
    struct websocket_reader r = {.max = max};
    enum websocket_opcode opcode;
    struct bytes message;
    int got = 0;

    buf_clear(out);
    while (in.len > 0 && got >= 0) {
        struct bytes part = bytes_head(in, step);
        in = bytes_from(in, part.len);
        while ((got = websocket_read(&r, &part, &opcode, &message, NULL)) > 0)
            buf_addf(out, "%d:%.*s ", (int)opcode, (int)message.len, (const char *)message.data);
    }
    if (got < 0)
        buf_add_str(out, got == -EMSGSIZE ? "large" : "bad");
    websocket_reader_done(&r);
    return buf_cstr(out);
}

#define READ(bytes, max, step, out) read_all(BYTES(bytes), max, step, out)

static void messages_are_read_however_they_are_cut(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};

    for (size_t step = 1; step < 20; step++) {
        CHECK_STR(t, READ("\x81\x05Hello\x81\x00\x82\x02..", 5, step, &out), "1:Hello 1: 2:.. ");
        /* In parts, with a ping between them. */
        CHECK_STR(t, READ("\x01\x03Hel\x89\x04ping\x80\x02lo\x88\x02\x03\xe8", 5, step, &out),
                  "9:ping 1:Hello 8:\x03\xe8 ");
    }
}

static void long_messages_are_read(struct test *t)
{
    CLEANUP(buf_done) struct buf frame = {0}, out = {0};

    buf_add(&frame, "\x81\x7e\x01\x2c", 4);
    for (int i = 0; i < 300; i++)
        buf_add_byte(&frame, 'a');
    CHECK_INT(t, strlen(read_all(buf_bytes(&frame), 300, 7, &out)), 2 + 300 + 1);
    CHECK_STR(t, read_all(buf_bytes(&frame), 299, 7, &out), "large");
    buf_clear(&frame);
    buf_add(&frame, "\x82\x7f\0\0\0\0\0\x01\0\0", 10);
    for (int i = 0; i < 65536; i++)
        buf_add_byte(&frame, 'b');
    CHECK_INT(t, strlen(read_all(buf_bytes(&frame), 70000, 1000, &out)), 2 + 65536 + 1);
}

static void limits_hold_before_anything_is_kept(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};

    CHECK_STR(t, READ("\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", 1000, 3, &out), "large");
    CHECK_STR(t, READ("\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 1000, 3, &out), "large");
    CHECK_STR(t,
              READ("\x01\x03"
                   "abc"
                   "\x80\x03"
                   "def",
                   5, 3, &out),
              "large");
}

static void what_no_server_may_send_is_refused(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};

    CHECK_STR(t, READ("\x81\x81mask!", 100, 9, &out), "bad"); /* masked */
    CHECK_STR(t,
              READ("\xc1\x01"
                   "x",
                   100, 9, &out),
              "bad"); /* a reserved bit */
    CHECK_STR(t,
              READ("\x83\x01"
                   "x",
                   100, 9, &out),
              "bad"); /* an unknown opcode */
    CHECK_STR(t,
              READ("\x8b\x01"
                   "x",
                   100, 9, &out),
              "bad"); /* and another */
    CHECK_STR(t,
              READ("\x80\x01"
                   "x",
                   100, 9, &out),
              "bad"); /* goes on with nothing */
    CHECK_STR(t,
              READ("\x01\x01"
                   "x\x81\x01"
                   "y",
                   100, 9, &out),
              "bad"); /* begins in between */
    CHECK_STR(t,
              READ("\x09\x01"
                   "x",
                   100, 9, &out),
              "bad");                                                 /* a ping in parts */
    CHECK_STR(t, READ("\x89\x7e\x00\x7e", 1000, 9, &out), "bad");     /* a ping too long */
    CHECK_STR(t, READ("\x81\x7e\x00\x05Hello", 100, 9, &out), "bad"); /* length, the long way */
    CHECK_STR(t, READ("\x81\x7f\0\0\0\0\0\0\0\x05Hello", 100, 9, &out), "bad");
}

static const struct test_case cases[] = {
    TEST(the_handshake_is_that_of_the_standard),
    TEST(a_reply_that_does_not_agree_is_refused),
    TEST(frames_are_masked_and_as_short_as_can_be),
    TEST(messages_are_read_however_they_are_cut),
    TEST(long_messages_are_read),
    TEST(limits_hold_before_anything_is_kept),
    TEST(what_no_server_may_send_is_refused),
};

TEST_MAIN(cases)
