#include "wire/proto_json.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "wire/base64.h"
#include "wire/json.h"
#include "wire/protobuf.h"
#include "wire/utf8.h"

void proto_put_text(struct buf *out, uint32_t field, struct bytes text)
{
    if (utf8_sound(text) == text.len) {
        pb_put_bytes(out, field, text);
        return;
    }
    size_t at = pb_begin(out, field);
    utf8_add(out, text);
    pb_end(out, at);
}

/* ---- From JSON */

/* Whether a key is a field's, by its JSON name or as the .proto file spells it. */
static bool is_key(struct bytes key, const char *name)
{
    size_t i = 0;
    for (; i < key.len; i++) {
        if (key.data[i] == '_')
            continue;
        if (!*name || tolower(key.data[i]) != tolower((unsigned char)*name))
            return false;
        name++;
    }
    return !*name;
}

static const struct proto_field *find_key(const struct proto_field *message, struct bytes key)
{
    for (const struct proto_field *f = message; f->number; f++)
        if (is_key(key, f->name))
            return f;
    return NULL;
}

static uint64_t read_enum(struct json_reader *r, const struct proto_field *f)
{
    if (json_peek(r) != JSON_STRING)
        return (uint64_t)json_get_i64(r);
    struct bytes text = json_get_string(r);
    for (uint64_t i = 0; f->values[i]; i++)
        if (bytes_are(text, f->values[i]))
            return i;
    json_fail(r, "\"%.*s\" is no value of \"%s\"", text.len > 100 ? 100 : (int)text.len,
              (const char *)text.data, f->name);
    return 0;
}

static double read_double(struct json_reader *r, const struct proto_field *f)
{
    double v = 0;
    if (json_peek(r) != JSON_STRING)
        return json_get_double(r);
    if (!bytes_to_double(json_get_string(r), &v))
        json_fail(r, "\"%s\" is not a number", f->name);
    return v;
}

static void read_message(struct json_reader *r, const struct proto_field *message, struct buf *out);

static void read_bytes(struct json_reader *r, const struct proto_field *f, struct buf *out)
{
    size_t at = pb_begin(out, f->number);
    bool ok = base64_decode(json_get_string(r), out);
    pb_end(out, at);
    if (!ok)
        json_fail(r, "\"%s\" is not base64", f->name);
}

static void read_value(struct json_reader *r, const struct proto_field *f, struct buf *out)
{
    double d;
    uint64_t bits;
    size_t at;

    switch (f->kind) {
    case PROTO_STRING:
        pb_put_bytes(out, f->number, json_get_string(r));
        break;
    case PROTO_BYTES:
        read_bytes(r, f, out);
        break;
    case PROTO_INT64:
    case PROTO_INT32:
        pb_put_u64(out, f->number, (uint64_t)json_get_i64(r));
        break;
    case PROTO_UINT64:
        pb_put_u64(out, f->number, json_get_u64(r));
        break;
    case PROTO_BOOL:
        pb_put_u64(out, f->number, json_get_bool(r));
        break;
    case PROTO_DOUBLE:
        d = read_double(r, f);
        memcpy(&bits, &d, sizeof(bits));
        pb_put_fixed64(out, f->number, bits);
        break;
    case PROTO_ENUM:
        pb_put_u64(out, f->number, read_enum(r, f));
        break;
    case PROTO_MESSAGE:
        at = pb_begin(out, f->number);
        read_message(r, f->message, out);
        pb_end(out, at);
        break;
    }
}

static void read_field(struct json_reader *r, const struct proto_field *f, struct buf *out)
{
    if (!f || json_peek(r) == JSON_NULL) {
        json_skip(r);
        return;
    }
    if (!f->is_repeated) {
        read_value(r, f, out);
        return;
    }
    json_enter_array(r);
    while (json_next_element(r))
        read_value(r, f, out);
}

static void read_message(struct json_reader *r, const struct proto_field *message, struct buf *out)
{
    struct bytes key;

    json_enter_object(r);
    while (json_next_key(r, &key)) {
        read_field(r, find_key(message, key), out);
        if (buf_full(out))
            json_fail(r, "the message does not fit in memory");
    }
}

int proto_from_json(const struct proto_field *message, struct bytes json, struct budget *budget,
                    struct buf *out, struct error *err)
{
    if (bytes_trim(json).len == 0)
        return 0;
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, budget);
    json_reader_set_text(r, json, 0);
    read_message(r, message, out);
    int result = json_finish(r, "JSON message", err);
    return buf_full(out) ? buf_error(out, err) : result;
}

/* ---- To JSON */

static bool write_message(struct json_writer *w, const struct proto_field *message, struct bytes in,
                          const char **ret_why);

static void write_enum(struct json_writer *w, const struct proto_field *f, uint64_t v)
{
    uint64_t i = 0;
    while (f->values[i] && i < v)
        i++;
    if (f->values[i])
        json_cstring(w, f->values[i]);
    else
        json_i64(w, (int32_t)v);
}

/* A number: `v` as it was in the message. */
static void write_number(struct json_writer *w, const struct proto_field *f, uint64_t v)
{
    double d;

    switch (f->kind) {
    case PROTO_INT64:
        json_i64_string(w, (int64_t)v);
        break;
    case PROTO_UINT64:
        json_u64_string(w, v);
        break;
    case PROTO_BOOL:
        json_bool(w, v != 0);
        break;
    case PROTO_DOUBLE:
        memcpy(&d, &v, sizeof(d));
        json_double(w, d);
        break;
    case PROTO_ENUM:
        write_enum(w, f, v);
        break;
    default:
        json_i64(w, (int32_t)v);
    }
}

static bool write_base64(struct json_writer *w, struct bytes in)
{
    struct buf text = {.budget = w->out->budget};
    base64_encode(in, true, &text);
    json_string(w, buf_bytes(&text));
    buf_done(&text);
    return true;
}

static bool is_number(const struct proto_field *f)
{
    return f->kind != PROTO_STRING && f->kind != PROTO_BYTES && f->kind != PROTO_MESSAGE;
}

/* All numbers of a packed field. */
static void write_packed(struct json_writer *w, const struct proto_field *f, struct pb_reader *r)
{
    struct bytes packed = r->data;
    uint64_t v;

    if (f->kind != PROTO_DOUBLE) {
        while (pb_packed_next(r, &packed, &v))
            write_number(w, f, v);
        return;
    }
    for (; packed.len >= sizeof(v); packed = bytes_from(packed, sizeof(v))) {
        memcpy(&v, packed.data, sizeof(v));
        write_number(w, f, v);
    }
}

static bool write_value(struct json_writer *w, const struct proto_field *f, struct pb_reader *r)
{
    if (is_number(f) && r->wire == PB_BYTES && f->is_repeated) {
        write_packed(w, f, r);
        return !r->failure;
    }
    if (is_number(f)) {
        write_number(w, f, pb_u64(r));
        return !r->failure;
    }
    struct bytes data = pb_bytes(r);
    if (r->failure)
        return false;
    if (f->kind == PROTO_MESSAGE)
        return write_message(w, f->message, data, &r->failure);
    if (f->kind == PROTO_BYTES)
        return write_base64(w, data);
    json_string(w, data);
    return true;
}

/* One field, wherever in the message its values stand; of one that is not repeated the last. */
static bool write_field(struct json_writer *w, const struct proto_field *f, struct bytes in,
                        const char **ret_why)
{
    struct pb_reader r = pb_reader(in), last = {0};
    bool is_there = false, ok = true;

    while (ok && pb_next(&r)) {
        if (r.field != f->number)
            continue;
        if (!is_there) {
            json_key(w, f->name);
            if (f->is_repeated)
                json_begin_array(w);
        }
        is_there = true;
        if (f->is_repeated)
            ok = write_value(w, f, &r) && !buf_full(w->out);
        else
            last = r;
    }
    if (is_there && f->is_repeated)
        json_end_array(w);
    else if (is_there)
        ok = write_value(w, f, &last);
    *ret_why = r.failure ? r.failure : last.failure;
    return ok && !*ret_why;
}

static bool write_message(struct json_writer *w, const struct proto_field *message, struct bytes in,
                          const char **ret_why)
{
    bool ok = true;

    json_begin_object(w);
    for (const struct proto_field *f = message; ok && f->number; f++)
        ok = write_field(w, f, in, ret_why);
    json_end_object(w);
    return ok;
}

int proto_to_json(const struct proto_field *message, struct bytes in, struct buf *out,
                  struct error *err)
{
    struct json_writer w = {.out = out};
    const char *why = NULL;

    if (write_message(&w, message, in, &why))
        return buf_full(out) ? buf_error(out, err) : 0;
    if (buf_full(out))
        return buf_error(out, err);
    return error_set(err, -EBADMSG, "could not write a message as JSON: %s",
                     why ? why : "it is malformed");
}
