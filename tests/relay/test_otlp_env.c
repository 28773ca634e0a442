#include <errno.h>

#include "lib/test.h"
#include "relay/otlp_env.h"

struct world {
    struct agent_config config;
    struct export_settings s;
    struct error err;
    int r;
};

static void make(struct world *w, const char *const *env)
{
    w->err.text[0] = '\0';
    w->r = export_settings_make(&w->config, env, &w->s, &w->err);
}

#define ENV(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void without_a_word_it_is_this_host_and_zstd(struct test *t)
{
    struct world w = {0};

    make(&w, ENV());
    CHECK_INT(t, w.r, 0);
    CHECK_INT(t, w.s.n_targets, 1);
    CHECK_INT(t, w.s.targets[0].kind, EXPORT_HTTP);
    CHECK_STR(t, w.s.targets[0].url, "http://127.0.0.1:4318/v1development/profiles");
    CHECK_STR(t, w.s.server, "http://127.0.0.1:4318");
    CHECK_INT(t, w.s.codec, CODEC_ZSTD);
    CHECK_INT(t, w.s.timeout_ns, 10000000000);
    export_settings_done(&w.s);
}

static void exporters_of_the_configuration_are_told_apart(struct test *t)
{
    struct world w = {.config.exporters = {.items = {"http://a:4318", "https://user:pw@b/otlp?k=s",
                                                     "grpc://c", "grpcs://[::1]:99", "file:/x/y"},
                                           .n = 5}};

    make(&w, ENV("OTEL_EXPORTER_OTLP_ENDPOINT=http://elsewhere:1"));
    CHECK_INT(t, w.r, 0);
    CHECK_INT(t, w.s.n_targets, 5);
    CHECK_STR(t, w.s.targets[0].url, "http://a:4318/v1development/profiles");
    CHECK_STR(t, w.s.targets[1].url, "https://user:pw@b/otlp?k=s");
    CHECK_STR(t, w.s.targets[1].name, "https://b:443/otlp");
    CHECK_INT(t, w.s.targets[2].kind, EXPORT_GRPC);
    CHECK_STR(t, w.s.targets[2].url, "http://c:4317");
    CHECK_STR(t, w.s.targets[2].name, "grpc://c:4317");
    CHECK_STR(t, w.s.targets[3].url, "https://[::1]:99");
    CHECK_STR(t, w.s.targets[3].name, "grpcs://[::1]:99");
    CHECK_INT(t, w.s.targets[4].kind, EXPORT_FILE);
    CHECK_STR(t, w.s.targets[4].url, "/x/y");
    CHECK_STR(t, w.s.server, "http://a:4318");
    export_settings_done(&w.s);
}

static void the_general_endpoint_gets_the_path_and_that_of_the_signal_does_not(struct test *t)
{
    struct world w = {0};

    make(&w, ENV("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/in/"));
    CHECK_STR(t, w.s.targets[0].url, "http://c:4318/in/v1development/profiles");
    export_settings_done(&w.s);
    make(&w, ENV("OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/in",
                 "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://d:1/mine"));
    CHECK_STR(t, w.s.targets[0].url, "http://d:1/mine");
    export_settings_done(&w.s);
}

static void the_protocol_may_be_grpc(struct test *t)
{
    struct world w = {0};

    make(&w, ENV("OTEL_EXPORTER_OTLP_PROTOCOL=grpc"));
    CHECK_STR(t, w.s.targets[0].url, "http://127.0.0.1:4317");
    export_settings_done(&w.s);
    make(&w, ENV("OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=https://c:7"));
    CHECK_STR(t, w.s.targets[0].url, "https://c:7");
    export_settings_done(&w.s);
    make(&w, ENV("OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=c:7"));
    CHECK_STR(t, w.s.targets[0].url, "https://c:7");
    export_settings_done(&w.s);
    make(&w, ENV("OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=c:7",
                 "OTEL_EXPORTER_OTLP_INSECURE=true"));
    CHECK_STR(t, w.s.targets[0].url, "http://c:7");
    export_settings_done(&w.s);
    make(&w, ENV("OTEL_EXPORTER_OTLP_PROTOCOL=http/json"));
    CHECK_INT(t, w.r, -EINVAL);
    CHECK_STR(t, w.err.text,
              "OTEL_EXPORTER_OTLP_PROTOCOL is \"http/json\", not grpc or http/protobuf");
}

static void headers_of_the_environment_are_unescaped(struct test *t)
{
    struct world w = {0};

    make(&w, ENV("OTEL_EXPORTER_OTLP_HEADERS=X-Key=a%20b%3D%2C , api-key=,"));
    CHECK_INT(t, w.r, 0);
    CHECK_INT(t, w.s.n_headers, 2);
    CHECK(t, bytes_are(w.s.headers[0].name, "x-key"));
    CHECK(t, bytes_are(w.s.headers[0].value, "a b=,"));
    CHECK(t, bytes_are(w.s.headers[1].name, "api-key"));
    CHECK_INT(t, w.s.headers[1].value.len, 0);
    export_settings_done(&w.s);
    make(&w, ENV("OTEL_EXPORTER_OTLP_HEADERS=a=%0d%0ax: y"));
    CHECK_STR(t, w.err.text, "OTEL_EXPORTER_OTLP_HEADERS: header 1 is not NAME=VALUE");
    make(&w, ENV("OTEL_EXPORTER_OTLP_PROFILES_HEADERS=a=%zz"));
    CHECK_STR(t, w.err.text, "OTEL_EXPORTER_OTLP_PROFILES_HEADERS: header 1 has a broken %XX");
}

static void the_configuration_wins_over_the_environment(struct test *t)
{
    struct world w = {.config = {.headers = {.items = {"a=1%20"}, .n = 1},
                                 .compression = "none",
                                 .export_timeout_ns = 5000000000,
                                 .ca_file = "/ca"}};

    make(&w,
         ENV("OTEL_EXPORTER_OTLP_HEADERS=b=2", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
             "OTEL_EXPORTER_OTLP_TIMEOUT=1", "OTEL_EXPORTER_OTLP_CERTIFICATE=/other",
             "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/cert", "OTEL_EXPORTER_OTLP_CLIENT_KEY=/key"));
    CHECK_INT(t, w.r, 0);
    CHECK_INT(t, w.s.n_headers, 1);
    CHECK(t, bytes_are(w.s.headers[0].value, "1%20"));
    CHECK_INT(t, w.s.codec, CODEC_NONE);
    CHECK_INT(t, w.s.timeout_ns, 5000000000);
    CHECK_STR(t, w.s.ca_file, "/ca");
    CHECK_STR(t, w.s.cert_file, "/cert");
    CHECK_STR(t, w.s.key_file, "/key");
    export_settings_done(&w.s);
}

static void the_environment_fills_in_what_is_open(struct test *t)
{
    struct world w = {.config = {.compression = ""}};

    make(&w, ENV("OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_TIMEOUT=2500"));
    CHECK_INT(t, w.s.codec, CODEC_GZIP);
    CHECK_INT(t, w.s.timeout_ns, 2500000000);
    export_settings_done(&w.s);
    make(&w, ENV("OTEL_EXPORTER_OTLP_TIMEOUT=soon"));
    CHECK_STR(t, w.err.text,
              "OTEL_EXPORTER_OTLP_TIMEOUT is \"soon\", not a number of milliseconds up to an hour");
    make(&w, ENV("OTEL_EXPORTER_OTLP_COMPRESSION=lz4"));
    CHECK_STR(t, w.err.text, "OTEL_EXPORTER_OTLP_COMPRESSION is \"lz4\", not zstd, gzip or none");
}

static void what_is_no_exporter_is_refused(struct test *t)
{
    struct world w = {.config.exporters = {.items = {"ftp://x"}, .n = 1}};

    make(&w, ENV());
    CHECK_INT(t, w.r, -EINVAL);
    CHECK_STR(t, w.err.text,
              "exporter \"ftp://x\" is none of http://, https://, grpc://, grpcs://, file:DIR");
    w.config.exporters.items[0] = "grpc://h:1/path";
    make(&w, ENV());
    CHECK_STR(t, w.err.text, "\"grpc://h:1/path\" has a path, which gRPC has no use for");
    w.config.exporters.items[0] = "none";
    make(&w, ENV());
    CHECK_INT(t, w.r, 0);
    CHECK_INT(t, w.s.n_targets, 0);
    CHECK(t, w.s.server == NULL);
    export_settings_done(&w.s);
}

static const struct test_case cases[] = {
    TEST(without_a_word_it_is_this_host_and_zstd),
    TEST(exporters_of_the_configuration_are_told_apart),
    TEST(the_general_endpoint_gets_the_path_and_that_of_the_signal_does_not),
    TEST(the_protocol_may_be_grpc),
    TEST(headers_of_the_environment_are_unescaped),
    TEST(the_configuration_wins_over_the_environment),
    TEST(the_environment_fills_in_what_is_open),
    TEST(what_is_no_exporter_is_refused),
};
TEST_MAIN(cases)
