/*
 * /ingest, Push and uploads, through everything but the network. The first byte chooses the route
 * and what the query string and the content type say; the rest is the body.
 */
#include "fuzz_server.h"

static const struct {
    const char *path, *query, *type;
} kinds[] = {
    {"/ingest", "name=app.cpu{k=v}&from=now-1m&until=now", "text/plain"},
    {"/ingest", "name=app&format=pprof", ""},
    {"/ingest", "name=app", "multipart/form-data; boundary=x"},
    {"/ingest", "name=app&format=jfr", "multipart/form-data; boundary=x"},
    {"/ingest", "name=app&format=jfr", ""},
    {"/ingest", "name=app.wall&format=lines", ""},
    {"/ingest", "name=app.wall&format=tree", ""},
    {"/ingest", "name=app&format=trie", ""},
    {"/ingest", "name=app&format=speedscope", ""},
    {"/push.v1.PusherService/Push", "", "application/proto"},
    {"/push.v1.PusherService/Push", "", "application/json"},
    {"/push.v1.PusherService/Push", "", "application/grpc"},
    {"/api/v1/profiles", "service.name=app", ""},
    {"/v1/pprof", "service.name=app&label.x=y", ""},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char target[200];

    if (len == 0)
        return 0;
    size_t kind = data[0] % ARRAY_SIZE(kinds);
    snprintf(target, sizeof(target), "%s?%s", kinds[kind].path, kinds[kind].query);
    struct http_reply reply =
        call_post(fuzz_empty_server(), target, kinds[kind].type, (struct bytes){data + 1, len - 1});
    /* Whatever was sent, it is the sender's fault or nobody's. */
    REQUIRE(reply.status == 200 || reply.status == 400 || reply.status == 413 ||
            reply.status == 422);
    http_reply_done(&reply);
    return 0;
}
