#include "base/bytes.h"

#include <errno.h>
#include <stdlib.h>

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct bytes bytes_trim(struct bytes a)
{
    while (a.len > 0 && is_space(a.data[0]))
        a = bytes_from(a, 1);
    while (a.len > 0 && is_space(a.data[a.len - 1]))
        a.len--;
    return a;
}

bool bytes_next_line(struct bytes *rest, struct bytes *ret_line)
{
    if (rest->len == 0)
        return false;
    const uint8_t *end = bytes_find_byte(*rest, '\n');
    size_t len = end ? (size_t)(end - rest->data) : rest->len;
    struct bytes line = {rest->data, len};
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    *rest = bytes_from(*rest, end ? len + 1 : len);
    *ret_line = line;
    return true;
}

bool bytes_to_u64(struct bytes a, uint64_t *ret)
{
    uint64_t v = 0;

    if (a.len == 0)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        uint64_t digit = (uint64_t)a.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *ret = v;
    return true;
}

bool bytes_to_i64(struct bytes a, int64_t *ret)
{
    bool negative = a.len > 0 && a.data[0] == '-';
    uint64_t v;

    if (a.len > 0 && (a.data[0] == '-' || a.data[0] == '+'))
        a = bytes_from(a, 1);
    if (!bytes_to_u64(a, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 32) >= 'a' && (c | 32) <= 'f')
        return (c | 32) - 'a' + 10;
    return -1;
}

bool bytes_to_hex(struct bytes a, uint64_t *ret)
{
    uint64_t v = 0;

    if (a.len > 2 && a.data[0] == '0' && (a.data[1] | 32) == 'x')
        a = bytes_from(a, 2);
    if (a.len == 0)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        int digit = hex_digit(a.data[i]);
        if (digit < 0 || v >> 60)
            return false;
        v = v << 4 | (uint64_t)digit;
    }
    *ret = v;
    return true;
}

bool bytes_to_double(struct bytes a, double *ret)
{
    char text[64];

    if (a.len == 0 || a.len >= sizeof(text) || is_space(a.data[0]))
        return false;
    memcpy(text, a.data, a.len);
    text[a.len] = '\0';
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (*end || end != text + a.len)
        return false;
    *ret = v;
    return true;
}
