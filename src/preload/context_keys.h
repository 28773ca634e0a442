#pragma once

#include <stddef.h>
#include <stdint.h>

/* The names of keys in the context of a process (OTEP 4719), by number. */

#define FIND_KEYS_MAX  256
#define FIND_NAMES_MAX 8192

struct found_keys {
    uint32_t n;
    uint16_t at[FIND_KEYS_MAX + 1]; /* in names; the next one is the end */
    char names[FIND_NAMES_MAX];
};

/* Reads the key map of a ProcessContext: hostile bytes. Numbers of damaged ones have no name. */
void found_keys_read(const uint8_t *payload, size_t n, struct found_keys *ret);
