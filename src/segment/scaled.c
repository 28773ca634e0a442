#include "segment/scaled.h"

#include <errno.h>

#include "segment/varint.h"

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

void scaled_encode(const int64_t *values, size_t n, uint8_t flags, uint64_t *scratch,
                   struct buf *out)
{
    int64_t min = values[0];
    uint64_t factor = 0;

    for (size_t i = 1; i < n; i++)
        min = values[i] < min ? values[i] : min;
    for (size_t i = 0; i < n; i++)
        scratch[i] = (uint64_t)values[i] - (uint64_t)min;
    for (size_t i = 0; i < n && factor != 1; i++)
        factor = gcd(scratch[i], factor);
    bool is_scaled = factor > 1;
    for (size_t i = 0; i < n && is_scaled; i++)
        scratch[i] /= factor;
    buf_add_byte(out, (uint8_t)(flags | (min ? SCALED_BASE : 0) | (is_scaled ? SCALED_FACTOR : 0)));
    if (min)
        add_varint(out, zigzag(min));
    if (is_scaled)
        add_varint(out, factor);
    bitpack_encode(scratch, n, out);
}

int scaled_open(struct bytes *in, uint8_t flags, size_t n, struct scaled *ret)
{
    uint64_t base = 0, factor = 1;

    if ((flags & SCALED_BASE && !take_varint(in, &base)) ||
        (flags & SCALED_FACTOR && !take_varint(in, &factor)) ||
        bitpack_open(in, n, &ret->steps) < 0)
        return -EBADMSG;
    ret->base = (uint64_t)unzigzag(base);
    ret->factor = factor;
    return 0;
}

void scaled_read(const struct scaled *s, size_t n, int64_t *ret)
{
    uint64_t steps[BITPACK_CHUNK];
    struct bitpack_cursor c;

    bitpack_start(&s->steps, &c);
    for (size_t part; n > 0; n -= part, ret += part) {
        part = n < BITPACK_CHUNK ? n : BITPACK_CHUNK;
        bitpack_next(&c, part, steps);
        for (size_t i = 0; i < part; i++)
            ret[i] = (int64_t)(s->base + s->factor * steps[i]);
    }
}
