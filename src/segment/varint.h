#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "wire/protobuf.h"

/*
 * The small fields of all headers here: varints (as in protocol buffers) and single bytes. A take_
 * moves *in on only when it succeeds.
 */
static inline void add_varint(struct buf *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_add_byte(out, (uint8_t)(v | 0x80));
    buf_add_byte(out, (uint8_t)v);
}

static inline bool take_varint(struct bytes *in, uint64_t *ret)
{
    const uint8_t *pos = in->data, *end = in->len ? in->data + in->len : in->data;

    if (!pb_varint(&pos, end, ret))
        return false;
    *in = (struct bytes){pos, (size_t)(end - pos)};
    return true;
}

static inline bool take_byte(struct bytes *in, uint8_t *ret)
{
    if (in->len == 0)
        return false;
    *ret = *in->data;
    *in = bytes_from(*in, 1);
    return true;
}

/* n bytes, borrowed from *in. */
static inline bool take_bytes(struct bytes *in, uint64_t n, struct bytes *ret)
{
    if (n > in->len)
        return false;
    *ret = bytes_head(*in, (size_t)n);
    *in = bytes_from(*in, (size_t)n);
    return true;
}

/* Signed numbers as unsigned ones that are small when they are near 0. */
static inline uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

static inline void add_signed(struct buf *out, int64_t v)
{
    add_varint(out, zigzag(v));
}

static inline bool take_signed(struct bytes *in, int64_t *ret)
{
    uint64_t v;

    if (!take_varint(in, &v))
        return false;
    *ret = unzigzag(v);
    return true;
}

/* False, too, for a number that does not fit. */
static inline bool take_u32(struct bytes *in, uint32_t *ret)
{
    struct bytes rest = *in;
    uint64_t v;

    if (!take_varint(&rest, &v) || v > UINT32_MAX)
        return false;
    *in = rest;
    *ret = (uint32_t)v;
    return true;
}
