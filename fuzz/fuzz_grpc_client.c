/*
 * What a server may say to a client of gRPC, in pieces of any size, over several calls: nothing
 * crashes, nothing grows without end, and an answer is one only when there was a status.
 */
#include "base/cleanup.h"
#include "fuzz.h"
#include "net/grpc_client_session.h"

#define CALLS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CLEANUP(grpc_session_freep) struct grpc_session *s = grpc_session_new();
    CLEANUP(buf_done) struct buf out = {0};
    struct bytes in = {data, len};
    size_t step = len > 0 ? data[0] % 64 + 1 : 1;

    for (int i = 0; i < CALLS; i++) {
        struct grpc_request r = {.path = "/a.B/C", .message = BYTES("message"), .answer_max = 1000};
        struct grpc_answer a = {0};
        bool is_open = grpc_session_begin(s, &r, "host:1", false) == 0;
        if (!is_open)
            break;
        while (in.len > 0 && is_open && !grpc_session_is_answered(s)) {
            struct bytes part = bytes_head(in, step);
            grpc_session_output(s, &out);
            is_open = grpc_session_feed(s, part);
            in = bytes_from(in, part.len);
        }
        grpc_session_output(s, &out);
        if (!grpc_session_is_answered(s))
            break;
        if (grpc_session_answer(s, &a, NULL) == 0) {
            REQUIRE(a.code < GRPC_CODE_COUNT && a.retry_ms >= -1);
            REQUIRE(a.body.len <= 1000);
            (void)grpc_should_retry(&a);
            grpc_answer_done(&a);
        }
        buf_clear(&out);
    }
    return 0;
}
