#include "wire/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct bytes in, bool is_padded, struct buf *out)
{
    for (size_t i = 0; i < in.len; i += 3) {
        size_t n = in.len - i < 3 ? in.len - i : 3;
        uint32_t v = (uint32_t)in.data[i] << 16;
        if (n > 1)
            v |= (uint32_t)in.data[i + 1] << 8;
        if (n > 2)
            v |= in.data[i + 2];
        for (unsigned k = 0; k < 4; k++) {
            if (k <= n)
                buf_add_byte(out, (uint8_t)digits[v >> (18 - 6 * k) & 63]);
            else if (is_padded)
                buf_add_byte(out, '=');
        }
    }
}

static int digit_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

bool base64_decode(struct bytes text, struct buf *out)
{
    size_t before = out->len;
    uint32_t v = 0;

    if (text.len % 4 == 0) {
        for (int i = 0; i < 2 && text.len > 0 && text.data[text.len - 1] == '='; i++)
            text.len--;
    }
    if (text.len % 4 == 1)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int d = digit_value(text.data[i]);
        if (d < 0) {
            out->len = before;
            return false;
        }
        v = v << 6 | (uint32_t)d;
        /* A byte is complete with the second, third and fourth digit of four. */
        if (i % 4 != 0)
            buf_add_byte(out, (uint8_t)(v >> (6 - 2 * (i % 4))));
    }
    return true;
}
