/*
 * push.v1.PusherService/Push: what Pyroscope's newer agents and Alloy send. A request is a list of
 * series, each with labels and pprof profiles.
 */
#include <errno.h>

#include "base/checksum.h"
#include "base/hex.h"
#include "base/le.h"
#include "formats/formats.h"
#include "server/pyroscope_batch.h"
#include "server/pyroscope_name.h"
#include "server/pyroscope_types.h"
#include "server/routes.h"
#include "wire/proto_json.h"
#include "wire/protobuf.h"

static const struct proto_field label_pair[] = {
    {1, "name", PROTO_STRING, false, NULL, NULL},
    {2, "value", PROTO_STRING, false, NULL, NULL},
    {0},
};
static const struct proto_field raw_sample[] = {
    {1, "rawProfile", PROTO_BYTES, false, NULL, NULL},
    {2, "ID", PROTO_STRING, false, NULL, NULL},
    {0},
};
static const struct proto_field raw_series[] = {
    {1, "labels", PROTO_MESSAGE, true, label_pair, NULL},
    {2, "samples", PROTO_MESSAGE, true, raw_sample, NULL},
    {0},
};
static const struct proto_field push_request[] = {
    {1, "series", PROTO_MESSAGE, true, raw_series, NULL},
    {0},
};

struct push {
    struct call *c;
    struct batch batch;
    const uint8_t *origin; /* of the message, for places in it */
    size_t n_series;
};

static int bad_message(const struct push *p, const struct pb_reader *r, struct error *err)
{
    return error_set(err, -EBADMSG, "push request at byte %zu: %s", pb_offset(r, p->origin),
                     r->failure);
}

/* ---- Ids */

/* Of an id that is no UUID, and may be used again, content decides as well. */
static bool read_id(struct bytes text, struct bytes content, uint8_t id[16])
{
    static const uint8_t none[16];

    if (text.len == 0)
        return false;
    if (!hex_decode_hyphened(text, id, 16)) {
        le64_put(id, checksum64(text.data, text.len));
        le64_put(id + 8, checksum64(content.data, content.len));
    }
    return memcmp(id, none, sizeof(none)) != 0;
}

/* ---- Series */

struct series {
    struct label labels[PYROSCOPE_LABELS_MAX]; /* while they are read */
    size_t n_labels;
    struct batch_about about;
};

/* A label of Pyroscope's own use begins with "__"; two of them say something. */
static int add_label(struct push *p, struct series *s, struct label l, struct error *err)
{
    CLEANUP(buf_done) struct buf kind = {.budget = &p->c->budget};
    const char *language;

    if (bytes_are(l.name, "__name__")) {
        pyroscope_name_clean(l.value, &kind);
        const char *copy = arena_strdup(call_arena(p->c), buf_bytes(&kind));
        s->about.kind = copy ? bytes_of(copy) : (struct bytes){0};
    } else if (bytes_are(l.name, "__delta__")) {
        s->about.splits = bytes_are(l.value, "false");
    }
    if (l.name.len == 0 || bytes_start_with(l.name, BYTES("__")))
        return 0;
    if (s->n_labels + 1 >= PYROSCOPE_LABELS_MAX)
        return error_set(err, -EINVAL, "series %zu has more than %d labels", p->n_series,
                         PYROSCOPE_LABELS_MAX - 1);
    s->labels[s->n_labels++] = l;
    if (bytes_are(l.name, "pyroscope_spy") && (language = pyroscope_language(l.value)))
        s->labels[s->n_labels++] =
            (struct label){BYTES("telemetry.sdk.language"), bytes_of(language)};
    return 0;
}

static int read_label(struct push *p, struct series *s, struct bytes message, struct error *err)
{
    struct pb_reader r = pb_reader(message);
    struct label l = {0};

    while (pb_next(&r)) {
        if (r.field == 1)
            l.name = pb_bytes(&r);
        else if (r.field == 2)
            l.value = pb_bytes(&r);
    }
    return r.failure ? bad_message(p, &r, err) : add_label(p, s, l, err);
}

static int read_sample(struct push *p, struct series *s, struct bytes message, size_t number,
                       struct error *err)
{
    struct pb_reader r = pb_reader(message);
    struct bytes profile = {0}, id = {0};
    size_t first = p->batch.set->profiles.len;
    char name[64];

    while (pb_next(&r)) {
        if (r.field == 1)
            profile = pb_bytes(&r);
        else if (r.field == 2)
            id = pb_bytes(&r);
    }
    if (r.failure)
        return bad_message(p, &r, err);
    snprintf(name, sizeof(name), "series %zu, sample %zu", p->n_series, number);
    CLEANUP(input_closep) struct input *in = input_from_bytes(profile, name, &p->c->budget);
    int e = format_read(in, &format_pprof, p->batch.set, NULL, err);
    if (e < 0)
        return e;
    s->about.has_id = read_id(id, profile, s->about.id);
    return batch_add(&p->batch, first, &s->about, err);
}

static int read_labels(struct push *p, struct series *s, struct bytes message, struct error *err)
{
    struct pb_reader r = pb_reader(message);
    int e = 0;

    while (e == 0 && pb_next(&r)) {
        if (r.field == 1)
            e = read_label(p, s, pb_bytes(&r), err);
    }
    if (e == 0 && r.failure)
        e = bad_message(p, &r, err);
    if (e < 0)
        return e;
    struct label *labels = arena_new(call_arena(p->c), struct label, s->n_labels);
    if (!labels)
        return budget_error(&p->c->budget, err);
    for (size_t i = 0; i < s->n_labels; i++)
        labels[i] = s->labels[i];
    s->about.labels = labels;
    s->about.n_labels = s->n_labels;
    return 0;
}

/* Labels may stand behind the samples. */
static int read_series(struct push *p, struct bytes message, struct error *err)
{
    struct series s = {.n_labels = 0};
    size_t n_samples = 0;

    p->n_series++;
    int e = read_labels(p, &s, message, err);
    struct pb_reader r = pb_reader(message);
    while (e == 0 && pb_next(&r)) {
        if (r.field == 2)
            e = read_sample(p, &s, pb_bytes(&r), ++n_samples, err);
    }
    return e == 0 && r.failure ? bad_message(p, &r, err) : e;
}

static int read_request(struct push *p, struct bytes message, struct error *err)
{
    struct pb_reader r = pb_reader(message);
    int e = 0;

    p->origin = message.data;
    while (e == 0 && pb_next(&r)) {
        if (r.field == 1)
            e = read_series(p, pb_bytes(&r), err);
    }
    return e == 0 && r.failure ? bad_message(p, &r, err) : e;
}

static int push(struct push *p, struct error *err)
{
    CLEANUP(buf_done) struct buf message = {.budget = &p->c->budget};
    struct ingest_options o = {.format = "push"};
    struct bytes body = p->c->body;
    int r = 0;

    if (p->c->is_json) {
        r = proto_from_json(push_request, body, &p->c->budget, &message, err);
        body = buf_bytes(&message);
    }
    if (r == 0)
        r = read_request(p, body, err);
    return r == 0 ? batch_store(&p->batch, &o, err) : r;
}

static int handle_push(struct call *c, struct error *err)
{
    struct push p = {.c = c};
    struct buf nothing = {0};

    batch_init(&p.batch, c);
    int r = push(&p, err);
    batch_done(&p.batch);
    if (r == 0)
        call_reply_message(c, &nothing);
    return r;
}

const struct route push_routes[] = {
    {"POST", "/push.v1.PusherService/Push", ROLE_INGEST, LANE_INGEST, DIALECT_RPC, 0, handle_push,
     0, "pprof profiles as Pyroscope's newer agents push them: gRPC, Connect as protobuf or JSON",
     NULL},
    {0},
};
