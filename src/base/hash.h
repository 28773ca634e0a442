#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Hashing for in-memory tables. Never stored: the seed differs from process to process, so that
 * input cannot be made to collide.
 */
extern uint64_t hash_seed; /* set once, before any table is made */

/* Draws the seed from the kernel; without it the seed is a constant, which tests rely on. */
void hash_randomize(void);

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 m = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b ^ hash_seed);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t hash_bytes(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t h = hash_mix(len, 0xD6E8FEB86659FD93u), a, b;

    for (; len > 16; p += 16, len -= 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = hash_mix(a ^ h, b);
    }
    a = b = 0;
    if (len >= 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + len - 8, 8);
    } else if (len >= 4) {
        uint32_t lo, hi;
        memcpy(&lo, p, 4);
        memcpy(&hi, p + len - 4, 4);
        a = (uint64_t)lo << 32 | hi;
    } else if (len > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[len >> 1] << 8 | p[len - 1];
    }
    return hash_mix(a ^ h, b ^ 0x8EBC6AF09C88C6E3u);
}
