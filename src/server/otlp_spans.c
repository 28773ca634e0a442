#include "server/otlp_spans.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/hex.h"
#include "wire/proto_json.h"
#include "wire/protobuf.h"

/* What the store takes; longer texts are cut, for they name and do not tell. */
#define NAME_BYTES_MAX  1024
#define VALUE_BYTES_MAX 1024
#define ATTRIBUTES_MAX  64

#define FUTURE_MAX_NS ((int64_t)3600 * 1000000000)

/* ---- JSON: the same message. Ids are text there, in hexadecimal. */

static const char *const kind_names[] = {
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
    NULL,
};
static const char *const code_names[] = {
    "STATUS_CODE_UNSET",
    "STATUS_CODE_OK",
    "STATUS_CODE_ERROR",
    NULL,
};
static const struct proto_field value_fields[] = {
    {1, "stringValue", PROTO_STRING, .is_repeated = false},
    {2, "boolValue", PROTO_BOOL, .is_repeated = false},
    {3, "intValue", PROTO_INT64, .is_repeated = false},
    {4, "doubleValue", PROTO_DOUBLE, .is_repeated = false},
    {0},
};
static const struct proto_field attribute_fields[] = {
    {1, "key", PROTO_STRING, .is_repeated = false},
    {2, "value", PROTO_MESSAGE, .message = value_fields},
    {0},
};
static const struct proto_field resource_fields[] = {
    {1, "attributes", PROTO_MESSAGE, .is_repeated = true, .message = attribute_fields},
    {0},
};
static const struct proto_field status_fields[] = {
    {3, "code", PROTO_ENUM, .values = code_names},
    {0},
};
static const struct proto_field span_fields[] = {
    {1, "traceId", PROTO_STRING, .is_repeated = false},
    {2, "spanId", PROTO_STRING, .is_repeated = false},
    {4, "parentSpanId", PROTO_STRING, .is_repeated = false},
    {5, "name", PROTO_STRING, .is_repeated = false},
    {6, "kind", PROTO_ENUM, .values = kind_names},
    {7, "startTimeUnixNano", PROTO_UINT64, .is_repeated = false},
    {8, "endTimeUnixNano", PROTO_UINT64, .is_repeated = false},
    {9, "attributes", PROTO_MESSAGE, .is_repeated = true, .message = attribute_fields},
    {15, "status", PROTO_MESSAGE, .message = status_fields},
    {0},
};
static const struct proto_field scope_fields[] = {
    {2, "spans", PROTO_MESSAGE, .is_repeated = true, .message = span_fields},
    {0},
};
static const struct proto_field resource_spans_fields[] = {
    {1, "resource", PROTO_MESSAGE, .message = resource_fields},
    {2, "scopeSpans", PROTO_MESSAGE, .is_repeated = true, .message = scope_fields},
    {0},
};
static const struct proto_field request_fields[] = {
    {1, "resourceSpans", PROTO_MESSAGE, .is_repeated = true, .message = resource_spans_fields},
    {0},
};

/* ---- The message */

struct decoder {
    const struct otlp_spans_options *o;
    struct bytes wanted[CONFIG_LIST_MAX];
    size_t n_wanted;
    struct otlp_spans *out;
    const uint8_t *origin;
    struct error *err;
    int status; /* the first failure */

    /* Of the resource. */
    struct bytes service;
    struct label resource[ATTRIBUTES_MAX];
    size_t n_resource;
};

static bool next(struct decoder *d, struct pb_reader *r)
{
    if (d->status == 0 && pb_next(r))
        return true;
    if (d->status == 0 && r->failure)
        d->status = error_set(d->err, -EBADMSG, "otlp traces at byte %zu: %s",
                              pb_offset(r, d->origin), r->failure);
    return false;
}

static void out_of_memory(struct decoder *d)
{
    if (d->status == 0)
        d->status = budget_error(d->out->arena->budget, d->err);
}

/* At most n bytes, and no part of a character at the end. */
static struct bytes cut(struct bytes s, size_t n)
{
    if (s.len <= n)
        return s;
    while (n > 0 && (s.data[n] & 0xc0) == 0x80)
        n--;
    return bytes_head(s, n);
}

static struct bytes number_text(struct decoder *d, const struct pb_reader *r)
{
    char text[32];
    double v;

    memcpy(&v, &r->value, sizeof(v));
    if (r->field == 2)
        return bytes_of(r->value ? "true" : "false");
    if (r->field == 3)
        snprintf(text, sizeof(text), "%" PRId64, (int64_t)r->value);
    else
        snprintf(text, sizeof(text), "%.15g", v);
    const char *copy = arena_strdup(d->out->arena, bytes_of(text));
    if (!copy)
        out_of_memory(d);
    return copy ? bytes_of(copy) : (struct bytes){0};
}

/* An AnyValue as text; empty for lists and the like. */
static struct bytes value_text(struct decoder *d, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct bytes text = {0};

    while (next(d, &r)) {
        if (r.field == 1 && r.wire == PB_BYTES)
            text = cut(r.data, VALUE_BYTES_MAX);
        else if (r.field >= 2 && r.field <= 4 && r.wire != PB_BYTES)
            text = number_text(d, &r);
    }
    return text;
}

static struct bytes wanted_name(const struct decoder *d, struct bytes key)
{
    for (size_t i = 0; i < d->n_wanted; i++) {
        if (bytes_equal(key, d->wanted[i]))
            return d->wanted[i];
    }
    return (struct bytes){0};
}

struct key_value {
    struct bytes key, value;
};

static struct key_value key_value(struct decoder *d, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct key_value kv = {0};

    while (next(d, &r)) {
        if (r.field == 1)
            kv.key = pb_bytes(&r);
        else if (r.field == 2)
            kv.value = pb_bytes(&r);
    }
    return kv;
}

static void add_label(struct decoder *d, struct bytes name, struct bytes value, struct label *to,
                      size_t *n)
{
    struct bytes text = value_text(d, value);

    if (text.len == 0)
        return;
    for (size_t i = 0; i < *n; i++) {
        if (bytes_equal(to[i].name, name)) {
            to[i].value = text;
            return;
        }
    }
    if (*n < ATTRIBUTES_MAX)
        to[(*n)++] = (struct label){name, text};
}

static void add_attribute(struct decoder *d, struct bytes message, struct label *to, size_t *n)
{
    struct key_value kv = key_value(d, message);
    struct bytes name = wanted_name(d, kv.key);

    if (name.len > 0)
        add_label(d, name, kv.value, to, n);
}

static void read_resource(struct decoder *d, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    while (next(d, &r)) {
        if (r.field != 1)
            continue;
        struct key_value kv = key_value(d, pb_bytes(&r));
        struct bytes name = wanted_name(d, kv.key);
        if (bytes_are(kv.key, LABEL_SERVICE))
            d->service = cut(value_text(d, kv.value), NAME_BYTES_MAX);
        else if (name.len > 0)
            add_label(d, name, kv.value, d->resource, &d->n_resource);
    }
}

/* An id of n bytes; false when it is none. */
static bool read_id(const struct decoder *d, struct bytes s, uint8_t *to, size_t n)
{
    uint8_t any = 0;

    if (d->o->is_json ? !hex_decode(s, to, n) : s.len != n)
        return false;
    if (!d->o->is_json)
        memcpy(to, s.data, n);
    for (size_t i = 0; i < n; i++)
        any |= to[i];
    return any != 0;
}

static uint8_t read_status(struct decoder *d, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    uint64_t code = 0;

    while (next(d, &r)) {
        if (r.field == 3)
            code = pb_u64(&r);
    }
    return code <= 2 ? (uint8_t)code : 0;
}

/* A span on the wire, and its attributes as they are kept. */
struct raw_span {
    struct bytes trace_id, span_id, parent_id;
    uint64_t start, end, kind;
    struct label attributes[ATTRIBUTES_MAX];
    size_t n;
};

static const char *span_fault(const struct decoder *d, const struct raw_span *raw,
                              struct store_span *s)
{
    if (!read_id(d, raw->trace_id, s->trace_id, sizeof(s->trace_id)))
        return "its trace id is not 16 bytes, or all zero";
    if (!read_id(d, raw->span_id, s->span_id, sizeof(s->span_id)))
        return "its span id is not 8 bytes, or all zero";
    if (raw->parent_id.len > 0 && !read_id(d, raw->parent_id, s->parent_id, sizeof(s->parent_id)) &&
        raw->parent_id.len != (d->o->is_json ? 16 : 8))
        return "its parent id is not 8 bytes";
    if (raw->start == 0)
        return "it does not say when it began";
    if (raw->start > (uint64_t)d->o->now_ns &&
        raw->start - (uint64_t)d->o->now_ns > (uint64_t)FUTURE_MAX_NS)
        return "it is from more than an hour in the future";
    return NULL;
}

static bool make_room(struct decoder *d)
{
    struct otlp_spans *out = d->out;

    if (out->n < out->cap)
        return true;
    size_t cap = out->cap ? out->cap * 2 : 64;
    struct store_span *all = arena_new(out->arena, struct store_span, cap);
    if (!all) {
        out_of_memory(d);
        return false;
    }
    if (out->n > 0)
        memcpy(all, out->all, out->n * sizeof(*all));
    out->all = all;
    out->cap = cap;
    return true;
}

static void keep_span(struct decoder *d, const struct raw_span *raw, struct store_span s)
{
    struct otlp_spans *out = d->out;
    const char *fault = span_fault(d, raw, &s);

    if (fault) {
        if (out->rejected++ == 0)
            error_set(&out->why, 0, "span \"%.*s\": %s", (int)cut(s.name, 100).len,
                      (const char *)s.name.data, fault);
        return;
    }
    s.service = d->service.len > 0 ? d->service : BYTES("unknown_service");
    s.start_ns = (int64_t)raw->start;
    s.duration_ns =
        raw->end > raw->start && raw->end <= INT64_MAX ? (int64_t)(raw->end - raw->start) : 0;
    s.kind = raw->kind <= 5 ? (uint8_t)raw->kind : 0;
    struct label *kept = arena_new(out->arena, struct label, raw->n);
    if (!kept) {
        out_of_memory(d);
        return;
    }
    if (raw->n > 0)
        memcpy(kept, raw->attributes, raw->n * sizeof(*kept));
    s.attributes = kept;
    s.n_attributes = raw->n;
    if (make_room(d))
        out->all[out->n++] = s;
}

static void read_span(struct decoder *d, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct store_span s = {.name = {0}};
    struct raw_span raw;

    raw.trace_id = raw.span_id = raw.parent_id = (struct bytes){0};
    raw.start = raw.end = raw.kind = 0;
    raw.n = d->n_resource;
    memcpy(raw.attributes, d->resource, d->n_resource * sizeof(*d->resource));
    while (next(d, &r)) {
        switch (r.field) {
        case 1:
            raw.trace_id = pb_bytes(&r);
            break;
        case 2:
            raw.span_id = pb_bytes(&r);
            break;
        case 4:
            raw.parent_id = pb_bytes(&r);
            break;
        case 5:
            s.name = cut(pb_bytes(&r), NAME_BYTES_MAX);
            break;
        case 6:
            raw.kind = pb_u64(&r);
            break;
        case 7:
            raw.start = pb_u64(&r);
            break;
        case 8:
            raw.end = pb_u64(&r);
            break;
        case 9:
            add_attribute(d, pb_bytes(&r), raw.attributes, &raw.n);
            break;
        case 15:
            s.status = read_status(d, pb_bytes(&r));
            break;
        default:
            break;
        }
    }
    if (d->status == 0)
        keep_span(d, &raw, s);
}

static void read_scope(struct decoder *d, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    while (next(d, &r)) {
        if (r.field == 2)
            read_span(d, pb_bytes(&r));
    }
}

/* Fields come in any order: the resource is read by a walk of its own. */
static void read_resource_spans(struct decoder *d, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    d->service = (struct bytes){0};
    d->n_resource = 0;
    while (next(d, &r)) {
        if (r.field == 1)
            read_resource(d, pb_bytes(&r));
    }
    r = pb_reader(message);
    while (next(d, &r)) {
        if (r.field == 2)
            read_scope(d, pb_bytes(&r));
    }
}

int otlp_spans_decode(struct bytes message, const struct otlp_spans_options *o,
                      struct otlp_spans *ret, struct error *err)
{
    struct decoder d = {.o = o, .out = ret, .err = err};

    for (; d.n_wanted < o->attributes->n; d.n_wanted++)
        d.wanted[d.n_wanted] = bytes_of(o->attributes->items[d.n_wanted]);

    if (o->is_json) {
        ret->plain.budget = ret->arena->budget;
        int r = proto_from_json(request_fields, message, ret->arena->budget, &ret->plain, err);
        if (r < 0)
            return r;
        message = buf_bytes(&ret->plain);
    }
    d.origin = message.data;
    struct pb_reader r = pb_reader(message);
    while (next(&d, &r)) {
        if (r.field == 1)
            read_resource_spans(&d, pb_bytes(&r));
    }
    return d.status;
}

void otlp_spans_done(struct otlp_spans *s)
{
    buf_done(&s->plain);
}
