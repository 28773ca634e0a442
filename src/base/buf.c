#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_done(struct buf *b)
{
    free(b->data);
    *b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
    if (b->cap - b->len < n) {
        size_t cap = b->cap ? b->cap * 2 : 256;
        while (cap - b->len < n)
            cap *= 2;
        b->data = realloc(b->data, cap);
        if (!b->data) {
            fputs("vesta: out of memory\n", stderr);
            abort();
        }
        b->cap = cap;
    }
    return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
    if (n == 0)
        return;
    memcpy(buf_reserve(b, n), data, n);
    b->len += n;
}

void buf_add_bytes(struct buf *b, struct bytes s)
{
    buf_add(b, s.data, s.len);
}

void buf_add_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_add_byte(struct buf *b, uint8_t c)
{
    *buf_reserve(b, 1) = c;
    b->len++;
}

void buf_add_u64(struct buf *b, uint64_t v)
{
    uint8_t digits[20];
    size_t at = sizeof(digits);

    do
        digits[--at] = (uint8_t)('0' + v % 10);
    while (v /= 10);
    buf_add(b, digits + at, sizeof(digits) - at);
}

void buf_add_i64(struct buf *b, int64_t v)
{
    if (v < 0)
        buf_add_byte(b, '-');
    buf_add_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf((char *)buf_reserve(b, 128), 128, fmt, ap);
    va_end(ap);
    if (n >= 128)
        vsnprintf((char *)buf_reserve(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
    va_end(again);
    if (n > 0)
        b->len += (size_t)n;
}

const char *buf_cstr(struct buf *b)
{
    *buf_reserve(b, 1) = '\0';
    return (const char *)b->data;
}
