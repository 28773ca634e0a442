#include "base/hex.h"

int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(struct bytes text, uint8_t *ret, size_t n)
{
    return text.len == 2 * n && hex_decode_hyphened(text, ret, n);
}

bool hex_decode_hyphened(struct bytes text, uint8_t *ret, size_t n)
{
    size_t n_digits = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '-')
            continue;
        if (hex_digit(text.data[i]) < 0)
            return false;
        n_digits++;
    }
    if (n_digits != 2 * n)
        return false;
    for (size_t i = 0, at = 0; i < text.len; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0)
            continue;
        ret[at / 2] = (uint8_t)(at % 2 ? ret[at / 2] | digit : digit << 4);
        at++;
    }
    return true;
}

char *hex_encode(const uint8_t *data, size_t n, char *ret)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[data[i] >> 4];
        ret[2 * i + 1] = digits[data[i] & 15];
    }
    ret[2 * n] = '\0';
    return ret;
}
