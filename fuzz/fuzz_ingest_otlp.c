#include "fuzz_server.h"

/* The ways that exporters take; what follows the first byte of an input is the body. */
static const struct {
    const char *path, *type;
} ways[] = {
    {"/v1development/profiles", "application/x-protobuf"},
    {"/v1/profiles", "application/json"},
    {"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
     "application/grpc"},
    {"/v1/traces", "application/x-protobuf"},
    {"/v1/traces", "application/json"},
    {"/opentelemetry.proto.collector.trace.v1.TraceService/Export", "application/grpc"},
    {"/v1/logs", "application/json"},
    {"/api/v1/deployments", "application/json"},
};

/* Any body: no crash, and an answer that is the client's fault or success. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    size_t way = data[0] % ARRAY_SIZE(ways);
    struct http_reply r = call_post(fuzz_empty_server(), ways[way].path, ways[way].type,
                                    (struct bytes){data + 1, len - 1});
    REQUIRE(r.status == 200 || r.status == 400 || r.status == 413 || r.status == 501);
    http_reply_done(&r);
    return 0;
}
