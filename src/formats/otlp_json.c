/*
 * OTLP as JSON. The document is written out as the protobuf message it stands for, field by field
 * as it streams in, and that message is decoded: keys come in any order, and a dictionary that
 * follows the profiles is no harder than one that precedes them.
 */
#include <errno.h>

#include "base/hex.h"
#include "formats/formats.h"
#include "formats/otlp_internal.h"
#include "formats/otlp_schema.h"
#include "wire/base64.h"
#include "wire/json.h"

/* Where some messages lie, in the document and in what became of it: for error messages. */
struct checkpoint {
    size_t message, document;
};

#define CHECKPOINT_EVERY 64

struct translation {
    struct json_reader *r;
    struct budget *budget;
    struct buf out;
    size_t charged;
    bool is_1_7; /* a name was seen that only 1.7 has */
    VEC(struct checkpoint) checkpoints;
};

static size_t find_place(const void *map, size_t offset)
{
    const struct translation *t = map;
    size_t lo = 0, hi = t->checkpoints.len;

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->checkpoints.data[mid].message <= offset)
            lo = mid;
        else
            hi = mid;
    }
    return t->checkpoints.len > 0 ? t->checkpoints.data[lo].document : 0;
}

static void note_place(struct translation *t)
{
    size_t at = t->out.len;

    if (t->checkpoints.len > 0 && at - vec_last(&t->checkpoints).message < CHECKPOINT_EVERY)
        return;
    vec_push(t->budget, &t->checkpoints, (struct checkpoint){at, (size_t)json_offset(t->r)});
}

/* The output is paid for as it grows. */
static void charge(struct translation *t)
{
    if (t->out.cap <= t->charged)
        return;
    if (budget_take(t->budget, t->out.cap - t->charged))
        t->charged = t->out.cap;
    else
        json_fail(t->r, "the memory limit is reached"); /* only to stop the reader */
}

static void put_base64(struct translation *t, const struct otlp_schema_field *f, struct bytes s)
{
    size_t at = pb_begin(&t->out, f->number);

    if (base64_decode(s, &t->out))
        pb_end(&t->out, at);
    else
        json_fail(t->r, "%s is not in base64", f->name);
}

/* Hexadecimal as the specification of OTLP says, or base64 as that of JSON for protobuf does. */
static void put_id(struct translation *t, const struct otlp_schema_field *f, struct bytes s)
{
    size_t size = f->kind == OTLP_ID8 ? 8 : 16;
    uint8_t id[16];

    if (hex_decode(s, id, size))
        pb_put_bytes(&t->out, f->number, (struct bytes){id, size});
    else
        put_base64(t, f, s);
}

static uint64_t read_double(struct translation *t)
{
    double d = 0;
    uint64_t bits;

    if (json_peek(t->r) == JSON_STRING) {
        struct bytes s = json_get_string(t->r);
        if (bytes_are(s, "NaN"))
            d = __builtin_nan("");
        else if (bytes_are(s, "Infinity") || bytes_are(s, "-Infinity"))
            d = s.data[0] == '-' ? -__builtin_inf() : __builtin_inf();
        else if (!bytes_to_double(s, &d))
            json_fail(t->r, "a number was expected and another string was found");
    } else {
        d = json_get_double(t->r);
    }
    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

static uint64_t read_temporality(struct translation *t)
{
    if (json_peek(t->r) != JSON_STRING)
        return json_get_u64(t->r);
    return bytes_are(json_get_string(t->r), "AGGREGATION_TEMPORALITY_CUMULATIVE") ? 2 : 1;
}

static uint64_t read_number(struct translation *t, const struct otlp_schema_field *f)
{
    switch (f->kind) {
    case OTLP_UINT:
    case OTLP_FIXED64:
        return json_get_u64(t->r);
    case OTLP_BOOL:
        return json_get_bool(t->r);
    case OTLP_TEMPORALITY:
        return read_temporality(t);
    default:
        return (uint64_t)json_get_i64(t->r);
    }
}

static void read_message(struct translation *t, const struct otlp_schema *schema);

/* One value of a field: a message, a string or a number. */
static void read_value(struct translation *t, const struct otlp_schema_field *f)
{
    if (json_peek(t->r) == JSON_NULL) {
        json_skip(t->r);
        return;
    }
    switch (f->kind) {
    case OTLP_MESSAGE: {
        size_t at = pb_begin(&t->out, f->number);
        read_message(t, f->message);
        pb_end(&t->out, at);
        break;
    }
    case OTLP_STRING:
        pb_put_bytes(&t->out, f->number, json_get_string(t->r));
        break;
    case OTLP_BYTES:
        put_base64(t, f, json_get_string(t->r));
        break;
    case OTLP_ID8:
    case OTLP_ID16:
        put_id(t, f, json_get_string(t->r));
        break;
    case OTLP_FIXED64:
        pb_put_fixed64(&t->out, f->number, read_number(t, f));
        break;
    case OTLP_DOUBLE:
        pb_put_fixed64(&t->out, f->number, read_double(t));
        break;
    default:
        pb_put_u64(&t->out, f->number, read_number(t, f));
        break;
    }
}

static void read_packed(struct translation *t, const struct otlp_schema_field *f)
{
    size_t at = pb_begin(&t->out, f->number);

    json_enter_array(t->r);
    while (json_next_element(t->r)) {
        uint64_t v = read_number(t, f);
        if (f->kind == OTLP_FIXED64)
            buf_add(&t->out, &v, sizeof(v));
        else
            pb_put_varint(&t->out, v);
    }
    pb_end(&t->out, at);
}

static void read_field(struct translation *t, const struct otlp_schema_field *f)
{
    enum json_kind kind = json_peek(t->r);

    t->is_1_7 |= f->until_1_7;
    /* 1.7 has several sample types where there is one now. */
    if (kind != JSON_ARRAY) {
        read_value(t, f);
    } else if (f->kind != OTLP_MESSAGE && f->kind != OTLP_STRING) {
        read_packed(t, f);
    } else {
        json_enter_array(t->r);
        while (json_next_element(t->r)) {
            note_place(t);
            read_value(t, f);
            charge(t);
        }
    }
}

static void read_message(struct translation *t, const struct otlp_schema *schema)
{
    json_enter_object(t->r);
    for (struct bytes key; json_next_key(t->r, &key);) {
        const struct otlp_schema_field *f = otlp_schema_by_name(schema, key);
        if (f)
            read_field(t, f);
        else
            json_skip(t->r);
    }
    charge(t);
}

/* One document, which is one message. */
static int decode_document(struct json_reader *r, struct profile_set *out, struct error *err)
{
    struct translation t = {.r = r, .budget = out->budget};

    read_message(&t, &otlp_schema_root);
    int result = budget_failed(out->budget) ? budget_error(out->budget, err)
                                            : json_result(r, "otlp-json", err);
    if (result == 0) {
        struct otlp_source source = {.format = "otlp-json",
                                     .layout = t.is_1_7 ? &otlp_layout_own_1_7 : &otlp_layout_own,
                                     .locate = find_place,
                                     .map = &t};
        memset(buf_reserve(&t.out, 16), 0, 16); /* readable, as input_all() has it */
        struct bytes message = buf_bytes(&t.out);
        result = otlp_decode_message(message, &source, out, err);
    }
    vec_done(out->budget, &t.checkpoints);
    buf_done(&t.out);
    budget_give(out->budget, t.charged);
    return result;
}

/* The Collector's file exporter writes one document a line. */
int otlp_decode_json(struct input *in, struct profile_set *out, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, out->budget);
    int result;

    do {
        result = decode_document(r, out, err);
    } while (result == 0 && json_peek(r) == JSON_OBJECT);
    return result < 0 ? result : json_finish(r, "otlp-json", err);
}

static int otlp_json_sniff(struct bytes head)
{
    head = bytes_trim(head);
    if (head.len == 0 || head.data[0] != '{')
        return 0;
    if (bytes_find(head, BYTES("\"resourceProfiles\"")) ||
        bytes_find(head, BYTES("\"resource_profiles\"")))
        return 90;
    bool has_dictionary = bytes_find(head, BYTES("\"dictionary\"")) != NULL;
    if (has_dictionary &&
        (bytes_find(head, BYTES("Table\"")) || bytes_find(head, BYTES("_table\""))))
        return 80;
    return 0;
}

const struct format format_otlp_json = {
    .name = "otlp-json",
    .title = "OTLP profiles as JSON",
    .extension = ".otlp.json",
    .sniff = otlp_json_sniff,
    .decode = otlp_decode_json,
    .encode = otlp_encode_json,
    .holds_many = true,
};
