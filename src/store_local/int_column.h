#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * A column of n signed integers that are near each other, or step evenly:
 *
 *     u8 flags     1: what follows are the n - 1 distances, the first value stands before them
 *                  2: all are equal
 *     [zigzag varint first value]
 *     zigzag varint base
 *     [varint factor, bitpack of (value - base) / factor]      not when all are equal
 *
 * n is not stored. Arithmetic wraps, so every int64_t survives.
 */
void column_encode(const int64_t *values, size_t n, struct buf *out);

/* Takes a column off *in. -EBADMSG when it does not fit; *in and *ret are then undefined. */
int column_decode(struct bytes *in, size_t n, int64_t *ret);
