#include "server/web_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "server/auth.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "wire/inflate.h"
#include "wire/json.h"

/* Scripts, styles and pictures of this server only; questions to this server only. */
#define PAGE_POLICY                                                                                \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "        \
    "connect-src 'self'; worker-src 'self'; font-src 'none'; frame-ancestors 'none'; "             \
    "base-uri 'self'; form-action 'none'"

#define TAG_BYTES 12 /* of a digest */
#define TAG_MAX   64

/* ---- Replies */

struct web_file {
    const char *type;
    const char *etag;
    const char *coding; /* NULL: plain */
    const char *cache;
};

bool web_has_tag(struct bytes list, const char *tag)
{
    if (bytes_are(bytes_trim(list), "*"))
        return true;
    while (list.len > 0) {
        const uint8_t *comma = bytes_find_byte(list, ',');
        size_t n = comma ? (size_t)(comma - list.data) : list.len;
        struct bytes item = bytes_trim(bytes_head(list, n));
        if (bytes_start_with(item, BYTES("W/")))
            item = bytes_from(item, 2);
        if (bytes_are(item, tag))
            return true;
        list = bytes_from(list, comma ? n + 1 : n);
    }
    return false;
}

static void reply_file(struct call *c, const struct web_file *f, struct bytes content)
{
    CLEANUP(buf_done) struct buf body = {0};
    char tag[TAG_MAX];

    /* Packed bytes are other bytes: a strong tag tells them apart. */
    snprintf(tag, sizeof(tag), "\"%s%s%s\"", f->etag, f->coding ? "-" : "",
             f->coding ? f->coding : "");
    http_reply_header(&c->reply, "etag", bytes_of(tag));
    http_reply_header(&c->reply, "cache-control", bytes_of(f->cache));
    http_reply_header(&c->reply, "vary", BYTES("accept-encoding"));
    http_reply_header(&c->reply, "content-security-policy", BYTES(PAGE_POLICY));
    c->is_packed = true;
    if (web_has_tag(call_header(c, "if-none-match"), tag)) {
        c->reply.status = 304;
        return;
    }
    if (f->coding)
        http_reply_header(&c->reply, "content-encoding", bytes_of(f->coding));
    buf_add_bytes(&body, content);
    call_reply(c, f->type, &body);
}

/* ---- Files */

struct bytes web_asset_body(const struct web_asset *a, struct bytes accept_encoding,
                            const char **ret_coding)
{
    *ret_coding = NULL;
    if (a->brotli.len > 0 && http_value_has_token(accept_encoding, "br")) {
        *ret_coding = "br";
        return a->brotli;
    }
    if (a->gzip.len > 0 && http_value_has_token(accept_encoding, "gzip")) {
        *ret_coding = "gzip";
        return a->gzip;
    }
    return a->plain;
}

static const struct web_asset *find_asset(struct bytes path)
{
    for (const struct web_asset *a = web_assets; a->path; a++) {
        if (bytes_are(path, a->path))
            return a;
    }
    return NULL;
}

static int handle_asset(struct call *c, struct error *err)
{
    const struct web_asset *a = find_asset(c->request->path);
    struct web_file f = {
        .type = a->type,
        .etag = a->etag,
        .cache = a->is_hashed ? "public, max-age=31536000, immutable" : "no-cache",
    };

    (void)err;
    struct bytes content = web_asset_body(a, call_header(c, "accept-encoding"), &f.coding);
    reply_file(c, &f, content);
    return 0;
}

/* ---- The page */

void web_escape(struct bytes text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.data[i]) {
        case '&':
            buf_add_str(out, "&amp;");
            break;
        case '<':
            buf_add_str(out, "&lt;");
            break;
        case '>':
            buf_add_str(out, "&gt;");
            break;
        case '"':
            buf_add_str(out, "&quot;");
            break;
        case '\'':
            buf_add_str(out, "&#39;");
            break;
        default:
            buf_add_byte(out, text.data[i]);
        }
    }
}

void web_base_path(const char *url, struct buf *out)
{
    const char *host = strstr(url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    size_t n = path ? strcspn(path, "?#") : 0;

    while (n > 0 && path[n - 1] == '/')
        n--;
    web_escape((struct bytes){(const uint8_t *)path, n}, out);
    buf_add_byte(out, '/');
}

static size_t count_listens(const struct config_list *list)
{
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        n += strcmp(list->items[i], "off") != 0;
    return n;
}

/* The port of the first of `n` listeners from `at` on; nothing where there is none. */
static void add_port(struct json_writer *w, const char *key, const struct server *s, size_t at,
                     size_t n)
{
    const char *address = n > 0 && s->http ? server_address(s, at) : NULL;
    const char *colon = address ? strrchr(address, ':') : NULL;
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;

    if (port == 0)
        return; /* "unix:/path" too */
    json_key(w, key);
    json_u64(w, port);
}

/* In a script element only "</script" and "<!--" mean anything, and JSON can do without '<'. */
void web_add_json(struct bytes json, struct buf *out)
{
    for (size_t i = 0; i < json.len; i++) {
        if (json.data[i] == '<')
            buf_add_str(out, "\\u003c");
        else
            buf_add_byte(out, json.data[i]);
    }
}

/* What the scripts are told. */
static void add_boot(struct server *s, struct buf *out)
{
    CLEANUP(buf_done) struct buf json = {0};
    struct json_writer w = {.out = &json};
    const struct server_config *c = s->config;
    size_t n = count_listens(&c->listen), n_grpc = count_listens(&c->listen_otlp_grpc);

    json_begin_object(&w);
    json_key(&w, "version");
    json_cstring(&w, VESTA_VERSION);
    json_key(&w, "needs_token");
    json_bool(&w, auth_is_required(s->auth));
    json_key(&w, "external_url");
    json_cstring(&w, c->external_url);
    add_port(&w, "grpc_port", s, n, n_grpc);
    add_port(&w, "http_port", s, n + n_grpc, count_listens(&c->listen_otlp_http));
    json_end_object(&w);
    web_add_json(buf_bytes(&json), out);
}

static void make_page(struct server *s, struct buf *out)
{
    buf_add_bytes(out, web_page.before_base);
    web_base_path(s->config->external_url, out);
    buf_add_bytes(out, web_page.before_boot);
    add_boot(s, out);
    buf_add_bytes(out, web_page.after_boot);
}

/* Without the web UI. No scripts, no styles: nothing to allow. */
static const char plain_page[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Vesta</title>"
    "<meta name=\"viewport\" content=\"width=device-width\">"
    "<meta name=\"color-scheme\" content=\"light dark\">"
    "<h1>Vesta " VESTA_VERSION "</h1><p>The server runs, built without its web UI. Send profiles "
    "with <code>vesta push --service NAME FILE</code>, by OTLP to ports 4317 and 4318, or from any "
    "Pyroscope SDK to this address; ask with <code>vesta top 'cpu{service.name=\"NAME\"}' "
    "--url</code> and this address.</p><ul>"
    "<li><a href=\"/api/v1/services\">services</a> that have sent something"
    "<li><a href=\"/api/v1/agents\">agents</a> that have announced themselves"
    "<li><a href=\"/api/v1/stat\">what is stored</a>"
    "<li><a href=\"/metrics\">metrics</a>"
    "<li><a href=\"/api/v1/openapi.json\">the API, described</a></ul></html>\n";

static int handle_page(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf page = {0};
    CLEANUP(buf_done) struct buf packed = {0};
    uint8_t digest[SHA256_BYTES];
    char etag[2 * TAG_BYTES + 1];
    struct web_file f = {.type = "text/html; charset=utf-8", .etag = etag, .cache = "no-cache"};

    (void)err;
    if (web_page.after_boot.len == 0) {
        buf_add_str(&page, plain_page);
        call_reply(c, f.type, &page);
        return 0;
    }
    make_page(c->server, &page);
    sha256(buf_bytes(&page), digest);
    hex_encode(digest, TAG_BYTES, etag);
    if (http_value_has_token(call_header(c, "accept-encoding"), "gzip")) {
        gzip_pack(buf_bytes(&page), 6, &packed);
        f.coding = "gzip";
    }
    reply_file(c, &f, buf_bytes(f.coding ? &packed : &page));
    return 0;
}

/* ---- Routes */

static const struct route page_route = {"GET", "/", ROLE_ANYONE, LANE_QUICK, .handle = handle_page};
static const struct route asset_route = {"GET", "/assets/", ROLE_ANYONE, LANE_QUICK,
                                         .handle = handle_asset};

const struct route web_routes[] = {
    {"GET", "/", ROLE_ANYONE, LANE_QUICK, .handle = handle_page},
    {0},
};

/* A place within the page: no part of an API, and no file. */
static bool is_page(struct bytes path)
{
    static const char *const others[] = {"/api/", "/assets/", "/v1/"};
    const uint8_t *slash = bytes_find_last_byte(path, '/');

    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        if (bytes_start_with(path, bytes_of(others[i])))
            return false;
    }
    return slash && !bytes_find_byte(bytes_from(path, (size_t)(slash - path.data)), '.');
}

const struct route *web_pages_route(const struct http_request *q)
{
    if (web_page.after_boot.len == 0 ||
        (!bytes_are(q->method, "GET") && !bytes_are(q->method, "HEAD")))
        return NULL;
    if (find_asset(q->path))
        return &asset_route;
    bool wants_page = http_value_has_token(http_header_value(q, "accept"), "text/html");
    return wants_page && is_page(q->path) ? &page_route : NULL;
}
