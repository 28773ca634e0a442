#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/le.h"

/*
 * Reads numbers off the front of some bytes. What is not there reads as 0 and sets `failed`, so
 * that a run of reads needs one check at its end.
 */
struct cfi_cursor {
    struct bytes left;
    bool failed;
};

static inline const uint8_t *cfi_take(struct cfi_cursor *c, size_t n)
{
    static const uint8_t zeros[8];
    const uint8_t *p = c->left.data;

    if (c->left.len < n) {
        c->failed = true;
        c->left.len = 0;
        return zeros;
    }
    c->left.data += n;
    c->left.len -= n;
    return p;
}

static inline uint8_t cfi_u8(struct cfi_cursor *c)
{
    return *cfi_take(c, 1);
}

static inline uint16_t cfi_u16(struct cfi_cursor *c)
{
    return le16_get(cfi_take(c, 2));
}

static inline uint32_t cfi_u32(struct cfi_cursor *c)
{
    return le32_get(cfi_take(c, 4));
}

static inline uint64_t cfi_u64(struct cfi_cursor *c)
{
    return le64_get(cfi_take(c, 8));
}

/* Numbers of more than 64 bits are damage. */
static inline uint64_t cfi_uleb(struct cfi_cursor *c)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = cfi_u8(c);
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return v;
    }
    c->failed = true;
    return 0;
}

static inline int64_t cfi_sleb(struct cfi_cursor *c)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64;) {
        uint8_t b = cfi_u8(c);
        v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
        if (b < 0x80) {
            if (shift < 64 && (b & 0x40))
                v |= ~(uint64_t)0 << shift;
            return (int64_t)v;
        }
    }
    c->failed = true;
    return 0;
}

/* A block with its length in front; empty and failed when it is longer than what is left. */
static inline struct bytes cfi_block(struct cfi_cursor *c)
{
    uint64_t n = cfi_uleb(c);

    if (c->failed || n > c->left.len) {
        c->failed = true;
        return (struct bytes){0};
    }
    return (struct bytes){cfi_take(c, (size_t)n), (size_t)n};
}
