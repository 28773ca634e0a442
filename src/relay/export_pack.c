#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "formats/otlp_response.h"
#include "relay/export.h"
#include "wire/pack.h"

#define ZSTD_LEVEL 3
#define GZIP_LEVEL 6
#define BUDGET     ((size_t)96 << 20) /* of a request in plain */

int export_pack(enum codec codec, struct bytes plain, struct buf *out)
{
    if (codec == CODEC_ZSTD)
        return zstd_pack(plain, ZSTD_LEVEL, out);
    if (codec == CODEC_GZIP)
        gzip_pack(plain, GZIP_LEVEL, out);
    else
        buf_add_bytes(out, plain);
    return 0;
}

int export_unpack(const struct export_packed *p, struct budget *b, struct unpacked *ret,
                  struct error *err)
{
    int r = unpack(p->codec, p->data, b, ret, err);

    if (r == 0 && ret->len != p->raw_len) {
        unpacked_done(b, ret);
        return error_set(err, -EBADMSG, "a kept request is not as long as it was");
    }
    return r;
}

static int repack(const struct export_packed *p, enum codec codec, struct buf *out,
                  struct error *err)
{
    struct unpacked plain;
    struct budget b;

    budget_init(&b, BUDGET);
    int r = export_unpack(p, &b, &plain, err);
    if (r < 0)
        return r;
    r = export_pack(codec, (struct bytes){plain.data, plain.len}, out);
    unpacked_done(&b, &plain);
    return r < 0 ? error_set(err, r, "could not pack a request: %s", strerror(-r)) : 0;
}

static void send_as(struct sender *s, const struct export_packed *p, enum codec codec,
                    struct export_outcome *ret)
{
    CLEANUP(buf_done) struct buf again = {0};
    struct error err;

    *ret = (struct export_outcome){.delay_ms = -1};
    if (codec == p->codec) {
        s->ops->send(s, codec, p->data, ret);
    } else if (repack(p, codec, &again, &err) == 0) {
        s->ops->send(s, codec, buf_bytes(&again), ret);
    } else {
        ret->result = EXPORT_REFUSED;
        snprintf(ret->text, sizeof(ret->text), "%s", err.text);
    }
}

void export_send(struct sender *s, enum codec wanted, const struct export_packed *p,
                 struct export_outcome *ret)
{
    struct export_outcome second;

    if (s->ops->keep) {
        *ret = (struct export_outcome){.delay_ms = -1};
        s->ops->keep(s, p, ret);
        return;
    }
    enum codec codec = wanted == CODEC_NONE ? CODEC_NONE : s->dislikes_zstd ? CODEC_GZIP : p->codec;
    send_as(s, p, codec, ret);
    if (!ret->dislikes_packing)
        return;
    send_as(s, p, CODEC_GZIP, &second);
    if (second.result != EXPORT_SENT)
        return;
    s->dislikes_zstd = true;
    *ret = second;
}

void export_failed(int r, const struct error *err, struct export_outcome *ret)
{
    /* Nobody has refused it: a certificate can be renewed, a name appear, a wall be opened. Only an
     * answer that is far too long was one. */
    ret->result = r == -ENOBUFS ? EXPORT_REFUSED : EXPORT_RETRY;
    snprintf(ret->text, sizeof(ret->text), "%s", err->text);
}

int export_headers(const struct relay_child *c, struct buf *authorization, struct http_header *to,
                   size_t *ret_n, struct error *err)
{
    const struct export_settings *s = &c->settings;
    size_t n = 0;
    int has_token = relay_authorization(c, authorization, err);

    if (has_token < 0)
        return has_token;
    for (size_t i = 0; i < s->n_headers; i++)
        if (!has_token || !bytes_are(s->headers[i].name, "authorization"))
            to[n++] = s->headers[i];
    if (has_token)
        to[n++] = (struct http_header){BYTES("authorization"), buf_bytes(authorization)};
    *ret_n = n;
    return 0;
}

void export_read_response(struct bytes response, struct export_outcome *ret)
{
    struct otlp_response said;

    otlp_read_response(response, &said);
    ret->rejected = said.rejected;
    if (said.text[0])
        snprintf(ret->text, sizeof(ret->text), "%s", said.text);
}
