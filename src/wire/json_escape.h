#pragma once

#include <stdint.h>

/*
 * Reads the escape at *p (a backslash) of a JSON string, moving *p behind it, and writes what it
 * stands for: up to four bytes, never more than the escape has. A surrogate without its other half
 * becomes U+FFFD. Returns the end of what was written, or NULL when it is no escape of JSON's. The
 * text must end in a quote or a zero: neither is ever passed.
 */
uint8_t *json_unescape_one(const uint8_t **p, uint8_t *to);
