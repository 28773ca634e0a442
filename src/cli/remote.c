#include "cli/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/url.h"
#include "wire/inflate.h"

/* "host:4040" is what people type; "unix:/path" is a socket. */
static int find_server(struct remote *r, const char *url, struct error *err)
{
    CLEANUP(buf_done) struct buf base = {0};
    struct url parsed;

    if (strncmp(url, "unix:", 5) == 0) {
        r->socket = must_copy(bytes_of(url + 5));
        r->http.unix_path = r->socket;
        r->base = must_copy(BYTES("http://localhost"));
        r->shown = must_copy(bytes_of(url));
        return 0;
    }
    if (!strstr(url, "://"))
        buf_add_str(&base, "http://");
    buf_add_str(&base, url);
    while (base.len > 0 && base.data[base.len - 1] == '/')
        base.len--;
    int result = url_parse(buf_cstr(&base), &parsed, err);
    if (result < 0)
        return error_prefix(err, result, "--url");
    if (strpbrk(parsed.path, "?#"))
        return error_set(err, -EINVAL, "--url takes a server's address, without \"?\"");
    r->base = must_copy(buf_bytes(&base));
    buf_clear(&base);
    buf_addf(&base, "http%s://", parsed.is_tls ? "s" : "");
    url_add_authority(&parsed, &base);
    r->shown = must_copy(buf_bytes(&base));
    return 0;
}

static void add_header(struct remote *r, const char *name, const char *value)
{
    r->headers[r->n_headers++] = (struct http_header){bytes_of(name), bytes_of(value)};
}

int remote_init(struct remote *r, const struct options *o, struct error *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    *r = (struct remote){.http = {.ca_file = o->ca_file,
                                  .cert_file = o->cert_file,
                                  .key_file = o->key_file,
                                  .silence_s = o->timeout > 0 ? o->timeout : 0}};
    int result = find_server(r, o->url ? o->url : REMOTE_DEFAULT_URL, err);
    if (result < 0)
        return result;
    if (o->token) {
        buf_addf(&text, "Bearer %s", o->token);
        r->authorization = must_copy(buf_bytes(&text));
        add_header(r, "authorization", r->authorization);
    }
    if (o->tenant)
        add_header(r, "x-scope-orgid", o->tenant);
    return 0;
}

void remote_done(struct remote *r)
{
    http_client_free(r->client);
    free(r->base);
    free(r->shown);
    free(r->socket);
    free(r->authorization);
    *r = (struct remote){0};
}

void remote_param(struct buf *params, struct bytes name, struct bytes value)
{
    buf_add_byte(params, '&');
    url_add_escaped(params, name, "");
    buf_add_byte(params, '=');
    url_add_escaped(params, value, "");
}

void remote_label(struct buf *params, struct bytes name, struct bytes value)
{
    CLEANUP(buf_done) struct buf full = {0};

    buf_add_str(&full, "label.");
    buf_add_bytes(&full, name);
    remote_param(params, buf_bytes(&full), value);
}

void remote_param_i64(struct buf *params, const char *name, int64_t value)
{
    buf_addf(params, "&%s=%lld", name, (long long)value);
}

void remote_param_missing(struct buf *params, struct bytes more)
{
    struct bytes had = buf_bytes(params);

    while (more.len > 1) {
        const uint8_t *next = bytes_find_byte(bytes_from(more, 1), '&');
        struct bytes one = bytes_head(more, next ? (size_t)(next - more.data) : more.len);
        const uint8_t *equals = bytes_find_byte(one, '=');
        struct bytes name = bytes_head(one, equals ? (size_t)(equals - one.data) + 1 : one.len);
        if (!bytes_find(had, name)) {
            buf_add_bytes(params, one);
            had = bytes_head(buf_bytes(params), had.len);
        }
        more = bytes_from(more, one.len);
    }
}

void remote_path(struct buf *out, const char *path, struct bytes params)
{
    buf_add_str(out, path);
    if (params.len > 0) {
        buf_add_byte(out, '?');
        buf_add_bytes(out, bytes_from(params, 1));
    }
}

/* What came packed is put in its place unpacked. */
static int unpack_body(struct http_answer *a, struct budget *b, struct error *err)
{
    struct unpacked u = {0};

    if (!bytes_are(http_answer_header(a, "content-encoding"), "gzip"))
        return 0;
    int r = unpack(CODEC_GZIP, http_answer_body(a), b, &u, err);
    if (r < 0)
        return error_prefix(err, r, "the server's answer");
    http_body_done(b, &a->body);
    a->body.data.data = u.data;
    a->body.data.len = u.len;
    a->body.data.cap = u.cap;
    return 0;
}

int remote_call(struct remote *r, const struct remote_call *call, struct budget *b,
                struct http_answer *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf url = {0};
    struct http_header headers[REMOTE_HEADERS_MAX + 4];
    size_t n = r->n_headers;

    if (!r->client)
        r->client = http_client_new(&r->http);
    memcpy(headers, r->headers, n * sizeof(headers[0]));
    headers[n++] = (struct http_header){BYTES("accept-encoding"), BYTES("gzip")};
    if (call->content_type)
        headers[n++] = (struct http_header){BYTES("content-type"), bytes_of(call->content_type)};
    if (call->content_encoding)
        headers[n++] =
            (struct http_header){BYTES("content-encoding"), bytes_of(call->content_encoding)};
    if (call->accept)
        headers[n++] = (struct http_header){BYTES("accept"), bytes_of(call->accept)};
    buf_addf(&url, "%s%s", r->base, call->path);
    struct http_fetch fetch = {
        .url = buf_cstr(&url),
        .headers = headers,
        .n_headers = n,
        .body = call->body,
        .body_file = call->body_file,
        .body_file_len = call->body_file_len,
        .is_repeatable = true, /* the server knows what it has */
    };
    int result = http_fetch(r->client, &fetch, b, ret, err);
    if (result == -ECONNREFUSED)
        return error_prefix(err, result, "no server at %s", r->shown);
    if (result < 0)
        return result;
    result = unpack_body(ret, b, err);
    if (result < 0)
        http_answer_done(b, ret);
    return result;
}

int remote_refusal(const struct remote *r, const struct http_answer *a, struct error *err)
{
    (void)http_answer_error(a, r->shown, err);
    switch (a->status) {
    case 400:
        return -EINVAL;
    case 401:
        return error_prefix(err, -EACCES, "say who asks with --token or VESTA_TOKEN");
    case 403:
        return -EACCES;
    case 404:
        return bytes_find(http_answer_body(a), BYTES("\"no_data\"")) ? -ENODATA : -ENOENT;
    case 413:
        return -ENOBUFS;
    case 429:
    case 502:
    case 503:
    case 504:
        return -EAGAIN;
    default:
        return -EIO;
    }
}
