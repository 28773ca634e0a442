#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

void buf_done(struct buf *b)
{
    if (b->budget)
        budget_free(b->budget, b->data, b->cap);
    else
        free(b->data);
    *b = (struct buf){.budget = b->budget};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
}

/* Takes up to cap from the budget, or all that is left when that is enough for n more bytes. */
static bool charge(struct buf *b, size_t n, size_t *cap)
{
    size_t left = b->budget->limit - b->budget->used;

    if (b->full || left < n - (b->cap - b->len)) {
        b->full = true;
        return false;
    }
    if (*cap - b->cap > left)
        *cap = b->cap + left;
    return budget_take(b->budget, *cap - b->cap);
}

static bool grow(struct buf *b, size_t n)
{
    size_t cap = b->cap ? b->cap * 2 : 256;

    while (cap - b->len < n)
        cap *= 2;
    if (b->budget && !charge(b, n, &cap))
        return false;
    b->data = must_realloc(b->data, cap);
    b->cap = cap;
    return true;
}

int buf_error(const struct buf *b, struct error *err)
{
    char limit[BUDGET_TEXT_MAX], len[BUDGET_TEXT_MAX];

    return error_set(err, -ENOBUFS,
                     "memory limit of %s reached: the output is larger than %s, which is all that "
                     "was left",
                     budget_text(b->budget->limit, limit), budget_text(b->len, len));
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
    if (b->full || (b->cap - b->len < n && !grow(b, n)))
        return NULL;
    return b->data + b->len;
}

void buf_add(struct buf *b, const void *data, size_t n)
{
    uint8_t *to = n ? buf_reserve(b, n) : NULL;

    if (!to)
        return;
    memcpy(to, data, n);
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
    uint8_t *to = buf_reserve(b, 1);

    if (!to)
        return;
    *to = c;
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
    char *to = (char *)buf_reserve(b, 128);

    if (!to)
        return;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(to, 128, fmt, ap);
    va_end(ap);
    if (n >= 128) {
        to = (char *)buf_reserve(b, (size_t)n + 1);
        if (to)
            vsnprintf(to, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    if (n > 0 && to)
        b->len += (size_t)n;
}

const char *buf_cstr(struct buf *b)
{
    uint8_t *end = buf_reserve(b, 1);

    if (!end && b->cap == 0)
        return "";
    if (!end)
        end = b->data + b->cap - 1;
    *end = '\0';
    return (const char *)b->data;
}
