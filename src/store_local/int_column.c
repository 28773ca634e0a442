#include "store_local/int_column.h"

#include <errno.h>
#include <stdbool.h>

#include "segment/bitpack.h"
#include "segment/varint.h"

enum { COLUMN_DISTANCES = 1, COLUMN_EQUAL = 2 };

/* What remains of values when base and common factor are taken out: so many bits each. */
struct shape {
    int64_t min;
    uint64_t range, factor;
};

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t distance(const int64_t *values, size_t i)
{
    return (int64_t)((uint64_t)values[i + 1] - (uint64_t)values[i]);
}

static int64_t element(const int64_t *values, size_t i, bool is_distance)
{
    return is_distance ? distance(values, i) : values[i];
}

static struct shape shape_of(const int64_t *values, size_t n, bool is_distance)
{
    struct shape s = {.min = n ? element(values, 0, is_distance) : 0};
    int64_t max = s.min;

    for (size_t i = 1; i < n; i++) {
        int64_t v = element(values, i, is_distance);
        s.min = v < s.min ? v : s.min;
        max = v > max ? v : max;
    }
    s.range = (uint64_t)max - (uint64_t)s.min;
    for (size_t i = 0; i < n && s.factor != 1; i++)
        s.factor = gcd((uint64_t)element(values, i, is_distance) - (uint64_t)s.min, s.factor);
    return s;
}

static unsigned width_of(struct shape s)
{
    uint64_t top = s.factor ? s.range / s.factor : 0;

    return top ? 64 - (unsigned)__builtin_clzll(top) : 0;
}

void column_encode(const int64_t *values, size_t n, struct buf *out)
{
    struct shape plain = shape_of(values, n, false);
    struct shape steps = shape_of(values, n ? n - 1 : 0, true);
    bool is_distance = n > 1 && plain.range > 0 && width_of(steps) < width_of(plain);
    struct shape s = is_distance ? steps : plain;
    uint64_t packed[BITPACK_CHUNK];

    buf_add_byte(
        out, (uint8_t)((is_distance ? COLUMN_DISTANCES : 0) | (s.range == 0 ? COLUMN_EQUAL : 0)));
    if (is_distance)
        add_varint(out, zigzag(values[0]));
    add_varint(out, zigzag(s.min));
    if (s.range == 0)
        return;
    add_varint(out, s.factor);
    size_t n_elements = is_distance ? n - 1 : n;
    for (size_t at = 0; at < n_elements; at += BITPACK_CHUNK) {
        size_t chunk = n_elements - at < BITPACK_CHUNK ? n_elements - at : BITPACK_CHUNK;
        for (size_t i = 0; i < chunk; i++)
            packed[i] =
                ((uint64_t)element(values, at + i, is_distance) - (uint64_t)s.min) / s.factor;
        bitpack_encode(packed, chunk, out);
    }
}

static int decode_packed(struct bytes *in, size_t n, uint64_t base, uint64_t factor, int64_t *ret)
{
    uint64_t packed[BITPACK_CHUNK];
    struct bitpack p;
    struct bitpack_cursor c;

    for (size_t at = 0; at < n; at += BITPACK_CHUNK) {
        size_t chunk = n - at < BITPACK_CHUNK ? n - at : BITPACK_CHUNK;
        if (bitpack_open(in, chunk, &p) < 0)
            return -EBADMSG;
        bitpack_start(&p, &c);
        bitpack_next(&c, chunk, packed);
        for (size_t i = 0; i < chunk; i++)
            ret[at + i] = (int64_t)(base + packed[i] * factor);
    }
    return 0;
}

int column_decode(struct bytes *in, size_t n, int64_t *ret)
{
    uint8_t flags;
    uint64_t first = 0, base, factor;

    if (!take_byte(in, &flags) || flags > (COLUMN_DISTANCES | COLUMN_EQUAL))
        return -EBADMSG;
    bool is_distance = flags & COLUMN_DISTANCES;
    if ((is_distance && (n == 0 || !take_varint(in, &first))) || !take_varint(in, &base))
        return -EBADMSG;
    first = (uint64_t)unzigzag(first);
    base = (uint64_t)unzigzag(base);
    if (is_distance)
        *ret = (int64_t)first;
    int64_t *to = is_distance ? ret + 1 : ret;
    size_t n_elements = is_distance ? n - 1 : n;
    if (flags & COLUMN_EQUAL) {
        for (size_t i = 0; i < n_elements; i++)
            to[i] = (int64_t)base;
    } else if (!take_varint(in, &factor) || decode_packed(in, n_elements, base, factor, to) < 0) {
        return -EBADMSG;
    }
    for (size_t i = 1; is_distance && i < n; i++)
        ret[i] = (int64_t)((uint64_t)ret[i - 1] + (uint64_t)ret[i]);
    return 0;
}
