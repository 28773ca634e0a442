#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "net/grpc_client.h"
#include "relay/export.h"

struct grpc_sending {
    struct sender base;
    struct sender_options o;
    struct grpc_client *client;
};

static struct sender *make(const struct sender_options *o)
{
    const struct export_settings *s = &o->child->settings;
    struct grpc_sending *g = must_calloc(1, sizeof(*g));
    struct grpc_client_options client = {.url = o->target->url,
                                         .ca_file = s->ca_file,
                                         .cert_file = s->cert_file,
                                         .key_file = s->key_file,
                                         .cancelled = o->cancelled};

    g->base.ops = &grpc_sender;
    g->o = *o;
    if (grpc_client_new(&client, &g->client, NULL) < 0)
        g->client = NULL; /* the settings have checked it */
    return &g->base;
}

static void free_sender(struct sender *s)
{
    struct grpc_sending *g = OWNER_OF(s, struct grpc_sending, base);

    grpc_client_free(g->client);
    free(g);
}

static void judge(const struct grpc_answer *a, enum codec codec, struct export_outcome *ret)
{
    if (a->code == GRPC_OK) {
        ret->result = EXPORT_SENT;
        export_read_response(buf_bytes(&a->body), ret);
        return;
    }
    ret->result = grpc_should_retry(a) ? EXPORT_RETRY : EXPORT_REFUSED;
    ret->delay_ms = a->retry_ms;
    /* So it says of a method that it does not know, too: another try will tell. */
    ret->dislikes_packing = a->code == GRPC_UNIMPLEMENTED && codec == CODEC_ZSTD;
    snprintf(ret->text, sizeof(ret->text), "answered %s%s%s", connect_code_name(a->code),
             a->text[0] ? ": " : "", a->text);
}

static void send_request(struct sender *s, enum codec codec, struct bytes body,
                         struct export_outcome *ret)
{
    struct grpc_sending *g = OWNER_OF(s, struct grpc_sending, base);
    struct http_header headers[EXPORT_HEADERS_MAX + EXPORT_OWN_HEADERS];
    CLEANUP(buf_done) struct buf authorization = {0};
    struct grpc_request r = {
        .path = EXPORT_METHOD,
        .headers = headers,
        .message = body,
        .encoding = codec == CODEC_NONE   ? GRPC_IDENTITY
                    : codec == CODEC_GZIP ? GRPC_GZIP
                                          : GRPC_ZSTD,
        .timeout_ns = g->o.child->settings.timeout_ns,
    };
    struct grpc_answer a;
    struct error err;
    int failed = export_headers(g->o.child, &authorization, headers, &r.n_headers, &err);

    if (failed == 0)
        failed = g->client ? grpc_call(g->client, &r, &a, &err)
                           : error_set(&err, -EINVAL, "%s is no address", g->o.target->name);
    if (failed < 0) {
        export_failed(failed, &err, ret);
        if (failed == -EBADMSG) /* it has taken it, and only says so badly */
            ret->result = EXPORT_SENT;
        return;
    }
    judge(&a, codec, ret);
    grpc_answer_done(&a);
}

const struct sender_ops grpc_sender = {
    .make = make, .send = send_request, .free = free_sender, .has_spool = true};
