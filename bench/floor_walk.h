#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* How the floors walk protobuf: no checks beyond bounds, growable columns kept from run to run. */

#define COLUMN(type, name)                                                                         \
    static type *name;                                                                             \
    static size_t n_##name, cap_##name

static inline void *grown(void *p, size_t *cap, size_t size)
{
    *cap = *cap ? *cap * 2 : 1024;
    p = realloc(p, *cap * size);
    if (!p)
        abort();
    return p;
}

/* A new last element, not cleared. */
#define PUSH(name)                                                                                 \
    (n_##name == cap_##name ? (name = grown(name, &cap_##name, sizeof(*name))) : NULL,             \
     &name[n_##name++])

struct field {
    uint32_t number, wire;
    uint64_t value;
    const uint8_t *data, *data_end;
};

static inline bool varint(const uint8_t **pos, const uint8_t *end, uint64_t *ret)
{
    const uint8_t *p = *pos;
    uint64_t v = 0;

    if (p < end && *p < 0x80) {
        *ret = *p;
        *pos = p + 1;
        return true;
    }
    for (unsigned shift = 0; p < end && shift < 70; shift += 7) {
        uint64_t b = *p++;
        v |= (b & 0x7f) << shift;
        if (b < 0x80) {
            *ret = v;
            *pos = p;
            return true;
        }
    }
    return false;
}

static inline bool next(const uint8_t **pos, const uint8_t *end, struct field *f)
{
    uint64_t tag, len;

    if (!varint(pos, end, &tag))
        return false;
    f->number = (uint32_t)(tag >> 3);
    f->wire = (uint32_t)(tag & 7);
    f->value = 0;
    f->data = f->data_end = NULL;
    switch (f->wire) {
    case 0:
        return varint(pos, end, &f->value);
    case 1:
    case 5:
        len = f->wire == 1 ? 8 : 4;
        break;
    case 2:
        if (!varint(pos, end, &len))
            return false;
        break;
    default:
        return false;
    }
    if (len > (size_t)(end - *pos))
        return false;
    f->data = *pos;
    *pos += len;
    f->data_end = *pos;
    return true;
}

/* Runs the block behind it for each field f of a message; the function returns false when it is
 * malformed. */
#define EACH_FIELD(from, to)                                                                       \
    struct field f;                                                                                \
    for (const uint8_t *pos_ = (from), *end_ = (to); pos_ < end_;)                                 \
        if (!next(&pos_, end_, &f))                                                                \
            return false;                                                                          \
        else

#define ADD_NUMBERS(name, f)                                                                       \
    do {                                                                                           \
        if ((f).wire == 2) {                                                                       \
            for (const uint8_t *p_ = (f).data; p_ < (f).data_end;) {                               \
                uint64_t v_;                                                                       \
                if (!varint(&p_, (f).data_end, &v_))                                               \
                    return false;                                                                  \
                *PUSH(name) = v_;                                                                  \
            }                                                                                      \
        } else {                                                                                   \
            *PUSH(name) = (f).value;                                                               \
        }                                                                                          \
    } while (0)
