#pragma once

#include <stddef.h>
#include <stdint.h>

#include "segment/bitpack.h"

/*
 * n signed integers as base + factor * step, steps in a bitpack: the smallest is the base, the
 * greatest common divisor of what is above it the factor. Arithmetic wraps, so any int64_t will do.
 *
 *     u8 flags: 1 has base, 2 has factor; the other bits are the caller's
 *     [zigzag varint base] [varint factor] bitpack
 */
struct scaled {
    struct bitpack steps;
    uint64_t base, factor;
};

enum { SCALED_BASE = 1, SCALED_FACTOR = 2, SCALED_FLAGS_SHIFT = 2 };

/* n > 0; `scratch` has room for n; `flags` are the caller's, above SCALED_FLAGS_SHIFT. */
void scaled_encode(const int64_t *values, size_t n, uint8_t flags, uint64_t *scratch,
                   struct buf *out);

/* What follows the flags, which the caller has read. -EBADMSG as bitpack_open(). */
int scaled_open(struct bytes *in, uint8_t flags, size_t n, struct scaled *ret);

/* All n values, into an array of n. */
void scaled_read(const struct scaled *s, size_t n, int64_t *ret);
