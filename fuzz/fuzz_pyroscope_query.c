#include "fuzz_server.h"

/*
 * Questions of Grafana's kind to a server that holds a few profiles: the first byte chooses the
 * method, the second the codec, the rest is the message (or the query string of /pyroscope/render).
 * No crash; every answer is a success or the client's fault. "@" in JSON and in queries stands for
 * the present time in milliseconds, so that there is something to find.
 *
 * Links: server.
 */
static const char *const methods[] = {
    "ProfileTypes",
    "LabelNames",
    "LabelValues",
    "Series",
    "SelectMergeStacktraces",
    "SelectMergeSpanProfile",
    "SelectMergeProfile",
    "SelectSeries",
    "SelectHeatmap",
    "Diff",
    "GetProfileStats",
    "AnalyzeQuery",
};
static const char *const plain[] = {"/pyroscope/render?", "/pyroscope/render-diff?",
                                    "/pyroscope/label-values?"};

/* The input with the time put in. */
static void put_time(struct bytes in, struct buf *out)
{
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i] == '@')
            buf_add_i64(out, clock_wall_ns(clock_real()) / 1000000);
        else if (in.data[i] != 0)
            buf_add_byte(out, in.data[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct calls *calls = fuzz_filled_server();
    CLEANUP(buf_done) struct buf target = {0}, text = {0};
    struct http_reply r;

    if (len < 2)
        return 0;
    struct bytes body = {data + 2, len - 2};
    size_t which = data[0] % (ARRAY_SIZE(methods) + ARRAY_SIZE(plain));
    if (which >= ARRAY_SIZE(methods)) {
        buf_add_str(&target, plain[which - ARRAY_SIZE(methods)]);
        put_time(body, &target);
        r = call_get(calls, buf_cstr(&target));
    } else {
        bool is_json = data[1] % 2 == 0;
        buf_addf(&target, "/querier.v1.QuerierService/%s", methods[which]);
        if (is_json)
            put_time(body, &text);
        r = call_post(calls, buf_cstr(&target), is_json ? "application/json" : "application/proto",
                      is_json ? buf_bytes(&text) : body);
    }
    REQUIRE(r.status == 200 || (r.status >= 400 && r.status < 500));
    http_reply_done(&r);
    return 0;
}
