#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/bytes.h"

/*
 * An output buffer: bytes appended, then taken or written out.
 *
 * What is written once per thing held (a name, a table) follows the size of data that is already
 * under a budget: such a buffer needs no limit, and running out of memory ends the process. What
 * repeats things (stacks that share frames, names in every stack) can be far larger than its input:
 * such a buffer is given a budget. Once something did not fit it is `full`, drops all that is added
 * and keeps what it has; loops check buf_full() to end early, and whoever owns it says
 * buf_error(). The budget itself does not fail: the data in it is sound, and may be written
 * smaller.
 */
struct buf {
    uint8_t *data;
    size_t len;
    size_t cap;
    struct budget *budget; /* NULL: none */
    bool full;
};

void buf_done(struct buf *b);
void buf_clear(struct buf *b);

static inline bool buf_full(const struct buf *b)
{
    return b->full;
}

/* -ENOBUFS saying that the output does not fit in the budget. */
int buf_error(const struct buf *b, struct error *err);

/* Room for n more bytes at the returned place; follow with b->len += what was used. NULL when the
 * buffer has a budget and is full. */
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
