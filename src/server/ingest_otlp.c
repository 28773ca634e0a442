/* OTLP: profiles; and logs and metrics, of which nothing is kept. */
#include <errno.h>

#include "formats/format.h"
#include "server/ingest.h"
#include "server/otlp_reply.h"
#include "server/server_internal.h"
#include "wire/json.h"
#include "wire/proto_json.h"
#include "wire/protobuf.h"

int otlp_check_type(const struct call *c, struct error *err)
{
    static const char *const known[] = {"application/x-protobuf", "application/protobuf",
                                        "application/json"};
    struct bytes type = http_media_type(call_header(c, "content-type"));

    if (c->route->dialect == DIALECT_RPC && c->protocol != RPC_NONE)
        return 0;
    for (size_t i = 0; c->route->dialect != DIALECT_RPC && i < ARRAY_SIZE(known); i++) {
        if (bytes_are(type, known[i]))
            return 0;
    }
    return error_set(err, -EMEDIUMTYPE, "content-type \"%.*s\" is not %s",
                     (int)(type.len < 64 ? type.len : 64), (const char *)type.data,
                     c->route->dialect == DIALECT_RPC
                         ? "application/grpc, application/proto or application/json"
                         : "application/x-protobuf or application/json");
}

void otlp_reply(struct call *c, const char *json_name, size_t rejected, const char *why)
{
    CLEANUP(buf_done) struct buf out = {0};

    if (rejected > 0 && c->is_json) {
        struct json_writer w = {.out = &out};
        json_begin_object(&w);
        json_key(&w, "partialSuccess");
        json_begin_object(&w);
        json_key(&w, json_name);
        json_u64_string(&w, rejected);
        json_key(&w, "errorMessage");
        json_cstring(&w, why);
        json_end_object(&w);
        json_end_object(&w);
    } else if (rejected > 0) {
        size_t at = pb_begin(&out, 1);
        pb_put_u64(&out, 1, rejected);
        proto_put_text(&out, 2, bytes_of(why));
        pb_end(&out, at);
    }
    call_reply_message(c, &out);
}

static int export_profiles(struct call *c, struct error *err)
{
    struct ingest_options o = {.format = c->is_json ? "otlp-json" : "otlp"};
    struct ingest_result result = {0};
    CLEANUP(input_closep) struct input *in = NULL;

    int r = otlp_check_type(c, err);
    if (r == 0)
        r = call_input(c, "body", &in, err);
    if (r == 0 && c->body.len > 0)
        r = format_by_name(o.format)->decode(in, c->worker->source->set, err);
    if (r == 0)
        r = ingest_set(c, &o, &result, err);
    if (r < 0)
        return r;
    otlp_reply(c, "rejectedProfiles", result.rejected, result.why.text);
    return 0;
}

static int export_nothing(struct call *c, struct error *err)
{
    int r = otlp_check_type(c, err);

    if (r < 0)
        return r;
    if (!c->server->config->accept_logs_and_metrics)
        return error_set(err, -EOPNOTSUPP,
                         "%s are not kept here: send profiles and traces (with "
                         "ingest.accept_logs_and_metrics they are taken and dropped)",
                         c->route->argument ? "metrics" : "logs");
    otlp_reply(c, "", 0, "");
    return 0;
}

#define EXPORT(the_path, the_dialect, the_handler, the_argument)                                   \
    {                                                                                              \
        .method = "POST", .path = (the_path), .role = ROLE_INGEST, .lane = LANE_INGEST,            \
        .dialect = (the_dialect), .handle = (the_handler), .argument = (the_argument)              \
    }
#define SERVICE(name) "/opentelemetry.proto.collector." name "/Export"

const struct route otlp_routes[] = {
    EXPORT(SERVICE("profiles.v1development.ProfilesService"), DIALECT_RPC, export_profiles, 0),
    EXPORT(SERVICE("profiles.v1.ProfilesService"), DIALECT_RPC, export_profiles, 0),
    EXPORT("/v1development/profiles", DIALECT_OTLP, export_profiles, 0),
    EXPORT("/v1/profiles", DIALECT_OTLP, export_profiles, 0),
    EXPORT(SERVICE("logs.v1.LogsService"), DIALECT_RPC, export_nothing, 0),
    EXPORT("/v1/logs", DIALECT_OTLP, export_nothing, 0),
    EXPORT(SERVICE("metrics.v1.MetricsService"), DIALECT_RPC, export_nothing, 1),
    EXPORT("/v1/metrics", DIALECT_OTLP, export_nothing, 1),
    {0},
};
