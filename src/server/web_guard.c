#include "server/web_guard.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "server/server_internal.h"

static bool is_same_text(struct bytes a, struct bytes b)
{
    return a.len == b.len && strncasecmp((const char *)a.data, (const char *)b.data, a.len) == 0;
}

/* The origin is one that the operator allowed. */
static bool is_allowed(const struct server *s, struct bytes origin)
{
    for (size_t i = 0; i < s->config->cors_origins.n; i++) {
        const char *item = s->config->cors_origins.items[i];
        if (strcmp(item, "*") == 0 || is_same_text(origin, bytes_of(item)))
            return true;
    }
    return false;
}

/* "http://host:port" is where the request went. */
static bool is_own(const struct http_request *r, struct bytes origin)
{
    const uint8_t *slashes = bytes_find(origin, BYTES("://"));
    if (!slashes)
        return false; /* "null" too: a sandbox, a file */
    return is_same_text(bytes_from(origin, (size_t)(slashes - origin.data) + 3), r->authority);
}

static struct bytes without_port(struct bytes authority)
{
    if (authority.len > 0 && authority.data[0] == '[') {
        const uint8_t *end = bytes_find_byte(authority, ']');
        return end ? bytes_head(authority, (size_t)(end - authority.data) + 1) : authority;
    }
    const uint8_t *colon = bytes_find_byte(authority, ':');
    return colon ? bytes_head(authority, (size_t)(colon - authority.data)) : authority;
}

static bool is_address(struct bytes host)
{
    if (host.len > 0 && host.data[0] == '[')
        return true;
    for (size_t i = 0; i < host.len; i++) {
        if ((host.data[i] < '0' || host.data[i] > '9') && host.data[i] != '.')
            return false;
    }
    return host.len > 0;
}

/* A name that was made to point at this machine looks like one's own origin to a browser. Only
 * names that cannot be somebody else's count where nobody but this machine can connect. */
static bool is_rebound(const struct server *s, const struct http_request *r)
{
    struct bytes host = without_port(r->authority);
    const char *external = s->config->external_url;

    if (!s->is_loopback_only || is_address(host) || is_same_text(host, BYTES("localhost")) ||
        (host.len > 10 && is_same_text(bytes_from(host, host.len - 10), BYTES(".localhost"))))
        return false;
    return external[0] == '\0' || !bytes_find(bytes_of(external), host);
}

int web_guard_check(struct server *s, const struct http_request *r, struct http_reply *reply,
                    struct error *err)
{
    struct bytes origin = http_header_value(r, "origin");
    struct bytes site = http_header_value(r, "sec-fetch-site");
    bool is_browser = origin.len > 0 || site.len > 0;

    if (is_browser && is_rebound(s, r))
        return error_set(err, -EPERM, "this server is not known as \"%.*s\" (external_url)",
                         (int)(r->authority.len < 80 ? r->authority.len : 80),
                         (const char *)r->authority.data);
    if (origin.len == 0 || is_own(r, origin)) {
        /* A link from elsewhere may be followed; nothing else. */
        bool is_link = bytes_are(http_header_value(r, "sec-fetch-mode"), "navigate") &&
                       bytes_are(r->method, "GET");
        if (bytes_are(site, "cross-site") && !is_link)
            return error_set(err, -EPERM, "pages of other sites may not ask (cors_origins)");
        return 0;
    }
    if (!is_allowed(s, origin))
        return error_set(err, -EPERM, "pages of \"%.*s\" may not ask (cors_origins)",
                         (int)(origin.len < 80 ? origin.len : 80), (const char *)origin.data);
    if (bytes_are(r->method, "OPTIONS")) {
        reply->status = 204;
        http_reply_header(reply, "access-control-allow-methods", BYTES("GET, POST, PUT, DELETE"));
        http_reply_header(reply, "access-control-allow-headers",
                          BYTES("authorization, content-type, content-encoding, x-scope-orgid, "
                                "connect-protocol-version, connect-timeout-ms, x-grpc-web"));
        http_reply_header(reply, "access-control-max-age", BYTES("600"));
    }
    return 0;
}

static bool has_header(const struct http_reply *reply, const char *name)
{
    struct bytes rest = buf_bytes(&reply->head);
    for (struct http_header h; http_reply_next(&rest, &h);)
        if (bytes_are(h.name, name))
            return true;
    return false;
}

static void add_unless_there(struct http_reply *reply, const char *name, const char *value)
{
    if (!has_header(reply, name))
        http_reply_header(reply, name, bytes_of(value));
}

void web_guard_headers(struct server *s, const struct http_request *r, struct http_reply *reply)
{
    struct bytes origin = http_header_value(r, "origin");

    add_unless_there(reply, "x-content-type-options", "nosniff");
    add_unless_there(reply, "content-security-policy",
                     "default-src 'none'; frame-ancestors 'none'");
    add_unless_there(reply, "cache-control", "no-store");
    add_unless_there(reply, "referrer-policy", "no-referrer");
    add_unless_there(reply, "cross-origin-resource-policy", "same-origin");
    if (origin.len > 0 && !is_own(r, origin) && is_allowed(s, origin)) {
        http_reply_header(reply, "access-control-allow-origin", origin);
        http_reply_header(reply, "access-control-expose-headers",
                          BYTES("grpc-status, grpc-message, retry-after, etag"));
        http_reply_header(reply, "vary", BYTES("origin"));
    }
}
