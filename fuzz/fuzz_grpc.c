/* Bodies, timeouts, details and base64 of RPCs: what is read can be written again, and what is
 * written is JSON. */
#include <string.h>

#include "base/cleanup.h"
#include "fuzz.h"
#include "net/grpc.h"
#include "wire/base64.h"
#include "wire/json.h"

static void require_json(struct bytes text)
{
    struct budget budget;

    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);
    json_reader_set_text(r, text, 0);
    json_skip(r);
    REQUIRE(json_finish(r, "json", NULL) == 0);
}

static void statuses(struct bytes in)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct http_reply reply = {0};
    struct rpc_status s = {(enum grpc_code)(in.len % 20), bytes_head(in, in.len / 3),
                           bytes_from(in, in.len / 3)};

    rpc_status_json(&s, &out);
    require_json(buf_bytes(&out));
    buf_clear(&out);
    connect_error_json(&s, &out);
    require_json(buf_bytes(&out));
    grpc_reply_error(&reply, RPC_GRPC, &s);
    REQUIRE(reply.is_head_only && reply.head.len > 0);
    http_reply_done(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CLEANUP(buf_done) struct buf b = {0}, c = {0};
    struct bytes in = {data, len};
    struct grpc_message m;
    int64_t ns = 0;

    if (grpc_read_message(in, BYTES("gzip"), &m, NULL) == 0) {
        buf_add_bytes(&b, m.data);
        grpc_frame(&b, m.encoding == GRPC_GZIP);
        REQUIRE(bytes_equal(buf_bytes(&b), in));
        buf_clear(&b);
    }
    REQUIRE(!grpc_timeout(in, &ns) || ns >= 0);
    REQUIRE(!connect_timeout(in, &ns) || ns >= 0);
    (void)rpc_protocol_of(in);
    base64_encode(in, len % 2, &b);
    REQUIRE(base64_decode(buf_bytes(&b), &c) && bytes_equal(buf_bytes(&c), in));
    (void)base64_decode(in, &c);
    statuses(in);
    return 0;
}
