#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/agent_config.h"
#include "net/http.h"
#include "wire/inflate.h"

/*
 * Where profiles go, as configuration and environment say together. OpenTelemetry's variables are
 * asked for what the configuration leaves open: OTEL_EXPORTER_OTLP_PROFILES_X, else
 * OTEL_EXPORTER_OTLP_X, X being ENDPOINT, PROTOCOL, HEADERS, COMPRESSION, TIMEOUT, CERTIFICATE,
 * CLIENT_CERTIFICATE, CLIENT_KEY, INSECURE.
 */
enum export_kind { EXPORT_HTTP, EXPORT_GRPC, EXPORT_FILE };

#define EXPORT_PATH         "/v1development/profiles"
#define EXPORT_METHOD       "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
#define EXPORT_DEFAULT      "http://127.0.0.1:4318"
#define EXPORT_TIMEOUT_NS   ((int64_t)10 * 1000 * 1000 * 1000)
#define EXPORT_TARGETS_MAX  16
#define EXPORT_HEADERS_MAX  32
#define EXPORT_HEADERS_SIZE ((size_t)16 << 10) /* of all of them, as text */

struct export_target {
    enum export_kind kind;
    char *url;  /* http(s)://host:port/path; of gRPC without a path; of files the folder */
    char *name; /* for people: without credentials and query */
};

struct export_settings {
    struct export_target targets[EXPORT_TARGETS_MAX];
    size_t n_targets;
    char *server; /* origin of the control protocol and of uploads; NULL: nobody to talk to */
    struct http_header headers[EXPORT_HEADERS_MAX]; /* names in lower case */
    size_t n_headers;
    char *token_file; /* Authorization: Bearer; read again when it changes. NULL: none */
    enum codec codec; /* CODEC_NONE, CODEC_GZIP, CODEC_ZSTD */
    int64_t timeout_ns;
    char *ca_file, *cert_file, *key_file; /* NULL: none */
};

/*
 * `env` is "NAME=VALUE" up to NULL, as environ. What the configuration leaves open: exporters
 * without an item, headers without one, an empty compression, a timeout of 0, empty TLS files. No
 * exporter at all is written "none". -EINVAL names what is wrong and where it was said.
 */
int export_settings_make(const struct agent_config *c, const char *const *env,
                         struct export_settings *ret, struct error *err);
void export_settings_done(struct export_settings *s);
