/* OTLP as JSON: the protobuf message that otlp_encode() makes, told by name. */
#include "formats/otlp_internal.h"
#include "formats/otlp_schema.h"
#include "wire/json.h"

static void write_message(struct json_writer *w, const struct otlp_schema *s, struct bytes message);

static void write_hex(struct json_writer *w, struct bytes s)
{
    static const char digits[] = "0123456789abcdef";
    char text[32];
    size_t n = 0;

    for (size_t i = 0; i < s.len && n < sizeof(text); i++) {
        text[n++] = digits[s.data[i] >> 4];
        text[n++] = digits[s.data[i] & 15];
    }
    json_string(w, (struct bytes){(const uint8_t *)text, n});
}

static void write_base64(struct json_writer *w, struct bytes s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf text = {0};

    for (size_t i = 0; i < s.len; i += 3) {
        size_t n = s.len - i < 3 ? s.len - i : 3;
        uint32_t bits = (uint32_t)s.data[i] << 16;
        bits |= n > 1 ? (uint32_t)s.data[i + 1] << 8 : 0;
        bits |= n > 2 ? (uint32_t)s.data[i + 2] : 0;
        for (size_t k = 0; k < 4; k++)
            buf_add_byte(&text, k <= n ? (uint8_t)digits[bits >> (18 - 6 * k) & 63] : '=');
    }
    json_string(w, text.data ? buf_bytes(&text) : BYTES(""));
    buf_done(&text);
}

static void write_double(struct json_writer *w, uint64_t bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    if (__builtin_isnan(d))
        json_cstring(w, "NaN");
    else if (__builtin_isinf(d))
        json_cstring(w, d < 0 ? "-Infinity" : "Infinity");
    else
        json_double(w, d);
}

static void write_number(struct json_writer *w, const struct otlp_schema_field *f, uint64_t v)
{
    switch (f->kind) {
    case OTLP_INT:
        json_i64_string(w, (int64_t)v);
        break;
    case OTLP_UINT:
    case OTLP_FIXED64:
        json_u64_string(w, v);
        break;
    case OTLP_BOOL:
        json_bool(w, v != 0);
        break;
    case OTLP_DOUBLE:
        write_double(w, v);
        break;
    default:
        json_i64(w, (int64_t)v);
        break;
    }
}

static void write_value(struct json_writer *w, const struct otlp_schema_field *f,
                        const struct pb_reader *r)
{
    switch (f->kind) {
    case OTLP_MESSAGE:
        write_message(w, f->message, r->data);
        break;
    case OTLP_STRING:
        json_string(w, r->data);
        break;
    case OTLP_BYTES:
        write_base64(w, r->data);
        break;
    case OTLP_ID8:
    case OTLP_ID16:
        write_hex(w, r->data);
        break;
    default:
        write_number(w, f, r->value);
        break;
    }
}

static void write_packed(struct json_writer *w, const struct otlp_schema_field *f,
                         struct pb_reader *r)
{
    struct bytes list = r->data;
    uint64_t v;

    if (f->kind == OTLP_FIXED64) {
        for (size_t i = 0; i + 8 <= list.len; i += 8) {
            memcpy(&v, list.data + i, 8);
            write_number(w, f, v);
        }
        return;
    }
    while (pb_packed_next(r, &list, &v))
        write_number(w, f, v);
}

/* Elements of a repeated field stand together in what we write: they are one array. */
static void write_message(struct json_writer *w, const struct otlp_schema *s, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    uint32_t open = 0; /* the repeated field whose array is open */

    json_begin_object(w);
    while (pb_next(&r)) {
        const struct otlp_schema_field *f = otlp_schema_by_number(s, r.field);
        if (!f)
            continue;
        if (open != 0 && open != r.field) {
            json_end_array(w);
            open = 0;
        }
        if (open == 0)
            json_key(w, f->name);
        if (f->repeated && open == 0) {
            json_begin_array(w);
            open = r.field;
        }
        if (f->repeated && f->kind != OTLP_MESSAGE && f->kind != OTLP_STRING)
            write_packed(w, f, &r);
        else
            write_value(w, f, &r);
    }
    if (open != 0)
        json_end_array(w);
    json_end_object(w);
}

int otlp_encode_json(const struct profile_set *set, struct buf *out, struct buf *losses,
                     struct error *err)
{
    struct buf message = {.budget = set->budget};
    struct json_writer w = {.out = out};
    int r = otlp_encode(set, &message, losses, err);

    if (r == 0 && buf_full(&message))
        r = buf_error(&message, err);
    if (r == 0) {
        write_message(&w, &otlp_schema_root, buf_bytes(&message));
        buf_add_byte(out, '\n');
    }
    buf_done(&message);
    return r;
}
