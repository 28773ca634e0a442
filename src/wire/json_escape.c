#include "wire/json_escape.h"

#include <stddef.h>

/* Four hex digits, or -1. */
static int hex4(const uint8_t *p)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        int c = p[i], digit;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            digit = (c | 32) - 'a' + 10;
        else
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

static uint8_t *put_utf8(uint8_t *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (uint8_t)c;
    } else if (c < 0x800) {
        *to++ = (uint8_t)(0xc0 | c >> 6);
        *to++ = (uint8_t)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (uint8_t)(0xe0 | c >> 12);
        *to++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *to++ = (uint8_t)(0x80 | (c & 0x3f));
    } else {
        *to++ = (uint8_t)(0xf0 | c >> 18);
        *to++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        *to++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *to++ = (uint8_t)(0x80 | (c & 0x3f));
    }
    return to;
}

/* What the letter behind a backslash stands for, or 0 when there is no such escape. */
static uint8_t simple_escape(uint8_t c)
{
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return c;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return 0;
    }
}

uint8_t *json_unescape_one(const uint8_t **p, uint8_t *to)
{
    const uint8_t *at = *p + 1;

    if (*at != 'u') {
        *to = simple_escape(*at);
        *p = at + 1;
        return *to ? to + 1 : NULL;
    }
    int c = hex4(at + 1);
    if (c < 0)
        return NULL;
    at += 5;
    if (c >= 0xd800 && c < 0xe000) {
        int low = c < 0xdc00 && at[0] == '\\' && at[1] == 'u' ? hex4(at + 2) : -1;
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            at += 6;
        } else {
            c = 0xfffd;
        }
    }
    *p = at;
    return put_utf8(to, (uint32_t)c);
}
