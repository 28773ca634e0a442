#pragma once

#include "base/buf.h"
#include "base/bytes.h"

/* How many bytes the UTF-8 character at s begins with takes, or 0 when it is none. s is not
 * empty. */
static inline size_t utf8_length(struct bytes s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = s.data[0];
    size_t n = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t c = lead & (n == 2 ? 0x1f : n == 3 ? 0x0f : 0x07);

    if (n <= 1)
        return n;
    if (n > s.len || lead >= 0xf8)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s.data[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s.data[i] & 0x3f);
    }
    bool is_surrogate = c >= 0xd800 && c < 0xe000;
    return c >= least[n] && c <= 0x10ffff && !is_surrogate ? n : 0;
}

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* How many bytes at the start of s are whole UTF-8 characters. */
static inline size_t utf8_sound(struct bytes s)
{
    size_t at = 0, n;
    while (at < s.len && (n = utf8_length(bytes_from(s, at))) > 0)
        at += n;
    return at;
}

/* Appends s; bytes that are no UTF-8 become U+FFFD. */
static inline void utf8_add(struct buf *out, struct bytes s)
{
    while (s.len > 0) {
        size_t n = utf8_sound(s);
        buf_add_bytes(out, bytes_head(s, n));
        if (n < s.len)
            buf_add_str(out, UTF8_REPLACEMENT);
        s = bytes_from(s, n + 1);
    }
}
