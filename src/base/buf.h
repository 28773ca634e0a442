#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/*
 * An output buffer: bytes appended, then taken or written out. For what the program makes (reports,
 * encoded profiles), whose size follows from data already held under a budget; it grows without a
 * limit of its own and running out of memory ends the process.
 */
struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
};

void buf_done(struct buf *b);
void buf_clear(struct buf *b);

/* Room for n more bytes at the returned place; follow with b->len += what was used. */
uint8_t *buf_reserve(struct buf *b, size_t n);

void buf_add(struct buf *b, const void *data, size_t n);
void buf_add_bytes(struct buf *b, struct bytes s);
void buf_add_str(struct buf *b, const char *s);
void buf_add_byte(struct buf *b, uint8_t c);
void buf_add_u64(struct buf *b, uint64_t v); /* decimal */
void buf_add_i64(struct buf *b, int64_t v);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline struct bytes buf_bytes(const struct buf *b)
{
    return (struct bytes){b->data, b->len};
}

/* The content with a NUL behind it (not counted); valid until the next change. */
const char *buf_cstr(struct buf *b);
