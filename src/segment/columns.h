#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * Columns of row metadata inside blocks: integers, fixed-width bytes, strings. How many elements a
 * column has is for the caller to know; 0 of them take no bytes.
 *
 * Writers append to `out` and, when its budget is spent, leave it full (base/buf.h). Readers take a
 * column off *in: -EBADMSG when it is cut short or malformed; *in is then untouched, what was
 * already written to `ret` is not. Lists that borrow from *in live as long as its bytes.
 *
 *     integers  u8 flags: as in scaled.h, and above them how often differences were taken (0..2)
 *               a zigzag varint for each time: the first value, the first difference
 *               what is left, scaled; nothing when that is none
 *     fixed     u8 0, all elements; or u8 1, the one that all are equal to
 *     strings   the lengths as integers, then all bytes
 */
void column_encode_u64(const uint64_t *values, size_t n, struct buf *out);
int column_decode_u64(struct bytes *in, size_t n, uint64_t *ret);

static inline void column_encode_i64(const int64_t *values, size_t n, struct buf *out)
{
    column_encode_u64((const uint64_t *)values, n, out);
}

static inline int column_decode_i64(struct bytes *in, size_t n, int64_t *ret)
{
    return column_decode_u64(in, n, (uint64_t *)ret);
}

/* n elements of `width` bytes, such as ids. */
void column_encode_fixed(const void *values, size_t width, size_t n, struct buf *out);
int column_decode_fixed(struct bytes *in, size_t width, size_t n, void *ret);

/* Strings borrow from *in. */
void column_encode_strings(const struct bytes *strings, size_t n, struct buf *out);
int column_decode_strings(struct bytes *in, size_t n, struct bytes *ret);
