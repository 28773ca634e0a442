#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Reads bytes of tables in order. Past the end all is 0, and `failed` stays true. */
struct table_cursor {
    const uint8_t *at, *end;
    bool failed;
};

static inline uint64_t cursor_word(struct table_cursor *c, size_t size)
{
    uint64_t v = 0;

    if ((size_t)(c->end - c->at) < size) {
        c->failed = true;
        c->at = c->end;
        return 0;
    }
    memcpy(&v, c->at, size); /* little end first */
    c->at += size;
    return v;
}

static inline uint8_t cursor_u8(struct table_cursor *c)
{
    return (uint8_t)cursor_word(c, 1);
}

/* The same with a sign. */
static inline int64_t cursor_signed(struct table_cursor *c, size_t size)
{
    unsigned shift = 64 - 8 * (unsigned)size;

    return (int64_t)(cursor_word(c, size) << shift) >> shift;
}

static inline uint64_t cursor_leb(struct table_cursor *c, bool is_signed)
{
    uint64_t v = 0;
    unsigned shift = 0;
    uint8_t b;

    do {
        b = cursor_u8(c);
        if (shift < 64)
            v |= (uint64_t)(b & 0x7f) << shift;
        shift += 7;
    } while ((b & 0x80) && shift < 70);
    if (b & 0x80)
        c->failed = true;
    if (is_signed && shift < 64 && (b & 0x40))
        v |= ~0ull << shift;
    return v;
}

static inline uint64_t cursor_uleb(struct table_cursor *c)
{
    return cursor_leb(c, false);
}

static inline int64_t cursor_sleb(struct table_cursor *c)
{
    return (int64_t)cursor_leb(c, true);
}

static inline void cursor_skip(struct table_cursor *c, uint64_t n)
{
    if (n > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        c->at = c->end;
        return;
    }
    c->at += n;
}

/* DW_EH_PE_... */
enum {
    POINTER_OMIT = 0xff,
    POINTER_FORMAT = 0x0f,
    POINTER_RELATIVE = 0x70,
    POINTER_INDIRECT = 0x80
};

/* A pointer in one of the encodings; those relative to anything but their own place fail. */
static inline uint64_t cursor_pointer(struct table_cursor *c, uint8_t encoding)
{
    static const uint8_t sizes[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8, 0, 0, 0};
    uint64_t base = (uintptr_t)c->at, v;
    uint8_t format = encoding & POINTER_FORMAT;

    if ((encoding & POINTER_INDIRECT) ||
        ((encoding & POINTER_RELATIVE) && (encoding & POINTER_RELATIVE) != 0x10)) {
        c->failed = true;
        return 0;
    }
    if (format == 1 || format == 9) {
        v = cursor_leb(c, format == 9);
    } else if (sizes[format]) {
        v = format & 8 ? (uint64_t)cursor_signed(c, sizes[format]) : cursor_word(c, sizes[format]);
    } else {
        c->failed = true;
        return 0;
    }
    return encoding & POINTER_RELATIVE ? v + base : v;
}
