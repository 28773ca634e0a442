#include "relay/otlp_env.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/url.h"

#define GRPC_PORT "4317"

/* ---- Variables ---- */

static const char *variable(const char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return (*env)[len + 1] ? *env + len + 1 : NULL; /* empty is as good as unset */
    return NULL;
}

struct said {
    const char *value; /* NULL: nobody did */
    char by[64];       /* the variable */
    bool is_of_signal;
};

/* What OTEL_EXPORTER_OTLP_PROFILES_X, or else OTEL_EXPORTER_OTLP_X, says. */
static struct said ask(const char *const *env, const char *what)
{
    struct said s = {.is_of_signal = true};

    snprintf(s.by, sizeof(s.by), "OTEL_EXPORTER_OTLP_PROFILES_%s", what);
    s.value = variable(env, s.by);
    if (!s.value) {
        s.is_of_signal = false;
        snprintf(s.by, sizeof(s.by), "OTEL_EXPORTER_OTLP_%s", what);
        s.value = variable(env, s.by);
    }
    return s;
}

static char *copy(const char *text)
{
    return text && *text ? must_copy(bytes_of(text)) : NULL;
}

/* What the configuration says, else the environment; NULL when neither does. */
static char *text_of(const char *configured, const char *const *env, const char *what)
{
    return configured && *configured ? copy(configured) : copy(ask(env, what).value);
}

/* ---- Targets ---- */

/* The address without user, password and query. */
static char *name_of(const char *scheme, const struct url *u, bool with_path)
{
    CLEANUP(buf_done) struct buf out = {0};
    bool is_v6 = strchr(u->host, ':') != NULL;

    buf_addf(&out, "%s://%s%s%s:%s", scheme, is_v6 ? "[" : "", u->host, is_v6 ? "]" : "", u->port);
    if (with_path)
        buf_add_bytes(&out, (struct bytes){(const uint8_t *)u->path, strcspn(u->path, "?")});
    return must_copy(buf_bytes(&out));
}

static void add_target(struct export_settings *s, enum export_kind kind, char *url, char *name)
{
    s->targets[s->n_targets++] = (struct export_target){kind, url, name};
}

/* "grpc://host:4317": the address as http has it, the port where none is given put in. */
static int add_grpc(struct export_settings *s, const char *text, struct error *err)
{
    bool is_tls = strncasecmp(text, "grpcs://", 8) == 0;
    const char *rest = text + (is_tls ? 8 : 7);
    CLEANUP(buf_done) struct buf url = {0};
    size_t len = strcspn(rest, "/?#");
    const char *host = memrchr(rest, '@', len);
    host = host ? host + 1 : rest;
    const char *bracket = memchr(host, ']', (size_t)(rest + len - host));
    const char *from = bracket ? bracket : host;
    bool has_port = memchr(from, ':', (size_t)(rest + len - from)) != NULL;
    struct url u;

    buf_addf(&url, "http%s://%.*s%s", is_tls ? "s" : "", (int)len, rest,
             has_port ? "" : ":" GRPC_PORT);
    int r = url_parse(buf_cstr(&url), &u, err);
    if (r < 0)
        return r;
    if (u.userinfo[0])
        return error_set(err, -EINVAL, "%s://%s has a user name: say it by a header instead",
                         is_tls ? "grpcs" : "grpc", u.host);
    if (rest[len] && strcmp(rest + len, "/") != 0)
        return error_set(err, -EINVAL, "\"%s\" has a path, which gRPC has no use for", text);
    add_target(s, EXPORT_GRPC, must_copy(buf_bytes(&url)),
               name_of(is_tls ? "grpcs" : "grpc", &u, false));
    return 0;
}

/* Without a path it gets the usual one; with `appends` that is put behind whatever it has. */
static int add_http(struct export_settings *s, const char *text, bool appends, struct error *err)
{
    CLEANUP(buf_done) struct buf url = {0};
    struct url u;

    buf_add_bytes(&url, (struct bytes){(const uint8_t *)text, strcspn(text, "#")});
    int r = url_parse(buf_cstr(&url), &u, err);
    if (r < 0)
        return r;
    if (appends || strcmp(u.path, "/") == 0) {
        while (url.len > 0 && url.data[url.len - 1] == '/')
            url.len--;
        buf_add_str(&url, EXPORT_PATH);
        r = url_parse(buf_cstr(&url), &u, err);
    }
    if (r == 0)
        add_target(s, EXPORT_HTTP, must_copy(buf_bytes(&url)),
                   name_of(u.is_tls ? "https" : "http", &u, true));
    return r;
}

static int add_file(struct export_settings *s, const char *text, struct error *err)
{
    const char *folder = text + strlen("file:");

    if (strncmp(folder, "//", 2) == 0)
        folder += 2;
    if (!*folder)
        return error_set(err, -EINVAL, "\"%s\" names no folder", text);
    add_target(s, EXPORT_FILE, must_copy(bytes_of(folder)), must_copy(bytes_of(text)));
    return 0;
}

static int add_configured(struct export_settings *s, const char *text, struct error *err)
{
    if (s->n_targets == EXPORT_TARGETS_MAX)
        return error_set(err, -EINVAL, "there are more than %d exporters", EXPORT_TARGETS_MAX);
    if (strcmp(text, "none") == 0)
        return 0;
    if (strncasecmp(text, "grpc://", 7) == 0 || strncasecmp(text, "grpcs://", 8) == 0)
        return add_grpc(s, text, err);
    if (strncmp(text, "file:", 5) == 0)
        return add_file(s, text, err);
    if (url_is_http(text))
        return add_http(s, text, false, err);
    return error_set(err, -EINVAL,
                     "exporter \"%s\" is none of http://, https://, grpc://, grpcs://, file:DIR",
                     text);
}

/* The endpoint as OpenTelemetry has it: http or https, or of gRPC also "host:port" alone. */
static int add_from_env(struct export_settings *s, const char *const *env, struct error *err)
{
    struct said endpoint = ask(env, "ENDPOINT"), protocol = ask(env, "PROTOCOL");
    CLEANUP(buf_done) struct buf url = {0};
    bool is_grpc = protocol.value && strcmp(protocol.value, "grpc") == 0;

    if (protocol.value && !is_grpc && strcmp(protocol.value, "http/protobuf") != 0)
        return error_set(err, -EINVAL, "%s is \"%s\", not grpc or http/protobuf", protocol.by,
                         protocol.value);
    if (!endpoint.value)
        return is_grpc ? add_grpc(s, "grpc://127.0.0.1", err)
                       : add_http(s, EXPORT_DEFAULT, true, err);
    if (!is_grpc) {
        int r = add_http(s, endpoint.value, !endpoint.is_of_signal, err);
        return r < 0 ? error_prefix(err, r, "%s", endpoint.by) : 0;
    }
    bool is_tls = strncasecmp(endpoint.value, "https://", 8) == 0;
    const char *rest = endpoint.value;
    if (url_is_http(rest)) {
        rest += is_tls ? 8 : 7;
    } else {
        struct said insecure = ask(env, "INSECURE");
        is_tls = !(insecure.value && strcasecmp(insecure.value, "true") == 0);
    }
    buf_addf(&url, "grpc%s://%s", is_tls ? "s" : "", rest);
    int r = add_grpc(s, buf_cstr(&url), err);
    return r < 0 ? error_prefix(err, r, "%s", endpoint.by) : 0;
}

/* ---- Headers ---- */

static int add_header(struct export_settings *s, struct bytes name, struct bytes value,
                      const char *by, struct error *err)
{
    if (s->n_headers == EXPORT_HEADERS_MAX)
        return error_set(err, -EINVAL, "%s has more than %d headers", by, EXPORT_HEADERS_MAX);
    bool is_sound = name.len > 0;
    for (size_t i = 0; i < name.len; i++)
        is_sound = is_sound && http_is_token_byte(name.data[i]);
    for (size_t i = 0; i < value.len; i++)
        is_sound = is_sound && http_is_value_byte(value.data[i]);
    if (!is_sound)
        return error_set(err, -EINVAL, "%s: header %zu is not NAME=VALUE", by, s->n_headers + 1);
    char *key = must_copy(name), *text = must_copy(value);
    for (char *c = key; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    s->headers[s->n_headers++] =
        (struct http_header){{(uint8_t *)key, name.len}, {(uint8_t *)text, value.len}};
    return 0;
}

/* "name=value"; of the environment with %XX in it. */
static int parse_header(struct export_settings *s, struct bytes item, bool is_escaped,
                        const char *by, struct error *err)
{
    CLEANUP(buf_done) struct buf value = {0};
    const uint8_t *eq = bytes_find_byte(item, '=');

    if (!eq)
        return error_set(err, -EINVAL, "%s: header %zu is not NAME=VALUE", by, s->n_headers + 1);
    struct bytes name = bytes_trim(bytes_head(item, (size_t)(eq - item.data)));
    struct bytes raw = bytes_trim(bytes_from(item, (size_t)(eq - item.data) + 1));
    if (!is_escaped)
        buf_add_bytes(&value, raw);
    else if (!http_unescape(raw, false, &value))
        return error_set(err, -EINVAL, "%s: header %zu has a broken %%XX", by, s->n_headers + 1);
    return add_header(s, name, buf_bytes(&value), by, err);
}

static int read_headers(struct export_settings *s, const struct agent_config *c,
                        const char *const *env, struct error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < c->headers.n; i++)
        r = parse_header(s, bytes_of(c->headers.items[i]), false, "headers", err);
    if (r < 0 || c->headers.n > 0)
        return r;
    struct said headers = ask(env, "HEADERS");
    struct bytes rest = headers.value ? bytes_of(headers.value) : (struct bytes){0};
    while (r == 0 && rest.len > 0) {
        const uint8_t *comma = bytes_find_byte(rest, ',');
        size_t len = comma ? (size_t)(comma - rest.data) : rest.len;
        struct bytes item = bytes_trim(bytes_head(rest, len));
        if (item.len > 0)
            r = parse_header(s, item, true, headers.by, err);
        rest = bytes_from(rest, len + 1);
    }
    return r;
}

/* ---- The rest ---- */

static int read_codec(struct export_settings *s, const struct agent_config *c,
                      const char *const *env, struct error *err)
{
    struct said said = ask(env, "COMPRESSION");
    const char *by = "compression", *value = c->compression;

    if (!value || !*value) {
        value = said.value ? said.value : "zstd";
        by = said.by;
    }
    if (strcmp(value, "zstd") == 0)
        s->codec = CODEC_ZSTD;
    else if (strcmp(value, "gzip") == 0)
        s->codec = CODEC_GZIP;
    else if (strcmp(value, "none") == 0)
        s->codec = CODEC_NONE;
    else
        return error_set(err, -EINVAL, "%s is \"%s\", not zstd, gzip or none", by, value);
    return 0;
}

static int read_timeout(struct export_settings *s, const struct agent_config *c,
                        const char *const *env, struct error *err)
{
    struct said said = ask(env, "TIMEOUT");
    uint64_t ms;

    s->timeout_ns = c->export_timeout_ns > 0 ? c->export_timeout_ns : EXPORT_TIMEOUT_NS;
    if (c->export_timeout_ns > 0 || !said.value)
        return 0;
    if (!bytes_to_u64(bytes_of(said.value), &ms) || ms == 0 || ms > 3600 * 1000)
        return error_set(err, -EINVAL, "%s is \"%s\", not a number of milliseconds up to an hour",
                         said.by, said.value);
    s->timeout_ns = (int64_t)ms * 1000000;
    return 0;
}

/* Where directives come from: a Vesta server takes everything on each of its ports. */
static int find_server(struct export_settings *s, const struct agent_config *c, struct error *err)
{
    const char *from = c->server && *c->server ? c->server : NULL;
    struct url u;

    for (size_t i = 0; !from && i < s->n_targets; i++)
        if (s->targets[i].kind != EXPORT_FILE)
            from = s->targets[i].url;
    if (!from || strcmp(from, "off") == 0)
        return 0;
    int r = url_parse(from, &u, err);
    if (r < 0)
        return error_prefix(err, r, "server");
    CLEANUP(buf_done) struct buf origin = {0};
    bool is_v6 = strchr(u.host, ':') != NULL;
    buf_addf(&origin, "http%s://%s%s%s%s%s:%s", u.is_tls ? "s" : "", u.userinfo,
             u.userinfo[0] ? "@" : "", is_v6 ? "[" : "", u.host, is_v6 ? "]" : "", u.port);
    s->server = must_copy(buf_bytes(&origin));
    return 0;
}

static int read_targets(struct export_settings *s, const struct agent_config *c,
                        const char *const *env, struct error *err)
{
    int r = 0;

    if (c->exporters.n == 0)
        return add_from_env(s, env, err);
    for (size_t i = 0; r == 0 && i < c->exporters.n; i++)
        r = add_configured(s, c->exporters.items[i], err);
    return r;
}

int export_settings_make(const struct agent_config *c, const char *const *env,
                         struct export_settings *ret, struct error *err)
{
    struct export_settings s = {.token_file = copy(c->token_file),
                                .ca_file = text_of(c->ca_file, env, "CERTIFICATE"),
                                .cert_file = text_of(c->cert_file, env, "CLIENT_CERTIFICATE"),
                                .key_file = text_of(c->key_file, env, "CLIENT_KEY")};

    int r = read_targets(&s, c, env, err);
    if (r == 0)
        r = read_headers(&s, c, env, err);
    if (r == 0)
        r = read_codec(&s, c, env, err);
    if (r == 0)
        r = read_timeout(&s, c, env, err);
    if (r == 0)
        r = find_server(&s, c, err);
    if (r < 0)
        export_settings_done(&s);
    else
        *ret = s;
    return r;
}

void export_settings_done(struct export_settings *s)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        free(s->targets[i].url);
        free(s->targets[i].name);
    }
    for (size_t i = 0; i < s->n_headers; i++) {
        free((void *)(uintptr_t)s->headers[i].name.data);
        free((void *)(uintptr_t)s->headers[i].value.data);
    }
    free(s->server);
    free(s->token_file);
    free(s->ca_file);
    free(s->cert_file);
    free(s->key_file);
    *s = (struct export_settings){0};
}
