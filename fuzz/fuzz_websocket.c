/*
 * What the other side of a WebSocket may say, in pieces of any size: nothing crashes, messages stay
 * under their limit, and how the bytes are cut changes nothing.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "net/websocket.h"

#define MAX 1000

static void read_all(struct bytes in, size_t step, struct buf *told)
{
    struct websocket_reader r = {.max = MAX};
    enum websocket_opcode opcode;
    struct bytes message;
    int got = 0;

    while (in.len > 0 && got >= 0) {
        struct bytes part = bytes_head(in, step);
        in = bytes_from(in, part.len);
        while ((got = websocket_read(&r, &part, &opcode, &message, NULL)) > 0) {
            REQUIRE(message.len <= MAX);
            buf_addf(told, "%d:", (int)opcode);
            buf_add_bytes(told, message);
        }
        REQUIRE(got < 0 || part.len == 0);
    }
    buf_addf(told, "%d", got < 0);
    websocket_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint8_t nonce[WEBSOCKET_NONCE] = "the sample nonce";
    CLEANUP(buf_done) struct buf whole = {0}, cut = {0};
    struct bytes in = {data, len};

    (void)websocket_check_reply(in, nonce, NULL);
    read_all(in, len + 1, &whole);
    read_all(in, len > 0 ? data[0] % 16 + 1 : 1, &cut);
    REQUIRE(bytes_equal(buf_bytes(&whole), buf_bytes(&cut)));
    return 0;
}
