#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/http_client.h"
#include "relay/export.h"
#include "wire/protobuf.h"

#define ANSWER_MAX  ((uint64_t)64 << 10)
#define BUDGET      ((size_t)96 << 20) /* a request in plain, where packing is not wanted */
#define NS_PER_S    1000000000
#define OWN_HEADERS 3

struct http_sending {
    struct sender base;
    struct sender_options o;
    struct http_client *client;
};

static struct sender *make(const struct sender_options *o)
{
    const struct export_settings *s = &o->child->settings;
    struct http_sending *h = must_calloc(1, sizeof(*h));
    int seconds = (int)((s->timeout_ns + NS_PER_S - 1) / NS_PER_S);
    struct http_client_options client = {.ca_file = s->ca_file,
                                         .cert_file = s->cert_file,
                                         .key_file = s->key_file,
                                         .connect_s = seconds < 10 ? seconds : 10,
                                         .silence_s = seconds,
                                         .total_s = seconds,
                                         .cancelled = o->cancelled};

    h->base.ops = &http_sender;
    h->o = *o;
    h->client = http_client_new(&client);
    return &h->base;
}

static void free_sender(struct sender *s)
{
    struct http_sending *h = OWNER_OF(s, struct http_sending, base);

    http_client_free(h->client);
    free(h);
}

/* Of a google.rpc.Status, which is what OTLP puts into every refusal. */
static struct bytes status_message(struct bytes body)
{
    struct pb_reader r = pb_reader(body);
    struct bytes message = {0};

    while (pb_next(&r))
        if (r.field == 2 && r.wire == PB_BYTES)
            message = r.data;
    return r.failure ? (struct bytes){0} : message;
}

static void judge(const struct http_sending *h, const struct http_answer *a,
                  struct export_outcome *ret)
{
    struct bytes type = http_media_type(http_answer_header(a, "content-type"));
    bool is_protobuf = bytes_are(type, "application/x-protobuf");

    if (a->status >= 200 && a->status < 300) {
        ret->result = EXPORT_SENT;
        if (is_protobuf)
            export_read_response(http_answer_body(a), ret);
        return;
    }
    struct bytes said = is_protobuf ? status_message(http_answer_body(a)) : (struct bytes){0};
    struct error err;
    if (said.len > 0)
        snprintf(ret->text, sizeof(ret->text), "answered %d %s: %.*s", a->status, a->reason,
                 (int)(said.len < 300 ? said.len : 300), (const char *)said.data);
    else if (http_answer_error(a, h->o.target->name, &err) < 0)
        snprintf(ret->text, sizeof(ret->text), "%s", err.text);
    ret->result = http_should_retry(0, a) ? EXPORT_RETRY : EXPORT_REFUSED;
    ret->delay_ms = a->retry_after_ms;
}

static size_t make_headers(const struct http_sending *h, bool is_packed, enum codec codec,
                           struct buf *authorization, struct http_header *to)
{
    const struct export_settings *s = &h->o.child->settings;
    bool has_authorization = false;
    size_t n = 0;

    for (size_t i = 0; i < s->n_headers; i++) {
        has_authorization = has_authorization || bytes_are(s->headers[i].name, "authorization");
        to[n++] = s->headers[i];
    }
    to[n++] = (struct http_header){BYTES("content-type"), BYTES("application/x-protobuf")};
    if (is_packed)
        to[n++] = (struct http_header){BYTES("content-encoding"),
                                       codec == CODEC_GZIP ? BYTES("gzip") : BYTES("zstd")};
    if (!has_authorization && relay_authorization(h->o.child, authorization))
        to[n++] = (struct http_header){BYTES("authorization"), buf_bytes(authorization)};
    return n;
}

static void post(struct http_sending *h, const struct http_fetch *f, struct budget *b,
                 struct export_outcome *ret)
{
    struct http_answer a;
    struct error err;
    int r = http_fetch(h->client, f, b, &a, &err);

    if (r == 0) {
        judge(h, &a, ret);
        http_answer_done(b, &a);
        return;
    }
    /* Nobody has refused it: a certificate can be renewed, a name appear, a wall be opened. Only
     * an answer that is far too long was one. */
    ret->result = r == -ENOBUFS ? EXPORT_REFUSED : EXPORT_RETRY;
    snprintf(ret->text, sizeof(ret->text), "%s", err.text);
}

static void send_request(struct sender *s, enum codec codec, size_t raw_len, struct bytes packed,
                         struct export_outcome *ret)
{
    struct http_sending *h = OWNER_OF(s, struct http_sending, base);
    bool is_packed = h->o.child->settings.codec != CODEC_NONE;
    struct http_header headers[EXPORT_HEADERS_MAX + OWN_HEADERS];
    CLEANUP(buf_done) struct buf authorization = {0};
    struct unpacked plain = {0};
    struct budget b;
    struct error err;

    budget_init(&b, BUDGET);
    if (!is_packed && export_unpack(codec, raw_len, packed, &b, &plain, &err) < 0) {
        ret->result = EXPORT_REFUSED;
        snprintf(ret->text, sizeof(ret->text), "%s", err.text);
        return;
    }
    struct http_fetch f = {.method = "POST",
                           .url = h->o.target->url,
                           .headers = headers,
                           .n_headers = make_headers(h, is_packed, codec, &authorization, headers),
                           .body = is_packed ? packed : (struct bytes){plain.data, plain.len},
                           .answer_max = ANSWER_MAX,
                           .is_repeatable = true}; /* the connection died before an answer */
    post(h, &f, &b, ret);
    unpacked_done(&b, &plain);
}

const struct sender_ops http_sender = {
    .make = make, .send = send_request, .free = free_sender, .has_spool = true};
