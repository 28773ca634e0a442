#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/http_client.h"
#include "relay/export.h"
#include "wire/protobuf.h"

#define ANSWER_MAX ((uint64_t)64 << 10)
#define BUDGET     ((size_t)1 << 20) /* of an answer */
#define NS_PER_S   1000000000

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

static void judge(const struct http_sending *h, const struct http_answer *a, enum codec codec,
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
    ret->dislikes_packing = a->status == 415 && codec == CODEC_ZSTD;
}

static void send_request(struct sender *s, enum codec codec, struct bytes body,
                         struct export_outcome *ret)
{
    struct http_sending *h = OWNER_OF(s, struct http_sending, base);
    struct http_header headers[EXPORT_HEADERS_MAX + EXPORT_OWN_HEADERS];
    CLEANUP(buf_done) struct buf authorization = {0};
    struct http_answer a;
    struct budget b;
    struct error err;
    size_t n;

    int failed = export_headers(h->o.child, &authorization, headers, &n, &err);
    if (failed < 0) {
        export_failed(failed, &err, ret);
        return;
    }
    headers[n++] = (struct http_header){BYTES("content-type"), BYTES("application/x-protobuf")};
    if (codec != CODEC_NONE)
        headers[n++] = (struct http_header){BYTES("content-encoding"),
                                            codec == CODEC_GZIP ? BYTES("gzip") : BYTES("zstd")};
    struct http_fetch f = {.method = "POST",
                           .url = h->o.target->url,
                           .headers = headers,
                           .n_headers = n,
                           .body = body,
                           .answer_max = ANSWER_MAX,
                           .is_repeatable = true}; /* a kept connection that died said nothing */
    budget_init(&b, BUDGET);
    failed = http_fetch(h->client, &f, &b, &a, &err);
    if (failed < 0) {
        export_failed(failed, &err, ret);
        return;
    }
    judge(h, &a, codec, ret);
    http_answer_done(&b, &a);
}

const struct sender_ops http_sender = {
    .make = make, .send = send_request, .free = free_sender, .has_spool = true};
