#include "net/s3.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hex.h"
#include "base/must.h"
#include "base/sha256.h"
#include "net/url.h"

#define LIST_BYTES_MAX ((uint64_t)16 << 20) /* of one page */
#define PAGES_MAX      10000

struct s3 {
    struct s3_options o;
    struct http_client *client;
    char *endpoint; /* without a "/" at the end */
    struct url url;
};

int s3_new(const struct s3_options *o, struct s3 **ret, struct error *err)
{
    CLEANUP(s3_freep) struct s3 *s = must_calloc(1, sizeof(*s));
    CLEANUP(buf_done) struct buf endpoint = {0};

    s->o = *o;
    if (!s->o.access_key || !s->o.secret_key)
        return error_set(err, -EINVAL,
                         "a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    if (!s->o.region)
        s->o.region = "us-east-1";
    if (s->o.endpoint)
        buf_add_str(&endpoint, s->o.endpoint);
    else
        buf_addf(&endpoint, "https://s3.%s.amazonaws.com", s->o.region);
    while (endpoint.len > 0 && endpoint.data[endpoint.len - 1] == '/')
        endpoint.len--;
    s->endpoint = must_copy(buf_bytes(&endpoint));
    int r = url_parse(s->endpoint, &s->url, err);
    if (r == 0 && strcmp(s->url.path, "/") != 0)
        r = error_set(err, -EINVAL, "\"%s\" is no endpoint: it has a path", s->endpoint);
    if (r < 0)
        return r;
    s->client = http_client_new(&s->o.http);
    *ret = TAKE_PTR(s);
    return 0;
}

void s3_free(struct s3 *s)
{
    if (!s)
        return;
    http_client_free(s->client);
    free(s->endpoint);
    free(s);
}

bool s3_is_url(const char *text)
{
    return strncmp(text, "s3://", 5) == 0;
}

int s3_parse(const char *url, struct s3_place *ret, struct error *err)
{
    const char *bucket = url + 5;
    size_t n = strcspn(bucket, "/");
    const char *key = bucket[n] ? bucket + n + 1 : "";
    struct s3_place place = {.bucket = ""};

    if (!s3_is_url(url) || n < 3 || n > S3_BUCKET_MAX ||
        strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-") < n)
        return error_set(err, -EINVAL, "\"%s\" names no bucket: expected s3://BUCKET/KEY", url);
    if (strlen(key) > S3_KEY_MAX)
        return error_set(err, -EINVAL, "\"%.60s...\" is longer than a key can be, %d bytes", url,
                         S3_KEY_MAX);
    memcpy(place.bucket, bucket, n);
    memcpy(place.key, key, strlen(key) + 1);
    *ret = place;
    return 0;
}

/* ---- Signing */

static void hash_hex(struct bytes data, char ret[2 * SHA256_BYTES + 1])
{
    uint8_t digest[SHA256_BYTES];

    sha256(data, digest);
    hex_encode(digest, SHA256_BYTES, ret);
}

/* What is signed: the request in a form that both sides agree on. */
static void canonical_request(const struct s3_options *o, const struct s3_signing *r,
                              struct buf *out)
{
    buf_addf(out, "%s\n", r->method);
    buf_add_bytes(out, r->path);
    buf_add_byte(out, '\n');
    buf_add_bytes(out, r->query);
    buf_addf(out, "\nhost:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n", r->host, r->content_sha256,
             r->time);
    if (o->session_token)
        buf_addf(out, "x-amz-security-token:%s\n", o->session_token);
    buf_addf(out, "\nhost;x-amz-content-sha256;x-amz-date%s\n%s",
             o->session_token ? ";x-amz-security-token" : "", r->content_sha256);
}

/* Each step's digest is the key of the next. */
static void signing_key(const struct s3_options *o, struct bytes day, uint8_t ret[SHA256_BYTES])
{
    CLEANUP(buf_done) struct buf first = {0};
    struct bytes key = {ret, SHA256_BYTES};

    buf_addf(&first, "AWS4%s", o->secret_key);
    hmac_sha256(buf_bytes(&first), day, ret);
    hmac_sha256(key, bytes_of(o->region), ret);
    hmac_sha256(key, BYTES("s3"), ret);
    hmac_sha256(key, BYTES("aws4_request"), ret);
}

void s3_sign(const struct s3_options *o, const struct s3_signing *r, struct buf *out)
{
    CLEANUP(buf_done) struct buf text = {0};
    char digest[2 * SHA256_BYTES + 1];
    uint8_t key[SHA256_BYTES], signature[SHA256_BYTES];
    struct bytes day = bytes_head(bytes_of(r->time), 8);

    canonical_request(o, r, &text);
    hash_hex(buf_bytes(&text), digest);
    buf_clear(&text);
    buf_addf(&text, "AWS4-HMAC-SHA256\n%s\n%.8s/%s/s3/aws4_request\n%s", r->time, r->time,
             o->region, digest);
    signing_key(o, day, key);
    hmac_sha256((struct bytes){key, sizeof(key)}, buf_bytes(&text), signature);
    hex_encode(signature, SHA256_BYTES, digest);
    buf_addf(out,
             "AWS4-HMAC-SHA256 Credential=%s/%.8s/%s/s3/aws4_request, "
             "SignedHeaders=host;x-amz-content-sha256;x-amz-date%s, Signature=%s",
             o->access_key, r->time, o->region, o->session_token ? ";x-amz-security-token" : "",
             digest);
}

/* ---- Requests */

struct request {
    const char *method;
    struct buf path, query; /* escaped */
    struct bytes body;
    const char *content_type;
    uint64_t answer_max;
};

static void request_done(struct request *r)
{
    buf_done(&r->path);
    buf_done(&r->query);
}

static void object_path(const struct s3_place *place, struct buf *path)
{
    buf_add_byte(path, '/');
    url_add_escaped(path, bytes_of(place->bucket), "");
    buf_add_byte(path, '/');
    url_add_escaped(path, bytes_of(place->key), "/");
}

static int call(struct s3 *s, const struct request *r, struct budget *b, struct http_answer *ret,
                struct error *err)
{
    CLEANUP(buf_done) struct buf url = {0};
    CLEANUP(buf_done) struct buf host = {0};
    CLEANUP(buf_done) struct buf authorization = {0};
    char digest[2 * SHA256_BYTES + 1], stamp[32];
    time_t now = time(NULL);
    struct tm tm;

    strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
    hash_hex(r->body, digest);
    url_add_authority(&s->url, &host);
    s3_sign(&s->o,
            &(struct s3_signing){.method = r->method,
                                 .host = buf_cstr(&host),
                                 .path = buf_bytes(&r->path),
                                 .query = buf_bytes(&r->query),
                                 .time = stamp,
                                 .content_sha256 = digest},
            &authorization);
    buf_add_str(&url, s->endpoint);
    buf_add_bytes(&url, buf_bytes(&r->path));
    if (r->query.len > 0)
        buf_add_byte(&url, '?');
    buf_add_bytes(&url, buf_bytes(&r->query));
    struct http_header headers[5] = {
        {BYTES("authorization"), buf_bytes(&authorization)},
        {BYTES("x-amz-date"), bytes_of(stamp)},
        {BYTES("x-amz-content-sha256"), bytes_of(digest)},
    };
    size_t n = 3;
    if (s->o.session_token)
        headers[n++] =
            (struct http_header){BYTES("x-amz-security-token"), bytes_of(s->o.session_token)};
    if (r->content_type)
        headers[n++] = (struct http_header){BYTES("content-type"), bytes_of(r->content_type)};
    return http_fetch(s->client,
                      &(struct http_fetch){.method = r->method,
                                           .url = buf_cstr(&url),
                                           .headers = headers,
                                           .n_headers = n,
                                           .body = r->body,
                                           .answer_max = r->answer_max,
                                           .no_redirects = true},
                      b, ret, err);
}

/* ---- Answers: as much XML as they need */

/* The content of the next <name>...</name>; takes it and what is before off *rest. */
static bool next_element(struct bytes *rest, const char *name, struct bytes *ret)
{
    char open[40], close[40];

    snprintf(open, sizeof(open), "<%s>", name);
    snprintf(close, sizeof(close), "</%s>", name);
    const uint8_t *from = bytes_find(*rest, bytes_of(open));
    if (!from)
        return false;
    struct bytes content = bytes_from(*rest, (size_t)(from - rest->data) + strlen(open));
    const uint8_t *end = bytes_find(content, bytes_of(close));
    if (!end)
        return false;
    *ret = bytes_head(content, (size_t)(end - content.data));
    *rest = bytes_from(content, ret->len + strlen(close));
    return true;
}

static bool find_element(struct bytes in, const char *name, struct bytes *ret)
{
    return next_element(&in, name, ret);
}

static void add_utf8(struct buf *out, uint64_t c)
{
    if (c < 0x80) {
        buf_add_byte(out, (uint8_t)c);
    } else if (c < 0x800) {
        buf_add_byte(out, (uint8_t)(0xc0 | c >> 6));
        buf_add_byte(out, (uint8_t)(0x80 | (c & 63)));
    } else if (c < 0x10000) {
        buf_add_byte(out, (uint8_t)(0xe0 | c >> 12));
        buf_add_byte(out, (uint8_t)(0x80 | (c >> 6 & 63)));
        buf_add_byte(out, (uint8_t)(0x80 | (c & 63)));
    } else if (c < 0x110000) {
        buf_add_byte(out, (uint8_t)(0xf0 | c >> 18));
        buf_add_byte(out, (uint8_t)(0x80 | (c >> 12 & 63)));
        buf_add_byte(out, (uint8_t)(0x80 | (c >> 6 & 63)));
        buf_add_byte(out, (uint8_t)(0x80 | (c & 63)));
    }
}

static void add_entity(struct buf *out, struct bytes name)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    uint64_t code;

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (bytes_are(name, known[i].name))
            buf_add_byte(out, (uint8_t)known[i].c);
    if (name.len > 2 && name.data[0] == '#' && name.data[1] == 'x') {
        if (bytes_to_hex(bytes_from(name, 2), &code))
            add_utf8(out, code);
    } else if (name.len > 1 && name.data[0] == '#' && bytes_to_u64(bytes_from(name, 1), &code)) {
        add_utf8(out, code);
    }
}

static void add_text(struct buf *out, struct bytes xml)
{
    while (xml.len > 0) {
        const uint8_t *amp = bytes_find_byte(xml, '&');
        const uint8_t *end =
            amp ? bytes_find_byte(bytes_from(xml, (size_t)(amp - xml.data)), ';') : NULL;
        size_t plain = end ? (size_t)(amp - xml.data) : xml.len;
        buf_add_bytes(out, bytes_head(xml, plain));
        if (end)
            add_entity(out, (struct bytes){amp + 1, (size_t)(end - amp) - 1});
        xml = bytes_from(xml, end ? (size_t)(end - xml.data) + 1 : xml.len);
    }
}

/* "2026-03-01T12:00:00.000Z" */
static int64_t time_of(struct bytes text)
{
    char copy[40];
    struct tm tm = {0};

    snprintf(copy, sizeof(copy), "%.*s", (int)(text.len < 39 ? text.len : 39),
             (const char *)text.data);
    return strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) * 1000000000 : 0;
}

static int refusal(const struct s3 *s, const struct s3_place *place, const struct http_answer *a,
                   struct error *err)
{
    CLEANUP(buf_done) struct buf said = {0};
    struct bytes code = {0}, message = {0}, body = http_answer_body(a);

    if (find_element(body, "Code", &code))
        add_text(&said, bytes_head(code, 80));
    if (find_element(body, "Message", &message)) {
        buf_add_str(&said, ": ");
        add_text(&said, bytes_head(message, 200));
    }
    int r = a->status == 404                              ? -ENOENT
            : a->status == 401 || a->status == 403        ? -EACCES
            : a->status >= 300 && a->status < 400         ? -EPERM
            : http_should_retry(0, a) || a->status == 500 ? -EAGAIN
                                                          : -EIO;
    return error_set(err, r, "s3://%s/%.200s at %s: answered %d %s%s%s", place->bucket, place->key,
                     s->endpoint, a->status, a->reason, said.len > 0 ? ": " : "", buf_cstr(&said));
}

/* ---- Operations */

struct listing {
    s3_object_fn sink;
    void *ctx;
    size_t n;
};

static int read_object(struct listing *l, struct bytes contents, struct error *err)
{
    CLEANUP(buf_done) struct buf key = {0};
    struct bytes key_xml = {0}, size = {0}, modified = {0};
    struct s3_object object = {0};

    if (!find_element(contents, "Key", &key_xml))
        return error_set(err, -EBADMSG, "an object without a key was listed");
    add_text(&key, key_xml);
    object.key = buf_cstr(&key);
    if (key.len > S3_KEY_MAX || strlen(object.key) != key.len)
        return error_set(err, -EBADMSG, "a key that cannot be was listed");
    if (find_element(contents, "Size", &size))
        (void)bytes_to_u64(size, &object.size);
    if (find_element(contents, "LastModified", &modified))
        object.modified_ns = time_of(modified);
    if (++l->n > S3_LIST_MAX)
        return error_set(err, -E2BIG, "more than %d objects: say a longer prefix", S3_LIST_MAX);
    return l->sink(l->ctx, &object);
}

/* One page; `token` is where it begins, and then where the next does (empty: it was the last). */
static int list_page(struct s3 *s, const struct s3_place *place, struct listing *l,
                     struct buf *token, struct error *err)
{
    CLEANUP(request_done) struct request r = {.method = "GET", .answer_max = LIST_BYTES_MAX};
    struct budget b;
    struct http_answer a;
    struct bytes rest, contents, next;

    budget_init(&b, 2 * LIST_BYTES_MAX);
    buf_addf(&r.path, "/%s", place->bucket);
    if (token->len > 0) {
        buf_add_str(&r.query, "continuation-token=");
        url_add_escaped(&r.query, buf_bytes(token), "");
        buf_add_byte(&r.query, '&');
    }
    buf_add_str(&r.query, "list-type=2&prefix=");
    url_add_escaped(&r.query, bytes_of(place->key), "");
    int result = call(s, &r, &b, &a, err);
    if (result < 0)
        return result;
    if (a.status != 200)
        result = refusal(s, place, &a, err);
    rest = http_answer_body(&a);
    buf_clear(token);
    if (result == 0 && find_element(rest, "NextContinuationToken", &next))
        add_text(token, next);
    while (result == 0 && next_element(&rest, "Contents", &contents))
        result = read_object(l, contents, err);
    http_answer_done(&b, &a);
    return result;
}

int s3_list(struct s3 *s, const struct s3_place *place, s3_object_fn sink, void *ctx,
            struct error *err)
{
    CLEANUP(buf_done) struct buf token = {0};
    struct listing l = {.sink = sink, .ctx = ctx};
    int r = 0;

    for (int page = 0; r == 0 && (page == 0 || token.len > 0); page++) {
        if (page == PAGES_MAX) /* a server that never comes to an end */
            return error_set(err, -E2BIG, "the list has more than %d pages", PAGES_MAX);
        r = list_page(s, place, &l, &token, err);
    }
    return r;
}

int s3_get(struct s3 *s, const struct s3_place *place, struct budget *b, struct http_body *ret,
           struct error *err)
{
    CLEANUP(request_done) struct request r = {.method = "GET"};
    struct http_answer a;

    object_path(place, &r.path);
    int result = call(s, &r, b, &a, err);
    if (result < 0)
        return result;
    if (a.status != 200) {
        result = refusal(s, place, &a, err);
        http_answer_done(b, &a);
        return result;
    }
    *ret = a.body;
    buf_done(&a.head);
    return 0;
}

int s3_put(struct s3 *s, const struct s3_place *place, struct bytes content,
           const char *content_type, struct error *err)
{
    CLEANUP(request_done)
    struct request r = {.method = "PUT", .body = content, .content_type = content_type};
    struct budget b;
    struct http_answer a;

    if (place->key[0] == '\0' || place->key[strlen(place->key) - 1] == '/')
        return error_set(err, -EINVAL, "s3://%s/%s names no object", place->bucket, place->key);
    budget_init(&b, (size_t)1 << 20);
    object_path(place, &r.path);
    int result = call(s, &r, &b, &a, err);
    if (result < 0)
        return result;
    if (a.status / 100 != 2)
        result = refusal(s, place, &a, err);
    http_answer_done(&b, &a);
    return result;
}
