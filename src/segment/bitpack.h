#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * n unsigned integers in few bytes, the core of every integer column. Two layouts, whichever is
 * smaller:
 *
 *     packed    u8 width (0..64), with 0x80 when there are exceptions
 *               [varint n_exceptions, u8 high_width]
 *               the low `width` bits of every value, bit 0 of byte 0 first
 *               [n_exceptions bytes: rows to the next exception, the first from row 0]
 *               [n_exceptions * high_width bits: what is above `width` in those rows]
 *     bytewise  u8 65, varint n_bytes
 *               a nibble per value: its length in bytes, 0..8; the low nibble first
 *               n_bytes bytes: the values, little-endian
 *
 * A gap of more than 255 rows is bridged by exceptions whose high part is 0, so that readers need
 * no escape. n is not stored: the caller knows it.
 *
 * Any bytes that bitpack_open() accepts can be read safely; damaged ones give wrong values, which
 * is for checksums to find.
 */
struct bitpack {
    const uint8_t *low;  /* packed: low bits; bytewise: nibbles */
    const uint8_t *gaps; /* packed: gaps; bytewise: values */
    const uint8_t *high;
    const uint8_t *end; /* of all that may be read */
    uint32_t n_exceptions;
    uint8_t width;
    uint8_t high_width;
};

/* Values are read in chunks of this many; only the last may be shorter. */
#define BITPACK_CHUNK 512

struct bitpack_cursor {
    const struct bitpack *p;
    size_t row;
    const uint8_t *pos; /* bytewise: the next value */
    size_t next_patch;  /* the row of the next exception, SIZE_MAX when there is none */
    uint32_t n_patched;
};

void bitpack_encode(const uint64_t *values, size_t n, struct buf *out);

/*
 * Takes n packed values off *in. -EBADMSG when they do not fit in it; *in is then untouched.
 * Reading may look at (not use) up to 8 bytes behind them, where *in goes on: all of *in must stay
 * as it is.
 */
int bitpack_open(struct bytes *in, size_t n, struct bitpack *ret);

void bitpack_start(const struct bitpack *p, struct bitpack_cursor *ret);

/*
 * The next n values; n is BITPACK_CHUNK in every call but the last. `ret` has room for a multiple
 * of 8.
 */
void bitpack_next(struct bitpack_cursor *c, size_t n, uint64_t *ret);
