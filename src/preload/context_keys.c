#include "preload/context_keys.h"

#include <stdbool.h>
#include <string.h>

/* ---- Protobuf, as much as is needed ---- */

struct reader {
    const uint8_t *at, *end;
};

static bool read_varint(struct reader *r, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* The next field, and its bytes if it has some; false at the end, and at damage. */
static bool read_field(struct reader *r, unsigned *ret_field, struct reader *ret_bytes)
{
    uint64_t tag, n;

    *ret_bytes = (struct reader){r->at, r->at};
    if (!read_varint(r, &tag))
        return false;
    *ret_field = tag >> 3 < 1000 ? (unsigned)(tag >> 3) : 0;
    switch (tag & 7) {
    case 0:
        return read_varint(r, &n);
    case 1:
        n = 8;
        break;
    case 2:
        if (!read_varint(r, &n))
            return false;
        break;
    case 5:
        n = 4;
        break;
    default:
        return false;
    }
    if (n > (uint64_t)(r->end - r->at))
        return false;
    if ((tag & 7) == 2)
        *ret_bytes = (struct reader){r->at, r->at + n};
    r->at += n;
    return true;
}

/* The last field of that number; empty when there is none. */
static struct reader field_of(struct reader message, unsigned number)
{
    struct reader found = {message.end, message.end}, bytes;
    unsigned field;

    while (read_field(&message, &field, &bytes)) {
        if (field == number)
            found = bytes;
    }
    return found;
}

static bool is_text(struct reader bytes, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(bytes.end - bytes.at) == n && memcmp(bytes.at, text, n) == 0;
}

enum { CONTEXT_ATTRIBUTES = 2, KEY_VALUE_KEY = 1, KEY_VALUE_VALUE = 2 };
enum { ANY_STRING = 1, ANY_ARRAY = 5, ARRAY_VALUES = 1 };

static void add_key(struct found_keys *to, struct reader name)
{
    size_t used = to->at[to->n], n = (size_t)(name.end - name.at);

    if (n > 255 || used + n > sizeof(to->names))
        n = 0;
    if (n > 0)
        memcpy(to->names + used, name.at, n);
    to->n++;
    to->at[to->n] = (uint16_t)(used + n);
}

void found_keys_read(const uint8_t *payload, size_t n, struct found_keys *ret)
{
    struct reader context = {payload, payload + n}, pair, one;
    unsigned field;

    ret->n = 0;
    ret->at[0] = 0;
    while (read_field(&context, &field, &pair)) {
        if (field != CONTEXT_ATTRIBUTES ||
            !is_text(field_of(pair, KEY_VALUE_KEY), "threadlocal.attribute_key_map"))
            continue;
        struct reader list = field_of(field_of(pair, KEY_VALUE_VALUE), ANY_ARRAY);
        ret->n = 0;
        while (ret->n < FIND_KEYS_MAX && read_field(&list, &field, &one)) {
            if (field == ARRAY_VALUES)
                add_key(ret, field_of(one, ANY_STRING));
        }
    }
}
