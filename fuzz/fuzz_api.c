#include "fuzz_server.h"

/*
 * Questions to a server that holds a few profiles: a target behind /api/v1/, a newline, and a body
 * (JSON when it begins with a brace). No crash; every answer is a success or the client's fault.
 *
 * Links: server.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct calls *calls = fuzz_filled_server();
    struct bytes in = {data, len}, body = {0};
    const uint8_t *end = bytes_find_byte(in, '\n');
    CLEANUP(buf_done) struct buf target = {0};

    buf_add_str(&target, "/api/v1/");
    for (size_t i = 0; i < len && in.data[i] != '\n'; i++)
        if (in.data[i] != 0) /* the parser of requests lets none through */
            buf_add_byte(&target, in.data[i]);
    if (end)
        body = bytes_from(in, (size_t)(end - in.data) + 1);
    bool is_json = body.len > 0 && body.data[0] == '{';
    struct http_reply r =
        body.len > 0
            ? call_post(calls, buf_cstr(&target),
                        is_json ? "application/json" : "application/x-www-form-urlencoded", body)
            : call_get(calls, buf_cstr(&target));
    /* 501: what a file cannot be asked, what needs a data directory. */
    REQUIRE(r.status == 200 || r.status == 201 || r.status == 501 ||
            (r.status >= 400 && r.status < 500));
    REQUIRE(r.status == 200 || r.body.len > 0);
    http_reply_done(&r);
    return 0;
}
