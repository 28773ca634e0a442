#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

/*
 * n unsigned integers in few bytes, the core of every integer column. The smallest of:
 *
 *     packed    u8 width (0..64), with 0x80 when there are exceptions
 *               [varint n_exceptions, u8 high_width]
 *               the low `width` bits of every value, bit 0 of byte 0 first
 *               [n_exceptions bytes: rows to the next exception, the first from row 0]
 *               [n_exceptions * high_width bits: what is above `width` in those rows]
 *     bytewise  u8 65, varint n_bytes
 *               a nibble per value: its length in bytes, 0..8; the low nibble first
 *               n_bytes bytes: the values, little-endian
 *     unary     u8 66 + width (0..31), varint n_bytes
 *               the low `width` bits of every value
 *               n_bytes bytes: for every value, as many 0 bits as its high part says (0..255) and
 *               a 1
 *
 * A gap of more than 255 rows is bridged by exceptions whose high part is 0, so that readers need
 * no escape. n is not stored: the caller knows it. All is little-endian.
 *
 * Any bytes that bitpack_open() accepts can be read safely; damaged ones give wrong values, which
 * is for checksums to find.
 */
enum bitpack_layout { BITPACK_PACKED, BITPACK_BYTEWISE, BITPACK_UNARY };

struct bitpack {
    const uint8_t *low;  /* low bits; bytewise: nibbles */
    const uint8_t *rest; /* gaps; bytewise: values; unary: 0s and 1s */
    const uint8_t *high; /* packed: high parts of exceptions */
    const uint8_t *end;  /* of all that may be read */
    uint32_t n_exceptions;
    uint32_t n_rest; /* bytes at `rest` */
    uint8_t layout;  /* enum bitpack_layout */
    uint8_t width;
    uint8_t high_width;
};

/* Values are read in chunks of this many; only the last may be shorter. */
#define BITPACK_CHUNK 512

struct bitpack_cursor {
    const struct bitpack *p;
    size_t row;
    const uint8_t *pos; /* bytewise, unary: what comes next of `rest` */
    /* packed */
    size_t next_patch; /* the row of the next exception, SIZE_MAX when there is none */
    uint32_t n_patched;
    /* unary: bits are numbered modulo 256, which the limit of high parts allows */
    uint64_t pending; /* 1s of the word before `pos` that are not used yet... */
    uint8_t base;     /* ...the bit it begins at... */
    uint8_t next;     /* ...and the one behind the last 1 used */
};

void bitpack_encode(const uint64_t *values, size_t n, struct buf *out);

/*
 * Takes n packed values off *in. -EBADMSG when they do not fit in it; *in is then untouched, and
 * *ret of no use. Reading may look at (not use) up to 8 bytes behind them, where *in goes on: all
 * of *in must stay as it is.
 */
int bitpack_open(struct bytes *in, size_t n, struct bitpack *ret);

void bitpack_start(const struct bitpack *p, struct bitpack_cursor *ret);

/*
 * The next n values; n is BITPACK_CHUNK in every call but the last. `ret` has room for a multiple
 * of 8.
 */
void bitpack_next(struct bitpack_cursor *c, size_t n, uint64_t *ret);

/*
 * Whether all values fit 15 bits and stand in a layout that bitpack_next_small() knows, which is
 * about twice as fast. A cursor is read with one of the two only. `ret` has room for
 * BITPACK_SMALL_ROOM and gets BITPACK_ROUND zeros behind the n, so that loops need no rest.
 */
#define BITPACK_ROUND      16
#define BITPACK_SMALL_ROOM (BITPACK_CHUNK + BITPACK_ROUND)
bool bitpack_is_small(const struct bitpack *p);
void bitpack_next_small(struct bitpack_cursor *c, size_t n, uint16_t *ret);
