#include "host/identity_context.h"

#include <inttypes.h>
#include <stdio.h>

#include "wire/protobuf.h"

enum { CONTEXT_RESOURCE = 1, CONTEXT_ATTRIBUTES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_BOOL, ANY_INT, ANY_DOUBLE, ANY_ARRAY };

/* A KeyValue: its key, and the bytes of its AnyValue. */
static bool read_pair(struct bytes message, struct bytes *ret_key, struct bytes *ret_value)
{
    struct pb_reader r = pb_reader(message);

    *ret_key = *ret_value = (struct bytes){0};
    while (pb_next(&r)) {
        if (r.field == KEY_VALUE_KEY)
            *ret_key = pb_bytes(&r);
        else if (r.field == KEY_VALUE_VALUE)
            *ret_value = pb_bytes(&r);
    }
    return !r.failure && ret_key->len > 0;
}

#define NUMBER_MAX 32

/* An AnyValue as text; empty for what is no single value. */
static struct bytes value_text(struct bytes any, char room[NUMBER_MAX])
{
    struct pb_reader r = pb_reader(any);
    struct bytes text = {0};

    while (pb_next(&r)) {
        double number;
        uint64_t bits;
        switch (r.field) {
        case ANY_STRING:
            text = pb_bytes(&r);
            continue;
        case ANY_BOOL:
            text = pb_u64(&r) ? BYTES("true") : BYTES("false");
            continue;
        case ANY_INT:
            snprintf(room, NUMBER_MAX, "%" PRId64, pb_i64(&r));
            break;
        case ANY_DOUBLE:
            bits = pb_u64(&r);
            memcpy(&number, &bits, sizeof(number));
            snprintf(room, NUMBER_MAX, "%.17g", number);
            break;
        default:
            continue;
        }
        text = bytes_of(room);
    }
    return r.failure ? (struct bytes){0} : text;
}

void identity_context_each(struct bytes payload, identity_context_attribute *each, void *arg)
{
    struct pb_reader r = pb_reader(payload);
    char room[NUMBER_MAX];

    while (pb_next(&r)) {
        if (r.field != CONTEXT_RESOURCE || r.wire != PB_BYTES)
            continue;
        struct pb_reader resource = pb_reader(r.data);
        while (pb_next(&resource)) {
            struct bytes key, value;
            if (resource.field != RESOURCE_ATTRIBUTES || resource.wire != PB_BYTES ||
                !read_pair(resource.data, &key, &value))
                continue;
            struct bytes text = value_text(value, room);
            if (text.len > 0 && !each(arg, key, text))
                return;
        }
    }
}

static void read_key_map(struct bytes any, struct identity_thread_schema *ret)
{
    struct pb_reader r = pb_reader(any);
    char room[NUMBER_MAX];

    while (pb_next(&r)) {
        if (r.field != ANY_ARRAY || r.wire != PB_BYTES)
            continue;
        struct pb_reader list = pb_reader(r.data);
        while (pb_next(&list) && ret->n_keys < 256) {
            if (list.field != 1 || list.wire != PB_BYTES)
                continue;
            /* One that is no text keeps its number, and has no name. */
            struct pb_reader one = pb_reader(list.data);
            struct bytes text = value_text(list.data, room);
            bool is_text = pb_next(&one) && one.field == ANY_STRING;
            ret->keys[ret->n_keys++] = is_text ? text : (struct bytes){0};
        }
    }
}

void identity_context_threads(struct bytes payload, struct identity_thread_schema *ret)
{
    struct pb_reader r = pb_reader(payload);
    char room[NUMBER_MAX];

    ret->version = (struct bytes){0};
    ret->n_keys = 0;
    while (pb_next(&r)) {
        struct bytes key, value;
        if (r.field != CONTEXT_ATTRIBUTES || r.wire != PB_BYTES || !read_pair(r.data, &key, &value))
            continue;
        if (bytes_are(key, "threadlocal.schema_version")) {
            struct bytes text = value_text(value, room);
            /* Not a number, whose text is in our room. */
            if (text.data != (const uint8_t *)room)
                ret->version = text;
        } else if (bytes_are(key, "threadlocal.attribute_key_map")) {
            ret->n_keys = 0;
            read_key_map(value, ret);
        }
    }
}
