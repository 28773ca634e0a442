#pragma once

#include "base/bytes.h"

/* Bytes as hexadecimal digits. Digits of either case are read, lower case is written. */

/* What a digit stands for; -1 when it is none. */
int hex_digit(uint8_t c);

/* True when the text is n bytes in exactly 2n digits. */
bool hex_decode(struct bytes text, uint8_t *ret, size_t n);

/* The same of a text in which hyphens do not count, as in a UUID. */
bool hex_decode_hyphened(struct bytes text, uint8_t *ret, size_t n);

/* 2n digits and a NUL; returns `ret`. */
char *hex_encode(const uint8_t *data, size_t n, char *ret);
