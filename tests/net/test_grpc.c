#include <errno.h>

#include "base/cleanup.h"
#include "lib/test.h"
#include "net/grpc.h"
#include "wire/base64.h"
#include "wire/protobuf.h"

#define MESSAGE(flag, n, text) BYTES(flag "\0\0\0" n text)

static void reads_one_message(struct test *t)
{
    struct grpc_message m;
    struct error err;

    CHECK_INT(t, grpc_read_message(MESSAGE("\0", "\3", "abc"), BYTES(""), &m, &err), 0);
    CHECK(t, bytes_are(m.data, "abc"));
    CHECK_INT(t, m.encoding, GRPC_IDENTITY);
    CHECK_INT(t, grpc_read_message(MESSAGE("\0", "\0", ""), BYTES("gzip"), &m, &err), 0);
    CHECK_INT(t, m.data.len, 0);
    CHECK_INT(t, m.encoding, GRPC_IDENTITY);
    CHECK_INT(t, grpc_read_message(MESSAGE("\1", "\1", "z"), BYTES("gzip"), &m, &err), 0);
    CHECK_INT(t, m.encoding, GRPC_GZIP);
    CHECK_INT(t, grpc_read_message(MESSAGE("\1", "\1", "z"), BYTES("zstd"), &m, &err), 0);
    CHECK_INT(t, m.encoding, GRPC_ZSTD);
    CHECK_INT(t, grpc_read_message(MESSAGE("\1", "\1", "z"), BYTES("identity"), &m, &err), 0);
    CHECK_INT(t, m.encoding, GRPC_IDENTITY);
}

static void names_what_is_wrong_with_a_message(struct test *t)
{
    static const struct {
        struct bytes body;
        const char *encoding;
        int r;
        const char *text;
    } bad[] = {
        {BYTES(""), "", -EBADMSG, "the body has 0 bytes"},
        {BYTES("\0\0\0\0"), "", -EBADMSG, "the body has 4 bytes"},
        {BYTES("\0\0\0\0\4abc"), "", -EBADMSG, "4 bytes are announced and 3 are here"},
        {BYTES("\0\xff\xff\xff\xff!"), "", -EBADMSG, "4294967295 bytes are announced and 1 are"},
        {BYTES("\0\0\0\0\1ab"), "", -EBADMSG, "1 bytes follow the first message"},
        {BYTES("\0\0\0\0\1a\0\0\0\0\0"), "", -EBADMSG, "5 bytes follow the first message"},
        {BYTES("\2\0\0\0\1a"), "", -EBADMSG, "its first byte is 2"},
        {BYTES("\x80\0\0\0\1a"), "", -EBADMSG, "its first byte is 128"},
        {BYTES("\1\0\0\0\1a"), "", -EBADMSG, "there is no grpc-encoding"},
        {BYTES("\1\0\0\0\1a"), "snappy", -EOPNOTSUPP, "\"snappy\" is not supported (gzip, zstd"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct grpc_message m = {.encoding = GRPC_ZSTD};
        struct error err = {""};
        CHECK_INT(t, grpc_read_message(bad[i].body, bytes_of(bad[i].encoding), &m, &err), bad[i].r);
        CHECK(t, strstr(err.text, bad[i].text));
        CHECK_INT(t, m.encoding, GRPC_ZSTD);
    }
}

static void frames_a_message_in_place(struct test *t)
{
    CLEANUP(buf_done) struct buf b = {0};
    struct grpc_message m;

    grpc_frame(&b, false);
    CHECK(t, bytes_equal(buf_bytes(&b), BYTES("\0\0\0\0\0")));
    buf_clear(&b);
    for (int i = 0; i < 70000; i++)
        buf_add_byte(&b, (uint8_t)i);
    grpc_frame(&b, true);
    CHECK(t, bytes_equal(bytes_head(buf_bytes(&b), 6), BYTES("\1\0\1\x11\x70\0")));
    CHECK_INT(t, grpc_read_message(buf_bytes(&b), BYTES("gzip"), &m, NULL), 0);
    CHECK_INT(t, m.data.len, 70000);
    CHECK_INT(t, m.data.data[69999], 69999 & 255);
}

static void reads_timeouts(struct test *t)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"100m", 100000000},
        {"5S", 5000000000},
        {"1H", INT64_C(3600000000000)},
        {"2M", INT64_C(120000000000)},
        {"7u", 7000},
        {"99999999n", 99999999},
        {"0S", 0},
        {"99999999H", INT64_MAX},
    };
    static const char *const bad[] = {"",    "S",    "5",          "5s",  "-1S",
                                      "+1S", "1.5S", "123456789S", " 1S", "1 S"};
    int64_t ns;

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        ns = -1;
        CHECK(t, grpc_timeout(bytes_of(good[i].text), &ns));
        CHECK_INT(t, ns, good[i].ns);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK(t, !grpc_timeout(bytes_of(bad[i]), &ns));
    CHECK(t, connect_timeout(BYTES("1500"), &ns));
    CHECK_INT(t, ns, 1500000000);
    CHECK(t, connect_timeout(BYTES("9999999999"), &ns));
    CHECK_INT(t, ns, INT64_C(9999999999000000));
    CHECK(t, !connect_timeout(BYTES("10000000000"), &ns));
    CHECK(t, !connect_timeout(BYTES("1s"), &ns));
    CHECK(t, !connect_timeout(BYTES(""), &ns));
}

static void knows_protocols_by_content_type(struct test *t)
{
    CHECK_INT(t, rpc_protocol_of(BYTES("application/grpc")), RPC_GRPC);
    CHECK_INT(t, rpc_protocol_of(BYTES("application/grpc+proto")), RPC_GRPC);
    CHECK_INT(t, rpc_protocol_of(BYTES("Application/GRPC ; x=y")), RPC_GRPC);
    CHECK_INT(t, rpc_protocol_of(BYTES("application/grpc+json")), RPC_NONE);
    CHECK_INT(t, rpc_protocol_of(BYTES("application/grpc-web+proto")), RPC_GRPC_WEB);
    CHECK_INT(t, rpc_protocol_of(BYTES("application/proto")), RPC_CONNECT_PROTO);
    CHECK_INT(t, rpc_protocol_of(BYTES("application/json; charset=utf-8")), RPC_CONNECT_JSON);
    CHECK_INT(t, rpc_protocol_of(BYTES("text/plain")), RPC_NONE);
    CHECK_INT(t, rpc_protocol_of(BYTES("")), RPC_NONE);
}

static void has_a_name_for_every_code(struct test *t)
{
    for (int i = 0; i < GRPC_CODE_COUNT; i++) {
        CHECK(t, connect_code_name((enum grpc_code)i)[0] >= 'a');
        CHECK(t, connect_http_status((enum grpc_code)i) >= 200);
    }
    CHECK_INT(t, GRPC_UNAUTHENTICATED, 16);
    CHECK_STR(t, connect_code_name(GRPC_CANCELLED), "canceled");
    CHECK_STR(t, connect_code_name((enum grpc_code)99), "unknown");
    CHECK_STR(t, connect_code_name((enum grpc_code) - 1), "unknown");
    CHECK_INT(t, connect_http_status(GRPC_UNIMPLEMENTED), 501);
}

static void escapes_messages(struct test *t)
{
    CLEANUP(buf_done) struct buf b = {0};

    grpc_percent_encode(BYTES("50% of \"caf\xc3\xa9\"\n~"), &b);
    CHECK_STR(t, buf_cstr(&b), "50%25 of \"caf%C3%A9\"%0A~");
}

static struct rpc_status example(struct buf *details)
{
    rpc_detail_retry(details, 1500000000);
    return (struct rpc_status){GRPC_RESOURCE_EXHAUSTED, BYTES("too much"), buf_bytes(details)};
}

/* As `protoc --encode=google.rpc.Status` writes it. */
static void writes_a_status_as_protobuf(struct test *t)
{
    CLEANUP(buf_done) struct buf details = {0}, out = {0};
    struct rpc_status s = example(&details);

    rpc_status_proto(&s, &out);
    CHECK(t, bytes_equal(buf_bytes(&out),
                         BYTES("\x08\x08\x12\x08too much"
                               "\x1a\x36\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x0a"
                               "\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01")));
}

static void writes_a_status_as_json(struct test *t)
{
    CLEANUP(buf_done) struct buf details = {0}, out = {0};
    struct rpc_status s = example(&details);

    rpc_status_json(&s, &out);
    CHECK_STR(
        t, buf_cstr(&out),
        "{\"code\":8,\"message\":\"too much\",\"details\":["
        "{\"@type\":\"type.googleapis.com/google.rpc.RetryInfo\",\"retryDelay\":\"1.500s\"}]}");
    buf_clear(&out);
    rpc_status_json(&(struct rpc_status){.code = GRPC_NOT_FOUND, .message = BYTES("x")}, &out);
    CHECK_STR(t, buf_cstr(&out), "{\"code\":5,\"message\":\"x\",\"details\":[]}");
}

static void writes_delays_with_the_digits_they_need(struct test *t)
{
    static const struct {
        int64_t ns;
        const char *text;
    } delays[] = {
        {0, "\"0s\""},
        {-5, "\"0s\""},
        {30000000000, "\"30s\""},
        {250000000, "\"0.250s\""},
        {1, "\"0.000000001s\""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(delays); i++) {
        CLEANUP(buf_done) struct buf details = {0}, out = {0};
        rpc_detail_retry(&details, delays[i].ns);
        rpc_status_json(&(struct rpc_status){.code = 8, .details = buf_bytes(&details)}, &out);
        CHECK(t, strstr(buf_cstr(&out), delays[i].text));
    }
}

static void writes_errors_as_connect_has_them(struct test *t)
{
    CLEANUP(buf_done) struct buf details = {0};
    struct rpc_status s = example(&details);
    struct http_reply reply = {0};
    struct http_header h;

    buf_add_str(&reply.body, "half a reply");
    connect_reply_error(&reply, &s);
    CHECK_INT(t, reply.status, 429);
    CHECK_STR(t, buf_cstr(&reply.body),
              "{\"code\":\"resource_exhausted\",\"message\":\"too much\",\"details\":["
              "{\"type\":\"google.rpc.RetryInfo\",\"value\":\"CggIARCAyrXuAQ\"}]}");
    struct bytes head = buf_bytes(&reply.head);
    CHECK(t, http_reply_next(&head, &h) && bytes_are(h.name, "content-type"));
    CHECK(t, bytes_are(h.value, "application/json"));
    http_reply_done(&reply);

    connect_reply_error(&reply, &(struct rpc_status){.code = GRPC_UNIMPLEMENTED});
    CHECK_INT(t, reply.status, 501);
    CHECK_STR(t, buf_cstr(&reply.body), "{\"code\":\"unimplemented\"}");
    http_reply_done(&reply);
}

/* "name: value\n" of all fields. */
static const char *fields(struct buf *scratch, const struct buf *encoded)
{
    struct bytes rest = buf_bytes(encoded);
    struct http_header h;

    buf_clear(scratch);
    while (http_reply_next(&rest, &h))
        buf_addf(scratch, "%.*s: %.*s\n", (int)h.name.len, (const char *)h.name.data,
                 (int)h.value.len, (const char *)h.value.data);
    return buf_cstr(scratch);
}

static void fills_in_a_reply_of_grpc(struct test *t)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct http_reply reply = {0};

    buf_add_str(&reply.body, "abc");
    grpc_reply_ok(&reply, RPC_GRPC, GRPC_IDENTITY);
    CHECK(t, bytes_equal(buf_bytes(&reply.body), BYTES("\0\0\0\0\3abc")));
    CHECK_STR(t, fields(&text, &reply.head), "content-type: application/grpc\n");
    CHECK_STR(t, fields(&text, &reply.trailers), "grpc-status: 0\n");
    CHECK(t, !reply.is_head_only);
    http_reply_done(&reply);

    buf_add_str(&reply.body, "zip");
    grpc_reply_ok(&reply, RPC_GRPC, GRPC_GZIP);
    CHECK(t, bytes_equal(buf_bytes(&reply.body), BYTES("\1\0\0\0\3zip")));
    CHECK_STR(t, fields(&text, &reply.head),
              "content-type: application/grpc\ngrpc-encoding: gzip\n");
    http_reply_done(&reply);
}

static void fills_in_a_reply_of_grpc_web(struct test *t)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct http_reply reply = {0};

    buf_add_str(&reply.body, "abc");
    grpc_reply_ok(&reply, RPC_GRPC_WEB, GRPC_IDENTITY);
    CHECK(t, bytes_equal(buf_bytes(&reply.body),
                         BYTES("\0\0\0\0\3abc\x80\0\0\0\x10grpc-status: 0\r\n")));
    CHECK_STR(t, fields(&text, &reply.head), "content-type: application/grpc-web+proto\n");
    CHECK_INT(t, reply.trailers.len, 0);
    http_reply_done(&reply);
}

static void fills_in_an_error_of_grpc(struct test *t)
{
    CLEANUP(buf_done) struct buf text = {0}, details = {0}, status = {0}, want = {0};
    struct rpc_status s = example(&details);
    struct http_reply reply = {0};
    struct bytes rest;
    struct http_header h;

    s.message = BYTES("100%");
    buf_add_str(&reply.body, "half a reply");
    grpc_reply_error(&reply, RPC_GRPC, &s);
    CHECK_INT(t, reply.status, 200);
    CHECK(t, reply.is_head_only);
    CHECK_INT(t, reply.body.len, 0);
    CHECK(t, strstr(fields(&text, &reply.head), "content-type: application/grpc\ngrpc-status: 8\n"
                                                "grpc-message: 100%25\ngrpc-status-details-bin: "));
    rest = buf_bytes(&reply.head);
    while (http_reply_next(&rest, &h) && !bytes_are(h.name, "grpc-status-details-bin"))
        ;
    CHECK(t, base64_decode(h.value, &status));
    rpc_status_proto(&s, &want);
    CHECK(t, bytes_equal(buf_bytes(&status), buf_bytes(&want)));
    http_reply_done(&reply);

    grpc_reply_error(&reply, RPC_GRPC, &(struct rpc_status){.code = GRPC_UNIMPLEMENTED});
    CHECK_STR(t, fields(&text, &reply.head),
              "content-type: application/grpc\ngrpc-status: 12\n"
              "grpc-accept-encoding: identity,gzip,zstd\n");
    http_reply_done(&reply);
}

/* Details that are not ours, or not sound, must not break the text. */
static void leaves_out_details_that_cannot_be_read(struct test *t)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct rpc_status s = {GRPC_INTERNAL, BYTES("m"), BYTES("\x1a\x05\x0a\x03x/y\x1a\x7f")};

    rpc_status_json(&s, &out);
    CHECK_STR(t, buf_cstr(&out),
              "{\"code\":13,\"message\":\"m\",\"details\":"
              "[{\"@type\":\"type.googleapis.com/x/y\"}]}");
}

static const struct test_case cases[] = {
    TEST(reads_one_message),
    TEST(names_what_is_wrong_with_a_message),
    TEST(frames_a_message_in_place),
    TEST(reads_timeouts),
    TEST(knows_protocols_by_content_type),
    TEST(has_a_name_for_every_code),
    TEST(escapes_messages),
    TEST(writes_a_status_as_protobuf),
    TEST(writes_a_status_as_json),
    TEST(writes_delays_with_the_digits_they_need),
    TEST(writes_errors_as_connect_has_them),
    TEST(fills_in_a_reply_of_grpc),
    TEST(fills_in_a_reply_of_grpc_web),
    TEST(fills_in_an_error_of_grpc),
    TEST(leaves_out_details_that_cannot_be_read),
};
TEST_MAIN(cases)
